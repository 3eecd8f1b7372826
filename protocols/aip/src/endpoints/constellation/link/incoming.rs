//! What a device's service sends to a constellation, and where it belongs.

use super::{DeviceLink, Live, locked};
use crate::{
    endpoints::{ConstellationEvent, error::ClientError},
    messages::{ServerMessage, ServerMessageType},
    protocol::{AnyMessage, Connection, ProtocolError, Received, ReplyMatch},
};

impl DeviceLink {
    pub(super) async fn receive(&self, connection: &mut Connection, live: &Live) -> Result<(), ClientError> {
        let peer = &self.device.device_id;
        while let Some(frame) = connection.next().await {
            self.heard();
            match frame {
                Ok(Received::Message(message)) => {
                    self.protocol.handle_message(peer, &message, &live.outbox).await;
                    if let AnyMessage::Server(message) = message {
                        self.server_message(message, live);
                    }
                }
                Ok(Received::Custom(message)) => {
                    self.protocol.handle(peer, &message, &live.outbox).await;
                }
                Ok(Received::Transfer(_) | Received::Binary(..)) => {
                    tracing::debug!(peer, "a constellation does not take files");
                }
                Err(error @ ProtocolError::Transport(_)) => return Err(error.into()),
                Err(error) => tracing::warn!(peer, %error, "a frame of a service is not understood"),
            }
        }
        Ok(())
    }

    fn server_message(&self, message: ServerMessage, live: &Live) {
        match message.kind {
            ServerMessageType::Heartbeat => {
                let mut unaccepted = locked(&live.unaccepted);
                if unaccepted.is_some() && *unaccepted == message.session_id {
                    *unaccepted = None;
                }
            }
            ServerMessageType::TaskEnd => {
                if let Some(session_id) = message.session_id.clone() {
                    live.tasks.resolve(&session_id, message);
                }
            }
            ServerMessageType::Task => {
                let _ = self.events.send(ConstellationEvent::Progress {
                    device_id: self.device.device_id.clone(),
                    session_id: message.session_id.unwrap_or_default(),
                    messages: message.messages.unwrap_or_default(),
                });
            }
            ServerMessageType::DeviceInfoResponse => {
                if let Some(id) = message.response_id.clone() {
                    live.infos.resolve(&id, message);
                }
            }
            ServerMessageType::Error => self.error(message, live),
            ServerMessageType::Command | ServerMessageType::DeviceInfoRequest => {}
        }
    }

    /// An ERROR belongs to the question or the task that it names, else to the TASK that is not accepted yet.
    fn error(&self, message: ServerMessage, live: &Live) {
        tracing::info!(
            device_id = self.device.device_id,
            error = message.error,
            "a service reports an error"
        );
        if let Some(id) = &message.response_id
            && live.infos.resolve(id, message.clone()) != ReplyMatch::Unknown
        {
            return;
        }
        let session = message.session_id.clone();
        if let Some(session_id) = session.or_else(|| locked(&live.unaccepted).take()) {
            live.tasks.resolve(&session_id, message);
        }
    }
}
