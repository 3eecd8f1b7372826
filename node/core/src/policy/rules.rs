//! What the operator has written down, and what it says of a source: trust, rules, and invites and trust for private agents.

use std::collections::{BTreeSet, HashSet};

use agentanycast_identity::{PeerId, did_key_of, peer_of_did_key};

use super::{
    LOCAL,
    acl::{Acl, AclDecision, AclGroup, AskedFor},
    caller,
    decision::{Decision, DecisionReason, PolicyOutcome},
    glob::Glob,
    grants::{PeerGrant, UsableSkills},
    invites::INVITED,
    limits::{BoundsOverride, PolicyLimits, SourceBounds},
};

/// Shortest peer id, in bytes: a SHA-256 with its mark. What is shorter happens to be a multihash, and is nobody's.
const MIN_PEER_ID: usize = 34;

/// What the ids of peers begin with: of Ed25519, of secp256k1, of longer keys.
pub(super) const PEER_ID_PREFIXES: [&str; 3] = ["12D3KooW", "16Uiu2HA", "Qm"];

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
        let mut keys: HashSet<PeerId> = patterns.filter_map(|one| peer_named(one.as_str())).collect();
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
    /// What of a private agent with these skills a source may use.
    pub(super) fn usable_skills<'a>(
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

/// The peer that a text names by its key.
pub(super) fn peer_named(text: &str) -> Option<PeerId> {
    let peer: Option<PeerId> = text.parse().ok().or_else(|| peer_of_did_key(text));
    peer.filter(|peer| peer.to_bytes().len() >= MIN_PEER_ID)
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
        .chain(&PEER_ID_PREFIXES)
        .any(|head| pattern.may_begin(head))
}

fn any_matches(patterns: &[Glob], names: &[&str]) -> bool {
    patterns
        .iter()
        .any(|pattern| names.iter().any(|name| pattern.matches(name)))
}
