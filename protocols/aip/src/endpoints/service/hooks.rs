//! What the owner of a service decides and is told.

use async_trait::async_trait;
use serde_json::Value;

use super::{ClientCaller, ConnectedClient, DeviceTool, ServiceTask, TaskOutcome};
use crate::{
    messages::MessageStatus,
    protocol::{FileProgress, Registration},
};

/// The owner of a service. For one client the calls come one after another: connected, its tools, gone.
#[async_trait]
pub trait ServiceHooks: Send + Sync + 'static {
    /// Whether a client may register; `caller` is who it is to its transport. The error is what the client is told.
    async fn admit(&self, registration: &Registration, caller: Option<&ClientCaller>) -> Result<(), String> {
        let _ = (registration, caller);
        Ok(())
    }

    /// A device or a constellation has registered; an error refuses it still.
    async fn connected(&self, client: &ConnectedClient) -> Result<(), String> {
        let _ = client;
        Ok(())
    }

    /// A device has these tools.
    async fn tools(&self, device_id: &str, tools: &[DeviceTool]) {
        let _ = (device_id, tools);
    }

    /// A client that was connected is gone. Until this returns, its id cannot be registered again.
    async fn gone(&self, client: &ConnectedClient) {
        let _ = client;
    }

    /// Whether a client may use a target, a device of this service or another one, and see what it is; `caller` is who the client is
    /// to its transport.
    async fn may_use(&self, target_id: &str, caller: Option<&ClientCaller>) -> bool {
        let _ = (target_id, caller);
        true
    }

    /// Whether tasks may have a target that is not a device of this service.
    async fn has_target(&self, target_id: &str) -> bool {
        let _ = target_id;
        false
    }

    /// What a target is that is not a device of this service.
    async fn target_info(&self, target_id: &str) -> Option<Value> {
        let _ = target_id;
        None
    }

    /// Carries a task out. When [`ServiceTask::cancelled`] is cancelled, the task has ended already: clean up then.
    async fn run_task(&self, task: ServiceTask) -> TaskOutcome;

    /// A client says that a task ended on its side.
    async fn task_note(&self, session_id: &str, status: MessageStatus, error: Option<&str>) {
        let _ = (session_id, status, error);
    }

    /// A client sends a file or a payload. An error is what the client is told; the rest of the file is refused.
    async fn file(&self, client_id: &str, progress: FileProgress) -> Result<(), String> {
        let _ = (client_id, progress);
        Err("files are not taken here".to_owned())
    }
}
