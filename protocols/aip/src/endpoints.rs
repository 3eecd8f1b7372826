//! Layer 5: the roles. [`DeviceService`] is what devices and constellations connect to, [`DeviceClient`] a device,
//! [`ConstellationClient`] what assigns tasks to devices.

mod constellation;
mod device;
mod error;
mod executors;
mod service;

pub use constellation::{
    AgentProfile, AssignError, ConstellationClient, ConstellationEvent, ConstellationSettings, DeviceEntry,
    DeviceState, TaskReply, TaskRequest,
};
pub use device::{DeviceClient, DeviceClientSettings, DeviceHandle, FileSink};
pub use error::ClientError;
pub use executors::{ClosureTools, ShellTool};
#[cfg(feature = "mcp")]
pub use executors::{McpExecutor, McpExecutorSettings, McpServerAddress};
pub use service::{
    ClientCaller, CommandBatch, CommandError, ConnectedClient, DeviceService, DeviceTool, DispatchError,
    DispatchedTask, ServiceHooks, ServiceSettings, ServiceTask, TaskOutcome, TaskReport,
};
