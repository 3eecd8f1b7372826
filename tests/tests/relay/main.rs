//! The relay as a process: its registry, its federation, its faces, its circuits. One file per matter; all on free
//! ports of the loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod agents;
mod anycast;
mod autonat;
mod away;
mod ceilings;
mod circuits;
mod clock;
mod commands;
mod dashboard;
mod descriptors;
mod disk;
mod doctor;
mod doubles;
mod faces;
mod federation;
mod front;
mod hops;
mod interfaces;
mod large;
mod load;
mod mcp;
mod moved;
mod nat;
mod poison;
mod registry;
mod signing;
mod slow;
mod start;
mod tls;
mod traces;
mod websocket;
