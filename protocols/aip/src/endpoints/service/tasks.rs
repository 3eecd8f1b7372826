//! Tasks: opened by a client's TASK, carried out by the hooks, ended by TASK_END.

use std::sync::Arc;

use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    ClientCaller, CommandBatch, CommandError, DeviceService, TaskOutcome,
    entry::ClientEntry,
    sessions::{EndCause, SessionRefusal},
};
use crate::{
    messages::{
        ClientMessage, ClientRole, CommandResult, MessageStatus, ServerMessage, ServerMessageType,
        sanitize_task_name, timestamp_now,
    },
    protocol::{Outbox, ProtocolError, is_wire_id},
};

/// A task that the hooks carry out.
pub struct ServiceTask {
    /// Its session.
    pub session_id: String,
    /// Its name, which is safe as a name of a file.
    pub task_name: String,
    /// What it asks for.
    pub request: String,
    /// The client that created it.
    pub owner_id: String,
    /// What that client is.
    pub owner_role: ClientRole,
    /// Who that client is to its transport, by [`DeviceService::serve_caller`].
    pub owner_caller: Option<ClientCaller>,
    /// The device or other target that carries it out.
    pub target_id: String,
    /// The task has ended from outside: its owner or device is gone, or it took too long.
    pub cancelled: CancellationToken,
    service: DeviceService,
    owner: Outbox,
}

impl ServiceTask {
    /// Has the task's device execute commands in the task's session.
    ///
    /// # Errors
    /// When there are no results.
    pub async fn command(&self, mut batch: CommandBatch) -> Result<Vec<CommandResult>, CommandError> {
        batch.context.session_id = Some(self.session_id.clone());
        batch.task_name.get_or_insert_with(|| self.task_name.clone());
        self.service.command(&self.target_id, batch).await
    }

    /// Tells a constellation how far its task is. A device is not told: TASK would start one there.
    pub async fn progress(&self, messages: Vec<String>) {
        if self.owner_role != ClientRole::Constellation || self.cancelled.is_cancelled() {
            return;
        }
        let message = ServerMessage {
            session_id: Some(self.session_id.clone()),
            task_name: Some(self.task_name.clone()),
            messages: Some(messages),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::Task, MessageStatus::Continue)
        };
        let _ = self.owner.send(message).await;
    }
}

/// A session that was opened and is to be carried out.
pub(super) struct OpenTask {
    session_id: String,
    task_name: String,
    request: String,
    target_id: String,
    device: Option<Arc<ClientEntry>>,
    ended: watch::Receiver<Option<EndCause>>,
    outcome: Option<oneshot::Sender<TaskOutcome>>,
}

impl DeviceService {
    /// Ends a task that is under way, as its owner could.
    pub fn end_task(&self, session_id: &str) {
        self.0.sessions.end(session_id, EndCause::OwnerEnded);
    }

    /// A TASK of a client: the opened task, or the text of a refusal.
    pub(super) async fn open_task(
        &self,
        owner: &Arc<ClientEntry>,
        message: &ClientMessage,
    ) -> Result<OpenTask, String> {
        let request = message.request.as_deref().unwrap_or_default();
        if request.trim().is_empty() {
            return Err("a task needs a request".to_owned());
        }
        let target_id = task_target(owner, message)?;
        let device = self.0.registry.device(&target_id);
        if device.is_none() && !self.0.hooks.has_target(&target_id).await {
            return Err(format!("Target device '{target_id}' is not connected"));
        }
        // Who carries out a task of another target judges it itself.
        let is_other = device
            .as_ref()
            .is_some_and(|device| device.connection != owner.connection);
        if is_other && !self.0.hooks.may_use(&target_id, owner.caller.as_ref()).await {
            return Err(format!(
                "device '{target_id}' is private; ask its owner for an invite"
            ));
        }
        let task_name = sanitize_task_name(message.task_name.as_deref().unwrap_or_default());
        let dispatch = if owner.is_device() {
            owner.dispatches().remove(&task_name)
        } else {
            None
        };
        let (mut session_id, mut outcome) = (message.session_id.clone().filter(|id| !id.is_empty()), None);
        if let Some(dispatch) = dispatch {
            session_id = Some(dispatch.session_id);
            outcome = Some(dispatch.outcome);
        }
        let session_id = session_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        if !is_wire_id(&session_id) {
            return Err("session_id has to have at most 256 bytes and no control characters".to_owned());
        }
        let most = self.0.settings.max_tasks_per_client;
        let opened = self
            .0
            .sessions
            .open(&session_id, &task_name, owner, device.as_deref(), most);
        let ended = opened.map_err(|refusal| match refusal {
            SessionRefusal::Foreign => format!("session_id '{session_id}' belongs to another client"),
            SessionRefusal::UnderWay => format!("session_id '{session_id}' is under way already"),
            SessionRefusal::TooMany => format!("{most} tasks are under way already; send this one later"),
            SessionRefusal::DeviceGone => format!("Target device '{target_id}' is not connected"),
        })?;
        self.0.sweeper.limit(&session_id, self.0.settings.task_timeout);
        Ok(OpenTask {
            session_id,
            task_name,
            request: request.to_owned(),
            target_id,
            device,
            ended,
            outcome,
        })
    }

