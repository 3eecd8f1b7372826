//! A hub of others that this node joins as an execution agent: what the hub gives becomes a task of the mesh, and what becomes of
//! that is reported to the hub.
//!
//! Invariant: a session and its task end together: a session that the hub ends cancels the task, and a task that ends ends the session.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    Gateway, Target, TaskHandle, Update,
    caller::{Caller, CallerIdentity, GatewayLabels},
    is_reference, is_terminal,
    registration::GatewayModule as _,
    tasks::{AwaitedTask, CallerMessage, GatewayTasks, TaskRefusal},
    token_file::read_token,
};
use agentanycast_proto::{parts, v1 as mesh};
use agentanycast_uap_hub::{
    agent::{
        AgentSession, HubConnection, HubEndpoint, MAX_MESSAGE, Proposal, SessionEnd, SessionProgress,
        SessionRunner,
    },
    v1::{
        AgentRegistration, Attachment, Capability, Severity, Telemetry, TestCapability,
        TranslationCapability, capability::Format,
    },
};
use anyhow::Context as _;
use async_trait::async_trait;
use futures::StreamExt as _;
use mesh::{TaskStatus, part::Content};
use tokio_util::sync::CancellationToken;

use crate::{
    UapHubGateway,
    capability::Domain,
    payloads::{inputs, parts_of, payload_of},
    results::{REPORT, read_report},
    settings::JoinEntry,
};

/// How the tasks of sessions are labelled.
const LABELS: GatewayLabels = GatewayLabels::new(UapHubGateway::NAME);

/// The label of a task with the type that its session is of.
const TYPE: &str = "uap.session_type";

/// Sessions of all joined hubs at a time.
const MOST_FOLLOWED: usize = 10_000;

/// Largest result that fits into the last message of a session, in bytes: what else is in it has room beside.
const LARGEST_RESULT: usize = MAX_MESSAGE - (1 << 20);

/// A hub that is to be joined.
pub(crate) struct PreparedJoin {
    connection: HubConnection,
    runner: Arc<MeshRunner>,
}

/// The hubs of these entries. Nothing is connected yet.
///
/// # Errors
/// When a file cannot be used.
pub(crate) fn prepare(entries: &[JoinEntry], node: &Arc<dyn Gateway>) -> anyhow::Result<Vec<PreparedJoin>> {
    let tasks = Arc::new(GatewayTasks::new(Arc::clone(node), MOST_FOLLOWED));
    let prepare = |entry: &JoinEntry| -> anyhow::Result<PreparedJoin> {
        let mut endpoint = HubEndpoint::new(&entry.url)?;
        if let Some(file) = &entry.ca_file {
            endpoint = endpoint.with_ca_file(file);
        }
        if let (Some(certificate), Some(key)) = (&entry.client_cert, &entry.client_key) {
            endpoint = endpoint.with_client_certificate(certificate, key);
        }
        if let Some(file) = &entry.token_file {
            endpoint = endpoint.with_token(&read_token(file, "hub")?)?;
        }
        Ok(PreparedJoin {
            connection: HubConnection::new(endpoint).with_slots(entry.sessions.get()),
            runner: Arc::new(MeshRunner {
                tasks: Arc::clone(&tasks),
                target: entry.target(),
                entry: entry.clone(),
            }),
        })
    };
    let each = entries
        .iter()
        .map(|entry| prepare(entry).with_context(|| format!("the hub {} cannot be joined", entry.url)));
    each.collect()
}

impl PreparedJoin {
    /// Does sessions of the hub until `stop`. The files were there when the gateway started; if they cannot be used any more, the hub is given up.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let url = self.runner.entry.url.clone();
        if let Err(error) = self
            .connection
            .run(self.runner, stop.clone().cancelled_owned())
            .await
        {
            tracing::error!(hub = url, %error, "the hub is not joined; correct the setting and start again");
        }
        // What ends before the gateway does would end that too.
        stop.cancelled().await;
    }
}

