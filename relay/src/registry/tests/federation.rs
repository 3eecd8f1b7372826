//! What comes in from other relays is clamped, and each attempt to poison the table comes to nothing.

use super::*;
use crate::federation::record;

fn told(peer: &str, origin: &str, version: u64) -> Incoming {
    Incoming {
        agent: agent(peer, &[skill("s", &[])]),
        origin: origin.into(),
        version,
        registered: START,
        life: 30 * SECOND,
        ..Incoming::default()
    }
}

fn page(registry: &Registry, now: Nanos, relay: &str) -> Page {
    let reader = Reader {
        relay,
        everything: false,
    };
    registry.changes(now, 0, 1000, reader)
}

#[test]
fn the_last_writer_wins_for_each_peer_and_origin() {
    let mut registry = registry(Limits::default());
    assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(Merged::Taken));
    assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(Merged::Known));
    assert_eq!(registry.merge(START, told("p", "c", 1)), Ok(Merged::Taken));
    assert_eq!(registry.figures().federated, 2);
    // One peer, one line.
    assert_eq!(ask(&registry, START, "s", &[], 0, true).len(), 1);
    let over = Incoming {
        over: true,
        ..told("p", "b", 6)
    };
    assert_eq!(registry.merge(START, over), Ok(Merged::Taken));
    assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(Merged::Known));
    assert_eq!(registry.figures().federated, 1);
}

#[test]
fn who_has_lost_what_it_told_is_told_of_it_once() {
    let mut registry = registry(Limits::default());
    let by = |via: &str, version: u64, over: bool| Incoming {
        via: Some(via.into()),
        over,
        ..told("p", "origin", version)
    };
    registry.merge(START, by("b", 9, true)).unwrap();
    let read = |registry: &Registry, relay: &str| page(registry, START, relay).records.len();
    assert_eq!((read(&registry, "b"), read(&registry, "c")), (0, 1));
    // Others may be behind; they are told anyway.
    assert_eq!(registry.merge(START, by("c", 5, false)), Ok(Merged::Known));
    assert_eq!(registry.merge(START, by("b", 9, true)), Ok(Merged::Known));
    assert_eq!(read(&registry, "b"), 0);
    let stranger = Incoming {
        source: from(1).source,
        ..by("b", 5, false)
    };
    assert_eq!(registry.merge(START, stranger), Ok(Merged::Known));
    let cursor = page(&registry, START, "c").cursor;
    assert_eq!(registry.merge(START, by("b", 5, false)), Ok(Merged::Retold));
    assert_eq!((read(&registry, "b"), read(&registry, "c")), (1, 1));
    let reader = Reader {
        relay: "b",
        everything: false,
    };
    assert_eq!(registry.changes(START, cursor, 10, reader).records.len(), 1);
    assert_eq!(registry.merge(START, by("b", 5, false)), Ok(Merged::Known));
}

#[test]
fn a_life_is_clamped_to_twice_ours() {
    let mut registry = registry(Limits::default());
    let endless = Incoming {
        life: u64::MAX,
        ..told("p", "b", 5)
    };
    registry.merge(START, endless).unwrap();
    let found = ask(&registry, START, "s", &[], 0, true);
    assert_eq!(found[0].expires_at, Some(timestamp(START + 60 * SECOND)));
    assert!(ask(&registry, START + 60 * SECOND, "s", &[], 0, true).is_empty());
    let past = Incoming {
        life: 0,
        ..told("q", "b", 5)
    };
    assert!(matches!(registry.merge(START, past), Err(Refused::Invalid(_))));
}

