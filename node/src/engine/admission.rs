//! The one place where new tasks are let in or not, whatever way they come: from peers, from bridges, from the agent
//! beside this node.
//!
//! The policy is pure and decides; this file asks it, knows how much each source has here, and says what is to be
//! written down. The one rule: a task is asked about once, before anything is kept of it. What belongs to a task that
//! is here was allowed with it.

use std::{collections::HashMap, sync::Arc};

use agentanycast_daemon_kit::address::bare_url;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{SendTaskPayload, a2a_envelope::Payload};
use prost::Message as _;

use super::{
    client_commands::SendTask,
    log,
    state::Core,
    task_table::{TaskParty, unless_damaged},
    transaction::{Effect, EngineError, Now},
    unproven::{LOOKUP_TIMED_OUT, RejectedClaims},
};
use crate::{
    delivery::inbox::InboundEnvelope,
    policy::{
        Decision, DecisionReason, LOCAL, MAX_CALLER, PeerAttributes, Policy, PolicyOutcome, PolicyRules,
        TaskSource,
        audit::log_line::{AuditEntry, TaskOrigin},
        caller::{counted_name, gateway_caller},
        invites::InviteGrant,
        limit_key,
        limits::{LimitKey, SourceUsage},
    },
    sealed,
    store::StoreError,
    task::Task,
};

/// The policy, and what it has to be told.
pub(super) struct Admission {
    policy: Policy,
    /// What peers say of themselves and does not count.
    rejected_claims: RejectedClaims,
    /// Whether decisions are written down.
    is_audited: bool,
    /// They cannot be, and have to.
    is_blocked: bool,
    /// Open tasks of this node's own agent and bridges, where limits count them. Those of peers are in the table.
    local_tasks: HashMap<String, (LimitKey, u64)>,
    usage: HashMap<LimitKey, SourceUsage>,
}

/// A task of this node's own agent or bridge that was let in.
pub(super) struct AdmittedTask {
    decision: Decision,
    caller: Option<String>,
    /// To whom, for the audit log, which is no place for a token.
    target: String,
}

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

impl Core {
    /// New tasks are held against these rules from now on; what was used of the limits stays used. `audited`: each
    /// decision is to be written down.
    pub fn set_rules(&mut self, rules: PolicyRules, audited: bool) -> Result<(), StoreError> {
        let counts = rules.limits.count_tasks();
        self.key_rotations.set_named(rules.named_keys());
        match &mut self.admission {
            None if rules.is_open() && !audited => return Ok(()),
            None => self.enable_policy(rules, audited),
            Some(door) => {
                door.policy.replace(rules);
                door.is_audited = audited;
            }
        }
        self.count_own(counts)
    }

    /// What is known of a peer besides its key from now on. What belonged to a key that it had before is its own.
    ///
    /// # Errors
    /// The store's.
    pub fn set_peer_attributes(
        &mut self,
        now: Now,
        peer: PeerId,
        mut standing: PeerAttributes,
    ) -> Result<(), StoreError> {
        let mut former = Vec::new();
        for old in std::mem::take(&mut standing.former) {
            if self.migrate_peer(now, old, peer)? {
                former.push(old);
            }
        }
        standing.former = former;
        if self.admission.is_none() && standing == PeerAttributes::default() {
            return Ok(());
        }
        if self.admission.is_none() {
            self.enable_policy(PolicyRules::default(), false);
        }
        if let Some(door) = &mut self.admission {
            door.policy.set_attributes(peer, standing);
        }
        Ok(())
    }

    /// From here on there is a policy, which knows who holds invites.
    fn enable_policy(&mut self, rules: PolicyRules, audited: bool) {
        let mut door = Admission::new(rules, audited);
        let given = self.invites.given();
        for peer in given.holders() {
            door.set_invite_rights(peer, given.rights(peer));
        }
        self.admission = Some(Box::new(door));
    }

    /// What a peer says of itself and does not count from now on, and why: for whoever asks why it was denied.
    pub fn set_rejected_claims(&mut self, peer: PeerId, reasons: Vec<String>) {
        if let Some(door) = &mut self.admission {
            door.rejected_claims.set(peer, reasons);
        }
    }

