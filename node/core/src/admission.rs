//! Whether new tasks are let in, whatever way they come: from peers, from bridges, from the agent beside this node.
//!
//! The policy is pure and decides; this part knows how much each source has here, who holds invites, of which peers it is
//! not known yet what they prove, and says what is to be written down. A task is asked about once, before anything is
//! kept of it. What belongs to a task that is here was allowed with it.

mod access_requests;
mod invites;
mod policy_guard;
mod rejected_claims;
mod trust;

use std::{collections::HashSet, sync::Arc};

use agentanycast_identity::PeerId;
use agentanycast_store::StoreError;

#[cfg(test)]
pub(crate) use self::rejected_claims::LOOKUP_TIMED_OUT;
use self::{invites::InviteStore, policy_guard::PolicyGuard};
use super::{
    clock::Now,
    transaction::{Effect, Transaction},
};
use crate::policy::{
    AskedFor, Decision, LOCAL, PeerAttributes, PolicyRules, TaskSource,
    access_requests::AccessRequests,
    audit::log_line::{AuditEntry, TaskOrigin},
    caller::{CallerOfTask, counted_name},
    grants::{PeerGrant, UsableSkills},
    limit_key,
    limits::SourceUsage,
    trusted_peers::TrustedPeers,
};

/// See the module's text.
pub(crate) struct Admission {
    /// The policy; None: everybody may send tasks, and nothing is written down.
    guard: Option<Box<PolicyGuard>>,
    invites: InviteStore,
    trusted: TrustedPeers,
    requests: AccessRequests,
    /// Peers that may use other agents than before, since that was last asked.
    grants_changed: Vec<PeerId>,
    /// Peers of whom it is not known yet what they prove.
    awaiting_identity: HashSet<PeerId>,
    /// Peers of whom it became known since that was last asked.
    identity_resolved: Vec<PeerId>,
    /// The last frame waits until it is known what its peer proves.
    identity_needed: bool,
}

/// A new task of a peer, as far as the decision about it is written down.
pub(crate) struct InboundTask<'a> {
    pub(crate) peer: PeerId,
    pub(crate) skill: &'a str,
    pub(crate) task: &'a str,
    /// The task's id where it was sealed; empty: it is not sealed.
    pub(crate) sealed_task: &'a str,
    pub(crate) envelope: &'a str,
}

/// A new task of this node's own agent or bridge that was decided on.
pub(crate) struct LocalDecision {
    pub(crate) decision: Decision,
    pub(crate) caller: CallerOfTask,
    /// To whom, for the audit log, which is no place for a token.
    pub(crate) target: String,
}

impl Admission {
    /// Without a policy, and with the invites that the store has.
    pub(crate) fn load(transaction: &Transaction) -> Result<Self, StoreError> {
        Ok(Self {
            guard: None,
            invites: InviteStore::load(transaction.store())?,
            trusted: trust::load(transaction.store())?,
            requests: access_requests::load(transaction.store())?,
            grants_changed: Vec::new(),
            awaiting_identity: HashSet::new(),
            identity_resolved: Vec::new(),
            identity_needed: false,
        })
    }

    /// Whether there is a policy.
    pub(crate) fn is_enabled(&self) -> bool {
        self.guard.is_some()
    }

    /// New tasks are held against these rules from now on. `audited`: each decision is to be written down. Whether there
    /// is a policy now, so that the tasks of this node's own agent and bridges have to be counted anew.
    pub(crate) fn set_rules(&mut self, rules: PolicyRules, audited: bool) -> bool {
        match &mut self.guard {
            None if rules.is_open() && !audited => return false,
            None => self.enable(rules, audited),
            Some(guard) => guard.replace(rules, audited),
        }
        true
    }

    /// What is known of a peer besides its key from now on.
    pub(crate) fn set_attributes(&mut self, peer: PeerId, attributes: PeerAttributes) {
        if self.guard.is_none() && attributes == PeerAttributes::default() {
            return;
        }
        if self.guard.is_none() {
            self.enable(PolicyRules::default(), false);
        }
        if let Some(guard) = &mut self.guard {
            guard.set_attributes(peer, attributes);
            self.grants_changed.push(peer);
        }
    }

    /// Some agent is private: from here on there is a policy, if one without rules.
    pub(crate) fn enable_access(&mut self) {
        if self.guard.is_none() {
            self.enable(PolicyRules::default(), false);
        }
    }

