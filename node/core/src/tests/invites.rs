//! Invites: who shows one is let in until it is revoked, and the secret goes to the node that gave it alone.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, P2pExtension, SendTaskPayload, Skill, a2a_envelope::Payload};
use prost::Message as _;

use super::{
    cluster::{A, B, C, TestCluster, send_task},
    harness::{limits, peer, text},
};
use crate::{EngineError, NewInvite, SendTask, coordinator::invite_on_card::split};
use crate::{
    policy::{
        PolicyOutcome, PolicyRules, TrustMode, WrittenRule, WrittenRules,
        invites::{MAX_INVITES, SECRET},
    },
    task::Status,
};

const SHOWN: [u8; SECRET] = [7; SECRET];

/// The node lets in nobody but a peer that is none of these.
fn close(lab: &mut TestCluster, node: usize, more: &[WrittenRule]) {
    let friend = WrittenRule {
        source: peer(42).to_string(),
        skill: "*".to_owned(),
        agent: "*".to_owned(),
        allow: true,
    };
    let settings = WrittenRules {
        trust: TrustMode::Known,
        trusted_peers: vec![peer(42).to_string()],
        acl: more.iter().cloned().chain([friend]).collect(),
        ..WrittenRules::default()
    };
    let rules = PolicyRules::parse(&settings).unwrap();
    lab.call(node, |core, _| Ok(core.set_rules(rules, true)?))
        .unwrap();
}

fn invite(lab: &mut TestCluster, node: usize, new: NewInvite) -> String {
    let new = NewInvite {
        id: if new.id.is_empty() {
            "one".to_owned()
        } else {
            new.id
        },
        secret: if new.secret == [0; SECRET] {
            SHOWN
        } else {
            new.secret
        },
        ..new
    };
    lab.call(node, |core, now| core.create_invite(now, new))
        .unwrap()
        .id
}

fn uses(uses: u32) -> NewInvite {
    NewInvite {
        uses,
        ..NewInvite::default()
    }
}

/// A task of a peer that the test plays, with a secret; whether it was let in.
fn asks(lab: &mut TestCluster, from: PeerId, id: &str, secret: &[u8]) -> bool {
    asks_for(lab, from, id, secret, "")
}

fn asks_for(lab: &mut TestCluster, from: PeerId, id: &str, secret: &[u8], skill: &str) -> bool {
    let payload = Payload::SendTask(SendTaskPayload {
        task_id: id.to_owned(),
        message: Some(text("m", "x")),
        target_skill_id: skill.to_owned(),
        invite: secret.to_vec(),
        ..SendTaskPayload::default()
    });
    lab.receive(B, from, payload);
    lab.nodes[B].core.task(id).is_ok()
}

#[test]
fn as_many_peers_as_it_has_uses_are_let_in() {
    let mut lab = TestCluster::new();
    close(&mut lab, B, &[]);
    for (number, peer) in [1, 2, 3].map(|n| (n, peer(n + 50))) {
        lab.join(B, peer);
        assert!(!asks(&mut lab, peer, &format!("before-{number}"), &[]));
    }
    invite(&mut lab, B, uses(2));
    assert!(asks(&mut lab, peer(51), "a", &SHOWN));
    assert!(asks(&mut lab, peer(52), "b", &SHOWN));
    assert!(!asks(&mut lab, peer(53), "c", &SHOWN), "one more than uses");
    // Those that have one need not show it again; and a guess is nothing.
    assert!(asks(&mut lab, peer(51), "d", &[]) && asks(&mut lab, peer(52), "e", &SHOWN));
    assert!(!asks(&mut lab, peer(53), "f", &[9; SECRET]) && !asks(&mut lab, peer(53), "g", &SHOWN[1..]));
    let invites = lab.nodes[B].core.admission().invites();
    assert_eq!(invites[0].peers, [peer(51), peer(52)]);
    let by: Vec<_> = lab
        .audited
        .iter()
        .map(|(_, entry)| (entry.decision.outcome, entry.seen_as.clone()))
        .collect();
    assert!(
        by.contains(&(PolicyOutcome::Allow, Some("invited:one".to_owned()))),
        "{by:?}"
    );
}

