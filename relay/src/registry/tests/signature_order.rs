//! What a peer has signed counts in the order in which it signed, whatever order it comes in.

use agentanycast_identity::{Keypair, peer_id};

use super::*;

const NOW_MS: u64 = START / 1_000_000;

fn outdated(outcome: &Result<(), RegistryError>, signed_ms: u64, stood_ms: u64) {
    let peer = "p".to_owned();
    let expected = RegistryError::Outdated {
        peer,
        signed_ms,
        stood_ms,
    };
    assert_eq!(outcome, &Err(expected));
}

fn register(
    registry: &mut SkillRegistry,
    now: Nanos,
    skill_id: &str,
    time_ms: u64,
) -> Result<(), RegistryError> {
    registry
        .register(now, agent("p", &[skill(skill_id, &[])]), signed(time_ms))
        .map(|_| ())
}

#[test]
fn what_was_signed_before_is_refused() {
    let mut registry = registry(RegistryLimits::default());
    register(&mut registry, START, "new", NOW_MS + 50_000).unwrap();
    let older = register(&mut registry, START, "old", NOW_MS + 49_999);
    outdated(&older, NOW_MS + 49_999, NOW_MS + 50_000);
    let older = registry.heartbeat(START, "p", signed(NOW_MS)).map(|_| ());
    outdated(&older, NOW_MS, NOW_MS + 50_000);
    let older = registry.unregister(START, "p", &[], signed(NOW_MS));
    outdated(&older, NOW_MS, NOW_MS + 50_000);
    assert_eq!(ask(&registry, START, "new", &[], 0, false).len(), 1);
    // Of one millisecond several may be.
    registry.heartbeat(START, "p", signed(NOW_MS + 50_000)).unwrap();
    register(&mut registry, START, "newer", NOW_MS + 50_001).unwrap();
    assert_eq!(ask(&registry, START, "newer", &[], 0, false).len(), 1);
}

#[test]
fn the_end_of_one_is_not_undone_by_what_was_signed_before_it() {
    for ttl in [1, 30] {
        let limits = RegistryLimits {
            ttl: Duration::from_secs(ttl),
            ..RegistryLimits::default()
        };
        let mut registry = registry(limits.clone());
        register(&mut registry, START, "s", NOW_MS).unwrap();
        registry
            .unregister(START, "p", &[], signed(NOW_MS + 300_000))
            .unwrap();
        let kept = registry.stored(START, "p").unwrap();
        // For as long as the clock lets it count.
        let last = START + 598 * SECOND;
        let mut again = SkillRegistry::new("relay-a", limits, HybridClock::default());
        let restored = RemoteRecord {
            agent: agent("p", &[]),
            origin: "relay-a".into(),
            version: kept.registration.version,
            life: kept
                .registration
                .expires_at
                .map_or(0, nanos_of)
                .saturating_sub(START),
            over: true,
            proven_ms: NOW_MS + 300_000,
            ..RemoteRecord::default()
        };
        again.restore(START, restored, &kept).unwrap();
        for registry in [&mut registry, &mut again] {
            registry.expire(last, usize::MAX);
            let older = register(registry, last, "s", NOW_MS + 299_000);
            outdated(&older, NOW_MS + 299_000, NOW_MS + 300_000);
        }
    }
}

#[test]
fn what_has_expired_is_not_renewed_by_what_was_signed_before_it() {
    let mut registry = registry(RegistryLimits::default());
    register(&mut registry, START, "s", NOW_MS + 50_000).unwrap();
    let later = START + 40 * SECOND;
    assert_eq!(registry.expire(later, usize::MAX), 1);
    let older = register(&mut registry, later, "s", NOW_MS + 40_000);
    outdated(&older, NOW_MS + 40_000, NOW_MS + 50_000);
    // Then nothing older can come.
    registry.expire(START + 630 * SECOND, usize::MAX);
    assert_eq!(registry.stats(), RegistryStats::default());
}

#[test]
fn what_was_signed_while_a_clock_was_wrong_does_not_hold_up_what_a_right_one_signs() {
    const HOUR_MS: u64 = 3_600_000;
    let mut registry = registry(RegistryLimits::default());
    let at = |seconds: u64, ahead_ms: u64| Now {
        passed: START + seconds * SECOND,
        wall: START + seconds * SECOND + ahead_ms * 1_000_000,
    };
    let one = || agent("p", &[skill("s", &[])]);
    registry
        .register(at(0, HOUR_MS), one(), signed(NOW_MS + HOUR_MS))
        .unwrap();
    registry
        .heartbeat(at(10, HOUR_MS), "p", signed(NOW_MS + HOUR_MS + 10_000))
        .unwrap();
    // Both clocks are right again.
    registry
        .heartbeat(at(20, 0), "p", signed(NOW_MS + 20_000))
        .unwrap();
    let older = registry
        .heartbeat(at(21, 0), "p", signed(NOW_MS + 19_000))
        .map(|_| ());
    outdated(&older, NOW_MS + 19_000, NOW_MS + 20_000);
    registry
        .unregister(at(30, 0), "p", &[], signed(NOW_MS + 30_000))
        .unwrap();
    let older = registry
        .register(at(31, 0), one(), signed(NOW_MS + 29_000))
        .map(|_| ());
    outdated(&older, NOW_MS + 29_000, NOW_MS + 30_000);
    registry
        .register(at(32, 0), one(), signed(NOW_MS + 32_000))
        .unwrap();

    // The same of an entry that has expired meanwhile.
    registry
        .register(at(40, HOUR_MS), one(), signed(NOW_MS + HOUR_MS + 40_000))
        .unwrap();
    registry.expire(at(90, 0), usize::MAX);
    registry
        .register(at(90, 0), one(), signed(NOW_MS + 90_000))
        .unwrap();
}

