//! Letting new tasks in, or not: what the policy is asked about, and what follows from what it says.

use std::{collections::BTreeSet, sync::Arc};

use agentanycast_daemon_kit::address::bare_url;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{SendTaskPayload, a2a_envelope::Payload};
use agentanycast_store::StoreError;
use prost::Message as _;

use super::{Coordinator, client_commands::SendTask};
use crate::{
    admission::{InboundTask, LocalDecision},
    clock::Now,
    delivery::inbox::InboundEnvelope,
    observe::log,
    policy::{
        AskedFor, Decision, DecisionReason, MAX_CALLER, PeerAttributes, PolicyOutcome, PolicyRules,
        caller::CallerOfTask, grants::UsableSkills, limits::SourceUsage,
    },
    sealed,
    task::Task,
    tasks::{TaskParty, unless_damaged},
    transaction::EngineError,
};

impl From<Decision> for EngineError {
    fn from(decision: Decision) -> Self {
        let reason = decision.reason.message();
        match decision.outcome {
            PolicyOutcome::RateLimit => Self::Exhausted(reason),
            // There is no room to write it down. Another try does not help at once, so it is not Unavailable.
            _ if decision.reason == DecisionReason::Audit => Self::Exhausted(reason),
            _ => Self::Denied(reason),
        }
    }
}

impl Coordinator {
    /// New tasks are held against these rules from now on; what was used of the limits stays used. `audited`: each
    /// decision is to be written down.
    pub(crate) fn set_rules(&mut self, rules: PolicyRules, audited: bool) -> Result<(), StoreError> {
        self.peers.set_named_keys(rules.named_keys());
        if self.admission.set_rules(rules, audited) {
            self.count_local_tasks()?;
        }
        self.rights += 1;
        if self.agents.has_private() {
            self.agents.rights_changed();
        }
        Ok(())
    }

    /// Under other rules more may be asked about the peers that are there: nothing is denied to them for good until it is
    /// known what they prove.
    pub(crate) fn await_all_identities(&mut self) {
        self.admission.await_identities(self.peers.connected());
    }

