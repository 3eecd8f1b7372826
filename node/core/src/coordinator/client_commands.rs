//! What the originator does: sends tasks, answers questions, cancels.

use std::collections::BTreeMap;

use agentanycast_daemon_kit::sanitize::quoted;
use agentanycast_identity::PeerId;
use agentanycast_proto::gateway_labels;
use agentanycast_proto::v1::{
    Message, MessageRole, SendTaskPayload, TaskCancelPayload, TaskStatus, TaskStatusUpdatePayload,
    a2a_envelope::Payload,
};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{Coordinator, send_envelope};
use crate::{
    clock::Now,
    delivery::{
        inbox::{self, MAX_METADATA, MAX_METADATA_KEY},
        outbox::EnvelopeKind,
    },
    external::External,
    peers::OutgoingEnvelope,
    policy::caller::CallerOfTask,
    task::{ExternalDelivery, GroupKey, MAX_ID, MAX_URL, Role, Route, SealedOrigin, Status, Task},
    trace_context::TraceContext,
    transaction::{Effect, EngineError},
    types::Note,
    wire::MAX_ENVELOPE,
};

/// Bytes of an envelope besides its payload, at most: ids, time, trace context, place.
const ENVELOPE_OVERHEAD: usize = 1024;

/// Why a task for a peer is not sealed.
pub const SEALED_NEEDS_URL: &str =
    "sealed_for is for tasks that are sent to a url: what goes to a peer is encrypted to it already";

/// Labels by which gateways here know their tasks again, of today and of before: who called is none of the peers' business.
const LOCAL_LABELS: [&str; 7] = [
    gateway_labels::CALLER,
    gateway_labels::STRANGER,
    gateway_labels::CONTEXT,
    gateway_labels::TARGET,
    "a2a.caller",
    "a2a.context",
    "a2a.target",
];

impl SendTask {
    /// Whether its caller counts as a stranger, by the word of the gateway that it came to.
    pub fn is_of_stranger(&self) -> bool {
        CallerOfTask::from_labels(&self.metadata).is_stranger()
    }
}

