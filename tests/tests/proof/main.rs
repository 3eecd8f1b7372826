//! The proof: daemons under everything that breaks such systems, with real processes and real networks. One
//! file per matter; each says at its top how to run its long version.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod faults;
mod soak;
