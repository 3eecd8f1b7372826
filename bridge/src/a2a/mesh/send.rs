//! Messages that are sent, and tasks that are waited for.

use std::sync::Arc;

use agentanycast_proto::v1;
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{Address, Known, Mesh, is_halt, labels};
use crate::{
    a2a::{error::A2aError, request::Send},
    gateway::{GatewayError, Outgoing, TaskHandle},
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
        metadata.extend(labels(address, tenant));
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
            context_id: send.place.context_id.clone(),
            metadata,
        };
        let handle = self.gateway.send(outgoing).await?;
        if let Err(error) = self.set_webhook_of(address, &handle, send).await {
            // The client is told that there is nothing, so nothing is done.
            if let Err(error) = handle.cancel().await {
                tracing::debug!(task = handle.id(), %error, "a task could not be taken back");
            }
            return Err(error);
        }
        Ok(handle)
    }

    async fn reply(
        &self,
        address: &Address,
        tenant: &str,
        send: &Send,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        let Known { handle, task } = self.task(address, tenant, &send.place.task_id).await?;
        let context = &send.place.context_id;
        if !context.is_empty() && *context != task.context_id {
            return Err(A2aError::params(format!(
                "message.contextId is not that of task {}, which is {}",
                task.task_id, task.context_id
            )));
        }
        // First: a message whose client is told that it failed must not be delivered.
        self.set_webhook_of(address, &handle, send).await?;
        handle.reply(send.message.clone()).await?;
        Ok(handle)
    }

    /// Notes the webhook that came with a message.
    async fn set_webhook_of(
        &self,
        address: &Address,
        handle: &Arc<dyn TaskHandle>,
        send: &Send,
    ) -> Result<(), A2aError> {
        if let Some((webhook, version)) = &send.push {
            self.set_webhook(address, handle.id(), webhook.clone(), *version)
                .await?;
        }
        Ok(())
    }

    /// The task once it has ended or asks for something, or as it stands when patience is over. `_place` was taken before
    /// anything was sent.
    pub(super) async fn halted(
        &self,
        handle: &Arc<dyn TaskHandle>,
        _place: OwnedSemaphorePermit,
    ) -> Result<v1::Task, A2aError> {
        let mut updates = handle.updates();
        let halt = async {
            while let Some(update) = updates.next().await {
                if is_halt(update?.status) {
                    break;
                }
            }
            Ok::<_, GatewayError>(())
        };
        if let Ok(halted) = tokio::time::timeout(self.rules.patience, halt).await {
            halted?;
        }
        Ok(handle.snapshot().await?)
    }
}
