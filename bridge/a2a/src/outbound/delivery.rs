//! One errand: a task that is carried to an agent outside, from its first message to its end.
//!
//! Each step begins with the errand as the node has it, so that a step after a restart is like any other.

mod follow;
mod step_log;
mod submit;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_daemon_kit::address::bare_url;
use agentanycast_egress::client::HostClients;
use agentanycast_gateway::{
    DeliveryReport, ErrorKind, ExternalTask, GatewayError,
    external_runner::{ExternalJob, NextStep, WakeSignal},
    is_terminal,
};
use agentanycast_limits::{Backoff, jittered};
use agentanycast_proto::v1::{
    ExternalAction, Message, MessageRole, Part, TaskStatus, TextPart, part::Content,
};
use http::Uri;

use self::step_log::StepLog;
use super::{
    DeliveryShared,
    checkpoint::DeliveryCheckpoint,
    error::{Kind, OutboundError},
    interface::InterfaceChoice,
    remote_agent::RemoteAgent,
    report_builder::ReportBuilder,
};

/// How long an agent may be out of reach that has not been given anything yet: whoever sends to a wrong address wants
/// to know it.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// The pauses after failures, before jitter.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// The pause when the node cannot be asked.
const NODE_PAUSE: Duration = Duration::from_secs(1);

/// Why a step came to nothing.
enum DeliveryError {
    /// Of the agent.
    Agent(OutboundError),
    /// Of the node.
    Node(GatewayError),
}

impl From<OutboundError> for DeliveryError {
    fn from(fault: OutboundError) -> Self {
        Self::Agent(fault)
    }
}

impl From<GatewayError> for DeliveryError {
    fn from(error: GatewayError) -> Self {
        Self::Node(error)
    }
}

/// An errand that is being run.
pub(super) struct DeliveryJob {
    shared: Arc<DeliveryShared>,
    id: String,
    wake: Arc<WakeSignal>,
    clients: Arc<HostClients>,
    /// When the agent was last heard.
    contact: Instant,
    /// Failures since then.
    failures: u32,
    /// Why it is not known whether the agent has a message.
    doubt: Option<OutboundError>,
    /// The agent has ended its task: it is told nothing more.
    has_ended: bool,
    /// What was done and is to be told.
    step_log: StepLog,
}

impl DeliveryJob {
    pub(super) fn new(shared: Arc<DeliveryShared>, id: String, wake: Arc<WakeSignal>) -> Self {
        Self {
            clients: Arc::clone(&shared.clients),
            shared,
            id,
            wake,
            contact: Instant::now(),
            failures: 0,
            doubt: None,
            has_ended: false,
            step_log: StepLog::default(),
        }
    }
}

impl ExternalJob for DeliveryJob {
    async fn step(&mut self, errand: ExternalTask) -> NextStep {
        let Some(mut place) = DeliveryCheckpoint::read(&errand.checkpoint) else {
            return self.fail(&errand, "the node's note on it is damaged", true).await;
        };
        let done = self.take_step(&errand, &mut place).await;
        match done {
            Ok(next) => next,
            Err(DeliveryError::Node(error))
                if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TaskNotFound) =>
            {
                let reason = format!("this node cannot keep what the agent says: {error}");
                self.fail(&errand, &reason, place.task.is_empty()).await
            }
            Err(DeliveryError::Node(error)) => self.node_failed(&error),
            Err(DeliveryError::Agent(fault)) if is_terminal(errand.task.status()) => {
                self.withdrawal_failed(&errand, &fault).await
            }
            Err(DeliveryError::Agent(fault)) => self.agent_failed(&errand, &place, &fault).await,
        }
    }

    fn node_failed(&self, error: &GatewayError) -> NextStep {
        if error.kind() == ErrorKind::TaskNotFound {
            return NextStep::Done;
        }
        tracing::warn!(task = self.id, %error, "an errand waits for the node");
        NextStep::Wait(NODE_PAUSE)
    }
}

