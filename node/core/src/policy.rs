//! Who may send which task here: what the operator has written down, as a question with an answer.
//!
//! PURE: no I/O and no clock of its own. [`PolicyRules`] are what is written, [`Policy`] is these with what has been used of
//! them so far. The engine asks once for each new task, whatever way it comes, and never for anything else: messages,
//! replies and ends of a task that was let in belong to it. `audit` writes the answers down.
//!
//! The order of questions: is the peer one that may come at all (trust), may it use the skill (rules), may it use the agent if
//! that is private (invites, trust), has it not had too much (limits). The first no is the answer, and says what decided.

pub mod access_requests;
pub mod acl;
pub mod audit;
pub(crate) mod caller;
mod decision;
pub mod glob;
pub mod grants;
pub mod invites;
pub mod limits;
mod rules;
pub mod trusted_peers;
mod written;

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use agentanycast_identity::{PeerId, did_key_of};
use lru::LruCache;

use self::{
    grants::{PeerGrant, UsableSkills},
    invites::INVITED,
    limits::{LimitKey, RateMeter, SourceBounds, SourceUsage},
};
pub use acl::AskedFor;
pub use decision::{Decision, DecisionReason, PolicyOutcome, REPLACED};
pub use rules::{PolicyRules, RequiredProofs, SourceIdentity, Trust};
pub use written::{
    InvalidRule, InvalidSourceName, MAX_POLICY_ENTRIES, SourceName, TrustMode, WrittenOverride, WrittenRule,
    WrittenRules,
};

/// The name of the agent beside this node.
pub const LOCAL: &str = "local";

/// What the names of callers over HTTP begin with, whose gateway wrote no name of its own.
pub const HTTP: &str = "http:";

/// Longest name of a bridge caller, in bytes.
pub const MAX_CALLER: usize = 1024;

/// Peers of which more is known than their id.
const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// Who sends a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSource<'a> {
    /// Another node, by the key that it has proven.
    Peer(PeerId),
    /// A caller of a gateway beside this node: `NAME:SUBJECT`.
    Bridge(&'a str),
    /// The same, of whom the gateway does not know who it is, and that may be on another host.
    Stranger(&'a str),
    /// The agent beside this node.
    Local,
}

/// What is known of a peer besides its key, proven elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAttributes {
    /// Names that it has proven to have, such as `did:web:example.org`.
    pub names: Vec<String>,
    /// A credential says that it may be trusted.
    pub vouched: bool,
    /// Who it was before it changed its keys, the latest first.
    pub former: Vec<PeerId>,
    /// What it may by invites of this node and the trust of its owner.
    pub grants: Vec<PeerGrant>,
}

/// The rules, with what has been used of their limits.
#[derive(Debug)]
pub struct Policy {
    rules: PolicyRules,
    meter: RateMeter,
    attributes: LruCache<PeerId, PeerAttributes>,
    /// What each peer may by invites and trust.
    grants: HashMap<PeerId, Vec<PeerGrant>>,
}

impl Policy {
    /// With nothing used yet.
    pub fn new(rules: PolicyRules) -> Self {
        Self {
            rules,
            meter: RateMeter::default(),
            attributes: LruCache::new(MAX_PEERS),
            grants: HashMap::new(),
        }
    }

    /// What a peer may by invites and trust from now on.
    pub fn set_grants(&mut self, peer: PeerId, grants: Vec<PeerGrant>) {
        if grants.is_empty() {
            self.grants.remove(&peer);
        } else {
            self.grants.insert(peer, grants);
        }
    }

    /// The rules.
    pub fn rules(&self) -> &PolicyRules {
        &self.rules
    }

    /// Other rules from now on. What was used stays used.
    pub fn replace(&mut self, rules: PolicyRules) {
        self.rules = rules;
    }

    /// What is known of a peer from now on; of 65 536 peers, the latest.
    pub fn set_attributes(&mut self, peer: PeerId, standing: PeerAttributes) {
        self.attributes.put(peer, standing);
    }

