//! A connection on which an agent is registered. `listen` makes it; the streams of sessions outlive their
//! Listen on it.

use std::time::Duration;

use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

use super::AgentState;
use crate::{
    agent::{endpoint::MAX_MESSAGE, error::HubError},
    v1::agent_hub_client::AgentHubClient,
};

/// How long a registration may take.
const REGISTER_WITHIN: Duration = Duration::from_secs(30);

/// Largest message on the Listen stream, in bytes: it holds an id and a type.
const MAX_CONTROL_MESSAGE: usize = 1 << 20;

/// Longest id that is taken from a hub, in bytes. Ids are sent back as headers.
pub(super) const MAX_ID: usize = 1024;

/// A connection on which an agent is registered. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct RegisteredConnection {
    channel: Channel,
    pub(super) client_id: MetadataValue<Ascii>,
}

impl RegisteredConnection {
    /// Connects and registers.
    pub(super) async fn register(agent: &AgentState) -> Result<Self, HubError> {
        let channel = agent.endpoint.connect().await?;
        let request = agent.endpoint.request(agent.runner.registration());
        let response = tokio::time::timeout(REGISTER_WITHIN, control_client(&channel).register(request))
            .await
            .map_err(|_| HubError::Timeout {
                call: "Register",
                seconds: REGISTER_WITHIN.as_secs(),
            })?
            .map_err(|status| HubError::ended("Register", status))?;
        let id = response.into_inner().client_id;
        let client_id = header(&id).ok_or_else(|| HubError::InvalidClientId {
            id: id.chars().take(64).collect(),
        })?;
        Ok(Self { channel, client_id })
    }

    /// A client for the calls besides those of sessions.
    pub(super) fn control_client(&self) -> AgentHubClient<Channel> {
        control_client(&self.channel)
    }

    /// A client for the call of a session.
    pub(super) fn session_client(&self) -> AgentHubClient<Channel> {
        AgentHubClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }
}

fn control_client(channel: &Channel) -> AgentHubClient<Channel> {
    AgentHubClient::new(channel.clone())
        .max_decoding_message_size(MAX_CONTROL_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// `id` as the value of a header, if it can be one.
pub(super) fn header(id: &str) -> Option<MetadataValue<Ascii>> {
    let is_id = (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_id { id.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_headers() {
        for id in ["JOB-5b7f7c8e", "a", &"x".repeat(MAX_ID)] {
            assert_eq!(header(id).unwrap(), id);
        }
        for id in ["", "a\nb", "a b", "\u{e9}", &"x".repeat(MAX_ID + 1)] {
            assert!(header(id).is_none(), "{id:?}");
        }
    }
}
