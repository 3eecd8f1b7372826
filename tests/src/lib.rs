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
pub mod bare_grpc;
pub mod bench_targets;
pub mod bridge;
pub mod browser;
pub mod bystander;
pub mod cli;
pub mod daemon;
pub mod daemon_pair;
pub mod fake_clock;
pub mod fake_systemctl;
pub mod gateway_pair;
pub mod host_address;
pub mod http;
pub mod name_server;
pub mod nat;
pub mod network_lab;
pub mod proc_stats;
pub mod raw_peer;
pub mod raw_session;
pub mod relay;
pub mod rpc;
pub mod small_disk;
mod spawn;
pub mod stdio_mcp;
pub mod task_assertions;
pub mod trace_collector;
pub mod unread_pipe;
pub mod user;
pub mod wait;
pub mod webhook_receiver;

pub use bridge::Bridge;
pub use daemon::{Daemon, DaemonBuilder};
pub use daemon_pair::{DaemonPair, TransportKind};
pub use relay::TestRelay;
pub use user::User;
pub use wait::{LIMIT, eventually, eventually_within, report_skip, skip_unless_required, within};
