//! One task that goes to an agent of UAMP, from its first message to its end. Each step begins with the task
//! as the node has it, so that a step after a restart is like any other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_egress::error::{Kind, OutboundError};
use agentanycast_gateway::{
    DeliveryEvent, DeliveryReport, ErrorKind, ExternalTask, GatewayError,
    external_runner::{ExternalJob, NextStep, WakeSignal},
    is_terminal,
};
use agentanycast_proto::v1::{self, ExternalAction, ExternalFailure, MessageRole, TaskStatus};
use serde_json::Value;
use url::Url;

use super::{
    super::{
        content::{body_of_part, part_bytes},
        now_ms,
        target::{AGENT_EXT, SKILL_EXT},
    },
    OutboundShared,
    answer::{HeardAnswer, agent_message},
    checkpoint::OutboundCheckpoint,
};
use crate::{
    body::EnvelopeBody,
    client::{UampClient, acknowledgement},
    envelope::{DEFAULT_WINDOW, EnvelopeDraft, EnvelopeId, Intent},
    trust::TrustAnchors,
};

/// How long an agent may be out of reach that has not been given anything yet, and one that has.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_mins(10);

/// The pause after a failure; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a task that asks for something is left alone.
const IDLE: Duration = Duration::from_hours(1);

/// How old an envelope may be that is sent again, in milliseconds: receivers take those of the last 5 min.
const RESENT_FOR_MS: i64 = 240_000;

/// Frames that are taken before they are reported and acknowledged.
const ACK_EVERY: u64 = DEFAULT_WINDOW / 2;

/// How long an agent may be silent before all that it said is acknowledged.
const ACK_WHEN_IDLE: Duration = Duration::from_secs(1);

/// Why a step came to nothing.
enum StepError {
    Agent(OutboundError),
    Node(GatewayError),
}

impl From<OutboundError> for StepError {
    fn from(error: OutboundError) -> Self {
        Self::Agent(error)
    }
}

impl From<GatewayError> for StepError {
    fn from(error: GatewayError) -> Self {
        Self::Node(error)
    }
}

/// A task that is being carried.
pub(super) struct UampDelivery {
    shared: Arc<OutboundShared>,
    id: String,
    wake: Arc<WakeSignal>,
    contact: Instant,
    failures: u32,
    client: Option<UampClient>,
    events: Vec<DeliveryEvent>,
}

/// What a `uamp+https` URL says.
struct AgentUrl {
    /// `https://HOST`.
    base: String,
    authority: String,
    skill: Option<String>,
    agent: Option<String>,
}

impl AgentUrl {
    fn read(url: &str) -> Result<Self, OutboundError> {
        let wrong = || {
            OutboundError::permanent(format!(
                "{url:?} is not uamp+https://HOST, with ?skill=ID or #AGENT"
            ))
        };
        let rest = url.strip_prefix("uamp+").ok_or_else(wrong)?;
        let read = Url::parse(rest).map_err(|_| wrong())?;
        let host = read
            .host_str()
            .filter(|_| read.scheme() == "https")
            .ok_or_else(wrong)?;
        if !read.username().is_empty() || read.password().is_some() || read.path() != "/" {
            return Err(wrong());
        }
        let authority = match read.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let skill = read.query_pairs().find(|(name, _)| name == "skill");
        Ok(Self {
            base: format!("https://{authority}"),
            skill: skill.map(|(_, skill)| skill.into_owned()),
            agent: read
                .fragment()
                .filter(|agent| !agent.is_empty())
                .map(str::to_owned),
            authority,
        })
    }
}

impl UampDelivery {
    pub(super) fn new(shared: Arc<OutboundShared>, id: String, wake: Arc<WakeSignal>) -> Self {
        Self {
            shared,
            id,
            wake,
            contact: Instant::now(),
            failures: 0,
            client: None,
            events: Vec::new(),
        }
    }
}

