//! One task of a device, from its TASK to its TASK_END.

use tokio::time::timeout;

use super::{DeviceLink, Live, locked};
use crate::{
    endpoints::{AssignError, DeviceState, TaskReply, TaskRequest},
    messages::{ClientMessage, ClientMessageType, MessageStatus, ServerMessageType},
    protocol::ProtocolError,
};

impl DeviceLink {
    pub(in crate::endpoints::constellation) async fn assign(
        &self,
        task: TaskRequest,
    ) -> Result<TaskReply, AssignError> {
        let id = || self.device.device_id.clone();
        let _turn = self.turn.lock().await;
        let live = locked(&self.live).clone();
        let live = live.ok_or_else(|| self.not_connected())?;
        let session_id = format!("{}@{}", self.settings.task_name, task.task_id);
        // One task at a time: there is room.
        let waiting = live.tasks.open(&session_id);
        let mut waiting = waiting.map_err(|_| self.not_connected())?;
        let message = ClientMessage {
            request: Some(task.request),
            task_name: Some(self.settings.task_name.clone()),
            session_id: Some(session_id.clone()),
            ..self.message(ClientMessageType::Task, MessageStatus::Continue)
        };
        *locked(&live.unaccepted) = Some(session_id.clone());
        let mut busy = BusyGuard::new(self, &live, task.task_id, session_id);
        live.outbox.send(message).await.map_err(|error| match error {
            ProtocolError::Transport(_) => AssignError::DeviceLost(id()),
            error => AssignError::Send(error),
        })?;
        let ended = timeout(task.timeout, waiting.wait()).await;
        let ended = ended.map_err(|_| AssignError::TimedOut {
            device_id: id(),
            within: task.timeout,
        })?;
        busy.ended = true;
        let message = ended.ok_or_else(|| AssignError::DeviceLost(id()))?;
        if message.kind == ServerMessageType::Error {
            return Err(AssignError::Refused {
                device_id: id(),
                reason: message.error.unwrap_or_default(),
            });
        }
        Ok(TaskReply {
            completed: message.status == MessageStatus::Completed,
            result: message.result,
            error: message.error,
        })
    }
}

/// A device is busy until this is dropped. If the task has not ended by then, the service is told that it need not go
/// on.
struct BusyGuard<'a> {
    link: &'a DeviceLink,
    live: &'a Live,
    session_id: String,
    ended: bool,
}

impl<'a> BusyGuard<'a> {
    fn new(link: &'a DeviceLink, live: &'a Live, task_id: String, session_id: String) -> Self {
        locked(&link.profile).current_task_id = Some(task_id);
        link.set_state(DeviceState::Busy);
        Self {
            link,
            live,
            session_id,
            ended: false,
        }
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        *locked(&self.live.unaccepted) = None;
        // A connection that was lost meanwhile has its state already.
        let stands = locked(&self.link.live).is_some();
        locked(&self.link.profile).current_task_id = None;
        if !stands {
            return;
        }
        self.link.set_state(DeviceState::Idle);
        let runtime = tokio::runtime::Handle::try_current();
        if let (false, Ok(runtime)) = (self.ended, runtime) {
            let message = ClientMessage {
                session_id: Some(std::mem::take(&mut self.session_id)),
                ..self
                    .link
                    .message(ClientMessageType::TaskEnd, MessageStatus::Failed)
            };
            let outbox = self.live.outbox.clone();
            runtime.spawn(async move { outbox.send(message).await });
        }
    }
}
