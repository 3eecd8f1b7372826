//! Messages that are sent, and tasks that are waited for.

use agentanycast_egress::egress_filter::EgressFilter;
use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::v1;
use prost::Message as _;
use serde_json::json;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{CallContext, LoadedTask, MeshHandler, group, labels, webhooks::note};
use crate::{
    a2a::{
        error::{A2aError, Reason},
        message::TaskContext,
        request::SendParams,
    },
    gateway::{
        ErrorKind, NewTask, Target, TaskHandle,
        contexts::{self, CONTEXT},
        idempotency, is_terminal,
        labels::{CALLER, TARGET},
    },
};

/// The label with the extensions that the client has activated, as a JSON list.
const EXTENSIONS: &str = "a2a.extensions";

/// What a message, with what it comes with, may have on its way to another node, in bytes: that of nodes.
const MOST: usize = (16 << 20) - 1024;

/// What a label has besides its name and value at most, and a message besides itself and its labels: ids.
const LABEL: usize = 16;
const BESIDES: usize = 256;

impl MeshHandler {
    /// Sends a message; the task that it begins or belongs to.
    pub(super) async fn send(
        &self,
        address: &CallContext,
        tenant: &str,
        send: &SendParams,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        if let Some((webhook, _)) = &send.push {
            self.check_webhook(webhook)?;
        }
        if !send.context.task_id.is_empty() {
            return self.reply(address, tenant, send).await;
        }
        let mut metadata = send.labels.clone();
        let mut ours = labels(address, tenant);
        let context_id = contexts::new_context(&mut ours, &send.context.context_id);
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
        check_size(address, &metadata, &send.message)?;
        let key = key_of(address)?;
        let is_keyed = key.is_some();
        let outgoing = NewTask {
            target: address.target.clone(),
            message: send.message.clone(),
            context_id,
            metadata,
            group: group(address, tenant),
            note: note_of(address, "", send, self.config.egress),
            idempotency_key: key,
        };
        let handle = self.gateway.send(outgoing).await?;
        if is_keyed {
            self.check_same(address, tenant, handle.id(), send).await?;
        }
        Ok(handle)
    }

    async fn reply(
        &self,
        address: &CallContext,
        tenant: &str,
        send: &SendParams,
    ) -> Result<Arc<dyn TaskHandle>, A2aError> {
        let LoadedTask { handle, task } = self.task(address, tenant, &send.context.task_id).await?;
        let context = &send.context.context_id;
        let own = contexts::caller_context(&task);
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
        let key = key_of(address)?;
        let is_keyed = key.is_some();
        let ended = || not_now("has ended; send the message without message.taskId");
        // A message with a key may have been taken before the task ended.
        if is_terminal(task.status()) && !is_keyed {
            return Err(ended());
        }
        check_size(address, &task.metadata, &send.message)?;
        let note = note_of(address, &task.task_id, send, self.config.egress);
        match handle.reply(send.message.clone(), note, key).await {
            Err(error) if error.kind() == ErrorKind::Conflict && is_terminal(task.status()) => Err(ended()),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Err(not_now("asks for nothing now, so it takes no message"))
            }
            replied => {
                let id = replied?;
                if is_keyed {
                    self.check_same(address, tenant, &id, send).await?;
                }
                Ok(handle)
            }
        }
    }

    /// Checks that the task which the node names by the caller's key is the one that this message belongs to.
    async fn check_same(
        &self,
        address: &CallContext,
        tenant: &str,
        id: &str,
        send: &SendParams,
    ) -> Result<(), A2aError> {
        let reused = || {
            let given = address.idempotency_key.as_deref().unwrap_or_default();
            A2aError::new(Reason::IdempotencyKeyReused, idempotency::reused(given))
        };
        // A task of another agent or tenant is unknown here.
        let known = match self.task(address, tenant, id).await {
            Err(error) if error.reason() == Reason::TaskNotFound => return Err(reused()),
            known => known?,
        };
        let TaskContext { context_id, task_id } = &send.context;
        let is_further = !task_id.is_empty();
        let fits = (!is_further || task_id == id)
            && (context_id.is_empty() || context_id == contexts::caller_context(&known.task))
            && idempotency::is_same(&known.task, &send.message, is_further);
        if fits { Ok(()) } else { Err(reused()) }
    }

    /// The task once it has ended or asks for something, or as it stands at `until`. `_place` was taken
    /// before the message was sent.
    pub(super) async fn halted(
        &self,
        address: &CallContext,
        handle: &Arc<dyn TaskHandle>,
        _place: OwnedSemaphorePermit,
        until: Instant,
    ) -> Result<v1::Task, A2aError> {
        match tokio::time::timeout_at(until, handle.halted()).await {
            Ok(halted) => Ok(halted?),
            Err(_) => Ok(self.read_budget.read(&address.caller, &**handle).await?),
        }
    }
}

/// The node's idempotency key of a request.
fn key_of(address: &CallContext) -> Result<Option<String>, A2aError> {
    let given = address.idempotency_key.as_deref();
    let key = given.map(|given| idempotency::key_of(&address.caller, given));
    key.transpose().map_err(A2aError::params)
}

/// Refuses a message that no node can pass on to another one, however long its sender waits; nodes say so as of any bound.
fn check_size(
    address: &CallContext,
    labels: &BTreeMap<String, String>,
    message: &v1::Message,
) -> Result<(), A2aError> {
    if !matches!(address.target, Target::Peer(_) | Target::Skill(_)) {
        return Ok(());
    }
    let told = labels
        .iter()
        .filter(|(name, _)| ![CALLER, CONTEXT, TARGET].contains(&name.as_str()));
    let labels: usize = told.map(|(name, value)| name.len() + value.len() + LABEL).sum();
    let takes = message.encoded_len() + labels + BESIDES;
    if takes > MOST {
        return Err(A2aError::params(format!(
            "the message takes {takes} bytes with the task's labels, the limit is {MOST}; send large content by its URL"
        )));
    }
    Ok(())
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
