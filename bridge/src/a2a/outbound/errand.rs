//! One errand: a task that is carried to an agent outside, from its first message to its end.
//!
//! Each step begins with the errand as the node has it, so that a step after a restart is like any other.

mod follow;
mod give;
mod told;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_program::address::bare_url;
use agentanycast_proto::v1::{Message, MessageRole, OutsideDeed, Part, TaskStatus, TextPart, part::Content};
use http::Uri;

use self::told::Told;
use super::{
    Bell, Shared,
    choice::Choice,
    fault::{Fault, Kind},
    http::Clients,
    place::Place,
    progress::Progress,
    remote::Remote,
};
use crate::gateway::{Errand, ErrorKind, GatewayError, Report, is_terminal};

/// How long an agent may be out of reach that has not been given anything yet: whoever sends to a wrong address wants
/// to know it.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a failure; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pause when the node cannot be asked.
const NODE_PAUSE: Duration = Duration::from_secs(1);

/// What comes after a step.
enum Next {
    /// Nothing: the errand is over, or this process is.
    Done,
    /// The next step.
    Again,
    /// The next step, after a while or when something comes.
    Wait(Duration),
}

/// Why a step came to nothing.
enum Failure {
    /// Of the agent.
    Agent(Fault),
    /// Of the node.
    Node(GatewayError),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Agent(fault)
    }
}

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        Self::Node(error)
    }
}

/// An errand that is being run.
pub(super) struct Run {
    shared: Arc<Shared>,
    id: String,
    bell: Arc<Bell>,
    clients: Arc<Clients>,
    /// When the agent was last heard.
    contact: Instant,
    /// Failures since then.
    failures: u32,
    /// Why it is not known whether the agent has a message.
    doubt: Option<Fault>,
    /// What was done and is to be told.
    told: Told,
}