impl DeliveryJob {
    async fn take_step(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        if errand.allow_private {
            self.clients = Arc::clone(&self.shared.private_clients);
        }
        let given = place.taken;
        self.step_log.about(&errand.url, place.choice.as_ref());
        let ours = own_messages(errand).count();
        if !is_terminal(errand.task.status())
            && errand.task.status() == TaskStatus::InputRequired
            && ours <= given
        {
            return self.poll_idle(errand, place).await;
        }
        let shared = Arc::clone(&self.shared);
        let _place = tokio::select! {
            () = shared.stop.cancelled() => return Ok(NextStep::Done),
            place = shared.permits.acquire() => place,
        };
        if is_terminal(errand.task.status()) {
            self.withdraw(errand, place).await
        } else if place.sending {
            self.resolve_doubt(errand, place).await
        } else if ours > given {
            self.submit(errand, place).await
        } else {
            self.follow(errand, place).await
        }
    }

    /// The task has ended here; the agent, if it has it and has not ended it, is told.
    async fn withdraw(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        if self.has_ended {
            return self.settle().await;
        }
        if place.task.is_empty() && place.sending {
            place.task = self.look_for_first(errand, place).await?.unwrap_or_default();
        }
        if let (false, Some(choice)) = (place.task.is_empty(), &place.choice) {
            self.remote(choice)?.cancel(&place.task).await?;
            self.step_log.record(ExternalAction::Withdrawn, &place.task);
            tracing::info!(
                task = self.id,
                remote = place.task,
                "an agent outside was told that its task is over"
            );
        }
        self.settle().await
    }

    async fn withdrawal_failed(&mut self, errand: &ExternalTask, fault: &OutboundError) -> NextStep {
        let may_pass = matches!(fault.kind(), Kind::Unreached | Kind::Busy | Kind::Broken);
        if may_pass && self.contact.elapsed() < self.shared.patience {
            return self
                .again(ExternalAction::NotWithdrawn, fault, self.shared.patience)
                .await;
        }
        self.step_log
            .record_failure(ExternalAction::NotWithdrawn, fault, None);
        let url = bare_url(&errand.url);
        tracing::info!(task = self.id, url, %fault, "an agent outside could not be told that its task is over");
        match self.settle().await {
            Ok(next) => next,
            Err(DeliveryError::Node(error)) => self.node_failed(&error),
            Err(DeliveryError::Agent(_)) => NextStep::Done,
        }
    }

    async fn settle(&mut self) -> Result<NextStep, DeliveryError> {
        let report = DeliveryReport {
            settled: true,
            ..DeliveryReport::default()
        };
        self.report(report).await?;
        Ok(NextStep::Done)
    }

    async fn agent_failed(
        &mut self,
        errand: &ExternalTask,
        place: &DeliveryCheckpoint,
        fault: &OutboundError,
    ) -> NextStep {
        let patience = if place.taken == 0 && !place.sending {
            self.shared.patience.min(FIRST_PATIENCE)
        } else {
            self.shared.patience
        };
        let may_pass = matches!(fault.kind(), Kind::Unreached | Kind::Busy | Kind::Broken);
        if may_pass && self.contact.elapsed() < patience {
            let url = bare_url(&errand.url);
            tracing::debug!(task = self.id, url, %fault, "an agent outside is asked again");
            return self.again(ExternalAction::Failed, fault, patience).await;
        }
        self.step_log.record_failure(ExternalAction::Failed, fault, None);
        let reason = match fault.kind() {
            _ if place.sending => self.in_doubt(),
            _ if may_pass => format!("it was not reached for {patience:?}: {fault}"),
            Kind::TaskGone => format!("it no longer knows the task: {fault}"),
            _ => fault.to_string(),
        };
        // What the agent still works on is of no use to anybody.
        let settled = place.task.is_empty() && !place.sending || fault.kind() == Kind::TaskGone;
        self.fail(errand, &reason, settled).await
    }

