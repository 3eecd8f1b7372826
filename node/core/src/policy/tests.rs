use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    grants::{GrantedAgents, PeerGrant},
    limits::ReachedBound,
    *,
};

mod access;

fn peer(number: u8) -> PeerId {
    let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    bytes.extend([number; 32]);
    PeerId::from_bytes(&bytes).unwrap()
}

fn rule(source: &str, skill: &str, allow: bool) -> WrittenRule {
    WrittenRule {
        source: source.into(),
        skill: skill.into(),
        agent: "*".to_owned(),
        allow,
    }
}

fn policy(settings: &WrittenRules) -> Policy {
    Policy::new(PolicyRules::parse(settings).unwrap())
}

fn ask(policy: &mut Policy, source: TaskSource<'_>, skill: &str) -> Decision {
    policy.decide(Duration::from_secs(9), source, skill, SourceUsage::default(), 0)
}

fn allows(policy: &mut Policy, source: TaskSource<'_>, skill: &str) -> bool {
    ask(policy, source, skill).outcome == PolicyOutcome::Allow
}

#[test]
fn nothing_written_is_open() {
    let mut open = policy(&WrittenRules::default());
    assert!(open.rules().is_open());
    let all = [
        TaskSource::Peer(peer(1)),
        TaskSource::Bridge("http:a"),
        TaskSource::Local,
    ];
    for source in all {
        let decision = ask(&mut open, source, "x");
        assert_eq!(
            (decision.outcome, decision.reason),
            (PolicyOutcome::Allow, DecisionReason::NoRules)
        );
    }
}

#[test]
fn every_name_of_a_source_counts() {
    let did = did_key_of(peer(2)).unwrap();
    let mut policy = policy(&WrittenRules {
        groups: BTreeMap::from([("ops".to_owned(), vec![peer(3).to_string(), "http:o*".to_owned()])]),
        acl: vec![
            rule("ops", "admin/*", true),
            rule("*", "admin/*", false),
            rule(&peer(1).to_string(), "*", true),
            rule(&format!("{}*", &did[..did.len() - 2]), "*", true),
            rule("did:web:example.org:*", "*", true),
            rule("http:alice", "*", true),
            rule("local", "*", true),
        ],
        ..WrittenRules::default()
    });
    for (source, skill, by) in [
        (TaskSource::Peer(peer(3)), "admin/x", DecisionReason::Rule(1)),
        (TaskSource::Bridge("a2a:olga"), "admin/x", DecisionReason::Rule(1)),
        (TaskSource::Peer(peer(1)), "admin/x", DecisionReason::Rule(2)),
        (TaskSource::Local, "admin/x", DecisionReason::Rule(2)),
        (TaskSource::Peer(peer(1)), "", DecisionReason::Rule(3)),
        (TaskSource::Peer(peer(2)), "echo", DecisionReason::Rule(4)),
        (TaskSource::Bridge("mcp:alice"), "echo", DecisionReason::Rule(6)),
        (TaskSource::Local, "echo", DecisionReason::Rule(7)),
        (TaskSource::Bridge("http:local"), "echo", DecisionReason::NoMatch),
        (TaskSource::Peer(peer(4)), "echo", DecisionReason::NoMatch),
    ] {
        let decision = ask(&mut policy, source, skill);
        let expected = if matches!(by, DecisionReason::Rule(2) | DecisionReason::NoMatch) {
            PolicyOutcome::Deny
        } else {
            PolicyOutcome::Allow
        };
        assert_eq!(
            (decision.outcome, decision.reason),
            (expected, by),
            "{source:?} {skill}"
        );
    }
    // A name of the web counts once it is proven, and not before.
    let standing = PeerAttributes {
        names: vec!["did:web:example.org:agents:a".into()],
        ..PeerAttributes::default()
    };
    policy.set_attributes(peer(4), standing);
    assert_eq!(
        ask(&mut policy, TaskSource::Peer(peer(4)), "echo").reason,
        DecisionReason::Rule(5)
    );
}