/// Both frames are in one turn, and the last use is one.
#[test]
fn two_peers_at_the_same_moment_take_one_use() {
    let mut lab = TestCluster::new();
    close(&mut lab, B, &[]);
    let guests = [peer(51), peer(52)];
    for guest in guests {
        lab.join(B, guest);
    }
    invite(&mut lab, B, uses(1));
    let now = lab.now;
    for guest in guests {
        let payload = Payload::SendTask(SendTaskPayload {
            task_id: format!("of-{guest}"),
            message: Some(text("m", "x")),
            invite: SHOWN.to_vec(),
            ..SendTaskPayload::default()
        });
        let envelope = super::cluster::plain(&guest.to_string(), payload);
        let frame = envelope.encode_to_vec().into();
        lab.nodes[B].core.on_frame(now, guest, &frame).unwrap();
    }
    lab.settle();
    let let_in = guests.map(|guest| lab.nodes[B].core.task(&format!("of-{guest}")).is_ok());
    assert_eq!(let_in, [true, false]);
    assert_eq!(lab.nodes[B].core.admission().invites()[0].peers, [guests[0]]);
}

#[test]
fn expiry_ends_the_taking_and_not_what_was_taken() {
    let mut lab = TestCluster::new();
    close(&mut lab, B, &[]);
    let expires_at = Some(lab.now.unix + 60_000);
    invite(
        &mut lab,
        B,
        NewInvite {
            expires_at,
            ..uses(9)
        },
    );
    for guest in [peer(51), peer(52)] {
        lab.join(B, guest);
    }
    assert!(asks(&mut lab, peer(51), "a", &SHOWN));
    lab.advance(Duration::from_secs(61));
    assert!(!asks(&mut lab, peer(52), "b", &SHOWN));
    assert!(asks(&mut lab, peer(51), "c", &SHOWN));
}

#[test]
fn what_was_given_and_taken_is_there_after_a_restart() {
    let mut lab = TestCluster::new();
    close(&mut lab, B, &[]);
    invite(&mut lab, B, uses(2));
    lab.join(B, peer(51));
    assert!(asks(&mut lab, peer(51), "a", &SHOWN));
    let before = lab.nodes[B].core.admission().invites();
    lab.restart(B);
    assert_eq!(lab.nodes[B].core.admission().invites(), before);
    close(&mut lab, B, &[]);
    for guest in [peer(51), peer(52), peer(53)] {
        lab.join(B, guest);
    }
    assert!(asks(&mut lab, peer(51), "b", &[]), "without showing it again");
    assert!(asks(&mut lab, peer(52), "c", &SHOWN));
    assert!(!asks(&mut lab, peer(53), "d", &SHOWN));
    lab.call(B, |core, now| core.revoke_invite(now, "one")).unwrap();
    lab.restart(B);
    close(&mut lab, B, &[]);
    assert!(lab.nodes[B].core.admission().invites().is_empty());
    lab.join(B, peer(51));
    assert!(!asks(&mut lab, peer(51), "e", &SHOWN));
}

#[test]
fn a_task_that_is_here_goes_on_when_its_invite_is_revoked() {
    let mut lab = TestCluster::pair();
    close(&mut lab, B, &[]);
    invite(
        &mut lab,
        B,
        NewInvite {
            label: "team".to_owned(),
            ..uses(1)
        },
    );
    let b = lab.id(B);
    lab.call(A, |core, _| core.accept_invite(b, Some(SHOWN))).unwrap();
    let agent = lab.listen(B);
    let id = lab.task();
    lab.update(B, &id, Status::Working).unwrap();
    lab.advance(Duration::from_millis(200)); // A claim is told a little later.
    assert_eq!(lab.status(A, &id), Status::Working);
    let (revoked, _) = lab.call(B, |core, now| core.revoke_invite(now, "team")).unwrap();
    assert_eq!(revoked[0].peers, [lab.id(A)]);
    let denied = lab.task();
    assert_eq!(lab.status(A, &denied), Status::Rejected);
    let reason = lab.reason(A, &denied);
    assert!(reason.contains("the invite shown is not known here"), "{reason}");
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    let error = lab
        .call(B, |core, now| core.revoke_invite(now, "team"))
        .unwrap_err();
    assert!(matches!(error, EngineError::Precondition(_)), "{error}");
    let _ = agent;
}

