//! The gateway over real sockets, before a node that follows a script.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod bindings;
mod conversations;
mod fixture;
mod foreign;
mod hostile;
mod http3_client;
mod outbound;
mod outside_streams;
mod paths;
mod routing;
mod scripted;
mod scripted_agent;
mod senders;
mod socket_clients;
mod streams;