/// The labels that a peer is told.
pub fn forwarded_labels(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let travels = |(name, _): &(&String, &String)| !LOCAL_LABELS.contains(&name.as_str());
    metadata
        .iter()
        .filter(travels)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A task, or a further message of one, that the local agent sends.
#[derive(Clone, Debug, Default)]
pub struct SendTask {
    /// To whom; None with a `task_id`: to the task's assignee; None with a `url`: to the agent there.
    pub peer: Option<PeerId>,
    /// Where the agent is, when it is beyond this network; empty otherwise.
    pub url: String,
    /// Sent by skill: who else gets it, in this order, if `peer` does not take it. None: sent to `peer` by name.
    pub others: Option<Vec<PeerId>>,
    /// With a `url`: that may be of this host, or on a private network.
    pub allow_private: bool,
    /// With a `url`: who alone may read what the task says.
    pub sealed_for: Option<PeerId>,
    /// What it says.
    pub message: Message,
    /// The skill it is for; may be empty.
    pub skill: String,
    /// The agent that it is for, of those of the node; empty: chosen there.
    pub target_agent: String,
    /// Who sends it: the gRPC connection; None: it is not known.
    pub sender: Option<u64>,
    /// Travels along.
    pub metadata: BTreeMap<String, String>,
    /// The conversation; empty = a new one.
    pub context_id: String,
    /// The task that this message answers; empty = a new task.
    pub task_id: String,
    /// Empty = none.
    pub idempotency_key: String,
    /// What a gateway has to remember about the task.
    pub note: Option<Note>,
    /// By which a gateway lists a new task.
    pub group: Option<GroupKey>,
}

impl SendTask {
    /// Clients without the additive fields put them into the metadata: takes them out of it.
    fn take_keys_from_metadata(&mut self) {
        let fields = [
            ("context_id", &mut self.context_id),
            ("task_id", &mut self.task_id),
            ("idempotency_key", &mut self.idempotency_key),
        ];
        for (name, field) in fields {
            if let Some(value) = self.metadata.remove(name)
                && field.is_empty()
            {
                *field = value;
            }
        }
    }
}

impl Coordinator {
    /// Sends a task. The answer may be given once the turn is durable.
    pub(crate) fn send_task(&mut self, now: Now, mut request: SendTask) -> Result<Task, EngineError> {
        request.take_keys_from_metadata();
        if let Some(task) = self.tasks.read_by_key(&request.idempotency_key)? {
            let sealed_for = task.sealed.as_ref().map(|sealed| sealed.peer);
            if request.sealed_for.is_some() && request.sealed_for != sealed_for {
                return Err(EngineError::Invalid(format!(
                    "idempotency_key names task {}, which was not sealed for that peer",
                    task.id
                )));
            }
            return Ok(task);
        }
        if request.message.parts.is_empty() {
            return Err(EngineError::Invalid(
                "the message has no parts; give it at least one".into(),
            ));
        }
        if !request.url.is_empty() {
            check_url(&request.url)?;
        }
        self.transaction
            .complete_message(now, &mut request.message, MessageRole::User);
        let key = std::mem::take(&mut request.idempotency_key);
        let note = request.note.take();
        if let Some(note) = &note {
            // Before anything is changed: the message goes with its note, or not at all.
            self.external.check_note(&request.task_id, note)?;
        }
        let task = if request.task_id.is_empty() {
            self.send_new(now, request)?
        } else {
            self.send_answer(now, request)?
        };
        if let Some(note) = note {
            self.external.write_note(&mut self.transaction, &task.id, note);
        }
        if !key.is_empty() {
            self.tasks
                .remember_key(&mut self.transaction, now, &key, &task.id);
        }
        Ok(task)
    }

    fn send_new(&mut self, now: Now, mut request: SendTask) -> Result<Task, EngineError> {
        request.peer = request.peer.map(|peer| self.peers.current_key(peer));
        if let (Some(first), Some(others)) = (request.peer, &mut request.others) {
            self.peers.follow_candidates(first, others);
        }
        let role = self.check_new(&mut request)?;
        let deadline = deadline_of(&request.metadata)?;
        self.tasks.check_tasks_to(role)?;
        let agent = self.agent_for_new(now, role, &request)?;
        let awaits_skill = role == Role::Both
            && self.awaits_skill(now, &request.target_agent, &request.skill, agent.as_deref());
        let admitted = self.admit_local(now, &request, agent.as_deref())?;
        let id = self.transaction.new_id();
        let context_id = if request.context_id.is_empty() {
            self.transaction.new_id()
        } else {
            request.context_id
        };
        let mut metadata = request.metadata;
        let traced = self.observe.enter_trace(&mut self.transaction, &mut metadata);
        let task = Task {
            sealed: request.sealed_for.map(|peer| SealedOrigin {
                peer,
                task: id.clone(),
            }),
            skill: request.skill,
            metadata,
            deadline,
            agent,
            route: request.others.filter(|_| role != Role::Both).map(|rest| Route {
                candidates: rest,
                ..Route::default()
            }),
            awaits_skill,
            traced,
            external: (role == Role::External).then(|| ExternalDelivery {
                url: request.url,
                allow_private: request.allow_private,
                ..ExternalDelivery::default()
            }),
            group: request.group,
            ..Task::submitted(id, context_id, role, request.message, now.unix)
        };
        if let Role::Originator(peer) = role {
            self.send_message_of(now, peer, &task)?;
        }
        self.insert_task(task.clone());
        if let Some(admitted) = admitted {
            self.record_local_admission(now, &admitted, &task);
        }
        self.routing.begin(&mut self.transaction, now, &task);
        self.notify_local_handler(now, &task)?;
        Ok(task)
    }

    /// What this node is in a new task. A message for an agent beyond this network is a user's.
    ///
    /// # Errors
    /// The task has no target, or more than a task may have, or cannot be sealed.
    fn check_new(&self, request: &mut SendTask) -> Result<Role, EngineError> {
        let role = match request.peer {
            Some(peer) if peer == self.transaction.me() => Role::Both,
            Some(peer) => Role::Originator(peer),
            None if request.url.is_empty() => {
                return Err(EngineError::Invalid("the task has no target".into()));
            }
            None => Role::External,
        };
        if role == Role::External {
            // By this the gateway knows what is to be passed on.
            request.message.role = MessageRole::User as i32;
        } else if request.sealed_for.is_some() {
            return Err(EngineError::Invalid(SEALED_NEEDS_URL.to_owned()));
        }
        if let Some(peer) = request.sealed_for {
            let is_own = self.peers.current_key(peer) == self.transaction.me();
            self.external.check_sealed_for(peer, is_own)?;
        }
        if role == Role::Both {
            External::refuse_sealed_for_own(&request.message)?;
        }
        if request.context_id.len() > MAX_ID || request.skill.len() > MAX_ID {
            return Err(EngineError::Invalid(format!(
                "context_id and skill_id may have {MAX_ID} bytes at most"
            )));
        }
        if !inbox::metadata_fits(&request.metadata) {
            return Err(EngineError::Invalid(format!(
                "metadata may have {MAX_METADATA} entries at most, with keys of {MAX_METADATA_KEY} bytes at most"
            )));
        }
        Ok(role)
    }

    fn send_answer(&mut self, now: Now, mut request: SendTask) -> Result<Task, EngineError> {
        let task = self.tasks.edit(&request.task_id)?;
        let mut task = task.ok_or_else(|| EngineError::NotFound(request.task_id.clone()))?;
        check_answer_fits(&task, self.transaction.me(), &request)?;
        match task.role {
            Role::Both => External::refuse_sealed_for_own(&request.message)?,
            Role::External => {
                request.message.role = MessageRole::User as i32;
                task.check_bytes(request.message.encoded_len())?;
            }
            Role::Originator(_) | Role::Assignee(_) => task.check_bytes(request.message.encoded_len())?,
        }
        task.check_answer()?;
        if let Role::Originator(peer) = task.role {
            let invite = self.admission.secret_for(peer);
            let payload = send_task_payload(&task, request.message.clone(), true, invite)?;
            let outgoing = OutgoingEnvelope {
                peer,
                task: &request.task_id,
                kind: EnvelopeKind::SendTask,
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
        task.answer(now.unix, request.message)?;
        let copy = (*task).clone();
        let saved = task.save(&mut self.transaction);
        self.on_changed(&saved, Vec::new());
        self.notify_local_handler(now, &copy)?;
        Ok(copy)
    }

    /// A message for whoever on this node works on the task, or carries it to an agent outside.
    fn notify_local_handler(&mut self, now: Now, task: &Task) -> Result<(), StoreError> {
        match task.role {
            Role::Both => self.notify_agent(now, &task.id)?,
            Role::External => self.transaction.effect(Effect::External {
                task_id: task.id.clone(),
            }),
            Role::Originator(_) | Role::Assignee(_) => {}
        }
        Ok(())
    }

    /// Queues a SEND_TASK with the task's newest message.
    pub(super) fn send_message_of(&mut self, now: Now, peer: PeerId, task: &Task) -> Result<(), EngineError> {
        let message = task.messages.last().map(|message| (**message).clone());
        let invite = self.admission.secret_for(peer);
        let is_further = task.messages.len() > 1;
        let payload = send_task_payload(task, message.unwrap_or_default(), is_further, invite)?;
        let trace = TraceContext::from_metadata(&task.metadata);
        self.send(now, peer, &task.id, EnvelopeKind::SendTask, payload, trace)?;
        Ok(())
    }

    /// A task whole.
    pub(crate) fn task(&mut self, id: &str) -> Result<Task, EngineError> {
        if id.is_empty() {
            return Err(EngineError::Invalid("task_id is empty".into()));
        }
        self.tasks
            .read(id)?
            .ok_or_else(|| EngineError::NotFound(id.to_owned()))
    }

    /// The task, if its status is such that a wait for it is over.
    pub(crate) fn task_if(
        &mut self,
        id: &str,
        is_over: impl Fn(Status) -> bool,
    ) -> Result<Option<Task>, EngineError> {
        if self.tasks.indexed(id).is_some_and(|known| !is_over(known.status)) {
            return Ok(None);
        }
        self.task(id).map(Some)
    }

    /// Ends a task from this side and tells the other.
    pub(crate) fn cancel(&mut self, now: Now, id: &str) -> Result<Task, EngineError> {
        let task = self.task(id)?;
        if task.status.is_terminal() {
            return Err(EngineError::Precondition(format!(
                "task {id} is {} and cannot be canceled",
                task.status
            )));
        }
        self.dispatch.note_activity(now, task.agent.as_deref());
        self.end(now, id, Status::Canceled, "")?;
        match task.role {
            Role::Originator(peer) => {
                self.send_cancel(now, peer, id, TraceContext::from_metadata(&task.metadata))?;
            }
            Role::Assignee(peer) => {
                let payload = Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
                    task_id: id.to_owned(),
                    status: TaskStatus::Canceled as i32,
                    message: None,
                });
                let trace = TraceContext::from_metadata(&task.metadata);
                self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)?;
            }
            // Whoever carries it is told when the turn is durable.
            Role::Both | Role::External => {}
        }
        self.task(id)
    }

    /// Tells a peer that a task of it is over.
    pub(super) fn send_cancel(
        &mut self,
        now: Now,
        peer: PeerId,
        id: &str,
        trace: TraceContext<'_>,
    ) -> Result<(), StoreError> {
        let payload = Payload::TaskCancel(TaskCancelPayload {
            task_id: id.to_owned(),
        });
        self.send(now, peer, id, EnvelopeKind::Durable, payload, trace)
    }
}