    /// The same of a peer whose task was just not let in. It has nothing to do with a log that cannot be written, nor with a key
    /// that was replaced.
    pub(super) fn rejected_claims_of(&mut self, peer: PeerId) -> Arc<[String]> {
        if self.key_rotations.successor(peer).is_some() {
            return Arc::default();
        }
        let door = self.admission.as_mut().filter(|door| !door.is_blocked);
        let reasons = door
            .map(|door| door.rejected_claims.of_peer(peer))
            .unwrap_or_default();
        let mut outrun = self.rotation_conflicts_of(peer).peekable();
        if outrun.peek().is_none() {
            return reasons;
        }
        let said = |(old, known)| format!("it says that it follows {old}, and {known} did so before");
        reasons.iter().cloned().chain(outrun.map(said)).collect()
    }

    /// A peer has come that may prove something: until [`Core::on_identity_resolved`] nothing is denied to it for good.
    pub(super) fn await_identity(&mut self, peer: PeerId) {
        self.awaiting_identity.insert(peer);
    }

    /// The same of all that are there: under other rules more may be asked about them.
    pub(super) fn await_all_identities(&mut self) {
        self.awaiting_identity.extend(&self.connected);
    }

    /// No more is proven of a peer than what is known of it.
    pub fn on_identity_resolved(&mut self, peer: PeerId) {
        self.awaiting_identity.remove(&peer);
        self.identity_resolved.push(peer);
    }

    /// The peer's tasks do not wait any longer for what it says of itself.
    pub(super) fn on_identity_timeout(&mut self, peer: PeerId) {
        self.set_rejected_claims(peer, vec![LOOKUP_TIMED_OUT.to_owned()]);
        self.on_identity_resolved(peer);
    }

