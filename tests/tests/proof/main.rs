//! The proof: what the design promises, under everything that breaks such systems. One file per matter,
//! all against real daemons; docs/design.md has the argument and the figures.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod hostile;
