//! What comes in from other relays is clamped, and each attempt to poison the table comes to nothing.

use super::*;

#[test]
fn the_last_writer_wins_for_each_peer_and_origin() {
    let mut registry = registry(RegistryLimits::default());
    assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(MergeOutcome::Added));
    assert_eq!(
        registry.merge(START, told("p", "b", 5)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(registry.merge(START, told("p", "c", 1)), Ok(MergeOutcome::Added));
    assert_eq!(registry.stats().federated, 2);
    // One peer, one line.
    assert_eq!(ask(&registry, START, "s", &[], 0, true).len(), 1);
    let over = RemoteRecord {
        over: true,
        ..told("p", "b", 6)
    };
    assert_eq!(registry.merge(START, over), Ok(MergeOutcome::Added));
    assert_eq!(
        registry.merge(START, told("p", "b", 5)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(registry.stats().federated, 1);
}

#[test]
fn who_has_lost_what_it_told_is_told_of_it_once() {
    let mut registry = registry(RegistryLimits::default());
    let by = |via: &str, version: u64, over: bool| RemoteRecord {
        via: Some(via.into()),
        over,
        ..told("p", "origin", version)
    };
    registry.merge(START, by("b", 9, true)).unwrap();
    let read = |registry: &SkillRegistry, relay: &str| page(registry, START, relay).records.len();
    assert_eq!((read(&registry, "b"), read(&registry, "c")), (0, 1));
    // Others may be behind; they are told anyway.
    assert_eq!(
        registry.merge(START, by("c", 5, false)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(
        registry.merge(START, by("b", 9, true)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(read(&registry, "b"), 0);
    let stranger = RemoteRecord {
        source: from(1).source,
        ..by("b", 5, false)
    };
    assert_eq!(registry.merge(START, stranger), Ok(MergeOutcome::Unchanged));
    let cursor = page(&registry, START, "c").cursor;
    assert_eq!(
        registry.merge(START, by("b", 5, false)),
        Ok(MergeOutcome::ToSendBack)
    );
    assert_eq!((read(&registry, "b"), read(&registry, "c")), (1, 1));
    let reader = ChangesReader {
        relay: "b",
        everything: false,
    };
    assert_eq!(registry.changes(START, cursor, 10, reader).records.len(), 1);
    assert_eq!(
        registry.merge(START, by("b", 5, false)),
        Ok(MergeOutcome::Unchanged)
    );
}

/// Deployed relays ask from a time, and do not say of which life of ours.
#[test]
fn who_asks_from_a_time_to_come_is_told_everything_once() {
    let mut registry = registry(RegistryLimits::default());
    registry.merge(START, told("p", "origin", 9)).unwrap();
    let reader = ChangesReader {
        relay: "deployed",
        everything: false,
    };
    let minute = 60_000_000_000;
    let ahead = START + 10 * minute;
    let page = registry.changes(START, ahead, 10, reader);
    assert_eq!(page.records.len(), 1);
    assert!(page.cursor <= START + minute, "{}", page.cursor);
    let after = registry.changes(START, page.cursor, 10, reader);
    assert_eq!((after.records.len(), after.cursor), (0, page.cursor));
    registry.merge(START, told("q", "origin", 9)).unwrap();
    assert_eq!(registry.changes(START, page.cursor, 10, reader).records.len(), 1);
    // What is ahead by no more than clocks are is taken as it is.
    assert!(
        registry
            .changes(START, START + minute, 10, reader)
            .records
            .is_empty()
    );
}

#[test]
fn a_life_is_clamped_to_twice_ours() {
    let mut registry = registry(RegistryLimits::default());
    let endless = RemoteRecord {
        life: u64::MAX,
        ..told("p", "b", 5)
    };
    registry.merge(START, endless).unwrap();
    let found = ask(&registry, START, "s", &[], 0, true);
    assert_eq!(found[0].expires_at, Some(timestamp(START + 60 * SECOND)));
    assert!(ask(&registry, START + 60 * SECOND, "s", &[], 0, true).is_empty());
    let past = RemoteRecord {
        life: 0,
        ..told("q", "b", 5)
    };
    assert!(matches!(
        registry.merge(START, past),
        Err(RegistryError::Invalid(_))
    ));
}

#[test]
fn a_long_life_does_not_make_fresher_than_now() {
    let mut registry = registry(RegistryLimits::default());
    registry
        .merge(
            START,
            RemoteRecord {
                life: u64::MAX,
                ..told("boaster", "b", 5)
            },
        )
        .unwrap();
    registry.merge(START + 2 * SECOND, told("p", "b", 5)).unwrap();
    let found = ask(&registry, START + 2 * SECOND, "s", &[], 0, true);
    assert_eq!(peers(&found), ["p", "boaster"]);
}

#[test]
fn a_version_from_the_future_is_clamped_and_believed_for_a_minute_only() {
    let mut registry = registry(RegistryLimits::default());
    registry.merge(START, told("p", "b", u64::MAX)).unwrap();
    let told_on = &page(&registry, START, "c").records[0];
    assert_eq!(told_on.version, START + 60 * SECOND);
    assert_eq!(
        registry.merge(START + SECOND, told("p", "b", START + SECOND)),
        Ok(MergeOutcome::Unchanged)
    );
    registry.expire(START + 60 * SECOND, 10);
    let later = START + 61 * SECOND;
    assert_eq!(
        registry.merge(later, told("p", "b", later)),
        Ok(MergeOutcome::Added)
    );
    // Our own clock has not been carried away.
    assert!(registry.last_version() <= START + 121 * SECOND);
}

#[test]
fn nobody_speaks_for_us() {
    let mut registry = registry(RegistryLimits::default());
    let forged = told("p", "relay-a", START + 100 * SECOND);
    assert_eq!(
        registry.merge(START, forged.clone()),
        Err(RegistryError::NotFound("p".into()))
    );
    registry
        .register(START, agent("p", &[skill("true", &[])]), from(1))
        .unwrap();
    let told_of_us = |registry: &SkillRegistry| {
        let told = page(registry, START, "b").records[0].clone();
        (
            told.version.max(told.claimed_version),
            told.skills[0].skill_id.clone(),
        )
    };
    let newer = RemoteRecord {
        version: told_of_us(&registry).0 + 50 * SECOND,
        ..forged
    };
    assert_eq!(registry.merge(START, newer.clone()), Ok(MergeOutcome::Corrected));
    assert_eq!(ask(&registry, START, "true", &[], 0, true).len(), 1);
    let (version, skill) = told_of_us(&registry);
    assert!(version > newer.version && skill == "true");
    // Nor that it is over.
    let over = RemoteRecord {
        over: true,
        version: version + 50 * SECOND,
        ..newer
    };
    assert_eq!(registry.merge(START, over), Ok(MergeOutcome::Corrected));
    assert_eq!(ask(&registry, START, "true", &[], 0, true).len(), 1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut registry = registry(RegistryLimits::default());
    let long = "x".repeat(257);
    let wrong = [
        told("", "b", 1),
        told("p", "", 1),
        told("p", &long, 1),
        told(&long, "b", 1),
        RemoteRecord {
            agent: agent("p", &[]),
            ..told("p", "b", 1)
        },
        RemoteRecord {
            agent: agent("p", &[skill(&long, &[])]),
            ..told("p", "b", 1)
        },
        RemoteRecord {
            agent: agent(&long, &[]),
            over: true,
            ..told("p", "b", 1)
        },
    ];
    for incoming in wrong {
        assert!(registry.merge(START, incoming.clone()).is_err(), "{incoming:?}");
    }
    assert_eq!(registry.stats(), RegistryStats::default());
    let mut strict = super::registry(RegistryLimits {
        signed_only: true,
        ..RegistryLimits::default()
    });
    assert_eq!(
        strict.merge(START, told("p", "b", 1)),
        Err(RegistryError::Unsigned)
    );
    assert!(
        strict
            .merge(
                START,
                RemoteRecord {
                    proven_ms: 1,
                    ..told("p", "b", 1)
                }
            )
            .is_ok()
    );
}

#[test]
fn what_is_proven_elsewhere_is_not_claimed_here() {
    let mut registry = registry(RegistryLimits::default());
    registry
        .merge(
            START,
            RemoteRecord {
                proven_ms: 7,
                ..told("p", "b", 1)
            },
        )
        .unwrap();
    let outcome = registry.register(START, agent("p", &[skill("s", &[])]), from(1));
    assert_eq!(outcome, Err(RegistryError::Denied("p".into())));
    // Nor outdone by a record without proof, whatever its version.
    assert_eq!(
        registry.merge(START, told("p", "b", START)),
        Ok(MergeOutcome::Unchanged)
    );
    let over = RemoteRecord {
        over: true,
        ..told("p", "b", START)
    };
    assert_eq!(registry.merge(START, over), Ok(MergeOutcome::Unchanged));
}

#[test]
fn a_reader_gets_everything_once_and_nothing_it_said_itself() {
    let mut registry = registry(RegistryLimits::default());
    for n in 0..25 {
        registry
            .register(START, agent(&format!("p{n}"), &[skill("s", &[])]), from(1))
            .unwrap();
    }
    registry
        .merge(
            START,
            RemoteRecord {
                via: Some("b".into()),
                ..told("q", "b", 1)
            },
        )
        .unwrap();
    registry
        .merge(
            START,
            RemoteRecord {
                via: Some("b".into()),
                ..told("r", "c", 1)
            },
        )
        .unwrap();
    registry.unregister(START, "p3", &[], from(1)).unwrap();
    let read = |relay: &str, everything| {
        let (mut cursor, mut told) = (0, Vec::new());
        loop {
            let page = registry.changes(START, cursor, 7, ChangesReader { relay, everything });
            assert!(page.records.len() <= 7 && (page.cursor > cursor || !page.more));
            cursor = page.cursor;
            told.extend(page.records);
            if !page.more {
                return told;
            }
        }
    };
    assert_eq!(read("c", false).len(), 27);
    assert_eq!(read("", false).len(), 27);
    assert_eq!(read("b", false).len(), 25);
    assert_eq!(read("b", true).len(), 27);
    let over: Vec<_> = read("c", false)
        .into_iter()
        .filter(|told| told.tombstone)
        .collect();
    assert_eq!(over.len(), 1);
    assert!(over[0].remaining_ms > 200_000 && over[0].skills.is_empty());
}

#[test]
fn what_is_kept_on_disk_comes_back() {
    let mut before = registry(RegistryLimits::default());
    before
        .register(START, agent("p", &[skill("s", &[("a", "b")])]), from(1))
        .unwrap();
    before
        .register(START, agent("q", &[skill("s", &[])]), from(1))
        .unwrap();
    before.unregister(START, "q", &[], from(1)).unwrap();
    let mut after = registry(RegistryLimits::default());
    let later = START + 5 * SECOND;
    for peer in ["p", "q"] {
        let kept = before.stored(START, peer).unwrap();
        let read = RemoteRecord::from_registration(
            kept.registration.clone(),
            later,
            RegistryLimits::default().ttl,
            RecordSender::default(),
        );
        after.restore(later, read, &kept).unwrap();
    }
    for (share, held) in before.table.sources.each() {
        assert_eq!(
            after.table.sources.get(share),
            held,
            "whoever registered pays after it too"
        );
    }
    let found = ask(&after, later, "s", &[("a", "b")], 0, false);
    assert_eq!(peers(&found), ["p"]);
    assert_eq!(found[0].expires_at, Some(timestamp(START + 30 * SECOND)));
    assert!(after.last_version() >= before.last_version());
    assert_eq!(
        after.heartbeat(later, "q", from(1)),
        Err(RegistryError::NotFound("q".into()))
    );
}

#[test]
fn a_crowd_at_one_relay_hides_nobody_of_another() {
    let relay = |id: &str| SkillRegistry::new(id, RegistryLimits::default(), HybridClock::default());
    let mut relays = ["relay-a", "relay-b", "relay-c"].map(relay);
    let register = |registry: &mut SkillRegistry, peer: &str| {
        let agent = agent(peer, &[skill("s", &[])]);
        registry.register(START, agent, signed(1)).unwrap();
    };
    for n in 0..200 {
        register(&mut relays[0], &format!("fake-{n}"));
    }
    register(&mut relays[1], "honest");
    let [a, b, c] = &mut relays;
    hear(a, b);
    hear(b, a);
    // One hop further on.
    hear(c, b);
    for registry in &relays {
        for _ in 0..20 {
            let found = ask(registry, START, "s", &[], 16, true);
            assert!(peers(&found[..5]).contains(&"honest"), "{found:?}");
        }
    }
    // A relay's own crowd comes before another one's, and after its restart it is one again.
    let kept = relays[0].stored(START, "fake-199").unwrap();
    assert_eq!(kept.registration.crowd, 3);
    let mut again = relay("relay-a");
    let restored = RemoteRecord::from_registration(
        kept.registration.clone(),
        START,
        again.limits().ttl,
        RecordSender::default(),
    );
    again.restore(START, restored, &kept).unwrap();
    assert_eq!(again.stored(START, "fake-199").unwrap().registration.crowd, 3);
}

#[test]
fn nobody_was_registered_later_than_now() {
    let mut registry = registry(RegistryLimits::default());
    let ahead = RemoteRecord {
        registered: START + 3600 * SECOND,
        ..told("p", "b", 1)
    };
    registry.merge(START, ahead).unwrap();
    let found = ask(&registry, START, "s", &[], 0, true);
    assert_eq!(found[0].registered_at, Some(timestamp(START)));
}

#[test]
fn a_clock_that_was_set_back_before_a_restart_gives_one_life() {
    let mut before = registry(RegistryLimits::default());
    let said = agent("p", &[skill("s", &[])]);
    before.register(START, said, from(1)).unwrap();
    let kept = before.stored(START, "p").unwrap();
    let ttl = RegistryLimits::default().ttl;
    for (hours, live) in [(-1, true), (1, false)] {
        let mut after = registry(RegistryLimits::default());
        let now = Now {
            passed: 5 * SECOND,
            wall: START.saturating_add_signed(hours * 3_600_000_000_000),
        };
        let read = RemoteRecord::from_registration(
            kept.registration.clone(),
            now.wall,
            ttl,
            RecordSender::default(),
        );
        assert_eq!(after.restore(now, read, &kept).is_ok(), live, "{hours} h");
        let at = |seconds: u64| Now {
            passed: now.passed + seconds * SECOND,
            ..now
        };
        assert_eq!(
            !ask(&after, at(29), "s", &[], 0, false).is_empty(),
            live,
            "{hours} h"
        );
        assert!(ask(&after, at(30), "s", &[], 0, false).is_empty(), "{hours} h");
    }
}