    /// What is known of a peer besides its key from now on. What belonged to a key that it had before is its own.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn set_peer_attributes(
        &mut self,
        now: Now,
        peer: PeerId,
        mut attributes: PeerAttributes,
    ) -> Result<(), StoreError> {
        let mut former = Vec::new();
        for old in std::mem::take(&mut attributes.former) {
            if self.migrate_peer(now, old, peer)? {
                former.push(old);
            }
        }
        attributes.former = former;
        self.admission.set_attributes(peer, attributes);
        Ok(())
    }

    /// What a peer whose task was just not let in says of itself and does not count. It has nothing to do with a key that was
    /// replaced.
    pub(crate) fn rejected_claims_of(&mut self, peer: PeerId) -> Arc<[String]> {
        if self.peers.replaced_by(peer).is_some() {
            return Arc::default();
        }
        let reasons = self.admission.rejected_claims_of(peer);
        let mut conflicts = self.peers.rotation_conflicts_of(peer).peekable();
        if conflicts.peek().is_none() {
            return reasons;
        }
        let said = |(old, known)| format!("it says that it follows {old}, and {known} did so before");
        reasons.iter().cloned().chain(conflicts.map(said)).collect()
    }

    /// Whether this envelope could be decided otherwise, of a peer that may prove more than is known: a task by the rules,
    /// anything else since it is of another one's task.
    pub(super) fn needs_identity(
        &mut self,
        now: Now,
        peer: PeerId,
        inbound: &InboundEnvelope,
    ) -> Result<bool, StoreError> {
        if !self.admission.awaits_identity(peer) {
            return Ok(false);
        }
        let may_change = self.may_be_migrated(peer, inbound) || self.decision_may_change(now, peer, inbound);
        Ok(may_change && !self.peers.is_duplicate(&self.transaction, peer, inbound)?)
    }

    fn decision_may_change(&mut self, now: Now, peer: PeerId, inbound: &InboundEnvelope) -> bool {
        let Payload::SendTask(send) = &inbound.payload else {
            return false;
        };
        let is_new = !send.further && self.tasks.indexed(&send.task_id).is_none();
        if !is_new {
            return false;
        }
        let (agent, is_private) = self.agent_of_send(now, peer, send);
        let asked = AskedFor {
            skill: &send.target_skill_id,
            agent: &agent,
            is_private,
        };
        self.admission.could_change(peer, asked)
    }

    /// Whether this envelope of a peer may begin a task, if it does.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit_envelope(
        &mut self,
        now: Now,
        peer: PeerId,
        inbound: &InboundEnvelope,
    ) -> Result<(), EngineError> {
        let Payload::SendTask(send) = &inbound.payload else {
            return Ok(());
        };
        // What belongs to a task that is here, or was, is none of the policy's.
        if send.further || self.tasks.indexed(&send.task_id).is_some() {
            return Ok(());
        }
        let Some(decision) = self.decide_on(now, peer, send) else {
            return Ok(());
        };
        let task = InboundTask {
            peer,
            skill: &send.target_skill_id,
            task: &send.task_id,
            sealed_task: sealed_task_id_of(send),
            envelope: &inbound.id,
        };
        self.admission
            .audit_inbound(&mut self.transaction, now, decision, &task);
        if decision.outcome == PolicyOutcome::Allow {
            return Ok(());
        }
        self.observe.count_turned_away(&decision);
        let why_not = self.admission.why_not_invited(now, peer, &send.invite);
        let error = if decision.reason == DecisionReason::Private {
            let (agent, _) = self.agent_of_send(now, peer, send);
            self.admission.note_access_request(
                &mut self.transaction,
                now,
                peer,
                &agent,
                &send.target_skill_id,
            );
            let usable = self.usable_skills_of(peer, &agent);
            EngineError::Denied(match usable {
                UsableSkills::These(skills) => why_not_for_this(&send.target_agent, &skills),
                _ => why_private(&send.target_agent),
            })
        } else {
            EngineError::from(decision)
        };
        Err(match (error, why_not) {
            (EngineError::Denied(reason), Some(why)) => EngineError::Denied(format!("{reason}; {why}")),
            (error, _) => error,
        })
    }

    /// Without rules there is nothing to decide, but for a key that is nobody's any more: anybody may have it.
    fn decide_on(&mut self, now: Now, peer: PeerId, send: &SendTaskPayload) -> Option<Decision> {
        if let Some(new) = self.peers.replaced_by(peer) {
            return Some(Decision {
                outcome: PolicyOutcome::Deny,
                reason: DecisionReason::Replaced(new),
            });
        }
        if !self.admission.is_enabled() {
            return None;
        }
        let (tasks, bytes) = self.tasks.index().open_with(TaskParty::From(peer));
        let has = SourceUsage {
            tasks: tasks as u64,
            bytes,
        };
        let (agent, is_private) = self.agent_of_send(now, peer, send);
        let asked = AskedFor {
            skill: &send.target_skill_id,
            agent: &agent,
            is_private,
        };
        self.admission
            .decide_on_peer(now, peer, asked, has, bytes_of(send))
    }

    /// The name of the agent that a peer's task is for, and whether it is private. Empty: of none, or of one that is not here.
    fn agent_of_send(&mut self, now: Now, peer: PeerId, send: &SendTaskPayload) -> (Arc<str>, bool) {
        let chosen = self.choose_agent_for(now, peer, &send.target_agent, &send.target_skill_id);
        let Ok(written) = chosen else {
            return (Arc::default(), false);
        };
        let written = written.as_deref();
        (
            self.agent_name(written).unwrap_or_default(),
            self.agents.is_private(written),
        )
    }

    /// Whether this node's own agent, or the bridge's caller that the labels name, may send such a task. None: there is no
    /// policy.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit_local(
        &mut self,
        now: Now,
        request: &SendTask,
        agent: Option<&str>,
    ) -> Result<Option<LocalDecision>, EngineError> {
        if !self.admission.is_enabled() {
            return Ok(None);
        }
        let (skill, bytes) = (&request.skill, request.message.encoded_len() as u64);
        let (agent, is_private) = match request.peer {
            Some(peer) if peer == self.transaction.me() => (
                self.agent_name(agent).unwrap_or_default(),
                self.agents.is_private(agent),
            ),
            _ => (Arc::from(agent.unwrap_or_default()), false),
        };
        let caller = CallerOfTask::from_labels(&request.metadata);
        if let Some(name) = caller.name().filter(|name| name.len() > MAX_CALLER) {
            return Err(EngineError::Invalid(format!(
                "the label with the caller has {} bytes, it may have {MAX_CALLER}",
                name.len()
            )));
        }
        let asked = AskedFor {
            skill,
            agent: &agent,
            is_private,
        };
        let decision = self.admission.decide_on_local(now, &caller, asked, bytes);
        let Some(decision) = decision else {
            return Ok(None);
        };
        let decided = LocalDecision {
            decision,
            caller,
            target: request
                .peer
                .map_or_else(|| bare_url(&request.url), |peer| peer.to_string()),
        };
        if decision.outcome == PolicyOutcome::Allow {
            return Ok(Some(decided));
        }
        Err(self.refuse_local(now, &decided, request))
    }

    /// Why a task from this node is not let in, which is counted, logged and written down.
    fn refuse_local(&mut self, now: Now, decided: &LocalDecision, request: &SendTask) -> EngineError {
        let (decision, skill) = (decided.decision, &request.skill);
        let is_closed = decision.reason == DecisionReason::Private;
        let error = if is_closed {
            EngineError::Denied(why_private(&request.target_agent))
        } else {
            EngineError::from(decision)
        };
        let reason = if is_closed {
            error.to_string()
        } else {
            decision.reason.message()
        };
        self.observe.count_turned_away(&decision);
        self.observe.note_refusal(now.unix, None, false, "", &reason);
        log::rejected(decided.caller.name(), skill, &reason);
        self.admission
            .audit_local(&mut self.transaction, now, decided, skill, "", "");
        error
    }

    /// A task that was let in is here now: it is counted, and the decision written down.
    pub(super) fn record_local_admission(&mut self, now: Now, decided: &LocalDecision, task: &Task) {
        let envelope = task.role.peer().and_then(|peer| self.peers.last_queued_id(peer));
        let envelope = envelope.unwrap_or_default();
        self.admission.audit_local(
            &mut self.transaction,
            now,
            decided,
            &task.skill,
            &task.id,
            envelope,
        );
        self.count_local_task(&task.id, &decided.caller);
    }

    fn count_local_task(&mut self, id: &str, caller: &CallerOfTask) {
        let open = self.tasks.indexed(id).filter(|known| !known.status.is_terminal());
        if let Some(known) = open {
            self.admission.count_task(id, caller, known.bytes);
        }
    }

    /// Counts the open tasks of this node's own agent and bridges anew, if limits ask for it.
    fn count_local_tasks(&mut self) -> Result<(), StoreError> {
        if !self.admission.restart_count() {
            return Ok(());
        }
        let own: Vec<String> = self
            .tasks
            .index()
            .all()
            .filter(|(_, known)| !known.is_from_peer() && !known.status.is_terminal())
            .map(|(id, _)| id.to_owned())
            .collect();
        for id in own {
            let task = unless_damaged(self.tasks.read(&id))?.flatten();
            if let Some(task) = task {
                self.count_local_task(&id, &CallerOfTask::from_labels(&task.metadata));
            }
        }
        Ok(())
    }
}