#[test]
fn a_long_life_does_not_make_fresher_than_now() {
    let mut registry = registry(Limits::default());
    registry
        .merge(
            START,
            Incoming {
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
    let mut registry = registry(Limits::default());
    registry.merge(START, told("p", "b", u64::MAX)).unwrap();
    let told_on = &page(&registry, START, "c").records[0];
    assert_eq!(told_on.version, START + 60 * SECOND);
    assert_eq!(
        registry.merge(START + SECOND, told("p", "b", START + SECOND)),
        Ok(Merged::Known)
    );
    registry.expire(START + 60 * SECOND, 10);
    let later = START + 61 * SECOND;
    assert_eq!(registry.merge(later, told("p", "b", later)), Ok(Merged::Taken));
    // Our own clock has not been carried away.
    assert!(registry.last_version() <= START + 121 * SECOND);
}

#[test]
fn nobody_speaks_for_us() {
    let mut registry = registry(Limits::default());
    let forged = told("p", "relay-a", START + 100 * SECOND);
    assert_eq!(
        registry.merge(START, forged.clone()),
        Err(Refused::NotFound("p".into()))
    );
    registry
        .register(START, agent("p", &[skill("true", &[])]), from(1))
        .unwrap();
    let told_of_us = |registry: &Registry| {
        let told = page(registry, START, "b").records[0].clone();
        (
            told.version.max(told.claimed_version),
            told.skills[0].skill_id.clone(),
        )
    };
    let newer = Incoming {
        version: told_of_us(&registry).0 + 50 * SECOND,
        ..forged
    };
    assert_eq!(registry.merge(START, newer.clone()), Ok(Merged::Corrected));
    assert_eq!(ask(&registry, START, "true", &[], 0, true).len(), 1);
    let (version, skill) = told_of_us(&registry);
    assert!(version > newer.version && skill == "true");
    // Nor that it is over.
    let over = Incoming {
        over: true,
        version: version + 50 * SECOND,
        ..newer
    };
    assert_eq!(registry.merge(START, over), Ok(Merged::Corrected));
    assert_eq!(ask(&registry, START, "true", &[], 0, true).len(), 1);
}

#[test]
fn one_origin_and_one_stranger_have_a_quota() {
    let limits = Limits {
        per_origin: 10,
        federated: 35,
        ..Limits::default()
    };
    let mut registry = registry(limits);
    let taken = |registry: &mut Registry, origin: &str, source: Option<u8>| {
        let source = source.and_then(|last| from(last).source);
        let one = |n: usize| Incoming {
            source,
            ..told(&format!("{origin}{n}"), origin, 1)
        };
        (0..20).filter(|n| registry.merge(START, one(*n)).is_ok()).count()
    };
    assert_eq!(taken(&mut registry, "b", None), 10);
    // A stranger who invents origins.
    assert_eq!(taken(&mut registry, "c", Some(1)), 10);
    assert_eq!(taken(&mut registry, "d", Some(1)), 0);
    // All of them have half of the table.
    assert_eq!(taken(&mut registry, "e", Some(2)), 7);
    assert_eq!(taken(&mut registry, "f", None), 8);
    let error = registry
        .merge(START, told("late", "g", 1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("entries of other relays: 35"), "{error}");
    // Local entries have room of their own.
    registry
        .register(START, agent("p", &[skill("s", &[])]), from(3))
        .unwrap();
}

#[test]
fn a_stranger_takes_nothing_of_the_share_of_the_origin_that_it_names() {
    let limits = Limits {
        per_origin: 10,
        federated: 40,
        ..Limits::default()
    };
    let mut registry = registry(limits);
    for n in 0..10 {
        let one = Incoming {
            source: from(1).source,
            ..told(&format!("fake{n}"), "b", 1)
        };
        registry.merge(START, one).unwrap();
    }
    for n in 0..10 {
        registry.merge(START, told(&format!("true{n}"), "b", 1)).unwrap();
    }
    // What its own relay says of an agent takes its place in that relay's share again.
    let renewed = registry.merge(START, told("fake0", "b", 2)).unwrap_err();
    assert!(renewed.to_string().contains("one origin relay: 10"), "{renewed}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut registry = registry(Limits::default());
    let long = "x".repeat(257);
    let wrong = [
        told("", "b", 1),
        told("p", "", 1),
        told("p", &long, 1),
        told(&long, "b", 1),
        Incoming {
            agent: agent("p", &[]),
            ..told("p", "b", 1)
        },
        Incoming {
            agent: agent("p", &[skill(&long, &[])]),
            ..told("p", "b", 1)
        },
        Incoming {
            agent: agent(&long, &[]),
            over: true,
            ..told("p", "b", 1)
        },
    ];
    for incoming in wrong {
        assert!(registry.merge(START, incoming.clone()).is_err(), "{incoming:?}");
    }
    assert_eq!(registry.figures(), Figures::default());
    let mut strict = super::registry(Limits {
        signed_only: true,
        ..Limits::default()
    });
    assert_eq!(strict.merge(START, told("p", "b", 1)), Err(Refused::Unsigned));
    assert!(
        strict
            .merge(
                START,
                Incoming {
                    proven_ms: 1,
                    ..told("p", "b", 1)
                }
            )
            .is_ok()
    );
}

#[test]
fn what_is_proven_elsewhere_is_not_claimed_here() {
    let mut registry = registry(Limits::default());
    registry
        .merge(
            START,
            Incoming {
                proven_ms: 7,
                ..told("p", "b", 1)
            },
        )
        .unwrap();
    let outcome = registry.register(START, agent("p", &[skill("s", &[])]), from(1));
    assert_eq!(outcome, Err(Refused::Denied("p".into())));
    // Nor outdone by a record without proof, whatever its version.
    assert_eq!(registry.merge(START, told("p", "b", START)), Ok(Merged::Known));
    let over = Incoming {
        over: true,
        ..told("p", "b", START)
    };
    assert_eq!(registry.merge(START, over), Ok(Merged::Known));
}

#[test]
fn a_reader_gets_everything_once_and_nothing_it_said_itself() {
    let mut registry = registry(Limits::default());
    for n in 0..25 {
        registry
            .register(START, agent(&format!("p{n}"), &[skill("s", &[])]), from(1))
            .unwrap();
    }
    registry
        .merge(
            START,
            Incoming {
                via: Some("b".into()),
                ..told("q", "b", 1)
            },
        )
        .unwrap();
    registry
        .merge(
            START,
            Incoming {
                via: Some("b".into()),
                ..told("r", "c", 1)
            },
        )
        .unwrap();
    registry.unregister(START, "p3", &[], from(1)).unwrap();
    let read = |relay: &str, everything| {
        let (mut cursor, mut told) = (0, Vec::new());
        loop {
            let page = registry.changes(START, cursor, 7, Reader { relay, everything });
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
    let mut before = registry(Limits::default());
    before
        .register(START, agent("p", &[skill("s", &[("a", "b")])]), from(1))
        .unwrap();
    before
        .register(START, agent("q", &[skill("s", &[])]), from(1))
        .unwrap();
    before.unregister(START, "q", &[], from(1)).unwrap();
    let mut after = registry(Limits::default());
    let later = START + 5 * SECOND;
    for peer in ["p", "q"] {
        let kept = before.stored(peer).unwrap();
        let read =
            crate::federation::record::read(kept.told.clone(), later, Limits::default().ttl, None, None);
        after.restore(later, read, &kept).unwrap();
    }
    for (share, held) in before.table.sources.each() {
        assert_eq!(
            after.table.sources.of(share),
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
        Err(Refused::NotFound("q".into()))
    );
}

/// All that one relay knows, told to another one as a relay of its choice tells it.
fn hear(to: &mut Registry, by: &Registry) {
    for told in page(by, START, "").records {
        let proven_ms = told.proofs.last().map_or(0, |proof| proof.time_ms);
        let proofs = told.proofs.clone();
        let incoming = record::read(told, START, to.limits().ttl, Some(&"b".into()), None);
        let proven = Incoming {
            proven_ms,
            proofs,
            ..incoming
        };
        to.merge(START, proven).unwrap();
    }
}

#[test]
fn a_crowd_at_one_relay_hides_nobody_of_another() {
    let relay = |id: &str| Registry::new(id, Limits::default(), Clock::default());
    let mut relays = ["relay-a", "relay-b", "relay-c"].map(relay);
    let register = |registry: &mut Registry, peer: &str| {
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
    let kept = relays[0].stored("fake-199").unwrap();
    assert_eq!(kept.told.crowd, 3);
    let mut again = relay("relay-a");
    let restored = record::read(kept.told.clone(), START, again.limits().ttl, None, None);
    again.restore(START, restored, &kept).unwrap();
    assert_eq!(again.stored("fake-199").unwrap().told.crowd, 3);
}

#[test]
fn no_stranger_says_how_crowded_it_is_somewhere() {
    let mut registry = registry(Limits::default());
    let by_stranger = |peer: &str, crowd| Incoming {
        crowd,
        source: from(9).source,
        ..told(peer, "b", 5)
    };
    registry.merge(START, by_stranger("demoted", 5)).unwrap();
    let crowd_of = |registry: &Registry, peer: &str| {
        let records = page(registry, START, "").records;
        records
            .into_iter()
            .find(|told| told.peer_id == peer)
            .unwrap()
            .crowd
    };
    assert_eq!(crowd_of(&registry, "demoted"), 0);
    for n in 0..70 {
        registry.merge(START, by_stranger(&format!("p{n}"), 0)).unwrap();
    }
    assert_eq!(crowd_of(&registry, "p69"), 3);
    // Nor does it keep what a relay of our choice says.
    let vouched = Incoming {
        crowd: 1,
        ..told("p69", "b", 5)
    };
    assert_eq!(registry.merge(START, vouched.clone()), Ok(Merged::Taken));
    assert_eq!(crowd_of(&registry, "p69"), 1);
    assert_eq!(registry.merge(START, vouched), Ok(Merged::Known));
    assert_eq!(registry.merge(START, by_stranger("p69", 5)), Ok(Merged::Known));
    assert_eq!(crowd_of(&registry, "p69"), 1);
}

fn by_stranger(incoming: Incoming) -> Incoming {
    Incoming {
        via: Some("nobody".into()),
        source: from(9).source,
        ..incoming
    }
}

fn is_listed(registry: &Registry, peer: &str) -> bool {
    let found = ask(registry, START, "s", &[], 0, true);
    peers(&found).contains(&peer)
}

#[test]
fn no_stranger_changes_what_a_relay_of_our_choice_has_said() {
    let mut registry = registry(Limits::default());
    registry.merge(START, told("p", "b", 5)).unwrap();
    let over = |version| Incoming {
        over: true,
        ..told("p", "b", version)
    };
    let refused = Err(Refused::Stranger("p".into()));
    assert_eq!(registry.merge(START, by_stranger(over(1 << 63))), refused);
    assert_eq!(registry.merge(START, by_stranger(told("p", "b", 6))), refused);
    assert_eq!(
        registry.merge(START, by_stranger(told("p", "b", 5))),
        Ok(Merged::Known)
    );
    assert!(is_listed(&registry, "p"));
    // Nor that it is over: it comes back when its relay says so, and at once.
    registry.merge(START, over(7)).unwrap();
    assert_eq!(registry.merge(START, by_stranger(over(1 << 63))), refused);
    assert_eq!(registry.merge(START, by_stranger(told("p", "b", 8))), refused);
    assert!(!is_listed(&registry, "p"));
    registry.merge(START, told("p", "b", 9)).unwrap();
    assert!(is_listed(&registry, "p"));
}

#[test]
fn a_stranger_who_comes_first_hides_nobody() {
    let mut registry = registry(Limits::default());
    let over = |version| Incoming {
        over: true,
        ..told("p", "b", version)
    };
    for first in [over(1 << 63), told("p", "b", 1 << 63)] {
        registry.merge(START, by_stranger(first)).unwrap();
        assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(Merged::Taken));
        assert!(is_listed(&registry, "p"));
        // And what its relays say is in their order again, an end too.
        registry.merge(START, over(7)).unwrap();
        assert_eq!(registry.merge(START, told("p", "b", 6)), Ok(Merged::Known));
        assert!(!is_listed(&registry, "p"));
        registry = super::registry(Limits::default());
    }
    // What the peer has signed later is not taken back by what it has not.
    let proven = |proven_ms, version| Incoming {
        proven_ms,
        ..told("p", "b", version)
    };
    registry.merge(START, by_stranger(proven(9, 1))).unwrap();
    assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(Merged::Known));
    assert_eq!(registry.merge(START, proven(8, 5)), Ok(Merged::Known));
}

#[test]
fn a_stranger_brings_what_a_peer_has_signed_later_but_no_other_crowd() {
    let mut registry = registry(Limits::default());
    let proven = |proven_ms, version| Incoming {
        proven_ms,
        crowd: 3,
        ..told("p", "b", version)
    };
    let crowd = |registry: &Registry| page(registry, START, "").records[0].crowd;
    registry.merge(START, proven(5, 1)).unwrap();
    let again = Incoming {
        crowd: 0,
        ..by_stranger(proven(5, 2))
    };
    let refused = Err(Refused::Stranger("p".into()));
    assert_eq!(registry.merge(START, again), refused);
    assert_eq!(crowd(&registry), 3);
    let later = Incoming {
        crowd: 0,
        ..by_stranger(proven(6, 2))
    };
    assert_eq!(registry.merge(START, later), Ok(Merged::Taken));
    assert_eq!(crowd(&registry), 3);
    // The peer may also end it so.
    registry.merge(START, proven(7, 3)).unwrap();
    let over = Incoming {
        over: true,
        ..by_stranger(proven(8, 4))
    };
    assert_eq!(registry.merge(START, over), Ok(Merged::Taken));
    assert!(!is_listed(&registry, "p"));
}

#[test]
fn nobody_was_registered_later_than_now() {
    let mut registry = registry(Limits::default());
    let ahead = Incoming {
        registered: START + 3600 * SECOND,
        ..told("p", "b", 1)
    };
    registry.merge(START, ahead).unwrap();
    let found = ask(&registry, START, "s", &[], 0, true);
    assert_eq!(found[0].registered_at, Some(timestamp(START)));
}
