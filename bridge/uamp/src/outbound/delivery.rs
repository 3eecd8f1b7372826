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
use agentanycast_uamp::{
    body::EnvelopeBody,
    delta::Delta,
    envelope::{DEFAULT_WINDOW, EnvelopeDraft, EnvelopeId, Intent},
    error::{UampCode, UampError},
    trust::TrustAnchors,
};
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
    contact::{Contact, FIRST_PATIENCE, PATIENCE, PAUSE},
};
use crate::client::{UampClient, acknowledgement};

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

/// Why a frame is not taken.
enum StreamFault {
    Agent(OutboundError),
    /// A frame was left out each time that it was asked for.
    MissingForGood(String),
}

/// A task that is being carried.
pub(super) struct UampDelivery {
    shared: Arc<OutboundShared>,
    id: String,
    wake: Arc<WakeSignal>,
    contact: Contact,
    /// The agent has ended its task: it is told nothing more.
    has_ended: bool,
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
            contact: Contact::new(Instant::now()),
            has_ended: false,
            client: None,
            events: Vec::new(),
        }
    }
}

impl ExternalJob for UampDelivery {
    async fn step(&mut self, task: ExternalTask) -> NextStep {
        let task = &task;
        let Some(mut checkpoint) = OutboundCheckpoint::read(&task.checkpoint) else {
            return self.fail(task, "the node's note on it is damaged", true).await;
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
                self.fail(task, &text, self.has_ended || checkpoint.first.is_none())
                    .await
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
        self.contact.made(Instant::now());
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
        let opened = Instant::now();
        let mut heard = HeardAnswer::new(&task.task);
        let (mut acknowledged, mut reported) = (checkpoint.seq, checkpoint.seq);
        loop {
            let next = tokio::select! {
                biased;
                () = shared.stop.cancelled() => return Ok(NextStep::Done),
                next = deltas.next() => next,
                // Its agent may wait for this, having fewer frames than half of the window.
                () = tokio::time::sleep(ACK_WHEN_IDLE), if acknowledged < checkpoint.seq => {
                    acknowledged = checkpoint.seq;
                    self.acknowledge(checkpoint).await?;
                    continue;
                }
                // Something came from this side: a cancel, mostly.
                () = wake.woken() => return Ok(NextStep::Again),
            };
            let next = next.and_then(|delta| {
                delta.ok_or_else(|| OutboundError::new(Kind::Broken, "its stream ended before the task"))
            });
            let taken = match next {
                Ok(delta) => self.take(checkpoint, &mut heard, &delta),
                Err(error) => {
                    self.contact.stream_ended(opened, deltas.last_heard());
                    Err(StreamFault::Agent(error))
                }
            };
            let is_halt = heard.has_ended() || heard.asks;
            let is_due = checkpoint.seq - acknowledged >= ACK_EVERY;
            if taken.is_ok() && !is_halt && deltas.ready() > 0 && !is_due {
                continue;
            }
            self.has_ended |= heard.has_ended();
            // What came before a fault is kept.
            if reported < checkpoint.seq {
                reported = checkpoint.seq;
                let (artifacts, changes) = heard.report();
                let report = DeliveryReport {
                    checkpoint: Some(checkpoint.write()),
                    artifacts,
                    changes,
                    settled: heard.has_ended(),
                    ..DeliveryReport::default()
                };
                self.report(report).await?;
            }
            match taken {
                Ok(()) => {}
                Err(StreamFault::Agent(error)) => return Err(error.into()),
                Err(StreamFault::MissingForGood(text)) => {
                    return Ok(self.refuse_stream(task, checkpoint, text).await);
                }
            }
            if heard.has_ended() {
                return Ok(NextStep::Done);
            }
            // What is kept is acknowledged, at the latest when half of the window is used.
            if is_halt || is_due {
                acknowledged = checkpoint.seq;
                let outcome = self.acknowledge(checkpoint).await;
                if !is_halt {
                    outcome?;
                }
            }
            if heard.asks {
                return Ok(NextStep::Again);
            }
        }
    }

    /// Takes one frame. One that was taken before is left out: a server may begin a stream again at its first frame.
    fn take(
        &mut self,
        checkpoint: &mut OutboundCheckpoint,
        heard: &mut HeardAnswer,
        delta: &Delta,
    ) -> Result<(), StreamFault> {
        let due = checkpoint.seq;
        if delta.seq < due && !delta.kind.is_terminal() {
            return Ok(());
        }
        if delta.seq != due {
            let text = format!("its stream has frame {} where {due} was due", delta.seq);
            return Err(if self.contact.is_missing_for_good(due) {
                StreamFault::MissingForGood(text)
            } else {
                StreamFault::Agent(OutboundError::new(Kind::Broken, text))
            });
        }
        heard.take(delta).map_err(|error| {
            StreamFault::Agent(OutboundError::permanent(format!(
                "its stream is not taken: {error}"
            )))
        })?;
        self.contact.made(Instant::now());
        checkpoint.seq += 1;
        checkpoint.stream_id.clone_from(&delta.stream_id);
        Ok(())
    }

    /// Tells the agent that a frame is missing (4.09), and ends the task.
    async fn refuse_stream(
        &mut self,
        task: &ExternalTask,
        checkpoint: &OutboundCheckpoint,
        text: String,
    ) -> NextStep {
        let error = UampError::coded(UampCode::MissingDelta, text);
        let body = EnvelopeBody::json(&Value::Object(error.payload()));
        let told = match self.closing(checkpoint, Intent::Error, body) {
            Ok(Some(envelope)) => match self.client() {
                Ok(client) => client.send(envelope).await.map(|_| ()),
                Err(error) => Err(error),
            },
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::info!(task = self.id, %error, "an agent of UAMP could not be told that a frame is missing");
        }
        let failure = OutboundError::permanent(error.to_string());
        self.record_failure(task, &failure, None);
        self.fail(task, &failure.to_string(), true).await
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

    /// The task has ended here; the agent, if it has it and has not ended it, is told.
    async fn withdraw(&mut self, checkpoint: &OutboundCheckpoint) -> Result<NextStep, StepError> {
        let body = EnvelopeBody::text("text/plain", "the task has ended");
        if !self.has_ended
            && let Some(envelope) = self.closing(checkpoint, Intent::Cancel, body)?
        {
            self.client()?.send(envelope).await?;
        }
        let report = DeliveryReport {
            settled: true,
            ..DeliveryReport::default()
        };
        self.report(report).await?;
        Ok(NextStep::Done)
    }

    /// The envelope that ends the conversation; `None`: the agent has nothing of it.
    fn closing(
        &self,
        checkpoint: &OutboundCheckpoint,
        intent: Intent,
        body: EnvelopeBody,
    ) -> Result<Option<Vec<u8>>, OutboundError> {
        let sending = checkpoint.sending.as_ref().map(|(id, _)| id);
        let first = checkpoint.first.as_ref().or(sending);
        let Some(id) = first.and_then(|id| EnvelopeId::parse(id)) else {
            return Ok(None);
        };
        let mut draft =
            EnvelopeDraft::new(intent, vec![checkpoint.receiver.clone()], body, now_ms()).with_reply_to(id);
        if intent == Intent::Error && !checkpoint.stream_id.is_empty() {
            draft.stream_id = Some(checkpoint.stream_id.clone());
        }
        draft
            .sign_to_bytes(&self.shared.identity, self.shared.form)
            .map(Some)
            .map_err(|error| OutboundError::permanent(error.to_string()))
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
        let may_pass = error.is_transient() && self.contact.may_pass(patience, Instant::now());
        if may_pass {
            let doubled = self.contact.pause();
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
        // What an agent has taken, or may have, is withdrawn.
        let is_in_doubt = checkpoint.sending.is_some() && error.kind() == Kind::Broken;
        let is_taken = checkpoint.first.is_some() || is_in_doubt;
        let is_over = self.has_ended || !is_taken || error.kind() == Kind::TaskGone;
        self.fail(task, &reason, is_over).await
    }

    /// Ends the task with a reason. `settled`: the agent need not be told.
    async fn fail(&mut self, task: &ExternalTask, reason: &str, settled: bool) -> NextStep {
        let host = AgentUrl::read(&task.url).map_or_else(|_| "this URL".to_owned(), |url| url.authority);
        let text = format!("the agent at {host}: {reason}");
        let report = DeliveryReport {
            changes: vec![(TaskStatus::Failed, Some(agent_message(&text)))],
            settled,
            ..DeliveryReport::default()
        };
        self.contact.made(Instant::now());
        match self.report(report).await {
            Ok(()) if settled => NextStep::Done,
            Ok(()) => NextStep::Again,
            Err(error) => self.node_failed(&error),
        }
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
