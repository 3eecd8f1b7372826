//! Execution agents against a hub that does what a test says: over TCP, with the real transport.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod endings;
mod example;
mod hub_endpoint;
mod proposals;
mod reconnecting;
mod scripted_hub;
mod sessions;