#[test]
fn trust_is_asked_first_and_of_peers_only() {
    let settings = |trust, trusted: &[String]| WrittenRules {
        trust,
        trusted_peers: trusted.to_vec(),
        ..WrittenRules::default()
    };
    let mut known = policy(&settings(
        TrustMode::Known,
        &["did:web:*".to_owned(), peer(1).to_string()],
    ));
    assert!(allows(&mut known, TaskSource::Peer(peer(1)), "x"));
    assert_eq!(
        ask(&mut known, TaskSource::Peer(peer(2)), "x").reason,
        DecisionReason::Unknown
    );
    assert!(
        allows(&mut known, TaskSource::Local, "x") && allows(&mut known, TaskSource::Bridge("http:a"), "x")
    );
    let standing = |name: &str, vouched| PeerAttributes {
        names: vec![name.to_owned()],
        vouched,
        ..PeerAttributes::default()
    };
    known.set_attributes(peer(2), standing("did:web:a", false));
    known.set_attributes(peer(3), standing("did:key:zOther", true));
    assert!(
        allows(&mut known, TaskSource::Peer(peer(2)), "x")
            && allows(&mut known, TaskSource::Peer(peer(3)), "x")
    );

    let did = did_key_of(peer(2)).unwrap();
    let mut pinned = policy(&settings(TrustMode::Pinned, &[peer(1).to_string(), did]));
    pinned.set_attributes(peer(3), standing("did:web:a", true));
    assert!(
        allows(&mut pinned, TaskSource::Peer(peer(1)), "x")
            && allows(&mut pinned, TaskSource::Peer(peer(2)), "x")
    );
    assert_eq!(
        ask(&mut pinned, TaskSource::Peer(peer(3)), "x").reason,
        DecisionReason::NotPinned
    );
    assert!(allows(&mut pinned, TaskSource::Local, "x"));
}

/// An invite lets in where no rule says anything, for its skill; a rule that matches counts, an explicit deny above all.
#[test]
fn an_invite_lets_in_but_not_past_a_rule() {
    let right = |label: &str, skill: &str| PeerGrant {
        label: Some(label.to_owned()),
        agents: GrantedAgents::All,
        skill: skill.to_owned(),
    };
    let closed = |trust, acl: Vec<WrittenRule>| {
        policy(&WrittenRules {
            trust,
            acl,
            ..WrittenRules::default()
        })
    };
    let guest = TaskSource::Peer(peer(1));
    for trust in [TrustMode::Known, TrustMode::Pinned] {
        let mut policy = closed(trust, Vec::new());
        assert!(!allows(&mut policy, guest, "x"));
        policy.set_grants(peer(1), vec![right("team", "x")]);
        assert!(allows(&mut policy, guest, "x") && !allows(&mut policy, guest, "y"));
        assert!(!allows(&mut policy, TaskSource::Peer(peer(2)), "x"));
        policy.set_grants(peer(1), vec![right("team", "x"), right("all", "")]);
        assert!(allows(&mut policy, guest, "y"));
        policy.set_grants(peer(1), Vec::new());
        assert!(!allows(&mut policy, guest, "x"));
    }
    // With rules of which none is about the guest, and with those that are.
    let friend = rule(&peer(9).to_string(), "*", true);
    let mut policy = closed(TrustMode::Known, vec![friend.clone()]);
    policy.set_grants(peer(1), vec![right("team", "")]);
    assert_eq!(ask(&mut policy, guest, "x").reason, DecisionReason::Invited);
    assert_eq!(
        policy.seen_as(peer(1), DecisionReason::Invited).as_deref(),
        Some("invited:team")
    );
    for source in ["invited:team", "invited:*", "*", peer(1).to_string().as_str()] {
        let mut policy = closed(
            TrustMode::Open,
            vec![friend.clone(), rule(source, "secret", false)],
        );
        policy.set_grants(peer(1), vec![right("team", "")]);
        assert_eq!(
            ask(&mut policy, guest, "secret").reason,
            DecisionReason::Rule(2),
            "{source}"
        );
        assert_eq!(
            ask(&mut policy, guest, "x").reason,
            DecisionReason::Invited,
            "{source}"
        );
    }
    // Who is invited is a name in rules, and no more.
    let mut policy = closed(TrustMode::Open, vec![rule("invited:team", "x", true)]);
    assert_eq!(ask(&mut policy, guest, "x").reason, DecisionReason::NoMatch);
    policy.set_grants(peer(1), vec![right("other", "z")]);
    assert_eq!(ask(&mut policy, guest, "x").reason, DecisionReason::NoMatch);
    policy.set_grants(peer(1), vec![right("team", "z")]);
    assert_eq!(ask(&mut policy, guest, "x").reason, DecisionReason::Rule(1));
    // A key that it had before holds it too.
    let standing = PeerAttributes {
        former: vec![peer(1)],
        ..PeerAttributes::default()
    };
    policy.set_attributes(peer(2), standing);
    assert_eq!(
        ask(&mut policy, TaskSource::Peer(peer(2)), "x").reason,
        DecisionReason::Rule(1)
    );
}

