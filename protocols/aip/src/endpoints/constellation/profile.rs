//! What a constellation knows about a device: its settings, and what its service says.

use crate::messages::JsonObject;

/// The state of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceState {
    /// There is no connection.
    #[default]
    Disconnected,
    /// The connection is being made.
    Connecting,
    /// The connection stands.
    Connected,
    /// Connecting was given up.
    Failed,
    /// It is being registered.
    Registering,
    /// It has a task.
    Busy,
    /// It has no task.
    Idle,
}

impl DeviceState {
    /// Whether tasks can be assigned.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Busy | Self::Idle)
    }
}

/// What a constellation knows about a device.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentProfile {
    /// Its id.
    pub device_id: String,
    /// Where its service is.
    pub server_url: String,
    /// Its operating system.
    pub os: String,
    /// What it can do: as the settings say, and as it said itself.
    pub capabilities: Vec<String>,
    /// More; `system_info` is what the device said.
    pub metadata: JsonObject,
    /// Its state.
    pub status: DeviceState,
    /// When its service was heard last, ISO 8601.
    pub last_heartbeat: Option<String>,
    /// Tries to connect that failed one after another.
    pub connection_attempts: u32,
    /// Tries before it is given up.
    pub max_retries: u32,
    /// The task that it has.
    pub current_task_id: Option<String>,
}
