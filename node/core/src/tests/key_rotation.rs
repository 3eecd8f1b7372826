//! A peer that has changed its key goes on where the old one was: with its tasks, what waits for it, and what it was told.

use agentanycast_identity::{Keypair, peer_id, rotation::Rotation};
use agentanycast_proto::v1::{
    AckOutcome, AgentCard, EnvelopeType, P2pExtension, TaskCompletePayload, a2a_envelope::Payload,
};
use prost::Message as _;

use super::{
    cluster::{A, B, TestCluster, numbered, plain, send_task, stranger},
    harness::{peer, text},
};
use crate::{
    SendTask,
    policy::PeerAttributes,
    task::{Role, Status},
};

fn complete(task: &str) -> Payload {
    Payload::TaskComplete(TaskCompletePayload {
        task_id: task.into(),
        ..TaskCompletePayload::default()
    })
}

fn was(old: agentanycast_identity::PeerId) -> PeerAttributes {
    PeerAttributes {
        former: vec![old],
        ..PeerAttributes::default()
    }
}

#[test]
fn what_was_the_old_peers_is_the_new_ones() {
    let (old, new, thief) = (stranger(), peer(8), peer(7));
    let mut lab = TestCluster::new();
    lab.join(A, old);
    lab.listen(A);
    lab.deliver(A, old, &numbered(1, send_task("theirs")));
    lab.part(A, old);
    let ours = lab.send(A, old, SendTask::default()).unwrap().id;
    lab.complete(A, "theirs", "done").unwrap();
    assert_eq!(lab.nodes[A].core.queued(), 2);

    lab.join(A, new);
    lab.call(A, |core, now| Ok(core.set_peer_attributes(now, new, was(old))?))
        .unwrap();
    assert_eq!(lab.view(A, &ours).role, Role::Originator(new));
    assert_eq!(lab.view(A, "theirs").role, Role::Assignee(new));
    assert_eq!(
        lab.types_to(new),
        [EnvelopeType::SendTask, EnvelopeType::TaskComplete],
        "in their order"
    );
    // What was applied is not applied again, and what the new one says of the tasks counts.
    lab.deliver(A, new, &numbered(1, send_task("theirs")));
    assert_eq!(lab.acks_of("numbered-1").last().unwrap().0, AckOutcome::Accepted);
    assert_eq!(lab.handed_over(A, "theirs").len(), 1);
    lab.deliver(A, new, &numbered(2, complete(&ours)));
    assert_eq!(lab.status(A, &ours), Status::Completed);
    // The old name leads to the new one; nobody else takes it over.
    let next = lab.send(A, old, SendTask::default()).unwrap().id;
    assert_eq!(lab.view(A, &next).role, Role::Originator(new));
    lab.join(A, thief);
    lab.call(A, |core, now| {
        Ok(core.set_peer_attributes(now, thief, was(old))?)
    })
    .unwrap();
    assert_eq!(lab.view(A, &next).role, Role::Originator(new));
    assert!(lab.types_to(thief).is_empty());
    lab.restart(A);
    assert_eq!(lab.view(A, &ours).role, Role::Originator(new));
    assert_eq!(lab.view(A, "theirs").role, Role::Assignee(new));
}

/// Whoever still has the old key has what everybody could have who has found it: without rules too, and after a restart.
#[test]
fn a_key_that_was_replaced_begins_no_tasks() {
    let (old, new) = (stranger(), peer(8));
    let mut lab = TestCluster::new();
    lab.listen(A);
    lab.join(A, old);
    lab.deliver(A, old, &plain("before", send_task("before")));
    lab.call(A, |core, now| Ok(core.set_peer_attributes(now, new, was(old))?))
        .unwrap();
    for id in ["at once", "restarted"] {
        lab.join(A, old);
        lab.deliver(A, old, &plain(id, send_task(id)));
        let (outcome, reason) = lab.acks_of(id).pop().unwrap();
        assert_eq!(outcome, AckOutcome::Rejected);
        assert!(reason.contains("this key was replaced by that of") && reason.contains(&new.to_string()));
        assert!(lab.nodes[A].core.tasks().indexed(id).is_none());
        lab.restart(A);
    }
    lab.join(A, new);
    lab.deliver(A, new, &plain("new", send_task("new")));
    assert_eq!(lab.acks_of("new").last().unwrap().0, AckOutcome::Accepted);
    assert_eq!(lab.view(A, "before").role, Role::Assignee(new));
}

/// The operator has to decide which of the two is the owner, and sees that there are two.
#[test]
fn who_comes_second_with_a_key_is_told_as_that() {
    let [old, first, second] = [31, 32, 33].map(peer);
    let mut lab = TestCluster::new();
    lab.listen(A);
    guard(&mut lab, old);
    assert!(is_let_in(&mut lab, first, &[old]));
    assert!(!is_let_in(&mut lab, second, &[old]));
    let core = &mut lab.nodes[A].core;
    let told = core.rejected_claims_of(second);
    assert!(
        told.len() == 1 && told[0].contains(&old.to_string()) && told[0].contains(&first.to_string()),
        "{told:?}"
    );
    assert_eq!(core.rejected_claims_of(first).len(), 0);
}