/// Whoever reads the audit log sees by which name a source was let in, or not.
#[test]
fn who_was_not_seen_by_its_key_is_named() {
    let (own, former) = (peer(1).to_string(), peer(2).to_string());
    let own_did = did_key_of(peer(1)).unwrap();
    let web = "did:web:a.example";
    let standing = || PeerAttributes {
        names: vec![web.to_owned()],
        former: vec![peer(2)],
        ..PeerAttributes::default()
    };
    let seen = |settings: &WrittenRules| {
        let mut policy = policy(settings);
        policy.set_attributes(peer(1), standing());
        let by = ask(&mut policy, TaskSource::Peer(peer(1)), "x").reason;
        assert_eq!(policy.seen_as(peer(3), by), None, "nothing is proven of it");
        (by.to_string(), policy.seen_as(peer(1), by))
    };
    let by_rule = |source: &str, allow| {
        seen(&WrittenRules {
            acl: vec![rule("http:x", "*", true), rule(source, "*", allow)],
            groups: BTreeMap::from([("g".to_owned(), vec![web.to_owned()])]),
            ..WrittenRules::default()
        })
    };
    for (source, name) in [
        ("*", None),
        (own.as_str(), None),
        (own_did.as_str(), None),
        (former.as_str(), Some(former.as_str())),
        ("did:web:*", Some(web)),
        ("g", Some(web)),
    ] {
        for allow in [true, false] {
            assert_eq!(
                by_rule(source, allow),
                ("acl 2".to_owned(), name.map(str::to_owned)),
                "{source}"
            );
        }
    }
    assert_eq!(
        by_rule("did:web:b.example", true),
        ("acl default".to_owned(), None)
    );
    let trusted = |trust, peer: &str, acl| {
        seen(&WrittenRules {
            trust,
            trusted_peers: vec![peer.to_owned()],
            acl,
            ..WrittenRules::default()
        })
        .1
    };
    for (trust, peer, name) in [
        (TrustMode::Known, web, Some(web)),
        (TrustMode::Known, &own, None),
        (TrustMode::Pinned, &former, Some(former.as_str())),
        (TrustMode::Pinned, &own, None),
    ] {
        assert_eq!(trusted(trust, peer, vec![]).as_deref(), name);
        assert_eq!(trusted(trust, peer, vec![rule("*", "*", true)]).as_deref(), name);
    }
    assert_eq!(
        trusted(TrustMode::Known, web, vec![rule(&former, "*", true)]),
        Some(former.clone())
    );
    let limited = WrittenOverride {
        source: web.to_owned(),
        rps: Some(1.0),
        max_in_flight: None,
        max_bytes: None,
    };
    let mut limited = policy(&WrittenRules {
        overrides: vec![limited],
        ..WrittenRules::default()
    });
    limited.set_attributes(peer(1), standing());
    let by = DecisionReason::Limit(ReachedBound::Rate(1.0));
    assert_eq!(limited.seen_as(peer(1), by).as_deref(), Some(web));
}

