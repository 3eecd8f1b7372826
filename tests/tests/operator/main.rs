//! What an operator does with the programs: looks, finds out why, upgrades, backs up, installs. One file per matter.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod backup;
mod log;
mod terminal;
mod top;
mod trace;
mod unread_output;
mod upgrade;
