//! The main road between two daemons: a task goes out, is worked on, and its end comes back. One file
//! per matter; all over the loopback, with the Rust SDK, and with bare gRPC where the SDK is too polite.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod address_gone;
mod calls;
mod conversation;
mod doomed;
mod ends;
mod families;
mod figures;
mod life;
mod peers;
mod resolver;
mod session;
mod sizes;
mod stream;
mod stuck;
mod telemetry;
