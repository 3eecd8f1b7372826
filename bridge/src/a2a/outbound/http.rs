//! HTTP to agents outside: connections through the screen, credentials, bounds. Nothing of A2A.
//!
//! The one rule: what comes is bounded before it is read, in bytes and in time, and no secret goes to another host than
//! its own, or without TLS over the Internet, or is kept of what the host says.

mod client;
mod credentials;
mod redact;
mod transport_error;

use credentials::percent_encoded;

pub(crate) use client::{GrpcClient, GrpcClientV03, HostClient, HostClients, HttpCall, read, read_prefix};
pub(crate) use transport_error::from_error;

/// Largest answer, and largest event of a stream, in bytes: what a node takes in one message, with its bytes written as
/// base64.
pub(crate) const MAX_ANSWER: usize = 24 << 20;