/// Carries sessions out by an agent of the mesh.
struct MeshRunner {
    tasks: Arc<GatewayTasks>,
    target: Target,
    entry: JoinEntry,
}

#[async_trait]
impl SessionRunner for MeshRunner {
    fn registration(&self) -> AgentRegistration {
        let test = |name: &String| {
            Format::Test(TestCapability {
                r#type: name.clone(),
                payloads: Vec::new(),
            })
        };
        let translation = |name: &String| {
            Format::Translation(TranslationCapability {
                r#type: name.clone(),
                ..TranslationCapability::default()
            })
        };
        let formats = self.entry.test.iter().map(test);
        let formats = formats.chain(self.entry.translate.iter().map(translation));
        AgentRegistration {
            display_name: self.entry.name.clone(),
            capabilities: formats
                .map(|format| Capability { format: Some(format) })
                .collect(),
        }
    }

    fn accepts(&self, proposal: &Proposal) -> Result<(), String> {
        let types = match proposal.domain {
            Domain::Test => &self.entry.test,
            Domain::Translation => &self.entry.translate,
        };
        if types.contains(&proposal.kind) {
            return Ok(());
        }
        Err(format!(
            "no agent here does {} of the type {}",
            proposal.domain, proposal.kind
        ))
    }

    async fn carry_out(&self, session: AgentSession) -> SessionEnd {
        let caller = Caller::with_one_list(LABELS, CallerIdentity::identified(&self.entry.url));
        let ended = carry_out(&self.tasks, caller, self.target.clone(), session).await;
        ended.unwrap_or_else(|refusal| match refusal {
            TaskRefusal::TooLarge { .. } => SessionEnd::invalid(refusal.to_string()),
            refusal => SessionEnd::failed(refusal.to_string()),
        })
    }
}

/// Does a session by a task for this target.
async fn carry_out(
    tasks: &Arc<GatewayTasks>,
    caller: Caller,
    target: Target,
    session: AgentSession,
) -> Result<SessionEnd, TaskRefusal> {
    let AgentSession {
        domain,
        kind,
        payloads,
        progress,
        cancelled,
        ..
    } = session;
    let message = mesh::Message {
        role: mesh::MessageRole::User.into(),
        parts: payloads.into_iter().flat_map(parts_of).collect(),
        ..mesh::Message::default()
    };
    // What does not come back as payloads would be lost here.
    if let Err(why) = inputs(&message) {
        return Ok(SessionEnd::invalid(why));
    }
    let labels = BTreeMap::from([(TYPE.to_owned(), kind.clone())]);
    let message = CallerMessage {
        labels,
        ..CallerMessage::new(target, message)
    };
    let mut begun = AwaitedTask::begin(tasks, caller, message).await?;
    let handle = Arc::clone(begun.handle());
    let mut updates = handle.updates();
    let status = loop {
        let update = tokio::select! {
            biased;
            () = cancelled.cancelled() => {
                begun.cancel().await;
                return Ok(SessionEnd::failed("the hub ended the session"));
            }
            update = updates.next() => update,
        };
        let Some(update) = update.transpose()? else {
            break handle.halted().await?.status();
        };
        if is_terminal(update.status) {
            break update.status;
        }
        if update.status == TaskStatus::InputRequired {
            let question = update.message.as_ref().map(text_of).unwrap_or_default();
            begun.cancel().await;
            return Ok(SessionEnd::failed(format!(
                "the agent asked, and a session has no answers: {question}"
            )));
        }
        tell(&progress, update).await;
    };
    if is_terminal(status) {
        begun.set_ended();
    }
    let task = handle.snapshot().await?;
    let text = task.status_message.as_ref().map(text_of).unwrap_or_default();
    let mut end = match status {
        TaskStatus::Completed => SessionEnd::completed(),
        TaskStatus::Rejected => SessionEnd::invalid(""),
        _ => SessionEnd::failed(""),
    };
    end.message = match (status, text) {
        (TaskStatus::Canceled, text) if text.is_empty() => "the task was canceled".to_owned(),
        (_, text) => text,
    };
    add_results(&mut end, domain, &*handle, task.artifacts).await?;
    Ok(end)
}

