//! Why a frame was not handled or sent.

use thiserror::Error;

use crate::{messages::DecodeError, transport::TransportError};

/// Why a frame was not handled or sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The connection broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A frame is not a message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A frame is not what has to come now.
    #[error("{0}")]
    Unexpected(String),
}
