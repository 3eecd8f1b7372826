//! What is said of each way that a task can stand.

#![allow(
    clippy::unnecessary_wraps,
    reason = "what is made may be missing in what is shown"
)]

mod external;
mod paths;
mod refusals;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use agentanycast::{
    Attempt, AuditTrail, ExternalAction, ExternalFailure, ExternalStep, FormerKey, Hop, Message, PathKind,
    PeerId, PeerReach, QueueState, QueuedEnvelope, Refusal, Role, SendRecord, Task, TaskSide, TaskStatus,
    Trace,
};

use super::{
    steps::steps,
    verdict::{explain, path_text},
};

const ME: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
const OTHER: &str = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";

fn at(second: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second))
}

fn id(text: &str) -> Option<PeerId> {
    Some(text.parse().unwrap())
}

pub(in crate::cmd) fn task(status: TaskStatus, reason: &str) -> Task {
    Task {
        id: "t".to_owned(),
        context_id: "c".to_owned(),
        status,
        status_message: (!reason.is_empty()).then(|| Message::from(reason)),
        messages: Vec::new(),
        artifacts: Vec::new(),
        created_at: at(0),
        updated_at: at(50),
        skill: "echo".to_owned(),
        originator: id(ME),
        assignee: id(OTHER),
        metadata: BTreeMap::new(),
        attempts: Vec::new(),
        agent: String::new(),
        asked: String::new(),
    }
}

pub(in crate::cmd) fn trace(side: TaskSide, task: Option<Task>) -> Trace {
    Trace {
        node: id(ME),
        now: at(100),
        task,
        side,
        arrived_at: None,
        attempts_left_at: Vec::new(),
        sent: None,
        attempts_sent: Vec::new(),
        came_over: None,
        given_at: None,
        claimed_at: None,
        agent_ends: 0,
        candidates: Vec::new(),
        held: false,
        claimed: false,
        agent_listens: false,
        deadline: None,
        url: String::new(),
        external_steps: Vec::new(),
        external_steps_left_out: 0,
        refusals: Vec::new(),
        remote_task: String::new(),
        sealed_task: String::new(),
        peer: Some(reach(true)),
        peer_before: Vec::new(),
        queued: Vec::new(),
        turns: Vec::new(),
        audit: None,
        addressee: None,
    }
}

pub(in crate::cmd) fn reach(connected: bool) -> PeerReach {
    PeerReach {
        id: id(OTHER),
        connected,
        via: PathKind::Direct,
        connected_at: None,
        round_trip: None,
        addresses: vec!["/ip4/192.0.2.1/tcp/4001".to_owned()],
        failures: if connected { 0 } else { 3 },
        next_attempt_in: (!connected).then_some(Duration::from_secs(8)),
        last_error: if connected {
            String::new()
        } else {
            "refused".to_owned()
        },
        relay: None,
        relay_addresses: Vec::new(),
    }
}

pub(in crate::cmd) fn envelope(carries_task: bool, state: QueueState) -> QueuedEnvelope {
    QueuedEnvelope {
        id: "e".to_owned(),
        peer: id(OTHER),
        carries_task,
        state,
        sent: 2,
        exposed: false,
        ahead: 4,
        expires_at: at(100 + 7200),
    }
}

fn audit(decision: &str) -> Option<AuditTrail> {
    let line = serde_json::json!({
        "time": "1970-01-12T13:46:39Z", "decision": decision, "source": OTHER, "skill": "admin", "task": "t9",
        "rule": "acl 2",
    });
    Some(AuditTrail {
        path: "/audit".to_owned(),
        lines: vec![line.to_string()],
        whole: true,
        error: String::new(),
    })
}