    /// Peers that were settled since this was last called.
    pub(super) fn take_identity_resolved(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.identity_resolved)
    }

    /// Whether the last frame is to come again when its peer is settled: nothing was made of it.
    pub(super) fn take_identity_needed(&mut self) -> bool {
        std::mem::take(&mut self.identity_needed)
    }

    /// Whether this envelope could be decided otherwise, of a peer that may prove more than is known: a task by the rules,
    /// anything else since it is of another one's task.
    pub(super) fn needs_identity(
        &mut self,
        peer: PeerId,
        inbound: &InboundEnvelope,
    ) -> Result<bool, StoreError> {
        if !self.awaiting_identity.contains(&peer) {
            return Ok(false);
        }
        let may_turn = self.may_be_migrated(peer, inbound) || self.may_turn(peer, inbound);
        Ok(may_turn && !self.is_duplicate(peer, inbound)?)
    }

    fn may_turn(&mut self, peer: PeerId, inbound: &InboundEnvelope) -> bool {
        let (Some(door), Payload::SendTask(send)) = (&mut self.admission, &inbound.payload) else {
            return false;
        };
        let is_new = !send.further && self.tasks.indexed(&send.task_id).is_none();
        is_new && door.policy.could_change(peer, &send.target_skill_id)
    }

    /// Whether new tasks are refused since their decisions cannot be written down.
    pub fn block_admission(&mut self, blocked: bool) {
        if let Some(door) = &mut self.admission {
            door.is_blocked = blocked;
        }
    }

    /// Whether it is so now.
    pub fn is_admission_blocked(&self) -> bool {
        self.admission.as_ref().is_some_and(|door| door.is_blocked)
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
        self.record_inbound(now, peer, decision, send, &inbound.id);
        if decision.outcome == PolicyOutcome::Allow {
            return Ok(());
        }
        self.counters.turned_away(&decision);
        let why_not = self.why_not_invited(now, peer, &send.invite);
        Err(match (EngineError::from(decision), why_not) {
            (EngineError::Denied(reason), Some(why)) => EngineError::Denied(format!("{reason}; {why}")),
            (error, _) => error,
        })
    }

    /// Without rules there is nothing to decide, but for a key that is nobody's any more: whoever has it may be anybody.
    fn decide_on(&mut self, now: Now, peer: PeerId, send: &SendTaskPayload) -> Option<Decision> {
        if let Some(new) = self.key_rotations.successor(peer) {
            return Some(Decision {
                outcome: PolicyOutcome::Deny,
                reason: DecisionReason::Replaced(new),
            });
        }
        let door = self.admission.as_mut()?;
        let (tasks, bytes) = self.tasks.open_with(TaskParty::From(peer));
        let has = SourceUsage {
            tasks: tasks as u64,
            bytes,
        };
        let skill = &send.target_skill_id;
        Some(door.decide(now, TaskSource::Peer(peer), skill, has, bytes_of(send)))
    }

    fn record_inbound(
        &mut self,
        now: Now,
        peer: PeerId,
        decision: Decision,
        send: &SendTaskPayload,
        envelope: &str,
    ) {
        let audited = self.admission.as_mut().filter(|door| door.is_audited);
        let seen_as = audited.and_then(|door| door.policy.seen_as(peer, decision.reason));
        self.record(|me| AuditEntry {
            at: now.unix,
            decision,
            source: peer.to_string(),
            seen_as,
            target: me.to_string(),
            skill: send.target_skill_id.clone(),
            task: send.task_id.clone(),
            sealed_task: sealed_task_id_of(send).to_owned(),
            envelope: envelope.to_owned(),
            transport: TaskOrigin::P2p,
        });
    }

    /// Whether this node's own agent, or the bridge's caller that the labels name, may send such a task.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit_local(
        &mut self,
        now: Now,
        request: &SendTask,
    ) -> Result<Option<AdmittedTask>, EngineError> {
        let Some(door) = &mut self.admission else {
            return Ok(None);
        };
        let (skill, bytes) = (&request.skill, request.message.encoded_len() as u64);
        let caller = gateway_caller(&request.metadata);
        if let Some(name) = caller.as_ref().filter(|name| name.len() > MAX_CALLER) {
            return Err(EngineError::Invalid(format!(
                "the label with the caller has {} bytes, it may have {MAX_CALLER}",
                name.len()
            )));
        }
        let source = source_of(caller.as_deref());
        let has = door.usage.get(&limit_key(source)).copied().unwrap_or_default();
        let decision = door.decide(now, source, skill, has, bytes);
        let admitted = AdmittedTask {
            decision,
            caller,
            target: request
                .peer
                .map_or_else(|| bare_url(&request.url), |peer| peer.to_string()),
        };
        if decision.outcome == PolicyOutcome::Allow {
            return Ok(Some(admitted));
        }
        let reason = decision.reason.message();
        self.counters.turned_away(&decision);
        self.refusals.note(now.unix, None, false, "", &reason);
        let caller = admitted.caller.as_deref();
        log::rejected(caller, skill, &reason);
        self.record_own(now, &admitted, skill, "", "");
        Err(decision.into())
    }

    /// A task that was let in is here now: it is counted, and the decision written down.
    pub(super) fn record_local_admission(&mut self, now: Now, admitted: &AdmittedTask, task: &Task) {
        let queue = task.role.peer().and_then(|peer| self.queues.get(&peer));
        let envelope = queue.and_then(|queue| queue.outbox.entries().next_back());
        let envelope = envelope.map_or_else(String::new, |entry| entry.id.clone());
        self.record_own(now, admitted, &task.skill, &task.id, &envelope);
        self.count(&task.id, admitted.caller.as_deref());
    }

    fn record_own(&mut self, now: Now, admitted: &AdmittedTask, skill: &str, task: &str, envelope: &str) {
        let caller = admitted.caller.as_deref();
        self.record(|_| AuditEntry {
            at: now.unix,
            decision: admitted.decision,
            source: caller.map_or_else(|| LOCAL.to_owned(), |name| counted_name(name).into_owned()),
            seen_as: None,
            target: admitted.target.clone(),
            skill: skill.to_owned(),
            task: task.to_owned(),
            sealed_task: String::new(),
            envelope: envelope.to_owned(),
            transport: caller.map_or(TaskOrigin::Local, |_| TaskOrigin::Bridge),
        });
    }

    /// A decision is written down at once: it was taken, whatever becomes of the turn.
    fn record(&mut self, entry: impl FnOnce(PeerId) -> AuditEntry) {
        if self.admission.as_ref().is_some_and(|door| door.is_audited) {
            let entry = entry(self.me);
            self.transaction.early.push(Effect::Audit(Box::new(entry)));
        }
    }

    /// A task has changed: what its source has here changes with it.
    pub(super) fn update_usage(&mut self, id: &str) {
        let Some(door) = self
            .admission
            .as_mut()
            .filter(|door| !door.local_tasks.is_empty())
        else {
            return;
        };
        let open = self.tasks.indexed(id).filter(|known| !known.status.is_terminal());
        door.set_task_bytes(id, open.map(|known| known.bytes));
    }

    fn count(&mut self, id: &str, caller: Option<&str>) {
        let Some(door) = &mut self.admission else { return };
        if !door.policy.rules().limits.count_tasks() {
            return;
        }
        let Some(known) = self.tasks.indexed(id).filter(|known| !known.status.is_terminal()) else {
            return;
        };
        door.add(id, limit_key(source_of(caller)), known.bytes);
    }

    /// Counts the open tasks of this node's own agent and bridges anew, if limits ask for it.
    fn count_own(&mut self, counts: bool) -> Result<(), StoreError> {
        let Some(door) = &mut self.admission else {
            return Ok(());
        };
        door.local_tasks.clear();
        door.usage.clear();
        if !counts {
            return Ok(());
        }
        let own: Vec<String> = self
            .tasks
            .all()
            .filter(|(_, known)| !known.is_from_peer() && !known.status.is_terminal())
            .map(|(id, _)| id.to_owned())
            .collect();
        for id in own {
            let task = unless_damaged(self.tasks.read(&id))?.flatten();
            if let Some(task) = task {
                self.count(&id, gateway_caller(&task.metadata).as_deref());
            }
        }
        Ok(())
    }
}

