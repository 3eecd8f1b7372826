//! What the assignee's agent does: listens, claims, reports, asks, completes, fails; `streams` has its artifacts that it
//! streams, `agent_end` the tasks that its agents had when they ended.

mod agent_end;
mod streams;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    Artifact, Message, MessageRole, TaskCompletePayload, TaskFailPayload, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{
    client_commands::fits,
    dispatcher::{DeclineOutcome, ListenerId},
    log,
    state::Core,
    task_table::{TaskIndexEntry, unless_damaged},
    trace_context::TraceContext,
    transaction::{EngineError, Now},
};
use crate::{
    delivery::outbox::EnvelopeKind,
    task::{MAX_ID, Output, Role, Status, Streamed, Task},
};

/// The connection of a claim whose claimer is not known any more; real ones count from 1.
const UNKNOWN_CONNECTION: u64 = 0;

/// Who works on a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskClaim {
    /// The gRPC connection that claimed it.
    connection: u64,
    /// Since when that connection is gone.
    lost_at: Option<Duration>,
    /// The agent's library made it, and the agent has said nothing yet: when the agent ends, the task is
    /// handed out again.
    automatic: bool,
}

/// Where a streamed artifact goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRoute {
    /// As a stream to this peer.
    Peer(PeerId),
    /// Into this node's own files: the originator is here.
    Local,
    /// Into this node's own files, to be sent whole when the task completes: the task is sealed, or the originator runs
    /// a daemon that does not know streams.
    Whole,
}

/// What completing a task came to.
#[derive(Debug)]
pub enum CompleteOutcome {
    /// It is complete.
    Completed,
    /// Nothing was done: these finished streams have to go along whole first.
    StreamsDue {
        /// The streams that its originator has not got.
        streams: Vec<Streamed>,
        /// What was given, to be given again.
        artifacts: Vec<Artifact>,
        /// What was given, to be given again.
        message: Option<Message>,
    },
}

/// What is said of a task by the local agent, or in its place.
struct AgentReport {
    next: Status,
    message: Option<Message>,
    artifacts: Vec<Artifact>,
    /// Its originator may have another peer do it.
    returned: bool,
    /// The agent's library claims the task for this connection; the agent itself has said nothing.
    automatic_on: Option<u64>,
}

impl AgentReport {
    /// Nothing but its status.
    fn from_status(next: Status) -> Self {
        Self {
            next,
            message: None,
            artifacts: Vec::new(),
            returned: false,
            automatic_on: None,
        }
    }
}

impl Core {
    /// An agent begins to listen for tasks.
    pub fn attach(&mut self, now: Now, listener: ListenerId) -> Result<(), EngineError> {
        if self.dispatcher.idle_since().is_some() {
            self.restart_claim_grace(now);
        }
        let deliveries = self.dispatcher.attach(listener, now.mono);
        self.release_lost(now)?;
        Ok(self.hand_over(now, deliveries)?)
    }

    /// An agent stopped listening, and is still there.
    pub fn detach(&mut self, now: Now, listener: ListenerId) -> Result<(), EngineError> {
        self.listening_on.remove(&listener);
        let deliveries = self.dispatcher.detach(listener, now.mono);
        self.confirm_claims();
        Ok(self.hand_over(now, deliveries)?)
    }

    /// A listener has read `count` tasks.
    pub fn credit(&mut self, now: Now, listener: ListenerId, count: usize) -> Result<(), EngineError> {
        let deliveries = self.dispatcher.credit(listener, count);
        Ok(self.hand_over(now, deliveries)?)
    }

    /// A listener's client cannot be told of a task, since it takes smaller messages; `connection` is that client's. It ends
    /// with the reason, unless another agent can be, or has it, or was sent it before and may come again.
    pub fn decline(
        &mut self,
        now: Now,
        listener: ListenerId,
        connection: u64,
        id: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let decline = self.dispatcher.decline(listener, id, reason, now.mono);
        // Nobody else goes on with what it is in the middle of.
        let is_its_own = self.is_claimed_by(id, connection);
        match decline {
            DeclineOutcome::NotOffered => {}
            DeclineOutcome::StillOffered if !is_its_own => {}
            DeclineOutcome::Reoffer if !is_its_own => {
                let deliveries = self.dispatcher.offer_again(id);
                self.hand_over(now, deliveries)?;
            }
            DeclineOutcome::StillOffered | DeclineOutcome::Reoffer | DeclineOutcome::Undeliverable => {
                self.fail_untakable(now, id, reason)?;
            }
        }
        Ok(())
    }

    /// Fails what was declined, and nobody has come to take for the grace time.
    pub(super) fn fail_declined(&mut self, now: Now) -> Result<(), StoreError> {
        for (id, reason) in self.dispatcher.undeliverable(now.mono, self.limits.agent_grace) {
            if unless_damaged(self.fail_untakable(now, &id, &reason))?.is_none() {
                self.dispatcher.withdraw(&id);
            }
        }
        Ok(())
    }

