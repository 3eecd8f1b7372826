//! What this node shows of itself to operators: figures, health, traces. It looks, and changes nothing.

mod face;
mod figures;
mod traces;

pub use face::{Face, bind, serve};
pub use traces::{InvalidCollector, Traces};