proptest! {
    /// Whatever is proven later: what was decided without waiting for it stands.
    #[test]
    fn nothing_that_is_proven_turns_what_cannot_turn(
        written in proptest::collection::vec((0_usize..8, any::<bool>(), any::<bool>()), 0..5),
        overridden in proptest::collection::vec(0_usize..8, 0..3),
        proven in proptest::sample::subsequence(vec!["did:web:a", "did:web:a:b", "did:dns:c"], 0..=3),
        was_another in any::<bool>(),
    ) {
        let own = peer(1).to_string();
        let former = peer(2).to_string();
        let sources = ["*", &own, &former, "did:web:a", "did:web:*", "did:dns:c", "g", "http:x"];
        let acl = written
            .iter()
            .map(|(source, is_for_all, allow)| rule(sources[*source], if *is_for_all { "*" } else { "other" }, *allow));
        let overrides = overridden.iter().map(|source| WrittenOverride {
            source: sources[*source].to_owned(),
            rps: Some(*source as f64 + 1.0),
            max_in_flight: None,
            max_bytes: None,
        });
        let mut policy = policy(&WrittenRules {
            acl: acl.collect(),
            overrides: overrides.collect(),
            groups: BTreeMap::from([("g".to_owned(), vec!["did:dns:*".to_owned()])]),
            ..WrittenRules::default()
        });
        let asker = TaskSource::Peer(peer(1));
        let (before, bounds) = policy.evaluate(asker, "x".into());
        let may_turn = policy.could_change(peer(1), "x");
        let standing = PeerAttributes {
            names: proven.iter().map(|name| (*name).to_owned()).collect(),
            former: if was_another { vec![peer(2)] } else { Vec::new() },
            ..PeerAttributes::default()
        };
        policy.set_attributes(peer(1), standing);
        let (after, bounds_after) = policy.evaluate(asker, "x".into());
        if !may_turn {
            prop_assert_eq!(before.outcome, after.outcome);
            prop_assert_eq!(bounds, bounds_after);
        }
    }
}

#[test]
fn a_pattern_that_takes_in_strangers_is_told() {
    for (pattern, loose) in [
        ("did:web:example.org*", true),
        ("did:dns:a.example.*", true),
        ("did:web:example.org", false),
        ("did:web:example.org:*", false),
        ("did:web:*.example.org", false),
        ("did:web:*", false),
        ("12D3KooW*", false),
    ] {
        let policy = policy(&WrittenRules {
            acl: vec![rule(pattern, "*", true)],
            ..WrittenRules::default()
        });
        assert_eq!(
            policy.rules().wildcard_domains(),
            [pattern][usize::from(!loose)..]
        );
    }
}

#[test]
fn only_what_may_turn_waits() {
    let mut policy = policy(&WrittenRules {
        acl: vec![
            rule("did:web:bad", "a", false),
            rule("did:web:good", "b", true),
            rule("http:x", "c", false),
            rule("*", "*", true),
        ],
        ..WrittenRules::default()
    });
    for (skill, waits) in [("a", true), ("b", false), ("c", false), ("d", false)] {
        assert_eq!(policy.could_change(peer(1), skill), waits, "{skill}");
    }
}

