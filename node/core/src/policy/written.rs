//! Rules as the operator writes them, and [`PolicyRules`] from them, each checked: a pattern that can match nobody is a
//! mistake, and a rule with one would be a hole that nobody sees. The settings are mapped to [`WrittenRules`] by the daemon.
//!
//! PURE.

use std::{
    collections::{BTreeMap, HashSet},
    str::FromStr,
};

use agentanycast_identity::{DidDns, DidWeb, PeerId, did_key_of, peer_of_did_key};

use super::{
    HTTP, LOCAL, PolicyRules, Trust,
    acl::{Acl, AclGroup, Rule},
    caller::HTTP_GATEWAYS,
    glob::{Glob, MAX_PATTERN},
    invites::{INVITED, is_label},
    limits::{BoundsOverride, PolicyLimits, SourceBounds},
    rules::{PEER_ID_PREFIXES, peer_named},
};

/// Most entries of each list: rules, overrides, trusted peers, issuers; groups and their members together.
pub const MAX_POLICY_ENTRIES: usize = 4096;

/// Longest name of a group, in bytes.
const MAX_GROUP: usize = 64;

/// Rules as they are written: texts that are not checked yet. The default has no rule and lets everybody in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WrittenRules {
    /// Which peers may send tasks at all.
    pub trust: TrustMode,
    /// The peers of [`TrustMode::Known`] and [`TrustMode::Pinned`].
    pub trusted_peers: Vec<String>,
    /// With [`TrustMode::Known`]: issuers, DIDs, whose credentials make a peer known.
    pub trusted_issuers: Vec<String>,
    /// Names for several sources each.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Names of gateways, of whose callers there are some besides those of A2A and MCP.
    pub gateways: Vec<&'static str>,
    /// The first that matches decides; where there are some, the rest is denied.
    pub acl: Vec<WrittenRule>,
    /// New tasks a second of one source, 0 for no limit.
    pub default_rps: f64,
    /// Open tasks of one source, 0 for no limit.
    pub max_in_flight: u64,
    /// Bytes of the open tasks of one source, 0 for no limit.
    pub max_bytes: u64,
    /// The first that matches counts.
    pub overrides: Vec<WrittenOverride>,
}

/// How [`WrittenRules::trusted_peers`] are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrustMode {
    /// All peers may come.
    #[default]
    Open,
    /// Those of the list, and those that a credential vouches for.
    Known,
    /// Those of the list, which are keys.
    Pinned,
}

/// A rule as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRule {
    /// Who calls: a pattern over peer ids, DIDs, `http:CALLER`, `local` and groups.
    pub source: String,
    /// What they call: a pattern over skills.
    pub skill: String,
    /// Which agent of the node they call: a pattern over names of agents.
    pub agent: String,
    /// Whether they may.
    pub allow: bool,
}

/// Limits of their own for some sources, as they are written; None: those of all.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenOverride {
    /// Who calls: a pattern as in a rule.
    pub source: String,
    /// New tasks a second, 0 for no limit.
    pub rps: Option<f64>,
    /// Open tasks at once, 0 for no limit.
    pub max_in_flight: Option<u64>,
    /// Bytes of open tasks, 0 for no limit.
    pub max_bytes: Option<u64>,
}

/// A setting that no policy can be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRule {
    /// The setting.
    pub key: &'static str,
    /// Which entry of it, from 0, if it is a list of tables.
    pub entry: Option<usize>,
    /// Its value, or the part of it that is wrong.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// What names begin with that say what they are.
const SCHEMES: [&str; 7] = [
    HTTP,
    HTTP_GATEWAYS[0],
    HTTP_GATEWAYS[1],
    "did:key:",
    "did:web:",
    "did:dns:",
    INVITED,
];

const SOURCES: &str = "a peer id, did:key:…, did:web:… or did:dns:… in small letters, invited:LABEL, http:CALLER, local, the name of a group, or a pattern with *";

const MEMBERS: &str = "a peer id, did:key:…, did:web:… or did:dns:… in small letters, invited:LABEL, http:CALLER, local, or a pattern of those with *; \
                       a group is no member of another";

impl PolicyRules {
    /// What is written.
    ///
    /// # Errors
    /// The first value that makes no rule.
    pub fn parse(policy: &WrittenRules) -> Result<Self, InvalidRule> {
        let groups = groups(policy)?;
        let known = KnownSources {
            groups: &groups,
            gateways: &policy.gateways,
        };
        let rules = bounded("policy.acl", &policy.acl)?.iter().map(|rule| {
            Ok(Rule {
                source: source("policy.acl", &rule.source, known)?,
                skill: pattern("policy.acl", &rule.skill)?,
                agent: pattern("policy.acl", &rule.agent)?,
                allow: rule.allow,
            })
        });
        let rules = entries(rules)?;
        let overrides = bounded("policy.rate_limit.overrides", &policy.overrides)?
            .iter()
            .map(|one| {
                Ok(BoundsOverride {
                    source: source("policy.rate_limit.overrides", &one.source, known)?,
                    rps: one.rps,
                    in_flight: one.max_in_flight,
                    bytes: one.max_bytes,
                })
            });
        let overrides = entries(overrides)?;
        Ok(Self {
            trust: trust(policy, known)?,
            issuers: issuers(policy)?,
            acl: Acl { rules, groups },
            limits: PolicyLimits {
                default: SourceBounds {
                    rps: policy.default_rps,
                    in_flight: policy.max_in_flight,
                    bytes: policy.max_bytes,
                },
                overrides,
            },
        })
    }
}

