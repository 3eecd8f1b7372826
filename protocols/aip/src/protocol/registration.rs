//! The first frame of a client: who it is. PURE.

use std::time::Duration;

use thiserror::Error;

use crate::messages::{
    ClientMessage, ClientMessageType, ClientRole, JsonObject, MessageStatus, ServerMessage,
    ServerMessageType, timestamp_now,
};

/// How long a client may take until it registers: the protocol's figure.
pub const REGISTER_WITHIN: Duration = Duration::from_secs(30);

/// Longest id of a client, in bytes.
const LONGEST_ID: usize = 256;

/// Largest metadata of a registration, in bytes.
const LARGEST_METADATA: usize = 256 << 10;

/// A client as it registered. It is this one until its connection ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// Its id.
    pub client_id: String,
    /// What it is.
    pub role: ClientRole,
    /// The device that a constellation is for.
    pub target_id: Option<String>,
    /// What it says about itself.
    pub metadata: JsonObject,
}

/// Why a client is not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistrationRefusal {
    /// Its first frame was not `register`.
    #[error("the first message has to be \"register\", not {kind:?}")]
    NotFirst {
        /// What it was.
        kind: String,
    },
    /// Its first frame began a file, or was a part of one.
    #[error("the first message has to be \"register\", not a file")]
    FileFirst,
    /// It has no id that can be used.
    #[error("client_id has to have 1 to {LONGEST_ID} bytes and no control characters")]
    ClientId,
    /// The id of the device that it is for cannot be one.
    #[error("target_id has to have at most {LONGEST_ID} bytes and no control characters")]
    TargetId,
    /// It says too much about itself.
    #[error("metadata has {size} bytes; at most {LARGEST_METADATA} are allowed")]
    Metadata {
        /// Its bytes.
        size: usize,
    },
    /// Another client has its id.
    #[error("client_id '{client_id}' is already registered; duplicate registrations are not allowed")]
    Duplicate {
        /// The id.
        client_id: String,
    },
    /// The device that it is for is not here.
    #[error("Target device '{target_id}' is not connected")]
    Target {
        /// The device.
        target_id: String,
    },
    /// Its credentials are for another id.
    #[error("client_id '{client_id}' is not that of the token, which is for '{own}'")]
    OtherId {
        /// The id that it wants.
        client_id: String,
        /// The id that its credentials are for.
        own: String,
    },
    /// The owner of the service does not want it.
    #[error("{0}")]
    NotAdmitted(String),
}

impl RegistrationRefusal {
    /// The frame that says so; a long text is cut.
    pub fn message(&self) -> ServerMessage {
        ServerMessage {
            timestamp: Some(timestamp_now()),
            ..ServerMessage::error(self.to_string())
        }
    }
}

/// Whether an id can be used.
pub(crate) fn is_wire_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && !id.chars().any(char::is_control)
}

impl Registration {
    /// The registration that a client's first message is.
    ///
    /// # Errors
    /// When it is none.
    pub fn from_first(message: ClientMessage) -> Result<Self, RegistrationRefusal> {
        if message.kind != ClientMessageType::Register {
            return Err(RegistrationRefusal::NotFirst {
                kind: message.kind.to_string(),
            });
        }
        let client_id = message.client_id.filter(|id| is_wire_id(id));
        let client_id = client_id.ok_or(RegistrationRefusal::ClientId)?;
        let target_id = message.target_id.filter(|id| !id.is_empty());
        if target_id.as_ref().is_some_and(|id| !is_wire_id(id)) {
            return Err(RegistrationRefusal::TargetId);
        }
        let metadata = message.metadata.unwrap_or_default();
        let size = serde_json::to_string(&metadata).map_or(usize::MAX, |text| text.len());
        if size > LARGEST_METADATA {
            return Err(RegistrationRefusal::Metadata { size });
        }
        Ok(Self {
            client_id,
            role: message.client_type,
            target_id,
            metadata,
        })
    }