    /// Carries an opened task out until its TASK_END is sent and the hooks are done.
    pub(super) async fn carry_out(self, owner: Arc<ClientEntry>, mut open: OpenTask) {
        let cancelled = CancellationToken::new();
        let _cancelled = cancelled.clone().drop_guard();
        let task = ServiceTask {
            session_id: open.session_id.clone(),
            task_name: open.task_name.clone(),
            request: std::mem::take(&mut open.request),
            owner_id: owner.id().to_owned(),
            owner_role: owner.registration.role,
            owner_caller: owner.caller.clone(),
            target_id: open.target_id.clone(),
            cancelled: cancelled.clone(),
            service: self.clone(),
            owner: owner.outbox.clone(),
        };
        let turns = open.device.as_ref().map(|device| device.turns.clone());
        let hooks = Arc::clone(&self.0.hooks);
        let token = cancelled.clone();
        let running = async move {
            let caller = task.owner_caller.as_ref().map(|caller| caller.name.as_str());
            let caller = caller.unwrap_or(&task.owner_id);
            let _turn = match turns {
                Some(turns) => tokio::select! {
                    biased;
                    () = token.cancelled() => return TaskOutcome::failed("it was cancelled before it began"),
                    turn = turns.take(caller, &task.owner_id) => Some(turn),
                },
                None => None,
            };
            hooks.run_task(task).await
        };
        tokio::pin!(running);
        let mut ended = open.ended.clone();
        let (outcome, cause) = tokio::select! {
            biased;
            cause = ended.wait_for(Option::is_some) => {
                let cause = cause.ok().and_then(|cause| *cause).unwrap_or(EndCause::Stopped);
                (TaskOutcome::failed(self.why(cause, &open)), Some(cause))
            }
            () = self.0.stop.cancelled() => {
                (TaskOutcome::failed(self.why(EndCause::Stopped, &open)), Some(EndCause::Stopped))
            }
            outcome = &mut running => (outcome, None),
        };
        self.finish(&owner, open, outcome).await;
        if cause.is_some() {
            cancelled.cancel();
            let _ = timeout(self.0.settings.task_grace, running).await;
        }
    }

    fn why(&self, cause: EndCause, open: &OpenTask) -> String {
        match cause {
            EndCause::DeviceGone => format!("Target device '{}' disconnected", open.target_id),
            EndCause::OwnerGone => "the client that requested the task disconnected".to_owned(),
            EndCause::OwnerEnded => "the task was ended by its owner".to_owned(),
            EndCause::TimedOut => {
                format!(
                    "the task took more than {} s",
                    self.0.settings.task_timeout.as_secs()
                )
            }
            EndCause::Stopped => "the service is shutting down".to_owned(),
        }
    }

    /// Sends TASK_END to the owner and to the device, and keeps the report.
    async fn finish(&self, owner: &ClientEntry, open: OpenTask, outcome: TaskOutcome) {
        self.0.sweeper.ended(&open.session_id);
        self.0.sessions.close(&open.session_id, outcome.clone());
        let message = ServerMessage {
            session_id: Some(open.session_id),
            task_name: Some(open.task_name),
            result: outcome.result.clone(),
            error: outcome.error.clone(),
            response_id: Some(uuid::Uuid::new_v4().to_string()),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::TaskEnd, outcome.status())
        };
        let device = open.device.filter(|device| device.connection != owner.connection);
        // One that takes no frames does not keep the other one waiting.
        tokio::join!(
            send_end(Some(owner), message.clone()),
            send_end(device.as_deref(), message)
        );
        if let Some(waiting) = open.outcome {
            let _ = waiting.send(outcome);
        }
    }
}

impl OpenTask {
    /// The session.
    pub(super) fn session_id(&self) -> &str {
        &self.session_id
    }
}

/// Sends a TASK_END. A result that is too large for a message is a failure that says so.
async fn send_end(client: Option<&ClientEntry>, message: ServerMessage) {
    let Some(client) = client else {
        return;
    };
    if let Err(ProtocolError::Decode(error)) = client.outbox.send(message.clone()).await {
        let failed = ServerMessage {
            status: MessageStatus::Failed,
            result: None,
            error: Some(error.to_string()),
            ..message
        };
        let _ = client.outbox.send(failed).await;
    }
}

/// The target of a client's TASK, or the text of a refusal.
fn task_target(owner: &ClientEntry, message: &ClientMessage) -> Result<String, String> {
    let asked = message.target_id.as_deref().filter(|id| !id.is_empty());
    if asked.is_some_and(|id| !is_wire_id(id)) {
        return Err("target_id has to have at most 256 bytes and no control characters".to_owned());
    }
    match owner.registration.role {
        ClientRole::Device => match asked {
            Some(target) if target != owner.id() => Err(format!(
                "a device may request tasks for itself only, not for '{target}'"
            )),
            _ => Ok(owner.id().to_owned()),
        },
        ClientRole::Constellation => {
            let target = asked.ok_or("Constellation task requests require target_id")?;
            match owner.registration.target_id.as_deref() {
                Some(declared) if declared != target => Err(format!(
                    "the constellation is registered for device '{declared}' and may not target '{target}'"
                )),
                _ => Ok(target.to_owned()),
            }
        }
    }
}