#[test]
fn what_is_denied_costs_no_rate() {
    let mut policy = policy(&WrittenRules {
        acl: vec![rule("*", "secret", false), rule("*", "*", true)],
        default_rps: 2.0,
        ..WrittenRules::default()
    });
    let source = TaskSource::Peer(peer(1));
    assert!((0..10).all(|_| ask(&mut policy, source, "secret").outcome == PolicyOutcome::Deny));
    assert!(allows(&mut policy, source, "x") && allows(&mut policy, source, "x"));
    let third = ask(&mut policy, source, "x");
    assert_eq!(
        (third.outcome, third.reason),
        (
            PolicyOutcome::RateLimit,
            DecisionReason::Limit(ReachedBound::Rate(2.0))
        )
    );
    // New rules do not give back what was used.
    let rules = policy.rules().clone();
    policy.replace(rules);
    assert!(!allows(&mut policy, source, "x") && allows(&mut policy, TaskSource::Peer(peer(2)), "x"));
}

#[test]
fn what_can_match_nobody_is_refused() {
    let acl = |source: &str, skill: &str| WrittenRules {
        acl: vec![rule(source, skill, true)],
        ..WrittenRules::default()
    };
    let trusted = |trust, peer: &str| WrittenRules {
        trust,
        trusted_peers: vec![peer.into()],
        ..WrittenRules::default()
    };
    let group = |name: &str, member: &str| WrittenRules {
        groups: BTreeMap::from([(name.to_owned(), vec![member.to_owned()])]),
        ..WrittenRules::default()
    };
    let long = "x*".repeat(600);
    for (settings, key, value) in [
        (acl("12D3KooWtypo", "*"), "policy.acl", "12D3KooWtypo"),
        (acl("did:key:z6Mktypo", "*"), "policy.acl", "did:key:z6Mktypo"),
        (acl("opps", "*"), "policy.acl", "opps"),
        (acl("http:", "*"), "policy.acl", "http:"),
        (acl("", "*"), "policy.acl", ""),
        // With a star too: these begin as no name does.
        (acl("HTTP:*", "*"), "policy.acl", "HTTP:*"),
        (acl("Did:*", "*"), "policy.acl", "Did:*"),
        (acl("did:Key:z6Mk*", "*"), "policy.acl", "did:Key:z6Mk*"),
        (
            acl("did:web:Example.org*", "*"),
            "policy.acl",
            "did:web:Example.org*",
        ),
        (acl("did:web:a%3a8443:*", "*"), "policy.acl", "did:web:a%3a8443:*"),
        (
            acl("did:dns:*.Example.org", "*"),
            "policy.acl",
            "did:dns:*.Example.org",
        ),
        (acl("12d3koow*", "*"), "policy.acl", "12d3koow*"),
        (acl("htp:*", "*"), "policy.acl", "htp:*"),
        (acl("localhost*", "*"), "policy.acl", "localhost*"),
        (acl("*", &long), "policy.acl", long.as_str()),
        (acl(&long, "*"), "policy.acl", long.as_str()),
        (trusted(TrustMode::Known, "bob"), "policy.trusted_peers", "bob"),
        (trusted(TrustMode::Open, "bob"), "policy.trusted_peers", "bob"),
        (trusted(TrustMode::Open, "*"), "policy.trusted_peers", "*"),
        (
            trusted(TrustMode::Pinned, "12D3*"),
            "policy.trusted_peers",
            "12D3*",
        ),
        (
            trusted(TrustMode::Pinned, "did:web:a"),
            "policy.trusted_peers",
            "did:web:a",
        ),
        (group("local", "*"), "policy.groups", "local"),
        (group("A", "*"), "policy.groups", "A"),
        (group("a", "a"), "policy.groups", "a"),
    ] {
        let bad = PolicyRules::parse(&settings).unwrap_err();
        assert_eq!((bad.key, bad.value.as_str()), (key, value));
    }
    let many = WrittenRules {
        acl: vec![rule("*", "*", true); 4097],
        ..WrittenRules::default()
    };
    assert_eq!(PolicyRules::parse(&many).unwrap_err().key, "policy.acl");
}

