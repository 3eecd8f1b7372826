//! The proof: daemons under everything that breaks such systems, with real processes and real networks. One
//! file per matter; each says at its top how to run its long version.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod absent_peer;
mod crash;
mod faults;
mod hostile;
mod network_lab;
mod order;
mod soak;
mod streaming;

/// A size from this variable, for the long versions.
fn size(variable: &str, default: usize) -> usize {
    let Some(value) = std::env::var_os(variable) else {
        return default;
    };
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{variable} has to be a number, not {}", value.display()))
}
