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
pub mod glob;
pub mod grants;
pub mod invites;
pub mod limits;
pub mod trusted_peers;
mod written;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
    num::NonZeroUsize,
    time::Duration,
};

use agentanycast_identity::{PeerId, did_key_of};
use lru::LruCache;

use self::{
    acl::{Acl, AclDecision, AclGroup},
    glob::Glob,
    grants::{PeerGrant, UsableSkills},
    invites::INVITED,
    limits::{BoundsOverride, LimitKey, PolicyLimits, RateMeter, ReachedBound, SourceBounds, SourceUsage},
};
pub use acl::AskedFor;
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

/// Which peers may send tasks at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// All.
    #[default]
    Open,
    /// Those that one of these patterns matches, by a name that they have proven or a group, and those that a
    /// credential vouches for.
    Known(Vec<Glob>),
    /// These, by their keys.
    Pinned(HashSet<PeerId>),
}

/// What has to be proven of peers before the rules can decide; nothing else is looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredProofs {
    /// Whether some pattern may match a name other than a key.
    pub names: bool,
    /// The issuers whose credentials vouch for a peer, as DIDs.
    pub issuers: Vec<String>,
}

/// What the operator has written down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRules {
    /// Which peers may come.
    pub trust: Trust,
    /// Who may use which skill.
    pub acl: Acl,
    /// How much of it.
    pub limits: PolicyLimits,
    /// The issuers whose credentials vouch for a peer, as DIDs.
    pub issuers: Vec<String>,
}

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

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// The task is let in.
    Allow,
    /// It is not.
    Deny,
    /// It is not, now: its source has had too much.
    RateLimit,
}

impl PolicyOutcome {
    /// The word that stands for it in the audit log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::RateLimit => "rate_limit",
        }
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DecisionReason {
    /// There are no rules.
    NoRules,
    /// This rule, from 1.
    Rule(usize),
    /// An invite, since no rule matches.
    Invited,
    /// The trust of the owner, since no rule matches.
    Trusted,
    /// That the agent is private, and nothing lets the source in.
    Private,
    /// That no rule matches.
    NoMatch,
    /// That the peer is not known.
    Unknown,
    /// That the peer's key is not pinned.
    NotPinned,
    /// That this key came after the peer's, as both have signed.
    Replaced(PeerId),
    /// A bound of the source.
    Limit(ReachedBound),
    /// That the audit log cannot be written.
    Audit,
}

/// How [`DecisionReason::message`] begins for a key that was replaced. Peers read it: what they ask by such a key is not lost.
pub const REPLACED: &str = "this key was replaced by that of ";

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRules => f.write_str("no rules"),
            Self::Rule(number) => write!(f, "acl {number}"),
            Self::Invited => f.write_str("invite"),
            Self::Trusted => f.write_str("trust"),
            Self::Private => f.write_str("access"),
            Self::NoMatch => f.write_str("acl default"),
            Self::Unknown => f.write_str("trust known"),
            Self::NotPinned => f.write_str("trust pinned"),
            Self::Replaced(_) => f.write_str("key replaced"),
            Self::Limit(ReachedBound::Rate(rps)) => write!(f, "rate_limit rps {rps}"),
            Self::Limit(ReachedBound::InFlight(most)) => write!(f, "rate_limit max_in_flight {most}"),
            Self::Limit(ReachedBound::Bytes(most) | ReachedBound::TaskBytes(most)) => {
                write!(f, "rate_limit max_bytes {most}")
            }
            Self::Audit => f.write_str("audit log"),
        }
    }
}

