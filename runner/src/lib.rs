//! Makes an agent of a program that knows nothing of AgentAnycast: a script, a process that speaks JSON lines, a
//! service. `anycast run` uses it over the SDK, and the daemon in process, both by the agent side of the gateway port
//! (`agentanycast_gateway::agents`).
//!
//! A [`Backend`] does the tasks of one agent; a [`Runner`] takes them, and keeps what all backends have in common: the
//! slots, the time-out, questions, retries, and the ledger of what was started. Backends that start processes do it by a
//! [`Supervisor`](process::Supervisor), so that none outlives the runner.

#![forbid(unsafe_code)]

pub mod acp;
mod backend;
pub mod configured;
mod from_settings;
mod host_want;
pub mod http;
mod http_client;
pub mod jsonl;
mod kept_runner;
mod ledger;
mod log_words;
pub mod mcp;
mod parts;
mod piped_child;
pub mod process;
pub mod program;
mod program_lines;
mod progress_rate;
mod read_pace;
mod restart_pause;
mod result_stream;
pub mod run_helper;
mod runner;
mod service_wait;
mod stoppable_task;
mod task_content;
mod tracked_task;

pub use backend::{Attempt, Backend, RunError, TaskResult};
pub use from_settings::{check_program, program_of};
pub use kept_runner::{RunnerObserver, keep_serving};
pub use log_words::show_words_of_programs;
pub use runner::{AgentSettings, Runner, RunnerError, RunnerState, RunnerStop};
pub use service_wait::wait_for_service;
