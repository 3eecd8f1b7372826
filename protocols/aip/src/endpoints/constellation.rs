//! A constellation: it connects to the services of devices, assigns tasks to the devices, and follows the tasks.
//!
//! Invariant: a device has one task at a time, and a task whose device is lost fails.

mod link;
mod profile;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use thiserror::Error;
use tokio::sync::broadcast;

pub use profile::{AgentProfile, DeviceState};

use crate::{
    messages::{JsonObject, sanitize_task_name},
    protocol::{AipProtocol, ProtocolError, Side},
    resilience::{HEARTBEAT_INTERVAL, ReconnectPolicy, ReconnectWaits},
    transport::Connector,
};
use link::DeviceLink;

/// Events that a listener may be behind.
const EVENTS: usize = 256;

/// A device that a constellation assigns tasks to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceEntry {
    /// Its id.
    pub device_id: String,
    /// Its operating system.
    pub os: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// More.
    pub metadata: JsonObject,
}

impl DeviceEntry {
    /// A device of this id.
    pub fn new(device_id: &str) -> Self {
        Self {
            device_id: device_id.to_owned(),
            ..Self::default()
        }
    }
}

/// A task for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRequest {
    /// Its id, which is part of its session's.
    pub task_id: String,
    /// What it asks for.
    pub request: String,
    /// How long it may take from the moment when the device is free.
    pub timeout: Duration,
}

impl TaskRequest {
    /// A task that may take 1000 s, as the protocol has it.
    pub fn new(task_id: &str, request: &str) -> Self {
        Self {
            task_id: task_id.to_owned(),
            request: request.to_owned(),
            timeout: Duration::from_secs(1000),
        }
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReply {
    /// Whether it was completed.
    pub completed: bool,
    /// Its result.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
}

/// Why a task has no end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AssignError {
    /// The constellation has no such device.
    #[error("there is no device '{0}' here; add it first")]
    Unknown(String),
    /// The device's service is not connected.
    #[error("device '{device_id}' is not connected{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    NotConnected {
        /// The device.
        device_id: String,
        /// Why its last connection was not made or ended.
        reason: Option<String>,
    },
    /// The connection was lost under way.
    #[error("device '{0}' was lost while it carried the task out")]
    DeviceLost(String),
    /// The service refused the task.
    #[error("the service of device '{device_id}' refused the task: {reason}")]
    Refused {
        /// The device.
        device_id: String,
        /// What the service says.
        reason: String,
    },
    /// The task took too long.
    #[error("device '{device_id}' did not end the task within {} s", within.as_secs())]
    TimedOut {
        /// The device.
        device_id: String,
        /// How long it had.
        within: Duration,
    },
    /// The task cannot be sent.
    #[error("the task cannot be sent: {0}")]
    Send(#[from] ProtocolError),
}

impl AssignError {
    /// Whether the device is not there, so that another one may do the task.
    pub const fn is_device_lost(&self) -> bool {
        matches!(
            self,
            Self::Unknown(_) | Self::NotConnected { .. } | Self::DeviceLost(_)
        )
    }
}

/// Something that happened to a device or a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConstellationEvent {
    /// A device is connected.
    Connected(String),
    /// A device is lost.
    Lost(String),
    /// A task is so far.
    Progress {
        /// Its device.
        device_id: String,
        /// Its session.
        session_id: String,
        /// What the service says.
        messages: Vec<String>,
    },
}

/// The settings of a [`ConstellationClient`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstellationSettings {
    /// What all tasks together are called. Sessions are `NAME@TASK`, the client's ids `NAME@DEVICE`.
    pub task_name: String,
    /// How often it says that it is there.
    pub heartbeat: Duration,
    /// When it connects to a device's service again: upstream's 5 s, 5 tries.
    pub reconnect: ReconnectPolicy,
    /// How long a service may take to say what a device is.
    pub info_wait: Duration,
}

impl ConstellationSettings {
    /// Settings with this name.
    pub fn new(task_name: &str) -> Self {
        let delay = Duration::from_secs(5);
        Self {
            task_name: sanitize_task_name(task_name),
            heartbeat: HEARTBEAT_INTERVAL,
            reconnect: ReconnectPolicy {
                waits: Some(ReconnectWaits::Linear {
                    step: delay,
                    longest: delay,
                }),
                tries: 5,
            },
            info_wait: Duration::from_secs(10),
        }
    }
}

/// A constellation. Dropping it closes its connections.
pub struct ConstellationClient {
    settings: ConstellationSettings,
    protocol: Arc<AipProtocol>,
    devices: Mutex<BTreeMap<String, Arc<DeviceLink>>>,
    events: broadcast::Sender<ConstellationEvent>,
}

impl ConstellationClient {
    /// A constellation without devices.
    pub fn new(settings: ConstellationSettings) -> Self {
        Self::with_protocol(AipProtocol::new(Side::Client), settings)
    }

    /// The same with middleware, handlers and limits.
    pub fn with_protocol(protocol: AipProtocol, settings: ConstellationSettings) -> Self {
        Self {
            settings,
            protocol: Arc::new(protocol),
            devices: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    fn devices(&self) -> MutexGuard<'_, BTreeMap<String, Arc<DeviceLink>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, device_id: &str) -> Result<Arc<DeviceLink>, AssignError> {
        let link = self.devices().get(device_id).cloned();
        link.ok_or_else(|| AssignError::Unknown(device_id.to_owned()))
    }

    /// Adds a device and keeps a connection to its service; one of the same id is replaced. It has to be called
    /// within a runtime of Tokio.
    pub fn add_device(&self, device: DeviceEntry, connector: impl Connector) {
        let id = device.device_id.clone();
        let link = DeviceLink::start(
            device,
            Arc::new(connector),
            Arc::clone(&self.protocol),
            self.settings.clone(),
            self.events.clone(),
        );
        if let Some(replaced) = self.devices().insert(id, link) {
            replaced.stop();
        }
    }

    /// Removes a device and closes its connection. Its task fails.
    pub fn remove_device(&self, device_id: &str) {
        if let Some(removed) = self.devices().remove(device_id) {
            removed.stop();
        }
    }

    /// Waits until a device's service is connected, at most `within`.
    ///
    /// # Errors
    /// When it is not by then, or is given up.
    pub async fn wait_connected(&self, device_id: &str, within: Duration) -> Result<(), AssignError> {
        let link = self.link(device_id)?;
        let connected = tokio::time::timeout(within, link.wait_connected()).await;
        if connected == Ok(true) {
            Ok(())
        } else {
            Err(link.not_connected())
        }
    }

    /// The devices, in the order of their ids.
    pub fn profiles(&self) -> Vec<AgentProfile> {
        let links: Vec<_> = self.devices().values().cloned().collect();
        links.iter().map(|link| link.profile()).collect()
    }

    /// What happens from now on.
    pub fn events(&self) -> broadcast::Receiver<ConstellationEvent> {
        self.events.subscribe()
    }

    /// Has a device carry a task out, and follows it to its end. While the device is busy, the task waits.
    ///
    /// # Errors
    /// When the task has no end.
    pub async fn assign(&self, device_id: &str, task: TaskRequest) -> Result<TaskReply, AssignError> {
        let link = self.link(device_id)?;
        link.assign(task).await
    }

    /// What a device is, as its service says.
    ///
    /// # Errors
    /// When its service does not say it.
    pub async fn device_info(&self, device_id: &str) -> Result<Value, AssignError> {
        let link = self.link(device_id)?;
        link.device_info().await
    }
}

impl Drop for ConstellationClient {
    fn drop(&mut self) {
        for link in self.devices().values() {
            link.stop();
        }
    }
}
