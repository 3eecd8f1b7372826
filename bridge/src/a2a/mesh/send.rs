//! Messages that are sent, and tasks that are waited for.

use std::sync::Arc;

use agentanycast_proto::v1;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{Address, Known, Mesh, group, labels, webhooks::note};
use crate::{
    a2a::{
        error::{A2aError, Reason},
        request::Send,
    },
    gateway::{ErrorKind, Outgoing, TaskHandle, contexts, is_terminal},
    screen::Screen,
};

/// The label with the extensions that the client has activated, as a JSON list.
const EXTENSIONS: &str = "a2a.extensions";

impl Mesh {
    /// Sends a message; the task that it begins or belongs to.
    pub(super) async fn send(
        &self,
        address: &Address,
        tenant: &str,
        send: &Send,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        if let Some((webhook, _)) = &send.push {
            self.check_webhook(webhook)?;
        }
        if !send.place.task_id.is_empty() {
            return self.reply(address, tenant, send).await;
        }
        let mut metadata = send.labels.clone();
        let mut ours = labels(address, tenant);
        let context_id = contexts::begin(&mut ours, &send.place.context_id);
        metadata.extend(ours);
        for (name, value) in &address.trace {
            // What the client says in so many words stands.
            metadata
                .entry((*name).to_owned())
                .or_insert_with(|| value.clone());
        }
        if !address.extensions.is_empty() {
            metadata.insert(EXTENSIONS.to_owned(), json!(address.extensions).to_string());
        }
        let outgoing = Outgoing {
            target: address.target.clone(),
            message: send.message.clone(),
            context_id,
            metadata,
            group: group(address, tenant),
            note: note_of(address, "", send, self.rules.screen),
        };
        Ok(self.gateway.send(outgoing).await?)
    }

    async fn reply(
        &self,
        address: &Address,
        tenant: &str,
        send: &Send,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        let Known { handle, task } = self.task(address, tenant, &send.place.task_id).await?;
        let context = &send.place.context_id;
        let own = contexts::shown(&task);
        if !context.is_empty() && context != own {
            return Err(A2aError::params(format!(
                "message.contextId is not that of task {}, which is {own}",
                task.task_id
            )));
        }
        let not_now = |what: &str| {
            let text = format!("task {} {what}", task.task_id);
            A2aError::new(Reason::UnsupportedOperation, text)
        };
        if is_terminal(task.status()) {
            return Err(not_now("has ended; send the message without message.taskId"));
        }
        let note = note_of(address, &task.task_id, send, self.rules.screen);
        match handle.reply(send.message.clone(), note).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Err(not_now("asks for nothing now, so it takes no message"))
            }
            replied => {
                replied?;
                Ok(handle)
            }
        }
    }

    /// The task once it has ended or asks for something, or as it stands when patience is over. `_place` was taken before
    /// anything was sent.
    pub(super) async fn halted(
        &self,
        address: &Address,
        handle: &Arc<dyn TaskHandle>,
        _place: OwnedSemaphorePermit,
    ) -> Result<v1::Task, A2aError> {
        match tokio::time::timeout(self.rules.patience, handle.halted()).await {
            Ok(halted) => Ok(halted?),
            Err(_) => Ok(self.reads.of(&address.caller, &**handle).await?),
        }
    }
}

/// The note of the webhook that came with a message; a task that has not begun has no id.
fn note_of(address: &Address, task_id: &str, send: &Send, screen: Screen) -> Option<v1::TaskNote> {
    let (webhook, version) = send.push.clone()?;
    Some(note(address, task_id, webhook, version, screen))
}
