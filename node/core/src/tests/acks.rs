//! Acknowledgements that stand for several envelopes.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{A2aEnvelope, AckOutcome, AckPayload, TaskCancelPayload, a2a_envelope::Payload};
use prost::Message as _;

use super::{
    super::SendTask,
    cluster::{A, B, TestCluster, ack_of, numbered, plain, send_task, stranger},
    harness::text,
};
use crate::delivery::inbox::MAX_JOINT;

/// The acknowledgements that went to a peer since it was asked last.
fn acks_to(lab: &mut TestCluster, to: PeerId) -> Vec<AckPayload> {
    let sent = std::mem::take(&mut lab.wire);
    let acks = sent.into_iter().filter(|(_, receiver, _)| *receiver == to);
    acks.filter_map(|(_, _, envelope)| match envelope.payload {
        Some(Payload::Ack(ack)) => Some(ack),
        _ => None,
    })
    .collect()
}

fn joint(sequence: u64, payload: Payload) -> A2aEnvelope {
    A2aEnvelope {
        joint_ack: true,
        ..numbered(sequence, payload)
    }
}

/// All in one turn.
fn receive(lab: &mut TestCluster, envelopes: &[A2aEnvelope]) {
    let now = lab.now;
    for envelope in envelopes {
        let frame = envelope.encode_to_vec().into();
        lab.nodes[A].core.on_frame(now, stranger(), &frame).unwrap();
    }
    assert!(
        lab.wire.is_empty(),
        "nothing is acknowledged before it is durable"
    );
    lab.settle();
}

#[test]
fn what_a_turn_accepts_is_acknowledged_together() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let cancel = Payload::TaskCancel(TaskCancelPayload {
        task_id: "unknown".into(),
    });
    let envelopes = [
        joint(1, send_task("one")),
        joint(2, send_task("two")),
        numbered(3, send_task("three")),
        plain("deployed", send_task("four")),
        joint(4, cancel),
        joint(5, send_task("five")),
    ];
    for again in [false, true] {
        receive(&mut lab, &envelopes);
        let acks = acks_to(&mut lab, stranger());
        let mut named: Vec<_> = acks
            .iter()
            .map(|ack| (ack.acknowledged_envelope_id.as_str(), ack.outcome()))
            .collect();
        named.sort_unstable_by_key(|(id, _)| *id);
        let expected = [
            ("deployed", AckOutcome::Accepted),
            ("numbered-1", AckOutcome::Accepted),
            ("numbered-3", AckOutcome::Accepted),
            ("numbered-4", AckOutcome::Rejected),
        ];
        assert_eq!(named, expected, "again: {again}");
        for ack in acks {
            let also: &[&str] = match ack.acknowledged_envelope_id.as_str() {
                "numbered-1" => &["numbered-2", "numbered-5"],
                _ => &[],
            };
            assert_eq!(ack.also_acknowledged, also, "again: {again}");
        }
    }
}

#[test]
fn one_acknowledgement_stands_for_a_bounded_number() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    let many: Vec<_> = (1..=MAX_JOINT as u64 + 2)
        .map(|sequence| joint(sequence, send_task(&sequence.to_string())))
        .collect();
    receive(&mut lab, &many);
    let acks = acks_to(&mut lab, stranger());
    let counts: Vec<_> = acks.iter().map(|ack| 1 + ack.also_acknowledged.len()).collect();
    assert_eq!(counts, [1 + MAX_JOINT, 1]);
}

/// All of them leave the queue, and only by the word of the peer that they were for.
#[test]
fn a_joint_acknowledgement_counts_for_each_envelope() {
    let mut lab = TestCluster::new();
    let other = lab.id(B);
    for peer in [stranger(), other] {
        lab.join(A, peer);
    }
    for _ in 0..3 {
        lab.send(A, stranger(), SendTask::default()).unwrap();
    }
    let sent: Vec<_> = std::mem::take(&mut lab.wire)
        .into_iter()
        .filter(|(_, to, _)| *to == stranger())
        .map(|(_, _, envelope)| envelope)
        .collect();
    assert!(sent.len() == 3 && sent.iter().all(|envelope| envelope.joint_ack));
    let Payload::Ack(first) = ack_of(&sent[0]) else {
        unreachable!("it is one");
    };
    let ack = AckPayload {
        also_acknowledged: vec![
            sent[1].envelope_id.clone(),
            "nobody sent this".into(),
            sent[2].envelope_id.clone(),
        ],
        ..first
    };
    let waiting = |lab: &TestCluster| lab.nodes[A].core.queued_for(stranger()).len();
    lab.receive(A, other, Payload::Ack(ack.clone()));
    assert_eq!(waiting(&lab), 3);
    lab.receive(A, stranger(), Payload::Ack(ack));
    assert_eq!(waiting(&lab), 0);
}

/// An older version that goes on with the store would send what it does not know.
#[test]
fn what_is_kept_of_an_envelope_says_nothing_of_joint_acknowledgements() {
    let mut lab = TestCluster::new();
    lab.join(A, stranger());
    for bytes in [1, 100 << 10] {
        let message = text("m", &"x".repeat(bytes));
        let request = SendTask {
            message,
            ..SendTask::default()
        };
        lab.send(A, stranger(), request).unwrap();
    }
    let sent = |lab: &mut TestCluster| -> Vec<A2aEnvelope> {
        let wire = std::mem::take(&mut lab.wire).into_iter();
        let sent = wire.filter(|(_, to, _)| *to == stranger());
        sent.map(|(_, _, envelope)| envelope).collect()
    };
    let first = sent(&mut lab);
    lab.restart(A);
    lab.join(A, stranger());
    let again = sent(&mut lab);
    assert!(first.len() == 2 && first.iter().all(|envelope| envelope.joint_ack));
    let without: Vec<_> = first
        .into_iter()
        .map(|envelope| A2aEnvelope {
            joint_ack: false,
            ..envelope
        })
        .collect();
    assert_eq!(again, without);
    for envelope in &again {
        lab.receive(A, stranger(), ack_of(envelope));
    }
    lab.restart(A);
    lab.join(A, stranger());
    assert!(sent(&mut lab).is_empty());
}