#[test]
fn each_state_of_a_task_that_was_sent_has_its_answer() {
    let sent = |status, reason: &str| trace(TaskSide::Originator, Some(task(status, reason)));
    let waiting = |connected: bool, state| {
        let mut waiting = sent(TaskStatus::Submitted, "");
        waiting.peer = Some(reach(connected));
        waiting.queued = vec![envelope(true, state)];
        waiting
    };
    let arrived = |status, reason: &str| {
        let mut arrived = sent(status, reason);
        arrived.arrived_at = at(10);
        arrived
    };
    for (trace, verdict, part) in [
        (sent(TaskStatus::Completed, ""), "completed", "was completed"),
        (sent(TaskStatus::Canceled, ""), "canceled", "canceled"),
        (
            sent(TaskStatus::Rejected, "not allowed (acl 2)"),
            "refused",
            "acl 2",
        ),
        (
            sent(TaskStatus::Failed, "not delivered within 24 h"),
            "undelivered",
            "24 h",
        ),
        (arrived(TaskStatus::Failed, "boom"), "failed", "boom"),
        (
            sent(TaskStatus::Failed, "lost by the assignee: no task t1"),
            "failed",
            "it arrived at",
        ),
        (
            waiting(false, QueueState::Queued),
            "peer-away",
            "3 attempts failed (refused), next in 8 s; it is given up in 2 h",
        ),
        (
            waiting(true, QueueState::Queued),
            "in-queue",
            "4 envelopes are before it",
        ),
        (waiting(true, QueueState::Sent), "unacknowledged", "sent twice"),
        (
            waiting(true, QueueState::Parked),
            "unacknowledged",
            "never acknowledged",
        ),
        (
            arrived(TaskStatus::Submitted, ""),
            "delivered",
            "no agent there has begun",
        ),
        (arrived(TaskStatus::Working, ""), "working", "works on it"),
        (
            arrived(TaskStatus::InputRequired, "which one?"),
            "needs-input",
            "which one?",
        ),
    ] {
        let answer = explain(&trace);
        assert_eq!(answer.verdict, verdict, "{answer:?}");
        assert!(answer.says.contains(part), "{answer:?}");
    }
    for (status, verdict) in [
        (TaskStatus::Submitted, "delivered"),
        (TaskStatus::Working, "working"),
    ] {
        let gone = Trace {
            peer: Some(reach(false)),
            ..arrived(status, "")
        };
        let answer = explain(&gone);
        assert_eq!(answer.verdict, verdict);
        let part = "it is not connected now; 3 attempts failed (refused), next in 8 s";
        assert!(answer.says.contains(part), "{answer:?}");
        assert!(answer.advice.unwrap().contains("192.0.2.1"));
    }
    let mut nowhere = waiting(false, QueueState::Queued);
    nowhere.peer.as_mut().unwrap().addresses.clear();
    assert!(
        explain(&nowhere)
            .advice
            .unwrap()
            .contains("no address of it is known")
    );
}

/// It has ended: nothing of it goes on when the peer is back.
#[test]
fn what_was_given_up_is_to_be_sent_again() {
    let given_up = |peer, reason| Trace {
        peer,
        ..trace(TaskSide::Originator, Some(task(TaskStatus::Failed, reason)))
    };
    let expired = "not delivered within 3 s: never sent, the peer was not connected";
    let nowhere = PeerReach {
        addresses: Vec::new(),
        ..reach(false)
    };
    for (peer, part) in [
        (
            Some(reach(false)),
            "reachable at /ip4/192.0.2.1/tcp/4001, then send it again",
        ),
        (Some(nowhere), "send it again to its multiaddr"),
        (Some(reach(true)), "send it again"),
        (None, "send it again"),
    ] {
        let connected = peer.as_ref().is_some_and(|peer| peer.connected);
        let answer = explain(&given_up(peer, expired));
        let advice = answer.advice.unwrap();
        assert!(advice.contains(part) && !advice.contains("goes on"), "{advice}");
        assert_eq!(advice.contains("offline_queue_ttl"), !connected, "{advice}");
    }
    let late = explain(&given_up(Some(reach(false)), "its deadline has passed"));
    assert!(!late.advice.unwrap().contains("offline_queue_ttl"));
}

#[test]
fn each_state_of_a_task_that_came_has_its_answer() {
    let came = |status, claimed, agent_listens| Trace {
        claimed,
        agent_listens,
        ..trace(TaskSide::Assignee, Some(task(status, "")))
    };
    let held = Trace {
        held: true,
        ..came(TaskStatus::Submitted, false, true)
    };
    let untold = Trace {
        queued: vec![envelope(false, QueueState::Queued)],
        peer: Some(reach(false)),
        ..came(TaskStatus::Completed, true, true)
    };
    for (trace, verdict) in [
        (came(TaskStatus::Submitted, false, false), "no-agent"),
        (came(TaskStatus::Submitted, false, true), "unclaimed"),
        (came(TaskStatus::Working, true, true), "working"),
        (came(TaskStatus::Working, true, false), "agent-gone"),
        (came(TaskStatus::InputRequired, true, true), "needs-input"),
        (came(TaskStatus::Completed, true, true), "ended"),
        (held, "held"),
        (untold, "news-waits"),
    ] {
        assert_eq!(explain(&trace).verdict, verdict, "{trace:?}");
    }
}

#[test]
fn a_reason_of_megabytes_is_shown_in_part() {
    let mut long = task(TaskStatus::Failed, &"é".repeat(1_000_000));
    super::shorten(&mut long);
    let reason = long.reason();
    assert!(
        reason.len() < 2100 && reason.contains("2000000 bytes"),
        "{}",
        reason.len()
    );
    let mut short = task(TaskStatus::Failed, "boom");
    super::shorten(&mut short);
    assert_eq!(short.reason(), "boom");
}