/// Adds what came of a task to the end of its session, which fails if that is too large for it.
async fn add_results(
    end: &mut SessionEnd,
    domain: Domain,
    handle: &dyn TaskHandle,
    artifacts: Vec<mesh::Artifact>,
) -> Result<(), TaskRefusal> {
    let too_large = || {
        SessionEnd::failed(format!(
            "the results have more than {LARGEST_RESULT} bytes, which a session cannot have"
        ))
    };
    let mut room = LARGEST_RESULT;
    for artifact in artifacts {
        let parts = if is_reference(&artifact) {
            let mut content = handle.stream(&artifact.artifact_id);
            let mut data = Vec::new();
            while let Some(piece) = content.next().await {
                data.extend_from_slice(&piece?);
                if data.len() > room {
                    *end = too_large();
                    return Ok(());
                }
            }
            vec![streamed_part(&artifact, data)]
        } else {
            artifact.parts
        };
        if artifact.name == REPORT
            && domain == Domain::Test
            && let Some((reports, summary)) = read_report(&parts)
        {
            end.reports.extend(reports);
            end.summary = end.summary.take().or(summary);
            continue;
        }
        for (at, part) in parts.iter().enumerate() {
            let Some(payload) = payload_of(at + 1, part, &artifact.name) else {
                continue;
            };
            let size = payload
                .attachment
                .as_ref()
                .map_or(0, |attachment| attachment.data.len());
            let Some(rest) = room.checked_sub(size) else {
                *end = too_large();
                return Ok(());
            };
            room = rest;
            match domain {
                Domain::Translation => end.payloads.push(payload),
                Domain::Test => end.attachments.push(attachment_of(payload, &artifact.name)),
            }
        }
    }
    Ok(())
}

/// A payload as the attachment of a test's result.
fn attachment_of(payload: agentanycast_uap_hub::v1::Payload, name: &str) -> Attachment {
    payload.attachment.unwrap_or_else(|| Attachment {
        name: format!("{name}.json"),
        mime_type: crate::payloads::JSON.to_owned(),
        data: crate::payloads::metadata_json(&payload.metadata.unwrap_or_default())
            .to_string()
            .into(),
    })
}

/// The part that a streamed artifact would have been.
fn streamed_part(artifact: &mesh::Artifact, data: Vec<u8>) -> mesh::Part {
    let media_type = artifact.parts.first().map(|part| part.media_type.clone());
    mesh::Part {
        content: Some(Content::RawPart(mesh::RawPart {
            data,
            filename: artifact.name.clone(),
        })),
        media_type: media_type.unwrap_or_default(),
        ..mesh::Part::default()
    }
}

/// Tells the hub what an agent says while it works.
async fn tell(progress: &SessionProgress, update: Update) {
    let Some(message) = update.message else { return };
    let text = text_of(&message);
    let label = |name: &str| message.parts.first().and_then(|part| part.metadata.get(name));
    let severity = label("severity").map(|name| format!("SEVERITY_{name}"));
    let severity = severity.and_then(|name| Severity::from_str_name(&name));
    let attachments: Vec<Attachment> = message
        .parts
        .iter()
        .enumerate()
        .filter(|(_, part)| !matches!(part.content, Some(Content::TextPart(_))))
        .filter_map(|(at, part)| Some(attachment_of(payload_of(at + 1, part, "")?, "data")))
        .collect();
    // A session that has ended is seen by its token.
    let _ = if severity.is_none() && attachments.is_empty() {
        progress.running(text).await
    } else {
        let telemetry = Telemetry {
            message: text,
            severity: severity.unwrap_or(Severity::Info).into(),
            source: label("source").cloned().unwrap_or_default(),
            attachments,
            ..Telemetry::default()
        };
        progress.telemetry(telemetry).await
    };
}

fn text_of(message: &mesh::Message) -> String {
    parts::text_of(&message.parts)
}
