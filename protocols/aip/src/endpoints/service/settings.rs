//! The settings of a service.

use std::time::Duration;

use crate::resilience::HEARTBEAT_INTERVAL;

/// The settings of a [`DeviceService`](super::DeviceService).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// How long a device may take for a batch of commands. Upstream programs wait 6000 s, so that a device that drops
    /// a batch silently blocks its task; here 300 s.
    pub command_timeout: Duration,
    /// How long a device may take to list its tools.
    pub tools_timeout: Duration,
    /// How long a task may take. The protocol lets constellations wait 1000 s.
    pub task_timeout: Duration,
    /// How long the hooks may take to end a task that was ended from outside.
    pub task_grace: Duration,
    /// How long a device may take to take up a task that it is given.
    pub dispatch_timeout: Duration,
    /// How long a device may take to say what it is, before the answer is what it said last. Constellations wait 10 s
    /// for the answer, thus less than that.
    pub device_info_wait: Duration,
    /// For how long what a device said about itself needs no asking again.
    pub device_info_fresh: Duration,
    /// After what silence a client is gone: three heartbeats are missing twice over.
    pub silence: Duration,
    /// The agents of a device whose tools are listed when it registers.
    pub agent_names: Vec<String>,
    /// Clients at a time.
    pub max_clients: usize,
    /// Open tasks of one client at a time.
    pub max_tasks_per_client: usize,
    /// Largest file, in bytes.
    pub max_file: u64,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_mins(5),
            tools_timeout: Duration::from_mins(1),
            task_timeout: Duration::from_secs(1000),
            task_grace: Duration::from_secs(10),
            dispatch_timeout: Duration::from_secs(30),
            device_info_wait: Duration::from_secs(8),
            device_info_fresh: Duration::from_mins(1),
            silence: HEARTBEAT_INTERVAL * 6,
            agent_names: Vec::new(),
            max_clients: 1000,
            max_tasks_per_client: 100,
            max_file: 100 << 20,
        }
    }
}
