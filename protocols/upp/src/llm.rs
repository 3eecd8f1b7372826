//! `llm()`: a model with its tools. It asks the model, runs the tools that the model calls, and asks again.
//!
//! [`Llm::generate`] returns the turn, [`Llm::stream`] returns its events too, and [`Llm::start`] hands out
//! the loop itself, one step at a time ([`TurnRun`]); the first two stand on the third, so that all three
//! agree.

mod call;
mod inference;
mod options;
mod tool_runner;
mod turn_run;

pub use self::{
    call::{Call, Input},
    options::{Llm, LlmOptions, llm},
    turn_run::{Inference, TurnRun},
};
