//! What the assignee's agent does: listens, claims, reports, asks, completes, fails; `streams` has its artifacts that it
//! streams, `agent_end` the tasks that its agents had when they ended, `give_back` those that they give back.

mod agent_end;
mod give_back;
mod streams;

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    Artifact, Message, MessageRole, TaskCompletePayload, TaskFailPayload, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{Coordinator, ListenRequest, client_commands::fits, send_envelope};
use crate::{
    clock::Now,
    delivery::outbox::EnvelopeKind,
    dispatch::DeclineOutcome,
    external::External,
    observe::log,
    peers::OutgoingEnvelope,
    task::{MAX_ID, Output, Role, Status, Streamed, Task},
    tasks::{TaskEdit, Tasks, unless_damaged},
    trace_context::TraceContext,
    transaction::{EngineError, ListenerId, Transaction},
    wire,
};

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
    /// The agent begins work that must not be done twice.
    begun: bool,
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
            begun: false,
        }
    }
}

impl Coordinator {
    /// Somebody begins to listen for the tasks of an agent, as it is written with them.
    pub(super) fn attach_to(
        &mut self,
        now: Now,
        listener: ListenerId,
        agent: Option<Arc<str>>,
        request: &ListenRequest,
    ) -> Result<(), EngineError> {
        if !self.dispatch.has_listeners_of(agent.as_deref()) {
            let tasks = &self.tasks;
            let is_unclaimed = |id: &str| {
                let known = tasks.indexed(id);
                known.is_some_and(|known| !known.claimed && known.agent == agent)
            };
            self.dispatch.restart_claim_grace(now, is_unclaimed);
        }
        let (connection, wants_ends) = (request.connection, request.wants_ends);
        let deliveries = self.dispatch.attach(now, listener, agent, connection, wants_ends);
        self.release_lost(now)?;
        Ok(self.hand_over(now, deliveries)?)
    }

    /// An agent stopped listening, and is still there.
    pub(crate) fn detach(&mut self, now: Now, listener: ListenerId) -> Result<(), EngineError> {
        let deliveries = self.detach_listener(now, listener);
        let tasks = &self.tasks;
        let agent_of = |id: &str| tasks.indexed(id).and_then(|known| known.agent.clone());
        self.dispatch.confirm_claims(agent_of);
        Ok(self.hand_over(now, deliveries)?)
    }

    /// A listener has read `count` tasks.
    pub(crate) fn credit(&mut self, now: Now, listener: ListenerId, count: usize) -> Result<(), EngineError> {
        let deliveries = self.dispatch.credit(now, listener, count);
        Ok(self.hand_over(now, deliveries)?)
    }