/// A node whose old key was put back asks about its tasks: they are not lost, and go on when the new one is there again.
#[test]
fn a_task_that_is_asked_about_by_an_old_key_stays_open() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let (old, new, open) = (lab.id(A), peer(8), lab.status(A, &id));
    assert!(!open.is_terminal());
    lab.call(B, |core, now| Ok(core.set_peer_attributes(now, new, was(old))?))
        .unwrap();
    lab.disconnect();
    let at_b = lab.id(B);
    lab.join(B, old);
    lab.join(A, at_b);
    assert!(lab.types_to(at_b).contains(&EnvelopeType::GetTask));
    let refused = lab.nodes[A].core.activity().refusals;
    let said = format!("this key was replaced by that of {new}");
    assert!(
        refused.iter().any(|refused| refused.reason.starts_with(&said)),
        "{refused:?}"
    );
    assert_eq!(lab.status(A, &id), open);
    assert_eq!(lab.view(B, &id).role, Role::Assignee(new));
}

/// More than is moved in one turn keeps its order too, also with what is sent meanwhile.
#[test]
fn a_long_queue_is_moved_in_its_order() {
    let (old, new) = (stranger(), peer(8));
    let mut lab = TestCluster::new();
    let send = |lab: &mut TestCluster, to, letters| {
        let request = SendTask {
            message: text("m", &"x".repeat(letters)),
            ..SendTask::default()
        };
        lab.send(A, to, request).unwrap().id
    };
    let mut sent: Vec<String> = (0..6).map(|_| send(&mut lab, old, 3 << 20)).collect();
    lab.call(A, |core, now| Ok(core.set_peer_attributes(now, new, was(old))?))
        .unwrap();
    sent.push(send(&mut lab, new, 1));
    let waiting = |lab: &TestCluster, peer| -> Vec<String> { lab.nodes[A].core.queued_for(peer) };
    assert!(waiting(&lab, new).len() < 6 && !waiting(&lab, old).is_empty());
    lab.advance(std::time::Duration::from_secs(1));
    assert_eq!(waiting(&lab, new), sent);
    assert!(waiting(&lab, old).is_empty());
    sent.push(send(&mut lab, old, 1));
    assert_eq!(waiting(&lab, new), sent);
}

#[test]
fn a_circle_of_changes_ends() {
    let (old, new) = (stranger(), peer(8));
    let mut lab = TestCluster::new();
    for (one, other) in [(new, old), (old, new), (new, old)] {
        lab.call(A, |core, now| {
            Ok(core.set_peer_attributes(now, one, was(other))?)
        })
        .unwrap();
    }
    let task = lab.send(A, old, SendTask::default()).unwrap().id;
    assert_eq!(lab.view(A, &task).role, Role::Originator(new));
}

/// By the card that it showed last, also after a restart; a key that another peer has followed is not told as its own.
#[test]
fn who_a_peer_was_before_can_be_told() {
    let keys: Vec<Keypair> = (1..=4)
        .map(|n| Keypair::ed25519_from_bytes([n; 32]).unwrap())
        .collect();
    let [first, second, third, thief] = [0, 1, 2, 3].map(|at| peer_id(&keys[at]));
    let mut lab = TestCluster::new();
    let now = lab.now.unix;
    let shows = |lab: &mut TestCluster, peer, rotations: &[(usize, usize, u64)]| {
        let signed = rotations.iter().map(|(old, new, at)| {
            let rotation = Rotation::sign(&keys[*old], &keys[*new], *at).unwrap();
            rotation.to_bytes()
        });
        let card = AgentCard {
            p2p_extension: Some(P2pExtension {
                key_rotations: signed.collect(),
                ..P2pExtension::default()
            }),
            ..AgentCard::default()
        };
        lab.call(A, |core, _| {
            core.with_peers(|peers, transaction| {
                peers.put_card(transaction, peer, &card.encode_to_vec().into());
            });
            Ok(())
        })
        .unwrap();
    };
    shows(&mut lab, third, &[(1, 2, now - 5), (0, 1, now - 9)]);
    shows(&mut lab, thief, &[(1, 3, now - 1), (0, 1, now - 9)]);
    lab.call(A, |core, now| {
        Ok(core.set_peer_attributes(now, third, was(second))?)
    })
    .unwrap();
    let former = |lab: &mut TestCluster, peer| {
        let now = lab.now;
        lab.nodes[A]
            .core
            .with_peers(|peers, transaction| peers.former_keys(transaction, now, peer))
            .unwrap()
    };
    assert_eq!(former(&mut lab, third), [(second, now - 5), (first, now - 9)]);
    assert_eq!(former(&mut lab, thief), []);
    assert_eq!(former(&mut lab, second), [], "it has shown no card");
    let id = lab.send(A, second, SendTask::default()).unwrap().id;
    lab.restart(A);
    let (now_there, core) = (lab.now, &mut lab.nodes[A].core);
    let found = core.inspect_task(now_there, &id).unwrap();
    assert_eq!(found.peer(), Some(third));
    assert_eq!(found.former_keys, [(second, now - 5), (first, now - 9)]);
}

