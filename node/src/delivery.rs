//! Delivery between two nodes, as pure state: what to send, what to take, what to acknowledge.
//!
//! Nothing in here does I/O, reads a clock or draws a random number: each part is a struct that is told
//! what happened and answers with what follows, so that tests can put it through every order of events.
//! It may touch `agentanycast_proto` messages and nothing else of the workspace.

pub mod artifact;
