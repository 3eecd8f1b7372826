//! The A2A gateway: what HTTP clients of A2A 0.3 and 1.0 say, in the terms of the mesh and back.
//!
//! The files here are PURE, without I/O, clock or randomness, but for `mesh`, which carries requests out on a
//! [`Gateway`](crate::gateway::Gateway). The HTTP front is `crate::http`.

mod data;
pub mod error;
mod fields;
mod labels;
pub mod message;
mod part;
pub mod task;
mod time;
pub mod version;

#[cfg(test)]
mod fidelity;
