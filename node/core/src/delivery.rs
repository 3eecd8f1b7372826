//! Delivery between two nodes, as state without sockets or clocks: what waits for a peer
//! ([`outbox`]), what a peer sent ([`inbox`]), what it sent before ([`dedup`]), and the windows of
//! a streamed artifact ([`artifact`]).

pub mod artifact;
pub mod dedup;
pub mod inbox;
pub mod outbox;