/// A registration of a peer that it has signed, when, at that registry.
fn really_signed(registry: &mut SkillRegistry, key: &Keypair, time_ms: u64) {
    let peer = peer_id(key).to_string();
    let agent = agent(&peer, &[skill("s", &[])]);
    let request = agentanycast_proto::v1::RegisterSkillsRequest {
        peer_id: peer,
        skills: agent.skills.clone(),
        ..Default::default()
    };
    let request = request.encode_to_vec();
    let statement = agentanycast_identity::proof::Statement {
        method: REGISTER,
        request: &request,
        relay: "relay-a",
        time_ms,
    };
    let proof = RegistryProof {
        method: REGISTER.into(),
        signature: statement.sign(key).unwrap(),
        request,
        time_ms,
    };
    let caller = RegistryCaller {
        proof: Some(proof),
        ..from(1)
    };
    registry.register(START, agent, caller).unwrap();
}

/// What `from` knows, told to `to`.
fn tell(from: &SkillRegistry, to: &mut SkillRegistry, now: Nanos) {
    let reader = ChangesReader {
        relay: "",
        everything: true,
    };
    for told in from.changes(now, 0, 1000, reader).records {
        let via = "relay-a".into();
        let by = RecordSender {
            via: Some(&via),
            ..RecordSender::default()
        };
        let incoming = RemoteRecord::from_registration(told, now, RegistryLimits::default().ttl, by);
        let _ = to.merge(now, incoming);
    }
}

#[test]
fn another_key_ends_what_the_old_one_registered_wherever_it_is_known() {
    let [old, new] = [(); 2].map(|()| Keypair::generate_ed25519());
    let id = peer_id(&old).to_string();
    let moved = |at_ms: u64| Rotation::sign(&old, &new, at_ms).unwrap();
    // When the key was changed, against what it signed last; whether others hear of it.
    for (at_ms, heard) in [
        (NOW_MS + 1, true),
        (NOW_MS, true),
        (NOW_MS + 300_000, true),
        // It has signed since, or will have to sign too far ahead to come back.
        (NOW_MS - 1, false),
        (NOW_MS + 301_000, false),
    ] {
        let mut here = registry(RegistryLimits::default());
        let [mut there, mut further] = ["relay-b", "relay-c"]
            .map(|me| SkillRegistry::new(me, RegistryLimits::default(), HybridClock::default()));
        really_signed(&mut here, &old, NOW_MS);
        tell(&here, &mut there, START);
        tell(&there, &mut further, START);
        assert_eq!(ask(&further, START, "s", &[], 0, true).len(), 1);
        here.supersede(START, &moved(at_ms)).unwrap();
        assert!(ask(&here, START, "s", &[], 0, true).is_empty());
        // Also from a relay that was started anew since.
        let kept = here.stored(START, &id).unwrap();
        let mut again = registry(RegistryLimits::default());
        let read = RemoteRecord::from_registration(
            kept.registration.clone(),
            START,
            RegistryLimits::default().ttl,
            RecordSender::default(),
        );
        again.restore(START, read, &kept).unwrap();
        tell(&again, &mut there, START);
        tell(&there, &mut further, START);
        for other in [&there, &further] {
            let known = ask(other, START, "s", &[], 0, true).len();
            assert_eq!(known, usize::from(!heard), "changed at {at_ms}");
        }
        let before = here.heartbeat(START, &id, signed(NOW_MS - 1)).map(|_| ());
        assert!(
            matches!(before, Err(RegistryError::Outdated { .. })),
            "{before:?}"
        );
        // The old key comes back by what it signs later.
        really_signed(&mut here, &old, at_ms + 1);
        tell(&here, &mut further, START);
        assert_eq!(ask(&further, START, "s", &[], 0, true).len(), 1);
    }
}

#[test]
fn another_key_also_ends_what_nobody_has_signed() {
    let [old, new] = [(); 2].map(|()| Keypair::generate_ed25519());
    let id = peer_id(&old).to_string();
    let (mut here, mut there) = (
        registry(RegistryLimits::default()),
        SkillRegistry::new("relay-b", RegistryLimits::default(), HybridClock::default()),
    );
    here.register(START, agent(&id, &[skill("s", &[])]), from(1))
        .unwrap();
    tell(&here, &mut there, START);
    here.supersede(START, &Rotation::sign(&old, &new, NOW_MS).unwrap())
        .unwrap();
    tell(&here, &mut there, START);
    assert!(ask(&there, START, "s", &[], 0, true).is_empty());
    let unknown = Rotation::sign(&new, &old, NOW_MS).unwrap();
    here.supersede(START, &unknown).unwrap();
    assert_eq!(
        here.stats().over,
        1,
        "of whom it does not know it remembers nothing"
    );
}