/// Refuses a further message that does not belong to the task: of another target, conversation or seal.
fn check_answer_fits(task: &Task, me: PeerId, request: &SendTask) -> Result<(), EngineError> {
    let assignee = match task.role {
        Role::Originator(peer) => Some(peer),
        Role::Both => Some(me),
        Role::External => None,
        Role::Assignee(peer) => {
            return Err(EngineError::Denied(format!(
                "task {} was sent by {peer}; only its originator may send further messages",
                task.id
            )));
        }
    };
    let url = task.external.as_ref().map(|delivery| &delivery.url);
    let elsewhere = !request.url.is_empty() && url != Some(&request.url);
    if elsewhere || request.peer.is_some() && request.peer != assignee {
        let whose = assignee.map(|peer| peer.to_string());
        let whose = whose.or(url.cloned()).unwrap_or_default();
        return Err(EngineError::Invalid(format!(
            "task {} is worked on by {whose}; send its further messages there",
            task.id
        )));
    }
    if !request.context_id.is_empty() && request.context_id != task.context_id {
        return Err(EngineError::Invalid(format!(
            "task {} belongs to context {}",
            task.id, task.context_id
        )));
    }
    check_sealed(task, request)
}

/// A message of a task for its assignee. `invite`: what that node has to be shown.
fn send_task_payload(
    task: &Task,
    message: Message,
    is_further: bool,
    invite: Vec<u8>,
) -> Result<Payload, EngineError> {
    let payload = SendTaskPayload {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        message: Some(message),
        target_skill_id: task.skill.clone(),
        metadata: forwarded_labels(&task.metadata),
        further: is_further,
        tentative: task
            .route
            .as_ref()
            .is_some_and(|route| !route.taken && !route.candidates.is_empty()),
        takes_offers: true,
        invite,
        target_agent: task.agent.as_deref().unwrap_or_default().to_owned(),
    };
    fits(payload.encoded_len(), "message")?;
    Ok(Payload::SendTask(payload))
}

