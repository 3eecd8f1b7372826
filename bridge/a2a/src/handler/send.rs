//! Messages that are sent.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_egress::egress_filter::EgressFilter;
use agentanycast_gateway::{
    TaskHandle,
    tasks::{CallerMessage, CallerReply, CallerTasks},
};
use agentanycast_proto::v1;
use serde_json::json;

use super::{CallContext, MeshHandler, webhooks::note};
use crate::protocol::{error::A2aError, message::TaskContext, request::SendParams};

/// The label with the extensions that the client has activated, as a JSON list.
const EXTENSIONS: &str = "a2a.extensions";

impl MeshHandler {
    /// Sends a message; the task that it begins or belongs to.
    pub(super) async fn send(
        &self,
        tasks: &CallerTasks<'_>,
        address: &CallContext,
        send: &SendParams,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        if let Some((webhook, _)) = &send.push {
            self.check_webhook(webhook)?;
        }
        let TaskContext { context_id, task_id } = &send.context;
        let note = note_of(address, task_id, send, self.config.egress);
        let key = address.idempotency_key.clone();
        if !task_id.is_empty() {
            let reply = CallerReply {
                message: send.message.clone(),
                context: context_id.clone(),
                note,
                key,
            };
            return Ok(tasks.reply(task_id, reply).await?);
        }
        let mut gateway_labels = BTreeMap::new();
        if !address.extensions.is_empty() {
            gateway_labels.insert(EXTENSIONS.to_owned(), json!(address.extensions).to_string());
        }
        let message = CallerMessage {
            target: address.target.clone(),
            message: send.message.clone(),
            context: context_id.clone(),
            labels: send.labels.clone(),
            gateway_labels,
            trace: address.trace.clone(),
            note,
            key,
        };
        Ok(tasks.send(message).await?)
    }
}

/// The note of the webhook that came with a message; a task that has not begun has no id.
fn note_of(
    address: &CallContext,
    task_id: &str,
    send: &SendParams,
    screen: EgressFilter,
) -> Option<v1::TaskNote> {
    let (webhook, version) = send.push.clone()?;
    Some(note(address, task_id, webhook, version, screen))
}
