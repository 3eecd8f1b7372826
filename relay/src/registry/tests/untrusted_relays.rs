//! What a relay says that this one was not told of: it has a share of its own, and hides nobody that others speak for.

use agentanycast_proto::v1::FederatedRegistration;

use super::*;

fn by_stranger(incoming: RemoteRecord) -> RemoteRecord {
    RemoteRecord {
        via: Some("nobody".into()),
        source: from(9).source,
        ..incoming
    }
}

fn is_listed(registry: &SkillRegistry, peer: &str) -> bool {
    let found = ask(registry, START, "s", &[], 0, true);
    peers(&found).contains(&peer)
}

#[test]
fn one_origin_and_one_stranger_have_a_quota() {
    let limits = RegistryLimits {
        per_origin: 10,
        federated: 35,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    let taken = |registry: &mut SkillRegistry, origin: &str, source: Option<u8>| {
        let source = source.and_then(|last| from(last).source);
        let one = |n: usize| RemoteRecord {
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
    let limits = RegistryLimits {
        per_origin: 10,
        federated: 40,
        ..RegistryLimits::default()
    };
    let mut registry = registry(limits);
    for n in 0..10 {
        let one = RemoteRecord {
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
fn no_stranger_says_how_crowded_it_is_somewhere() {
    let mut registry = registry(RegistryLimits::default());
    let by_stranger = |peer: &str, crowd| RemoteRecord {
        crowd,
        source: from(9).source,
        ..told(peer, "b", 5)
    };
    registry.merge(START, by_stranger("demoted", 5)).unwrap();
    let crowd_of = |registry: &SkillRegistry, peer: &str| {
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
    let vouched = RemoteRecord {
        crowd: 1,
        ..told("p69", "b", 5)
    };
    assert_eq!(registry.merge(START, vouched.clone()), Ok(MergeOutcome::Added));
    assert_eq!(crowd_of(&registry, "p69"), 1);
    assert_eq!(registry.merge(START, vouched), Ok(MergeOutcome::Unchanged));
    assert_eq!(
        registry.merge(START, by_stranger("p69", 5)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(crowd_of(&registry, "p69"), 1);
}

#[test]
fn no_stranger_changes_what_a_relay_of_our_choice_has_said() {
    let mut registry = registry(RegistryLimits::default());
    registry.merge(START, told("p", "b", 5)).unwrap();
    let over = |version| RemoteRecord {
        over: true,
        ..told("p", "b", version)
    };
    let refused = Err(RegistryError::UntrustedRelay("p".into()));
    assert_eq!(registry.merge(START, by_stranger(over(1 << 63))), refused);
    assert_eq!(registry.merge(START, by_stranger(told("p", "b", 6))), refused);
    assert_eq!(
        registry.merge(START, by_stranger(told("p", "b", 5))),
        Ok(MergeOutcome::Unchanged)
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
    let mut registry = registry(RegistryLimits::default());
    let over = |version| RemoteRecord {
        over: true,
        ..told("p", "b", version)
    };
    for first in [over(1 << 63), told("p", "b", 1 << 63)] {
        registry.merge(START, by_stranger(first)).unwrap();
        assert_eq!(registry.merge(START, told("p", "b", 5)), Ok(MergeOutcome::Added));
        assert!(is_listed(&registry, "p"));
        // And what its relays say is in their order again, an end too.
        registry.merge(START, over(7)).unwrap();
        assert_eq!(
            registry.merge(START, told("p", "b", 6)),
            Ok(MergeOutcome::Unchanged)
        );
        assert!(!is_listed(&registry, "p"));
        registry = super::registry(RegistryLimits::default());
    }
    // What the peer has signed later is not taken back by what it has not.
    let proven = |proven_ms, version| RemoteRecord {
        proven_ms,
        ..told("p", "b", version)
    };
    registry.merge(START, by_stranger(proven(9, 1))).unwrap();
    assert_eq!(
        registry.merge(START, told("p", "b", 5)),
        Ok(MergeOutcome::Unchanged)
    );
    assert_eq!(registry.merge(START, proven(8, 5)), Ok(MergeOutcome::Unchanged));
}

#[test]
fn a_stranger_brings_what_a_peer_has_signed_later_but_no_other_crowd() {
    let mut registry = registry(RegistryLimits::default());
    let proven = |proven_ms, version| RemoteRecord {
        proven_ms,
        crowd: 3,
        ..told("p", "b", version)
    };
    let crowd = |registry: &SkillRegistry| page(registry, START, "").records[0].crowd;
    registry.merge(START, proven(5, 1)).unwrap();
    let again = RemoteRecord {
        crowd: 0,
        ..by_stranger(proven(5, 2))
    };
    let refused = Err(RegistryError::UntrustedRelay("p".into()));
    assert_eq!(registry.merge(START, again), refused);
    assert_eq!(crowd(&registry), 3);
    let later = RemoteRecord {
        crowd: 0,
        ..by_stranger(proven(6, 2))
    };
    assert_eq!(registry.merge(START, later), Ok(MergeOutcome::Added));
    assert_eq!(crowd(&registry), 3);
    // The peer may also end it so.
    registry.merge(START, proven(7, 3)).unwrap();
    let over = RemoteRecord {
        over: true,
        ..by_stranger(proven(8, 4))
    };
    assert_eq!(registry.merge(START, over), Ok(MergeOutcome::Added));
    assert!(!is_listed(&registry, "p"));
}

#[test]
fn a_strangers_word_stays_one_however_many_pass_it_on() {
    let relay = |id: &str| {
        let limits = RegistryLimits {
            per_origin: 10,
            ..RegistryLimits::default()
        };
        SkillRegistry::new(id, limits, HybridClock::default())
    };
    let [mut near, mut far, mut farther] = ["near", "far", "farther"].map(relay);
    far.merge(START, told("known", "b", 5)).unwrap();
    for (peer, version) in [("known", 1 << 40), ("fake", 1 << 40), ("q1", 1), ("q2", 1)] {
        near.merge(START, by_stranger(told(peer, "b", version))).unwrap();
    }
    near.merge(START, told("own", "c", 1)).unwrap();
    let fake_is_hearsay = |registry: &SkillRegistry| {
        let told = page(registry, START, "").records;
        let hearsay = told.iter().filter(|told| told.hearsay);
        let hearsay: Vec<_> = hearsay.map(|told| told.peer_id.as_str()).collect();
        assert!(!hearsay.contains(&"own"), "{hearsay:?}");
        hearsay.contains(&"fake")
    };
    assert!(fake_is_hearsay(&near));
    // It does not change what a relay of our choice knows of its own.
    hear(&mut far, &near);
    let known = page(&far, START, "").records;
    let known = known.iter().find(|told| told.peer_id == "known").unwrap();
    assert_eq!((known.version, known.hearsay), (5, false));
    // It takes nothing of the share of the relay that is named, and gives way to what that says.
    assert!(fake_is_hearsay(&far));
    for n in 0..8 {
        far.merge(START, told(&format!("true{n}"), "b", 1)).unwrap();
    }
    hear(&mut farther, &far);
    assert!(fake_is_hearsay(&farther));
    assert_eq!(
        farther.merge(START, told("fake", "b", 5)),
        Ok(MergeOutcome::Added)
    );
    assert!(!fake_is_hearsay(&farther));
    // A stranger cannot make its own word anything else.
    let said = RemoteRecord {
        is_untrusted: true,
        ..told("fake", "b", 5)
    };
    assert_eq!(said.source, None);
    let told = FederatedRegistration {
        peer_id: "p".into(),
        ..FederatedRegistration::default()
    };
    for hearsay in [false, true] {
        let told = FederatedRegistration {
            hearsay,
            ..told.clone()
        };
        let stranger = RecordSender {
            source: from(7).source,
            ..RecordSender::default()
        };
        let read = RemoteRecord::from_registration(told, START, far.limits().ttl, stranger);
        assert!(read.source.is_some() && !read.is_untrusted);
    }
}
