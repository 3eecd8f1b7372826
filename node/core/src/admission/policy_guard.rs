//! The policy, and what it has to be told: how much each source has here, and what peers say of themselves and does not
//! count.

use std::{collections::HashMap, sync::Arc};

use agentanycast_identity::PeerId;

use super::rejected_claims::RejectedClaims;
use crate::clock::Now;
use crate::policy::{
    AskedFor, Decision, DecisionReason, PeerAttributes, Policy, PolicyOutcome, PolicyRules, TaskSource,
    grants::{PeerGrant, UsableSkills},
    limits::{LimitKey, SourceUsage},
};

/// See the module's text.
pub(super) struct PolicyGuard {
    policy: Policy,
    rejected_claims: RejectedClaims,
    /// Whether decisions are written down.
    is_audited: bool,
    /// They cannot be, and have to.
    is_blocked: bool,
    /// Open tasks of this node's own agent and bridges, where limits count them. Those of peers are counted by the tasks.
    local_tasks: HashMap<String, (LimitKey, u64)>,
    usage: HashMap<LimitKey, SourceUsage>,
}

impl PolicyGuard {
    pub(super) fn new(rules: PolicyRules, is_audited: bool) -> Self {
        Self {
            policy: Policy::new(rules),
            rejected_claims: RejectedClaims::default(),
            is_audited,
            is_blocked: false,
            local_tasks: HashMap::new(),
            usage: HashMap::new(),
        }
    }

    pub(super) fn replace(&mut self, rules: PolicyRules, is_audited: bool) {
        self.policy.replace(rules);
        self.is_audited = is_audited;
    }

    /// What a peer may by invites and trust from now on.
    pub(super) fn set_grants(&mut self, peer: PeerId, grants: Vec<PeerGrant>) {
        self.policy.set_grants(peer, grants);
    }

    /// What of a private agent with these skills a peer may use.
    pub(super) fn usable_skills<'a>(
        &mut self,
        peer: PeerId,
        agent: &str,
        skills: impl Iterator<Item = &'a str>,
    ) -> UsableSkills {
        self.policy.usable_skills(peer, agent, skills)
    }

    pub(super) fn set_attributes(&mut self, peer: PeerId, attributes: PeerAttributes) {
        self.policy.set_attributes(peer, attributes);
    }

    pub(super) fn set_rejected_claims(&mut self, peer: PeerId, reasons: Vec<String>) {
        self.rejected_claims.set(peer, reasons);
    }

    /// What the peer says of itself and does not count; nothing while decisions cannot be written down, which decides then.
    pub(super) fn rejected_claims_of(&mut self, peer: PeerId) -> Arc<[String]> {
        if self.is_blocked {
            return Arc::default();
        }
        self.rejected_claims.of_peer(peer)
    }

    pub(super) fn set_blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    pub(super) fn is_audited(&self) -> bool {
        self.is_audited
    }

    /// Whether more that is known of the peer could change the decision about such a task.
    pub(super) fn could_change(&mut self, peer: PeerId, asked: AskedFor<'_>) -> bool {
        self.policy.could_change(peer, asked)
    }

    /// Which of these trust and rules let tasks of a peer in for.
    pub(super) fn allowed_to_peer<'a>(
        &mut self,
        peer: PeerId,
        asked: impl Iterator<Item = AskedFor<'a>>,
    ) -> Vec<bool> {
        if self.is_blocked {
            return asked.map(|_| false).collect();
        }
        self.policy.allowed_to_peer(peer, asked)
    }

    /// Whether trust and rules keep a source out; nothing that comes new is decided by it, so nothing is written down.
    pub(super) fn keeps_out(&mut self, source: TaskSource<'_>, asked: AskedFor<'_>) -> bool {
        self.policy.keeps_out(source, asked)
    }

    /// As what the peer was decided on, for the audit log.
    pub(super) fn seen_as(&mut self, peer: PeerId, reason: DecisionReason) -> Option<String> {
        self.policy.seen_as(peer, reason)
    }

    /// Whether limits count the tasks of this node's own agent and bridges.
    pub(super) fn counts_tasks(&self) -> bool {
        self.policy.rules().limits.count_tasks()
    }

    /// What a source that is no peer has here.
    pub(super) fn usage_of(&self, key: &LimitKey) -> SourceUsage {
        self.usage.get(key).copied().unwrap_or_default()
    }

    pub(super) fn decide(
        &mut self,
        now: Now,
        source: TaskSource<'_>,
        asked: AskedFor<'_>,
        has: SourceUsage,
        bytes: u64,
    ) -> Decision {
        if self.is_blocked {
            return Decision {
                outcome: PolicyOutcome::Deny,
                reason: DecisionReason::Audit,
            };
        }
        self.policy.decide(now.mono, source, asked, has, bytes)
    }

    /// The tasks of this node's own agent and bridges are counted anew.
    pub(super) fn clear_usage(&mut self) {
        self.local_tasks.clear();
        self.usage.clear();
    }

    /// Counts a task.
    pub(super) fn add_task(&mut self, id: &str, key: LimitKey, bytes: u64) {
        let has = self.usage.entry(key.clone()).or_default();
        has.tasks += 1;
        has.bytes += bytes;
        self.local_tasks.insert(id.to_owned(), (key, bytes));
    }

    /// A task has so many bytes now; None: it has ended.
    pub(super) fn set_task_bytes(&mut self, id: &str, now: Option<u64>) {
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