    /// The frame that a client registers by.
    pub fn message(&self) -> ClientMessage {
        ClientMessage {
            client_type: self.role,
            client_id: Some(self.client_id.clone()),
            target_id: self.target_id.clone(),
            metadata: Some(self.metadata.clone()),
            timestamp: Some(timestamp_now()),
            ..ClientMessage::new(ClientMessageType::Register, MessageStatus::Ok)
        }
    }

    /// Whether a later frame is this client's; the error is the text for the client.
    ///
    /// A heartbeat's role is not compared: constellations of upstream programs leave it at "device".
    ///
    /// # Errors
    /// When the frame claims another id or role.
    pub fn check(&self, message: &ClientMessage) -> Result<(), &'static str> {
        if message.client_id.as_ref().is_some_and(|id| *id != self.client_id) {
            return Err("client_id does not match the registered connection");
        }
        if message.kind != ClientMessageType::Heartbeat && message.client_type != self.role {
            return Err("client_type does not match the registered connection");
        }
        Ok(())
    }
}

/// A heartbeat of a service: a registration, a task or a heartbeat of a client is accepted.
pub(crate) fn heartbeat_ok() -> ServerMessage {
    ServerMessage {
        timestamp: Some(timestamp_now()),
        response_id: Some(uuid::Uuid::new_v4().to_string()),
        ..ServerMessage::new(ServerMessageType::Heartbeat, MessageStatus::Ok)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn register() -> ClientMessage {
        ClientMessage {
            client_id: Some("d".to_owned()),
            ..ClientMessage::new(ClientMessageType::Register, MessageStatus::Ok)
        }
    }

    #[test]
    fn only_a_register_with_an_id_registers() {
        assert_eq!(Registration::from_first(register()).unwrap().client_id, "d");
        let heartbeat = ClientMessage {
            kind: ClientMessageType::Heartbeat,
            ..register()
        };
        let refusal = Registration::from_first(heartbeat).unwrap_err();
        assert!(matches!(refusal, RegistrationRefusal::NotFirst { kind } if kind == "heartbeat"));
        for id in [
            None,
            Some(String::new()),
            Some("a\nb".to_owned()),
            Some("x".repeat(257)),
        ] {
            let message = ClientMessage {
                client_id: id,
                ..register()
            };
            assert_eq!(
                Registration::from_first(message),
                Err(RegistrationRefusal::ClientId)
            );
        }
        let message = ClientMessage {
            target_id: Some("x".repeat(257)),
            ..register()
        };
        let refusal = Registration::from_first(message).unwrap_err();
        assert_eq!(refusal, RegistrationRefusal::TargetId);
        let mut large = JsonObject::new();
        large.insert("a".to_owned(), json!("x".repeat(300 << 10)));
        let message = ClientMessage {
            metadata: Some(large),
            ..register()
        };
        let refusal = Registration::from_first(message).unwrap_err();
        assert!(matches!(refusal, RegistrationRefusal::Metadata { .. }));
    }

    #[test]
    fn id_and_role_stay_but_for_a_heartbeats_role() {
        let registered = Registration {
            role: ClientRole::Constellation,
            ..Registration::from_first(register()).unwrap()
        };
        let message = |kind, role, id: Option<&str>| ClientMessage {
            client_type: role,
            client_id: id.map(str::to_owned),
            ..ClientMessage::new(kind, MessageStatus::Ok)
        };
        let (task, beat) = (ClientMessageType::Task, ClientMessageType::Heartbeat);
        let (device, constellation) = (ClientRole::Device, ClientRole::Constellation);
        assert!(registered.check(&message(task, constellation, None)).is_ok());
        assert!(registered.check(&message(beat, device, Some("d"))).is_ok());
        assert!(registered.check(&message(task, device, Some("d"))).is_err());
        assert!(registered.check(&message(beat, device, Some("e"))).is_err());
    }
}
