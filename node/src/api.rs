//! The gRPC face of the node: translates calls for the engine and answers back; decides nothing.

pub mod auth;
pub mod authority;
pub mod listen;
