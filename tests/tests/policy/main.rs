//! Who may send which task: real daemons, a real bridge and the command, with rules, limits, trust and an audit log.
//! docs/security.md names these tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod access;
mod audit;
mod bridge_callers;
mod key_rotation;
mod limits;
mod policy_command;
mod reload;
mod rules;
mod setup;
mod threat_table;
mod verified_names;
mod web_server;
