//! The gateway over real sockets, before a node that follows a script.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod conversations;
mod fixture;
mod hostile;
mod scripted;
mod streams;