#[test]
fn a_rule_that_denies_goes_before_an_invite() {
    let deny = WrittenRule {
        source: "*".to_owned(),
        skill: "secret".to_owned(),
        agent: "*".to_owned(),
        allow: false,
    };
    let mut lab = TestCluster::new();
    close(&mut lab, B, &[deny]);
    lab.join(B, peer(51));
    invite(&mut lab, B, uses(1));
    assert!(!asks_for(&mut lab, peer(51), "a", &SHOWN, "secret"));
    assert!(asks_for(&mut lab, peer(51), "b", &SHOWN, "other"));
    lab.call(B, |core, now| core.revoke_invite(now, "one")).unwrap();
    let skill = "echo".to_owned();
    let id = "two".to_owned();
    let for_echo = NewInvite { id, skill, ..uses(1) };
    let unknown = lab.call(B, |core, now| core.create_invite(now, for_echo.clone()));
    assert!(
        matches!(unknown, Err(EngineError::Precondition(_))),
        "{unknown:?}"
    );
    let card = AgentCard {
        skills: vec![Skill {
            id: "echo".to_owned(),
            ..Skill::default()
        }],
        ..AgentCard::default()
    };
    lab.call(B, |core, _| {
        core.set_card(card);
        Ok(())
    })
    .unwrap();
    invite(&mut lab, B, for_echo);
    assert!(
        !asks_for(&mut lab, peer(51), "c", &SHOWN, "other"),
        "it is for a skill"
    );
    assert!(asks_for(&mut lab, peer(51), "d", &SHOWN, "echo"));
}

/// What a node was given is on its tasks for the node that gave it, and on no other's.
#[test]
fn a_secret_goes_to_the_node_that_gave_it_alone() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    let [b, c] = [B, C].map(|node| lab.id(node));
    lab.call(A, |core, _| core.accept_invite(b, Some(SHOWN))).unwrap();
    lab.restart(A);
    for (node, other) in [(A, b), (A, c), (B, lab.id(A)), (C, lab.id(A))] {
        lab.join(node, other);
    }
    for to in [b, c] {
        lab.send(A, to, SendTask::default()).unwrap();
    }
    let shown = |lab: &TestCluster, to: PeerId| -> Vec<Vec<u8>> {
        let sent = lab.wire.iter().filter(|(_, receiver, _)| *receiver == to);
        let sent = sent.filter_map(|(_, _, envelope)| match &envelope.payload {
            Some(Payload::SendTask(send)) => Some(send.invite.clone()),
            _ => None,
        });
        sent.collect()
    };
    assert_eq!(shown(&lab, b), [SHOWN.to_vec()]);
    assert_eq!(shown(&lab, c), [Vec::<u8>::new()]);
    lab.call(A, |core, _| core.accept_invite(b, None)).unwrap();
    lab.send(A, b, SendTask::default()).unwrap();
    assert_eq!(shown(&lab, b).last(), Some(&Vec::<u8>::new()));
}