    fn fail_untakable(&mut self, now: Now, id: &str, reason: &str) -> Result<(), StoreError> {
        let Some(task) = self.tasks.read(id)?.filter(|task| !task.status.is_terminal()) else {
            return Ok(());
        };
        // An agent elsewhere may be able to take what was sent by skill.
        if !self.fail_in_place(now, id, reason, task.has_no_report()) {
            return Ok(()); // It is looked at again after the grace time.
        }
        if task.status == Status::Submitted {
            self.dispatcher.withdraw(id);
            return Ok(());
        }
        self.notify_agent(now, id)
    }

    /// UpdateTaskStatus: moves a task on. The first one claims it for its connection.
    pub fn update(
        &mut self,
        now: Now,
        id: &str,
        next: Status,
        message: Option<Message>,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.check_claim(id, connection)?;
        let report = AgentReport {
            message,
            ..AgentReport::from_status(next)
        };
        self.on_agent_activity(now, id, report)?;
        if !next.is_terminal() {
            self.claim(id, connection);
        }
        Ok(())
    }

    fn claim(&mut self, id: &str, connection: u64) {
        let claim = TaskClaim {
            connection,
            lost_at: None,
            automatic: false,
        };
        self.claims.insert(id.to_owned(), claim);
    }

    /// CompleteTask: ends a task with its results.
    pub fn complete(
        &mut self,
        now: Now,
        id: &str,
        artifacts: Vec<Artifact>,
        message: Option<Message>,
    ) -> Result<(), EngineError> {
        let report = AgentReport {
            message,
            artifacts,
            ..AgentReport::from_status(Status::Completed)
        };
        self.on_agent_activity(now, id, report)
    }

    /// CompleteTask, unless streams of the task have to go along whole.
    pub fn complete_unless_streams_are_due(
        &mut self,
        now: Now,
        id: &str,
        artifacts: Vec<Artifact>,
        message: Option<Message>,
    ) -> Result<CompleteOutcome, EngineError> {
        let streams = self.streams_to_send_whole(id)?;
        if streams.is_empty() {
            self.complete(now, id, artifacts, message)?;
            return Ok(CompleteOutcome::Completed);
        }
        Ok(CompleteOutcome::StreamsDue {
            streams,
            artifacts,
            message,
        })
    }

    /// FailTask: ends a task with an error.
    pub fn fail(&mut self, now: Now, id: &str, error: &str) -> Result<(), EngineError> {
        let report = AgentReport {
            message: Some(self.note(now, error)),
            ..AgentReport::from_status(Status::Failed)
        };
        self.on_agent_activity(now, id, report)
    }

    /// Whether this connection, which lives, has claimed the task, now or before it was answered.
    fn is_claimed_by(&self, id: &str, connection: u64) -> bool {
        let claim = self.claims.get(id);
        claim.is_some_and(|claim| claim.connection == connection && claim.lost_at.is_none())
    }