    /// Whether the decision on a peer could become another one when more is known of it, whatever it has here.
    pub fn could_change<'a>(&mut self, peer: PeerId, asked: impl Into<AskedFor<'a>>) -> bool {
        let asked = asked.into();
        self.ask_of(peer, |rules, asker| rules.could_change(asker, asked))
    }

    /// [`PolicyRules::seen_as`] of a peer, with what is known of it.
    pub fn seen_as(&mut self, peer: PeerId, by: DecisionReason) -> Option<String> {
        self.ask_of(peer, |rules, asker| rules.seen_as(asker, by))
    }

    /// Which of these a peer may send tasks for, as far as trust and rules say.
    pub fn allowed_to_peer<'a>(
        &mut self,
        peer: PeerId,
        asked: impl Iterator<Item = AskedFor<'a>>,
    ) -> Vec<bool> {
        let is_allowed = |decision: Decision| decision.outcome == PolicyOutcome::Allow;
        self.ask_of(peer, |rules, asker| {
            asked
                .map(|asked| is_allowed(rules.evaluate(asker, asked).0))
                .collect()
        })
    }

    /// Whether trust and rules keep out a source that they may have let in before. Of a peer that has not proven yet who it is, where
    /// something that it could prove counts, that is not known.
    pub fn keeps_out(&mut self, source: TaskSource<'_>, asked: AskedFor<'_>) -> bool {
        if let TaskSource::Peer(peer) = source
            && !self.attributes.contains(&peer)
        {
            let proofs = self.rules.required_proofs();
            if proofs.names || !proofs.issuers.is_empty() {
                return false;
            }
        }
        let (decision, _) = self.evaluate(source, asked);
        decision.outcome != PolicyOutcome::Allow
    }

    /// What of a private agent with these skills a peer may use.
    pub(crate) fn usable_skills<'a>(
        &mut self,
        peer: PeerId,
        agent: &str,
        skills: impl Iterator<Item = &'a str>,
    ) -> UsableSkills {
        self.ask_of(peer, |rules, asker| rules.usable_skills(asker, agent, skills))
    }

    /// Whether a source that has so much here may send a task for this, whose message has `bytes`; `now` is since any
    /// fixed moment.
    pub fn decide<'a>(
        &mut self,
        now: Duration,
        source: TaskSource<'_>,
        asked: impl Into<AskedFor<'a>>,
        has: SourceUsage,
        bytes: u64,
    ) -> Decision {
        let (decision, bounds) = self.evaluate(source, asked.into());
        if decision.outcome != PolicyOutcome::Allow {
            return decision;
        }
        match self.meter.take(now, limit_key(source), &bounds, has, bytes) {
            Ok(()) => decision,
            Err(full) => Decision {
                outcome: PolicyOutcome::RateLimit,
                reason: DecisionReason::Limit(full),
            },
        }
    }

    fn evaluate(&mut self, source: TaskSource<'_>, asked: AskedFor<'_>) -> (Decision, SourceBounds) {
        match source {
            TaskSource::Peer(peer) => self.ask_of(peer, |rules, asker| rules.evaluate(asker, asked)),
            TaskSource::Bridge(caller) => self.rules.evaluate_caller(caller, false, asked),
            TaskSource::Stranger(caller) => self.rules.evaluate_caller(caller, true, asked),
            TaskSource::Local => self.rules.evaluate_caller(LOCAL, false, asked),
        }
    }

    fn ask_of<T>(&mut self, peer: PeerId, question: impl FnOnce(&PolicyRules, SourceIdentity<'_>) -> T) -> T {
        let nothing = PeerAttributes::default();
        let standing = self.attributes.get(&peer).unwrap_or(&nothing);
        let rules = &self.rules;
        let keys = std::iter::once(&peer).chain(&standing.former);
        let grants = if self.grants.is_empty() {
            Vec::new()
        } else {
            let grants = keys.filter_map(|key| self.grants.get(key));
            grants.flatten().cloned().collect()
        };
        let with_grants;
        let standing = if grants.is_empty() {
            standing
        } else {
            with_grants = PeerAttributes {
                grants,
                ..standing.clone()
            };
            &with_grants
        };
        standing.with_identity(Some(peer), |asker| question(rules, asker))
    }
}

impl PeerAttributes {
    /// The peer of this key as rules see it. Without a key, which no peer is that comes, what its names alone let it do.
    pub fn with_identity<T>(
        &self,
        peer: Option<PeerId>,
        question: impl FnOnce(SourceIdentity<'_>) -> T,
    ) -> T {
        let keys: Vec<PeerId> = peer.into_iter().chain(self.former.iter().copied()).collect();
        let by_key = keys
            .iter()
            .flat_map(|key| std::iter::once(key.to_string()).chain(did_key_of(*key)));
        let by_key: Vec<String> = by_key.collect();
        let labels = self.grants.iter().filter_map(|grant| grant.label.as_deref());
        let by_invite = labels.map(|label| format!("{INVITED}{label}"));
        let by_invite: Vec<String> = by_invite.collect();
        let names = by_key.iter().chain(&self.names).chain(&by_invite);
        let names: Vec<&str> = names.map(String::as_str).collect();
        question(SourceIdentity {
            names: &names,
            keys: &keys,
            is_remote: true,
            is_stranger: true,
            vouched: self.vouched,
            grants: &self.grants,
        })
    }
}

/// Whom limits are counted for.
pub fn limit_key(source: TaskSource<'_>) -> LimitKey {
    match source {
        TaskSource::Peer(peer) => LimitKey::Peer(peer),
        TaskSource::Bridge(caller) | TaskSource::Stranger(caller) => {
            LimitKey::Bridge(caller::counted_name(caller).into_owned())
        }
        TaskSource::Local => LimitKey::Local,
    }
}

#[cfg(test)]
mod tests;
