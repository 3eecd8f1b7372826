//! The registry against a naive model, and each rule by itself.

use std::{collections::BTreeMap, time::Duration};

use agentanycast_proto::v1::{DiscoverBySkillResponse, SkillInfo, SkillRegistration};
use prost::Message as _;

use super::*;
use crate::clock::SECOND;

mod merge_laws;
mod quotas;
mod reference_model;
mod signature_order;
mod table_poisoning;
mod tag_queries;
mod untrusted_relays;

/// A moment long after 1970.
const START: Nanos = 1_800_000_000 * SECOND;

fn registry(limits: RegistryLimits) -> SkillRegistry {
    SkillRegistry::new("relay-a", limits, HybridClock::default())
}

fn skill(id: &str, tags: &[(&str, &str)]) -> SkillInfo {
    SkillInfo {
        skill_id: id.into(),
        description: String::new(),
        tags: tags
            .iter()
            .map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()))
            .collect(),
        agent: String::new(),
    }
}

fn agent(peer: &str, skills: &[SkillInfo]) -> RegisteredAgent {
    RegisteredAgent {
        peer: peer.into(),
        skills: skills.to_vec(),
        ..RegisteredAgent::default()
    }
}

fn from(last: u8) -> RegistryCaller {
    RegistryCaller {
        source: Some(std::net::IpAddr::from([192, 0, 2, last]).into()),
        proof: None,
    }
}

fn signed(time_ms: u64) -> RegistryCaller {
    RegistryCaller {
        proof: Some(RegistryProof {
            time_ms,
            ..RegistryProof::default()
        }),
        ..from(1)
    }
}

fn told(peer: &str, origin: &str, version: u64) -> RemoteRecord {
    RemoteRecord {
        agent: agent(peer, &[skill("s", &[])]),
        origin: origin.into(),
        version,
        registered: START,
        life: 30 * SECOND,
        ..RemoteRecord::default()
    }
}

fn page(registry: &SkillRegistry, now: Nanos, relay: &str) -> ChangesPage {
    let reader = ChangesReader {
        relay,
        everything: false,
    };
    registry.changes(now, 0, 1000, reader)
}

/// All that one relay knows, told to another one as a relay of its choice tells it.
fn hear(to: &mut SkillRegistry, by: &SkillRegistry) {
    let teller = RecordSender {
        via: Some(&"b".into()),
        source: from(7).source,
        is_trusted: true,
    };
    for told in page(by, START, "").records {
        let proven_ms = told.proofs.last().map_or(0, |proof| proof.time_ms);
        let proofs = told.proofs.clone();
        let incoming = RemoteRecord::from_registration(told, START, to.limits().ttl, teller);
        let proven = RemoteRecord {
            proven_ms,
            proofs,
            ..incoming
        };
        let _ = to.merge(START, proven);
    }
}

#[test]
fn a_proof_that_is_larger_than_an_agent_may_be_is_refused() {
    let limits = RegistryLimits::default();
    let mut registry = registry(limits.clone());
    let padded = RegistryCaller {
        proof: Some(RegistryProof {
            time_ms: 1,
            request: vec![0; limits.agent_bytes],
            ..RegistryProof::default()
        }),
        ..from(1)
    };
    let refused = registry.register(START, agent("a", &[skill("s", &[])]), padded);
    assert!(matches!(refused, Err(RegistryError::Limit { .. })), "{refused:?}");
    assert_eq!(registry.stats().local, 0);
}

fn ask(
    registry: &SkillRegistry,
    now: impl Into<Now>,
    skill: &str,
    tags: &[(&str, &str)],
    limit: i32,
    federated: bool,
) -> Vec<SkillRegistration> {
    let tags: BTreeMap<String, String> = tags
        .iter()
        .map(|(t, v)| ((*t).to_owned(), (*v).to_owned()))
        .collect();
    let query = Query {
        skill,
        tags: &tags,
        limit,
        federated,
    };
    let now = now.into();
    discovered(registry, now, &query, now.wall ^ 7)
}

fn discovered(
    registry: &SkillRegistry,
    now: impl Into<Now>,
    query: &Query<'_>,
    seed: u64,
) -> Vec<SkillRegistration> {
    let found = registry.discover(now, query, seed);
    DiscoverBySkillResponse::decode(&*found).unwrap().agents
}