/// All entries of a list; the first bad one is told by its place.
fn entries<T>(read: impl Iterator<Item = Result<T, InvalidRule>>) -> Result<Vec<T>, InvalidRule> {
    let placed = |(at, entry): (usize, Result<T, InvalidRule>)| {
        entry.map_err(|bad| InvalidRule {
            entry: Some(at),
            ..bad
        })
    };
    read.enumerate().map(placed).collect()
}

fn trust(policy: &WrittenRules, known: KnownSources<'_>) -> Result<Trust, InvalidRule> {
    let peers = bounded("policy.trusted_peers", &policy.trusted_peers)?;
    let patterns = peers
        .iter()
        .map(|peer| source("policy.trusted_peers", peer, known))
        .collect::<Result<_, _>>()?;
    match policy.trust {
        TrustMode::Open => match peers.first() {
            None => Ok(Trust::Open),
            // Whoever lists peers means to keep others out, and everybody would come in.
            Some(first) => Err(InvalidRule {
                key: "policy.trusted_peers",
                entry: None,
                value: first.clone(),
                allowed: "left out unless policy.trust is known or pinned: with open everybody may come"
                    .to_owned(),
            }),
        },
        TrustMode::Known => Ok(Trust::Known(patterns)),
        TrustMode::Pinned => {
            let keys = peers.iter().map(|peer| {
                peer_named(peer).ok_or_else(|| InvalidRule {
                    key: "policy.trusted_peers",
                    entry: None,
                    value: peer.clone(),
                    allowed: "a peer id or a did:key, since policy.trust is pinned".to_owned(),
                })
            });
            Ok(Trust::Pinned(keys.collect::<Result<HashSet<_>, _>>()?))
        }
    }
}

/// The issuers whose credentials vouch for a peer.
fn issuers(policy: &WrittenRules) -> Result<Vec<String>, InvalidRule> {
    const KEY: &str = "policy.trusted_issuers";
    let bad = |value: &str, allowed: &str| InvalidRule {
        key: KEY,
        entry: None,
        value: value.to_owned(),
        allowed: allowed.to_owned(),
    };
    let read = |issuer: &String| {
        let name = issuer.parse::<DidWeb>().ok().map(|did| did.to_string());
        name.or_else(|| peer_of_did_key(issuer).and_then(did_key_of))
            .ok_or_else(|| bad(issuer, "did:key:… of an Ed25519 key, or did:web:…"))
    };
    let issuers = bounded(KEY, &policy.trusted_issuers)?;
    if let (Some(first), true) = (issuers.first(), policy.trust != TrustMode::Known) {
        return Err(bad(
            first,
            "left out unless policy.trust is known: that alone asks for credentials",
        ));
    }
    issuers.iter().map(read).collect()
}

/// A name that a source can have, as rules compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceName {
    /// The id or did:key of a peer.
    Key(PeerId),
    /// What a peer has to prove: did:web or did:dns.
    Proven(String),
    /// A peer that holds an invite with this label.
    Invited(String),
    /// A caller of a gateway: `NAME:SUBJECT`.
    Caller(String),
    /// The agent beside this node.
    Local,
}

/// A text that is nobody's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is nobody's name; it must be {allowed}")]
pub struct InvalidSourceName {
    given: String,
    allowed: String,
}

impl FromStr for SourceName {
    type Err = InvalidSourceName;

    fn from_str(text: &str) -> Result<Self, InvalidSourceName> {
        if text == LOCAL {
            return Ok(Self::Local);
        }
        let has_subject = |scheme: &&str| {
            text.strip_prefix(*scheme)
                .is_some_and(|subject| !subject.is_empty())
        };
        if HTTP_GATEWAYS.iter().chain([&HTTP]).any(has_subject) {
            return Ok(Self::Caller(text.to_owned()));
        }
        if let Some(label) = text.strip_prefix(INVITED).filter(|label| is_label(label)) {
            return Ok(Self::Invited(label.to_owned()));
        }
        let web = text.parse::<DidWeb>().is_ok_and(|did| did.to_string() == text);
        if web || text.parse::<DidDns>().is_ok_and(|did| did.to_string() == text) {
            return Ok(Self::Proven(text.to_owned()));
        }
        if let Some(peer) = peer_named(text) {
            return Ok(Self::Key(peer));
        }
        let small = in_small_letters(text).filter(|small| small != text && small.parse::<Self>().is_ok());
        Err(InvalidSourceName {
            given: text.to_owned(),
            allowed: small.map_or_else(
                || {
                    "a peer id, did:key:…, did:web:…, did:dns:…, invited:LABEL, http:CALLER or local"
                        .to_owned()
                },
                |small| format!("{small}, in small letters"),
            ),
        })
    }
}