    /// A listener's client cannot be told of a task, since it takes smaller messages; `connection` is that client's. It ends
    /// with the reason, unless another agent can be, or has it, or was sent it before and may come again.
    pub(crate) fn decline(
        &mut self,
        now: Now,
        listener: ListenerId,
        connection: u64,
        id: &str,
        reason: &str,
    ) -> Result<(), EngineError> {
        let decline = self.dispatch.decline(now, listener, id, reason);
        // Nobody else goes on with what it is in the middle of.
        let is_its_own = self.dispatch.is_claimed_by(id, connection);
        match decline {
            DeclineOutcome::NotOffered => {}
            DeclineOutcome::StillOffered if !is_its_own => {}
            DeclineOutcome::Reoffer if !is_its_own => {
                let agent = self.agent_of(id);
                let deliveries = self.dispatch.offer_again(now, agent.as_deref(), id);
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
        for (id, reason) in self.dispatch.undeliverable(now, self.limits.agent_grace) {
            if unless_damaged(self.fail_untakable(now, &id, &reason))?.is_none() {
                self.withdraw(&id);
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
            self.withdraw(id);
            return Ok(());
        }
        self.notify_agent(now, id)
    }

    /// UpdateTaskStatus: moves a task on. The first one claims it for its connection.
    pub(crate) fn update(
        &mut self,
        now: Now,
        id: &str,
        next: Status,
        message: Option<Message>,
        connection: u64,
    ) -> Result<(), EngineError> {
        let report = AgentReport {
            message,
            ..AgentReport::from_status(next)
        };
        self.report_on(now, id, report, connection)
    }

    /// UpdateTaskStatus by which an agent begins work that must not be done twice.
    pub(crate) fn begin(&mut self, now: Now, id: &str, connection: u64) -> Result<(), EngineError> {
        let report = AgentReport {
            begun: true,
            ..AgentReport::from_status(Status::Working)
        };
        self.report_on(now, id, report, connection)
    }

    fn report_on(
        &mut self,
        now: Now,
        id: &str,
        report: AgentReport,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.check_claim(id, connection)?;
        let next = report.next;
        if !next.is_terminal() {
            self.check_is_open(connection)?;
        }
        self.on_agent_activity(now, id, report)?;
        if !next.is_terminal() {
            let agent = self.agent_of(id);
            self.dispatch.claim(agent.as_deref(), id, connection);
        }
        Ok(())
    }

    /// CompleteTask: ends a task with its results.
    pub(crate) fn complete(
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
    pub(crate) fn complete_unless_streams_are_due(
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
    pub(crate) fn fail(&mut self, now: Now, id: &str, error: &str) -> Result<(), EngineError> {
        let report = AgentReport {
            message: Some(self.transaction.node_message(now, error)),
            ..AgentReport::from_status(Status::Failed)
        };
        self.on_agent_activity(now, id, report)
    }

    /// While the connection of the agent that claimed a task lives, no other may move the task on.
    pub(super) fn check_claim(&self, id: &str, connection: u64) -> Result<(), EngineError> {
        self.check_is_its_agent(id, connection)?;
        let Some(known) = self.tasks.indexed(id).filter(|known| known.claimed) else {
            return Ok(());
        };
        if self.dispatch.is_claimed_by_other(id, connection) {
            return Err(EngineError::Precondition(format!(
                "task {id} is {}: another agent has claimed it; only that one can move it on",
                known.status
            )));
        }
        Ok(())
    }

    /// Refuses what would claim a task for a connection that is gone: the call was on its way when it closed.
    fn check_is_open(&self, connection: u64) -> Result<(), EngineError> {
        if self.dispatch.is_closed(connection) {
            let text = "the agent's connection is closed: it can claim no task";
            return Err(EngineError::Precondition(text.into()));
        }
        Ok(())
    }

    /// Whether an agent that has not claimed the task, and is on this connection, may end it.
    pub(crate) fn check_unclaimed(&self, id: &str, connection: Option<u64>) -> Result<(), EngineError> {
        connection.map_or(Ok(()), |connection| self.check_claim(id, connection))
    }

    /// A gRPC connection is gone: what it claimed may be taken over, and fails if nobody does.
    pub(crate) fn on_connection_closed(&mut self, now: Now, connection: u64) {
        self.agents.on_connection_closed(connection);
        self.dispatch.on_connection_closed(now, connection);
    }

    /// What an agent says of its task: there is one, whether it listens or not.
    fn on_agent_activity(&mut self, now: Now, id: &str, report: AgentReport) -> Result<(), EngineError> {
        let agent = task_of_agent(&mut self.tasks, id)?.agent.clone();
        self.dispatch.note_activity(now, agent.as_deref());
        if report.next.is_terminal() {
            self.dispatch.on_end_reported(agent.as_deref(), id);
        }
        self.apply_report(now, id, report, true)
    }

    /// Applies what is said of a task, and tells its originator. `by_agent`: an agent says it, not this node in its place.
    /// Nothing is changed when it is refused.
    fn apply_report(
        &mut self,
        now: Now,
        id: &str,
        mut report: AgentReport,
        by_agent: bool,
    ) -> Result<(), EngineError> {
        let mut task = task_of_agent(&mut self.tasks, id)?;
        let is_over = report.next.is_terminal() || task.status.is_terminal();
        if !is_over
            && let Some(message) = &report.message
            && task.has_reported(message)
        {
            return Ok(());
        }
        check_streams_ended(&task, report.next)?;
        if let Some(message) = &mut report.message {
            self.transaction
                .complete_message(now, message, MessageRole::Agent);
        }
        name_artifacts(&mut self.transaction, &mut report.artifacts)?;
        let (next, has_message) = (report.next, report.message.is_some());
        if !next.is_terminal() {
            task.check_bytes(report.message.as_ref().map_or(0, Message::encoded_len))?;
        }
        let steps = task.check_advance(next, has_message, &report.artifacts)?;
        if let Role::Assignee(peer) = task.role {
            let is_sequenced = self.peers.is_sequenced(&self.transaction, peer)?;
            let (transaction, external) = (&mut self.transaction, &mut self.external);
            let payloads = payloads_for(external, transaction, now, &task, steps, &report, is_sequenced)?;
            if payloads.is_empty() {
                self.dispatch.delay_claim_update(now, id);
            } else {
                self.dispatch.on_update_sent(id);
            }
            for payload in payloads {
                let outgoing = OutgoingEnvelope {
                    peer,
                    task: id,
                    kind: EnvelopeKind::Durable,
                    payload,
                    trace: TraceContext::from_metadata(&task.metadata),
                };
                send_envelope(
                    &mut self.observe,
                    &mut self.peers,
                    &mut self.transaction,
                    now,
                    outgoing,
                )?;
            }
        }
        let AgentReport {
            message,
            artifacts,
            automatic_on,
            begun,
            ..
        } = report;
        let before = task.results.len();
        task.advance(now.unix, next, message, artifacts)?;
        if by_agent && !task.claimed {
            task.timeline.claimed_at.get_or_insert(now.unix);
        }
        task.claimed = true;
        task.begun |= begun;
        let new: Vec<Arc<Output>> = task.results[before.min(task.results.len())..].to_vec();
        let agent = task.agent.clone();
        let agent = agent.as_deref();
        if !automatic_on.is_some_and(|connection| self.dispatch.reserve_for(connection, agent, id)) {
            self.dispatch.withdraw(agent, id);
        }
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, new);
        Ok(())
    }

    /// Tells originators of tasks that have been worked on for a while.
    pub(super) fn send_due_claims(&mut self, now: Now) -> Result<(), StoreError> {
        for id in self.dispatch.due_claim_updates(now) {
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
            let trace = TraceContext::from_metadata(&task.metadata);
            self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)?;
        }
        Ok(())
    }

    /// Fails a task of the local agent that went on for too long, or whose agent is gone, and tells the
    /// originator.
    pub(super) fn abandon(&mut self, now: Now, id: &str, reason: &str) -> Result<(), StoreError> {
        self.abandon_as(now, id, reason, false)
    }

    /// The same of one whose agent is gone. Where that has said no more than that it works on it, and not that the work must not
    /// be done twice, another peer may do it.
    pub(super) fn abandon_claimed(&mut self, now: Now, id: &str) -> Result<(), StoreError> {
        let is_untold = self
            .tasks
            .read(id)?
            .is_some_and(|task| task.has_no_report() && !task.begun);
        self.abandon_as(now, id, "agent went away", is_untold)
    }

    fn abandon_as(&mut self, now: Now, id: &str, reason: &str, returned: bool) -> Result<(), StoreError> {
        self.end_unclaimed_or_tell(now, id, Status::Failed, reason, returned)
    }

    /// Ends a task in the local agent's place; the agent is told where it may have seen it.
    pub(super) fn end_unclaimed_or_tell(
        &mut self,
        now: Now,
        id: &str,
        status: Status,
        reason: &str,
        returned: bool,
    ) -> Result<(), StoreError> {
        let claimed = self.tasks.indexed(id).is_some_and(|known| known.claimed);
        self.end_in_place(now, id, status, reason, returned);
        let agent = self.agent_of(id);
        if !claimed && !self.dispatch.has_listeners_of(agent.as_deref()) {
            self.withdraw(id); // No agent has ever seen it.
            return Ok(());
        }
        self.notify_agent(now, id)
    }

    /// Fails a task in the local agent's place and tells the originator; false: it could not be.
    fn fail_in_place(&mut self, now: Now, id: &str, reason: &str, returned: bool) -> bool {
        self.end_in_place(now, id, Status::Failed, reason, returned)
    }

    /// Ends a task in the local agent's place and tells the originator; false: it could not be.
    pub(super) fn end_in_place(
        &mut self,
        now: Now,
        id: &str,
        next: Status,
        reason: &str,
        returned: bool,
    ) -> bool {
        let peer = self.tasks.indexed(id).and_then(|known| known.peer);
        let report = AgentReport {
            message: Some(self.transaction.node_message(now, reason)),
            returned,
            ..AgentReport::from_status(next)
        };
        let reported = self.apply_report(now, id, report, false);
        match &reported {
            Ok(()) => log::ended(id, peer, next, reason),
            Err(error) => {
                tracing::warn!(task = id, %error, "a task without an agent could not be ended");
            }
        }
        reported.is_ok()
    }
}

/// Refuses to complete a task of which an artifact is still being streamed.
fn check_streams_ended(task: &Task, next: Status) -> Result<(), EngineError> {
    match task.open_streams().next() {
        Some(open) if next == Status::Completed && !task.status.is_terminal() => {
            Err(EngineError::Precondition(format!(
                "artifact {} of task {} is still being streamed; end it first",
                open.artifact_id, task.id
            )))
        }
        _ => Ok(()),
    }
}

/// A task that the agents of this node may change.
fn task_of_agent<'a>(tasks: &'a mut Tasks, id: &str) -> Result<TaskEdit<'a>, EngineError> {
    if id.is_empty() {
        return Err(EngineError::Invalid("task_id is empty".into()));
    }
    let task = tasks.edit(id)?;
    let task = task.ok_or_else(|| EngineError::NotFound(id.to_owned()))?;
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

fn name_artifacts(transaction: &mut Transaction, artifacts: &mut [Artifact]) -> Result<(), EngineError> {
    for artifact in artifacts {
        if artifact.artifact_id.is_empty() {
            artifact.artifact_id = transaction.new_id();
        }
        if artifact.artifact_id.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "an artifact_id may have {MAX_ID} bytes at most"
            )));
        }
    }
    Ok(())
}