    /// While the connection of the agent that claimed a task lives, no other may move the task on.
    pub(super) fn check_claim(&self, id: &str, connection: u64) -> Result<(), EngineError> {
        let Some(known) = self.tasks.indexed(id).filter(|known| known.claimed) else {
            return Ok(());
        };
        match self.claims.get(id) {
            Some(claim) if claim.connection != connection && claim.lost_at.is_none() => {
                Err(EngineError::Precondition(format!(
                    "task {id} is {}: another agent has claimed it; only that one can move it on",
                    known.status
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether an agent that has not claimed the task, and is on this connection, may end it.
    pub(super) fn check_unclaimed(&self, id: &str, connection: Option<u64>) -> Result<(), EngineError> {
        connection.map_or(Ok(()), |connection| self.check_claim(id, connection))
    }

    /// A gRPC connection is gone: what it claimed may be taken over, and fails if nobody does.
    pub fn on_connection_closed(&mut self, now: Now, connection: u64) {
        for claim in self
            .claims
            .values_mut()
            .filter(|claim| claim.connection == connection)
        {
            claim.lost_at = Some(now.mono);
        }
    }

    /// Agents listen again: what was answered when its agent had gone has its time to be taken over from now on.
    fn restart_claim_grace(&mut self, now: Now) {
        for (id, claim) in &mut self.claims {
            if claim.lost_at.is_some() && self.tasks.indexed(id).is_some_and(|known| !known.claimed) {
                claim.lost_at = Some(now.mono);
            }
        }
    }

    /// After a start no connection of before is there: what was claimed may be taken over, and fails if nobody
    /// does, also when other agents listen; so does what was answered since.
    pub(super) fn mark_claims_lost(&mut self, now: Now) {
        let claimed = self.tasks.all().filter(|(_, known)| {
            let is_begun = known.claimed || known.status == Status::Working;
            known.is_assignee && is_begun && !known.status.is_terminal()
        });
        let lost = |known: &TaskIndexEntry| TaskClaim {
            connection: UNKNOWN_CONNECTION,
            lost_at: Some(now.mono),
            automatic: !known.claimed && known.agent_ends > 0,
        };
        self.claims = claimed.map(|(id, known)| (id.to_owned(), lost(known))).collect();
    }

    /// Tasks whose claimer's connection has been gone for longer than `grace`.
    pub(super) fn lost_claims(&self, now: Now, grace: Duration) -> Vec<String> {
        self.claims
            .iter()
            .filter(|(id, _)| !self.is_reoffered(id))
            .filter(|(_, claim)| {
                claim
                    .lost_at
                    .is_some_and(|at| now.mono.saturating_sub(at) > grace)
            })
            .map(|(id, _)| id.to_owned())
            .collect()
    }

    /// What an agent says of its task: there is one, whether it listens or not.
    fn on_agent_activity(&mut self, now: Now, id: &str, report: AgentReport) -> Result<(), EngineError> {
        let mut task = self.task_of_agent(id)?;
        if !task.claimed {
            task.timeline.claimed_at.get_or_insert(now.unix);
        }
        self.dispatcher.note_activity(now.mono);
        self.report(now, task, report)
    }

    fn report(&mut self, now: Now, task: Task, mut report: AgentReport) -> Result<(), EngineError> {
        let again = |message: &Message| task.has_reported(message);
        let is_over = report.next.is_terminal() || task.status.is_terminal();
        if !is_over && report.message.as_ref().is_some_and(again) {
            return Ok(());
        }
        if report.next == Status::Completed
            && !task.status.is_terminal()
            && let Some(open) = task.open_streams().next()
        {
            return Err(EngineError::Precondition(format!(
                "artifact {} of task {} is still being streamed; end it first",
                open.artifact_id, task.id
            )));
        }
        if let Some(message) = &mut report.message {
            self.complete_message(now, message, MessageRole::Agent);
        }
        report.artifacts = self.name_artifacts(report.artifacts)?;
        self.apply_report(now, task, report)
    }

    fn apply_report(&mut self, now: Now, mut task: Task, report: AgentReport) -> Result<(), EngineError> {
        let AgentReport {
            next,
            message,
            artifacts,
            returned,
            automatic_on,
        } = report;
        if !next.is_terminal() {
            let bytes = message.as_ref().map_or(0, Message::encoded_len);
            self.check_task_bytes(&task, bytes)?;
        }
        let before = task.results.len();
        let was = task.status;
        let mut steps = task.advance(now.unix, next, message.clone(), artifacts.clone())?;
        task.claimed = true;
        if let Role::Assignee(peer) = task.role {
            // This node's own words, which nobody has to be kept from.
            let reason = message.as_ref().filter(|_| returned).map(super::wire::text_of);
            let (message, artifacts) = self.seal_report(now, &task, message, artifacts)?;
            let is_claim = next == Status::Working && was != Status::Working && message.is_none();
            if self.is_sequenced(peer)? {
                // It goes through the states in between by itself; a deployed one refuses to.
                steps = if is_claim {
                    &[]
                } else {
                    &steps[steps.len().saturating_sub(1)..]
                };
            }
            let mut payloads = payloads_of(&task.id, steps, message, artifacts);
            if let Some(Payload::TaskFail(fail)) = payloads.last_mut() {
                fail.returned = returned;
                if let Some(reason) = reason {
                    fail.error_message = reason;
                }
            }
            for payload in &payloads {
                fits(payload_len(payload), "result")?;
            }
            if payloads.is_empty() {
                self.claim_debounce.on_claimed(&task.id, now.mono);
            } else {
                self.claim_debounce.on_update_sent(&task.id);
            }
            for payload in payloads {
                self.send(
                    now,
                    peer,
                    &task.id,
                    EnvelopeKind::Durable,
                    payload,
                    TraceContext::from_metadata(&task.metadata),
                )?;
            }
        }
        let new: Vec<Arc<Output>> = task.results[before.min(task.results.len())..].to_vec();
        if !automatic_on.is_some_and(|connection| self.reserve_for(connection, &task.id)) {
            self.dispatcher.withdraw(&task.id);
        }
        let id = task.id.clone();
        if let Some(mut slot) = self.take(&id)? {
            slot.task = task;
            self.put_changed(slot, new);
        }
        Ok(())
    }

    /// Tells originators of tasks that have been worked on for a while.
    pub(super) fn send_due_claims(&mut self, now: Now) -> Result<(), StoreError> {
        for id in self.claim_debounce.due(now.mono) {
            self.send_claim(now, &id)?;
        }
        Ok(())
    }

    fn send_claim(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let Some(task) = self.tasks.read(id)? else {
            return Ok(());
        };
        if let (Role::Assignee(peer), Status::Working) = (task.role, task.status) {
            let payload = Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
                task_id: id.to_owned(),
                status: task.status.to_wire() as i32,
                message: None,
            });
            self.send(
                now,
                peer,
                id,
                EnvelopeKind::Durable,
                payload,
                TraceContext::from_metadata(&task.metadata),
            )?;
        }
        Ok(())
    }

    fn task_of_agent(&mut self, id: &str) -> Result<Task, EngineError> {
        let task = self.task(id)?;
        match task.role {
            Role::Originator(peer) => Err(EngineError::Denied(format!(
                "task {id} was sent to {peer}; only the agent there may change it"
            ))),
            Role::External => Err(EngineError::Denied(format!(
                "task {id} was sent to an agent beyond this network; only that one may change it"
            ))),
            // It is held until its originator confirms that it is for this node; an agent that knows of it was given it
            // too early, or before it was offered back, and is given it again.
            _ if task.held && !task.status.is_terminal() => Err(EngineError::NotFound(id.to_owned())),
            _ => Ok(task),
        }
    }

    fn name_artifacts(&mut self, mut artifacts: Vec<Artifact>) -> Result<Vec<Artifact>, EngineError> {
        for artifact in &mut artifacts {
            if artifact.artifact_id.is_empty() {
                artifact.artifact_id = self.new_id();
            }
            if artifact.artifact_id.len() > MAX_ID {
                return Err(EngineError::Invalid(format!(
                    "an artifact_id may have {MAX_ID} bytes at most"
                )));
            }
        }
        Ok(artifacts)
    }

    /// Fails a task of the local agent that went on for too long, or whose agent is gone, and tells the
    /// originator.
    pub(super) fn abandon(&mut self, now: Now, id: &str, reason: &str) -> Result<(), StoreError> {
        self.abandon_as(now, id, reason, false)
    }

    /// The same of one whose agent is gone. Where that has said no more than that it works on it, another peer may do it.
    pub(super) fn abandon_claimed(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let is_untold = self.tasks.read(id)?.is_some_and(|task| task.has_no_report());
        self.abandon_as(now, id, "agent went away", is_untold)
    }

    fn abandon_as(&mut self, now: Now, id: &str, reason: &str, returned: bool) -> Result<(), StoreError> {
        let claimed = self.tasks.indexed(id).is_some_and(|known| known.claimed);
        self.fail_in_place(now, id, reason, returned);
        if !claimed && self.dispatcher.idle_since().is_some() {
            self.dispatcher.withdraw(id); // No agent has ever seen it.
            return Ok(());
        }
        self.notify_agent(now, id)
    }

    /// Fails a task in the local agent's place and tells the originator; false: it could not be.
    fn fail_in_place(&mut self, now: Now, id: &str, reason: &str, returned: bool) -> bool {
        let peer = self.tasks.indexed(id).and_then(|known| known.peer);
        let report = AgentReport {
            message: Some(self.note(now, reason)),
            returned,
            ..AgentReport::from_status(Status::Failed)
        };
        let reported = self
            .task_of_agent(id)
            .and_then(|task| self.report(now, task, report));
        match &reported {
            Ok(()) => log::ended(id, peer, Status::Failed, reason),
            Err(error) => {
                tracing::warn!(task = id, %error, "a task without an agent could not be failed");
            }
        }
        reported.is_ok()
    }
}

/// What the originator is sent for these steps: the message and results go with the last one.
fn payloads_of(
    id: &str,
    steps: &[Status],
    message: Option<Message>,
    artifacts: Vec<Artifact>,
) -> Vec<Payload> {
    let Some((last, before)) = steps.split_last() else {
        return Vec::new();
    };
    let update = |status: Status, message| {
        Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
            task_id: id.to_owned(),
            status: status.to_wire() as i32,
            message,
        })
    };
    let mut payloads: Vec<Payload> = before.iter().map(|step| update(*step, None)).collect();
    payloads.push(match last {
        Status::Completed => Payload::TaskComplete(TaskCompletePayload {
            task_id: id.to_owned(),
            artifacts,
            message,
        }),
        Status::Failed => Payload::TaskFail(TaskFailPayload {
            task_id: id.to_owned(),
            error_message: message.as_ref().map(super::wire::text_of).unwrap_or_default(),
            message,
            ..TaskFailPayload::default()
        }),
        status => update(*status, message),
    });
    payloads
}

fn payload_len(payload: &Payload) -> usize {
    match payload {
        Payload::TaskComplete(complete) => complete.encoded_len(),
        Payload::TaskFail(fail) => fail.encoded_len(),
        Payload::TaskStatusUpdate(update) => update.encoded_len(),
        _ => 0,
    }
}