    /// Ends the task with a reason.
    async fn fail(&mut self, errand: &ExternalTask, reason: &str, settled: bool) -> NextStep {
        let text = format!("the agent at {}: {reason}", host_of(&errand.url));
        let report = DeliveryReport {
            changes: vec![(TaskStatus::Failed, Some(note(text)))],
            settled,
            ..DeliveryReport::default()
        };
        self.contact = Instant::now();
        self.failures = 0;
        match self.report(report).await {
            Ok(()) => NextStep::Again,
            Err(error) => self.node_failed(&error),
        }
    }

    /// Why a message whose fate is not known is not sent again.
    fn in_doubt(&self) -> String {
        let why = self.doubt.as_ref().map_or(
            "this node fell while it was sent".to_owned(),
            OutboundError::to_string,
        );
        format!("it is not known whether it has the message ({why}); look there before you send it again")
    }

    /// The agent is asked again after a while, which whoever asks is told.
    async fn again(&mut self, what: ExternalAction, fault: &OutboundError, patience: Duration) -> NextStep {
        // The last attempt is when the patience ends.
        let pause = self
            .pause(fault)
            .min(patience.saturating_sub(self.contact.elapsed()));
        self.step_log.record_failure(what, fault, Some(pause));
        match self.report(DeliveryReport::default()).await {
            Ok(()) => NextStep::Wait(pause),
            Err(error) => self.node_failed(&error),
        }
    }

    /// How long to wait before an agent is asked again.
    fn pause(&mut self, fault: &OutboundError) -> Duration {
        let doubled = PAUSES.after(self.failures);
        self.failures += 1;
        let mut hasher = DefaultHasher::new();
        (&self.id, self.failures).hash(&mut hasher);
        // Errands to one agent that failed together do not come back together.
        let share = (hasher.finish() % 256) as u32;
        let pause = jittered(doubled, 0.25, f64::from(share) / 256.0);
        fault.after().map_or(pause, |after| after.max(pause))
    }

    fn contact_made(&mut self) {
        self.contact = Instant::now();
        self.failures = 0;
    }

    fn remote(&self, choice: &InterfaceChoice) -> Result<RemoteAgent, OutboundError> {
        RemoteAgent::new(
            Arc::clone(&self.clients),
            choice.interface.clone(),
            self.shared.within,
        )
    }

    /// Tells the node what is news, with this place if it has changed; true: the task has ended.
    async fn report_progress(
        &mut self,
        progress: &mut ReportBuilder,
        place: Option<&DeliveryCheckpoint>,
    ) -> Result<bool, DeliveryError> {
        let mut report = progress.take();
        report.checkpoint = place.map(DeliveryCheckpoint::write);
        let ended = is_terminal(progress.status());
        report.settled = ended;
        self.has_ended |= ended;
        self.report(report).await?;
        Ok(ended)
    }

    async fn save_checkpoint(&mut self, place: &DeliveryCheckpoint) -> Result<(), DeliveryError> {
        let report = DeliveryReport {
            checkpoint: Some(place.write()),
            ..DeliveryReport::default()
        };
        Ok(self.report(report).await?)
    }

    /// Tells the node this, and what was done meanwhile; nothing if there is neither.
    async fn report(&mut self, mut report: DeliveryReport) -> Result<(), GatewayError> {
        report.events = self.step_log.take();
        if report.is_empty() {
            return Ok(());
        }
        self.shared.tasks.report(&self.id, report).await
    }
}

/// The messages that the node's agent has sent, oldest first.
fn own_messages(errand: &ExternalTask) -> impl Iterator<Item = &Message> {
    let messages = errand.task.messages.iter();
    messages.filter(|message| message.role == MessageRole::User as i32)
}

/// A message of this node: why it ended a task.
fn note(text: String) -> Message {
    Message {
        role: MessageRole::Agent.into(),
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        }],
        ..Message::default()
    }
}

/// What people know an agent by.
fn host_of(url: &str) -> String {
    let uri: Option<Uri> = url.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    authority.map_or_else(|| url.to_owned(), ToString::to_string)
}
