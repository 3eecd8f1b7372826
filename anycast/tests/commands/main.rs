//! The program `anycast` as its callers see it, under its own name and those of the other programs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

mod bridge_program;
mod credentials;
mod daemon_program;
mod examples;
mod hints;
mod homes;
mod invites;
mod peer_names;
mod seal;
mod tasks;
#[cfg(feature = "uamp")]
mod uamp;
mod usage;
