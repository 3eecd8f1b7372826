//! A device: it registers with a service, executes its commands, and connects again when the connection is lost.
//!
//! Invariant: commands of one connection are executed one batch after another, and each batch is answered.

mod session;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{DeviceState, error::ClientError};
use crate::{
    messages::{
        ClientMessage, ClientMessageType, ClientRole, JsonObject, MessageStatus, RegistrationMetadata,
        SystemInfo, timestamp_now,
    },
    protocol::{
        AipProtocol, FileProgress, Outbox, ProtocolError, Registration, Side, ToolExecutor, file_frames,
        payload_frames,
    },
    resilience::{HEARTBEAT_INTERVAL, ReconnectPolicy, ReconnectSchedule},
    transport::{Connector, TransportError},
};

/// Takes files and payloads that a service sends to a device.
#[async_trait]
pub trait FileSink: Send + Sync + 'static {
    /// A step of a file, or a payload. After an error the rest of the file is refused.
    async fn file(&self, progress: FileProgress) -> Result<(), String>;
}

/// The settings of a [`DeviceClient`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceClientSettings {
    /// Its id.
    pub client_id: String,
    /// What it says about itself.
    pub system_info: SystemInfo,
    /// How often it says that it is there.
    pub heartbeat: Duration,
    /// When it connects again.
    pub reconnect: ReconnectPolicy,
    /// Largest file that it takes, in bytes.
    pub max_file: u64,
}

impl DeviceClientSettings {
    /// A device of this id on this machine.
    pub fn new(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            system_info: SystemInfo::of_this_machine(client_id),
            heartbeat: HEARTBEAT_INTERVAL,
            reconnect: ReconnectPolicy::default(),
            max_file: 100 << 20,
        }
    }

    fn registration(&self) -> Registration {
        let metadata = RegistrationMetadata {
            system_info: Some(self.system_info.clone()),
            registration_time: Some(timestamp_now()),
            platform: Some(self.system_info.platform.clone()),
        };
        let metadata = serde_json::to_value(metadata).ok();
        Registration {
            client_id: self.client_id.clone(),
            role: ClientRole::Device,
            target_id: None,
            metadata: metadata
                .and_then(|value| value.as_object().cloned())
                .unwrap_or_default(),
        }
    }
}

/// A device of a service.
pub struct DeviceClient {
    connector: Arc<dyn Connector>,
    executor: Arc<dyn ToolExecutor>,
    protocol: Arc<AipProtocol>,
    settings: DeviceClientSettings,
    files: Option<Arc<dyn FileSink>>,
    state: watch::Sender<DeviceState>,
    outbox: watch::Sender<Option<Outbox>>,
}

impl DeviceClient {
    /// A device that connects by `connector` and executes commands by `executor`.
    pub fn new(
        connector: impl Connector,
        settings: DeviceClientSettings,
        executor: Arc<dyn ToolExecutor>,
    ) -> Self {
        Self {
            connector: Arc::new(connector),
            executor,
            protocol: Arc::new(AipProtocol::new(Side::Client)),
            settings,
            files: None,
            state: watch::Sender::new(DeviceState::Disconnected),
            outbox: watch::Sender::new(None),
        }
    }

    /// The same with middleware, handlers and limits.
    #[must_use]
    pub fn with_protocol(mut self, protocol: AipProtocol) -> Self {
        self.protocol = Arc::new(protocol);
        self
    }

    /// Files that the service sends go to `sink`. Without one they are refused.
    #[must_use]
    pub fn with_files(mut self, sink: Arc<dyn FileSink>) -> Self {
        self.files = Some(sink);
        self
    }

    /// What sends on the device's connection, whichever it is at the time.
    pub fn handle(&self) -> DeviceHandle {
        DeviceHandle {
            client_id: self.settings.client_id.clone(),
            state: self.state.subscribe(),
            outbox: self.outbox.subscribe(),
        }
    }