impl DecisionReason {
    /// Why a task is refused, for whoever sent it.
    pub fn message(&self) -> String {
        match self {
            Self::NoRules | Self::Invited | Self::Trusted => "allowed".to_owned(),
            Self::Private => "this agent is private; ask its owner for an invite".to_owned(),
            Self::Rule(_) => format!("not allowed by this node's policy ({self})"),
            Self::NoMatch => "not allowed by this node's policy (no rule allows it)".to_owned(),
            Self::Unknown => "this node takes tasks of peers that it knows only".to_owned(),
            Self::NotPinned => "this node takes tasks of pinned peers only".to_owned(),
            Self::Replaced(new) => format!("{REPLACED}{new}; send it from there"),
            Self::Limit(ReachedBound::Rate(rps)) => {
                format!("more than {rps} tasks a second, the limit of one source here; send it again later")
            }
            Self::Limit(ReachedBound::InFlight(most)) => {
                format!("{most} tasks of this source are open here, its limit; wait until some have ended")
            }
            Self::Limit(ReachedBound::Bytes(most)) => format!(
                "open tasks of this source would take more than {most} bytes here, its limit; wait until some have ended"
            ),
            Self::Limit(ReachedBound::TaskBytes(most)) => format!(
                "the task alone takes more than {most} bytes, the limit of one source here; send it in smaller ones"
            ),
            Self::Audit => "this node cannot write its audit log and takes no tasks meanwhile".to_owned(),
        }
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// What becomes of the task.
    pub outcome: PolicyOutcome,
    /// Why.
    pub reason: DecisionReason,
}

/// A source as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct SourceIdentity<'a> {
    /// All its names, groups left out.
    pub names: &'a [&'a str],
    /// Its key, if it is a peer, and those that it had before.
    pub keys: &'a [PeerId],
    /// Whether it has to be trusted: it comes from another node.
    pub is_remote: bool,
    /// Whether a credential vouches for it.
    pub vouched: bool,
    /// Nothing of this node says that it may use private agents: it comes from another node, or from nobody knows whom.
    pub is_stranger: bool,
    /// What it may by invites and trust.
    pub grants: &'a [PeerGrant],
}

impl PolicyRules {
    /// The keys that are written down one by one.
    pub fn named_keys(&self) -> HashSet<PeerId> {
        let patterns = self.patterns().filter(|pattern| pattern.is_literal());
        let mut keys: HashSet<PeerId> = patterns
            .filter_map(|one| written::peer_named(one.as_str()))
            .collect();
        if let Trust::Pinned(pinned) = &self.trust {
            keys.extend(pinned);
        }
        keys
    }

    /// Everything that sources are held against.
    fn patterns(&self) -> impl Iterator<Item = &Glob> {
        let overrides = self.limits.overrides.iter().map(|one| &one.source);
        let members = self.acl.groups.iter().flat_map(|group| &group.members);
        let sources = self.acl.rules.iter().map(|rule| &rule.source);
        self.trusted()
            .iter()
            .chain(overrides)
            .chain(members)
            .chain(sources)
    }

    /// Whether everything is allowed to everybody.
    pub fn is_open(&self) -> bool {
        self.trust == Trust::Open && self.acl.rules.is_empty() && self.limits.is_none()
    }

    /// What has to be proven of peers for these rules.
    pub fn required_proofs(&self) -> RequiredProofs {
        let is_of_name = |pattern: &Glob| pattern.may_begin("did:web:") || pattern.may_begin("did:dns:");
        RequiredProofs {
            names: self.patterns().any(is_of_name),
            issuers: match &self.trust {
                Trust::Known(_) => self.issuers.clone(),
                _ => Vec::new(),
            },
        }
    }

    /// The patterns of those that are known.
    fn trusted(&self) -> &[Glob] {
        match &self.trust {
            Trust::Known(patterns) => patterns,
            _ => &[],
        }
    }

    /// Patterns that let in by a domain of the web or of DNS, and by each that only begins so.
    pub fn wildcard_domains(&self) -> Vec<&str> {
        let members = self.acl.groups.iter().flat_map(|group| &group.members);
        let allowing = self
            .acl
            .rules
            .iter()
            .filter(|rule| rule.allow)
            .map(|rule| &rule.source);
        let all = self.trusted().iter().chain(members).chain(allowing);
        all.map(Glob::as_str)
            .filter(|pattern| is_loose(pattern))
            .collect()
    }

    /// Whether no other node can come in, whoever it is: nobody is listed, and no credential counts.
    pub fn is_closed(&self) -> bool {
        let is_empty = |pattern: &Glob| {
            let group = self
                .acl
                .groups
                .iter()
                .find(|group| group.name == pattern.as_str());
            group.is_some_and(|group| group.members.is_empty())
        };
        match &self.trust {
            Trust::Open => false,
            Trust::Known(patterns) => self.issuers.is_empty() && patterns.iter().all(is_empty),
            Trust::Pinned(peers) => peers.is_empty(),
        }
    }

