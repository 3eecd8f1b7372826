//! Webhooks of tasks: set, read, listed, deleted. Each is a note of its task, which the node keeps; `crate::webhooks`
//! tells them.

use std::net::{IpAddr, Ipv4Addr};

use agentanycast_egress::egress_filter::EgressFilter;
use agentanycast_gateway::{ErrorKind, GatewayError, tasks::CallerTasks};
use agentanycast_proto::v1;
use url::Url;

use super::{CallContext, MeshHandler};
use crate::protocol::{
    encode::A2aResponse,
    error::{A2aError, Reason},
    push::{NOTE, Webhook, WebhookRecord},
    request::WebhookCall,
    version::Version,
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

impl MeshHandler {
    /// Whether a webhook may be there. Names are screened when they are connected to.
    pub(super) fn check_webhook(&self, webhook: &Webhook) -> Result<(), A2aError> {
        match refusal(self.config.egress, &webhook.url) {
            None => Ok(()),
            Some((host, what)) => Err(A2aError::params(format!(
                "the webhook {host} is {what}, where this bridge sends nothing"
            ))),
        }
    }

    /// Notes a webhook of a task; one without an id gets that of the task.
    async fn set_webhook(
        &self,
        address: &CallContext,
        task_id: &str,
        mut webhook: Webhook,
        version: Version,
    ) -> Result<Webhook, A2aError> {
        let note = note(address, task_id, webhook.clone(), version, self.config.egress);
        let put = self.node().put_note(task_id, note, 0).await;
        put.map_err(|error| refused(&error))?;
        if webhook.id.is_empty() {
            task_id.clone_into(&mut webhook.id);
        }
        Ok(webhook)
    }

    /// The webhooks of a task.
    async fn webhooks(&self, task_id: &str) -> Result<Vec<Webhook>, A2aError> {
        let notes = self
            .node()
            .notes(task_id)
            .await
            .map_err(|error| refused(&error))?;
        let ours = notes.into_iter().filter(|note| note.name.starts_with(NOTE));
        let read = ours.filter_map(|note| Some(WebhookRecord::read(&note.content)?.webhook));
        Ok(read
            .map(|mut webhook| {
                if webhook.id.is_empty() {
                    task_id.clone_into(&mut webhook.id);
                }
                webhook
            })
            .collect())
    }

    /// Carries out a request about the webhooks of a task of this caller.
    pub(super) async fn push(
        &self,
        tasks: &CallerTasks<'_>,
        address: &CallContext,
        push: WebhookCall,
    ) -> Result<A2aResponse, A2aError> {
        let task_id = tasks.get(push.task_id()).await?.task.task_id;
        match push {
            WebhookCall::Set { webhook, version, .. } => {
                self.check_webhook(&webhook)?;
                let webhook = self.set_webhook(address, &task_id, webhook, version).await?;
                Ok(A2aResponse::Webhook(task_id, webhook))
            }
            WebhookCall::Get { id, .. } => {
                let all = self.webhooks(&task_id).await?;
                // 0.3 may leave the id out.
                let wanted = if id.is_empty() { &task_id } else { &id };
                let exact = all.iter().position(|webhook| webhook.id == *wanted);
                let at = exact.or((id.is_empty() && !all.is_empty()).then_some(0));
                let webhook = at.and_then(|at| all.into_iter().nth(at));
                Ok(A2aResponse::Webhook(
                    task_id.clone(),
                    webhook.ok_or_else(|| unknown(wanted))?,
                ))
            }
            WebhookCall::List { page_size, after, .. } => {
                let (page, next) = page(self.webhooks(&task_id).await?, page_size, &after);
                let page = page.into_iter().map(|webhook| (task_id.clone(), webhook));
                Ok(A2aResponse::Webhooks(page.collect(), next))
            }
            WebhookCall::Delete { id, .. } => {
                let name = note_name(&task_id, &id);
                let deleted = self.node().delete_note(&task_id, &name).await;
                deleted.map_err(|error| refused(&error))?;
                Ok(A2aResponse::Done)
            }
        }
    }
}

/// The note of a webhook. One that has the id of its task is kept without an id: a task that is about to begin has none.
pub(super) fn note(
    address: &CallContext,
    task_id: &str,
    mut webhook: Webhook,
    version: Version,
    screen: EgressFilter,
) -> v1::TaskNote {
    let name = note_name(task_id, &webhook.id);
    if webhook.id == task_id {
        webhook.id.clear();
    }
    let kept = WebhookRecord {
        public_only: screen == EgressFilter::Public,
        ..WebhookRecord::new(webhook, version)
    };
    v1::TaskNote {
        name,
        owner: address.caller.name().unwrap_or_default().to_owned(),
        content: kept.write(),
        open: true,
        version: 0,
    }
}

fn note_name(task_id: &str, id: &str) -> String {
    let id = if id == task_id { "" } else { id };
    format!("{NOTE}{id}")
}

/// The page behind an id, and what the next one is asked for with: the last id of this one. PURE.
fn page(mut all: Vec<Webhook>, size: usize, after: &str) -> (Vec<Webhook>, String) {
    all.retain(|webhook| after.is_empty() || webhook.id.as_str() > after);
    all.sort_by(|one, other| one.id.cmp(&other.id));
    let is_all = all.len() <= size;
    all.truncate(size);
    let last = all.last().filter(|_| !is_all);
    let next = last.map(|last| last.id.clone()).unwrap_or_default();
    (all, next)
}

/// Why a webhook is not set: the address that its host is, however it is written, or this host by its name. Other names
/// are screened when they are connected to. PURE.
fn refusal(screen: EgressFilter, url: &str) -> Option<(String, &'static str)> {
    // This reads hosts as browsers do: 2130706433 and 0x7f.1 are 127.0.0.1.
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_end_matches('.');
    let address = match host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>()
    {
        Ok(address) => address,
        Err(_) if host == "localhost" || host.ends_with(".localhost") => Ipv4Addr::LOCALHOST.into(),
        Err(_) => return None,
    };
    Some((host.to_owned(), screen.refusal(address)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_host_is_refused_however_it_is_called() {
        for inside in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1:8080/x",
            "http://127.0.0.1./",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "http://0xa9fea9fe/latest",
            "http://3232235777/",
            "http://0/",
        ] {
            assert!(refusal(EgressFilter::Public, inside).is_some(), "{inside}");
        }
        for outside in [
            "https://8.8.8.8/",
            "https://134744072/",
            "https://localhost.example.org/",
        ] {
            assert_eq!(refusal(EgressFilter::Public, outside), None, "{outside}");
        }
        assert_eq!(refusal(EgressFilter::Private, "http://2130706433/"), None);
        assert!(
            refusal(EgressFilter::Private, "http://0/").is_some(),
            "that is no host"
        );
    }

    proptest! {
        /// However an address is written, it is judged as that address is.
        #[test]
        fn a_spelling_changes_nothing(bits: u32) {
            let [a, b, c, d] = bits.to_be_bytes();
            let expected = EgressFilter::Public.refusal(Ipv4Addr::from_bits(bits).into());
            for host in [
                bits.to_string(),
                format!("{bits:#x}"),
                format!("0{bits:o}"),
                format!("{a}.{}", bits & 0xff_ffff),
                format!("{a:#x}.0{b:o}.{}", bits & 0xffff),
                format!("{a}.{b}.{c}.{d}."),
            ] {
                let found = refusal(EgressFilter::Public, &format!("http://{host}/"));
                prop_assert_eq!(found.map(|(_, what)| what), expected, "{}", host);
            }
        }

        /// Page by page each is there once, in order.
        #[test]
        fn pages_are_the_whole(ids in proptest::collection::btree_set("[a-c]{1,3}", 0..16), size in 1..6_usize) {
            let all: Vec<Webhook> =
                ids.iter().map(|id| Webhook { id: id.clone(), ..Webhook::default() }).collect();
            let (mut read, mut after) = (Vec::new(), String::new());
            loop {
                let (some, next) = page(all.clone(), size, &after);
                prop_assert!(some.len() <= size);
                read.extend(some);
                if next.is_empty() {
                    break;
                }
                after = next;
            }
            prop_assert_eq!(read, all);
        }
    }
}
