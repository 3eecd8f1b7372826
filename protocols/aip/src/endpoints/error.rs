//! Why a client of a service is not connected.

use std::time::Duration;

use thiserror::Error;

use crate::{
    messages::{MessageStatus, ServerMessageType},
    protocol::{AnyMessage, Connection, ProtocolError, REGISTER_WITHIN, Received, Registration},
    transport::TransportError,
};

/// Why a client of a service is not connected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A frame could not be read or sent.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The service refused the registration.
    #[error("the service refused the registration of '{client_id}': {reason}")]
    Refused {
        /// Who registered.
        client_id: String,
        /// What the service says.
        reason: String,
    },
    /// The service did not answer the registration.
    #[error("the service did not answer the registration within {} s", .0.as_secs())]
    NoAnswer(Duration),
}

impl ClientError {
    /// Whether the service does not want the client, rather than not being there.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Transport(TransportError::Rejected { .. })
        )
    }
}

/// Registers on a new connection, and waits for the service's answer.
pub(super) async fn register(
    connection: &mut Connection,
    registration: &Registration,
) -> Result<(), ClientError> {
    connection.outbox().send(registration.message()).await?;
    let refused = |reason: Option<String>| ClientError::Refused {
        client_id: registration.client_id.clone(),
        reason: reason.unwrap_or_else(|| "it does not say why".to_owned()),
    };
    let answered = async {
        loop {
            match connection.next().await {
                None => return Err(TransportError::Closed.into()),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(Received::Message(AnyMessage::Server(message)))) => match message.kind {
                    ServerMessageType::Heartbeat if message.status == MessageStatus::Ok => return Ok(()),
                    ServerMessageType::Error => return Err(refused(message.error)),
                    _ => {}
                },
                Some(Ok(_)) => {}
            }
        }
    };
    let answered = tokio::time::timeout(REGISTER_WITHIN, answered).await;
    answered.unwrap_or(Err(ClientError::NoAnswer(REGISTER_WITHIN)))
}
