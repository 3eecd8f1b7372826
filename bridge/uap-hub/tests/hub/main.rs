//! The gateway as clients meet it: over sockets, with a node whose agent side is remembered.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod fixture;
mod hostile;
mod identity;
mod joined;
mod sessions;
mod waiting;