fn peers(found: &[SkillRegistration]) -> Vec<&str> {
    found.iter().map(|agent| agent.peer_id.as_str()).collect()
}

#[test]
fn an_agent_is_found_by_skill_and_tags_until_it_expires() {
    let mut registry = registry(RegistryLimits::default());
    let skills = [
        skill("translate", &[("lang", "de"), ("tier", "1")]),
        skill("echo", &[("lang", "fr")]),
    ];
    let expires = registry.register(START, agent("p", &skills), from(1)).unwrap();
    assert_eq!(expires, START + 30 * SECOND);
    let count = |skill: &str, tags: &[(&str, &str)], now| ask(&registry, now, skill, tags, 0, false).len();
    assert_eq!(count("translate", &[], START), 1);
    assert_eq!(count("translate", &[("lang", "de"), ("tier", "1")], START), 1);
    // Of the same skill, not of another one.
    assert_eq!(count("translate", &[("lang", "fr")], START), 0);
    assert_eq!(count("translat", &[], START), 0);
    assert_eq!(count("translate", &[], expires - 1), 1);
    assert_eq!(count("translate", &[], expires), 0);
    assert_eq!(
        registry.heartbeat(expires, "p", from(1)),
        Err(RegistryError::NotFound("p".into()))
    );
    assert_eq!(registry.expire(expires, usize::MAX), 1);
    assert_eq!(registry.stats(), RegistryStats::default());
}

#[test]
fn a_heartbeat_extends_and_freshens() {
    let mut registry = registry(RegistryLimits::default());
    for peer in ["old", "new"] {
        registry
            .register(START, agent(peer, &[skill("s", &[])]), from(1))
            .unwrap();
    }
    let later = START + 10 * SECOND;
    assert_eq!(registry.heartbeat(later, "new", from(1)), Ok(later + 30 * SECOND));
    let found = ask(&registry, later, "s", &[], 0, false);
    assert_eq!(peers(&found), ["new", "old"]);
    assert_eq!(found[0].expires_at, Some(timestamp(later + 30 * SECOND)));
    assert_eq!(found[0].registered_at, Some(timestamp(START)));
}

#[test]
fn unregistering_takes_skills_off_or_everything() {
    let mut registry = registry(RegistryLimits::default());
    let skills = [skill("a", &[("k", "v")]), skill("b", &[])];
    registry.register(START, agent("p", &skills), from(1)).unwrap();
    registry
        .unregister(START, "p", &["a".into(), "z".into()], from(1))
        .unwrap();
    assert!(ask(&registry, START, "a", &[], 0, false).is_empty());
    assert_eq!(ask(&registry, START, "b", &[], 0, false).len(), 1);
    assert_eq!(registry.stats().skills, 1);
    registry.unregister(START, "p", &[], from(1)).unwrap();
    assert!(ask(&registry, START, "b", &[], 0, false).is_empty());
    registry.unregister(START, "p", &[], from(1)).unwrap();
    registry.unregister(START, "nobody", &[], from(1)).unwrap();
    assert!(matches!(
        registry.unregister(START, "", &[], from(1)),
        Err(RegistryError::Invalid(_))
    ));
    assert!(matches!(
        registry.heartbeat(START, "", from(1)),
        Err(RegistryError::Invalid(_))
    ));
}

#[test]
fn the_proven_cannot_be_touched_without_proof() {
    let mut registry = registry(RegistryLimits::default());
    let own = agent("p", &[skill("s", &[])]);
    registry.register(START, own.clone(), from(9)).unwrap();
    // A proof takes an entry over that was made without.
    registry.register(START, own.clone(), signed(1)).unwrap();
    let denied = Err(RegistryError::Denied("p".into()));
    assert_eq!(registry.register(START, own.clone(), from(2)).map(|_| ()), denied);
    assert_eq!(registry.heartbeat(START, "p", from(2)).map(|_| ()), denied);
    assert_eq!(registry.unregister(START, "p", &[], from(2)), denied);
    registry.heartbeat(START, "p", signed(2)).unwrap();
    // The proven come first, however fresh the others are.
    registry
        .register(START + 20 * SECOND, agent("q", &[skill("s", &[])]), from(2))
        .unwrap();
    let found = ask(&registry, START + 20 * SECOND, "s", &[], 0, false);
    assert_eq!(peers(&found), ["p", "q"]);
    assert!(found[0].verified && !found[1].verified);
    // What has expired protects nobody.
    registry.register(START + 31 * SECOND, own, from(2)).unwrap();
}

