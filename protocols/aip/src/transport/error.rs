//! Why a connection was not made, or ended.

use std::path::PathBuf;

use thiserror::Error;

/// Why a connection was not made, or ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A URL is not one of a service.
    #[error("{url} is not the URL of a service: {reason}; write ws://HOST:PORT/ws or wss://HOST:PORT/ws")]
    InvalidUrl {
        /// The URL, without its query.
        url: String,
        /// Why.
        reason: &'static str,
    },
    /// A file of certificates cannot be used.
    #[error("the certificates in {} cannot be used: {reason}", file.display())]
    Certificates {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The service cannot be reached.
    #[error("no connection to {address}: {reason}")]
    Connect {
        /// Its address.
        address: String,
        /// Why.
        reason: String,
    },
    /// The service refused the connection.
    #[error("{address} refused the connection with HTTP {status}; {}", advice(*status))]
    Rejected {
        /// Its address.
        address: String,
        /// Its status.
        status: u16,
    },
    /// A message of the peer has too many bytes.
    #[error("the peer sent a message of more than {max} bytes")]
    TooLarge {
        /// How many are allowed.
        max: usize,
    },
    /// The peer broke the transport's rules.
    #[error("the peer broke the rules of the connection: {reason}")]
    Protocol {
        /// How.
        reason: String,
    },
    /// The connection has ended.
    #[error("the connection has ended")]
    Closed,
}

/// What to do about a status of HTTP.
const fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "check the token",
        429 => "its caller has too many connections or requests; try again later",
        500.. => "the service has a fault; try again later",
        _ => "check the path of the URL",
    }
}
