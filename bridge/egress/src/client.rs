//! HTTP to agents outside: connections through the screen, credentials, bounds. It knows no protocol of agents.
//!
//! The one rule: what comes is bounded before it is read, in bytes and in time, and no secret goes to another host than
//! its own, or without TLS over the Internet, or is kept of what the host says.

mod host_client;
mod redact;
mod tls;
mod transport_error;

pub use host_client::{
    AnswerBody, GrpcTransport, HostClient, HostClients, HttpCall, in_utf8, read, read_prefix,
};
pub use redact::Redactor;
pub use tls::CertificatePins;
pub use transport_error::from_error;

/// Largest answer, and largest event of a stream, in bytes: what a node takes in one message, with its bytes written as
/// base64.
pub const MAX_ANSWER: usize = 24 << 20;