/// A secret on a card counts as one on a task, and is not kept with the card.
#[test]
fn a_secret_on_a_card_is_taken_off_it() {
    let card = AgentCard {
        name: "guest".to_owned(),
        p2p_extension: Some(P2pExtension {
            did_web: "did:web:a.example".to_owned(),
            invite: SHOWN.to_vec(),
            ..P2pExtension::default()
        }),
        ..AgentCard::default()
    };
    let (kept, secret) = split(card.encode_to_vec().into());
    assert_eq!(secret, SHOWN);
    let kept = AgentCard::decode(kept.unwrap()).unwrap();
    assert_eq!(
        (kept.name.as_str(), kept.p2p_extension.unwrap().invite.len()),
        ("guest", 0)
    );
    let bare = AgentCard::default().encode_to_vec();
    assert_eq!(split(bare.clone().into()), (Some(bare.into()), Vec::new()));
    let only = AgentCard {
        p2p_extension: Some(P2pExtension {
            peer_id: peer(51).to_string(),
            instance: vec![1; 80],
            invite: SHOWN.to_vec(),
            ..P2pExtension::default()
        }),
        ..AgentCard::default()
    };
    assert_eq!(split(only.encode_to_vec().into()), (None, SHOWN.to_vec()));

    let mut lab = TestCluster::new();
    close(&mut lab, B, &[]);
    lab.join(B, peer(51));
    invite(&mut lab, B, uses(1));
    lab.call(B, |core, now| {
        core.on_invite(now, peer(51), &secret);
        Ok(())
    })
    .unwrap();
    assert!(asks(&mut lab, peer(51), "a", &[]));
}

#[test]
fn an_invite_that_is_none_is_refused() {
    let mut lab = TestCluster::new();
    let refused = |lab: &mut TestCluster, new: NewInvite| {
        lab.call(B, |core, now| core.create_invite(now, new)).unwrap_err()
    };
    let named = |label: &str| NewInvite {
        id: "x".to_owned(),
        label: label.to_owned(),
        ..uses(1)
    };
    for wrong in [
        named("a b"),
        named("*"),
        NewInvite { uses: 0, ..named("") },
        NewInvite {
            uses: 1001,
            ..named("")
        },
    ] {
        assert!(matches!(refused(&mut lab, wrong), EngineError::Invalid(_)));
    }
    let agent = "nobody".to_owned();
    let other = refused(&mut lab, NewInvite { agent, ..named("") });
    assert!(matches!(other, EngineError::Precondition(_)), "{other}");
    for number in 0..MAX_INVITES {
        let mut secret = SHOWN;
        secret[..8].copy_from_slice(&(number as u64).to_be_bytes());
        invite(
            &mut lab,
            B,
            NewInvite {
                id: format!("i{number}"),
                secret,
                ..uses(1)
            },
        );
    }
    assert!(matches!(refused(&mut lab, named("")), EngineError::Exhausted(_)));
    // An open node lets in whoever comes, with an invite or without.
    lab.join(B, peer(51));
    lab.receive(B, peer(51), send_task("a"));
    assert!(lab.nodes[B].core.task("a").is_ok());
}

#[test]
fn an_invite_may_be_for_one_of_several_agents() {
    let mut lab = TestCluster::new();
    for name in ["one", "two"] {
        let card = AgentCard {
            name: format!("The {name}"),
            skills: vec![Skill {
                id: name.to_owned(),
                ..Skill::default()
            }],
            ..AgentCard::default()
        };
        lab.call(B, |core, now| {
            core.register_agent(now, name, card, false, crate::RegistrationAccess::AsBefore)
        })
        .unwrap();
    }
    for (id, agent, skill) in [("a", "two", ""), ("b", "The one", ""), ("c", "", "two")] {
        let new = NewInvite {
            id: id.to_owned(),
            agent: agent.to_owned(),
            skill: skill.to_owned(),
            ..uses(1)
        };
        lab.call(B, |core, now| core.create_invite(now, new)).unwrap();
    }
    let three = NewInvite {
        id: "d".to_owned(),
        agent: "three".to_owned(),
        ..uses(1)
    };
    let refused = lab
        .call(B, |core, now| core.create_invite(now, three))
        .unwrap_err();
    assert!(refused.to_string().contains("there are: one, two"), "{refused}");
}
