//! Fixtures for the end-to-end tests: real daemons in temporary homes, pairs of them, agents on them, and
//! strangers that attack them.
//!
//! A fixture fails its test by a panic that says what was expected and what the daemon said. It ends
//! only processes that it started itself, and waits for conditions with deadlines, never for time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a fixture fails its test by a panic"
)]

pub mod agent;
pub mod bare;
pub mod bridge;
pub mod browser;
pub mod calls;
pub mod collector;
pub mod command;
pub mod daemon;
pub mod disk;
pub mod ending;
pub mod fake_clock;
pub mod http;
pub mod lab;
pub mod names;
pub mod nat;
pub mod pair;
pub mod process;
mod programs;
pub mod relay;
pub mod rpc;
pub mod service_manager;
pub mod stranger;
pub mod unread;
pub mod user;
pub mod verdict;
pub mod wait;
pub mod webhook;

pub use bridge::Bridge;
pub use daemon::{Builder, Daemon};
pub use pair::{Pair, Transport};
pub use relay::Relay;
pub use user::User;
pub use wait::{LIMIT, eventually, eventually_within, lacking, skipped, within};
