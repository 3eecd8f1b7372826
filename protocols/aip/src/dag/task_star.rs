//! A task of a graph.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::messages::{JsonObject, wire_enum};

wire_enum! {
    /// The status of a [`TaskStar`].
    TaskStarStatus, "status of a task" {
        /// Its dependencies are met; it has not started.
        Pending = "pending",
        /// It runs.
        Running = "running",
        /// It was completed.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// It was cancelled, or a dependency cannot be met any more.
        Cancelled = "cancelled",
        /// It waits for its dependencies.
        WaitingDependency = "waiting_dependency",
    }
}

impl TaskStarStatus {
    /// Whether it does not change any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether the task has not started.
    pub const fn is_unstarted(self) -> bool {
        matches!(self, Self::Pending | Self::WaitingDependency)
    }
}

/// How urgent a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskPriority {
    /// 1.
    Low = 1,
    /// 2.
    #[default]
    Medium = 2,
    /// 3.
    High = 3,
    /// 4: before all others.
    Critical = 4,
}

impl Serialize for TaskPriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*self as u8)
    }
}

impl<'de> Deserialize<'de> for TaskPriority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(Self::Low),
            2 => Ok(Self::Medium),
            3 => Ok(Self::High),
            4 => Ok(Self::Critical),
            other => Err(serde::de::Error::custom(format!(
                "unknown priority {other}; known are 1 to 4"
            ))),
        }
    }
}

/// A task of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStar {
    /// Its id.
    pub task_id: String,
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// What it asks for.
    #[serde(default)]
    pub description: String,
    /// What helps its device.
    #[serde(default)]
    pub tips: Vec<String>,
    /// The device that carries it out.
    #[serde(default)]
    pub target_device_id: Option<String>,
    /// The kind of device that it wants.
    #[serde(default)]
    pub device_type: Option<String>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: TaskPriority,
    /// Its status. A graph sets it.
    #[serde(default = "pending")]
    pub status: TaskStarStatus,
    /// What it returned.
    #[serde(default)]
    pub result: Option<Value>,
    /// Why it failed or was cancelled.
    #[serde(default)]
    pub error: Option<String>,
    /// How long it may take, in seconds.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// How often it may be tried again after a failure.
    #[serde(default)]
    pub retry_count: u32,
    /// How often it was tried again.
    #[serde(default)]
    pub current_retry: u32,
    /// More for its device.
    #[serde(default)]
    pub task_data: JsonObject,
}

const fn pending() -> TaskStarStatus {
    TaskStarStatus::Pending
}

impl TaskStar {
    /// A task that asks for this.
    pub fn new(task_id: &str, description: &str) -> Self {
        Self {
            task_id: task_id.to_owned(),
            name: task_id.to_owned(),
            description: description.to_owned(),
            tips: Vec::new(),
            target_device_id: None,
            device_type: None,
            priority: TaskPriority::Medium,
            status: TaskStarStatus::Pending,
            result: None,
            error: None,
            timeout: None,
            retry_count: 0,
            current_retry: 0,
            task_data: JsonObject::new(),
        }
    }

    /// The same for this device.
    #[must_use]
    pub fn on(mut self, device_id: &str) -> Self {
        self.target_device_id = Some(device_id.to_owned());
        self
    }

    /// What its device is asked for: the description and the tips.
    pub fn request(&self) -> String {
        let mut text = self.description.clone();
        if !self.tips.is_empty() {
            text.push_str("\n\nTips:");
        }
        for tip in &self.tips {
            text.push_str("\n- ");
            text.push_str(tip);
        }
        text
    }
}
