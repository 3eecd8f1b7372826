//! Tasks that are sent by URL, against agents that this test makes: who is let in, what goes wrong, what is hostile, and
//! what is in doubt. Well-behaved agents are in `foreign`, on the official SDK.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod auth;
mod egress_filter;
mod hostile;
mod http_agent;
mod message_answers;
mod pieces;
mod sealed;
mod send_command;
mod tolerance;
mod trace;
mod uncertain_delivery;