impl ExternalJob for UampDelivery {
    async fn step(&mut self, task: ExternalTask) -> NextStep {
        let task = &task;
        let Some(mut checkpoint) = OutboundCheckpoint::read(&task.checkpoint) else {
            return self.fail(task, "the node's note on it is damaged").await;
        };
        match self.take_step(task, &mut checkpoint).await {
            Ok(next) => next,
            Err(StepError::Node(error))
                if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TaskNotFound) =>
            {
                self.node_failed(&error)
            }
            Err(StepError::Node(error)) => {
                let text = format!("this node cannot keep what it says: {error}");
                self.fail(task, &text).await
            }
            Err(StepError::Agent(error)) => self.agent_failed(task, &mut checkpoint, &error).await,
        }
    }

    fn node_failed(&self, error: &GatewayError) -> NextStep {
        if error.kind() == ErrorKind::TaskNotFound {
            return NextStep::Done;
        }
        tracing::warn!(task = self.id, %error, "a task for an agent of UAMP waits for the node");
        NextStep::Wait(PAUSE)
    }
}

impl UampDelivery {
    async fn take_step(
        &mut self,
        task: &ExternalTask,
        checkpoint: &mut OutboundCheckpoint,
    ) -> Result<NextStep, StepError> {
        if task.seal.is_some() {
            let text = "sealed tasks are not carried over UAMP; send it without a seal";
            return Err(OutboundError::permanent(text).into());
        }
        let url = AgentUrl::read(&task.url)?;
        let ours = own_messages(task).count();
        let is_over = is_terminal(task.task.status());
        if !is_over && task.task.status() == TaskStatus::InputRequired && ours <= checkpoint.taken {
            return Ok(NextStep::Wait(IDLE));
        }
        let shared = Arc::clone(&self.shared);
        let _permit = tokio::select! {
            () = shared.stop.cancelled() => return Ok(NextStep::Done),
            permit = shared.permits.acquire() => permit,
        };
        if self.client.is_none() {
            let settings = self.shared.client_settings(&url.authority, task.allow_private);
            let client = UampClient::new(&url.base, &settings);
            self.client = Some(client.map_err(|error| OutboundError::permanent(format!("{error:#}")))?);
        }
        if is_over {
            self.withdraw(checkpoint).await
        } else if ours > checkpoint.taken {
            self.submit(task, &url, checkpoint).await
        } else {
            self.follow(task, checkpoint).await
        }
    }

    fn client(&self) -> Result<&UampClient, OutboundError> {
        self.client
            .as_ref()
            .ok_or_else(|| OutboundError::permanent("its client is not made yet"))
    }

    /// Gives the next message.
    async fn submit(
        &mut self,
        task: &ExternalTask,
        url: &AgentUrl,
        checkpoint: &mut OutboundCheckpoint,
    ) -> Result<NextStep, StepError> {
        if checkpoint.receiver.is_empty() {
            let (_, did) = self.client()?.manifest(&TrustAnchors::default()).await?;
            self.record(task, ExternalAction::CardRead, &did);
            checkpoint.receiver = did;
        }
        if checkpoint.sending.is_none() {
            checkpoint.sending = Some((EnvelopeId::random().to_string(), now_ms()));
            self.save(checkpoint).await?;
        }
        let Some((id, time_ms)) = checkpoint.sending.clone() else {
            return Ok(NextStep::Again);
        };
        if now_ms() - time_ms > RESENT_FOR_MS {
            let text = "it is not known whether it has the message; look there before you send it again";
            return Err(OutboundError::permanent(text).into());
        }
        let Some(message) = own_messages(task).nth(checkpoint.taken) else {
            return Ok(NextStep::Again);
        };
        let body = body_of(message);
        let mut draft = EnvelopeDraft::new(Intent::Ask, vec![checkpoint.receiver.clone()], body, time_ms);
        draft.id =
            EnvelopeId::parse(&id).ok_or_else(|| OutboundError::permanent("its checkpoint is damaged"))?;
        draft.reply_to = checkpoint.first.as_deref().and_then(EnvelopeId::parse);
        for (name, value) in [(SKILL_EXT, &url.skill), (AGENT_EXT, &url.agent)] {
            if let Some(value) = value {
                draft.ext.insert(name.to_owned(), value.as_str().into());
            }
        }
        let envelope = draft
            .sign_to_bytes(&self.shared.identity, self.shared.form)
            .map_err(|error| OutboundError::permanent(error.to_string()))?;
        let location = self.client()?.send(envelope).await?;
        let location =
            location.ok_or_else(|| OutboundError::permanent("it took the message and named no stream"))?;
        self.contact_made();
        self.record(task, ExternalAction::Accepted, &id);
        if checkpoint.location.as_ref() != Some(&location) {
            checkpoint.location = Some(location);
            checkpoint.seq = 0;
        }
        checkpoint.first.get_or_insert(id);
        checkpoint.sending = None;
        checkpoint.taken += 1;
        self.save(checkpoint).await?;
        Ok(NextStep::Again)
    }