#[test]
fn patterns_over_names_that_there_can_be_are_taken() {
    for pattern in [
        "*",
        "*x",
        "h*",
        "http:*",
        "http:A*",
        "local*",
        "loc*",
        "d*",
        "did:*",
        "did:key:z6Mk*",
        "did:web:*",
        "did:web:*.example.org",
        "did:web:example.org%3A8443:Agents:*",
        "did:dns:*.org",
        "1*",
        "12D3KooWA*",
        "16Uiu2HA*",
        "Qm*",
        "op*",
        "*ps",
    ] {
        let settings = WrittenRules {
            groups: BTreeMap::from([("ops".to_owned(), vec!["local".to_owned()])]),
            acl: vec![rule(pattern, "*", true)],
            ..WrittenRules::default()
        };
        assert_eq!(PolicyRules::parse(&settings).err(), None, "{pattern}");
    }
}

#[test]
fn a_name_is_written_as_rules_compare_it() {
    let did = did_key_of(peer(1)).unwrap();
    assert_eq!(peer(1).to_string().parse(), Ok(SourceName::Key(peer(1))));
    assert_eq!(did.parse(), Ok(SourceName::Key(peer(1))));
    assert_eq!(
        "http:Alice".parse(),
        Ok(SourceName::Caller("http:Alice".to_owned()))
    );
    assert_eq!("local".parse(), Ok(SourceName::Local));
    assert_eq!(
        "did:dns:a.org".parse(),
        Ok(SourceName::Proven("did:dns:a.org".to_owned()))
    );
    for (written, meant) in [
        ("did:web:Example.org:A", "did:web:example.org:A"),
        ("HTTP:alice", "http:alice"),
        ("bob", "a peer id"),
        ("http:", "http:CALLER"),
        ("did:dns:A.org", "did:dns:a.org"),
        ("a.org", "a peer id"),
    ] {
        let error = written.parse::<SourceName>().unwrap_err().to_string();
        assert!(
            error.contains(&format!("{written:?}")) && error.contains(meant),
            "{error}"
        );
    }
}

#[test]
fn a_node_that_nobody_can_come_to_is_told_from_others() {
    let nobody = || vec!["nobody".to_owned()];
    for (trust, peers, issuers, closed) in [
        (TrustMode::Open, vec![], vec![], false),
        (TrustMode::Known, vec![], vec![], true),
        (TrustMode::Known, nobody(), vec![], true),
        (TrustMode::Known, vec!["did:web:a".to_owned()], vec![], false),
        (TrustMode::Known, vec![], vec!["did:web:a".to_owned()], false),
        (TrustMode::Pinned, vec![], vec![], true),
        (TrustMode::Pinned, vec![peer(1).to_string()], vec![], false),
    ] {
        let settings = WrittenRules {
            trust,
            trusted_peers: peers,
            trusted_issuers: issuers,
            groups: BTreeMap::from([("nobody".to_owned(), vec![])]),
            ..WrittenRules::default()
        };
        assert_eq!(
            PolicyRules::parse(&settings).unwrap().is_closed(),
            closed,
            "{settings:?}"
        );
    }
}

proptest! {
    /// No name that a bridge gives, and no skill, is taken for another kind of source.
    #[test]
    fn a_callers_name_is_never_a_peers(name in ".{0,40}", skill in ".{0,20}") {
        let mut policy = policy(&WrittenRules {
            acl: vec![
                rule(&peer(1).to_string(), "*", true),
                rule("did:*", "*", true),
                rule("12D3*", "*", true),
                rule("local", "*", true),
            ],
            ..WrittenRules::default()
        });
        let labels = BTreeMap::from([("gateway.caller".to_owned(), name)]);
        let caller = caller::gateway_caller(&labels).unwrap();
        prop_assert_eq!(ask(&mut policy, TaskSource::Bridge(&caller), &skill).reason, DecisionReason::NoMatch);
    }
}
