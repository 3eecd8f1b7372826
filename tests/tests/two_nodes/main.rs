//! The main road between two daemons: a task goes out, is worked on, and its end comes back. One file
//! per matter; all over the loopback, with the Rust SDK, and with bare gRPC where the SDK is too polite.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod address_gone;
mod artifact_streams;
mod conversation;
mod deployed_peer;
mod dns_reload;
mod invalid_requests;
mod ip_families;
mod kept_skills;
mod message_sizes;
mod metrics;
mod node_agents;
mod peers;
mod sdk_access;
mod session;
mod several_processes;
mod stuck_agents;
mod task_failures;
mod task_kills_agent;
mod task_lifecycle;
mod telemetry;