    /// Hears what the agent says, until it asks for something or ends.
    async fn follow(
        &mut self,
        task: &ExternalTask,
        checkpoint: &mut OutboundCheckpoint,
    ) -> Result<NextStep, StepError> {
        let Some(location) = checkpoint.location.clone() else {
            return Err(OutboundError::permanent("it named no stream").into());
        };
        let shared = Arc::clone(&self.shared);
        let wake = Arc::clone(&self.wake);
        let last = checkpoint.seq.checked_sub(1);
        let mut deltas = self.client()?.follow(&location, last).await?;
        let mut heard = HeardAnswer::new(&task.task);
        let mut acknowledged = checkpoint.seq;
        loop {
            let next = tokio::select! {
                biased;
                () = shared.stop.cancelled() => return Ok(NextStep::Done),
                next = deltas.next() => next?,
                // Its agent may wait for this, having fewer frames than half of the window.
                () = tokio::time::sleep(ACK_WHEN_IDLE), if acknowledged < checkpoint.seq => {
                    acknowledged = checkpoint.seq;
                    self.acknowledge(checkpoint).await?;
                    continue;
                }
                // Something came from this side: a cancel, mostly.
                () = wake.woken() => return Ok(NextStep::Again),
            };
            let Some(delta) = next else {
                return Err(OutboundError::new(Kind::Broken, "its stream ended before the task").into());
            };
            self.contact_made();
            if delta.seq != checkpoint.seq {
                let text = format!(
                    "its stream has frame {} where {} was due",
                    delta.seq, checkpoint.seq
                );
                return Err(OutboundError::new(Kind::Broken, text).into());
            }
            heard
                .take(&delta)
                .map_err(|error| OutboundError::permanent(format!("its stream is not taken: {error}")))?;
            checkpoint.seq += 1;
            checkpoint.stream_id.clone_from(&delta.stream_id);
            let is_halt = heard.has_ended() || heard.asks;
            let is_due = checkpoint.seq - acknowledged >= ACK_EVERY;
            if !is_halt && deltas.ready() > 0 && !is_due {
                continue;
            }
            let (artifacts, changes) = heard.report();
            let report = DeliveryReport {
                checkpoint: Some(checkpoint.write()),
                artifacts,
                changes,
                settled: heard.has_ended(),
                ..DeliveryReport::default()
            };
            self.report(report).await?;
            // What is kept is acknowledged, at the latest when half of the window is used.
            if is_halt || is_due {
                acknowledged = checkpoint.seq;
                let outcome = self.acknowledge(checkpoint).await;
                if !is_halt {
                    outcome?;
                }
            }
            if heard.has_ended() {
                return Ok(NextStep::Done);
            }
            if heard.asks {
                return Ok(NextStep::Again);
            }
        }
    }

    async fn acknowledge(&self, checkpoint: &OutboundCheckpoint) -> Result<(), OutboundError> {
        let Some(last) = checkpoint.seq.checked_sub(1) else {
            return Ok(());
        };
        let envelope = acknowledgement(
            &self.shared.identity,
            self.shared.form,
            &checkpoint.receiver,
            &checkpoint.stream_id,
            last,
            now_ms(),
        );
        let envelope = envelope.map_err(|error| OutboundError::permanent(error.to_string()))?;
        self.client()?.send(envelope).await.map(|_| ())
    }

    /// The task has ended here; the agent, if it has it, is told.
    async fn withdraw(&mut self, checkpoint: &OutboundCheckpoint) -> Result<NextStep, StepError> {
        let sending = checkpoint.sending.as_ref().map(|(id, _)| id);
        let first = checkpoint.first.as_ref().or(sending);
        if let Some(id) = first.and_then(|id| EnvelopeId::parse(id)) {
            let body = EnvelopeBody::text("text/plain", "the task has ended");
            let draft = EnvelopeDraft::new(Intent::Cancel, vec![checkpoint.receiver.clone()], body, now_ms());
            let envelope = draft
                .with_reply_to(id)
                .sign_to_bytes(&self.shared.identity, self.shared.form)
                .map_err(|error| OutboundError::permanent(error.to_string()))?;
            self.client()?.send(envelope).await?;
        }
        let report = DeliveryReport {
            settled: true,
            ..DeliveryReport::default()
        };
        self.report(report).await?;
        Ok(NextStep::Done)
    }