    /// Whether there is a skill that this node's own agent may use, also of another node.
    pub fn may_local_send(&self) -> bool {
        let names = self.acl.with_groups(&[LOCAL]);
        let mut allowing = self.acl.rules.iter().filter(|rule| rule.allow);
        self.acl.rules.is_empty() || allowing.any(|rule| names.iter().any(|name| rule.source.matches(name)))
    }

    /// What trust and rules say, and the bounds of this source.
    pub fn evaluate<'a>(
        &self,
        asker: SourceIdentity<'_>,
        asked: impl Into<AskedFor<'a>>,
    ) -> (Decision, SourceBounds) {
        let asked = asked.into();
        let names = self.acl.with_groups(asker.names);
        let bounds = self.limits.bounds_of(&names);
        let no = |by| Decision {
            outcome: PolicyOutcome::Deny,
            reason: by,
        };
        let granted = asker.grants.iter().find(|grant| grant.covers(asked));
        if asker.is_remote && granted.is_none() {
            match &self.trust {
                Trust::Known(patterns) if !asker.vouched && !any_matches(patterns, &names) => {
                    return (no(DecisionReason::Unknown), bounds);
                }
                Trust::Pinned(peers) if !asker.keys.iter().any(|peer| peers.contains(peer)) => {
                    return (no(DecisionReason::NotPinned), bounds);
                }
                _ => {}
            }
        }
        let yes = |by| Decision {
            outcome: PolicyOutcome::Allow,
            reason: by,
        };
        let is_closed = asked.is_private && asker.is_stranger;
        // Who has come so far is listed, or vouched for, unless all may come.
        let is_listed = asker.vouched || (asker.is_remote && self.trust != Trust::Open);
        let ruling = self.acl.decide(&names, asked);
        let decision = match (ruling, granted) {
            // A grant opens what no rule says anything of. A rule that matches counts.
            (AclDecision::Rule(number), _) if self.acl.allows(ruling) => yes(DecisionReason::Rule(number)),
            (AclDecision::Rule(number), _) => no(DecisionReason::Rule(number)),
            (AclDecision::NoMatch, Some(grant)) => yes(grant.reason()),
            (AclDecision::NoRules, Some(grant)) if is_closed => yes(grant.reason()),
            (AclDecision::NoMatch, None) if is_closed => no(DecisionReason::Private),
            (AclDecision::NoRules, None) if is_closed && !is_listed => no(DecisionReason::Private),
            (AclDecision::NoMatch, None) => no(DecisionReason::NoMatch),
            (AclDecision::NoRules, _) => yes(DecisionReason::NoRules),
        };
        (decision, bounds)
    }

    /// What of a private agent with these skills a source may use.
    fn usable_skills<'a>(
        &self,
        asker: SourceIdentity<'_>,
        agent: &str,
        skills: impl Iterator<Item = &'a str>,
    ) -> UsableSkills {
        let may = |skill: &str| {
            let asked = AskedFor {
                skill,
                agent,
                is_private: true,
            };
            self.evaluate(asker, asked).0.outcome == PolicyOutcome::Allow
        };
        // Without rules only grants tell skills apart.
        let by_skill = !self.acl.rules.is_empty() || asker.grants.iter().any(|grant| !grant.skill.is_empty());
        if !by_skill {
            return if may("") {
                UsableSkills::All
            } else {
                UsableSkills::None
            };
        }
        let mut all_usable = may("");
        let some_usable = all_usable;
        let mut these = BTreeSet::new();
        for skill in skills {
            if may(skill) {
                these.insert(skill.to_owned());
            } else {
                all_usable = false;
            }
        }
        match (all_usable, some_usable || !these.is_empty()) {
            (true, _) => UsableSkills::All,
            (false, true) => UsableSkills::These(these),
            (false, false) => UsableSkills::None,
        }
    }

    /// As whom a peer was seen by what decided, if not by its key: the name that it has proven, or the key that it had before,
    /// by which the rule or the override was its own, or else by which it was trusted.
    pub fn seen_as(&self, asker: SourceIdentity<'_>, by: DecisionReason) -> Option<String> {
        if let DecisionReason::Replaced(_) = by {
            return None;
        }
        if by == DecisionReason::Invited {
            let name = asker.names.iter().find(|name| name.starts_with(INVITED));
            return name.map(ToString::to_string);
        }
        let key = asker.keys.first()?;
        let own = [Some(key.to_string()), did_key_of(*key)];
        let by_name = |patterns: &[Glob]| {
            let is_meant = |name: &&&str| any_matches(patterns, &self.acl.with_groups(&[**name]));
            let name = asker.names.iter().find(is_meant)?.to_string();
            Some(name).filter(|name| own.iter().flatten().all(|own| own != name))
        };
        let decided = match by {
            DecisionReason::Rule(number) => self.acl.rules.get(number - 1).map(|rule| &rule.source),
            DecisionReason::Limit(_) => self.limits.override_pattern(&self.acl.with_groups(asker.names)),
            _ => None,
        };
        let trusted = || match &self.trust {
            Trust::Open => None,
            Trust::Known(patterns) => by_name(patterns),
            Trust::Pinned(peers) => {
                let pinned = asker.keys.iter().find(|key| peers.contains(key))?;
                (pinned != key).then(|| pinned.to_string())
            }
        };
        let decided = decided.and_then(|pattern| by_name(std::slice::from_ref(pattern)));
        decided.or_else(trusted)
    }

    /// Whether this source could be told otherwise once more names of it are proven: it is denied now, a rule before the
    /// one that decides says the opposite, or an override before the one that counts has other limits.
    pub fn could_change<'a>(&self, asker: SourceIdentity<'_>, asked: impl Into<AskedFor<'a>>) -> bool {
        let asked = asked.into();
        let (decision, _) = self.evaluate(asker, asked);
        if decision.outcome != PolicyOutcome::Allow {
            return true;
        }
        let may_be = |pattern: &Glob| {
            let of =
                |group: &AclGroup| group.members.iter().any(may_be_proven) && pattern.matches(&group.name);
            may_be_proven(pattern) || self.acl.groups.iter().any(of)
        };
        let before = match decision.reason {
            DecisionReason::Rule(number) => number - 1,
            DecisionReason::Invited | DecisionReason::Trusted => self.acl.rules.len(),
            _ => 0,
        };
        let mut rules = self.acl.rules.iter().take(before);
        let names = self.acl.with_groups(asker.names);
        let is_other = |one: &&BoundsOverride| !names.iter().any(|name| one.source.matches(name));
        let mut overrides = self.limits.overrides.iter().take_while(is_other);
        rules.any(|rule| !rule.allow && rule.covers(asked) && may_be(&rule.source))
            || overrides.any(|one| may_be(&one.source))
    }
}

