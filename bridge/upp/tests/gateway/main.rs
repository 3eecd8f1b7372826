//! The gateway over sockets, before a node whose agents do what a message says.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]

mod answers;
mod fixture;
mod hostile;
mod scripted;
