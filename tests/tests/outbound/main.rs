//! Tasks that are sent by URL, against agents that this test makes: who is let in, what goes wrong, what is hostile, and
//! what is in doubt. Well-behaved agents are in `foreign`, on the official SDK.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod agent;
mod answers;
mod auth;
mod command;
mod doubt;
mod hostile;
mod liberal;
mod screen;
mod sealed;
mod trace;
