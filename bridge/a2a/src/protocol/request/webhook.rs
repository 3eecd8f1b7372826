//! Requests about the webhooks of a task. PURE.

use super::{Method, named};
use crate::protocol::{
    error::A2aError, object_reader::ObjectReader, push as webhooks, push::Webhook, version::Version,
};

/// Something about the webhooks of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookCall {
    /// Set one.
    Set {
        /// Of which task.
        task_id: String,
        /// What it is.
        webhook: Webhook,
        /// What it is told in.
        version: Version,
    },
    /// Read one.
    Get {
        /// Of which task.
        task_id: String,
        /// Which; empty: the only one.
        id: String,
    },
    /// List all.
    List {
        /// Of which task.
        task_id: String,
        /// At most this many.
        page_size: usize,
        /// Only those behind this id; empty: from the first.
        after: String,
    },
    /// Delete one.
    Delete {
        /// Of which task.
        task_id: String,
        /// Which.
        id: String,
    },
}

impl WebhookCall {
    /// The task.
    pub fn task_id(&self) -> &str {
        match self {
            Self::Set { task_id, .. }
            | Self::Get { task_id, .. }
            | Self::List { task_id, .. }
            | Self::Delete { task_id, .. } => task_id,
        }
    }
}

/// Reads the parameters of a method about webhooks.
pub(super) fn read(
    version: Version,
    method: Method,
    mut fields: ObjectReader,
) -> Result<WebhookCall, A2aError> {
    if method == Method::SetPush {
        let task_id = named(&mut fields, "taskId")?;
        let (webhook, path) = match version {
            Version::V10 => (fields.rest(), "params"),
            Version::V03 => {
                let webhook = fields.object("pushNotificationConfig")?;
                let missing = || A2aError::params("params.pushNotificationConfig is missing");
                (webhook.ok_or_else(missing)?, "params.pushNotificationConfig")
            }
        };
        let webhook = webhooks::read(version, webhook, path)?;
        return Ok(WebhookCall::Set {
            task_id,
            webhook,
            version,
        });
    }
    let (of_task, of_webhook) = match version {
        Version::V10 => ("taskId", "id"),
        Version::V03 => ("id", "pushNotificationConfigId"),
    };
    let task_id = named(&mut fields, of_task)?;
    Ok(match method {
        Method::ListPush => WebhookCall::List {
            task_id,
            page_size: super::page_size(&mut fields)?,
            after: fields.text_or_empty("pageToken")?,
        },
        Method::DeletePush => WebhookCall::Delete {
            task_id,
            id: named(&mut fields, of_webhook)?,
        },
        _ => WebhookCall::Get {
            task_id,
            id: fields.text_or_empty(of_webhook)?,
        },
    })
}