/// Bytes of what comes with a new task, as limits count it.
fn bytes_of(send: &SendTaskPayload) -> u64 {
    send.message
        .as_ref()
        .map_or(0, |message| message.encoded_len() as u64)
}

/// See [`sealed::told_task`].
pub(super) fn sealed_task_id_of(send: &SendTaskPayload) -> &str {
    let message = send.message.as_ref();
    message.map_or("", |message| sealed::sealed_task_id(&message.parts))
}

fn source_of(caller: Option<&str>) -> TaskSource<'_> {
    caller.map_or(TaskSource::Local, TaskSource::Bridge)
}

impl Admission {
    fn new(rules: PolicyRules, is_audited: bool) -> Self {
        Self {
            policy: Policy::new(rules),
            rejected_claims: RejectedClaims::default(),
            is_audited,
            is_blocked: false,
            local_tasks: HashMap::new(),
            usage: HashMap::new(),
        }
    }

    /// What a peer may by invites from now on.
    pub(super) fn set_invite_rights(&mut self, peer: PeerId, rights: Vec<InviteGrant>) {
        self.policy.set_invited(peer, rights);
    }

    fn decide(
        &mut self,
        now: Now,
        source: TaskSource<'_>,
        skill: &str,
        has: SourceUsage,
        bytes: u64,
    ) -> Decision {
        if self.is_blocked {
            return Decision {
                outcome: PolicyOutcome::Deny,
                reason: DecisionReason::Audit,
            };
        }
        self.policy.decide(now.mono, source, skill, has, bytes)
    }

    fn add(&mut self, id: &str, key: LimitKey, bytes: u64) {
        let has = self.usage.entry(key.clone()).or_default();
        has.tasks += 1;
        has.bytes += bytes;
        self.local_tasks.insert(id.to_owned(), (key, bytes));
    }

    /// A task has so many bytes now; None: it has ended.
    fn set_task_bytes(&mut self, id: &str, now: Option<u64>) {
        let Some((key, bytes)) = self.local_tasks.get_mut(id) else {
            return;
        };
        let Some(has) = self.usage.get_mut(key) else {
            return;
        };
        has.bytes = has.bytes - *bytes + now.unwrap_or(0);
        if let Some(now) = now {
            *bytes = now;
            return;
        }
        has.tasks -= 1;
        if has.tasks == 0 {
            self.usage.remove(key);
        }
        self.local_tasks.remove(id);
    }
}