#[test]
fn what_a_peer_takes_off_proves_nothing_of_the_rest() {
    let mut registry = registry(RegistryLimits::default());
    let claimed = agent("p", &[skill("a", &[]), skill("made-up", &[])]);
    registry.register(START, claimed, from(9)).unwrap();
    registry.unregister(START, "p", &["a".into()], signed(1)).unwrap();
    let found = ask(&registry, START, "made-up", &[], 0, false);
    assert!(found.len() == 1 && !found[0].verified);
    registry.unregister(START, "p", &[], signed(2)).unwrap();
    assert!(ask(&registry, START, "made-up", &[], 0, false).is_empty());
}

#[test]
fn a_registry_for_the_proven_refuses_others() {
    let mut registry = registry(RegistryLimits {
        signed_only: true,
        ..RegistryLimits::default()
    });
    let own = agent("p", &[skill("s", &[])]);
    assert_eq!(
        registry.register(START, own.clone(), from(1)),
        Err(RegistryError::Unsigned)
    );
    assert!(registry.register(START, own, signed(1)).is_ok());
    assert_eq!(
        registry.heartbeat(START, "p", from(1)),
        Err(RegistryError::Unsigned)
    );
}

#[test]
fn one_source_cannot_lock_others_out() {
    let mut registry = registry(RegistryLimits {
        per_source: 100,
        local: 250,
        ..RegistryLimits::default()
    });
    let one = |n: usize| agent(&format!("fake-{n}"), &[skill("s", &[])]);
    let refused = (0..4096)
        .filter(|n| registry.register(START, one(*n), from(1)).is_err())
        .count();
    assert_eq!(refused, 3996);
    let error = registry
        .register(START, one(5000), from(1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("from one address") && error.contains("100"),
        "{error}"
    );
    // What it has it may renew; others, and its own neighbours who sign, are let in.
    registry.register(START, one(1), from(1)).unwrap();
    registry
        .register(START, agent("honest", &[skill("s", &[])]), from(2))
        .unwrap();
    registry
        .register(START, agent("signer", &[skill("s", &[])]), signed(1))
        .unwrap();
    registry.unregister(START, "fake-1", &[], from(1)).unwrap();
    registry.register(START, one(6000), from(1)).unwrap();
    // Full is full, for everybody, until something expires.
    for n in 0..98 {
        registry
            .register(START, agent(&format!("h{n}"), &[skill("s", &[])]), from(3))
            .unwrap();
    }
    for n in 0..50 {
        registry
            .register(START, agent(&format!("i{n}"), &[skill("s", &[])]), from(4))
            .unwrap();
    }
    let full = registry
        .register(START, agent("late", &[skill("s", &[])]), from(5))
        .unwrap_err();
    assert!(
        full.to_string().contains("entries of this registry: 250"),
        "{full}"
    );
    registry
        .register(START + 30 * SECOND, agent("late", &[skill("s", &[])]), from(5))
        .unwrap();
    assert_eq!(registry.evicted(), 250);
}

#[test]
fn an_answer_is_bounded_in_number_and_bytes() {
    let limits = RegistryLimits {
        per_source: 5000,
        source_bytes: 64 << 20,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    for n in 0..1500 {
        registry
            .register(START, agent(&format!("p{n}"), &[skill("s", &[])]), from(1))
            .unwrap();
    }
    for (limit, expected) in [(-1, 100), (0, 100), (1, 1), (101, 101), (i32::MAX, 1000)] {
        assert_eq!(ask(&registry, START, "s", &[], limit, false).len(), expected);
    }
    let long = SkillInfo {
        description: "x".repeat(4096),
        ..skill("long", &[])
    };
    let skills: Vec<_> = (0..200)
        .map(|n| SkillInfo {
            skill_id: format!("l{n}"),
            ..long.clone()
        })
        .collect();
    for n in 0..10 {
        registry
            .register(START, agent(&format!("l{n}"), &skills), from(1))
            .unwrap();
    }
    let found = ask(&registry, START, "l7", &[], 10, false);
    let bytes: usize = found.iter().map(SkillRegistration::encoded_len).sum();
    assert!(
        found.len() >= 3 && bytes <= MAX_ANSWER,
        "{} agents, {bytes} bytes",
        found.len()
    );
    let many: Vec<_> = (0..256)
        .map(|n| SkillInfo {
            skill_id: format!("m{n}"),
            ..long.clone()
        })
        .collect();
    let error = registry
        .register(START, agent("m", &many), from(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("bytes of one agent"), "{error}");
}

#[test]
fn a_crowd_from_one_source_hides_nobody() {
    let mut registry = registry(RegistryLimits::default());
    let same = |n: usize| agent(&format!("fake-{n}"), &[skill("s", &[])]);
    for signs in [false, true] {
        let caller = |last, ms| if signs { signed(ms) } else { from(last) };
        for n in 0..1000 {
            registry.register(START, same(n), caller(1, 1)).unwrap();
        }
        let honest = RegistryCaller {
            source: from(2).source,
            ..caller(2, 1)
        };
        registry
            .register(START, agent("honest", &[skill("s", &[])]), honest.clone())
            .unwrap();
        // They are ever so fresh, and register ever again.
        let later = START + 20 * SECOND;
        for n in 0..1000 {
            registry
                .heartbeat(later, &format!("fake-{n}"), caller(1, 2))
                .unwrap();
            registry.register(later, same(n), caller(1, 3)).unwrap();
        }
        let found = ask(&registry, later, "s", &[], 5, true);
        assert!(peers(&found).contains(&"honest"), "{found:?}");
        // It stays what it was when it has come back to where it stood.
        registry
            .register(later, agent("honest", &[skill("s", &[])]), honest)
            .unwrap();
        assert!(peers(&ask(&registry, later, "s", &[], 5, true)).contains(&"honest"));
    }
}

#[test]
fn ties_are_shuffled() {
    let mut registry = registry(RegistryLimits::default());
    for n in 0..10 {
        registry
            .register(START, agent(&format!("p{n}"), &[skill("s", &[])]), from(n))
            .unwrap();
    }
    let none = BTreeMap::new();
    let query = Query {
        skill: "s",
        tags: &none,
        limit: 1,
        federated: false,
    };
    let firsts: std::collections::BTreeSet<_> = (0..300)
        .flat_map(|seed| discovered(&registry, START, &query, seed))
        .map(|agent| agent.peer_id)
        .collect();
    assert_eq!(firsts.len(), 10);
}

#[test]
fn a_life_is_of_passed_time_whatever_the_clock_shows() {
    for set in [-7200_i64, 0, 7200] {
        let at = |seconds: u64| Now {
            passed: START + seconds * SECOND,
            wall: (START + seconds * SECOND).saturating_add_signed(set * 1_000_000_000),
        };
        let mut registry = registry(RegistryLimits::default());
        let said = agent("p", &[skill("s", &[])]);
        registry.register(START, said, from(1)).unwrap();
        // The clock is set now.
        assert_eq!(ask(&registry, at(29), "s", &[], 0, false).len(), 1, "{set} s");
        assert!(ask(&registry, at(30), "s", &[], 0, false).is_empty(), "{set} s");
        let until = registry.heartbeat(at(20), "p", from(1)).unwrap();
        assert_eq!(until, at(50).wall, "{set} s");
        let found = ask(&registry, at(49), "s", &[], 0, false);
        assert_eq!(found[0].expires_at, Some(timestamp(until)), "{set} s");
        let told = registry.changes(
            at(40),
            0,
            9,
            ChangesReader {
                relay: "b",
                everything: true,
            },
        );
        assert_eq!(told.records[0].remaining_ms, 10_000, "{set} s");
        assert_eq!(registry.expire(at(49), 9), 0, "{set} s");
        assert_eq!(registry.expire(at(50), 9), 1, "{set} s");
    }
}