impl Run {
    pub(super) fn new(shared: Arc<Shared>, id: String, bell: Arc<Bell>) -> Self {
        Self {
            clients: Arc::clone(&shared.clients),
            shared,
            id,
            bell,
            contact: Instant::now(),
            failures: 0,
            doubt: None,
            told: Told::default(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.bell.quiet();
            let next = match self.shared.errands.errand(&self.id).await {
                Ok(Some(errand)) if !errand.settled => self.step(errand).await,
                Ok(_) => return,
                Err(error) => self.node_failed(&error),
            };
            let pause = match next {
                Next::Done => return,
                Next::Again => continue,
                Next::Wait(pause) => pause,
            };
            tokio::select! {
                () = self.shared.stop.cancelled() => return,
                () = self.bell.rings() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn step(&mut self, errand: Errand) -> Next {
        let Some(mut place) = Place::read(&errand.place) else {
            return self.fail(&errand, "the node's note on it is damaged", true).await;
        };
        let done = self.take_step(&errand, &mut place).await;
        match done {
            Ok(next) => next,
            Err(Failure::Node(error))
                if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TaskNotFound) =>
            {
                let reason = format!("this node cannot keep what the agent says: {error}");
                self.fail(&errand, &reason, place.task.is_empty()).await
            }
            Err(Failure::Node(error)) => self.node_failed(&error),
            Err(Failure::Agent(fault)) if is_terminal(errand.task.status()) => {
                self.withdrawal_failed(&errand, &fault).await
            }
            Err(Failure::Agent(fault)) => self.agent_failed(&errand, &place, &fault).await,
        }
    }

    async fn take_step(&mut self, errand: &Errand, place: &mut Place) -> Result<Next, Failure> {
        if errand.allow_private {
            self.clients = Arc::clone(&self.shared.private_clients);
        }
        let given = place.taken;
        self.told.about(&errand.url, place.choice.as_ref());
        let ours = ours(errand).count();
        if !is_terminal(errand.task.status())
            && errand.task.status() == TaskStatus::InputRequired
            && ours <= given
        {
            return self.rest(errand, place).await;
        }
        let shared = Arc::clone(&self.shared);
        let _place = tokio::select! {
            () = shared.stop.cancelled() => return Ok(Next::Done),
            place = shared.places.acquire() => place,
        };
        if is_terminal(errand.task.status()) {
            self.withdraw(errand, place).await
        } else if place.sending {
            self.resolve_doubt(errand, place).await
        } else if ours > given {
            self.give(errand, place).await
        } else {
            self.follow(errand, place).await
        }
    }

    /// The task has ended here; the agent, if it has it, is told.
    async fn withdraw(&mut self, errand: &Errand, place: &mut Place) -> Result<Next, Failure> {
        if place.task.is_empty() && place.sending {
            place.task = self.look_for_first(errand, place).await?.unwrap_or_default();
        }
        if let (false, Some(choice)) = (place.task.is_empty(), &place.choice) {
            self.remote(choice)?.cancel(&place.task).await?;
            self.told.did(OutsideDeed::Withdrawn, &place.task);
            tracing::info!(
                task = self.id,
                remote = place.task,
                "an agent outside was told that its task is over"
            );
        }
        self.settle().await
    }

    async fn withdrawal_failed(&mut self, errand: &Errand, fault: &Fault) -> Next {
        let may_pass = matches!(fault.kind(), Kind::Unreached | Kind::Busy | Kind::Broken);
        if may_pass && self.contact.elapsed() < self.shared.patience {
            return self
                .again(OutsideDeed::NotWithdrawn, fault, self.shared.patience)
                .await;
        }
        self.told.failed(OutsideDeed::NotWithdrawn, fault, None);
        let url = bare_url(&errand.url);
        tracing::info!(task = self.id, url, %fault, "an agent outside could not be told that its task is over");
        match self.settle().await {
            Ok(next) => next,
            Err(Failure::Node(error)) => self.node_failed(&error),
            Err(Failure::Agent(_)) => Next::Done,
        }
    }

    async fn settle(&mut self) -> Result<Next, Failure> {
        let report = Report {
            settled: true,
            ..Report::default()
        };
        self.report(report).await?;
        Ok(Next::Done)
    }

    async fn agent_failed(&mut self, errand: &Errand, place: &Place, fault: &Fault) -> Next {
        let patience = if place.taken == 0 && !place.sending {
            self.shared.patience.min(FIRST_PATIENCE)
        } else {
            self.shared.patience
        };
        let may_pass = matches!(fault.kind(), Kind::Unreached | Kind::Busy | Kind::Broken);
        if may_pass && self.contact.elapsed() < patience {
            let url = bare_url(&errand.url);
            tracing::debug!(task = self.id, url, %fault, "an agent outside is asked again");
            return self.again(OutsideDeed::Failed, fault, patience).await;
        }
        self.told.failed(OutsideDeed::Failed, fault, None);
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
    async fn fail(&mut self, errand: &Errand, reason: &str, settled: bool) -> Next {
        let text = format!("the agent at {}: {reason}", host_of(&errand.url));
        let report = Report {
            changes: vec![(TaskStatus::Failed, Some(note(text)))],
            settled,
            ..Report::default()
        };
        self.contact = Instant::now();
        self.failures = 0;
        match self.report(report).await {
            Ok(()) => Next::Again,
            Err(error) => self.node_failed(&error),
        }
    }

    /// Why a message whose fate is not known is not sent again.
    fn in_doubt(&self) -> String {
        let why = self
            .doubt
            .as_ref()
            .map_or("this node fell while it was sent".to_owned(), Fault::to_string);
        format!("it is not known whether it has the message ({why}); look there before you send it again")
    }

    fn node_failed(&self, error: &GatewayError) -> Next {
        if error.kind() == ErrorKind::TaskNotFound {
            return Next::Done;
        }
        tracing::warn!(task = self.id, %error, "an errand waits for the node");
        Next::Wait(NODE_PAUSE)
    }

    /// The agent is asked again after a while, which whoever asks is told.
    async fn again(&mut self, what: OutsideDeed, fault: &Fault, patience: Duration) -> Next {
        // The last attempt is when the patience ends.
        let pause = self
            .pause(fault)
            .min(patience.saturating_sub(self.contact.elapsed()));
        self.told.failed(what, fault, Some(pause));
        match self.report(Report::default()).await {
            Ok(()) => Next::Wait(pause),
            Err(error) => self.node_failed(&error),
        }
    }

    /// How long to wait before an agent is asked again.
    fn pause(&mut self, fault: &Fault) -> Duration {
        let doubled = PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        let mut hasher = DefaultHasher::new();
        (&self.id, self.failures).hash(&mut hasher);
        // Errands to one agent that failed together do not come back together.
        let share = (hasher.finish() % 256) as u32;
        let jittered = doubled.mul_f64(0.75 + f64::from(share) / 512.0);
        fault.after().map_or(jittered, |after| after.max(jittered))
    }

    fn heard(&mut self) {
        self.contact = Instant::now();
        self.failures = 0;
    }

    fn remote(&self, choice: &Choice) -> Result<Remote, Fault> {
        Remote::new(
            Arc::clone(&self.clients),
            choice.interface.clone(),
            self.shared.within,
        )
    }

    /// Tells the node what is news, with this place if it has changed; true: the task has ended.
    async fn tell(&mut self, progress: &mut Progress, place: Option<&Place>) -> Result<bool, Failure> {
        let mut report = progress.take();
        report.place = place.map(Place::write);
        let ended = is_terminal(progress.status());
        report.settled = ended;
        self.report(report).await?;
        Ok(ended)
    }

    async fn keep(&mut self, place: &Place) -> Result<(), Failure> {
        let report = Report {
            place: Some(place.write()),
            ..Report::default()
        };
        Ok(self.report(report).await?)
    }

    /// Tells the node this, and what was done meanwhile; nothing if there is neither.
    async fn report(&mut self, mut report: Report) -> Result<(), GatewayError> {
        report.deeds = self.told.take();
        if report.is_empty() {
            return Ok(());
        }
        self.shared.errands.report(&self.id, report).await
    }
}

/// The messages that the node's agent has sent, oldest first.
fn ours(errand: &Errand) -> impl Iterator<Item = &Message> {
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