/// Whether a star stands where the domain of a DID would end.
fn is_loose(pattern: &str) -> bool {
    let domain = ["did:web:", "did:dns:"]
        .iter()
        .find_map(|method| pattern.strip_prefix(method));
    let domain = domain.and_then(|rest| rest.split(':').next());
    domain.is_some_and(|domain| domain.len() > 1 && domain.ends_with('*'))
}

/// Whether a pattern may match a name that a peer proves after it has come: a DID, or the id of a key that it had before.
fn may_be_proven(pattern: &Glob) -> bool {
    std::iter::once(&"did:")
        .chain(&written::PEER_ID_PREFIXES)
        .any(|head| pattern.may_begin(head))
}

fn any_matches(patterns: &[Glob], names: &[&str]) -> bool {
    patterns
        .iter()
        .any(|pattern| names.iter().any(|name| pattern.matches(name)))
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

    /// Whether a peer may send tasks for this, as far as trust and rules say.
    pub fn allows_peer(&mut self, peer: PeerId, asked: AskedFor<'_>) -> bool {
        let (decision, _) = self.evaluate(TaskSource::Peer(peer), asked);
        decision.outcome == PolicyOutcome::Allow
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

impl PolicyRules {
    /// [`PolicyRules::evaluate`] for a caller of this node; one of A2A or MCP has two names.
    pub fn evaluate_caller<'a>(
        &self,
        name: &str,
        is_stranger: bool,
        asked: impl Into<AskedFor<'a>>,
    ) -> (Decision, SourceBounds) {
        let counted = caller::counted_name(name);
        let names = [counted.as_ref(), name];
        let asker = SourceIdentity {
            names: if counted == name { &names[..1] } else { &names },
            keys: &[],
            is_remote: false,
            is_stranger,
            vouched: false,
            grants: &[],
        };
        self.evaluate(asker, asked)
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
