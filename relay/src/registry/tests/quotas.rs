//! What each source, origin and table may hold, in entries and in bytes; and that whoever leaves always can.

use proptest::{collection::vec, prelude::*};

use super::{usage::is_pushed, *};

/// An agent whose answer has about so many bytes.
fn large(peer: &str, bytes: usize) -> RegisteredAgent {
    RegisteredAgent {
        description: "x".repeat(bytes),
        ..agent(peer, &[skill("s", &[])])
    }
}

fn proof_of(method: &str, request: usize, time_ms: u64) -> RegistryProof {
    RegistryProof {
        method: method.into(),
        request: vec![0; request],
        signature: vec![0; 64],
        time_ms,
    }
}

fn proven(proof: RegistryProof) -> RegistryCaller {
    RegistryCaller {
        proof: Some(proof),
        ..from(1)
    }
}

#[test]
fn bytes_of_one_source_are_bounded_and_leave_others_room() {
    let limits = RegistryLimits {
        source_bytes: 20_000,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    let fit = |registry: &mut SkillRegistry, name: &str, last: u8| {
        let one = |n: usize| large(&format!("{name}{n}"), 4000);
        (0..100)
            .take_while(|n| registry.register(START, one(*n), from(last)).is_ok())
            .count()
    };
    let count = fit(&mut registry, "a", 1);
    assert!((3..=4).contains(&count), "{count}");
    let error = registry
        .register(START, large("more", 4000), from(1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("bytes of all entries from one address without signature: 20000"),
        "{error}"
    );
    // Others have theirs, and so have those at the same address who sign.
    assert_eq!(fit(&mut registry, "b", 2), count);
    registry
        .register(START, large("signer", 4000), signed(1))
        .unwrap();
    // What it has it may renew, and replace by what is no larger, but not by more.
    registry.register(START, large("a0", 4000), from(1)).unwrap();
    registry.heartbeat(START, "a1", from(1)).unwrap();
    registry.register(START, large("a0", 10), from(1)).unwrap();
    registry.register(START, large("again", 3000), from(1)).unwrap();
    registry.register(START, large("a0", 4000), from(1)).unwrap_err();
}

#[test]
fn a_replacement_counts_once() {
    let limits = RegistryLimits {
        local_bytes: 12_000,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    for peer in ["p", "q"] {
        registry.register(START, large(peer, 4000), from(1)).unwrap();
    }
    for _ in 0..3 {
        registry.register(START, large("p", 4000), from(1)).unwrap();
    }
    let error = registry
        .register(START, large("r", 4000), from(2))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("bytes of all entries of this registry: 12000"),
        "{error}"
    );
}

#[test]
fn tags_count_as_what_they_take() {
    let limits = RegistryLimits {
        source_bytes: 64 << 10,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    let tags: Vec<String> = (0..32).map(|n| n.to_string()).collect();
    let tags: Vec<(&str, &str)> = tags.iter().map(|tag| (tag.as_str(), "")).collect();
    let skills: Vec<_> = (0..16).map(|n| skill(&n.to_string(), &tags)).collect();
    // A few KiB of text, and 544 places in the index.
    let refused = registry
        .register(START, agent("p", &skills), from(1))
        .unwrap_err();
    assert!(refused.to_string().contains("bytes of all entries"), "{refused}");
    registry
        .register(START, agent("p", &skills[..8]), from(1))
        .unwrap();
}

#[test]
fn a_signed_heartbeat_is_brief() {
    let mut registry = registry(RegistryLimits::default());
    let own = agent("p", &[skill("s", &[])]);
    registry
        .register(START, own, proven(proof_of(REGISTER, 100, 1)))
        .unwrap();
    let before = registry.stats().bytes;
    for padded in [HEARTBEAT, UNREGISTER] {
        let caller = proven(proof_of(padded, 1000, 2));
        let refused = match padded {
            HEARTBEAT => registry.heartbeat(START, "p", caller).map(drop),
            _ => registry.unregister(START, "p", &[], caller),
        };
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("512 at most"), "{refused}");
    }
    registry
        .heartbeat(START, "p", proven(proof_of(HEARTBEAT, 100, 3)))
        .unwrap();
    assert_eq!(registry.stats().bytes, before, "a heartbeat takes no room");
    registry
        .unregister(START, "p", &[], proven(proof_of(UNREGISTER, 100, 4)))
        .unwrap();
    assert_eq!(registry.stats().local, 0);
}

#[test]
fn whoever_leaves_is_gone_everywhere_when_everything_is_full() {
    let limits = RegistryLimits {
        local: 20,
        federated: 20,
        per_source: 20,
        per_origin: 20,
        ..RegistryLimits::default()
    };
    let (mut here, mut there) = (
        registry(limits.clone()),
        SkillRegistry::new("relay-b", limits.clone(), HybridClock::default()),
    );
    let tell = |here: &SkillRegistry, there: &mut SkillRegistry| {
        let reader = ChangesReader {
            relay: "relay-b",
            everything: false,
        };
        for told in here.changes(START, 0, 1000, reader).records {
            let told = RemoteRecord::from_registration(told, START, limits.ttl, RecordSender::default());
            there.merge(START, told).unwrap();
        }
    };
    let one = |n: usize| agent(&format!("p{n}"), &[skill("s", &[])]);
    // Full of entries, and of those that have ended, on both.
    for n in 0..40 {
        if n >= 20 {
            here.unregister(START, &format!("p{}", n - 20), &[], from(1))
                .unwrap();
        }
        here.register(START, one(n), from(1)).unwrap();
        tell(&here, &mut there);
    }
    let refused = here.register(START, one(40), from(1)).unwrap_err().to_string();
    assert!(refused.contains("entries of this registry: 20"), "{refused}");
    for n in 20..40 {
        here.unregister(START, &format!("p{n}"), &[], from(1)).unwrap();
    }
    tell(&here, &mut there);
    assert!(ask(&there, START, "s", &[], 0, true).is_empty());
    assert_eq!(there.stats().over, 40);
    // Nobody comes in the place of a tombstone but whom it speaks of, until it is forgotten.
    let refused = here.register(START, one(50), from(1)).unwrap_err().to_string();
    assert!(
        refused.contains("those that have ended of late among them: 40"),
        "{refused}"
    );
    here.register(START, one(0), from(1)).unwrap();
    here.register(START + 300 * SECOND, one(50), from(1)).unwrap();
}

#[test]
fn tombstones_of_strangers_have_a_share() {
    let limits = RegistryLimits {
        per_origin: 10,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    let over = |n: usize, last: u8, proofs: Vec<RegistryProof>| RemoteRecord {
        agent: agent(&format!("p{n}"), &[]),
        origin: format!("origin-{n}"),
        version: 1,
        life: 300 * SECOND,
        over: true,
        proven_ms: u64::from(!proofs.is_empty()),
        proofs,
        source: from(last).source,
        ..RemoteRecord::default()
    };
    let taken = |registry: &mut SkillRegistry, names: std::ops::Range<usize>, last: u8| {
        names
            .filter(|n| registry.merge(START, over(*n, last, Vec::new())).is_ok())
            .count()
    };
    assert_eq!(taken(&mut registry, 0..50, 1), 20);
    assert_eq!(taken(&mut registry, 50..60, 2), 10);
    let refused = registry
        .merge(START, over(99, 1, Vec::new()))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("entries pushed from one address"), "{refused}");
    // Nor are they large.
    let refused = registry.merge(START, over(100, 3, vec![proof_of(UNREGISTER, 1000, 1)]));
    assert!(refused.unwrap_err().to_string().contains("512 at most"));
    let chain = vec![proof_of(REGISTER, 600_000, 1), proof_of(UNREGISTER, 600_000, 2)];
    let refused = registry
        .merge(START, over(100, 3, chain))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("signed registration: 1048576"), "{refused}");
    // What lives for a moment only is remembered for longer, in the share of who brought it.
    let brief = |n: usize| RemoteRecord {
        life: 1,
        ..told_by_stranger(n)
    };
    let mut now = START;
    let taken = (0..50)
        .filter(|n| {
            now += 2;
            registry.merge(now, brief(*n)).is_ok()
        })
        .count();
    assert_eq!(taken, 20);
}

fn told_by_stranger(n: usize) -> RemoteRecord {
    RemoteRecord {
        agent: agent(&format!("q{n}"), &[skill("s", &[])]),
        origin: format!("elsewhere-{n}"),
        version: 1,
        life: 30 * SECOND,
        source: from(4).source,
        ..RemoteRecord::default()
    }
}

#[test]
fn a_page_ends_before_a_record_that_does_not_fit() {
    let mut registry = registry(RegistryLimits {
        source_bytes: 1 << 30,
        ..RegistryLimits::default()
    });
    let skills: Vec<_> = (0..240)
        .map(|n| SkillInfo {
            description: "x".repeat(4000),
            ..skill(&n.to_string(), &[])
        })
        .collect();
    for n in 0..12 {
        let caller = RegistryCaller {
            proof: Some(proof_of(REGISTER, if n % 3 == 0 { 1_000_000 } else { 100 }, 1)),
            ..from(n)
        };
        registry
            .register(START, agent(&format!("p{n}"), &skills), caller)
            .unwrap();
    }
    // Small ones with many parts.
    let tags: Vec<String> = (0..32).map(|n| n.to_string()).collect();
    let tags: Vec<(&str, &str)> = tags.iter().map(|tag| (tag.as_str(), "")).collect();
    let many: Vec<_> = (0..256).map(|n| skill(&n.to_string(), &tags)).collect();
    for n in 0..60 {
        registry
            .register(START, agent(&format!("m{n}"), &many), from(n))
            .unwrap();
    }
    let (mut cursor, mut told) = (0, Vec::new());
    loop {
        let reader = ChangesReader {
            relay: "b",
            everything: false,
        };
        let page = registry.changes(START, cursor, 1000, reader);
        assert!(page.cursor > cursor, "each page gets on");
        cursor = page.cursor;
        let request = agentanycast_proto::v1::PushRegistrationsRequest {
            relay_id: "b".into(),
            registrations: page.records,
        };
        let bytes = request.encode_to_vec();
        assert!(bytes.len() <= (3 << 20) + 10_000, "{}", bytes.len());
        let kind = agentanycast_proto::decoded_size::MessageKind::Registrations;
        agentanycast_proto::decoded_size::elements(kind, &bytes, 200_010).unwrap();
        told.extend(request.registrations);
        if !page.more {
            break;
        }
    }
    assert_eq!(told.len(), 72);
}

#[derive(Clone, Debug)]
enum QuotaStep {
    Register(u8, usize, bool, u8),
    Unregister(u8, bool),
    Heartbeat(u8, bool),
    FromRelay {
        peer: u8,
        origin: u8,
        version: u8,
        over: bool,
        life: u64,
        source: Option<u8>,
    },
    Wait(u64),
}

fn step() -> impl Strategy<Value = QuotaStep> {
    let (peer, source) = (0..12_u8, 0..3_u8);
    prop_oneof![
        4 => (peer.clone(), 0..3000_usize, any::<bool>(), source.clone())
            .prop_map(|(peer, bytes, proof, source)| QuotaStep::Register(peer, bytes, proof, source)),
        2 => (peer.clone(), any::<bool>()).prop_map(|(peer, proof)| QuotaStep::Unregister(peer, proof)),
        1 => (peer.clone(), any::<bool>()).prop_map(|(peer, proof)| QuotaStep::Heartbeat(peer, proof)),
        5 => (peer, 0..3_u8, 0..9_u8, any::<bool>(), 1..60_u64, prop::option::of(source))
            .prop_map(|(peer, origin, version, over, life, source)| QuotaStep::FromRelay { peer, origin, version, over, life, source }),
        1 => (1..40_u64).prop_map(QuotaStep::Wait),
    ]
}

proptest! {
    /// Whatever comes: no share is above its bound, every count is what counting gives, and whoever is registered can
    /// be taken off.
    #[test]
    fn no_share_is_exceeded_and_everybody_can_leave(steps in vec(step(), 0..120)) {
        let limits = RegistryLimits {
            local: 6, federated: 8, per_source: 4, per_origin: 5,
            local_bytes: 12_000, federated_bytes: 14_000, source_bytes: 8000, origin_bytes: 9000,
            ..RegistryLimits::default()
        };
        let mut registry = registry(limits.clone());
        let mut now = START;
        for step in steps {
            now += 1;
            match step {
                QuotaStep::Register(peer, bytes, proof, source) => {
                    let caller = RegistryCaller { proof: proof.then(|| proof_of(REGISTER, 50, now)), ..from(source) };
                    let _ = registry.register(now, large(&peer.to_string(), bytes), caller);
                }
                QuotaStep::Unregister(peer, proof) => {
                    let caller = RegistryCaller { proof: proof.then(|| proof_of(UNREGISTER, 50, now)), ..from(1) };
                    let outcome = registry.unregister(now, &peer.to_string(), &[], caller);
                    prop_assert!(matches!(outcome, Ok(()) | Err(RegistryError::Denied(_))), "{outcome:?}");
                    let left = registry.own(&peer.to_string()).is_some_and(|record| record.is_live(now));
                    prop_assert_eq!(left, outcome.is_err());
                }
                QuotaStep::Heartbeat(peer, proof) => {
                    let caller = RegistryCaller { proof: proof.then(|| proof_of(HEARTBEAT, 50, now)), ..from(1) };
                    let outcome = registry.heartbeat(now, &peer.to_string(), caller);
                    prop_assert!(!matches!(outcome, Err(RegistryError::Limit { .. })), "{outcome:?}");
                }
                QuotaStep::FromRelay { peer, origin, version, over, life, source } => {
                    let (peer, origin) = (peer.to_string(), format!("o{origin}"));
                    let there = registry.table.find(&peer, &origin).is_some();
                    let outcome = registry.merge(now, RemoteRecord {
                        agent: large(&peer, usize::from(version) * 300),
                        origin,
                        version: START + u64::from(version),
                        life: life * SECOND,
                        over,
                        source: source.and_then(|last| from(last).source),
                        ..RemoteRecord::default()
                    });
                    // There is room for the end of what is here always.
                    prop_assert!(!(there && over && matches!(outcome, Err(RegistryError::Limit { .. }))), "{outcome:?}");
                }
                QuotaStep::Wait(seconds) => now += seconds * SECOND,
            }
            check_shares(&registry, &limits)?;
        }
        registry.expire(now + 3600 * SECOND, usize::MAX);
        registry.expire(now + 7200 * SECOND, usize::MAX);
        prop_assert_eq!(registry.stats(), RegistryStats::default());
        prop_assert!(registry.table.sources.is_empty() && registry.table.origins.is_empty());
    }
}

fn check_shares(registry: &SkillRegistry, limits: &RegistryLimits) -> Result<(), TestCaseError> {
    let records: Vec<&RegistryRecord> = registry.table.changes(0).collect();
    let sum = |of: &dyn Fn(&RegistryRecord) -> bool| {
        let mut held = RecordUsage::default();
        for record in records.iter().filter(|record| of(record)) {
            held.add(record.usage());
        }
        held
    };
    let within = |held: RecordUsage, entries: usize, bytes: usize| {
        held.live <= entries && held.records() <= 2 * entries && held.bytes <= bytes
    };
    let local = sum(&|record| record.origin == registry.me);
    let federated = sum(&|record| record.origin != registry.me);
    prop_assert_eq!(
        (local, federated),
        (registry.table.local, registry.table.federated)
    );
    prop_assert!(within(local, limits.local, limits.local_bytes), "{local:?}");
    prop_assert!(
        within(federated, limits.federated, limits.federated_bytes),
        "{federated:?}"
    );
    let strangers = sum(&|record| is_pushed(record.source));
    prop_assert_eq!(strangers, registry.table.strangers);
    prop_assert!(
        within(strangers, limits.strangers(), limits.stranger_bytes()),
        "{strangers:?}"
    );
    for record in &records {
        let held = sum(&|other| other.origin == record.origin && !is_pushed(other.source));
        if record.origin != registry.me {
            prop_assert_eq!(held, registry.table.origins.get(&*record.origin));
            prop_assert!(within(held, limits.per_origin, limits.origin_bytes), "{held:?}");
        }
        if let Some(source) = record.source {
            let held = sum(&|other| other.source == Some(source));
            prop_assert_eq!(held, registry.table.sources.get(&source));
            let (entries, bytes) = match source.1 {
                ShareKind::Pushed => (limits.per_origin, limits.origin_bytes),
                ShareKind::Verified | ShareKind::Unverified => (limits.per_source, limits.source_bytes),
            };
            prop_assert!(within(held, entries, bytes), "{held:?}");
        }
    }
    Ok(())
}
