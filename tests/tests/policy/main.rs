//! Who may send which task: real daemons, a real bridge and the command, with rules, limits, trust and an audit log.
//! docs/security.md names these tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod audit;
mod bridge;
mod command;
mod limits;
mod names;
mod reload;
mod rotation;
mod rules;
mod scene;
mod table;
mod web;