fn groups(policy: &WrittenRules) -> Result<Vec<AclGroup>, InvalidRule> {
    const KEY: &str = "policy.groups";
    let written: &BTreeMap<String, Vec<String>> = &policy.groups;
    let known = KnownSources {
        groups: &[],
        gateways: &policy.gateways,
    };
    let bad = |value: &str, allowed: &str| InvalidRule {
        key: KEY,
        entry: None,
        value: value.to_owned(),
        allowed: allowed.to_owned(),
    };
    let members: usize = written.values().map(Vec::len).sum();
    if written.len() + members > MAX_POLICY_ENTRIES {
        return Err(bad(&members.to_string(), "4096 groups and members at most"));
    }
    let group = |(name, members): (&String, &Vec<String>)| {
        let letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        let legal = (1..=MAX_GROUP).contains(&name.len()) && name.bytes().all(letter) && name != LOCAL;
        if !legal {
            return Err(bad(
                name,
                "named by 1 to 64 of the characters a-z, 0-9, - and _, and not local",
            ));
        }
        let members = members.iter().map(|member| named(KEY, member, known, MEMBERS));
        Ok(AclGroup {
            name: name.clone(),
            members: members.collect::<Result<_, _>>()?,
        })
    };
    written.iter().map(group).collect()
}

/// What patterns may name besides the kinds of sources that every node has.
#[derive(Clone, Copy)]
struct KnownSources<'a> {
    groups: &'a [AclGroup],
    /// Names of gateways, of whose callers there are some.
    gateways: &'a [&'static str],
}

/// A pattern over sources that can match somebody.
fn source(key: &'static str, text: &str, known: KnownSources<'_>) -> Result<Glob, InvalidRule> {
    named(key, text, known, SOURCES)
}

/// A pattern that can match a name or one of these groups; what is allowed is said of any other.
fn named(key: &'static str, text: &str, known: KnownSources<'_>, allowed: &str) -> Result<Glob, InvalidRule> {
    let glob = pattern(key, text)?;
    if can_match(&glob, known) {
        return Ok(glob);
    }
    let small = in_small_letters(text).and_then(|small| Glob::new(&small));
    let meant = small.filter(|small| can_match(small, known));
    Err(InvalidRule {
        key,
        entry: None,
        value: text.to_owned(),
        allowed: meant.map_or_else(
            || allowed.to_owned(),
            |meant| format!("{}, in small letters", meant.as_str()),
        ),
    })
}

/// Whether there can be a source that a pattern matches: without a star it is a name or a group, with one it begins as
/// some names do.
fn can_match(glob: &Glob, known: KnownSources<'_>) -> bool {
    let text = glob.as_str();
    let is_of = |gateway: &&'static str| {
        let subject = text.strip_prefix(gateway).and_then(|rest| rest.strip_prefix(':'));
        subject.is_some_and(|subject| !subject.is_empty())
    };
    if known.groups.iter().any(|group| glob.matches(&group.name)) || known.gateways.iter().any(is_of) {
        return true;
    }
    if glob.is_literal() {
        return text.parse::<SourceName>().is_ok();
    }
    let head = text.split('*').next().unwrap_or_default();
    let begins = |name: &&str| head.starts_with(*name) || name.starts_with(head);
    let is_known = glob.matches(LOCAL) || SCHEMES.iter().chain(&PEER_ID_PREFIXES).any(begins);
    is_known && in_small_letters(text).is_none_or(|small| small == text)
}

/// A name or a pattern with its scheme as names have it, and with a domain behind it in small letters; None for what has
/// no scheme, in whatever letters.
fn in_small_letters(text: &str) -> Option<String> {
    let head = text.split('*').next().filter(|head| !head.is_empty())?;
    let is_of = |scheme: &&&str| {
        let common = scheme.len().min(head.len());
        head.get(..common)
            .is_some_and(|begin| begin.eq_ignore_ascii_case(&scheme[..common]))
    };
    let scheme = SCHEMES.iter().find(is_of)?;
    let (begin, rest) = text.split_at(scheme.len().min(head.len()));
    let (domain, path) = match *scheme {
        "did:web:" => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        "did:dns:" => (rest, ""),
        _ => ("", rest),
    };
    // The colon before a port is written in capitals.
    let domain = domain.to_ascii_lowercase().replace("%3a", "%3A");
    Some(format!("{}{domain}{path}", begin.to_ascii_lowercase()))
}

fn pattern(key: &'static str, text: &str) -> Result<Glob, InvalidRule> {
    Glob::new(text).ok_or_else(|| InvalidRule {
        key,
        entry: None,
        value: text.to_owned(),
        allowed: format!("a pattern of {MAX_PATTERN} bytes at most; * stands for any text"),
    })
}

fn bounded<'a, T>(key: &'static str, list: &'a [T]) -> Result<&'a [T], InvalidRule> {
    if list.len() > MAX_POLICY_ENTRIES {
        return Err(InvalidRule {
            key,
            entry: None,
            value: format!("{} entries", list.len()),
            allowed: format!("{MAX_POLICY_ENTRIES} entries at most"),
        });
    }
    Ok(list)
}