/// Refuses a further message that is to be sealed otherwise than its task, or that its reader would take for one that came
/// before.
fn check_sealed(task: &Task, request: &SendTask) -> Result<(), EngineError> {
    let sealed_for = task.sealed.as_ref().map(|sealed| sealed.peer);
    if request.sealed_for.is_some() && request.sealed_for != sealed_for {
        let how = sealed_for.map_or_else(|| "not sealed".to_owned(), |peer| format!("sealed for {peer}"));
        return Err(EngineError::Invalid(format!(
            "task {} is {how}, and so are its further messages; leave sealed_for empty",
            task.id
        )));
    }
    if sealed_for.is_some() && task.has_message_id(&request.message.message_id) {
        return Err(EngineError::Invalid(format!(
            "task {} has a message with this message_id; those of a sealed task have one of their own each",
            task.id
        )));
    }
    Ok(())
}

/// Refuses what is no URL of an agent: `http`, `https`, or another protocol over it, such as `uamp+https`. Whether a gateway
/// carries tasks to that protocol's agents is not known here.
fn check_url(url: &str) -> Result<(), EngineError> {
    let shown = quoted(url);
    if url.len() > MAX_URL {
        return Err(EngineError::Invalid(format!(
            "url {shown} has {} bytes, it may have {MAX_URL}",
            url.len()
        )));
    }
    let is_url = url.parse::<http::Uri>().is_ok_and(|uri| {
        let host = uri
            .authority()
            .is_some_and(|authority| !authority.as_str().contains('@'));
        let scheme = uri.scheme_str().unwrap_or_default();
        let scheme = scheme.rsplit_once('+').map_or(scheme, |(_, carrier)| carrier);
        host && matches!(scheme, "http" | "https")
    });
    if !is_url {
        return Err(EngineError::Invalid(format!(
            "url {shown} is none that an agent can have; give one such as https://agents.example.org/weather"
        )));
    }
    Ok(())
}

/// Refuses a payload that makes an envelope larger than a frame. Gateways refuse it before, as what never fits.
pub(super) fn fits(payload: usize, what: &str) -> Result<(), EngineError> {
    let most = MAX_ENVELOPE - ENVELOPE_OVERHEAD;
    if payload > most {
        return Err(EngineError::Exhausted(format!(
            "the {what} has {payload} bytes, the limit is {most}; send large content as a streamed artifact"
        )));
    }
    Ok(())
}

/// The deadline that the sender set, in Unix milliseconds.
pub(super) fn deadline_of(metadata: &BTreeMap<String, String>) -> Result<Option<u64>, EngineError> {
    let Some(text) = metadata.get("deadline") else {
        return Ok(None);
    };
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        let shown = &text[..text.floor_char_boundary(64)];
        EngineError::Invalid(format!(
            "deadline {shown:?} is no RFC 3339 time, such as 2030-01-31T12:00:00Z"
        ))
    })?;
    Ok(Some(u64::try_from(at.as_millisecond()).unwrap_or(0)))
}
