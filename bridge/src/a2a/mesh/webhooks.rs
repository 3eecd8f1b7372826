//! Webhooks of tasks: set, read, listed, deleted. Each is a note of its task, which the node keeps; `crate::notify`
//! tells them.

use std::net::IpAddr;

use agentanycast_proto::v1;

use super::{Address, Mesh};
use crate::{
    a2a::{
        error::{A2aError, Reason},
        push::{Kept, NOTE, Webhook},
        request::Push,
        version::Version,
    },
    gateway::{ErrorKind, GatewayError},
};

fn refused(error: &GatewayError) -> A2aError {
    if error.kind() == ErrorKind::Unsupported {
        let text = "the daemon is too old for push notifications; follow the task by a stream";
        return A2aError::new(Reason::PushNotificationNotSupported, text);
    }
    error.clone().into()
}

fn unknown(id: &str) -> A2aError {
    let shown: String = id.chars().take(80).collect();
    A2aError::new(
        Reason::TaskNotFound,
        format!("the task has no push notification configuration {shown}"),
    )
}

impl Mesh {
    /// Whether a webhook may be there. Names are screened when they are connected to.
    pub(super) fn check_webhook(&self, webhook: &Webhook) -> Result<(), A2aError> {
        let url: Option<http::Uri> = webhook.url.parse().ok();
        let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
        let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        match address.and_then(|address| self.rules.screen.refusal(address)) {
            None => Ok(()),
            Some(what) => Err(A2aError::params(format!(
                "the webhook {host} is {what}, where this bridge sends nothing"
            ))),
        }
    }

    /// Notes a webhook of a task; one without an id gets that of the task.
    pub(super) async fn set_webhook(
        &self,
        address: &Address,
        task_id: &str,
        mut webhook: Webhook,
        version: Version,
    ) -> Result<Webhook, A2aError> {
        if webhook.id.is_empty() {
            task_id.clone_into(&mut webhook.id);
        }
        let note = v1::TaskNote {
            name: format!("{NOTE}{}", webhook.id),
            owner: address.caller.clone(),
            content: Kept::new(webhook.clone(), version).write(),
            open: true,
            version: 0,
        };
        let put = self.gateway.put_note(task_id, note, 0).await;
        put.map_err(|error| refused(&error))?;
        Ok(webhook)
    }

    /// The webhooks of a task, by id.
    async fn webhooks(&self, task_id: &str) -> Result<Vec<Webhook>, A2aError> {
        let notes = self
            .gateway
            .notes(task_id)
            .await
            .map_err(|error| refused(&error))?;
        let ours = notes.into_iter().filter(|note| note.name.starts_with(NOTE));
        Ok(ours
            .filter_map(|note| Some(Kept::read(&note.content)?.webhook))
            .collect())
    }

    /// Carries out a request about the webhooks of a task of this caller.
    pub(super) async fn push(
        &self,
        address: &Address,
        tenant: &str,
        push: Push,
    ) -> Result<Vec<(String, Webhook)>, A2aError> {
        let task_id = self.task(address, tenant, push.task_id()).await?.task.task_id;
        let found = match push {
            Push::Set { webhook, version, .. } => {
                self.check_webhook(&webhook)?;
                vec![self.set_webhook(address, &task_id, webhook, version).await?]
            }
            Push::Get { id, .. } => {
                let all = self.webhooks(&task_id).await?;
                // 0.3 may leave the id out.
                let wanted = if id.is_empty() { &task_id } else { &id };
                let exact = all.iter().position(|webhook| webhook.id == *wanted);
                let at = exact.or((id.is_empty() && !all.is_empty()).then_some(0));
                let at = at.ok_or_else(|| unknown(wanted))?;
                all.into_iter().skip(at).take(1).collect()
            }
            Push::List { .. } => self.webhooks(&task_id).await?,
            Push::Delete { id, .. } => {
                let name = format!("{NOTE}{id}");
                let deleted = self.gateway.delete_note(&task_id, &name).await;
                deleted.map_err(|error| refused(&error))?;
                Vec::new()
            }
        };
        Ok(found
            .into_iter()
            .map(|webhook| (task_id.clone(), webhook))
            .collect())
    }
}