    /// From here on there is a policy, which knows who holds invites and who is trusted.
    fn enable(&mut self, rules: PolicyRules, audited: bool) {
        let mut guard = PolicyGuard::new(rules, audited);
        for peer in self.invites.given().holders().chain(self.trusted.peers()) {
            guard.set_grants(peer, self.grants_of(peer));
        }
        self.guard = Some(Box::new(guard));
    }

    fn grants_of(&self, peer: PeerId) -> Vec<PeerGrant> {
        let invited = self.invites.given().grants_of(peer);
        invited.chain(self.trusted.grants_of(peer)).collect()
    }

    /// What a peer may by invites and trust is another than before.
    fn tell_policy_of_grants(&mut self, peer: PeerId) {
        let grants = self.grants_of(peer);
        if let Some(guard) = &mut self.guard {
            guard.set_grants(peer, grants);
        }
        self.grants_changed.push(peer);
    }

    /// Peers that may use other agents than before, since this was last called.
    pub(crate) fn take_grants_changed(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.grants_changed)
    }

    /// An agent has another name: what was granted for it goes with it.
    pub(crate) fn rename_agent(&mut self, transaction: &mut Transaction, from: &str, to: &str) {
        self.rename_in_invites(transaction, from, to);
        self.rename_in_trust(transaction, from, to);
    }

    /// What of a private agent with these skills a peer may use.
    pub(crate) fn usable_skills<'a>(
        &mut self,
        peer: PeerId,
        agent: &str,
        skills: impl Iterator<Item = &'a str>,
    ) -> UsableSkills {
        match &mut self.guard {
            Some(guard) => guard.usable_skills(peer, agent, skills),
            None => UsableSkills::None,
        }
    }

    /// What a peer says of itself and does not count from now on, and why.
    pub(crate) fn set_rejected_claims(&mut self, peer: PeerId, reasons: Vec<String>) {
        if let Some(guard) = &mut self.guard {
            guard.set_rejected_claims(peer, reasons);
        }
    }

    /// What the peer says of itself and does not count.
    pub(crate) fn rejected_claims_of(&mut self, peer: PeerId) -> Arc<[String]> {
        let guard = self.guard.as_mut();
        guard
            .map(|guard| guard.rejected_claims_of(peer))
            .unwrap_or_default()
    }

    /// These peers may prove something: until [`Admission::on_identity_resolved`] nothing is denied to them for good.
    pub(crate) fn await_identities(&mut self, peers: impl IntoIterator<Item = PeerId>) {
        self.awaiting_identity.extend(peers);
    }

    /// No more is proven of a peer than what is known of it.
    pub(crate) fn on_identity_resolved(&mut self, peer: PeerId) {
        self.awaiting_identity.remove(&peer);
        self.identity_resolved.push(peer);
    }

    /// The peer's tasks do not wait any longer for what it says of itself.
    pub(crate) fn on_identity_timeout(&mut self, peer: PeerId) {
        self.set_rejected_claims(peer, vec![rejected_claims::LOOKUP_TIMED_OUT.to_owned()]);
        self.on_identity_resolved(peer);
    }

    /// Whether the peer may still prove something.
    pub(crate) fn awaits_identity(&self, peer: PeerId) -> bool {
        self.awaiting_identity.contains(&peer)
    }

    /// Peers of which it became known what they prove since this was last called.
    pub(crate) fn take_identity_resolved(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.identity_resolved)
    }

    /// The last frame is to come again when it is known what its peer proves: nothing was made of it.
    pub(crate) fn set_identity_needed(&mut self) {
        self.identity_needed = true;
    }

    /// Whether it is so; told once.
    pub(crate) fn take_identity_needed(&mut self) -> bool {
        std::mem::take(&mut self.identity_needed)
    }

    /// Whether more that is known of the peer could change the decision about such a task.
    pub(crate) fn could_change(&mut self, peer: PeerId, asked: AskedFor<'_>) -> bool {
        let guard = self.guard.as_mut();
        guard.is_some_and(|guard| guard.could_change(peer, asked))
    }

    /// Which of these trust and rules let tasks of a peer in for.
    pub(crate) fn allowed_to_peer<'a>(
        &mut self,
        peer: PeerId,
        asked: impl Iterator<Item = AskedFor<'a>>,
    ) -> Vec<bool> {
        match &mut self.guard {
            Some(guard) => guard.allowed_to_peer(peer, asked),
            None => asked.map(|_| true).collect(),
        }
    }

    /// Whether a source that has sent a task for this may not send it any more.
    pub(crate) fn keeps_out(&mut self, source: TaskSource<'_>, asked: AskedFor<'_>) -> bool {
        let guard = self.guard.as_mut();
        guard.is_some_and(|guard| guard.keeps_out(source, asked))
    }

    /// Whether new tasks are refused since their decisions cannot be written down.
    pub(crate) fn set_blocked(&mut self, is_blocked: bool) {
        if let Some(guard) = &mut self.guard {
            guard.set_blocked(is_blocked);
        }
    }

    /// Whether it is so now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_blocked())
    }

    /// What the policy says of a new task of a peer that has so much here; None: there is no policy.
    pub(crate) fn decide_on_peer(
        &mut self,
        now: Now,
        peer: PeerId,
        asked: AskedFor<'_>,
        has: SourceUsage,
        bytes: u64,
    ) -> Option<Decision> {
        let guard = self.guard.as_mut()?;
        Some(guard.decide(now, TaskSource::Peer(peer), asked, has, bytes))
    }

    /// What the policy says of a new task of this node's own agent, or of a bridge's caller; None: there is no policy.
    pub(crate) fn decide_on_local(
        &mut self,
        now: Now,
        caller: &CallerOfTask,
        asked: AskedFor<'_>,
        bytes: u64,
    ) -> Option<Decision> {
        let guard = self.guard.as_mut()?;
        let source = caller.source();
        let has = guard.usage_of(&limit_key(source));
        Some(guard.decide(now, source, asked, has, bytes))
    }

    /// Has the decision about a peer's task written down.
    pub(crate) fn audit_inbound(
        &mut self,
        transaction: &mut Transaction,
        now: Now,
        decision: Decision,
        task: &InboundTask<'_>,
    ) {
        let audited = self.guard.as_mut().filter(|guard| guard.is_audited());
        let seen_as = audited.and_then(|guard| guard.seen_as(task.peer, decision.reason));
        self.audit(transaction, |me| AuditEntry {
            at: now.unix,
            decision,
            source: task.peer.to_string(),
            seen_as,
            target: me.to_string(),
            skill: task.skill.to_owned(),
            task: task.task.to_owned(),
            sealed_task: task.sealed_task.to_owned(),
            envelope: task.envelope.to_owned(),
            transport: TaskOrigin::P2p,
        });
    }

    /// Has the decision about a task from here written down; a task that was not let in has no id and no envelope.
    pub(crate) fn audit_local(
        &self,
        transaction: &mut Transaction,
        now: Now,
        decided: &LocalDecision,
        skill: &str,
        task: &str,
        envelope: &str,
    ) {
        let caller = decided.caller.name();
        self.audit(transaction, |_| AuditEntry {
            at: now.unix,
            decision: decided.decision,
            source: caller.map_or_else(|| LOCAL.to_owned(), |name| counted_name(name).into_owned()),
            seen_as: None,
            target: decided.target.clone(),
            skill: skill.to_owned(),
            task: task.to_owned(),
            sealed_task: String::new(),
            envelope: envelope.to_owned(),
            transport: caller.map_or(TaskOrigin::Local, |_| TaskOrigin::Bridge),
        });
    }

    /// A decision is written down at once: it was taken, whatever becomes of the transaction.
    fn audit(&self, transaction: &mut Transaction, entry: impl FnOnce(PeerId) -> AuditEntry) {
        if self.guard.as_ref().is_some_and(|guard| guard.is_audited()) {
            let entry = entry(transaction.me());
            transaction.early_effect(Effect::Audit(Box::new(entry)));
        }
    }

    /// Forgets how much this node's own agent and bridges have here. Whether it is to be counted.
    pub(crate) fn restart_count(&mut self) -> bool {
        let Some(guard) = &mut self.guard else {
            return false;
        };
        guard.clear_usage();
        guard.counts_tasks()
    }

    /// A task of this node's own agent, or of a bridge's caller, is here and has this many bytes.
    pub(crate) fn count_task(&mut self, id: &str, caller: &CallerOfTask, bytes: u64) {
        let guard = self.guard.as_mut().filter(|guard| guard.counts_tasks());
        if let Some(guard) = guard {
            guard.add_task(id, limit_key(caller.source()), bytes);
        }
    }

    /// A task has so many bytes now; None: it has ended.
    pub(crate) fn set_task_bytes(&mut self, id: &str, bytes: Option<u64>) {
        if let Some(guard) = &mut self.guard {
            guard.set_task_bytes(id, bytes);
        }
    }
}