/// Most skills that a refusal names.
const NAMED_SKILLS: usize = 10;

/// Why a task for a private agent is refused. The agent has its name only where the sender has said it.
fn why_private(target: &str) -> String {
    let shown = &target[..target.floor_char_boundary(64)];
    if shown.is_empty() {
        "the agent that this is for is private; ask its owner for an invite".to_owned()
    } else {
        format!("agent {shown} is private; ask its owner for an invite")
    }
}

/// The same where its sender may use it for some skills, and this is for none of them.
fn why_not_for_this(target: &str, skills: &BTreeSet<String>) -> String {
    let shown = &target[..target.floor_char_boundary(64)];
    let agent = if shown.is_empty() {
        "the agent that this is for".to_owned()
    } else {
        format!("agent {shown}")
    };
    let mut named: Vec<&str> = skills.iter().take(NAMED_SKILLS).map(String::as_str).collect();
    if skills.len() > NAMED_SKILLS {
        named.push("…");
    }
    format!(
        "{agent} is private, and this peer may use it for these skills only: {}; name one of them, or ask its owner for an invite",
        named.join(", ")
    )
}

/// Bytes of what comes with a new task, as limits count it.
fn bytes_of(send: &SendTaskPayload) -> u64 {
    send.message
        .as_ref()
        .map_or(0, |message| message.encoded_len() as u64)
}

/// See [`sealed::sealed_task_id`].
pub(super) fn sealed_task_id_of(send: &SendTaskPayload) -> &str {
    let message = send.message.as_ref();
    message.map_or("", |message| sealed::sealed_task_id(&message.parts))
}
