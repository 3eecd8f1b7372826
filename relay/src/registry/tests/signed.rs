//! What a peer has signed counts in the order in which it signed, whatever order it comes in.

use super::*;

const NOW_MS: u64 = START / 1_000_000;

fn outdated(outcome: &Result<(), Refused>, signed_ms: u64, stood_ms: u64) {
    let peer = "p".to_owned();
    let expected = Refused::Outdated {
        peer,
        signed_ms,
        stood_ms,
    };
    assert_eq!(outcome, &Err(expected));
}

fn register(registry: &mut Registry, now: Nanos, skill_id: &str, time_ms: u64) -> Result<(), Refused> {
    registry
        .register(now, agent("p", &[skill(skill_id, &[])]), signed(time_ms))
        .map(|_| ())
}

#[test]
fn what_was_signed_before_is_refused() {
    let mut registry = registry(Limits::default());
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
        let limits = Limits {
            ttl: Duration::from_secs(ttl),
            ..Limits::default()
        };
        let mut registry = registry(limits.clone());
        register(&mut registry, START, "s", NOW_MS).unwrap();
        registry
            .unregister(START, "p", &[], signed(NOW_MS + 60_000))
            .unwrap();
        let kept = registry.stored("p").unwrap();
        // For as long as the clock lets it count.
        let last = START + 118 * SECOND;
        let mut again = Registry::new("relay-a", limits, Clock::default());
        let restored = Incoming {
            agent: agent("p", &[]),
            origin: "relay-a".into(),
            version: kept.told.version,
            life: kept.told.expires_at.map_or(0, nanos_of).saturating_sub(START),
            over: true,
            proven_ms: NOW_MS + 60_000,
            ..Incoming::default()
        };
        again.restore(START, restored, &kept).unwrap();
        for registry in [&mut registry, &mut again] {
            registry.expire(last, usize::MAX);
            let older = register(registry, last, "s", NOW_MS + 59_000);
            outdated(&older, NOW_MS + 59_000, NOW_MS + 60_000);
        }
    }
}

#[test]
fn what_has_expired_is_not_renewed_by_what_was_signed_before_it() {
    let mut registry = registry(Limits::default());
    register(&mut registry, START, "s", NOW_MS + 50_000).unwrap();
    let later = START + 40 * SECOND;
    assert_eq!(registry.expire(later, usize::MAX), 1);
    let older = register(&mut registry, later, "s", NOW_MS + 40_000);
    outdated(&older, NOW_MS + 40_000, NOW_MS + 50_000);
    // Then nothing older can come.
    registry.expire(START + 110 * SECOND, usize::MAX);
    assert_eq!(registry.figures(), Figures::default());
}