/// What a task's originator is told by a report, which takes the task through `steps`; nothing of a bare claim, which goes later.
/// `is_sequenced`: the originator goes through the states in between by itself.
fn payloads_for(
    external: &mut External,
    transaction: &mut Transaction,
    now: Now,
    task: &Task,
    mut steps: &'static [Status],
    report: &AgentReport,
    is_sequenced: bool,
) -> Result<Vec<Payload>, EngineError> {
    let next = report.next;
    let (mut said, mut results) = (report.message.clone(), report.artifacts.clone());
    if task.sealed.is_some() {
        let mut advanced = task.clone();
        advanced.advance(now.unix, next, said.clone(), results.clone())?;
        (said, results) = external.seal_report(transaction, now, &advanced, said, results)?;
    }
    if is_sequenced {
        let is_claim = next == Status::Working && task.status != Status::Working && said.is_none();
        // A deployed originator refuses to go through the states in between by itself.
        steps = if is_claim {
            &[]
        } else {
            &steps[steps.len().saturating_sub(1)..]
        };
    } else if task.is_answered() {
        // A deployed originator has its task INPUT_REQUIRED until it hears WORKING.
        steps = Status::Submitted.steps_to(next).unwrap_or(steps);
    }
    let mut payloads = payloads_of(&task.id, steps, said, results);
    if let Some(Payload::TaskFail(fail)) = payloads.last_mut() {
        fail.returned = report.returned;
        // This node's own words, which nobody has to be kept from.
        if let Some(reason) = report.message.as_ref().filter(|_| report.returned) {
            fail.error_message = wire::text_of(reason);
        }
    }
    for payload in &payloads {
        fits(payload_len(payload), "result")?;
    }
    Ok(payloads)
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
            error_message: message.as_ref().map(wire::text_of).unwrap_or_default(),
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