/// Rules that let in this peer alone.
fn guard(lab: &mut TestCluster, peer: agentanycast_identity::PeerId) {
    let only = crate::policy::WrittenRules {
        acl: vec![crate::policy::WrittenRule {
            source: peer.to_string(),
            skill: "*".to_owned(),
            agent: "*".to_owned(),
            allow: true,
        }],
        ..crate::policy::WrittenRules::default()
    };
    let rules = crate::policy::PolicyRules::parse(&only).unwrap();
    lab.call(A, |core, _| Ok(core.set_rules(rules, false)?)).unwrap();
}

/// Whether rules for the oldest key let this peer in that says so.
fn is_let_in(
    lab: &mut TestCluster,
    peer: agentanycast_identity::PeerId,
    former: &[agentanycast_identity::PeerId],
) -> bool {
    let standing = PeerAttributes {
        former: former.to_vec(),
        ..PeerAttributes::default()
    };
    lab.call(A, |core, now| Ok(core.set_peer_attributes(now, peer, standing)?))
        .unwrap();
    let id = format!("task-{}-{peer}", lab.now.mono.as_nanos());
    lab.join(A, peer);
    lab.deliver(A, peer, &plain(&id, send_task(&id)));
    lab.acks_of(&id).last().unwrap().0 == AckOutcome::Accepted
}

/// A peer that is up sees each change, and is told of all that were before; one that was restarted sees the last one.
#[test]
fn a_chain_of_changes_is_followed_as_it_comes_and_over_restarts() {
    let [first, second, third, fourth, thief] = [1, 2, 3, 4, 5].map(|n| peer(n + 20));
    let mut lab = TestCluster::new();
    lab.listen(A);
    guard(&mut lab, first);
    assert!(is_let_in(&mut lab, first, &[]));
    assert!(is_let_in(&mut lab, second, &[first]));
    assert!(is_let_in(&mut lab, third, &[second, first]));
    for restarts in [false, true] {
        if restarts {
            lab.restart(A);
            guard(&mut lab, first);
        }
        // Whoever has a retired key comes first, and gets nothing: neither by the last one that was followed nor by an older one.
        for stolen in [&[second, first][..], &[first]] {
            assert!(!is_let_in(&mut lab, thief, stolen), "{restarts}");
        }
        assert!(is_let_in(&mut lab, third, &[second, first]), "{restarts}");
    }
    assert!(is_let_in(&mut lab, fourth, &[third, second, first]));
    assert_eq!(lab.nodes[A].core.peers().current_key(first), fourth);
}

/// What went to the old key may be there, also if it expires under the new one.
#[test]
fn how_often_something_was_sent_is_known_after_it_moved() {
    let (old, new) = (stranger(), peer(8));
    let mut lab = TestCluster::new();
    lab.join(A, old);
    let id = lab.send(A, old, SendTask::default()).unwrap().id;
    lab.part(A, old);
    lab.call(A, |core, now| Ok(core.set_peer_attributes(now, new, was(old))?))
        .unwrap();
    let found = lab.nodes[A].core.inspect_task(lab.now, &id).unwrap();
    assert_eq!(found.queued.len(), 1);
    assert!(found.queued[0].peer == new && found.queued[0].exposed);
}

/// The first that a new peer says may come before its card: it is not refused before that was seen.
#[test]
fn what_is_said_of_another_ones_task_waits_for_the_card() {
    let (old, new) = (stranger(), peer(8));
    for changed in [true, false] {
        let mut lab = TestCluster::new();
        lab.join(A, old);
        let task = lab.send(A, old, SendTask::default()).unwrap().id;
        lab.part(A, old);
        lab.join(A, new);
        lab.nodes[A].core.admission_mut().await_identities([new]);
        let said = plain("said", complete(&task));
        let now = lab.now;
        lab.nodes[A]
            .core
            .on_frame(now, new, &said.encode_to_vec().into())
            .unwrap();
        assert!(lab.nodes[A].core.admission_mut().take_identity_needed());
        lab.settle();
        assert!(lab.acks_of("said").is_empty());
        let standing = if changed {
            was(old)
        } else {
            PeerAttributes::default()
        };
        lab.call(A, |core, now| {
            core.set_peer_attributes(now, new, standing)?;
            core.admission_mut().on_identity_resolved(new);
            Ok(())
        })
        .unwrap();
        assert_eq!(lab.nodes[A].core.admission_mut().take_identity_resolved(), [new]);
        lab.deliver(A, new, &said);
        assert!(!lab.nodes[A].core.admission_mut().take_identity_needed());
        let (outcome, status) = if changed {
            (AckOutcome::Accepted, Status::Completed)
        } else {
            (AckOutcome::Rejected, Status::Submitted)
        };
        assert_eq!(lab.acks_of("said")[0].0, outcome);
        assert_eq!(lab.status(A, &task), status);
    }
}