    /// Runs the device until `stop`, or until connecting again is given up.
    ///
    /// # Errors
    /// Why the last try failed.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ClientError> {
        let ended = stop.run_until_cancelled(self.keep_connected()).await;
        self.outbox.send_replace(None);
        match ended {
            None => {
                self.state.send_replace(DeviceState::Disconnected);
                Ok(())
            }
            Some(error) => {
                self.state.send_replace(DeviceState::Failed);
                Err(error)
            }
        }
    }

    /// Connects again and again; gives why it gave up.
    async fn keep_connected(&self) -> ClientError {
        let mut schedule = ReconnectSchedule::new(self.settings.reconnect);
        loop {
            let error = match self.one_connection(&mut schedule).await {
                Ok(()) => TransportError::Closed.into(),
                Err(error) => error,
            };
            schedule.lost(tokio::time::Instant::now());
            self.outbox.send_replace(None);
            self.state.send_replace(DeviceState::Disconnected);
            let Some(wait) = schedule.next_wait(rand::random()) else {
                return error;
            };
            if error.is_refusal() {
                tracing::warn!(client_id = self.settings.client_id, %error, ?wait, "a device is refused, and tries again");
            } else {
                tracing::info!(client_id = self.settings.client_id, %error, ?wait, "a device connects again");
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// Sends for a device, and knows its state. Clones are of the same device.
#[derive(Clone)]
pub struct DeviceHandle {
    client_id: String,
    state: watch::Receiver<DeviceState>,
    outbox: watch::Receiver<Option<Outbox>>,
}

impl DeviceHandle {
    /// The device's state.
    pub fn state(&self) -> DeviceState {
        *self.state.borrow()
    }

    /// Waits until the device is in such a state; `false`: it has ended.
    pub async fn wait_for(&mut self, mut wanted: impl FnMut(DeviceState) -> bool) -> bool {
        self.state.wait_for(|state| wanted(*state)).await.is_ok()
    }

    fn outbox(&self) -> Result<Outbox, ProtocolError> {
        self.outbox
            .borrow()
            .clone()
            .ok_or(ProtocolError::Transport(TransportError::Closed))
    }

    /// Sends a payload to the service.
    ///
    /// # Errors
    /// When the device is not connected.
    pub async fn send_payload(
        &self,
        bytes: Bytes,
        filename: Option<&str>,
        mime_type: Option<&str>,
    ) -> Result<(), ProtocolError> {
        self.outbox()?
            .send_frames(payload_frames(bytes, filename, mime_type))
            .await
    }

    /// Sends a file to the service, in chunks. One file at a time: the caller waits for the end of one.
    ///
    /// # Errors
    /// When the device is not connected, or loses its connection.
    pub async fn send_file(
        &mut self,
        filename: &str,
        mime_type: Option<&str>,
        bytes: Bytes,
    ) -> Result<(), ProtocolError> {
        let outbox = self.outbox()?;
        for frames in file_frames(filename, mime_type, bytes) {
            outbox.send_frames(frames).await?;
        }
        Ok(())
    }

    /// Pushes what the device is now.
    ///
    /// # Errors
    /// When the device is not connected.
    pub async fn push_info(&self, info: &SystemInfo) -> Result<(), ProtocolError> {
        self.outbox()?
            .send(info_message(&self.client_id, info, None))
            .await
    }
}

fn info_message(client_id: &str, info: &SystemInfo, answers: Option<String>) -> ClientMessage {
    let mut metadata = JsonObject::new();
    metadata.insert(
        "system_info".to_owned(),
        serde_json::to_value(info).unwrap_or_default(),
    );
    ClientMessage {
        client_id: Some(client_id.to_owned()),
        prev_response_id: answers,
        metadata: Some(metadata),
        timestamp: Some(timestamp_now()),
        ..ClientMessage::new(ClientMessageType::DeviceInfoResponse, MessageStatus::Ok)
    }
}
