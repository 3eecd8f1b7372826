//! Tasks that a service gives to a device. The device answers with a TASK of its own, which opens the session.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{sync::oneshot, time::timeout};

use super::{DeviceService, TaskOutcome, entry::Dispatch};
use crate::{
    messages::{MessageStatus, ServerMessage, ServerMessageType, sanitize_task_name, timestamp_now},
    protocol::ProtocolError,
};

/// Why a device does not take up a task.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The device is not here.
    #[error("Target device '{device_id}' is not connected")]
    NotConnected {
        /// The device.
        device_id: String,
    },
    /// The device was given a task of this name, and has not taken it up yet.
    #[error("device '{device_id}' is being given a task '{task_name}' already")]
    UnderWay {
        /// The device.
        device_id: String,
        /// The name.
        task_name: String,
    },
    /// The task cannot be sent.
    #[error("the task cannot be sent: {0}")]
    Send(#[from] ProtocolError),
}

/// A task that a device was given.
#[derive(Debug)]
pub struct DispatchedTask {
    /// Its session.
    pub session_id: String,
    /// Its name.
    pub task_name: String,
    outcome: oneshot::Receiver<TaskOutcome>,
    within: Duration,
}

impl DispatchedTask {
    /// How it ends.
    pub async fn outcome(self) -> TaskOutcome {
        let within = self.within;
        let outcome = timeout(within, self.outcome).await;
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => TaskOutcome::failed("the device disconnected or did not take up the task"),
            Err(_) => TaskOutcome::failed(format!("the task took more than {} s", within.as_secs())),
        }
    }
}

impl DeviceService {
    /// Gives a device a task: it answers with a TASK of its own, which the hooks carry out with it.
    ///
    /// # Errors
    /// When the task cannot be given.
    pub async fn dispatch(
        &self,
        device_id: &str,
        request: &str,
        task_name: &str,
    ) -> Result<DispatchedTask, DispatchError> {
        let entry = self
            .0
            .registry
            .device(device_id)
            .ok_or_else(|| DispatchError::NotConnected {
                device_id: device_id.to_owned(),
            })?;
        let task_name = sanitize_task_name(task_name);
        let session_id = uuid::Uuid::new_v4().to_string();
        let (sender, outcome) = oneshot::channel();
        {
            let mut dispatches = entry.dispatches();
            if dispatches.contains_key(&task_name) {
                return Err(DispatchError::UnderWay {
                    device_id: device_id.to_owned(),
                    task_name,
                });
            }
            let dispatch = Dispatch {
                session_id: session_id.clone(),
                outcome: sender,
            };
            dispatches.insert(task_name.clone(), dispatch);
        }
        let message = ServerMessage {
            user_request: Some(request.to_owned()),
            task_name: Some(task_name.clone()),
            session_id: Some(session_id.clone()),
            response_id: Some(uuid::Uuid::new_v4().to_string()),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::Task, MessageStatus::Continue)
        };
        self.0.sessions.dispatched(&session_id, &task_name);
        if let Err(error) = entry.outbox.send(message).await {
            entry.dispatches().remove(&task_name);
            let reason = format!("the task could not be sent: {error}");
            self.0.sessions.not_taken_up(&session_id, &task_name, reason);
            return Err(error.into());
        }
        let (waiting, name, id) = (Arc::clone(&entry), task_name.clone(), session_id.clone());
        let within = self.0.settings.dispatch_timeout;
        let service = self.clone();
        self.0.tracker.spawn(async move {
            let is_gone = timeout(within, waiting.gone.cancelled()).await.is_ok();
            {
                let mut dispatches = waiting.dispatches();
                if dispatches
                    .get(&name)
                    .is_some_and(|dispatch| dispatch.session_id == id)
                {
                    dispatches.remove(&name);
                }
            }
            let reason = if is_gone {
                format!(
                    "device '{}' disconnected before it took the task up",
                    waiting.id()
                )
            } else {
                let seconds = within.as_secs();
                format!(
                    "device '{}' did not take the task up within {seconds} s",
                    waiting.id()
                )
            };
            service.0.sessions.not_taken_up(&id, &name, reason);
        });
        Ok(DispatchedTask {
            session_id,
            task_name,
            outcome,
            within: self.0.settings.task_timeout + within,
        })
    }
}