    async fn agent_failed(
        &mut self,
        task: &ExternalTask,
        checkpoint: &mut OutboundCheckpoint,
        error: &OutboundError,
    ) -> NextStep {
        let patience = if checkpoint.taken == 0 {
            FIRST_PATIENCE
        } else {
            PATIENCE
        };
        let may_pass = error.is_transient() && self.contact.elapsed() < patience;
        if may_pass {
            let doubled = PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
            self.failures += 1;
            let pause = error.after().map_or(doubled, |after| after.max(doubled));
            let mut report = DeliveryReport::default();
            // What was surely not taken is another envelope the next time, with a time of its own.
            if matches!(error.kind(), Kind::Unreached | Kind::Busy) && checkpoint.sending.take().is_some() {
                report.checkpoint = Some(checkpoint.write());
            }
            self.record_failure(task, error, Some(pause));
            return match self.report(report).await {
                Ok(()) => NextStep::Wait(pause),
                Err(error) => self.node_failed(&error),
            };
        }
        self.record_failure(task, error, None);
        if is_terminal(task.task.status()) {
            let report = DeliveryReport {
                settled: true,
                ..DeliveryReport::default()
            };
            return match self.report(report).await {
                Ok(()) => NextStep::Done,
                Err(error) => self.node_failed(&error),
            };
        }
        let reason = if error.is_transient() {
            format!("it was not reached for {} s: {error}", patience.as_secs())
        } else {
            error.to_string()
        };
        self.fail(task, &reason).await
    }

    async fn fail(&mut self, task: &ExternalTask, reason: &str) -> NextStep {
        let host = AgentUrl::read(&task.url).map_or_else(|_| "this URL".to_owned(), |url| url.authority);
        let text = format!("the agent at {host}: {reason}");
        let report = DeliveryReport {
            changes: vec![(TaskStatus::Failed, Some(agent_message(&text)))],
            settled: true,
            ..DeliveryReport::default()
        };
        match self.report(report).await {
            Ok(()) => NextStep::Done,
            Err(error) => self.node_failed(&error),
        }
    }

    fn contact_made(&mut self) {
        self.contact = Instant::now();
        self.failures = 0;
    }

    fn record(&mut self, task: &ExternalTask, action: ExternalAction, detail: &str) {
        self.events.push(DeliveryEvent {
            action,
            url: task.url.clone(),
            binding: "uamp/1.0".to_owned(),
            detail: detail.to_owned(),
            failure: ExternalFailure::Unspecified,
            retry_in: None,
        });
    }

    fn record_failure(&mut self, task: &ExternalTask, error: &OutboundError, retry_in: Option<Duration>) {
        self.record(task, ExternalAction::Failed, &error.to_string());
        if let Some(event) = self.events.last_mut() {
            event.failure = error.kind().wire_code();
            event.retry_in = retry_in;
        }
    }

    async fn save(&mut self, checkpoint: &OutboundCheckpoint) -> Result<(), GatewayError> {
        let report = DeliveryReport {
            checkpoint: Some(checkpoint.write()),
            ..DeliveryReport::default()
        };
        self.report(report).await
    }

    async fn report(&mut self, mut report: DeliveryReport) -> Result<(), GatewayError> {
        report.events = std::mem::take(&mut self.events);
        if report.is_empty() {
            return Ok(());
        }
        self.shared.tasks.report(&self.id, report).await
    }
}

/// The messages that the node's agent has sent, oldest first.
fn own_messages(task: &ExternalTask) -> impl Iterator<Item = &v1::Message> {
    let messages = task.task.messages.iter();
    messages.filter(|message| message.role == MessageRole::User as i32)
}

/// A message as a body: its only part, or all of them as JSON.
fn body_of(message: &v1::Message) -> EnvelopeBody {
    if let [only] = message.parts.as_slice() {
        return body_of_part(only);
    }
    let parts = message.parts.iter().map(|part| {
        let (mime, bytes) = part_bytes(part);
        match String::from_utf8(bytes.to_vec()) {
            Ok(text) => serde_json::json!({ "mime": mime, "content": text }),
            Err(_) => EnvelopeBody::bytes(&mime, &bytes).to_value(),
        }
    });
    EnvelopeBody::json(&Value::Array(parts.collect()))
}
