//! What is said of each way that a task can stand.

#![allow(
    clippy::unnecessary_wraps,
    reason = "what is made may be missing in what is shown"
)]

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use agentanycast::{
    Attempt, AuditTrail, FormerKey, Hop, Message, OutsideDeed, OutsideFailure, OutsideStep, PeerId,
    PeerReach, QueueState, QueuedEnvelope, Refusal, Road, Role, Sent, Side, Task, TaskStatus, Trace,
};

use super::{
    explain::{explain, road},
    steps::steps,
};

const ME: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
const OTHER: &str = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";

fn at(second: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second))
}

fn id(text: &str) -> Option<PeerId> {
    Some(text.parse().unwrap())
}

fn task(status: TaskStatus, reason: &str) -> Task {
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
    }
}

fn trace(side: Side, task: Option<Task>) -> Trace {
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
        candidates: Vec::new(),
        held: false,
        claimed: false,
        agent_listens: false,
        deadline: None,
        url: String::new(),
        outside_steps: Vec::new(),
        outside_steps_left_out: 0,
        refusals: Vec::new(),
        remote_task: String::new(),
        sealed_task: String::new(),
        peer: Some(reach(true)),
        peer_before: Vec::new(),
        queued: Vec::new(),
        turns: Vec::new(),
        audit: None,
    }
}

fn reach(connected: bool) -> PeerReach {
    PeerReach {
        id: id(OTHER),
        connected,
        road: Road::Direct,
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

fn envelope(carries_task: bool, state: QueueState) -> QueuedEnvelope {
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
        "time": "1970-01-12T13:46:39Z", "decision": decision, "source": OTHER, "skill": "admin", "rule": "acl 2",
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
    let sent = |status, reason: &str| trace(Side::Originator, Some(task(status, reason)));
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
        ..trace(Side::Originator, Some(task(TaskStatus::Failed, reason)))
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
fn who_refused_it_is_not_said_to_have_logged_it_each_time() {
    let refused = trace(Side::Originator, Some(task(TaskStatus::Rejected, "no")));
    let advice = explain(&refused).advice.unwrap();
    for part in ["audit_log_path", "the first refusal of each peer", "debug only"] {
        assert!(advice.contains(part), "{advice}");
    }
}

/// No rule or limit has to do with a box.
#[test]
fn a_box_that_was_not_taken_has_advice_of_its_own() {
    let carried = "not sealed, by whoever carries the task: ";
    for (reason, part) in [
        (
            "it is sealed for A, and this node is B: seal it for B",
            "ask that node's operator for its id",
        ),
        ("it has come before, and was taken then", "the first one counts"),
        ("it was sealed more than 23 h ago; send it again", "was too late"),
        (
            "it is not known any more whether it has come before, since others of its time are forgotten; send it again",
            "when it says",
        ),
        ("it was sealed in the future; compare the clocks", "set the clock"),
        (
            "the box cannot be opened: it was changed on its way",
            "`anycast id` there",
        ),
        (
            "its box holds something else: it was sealed under another id",
            "something on the way changes it",
        ),
    ] {
        let reason = format!("the message is not taken: {reason}");
        let refused = explain(&trace(
            Side::Originator,
            Some(task(TaskStatus::Rejected, &reason)),
        ));
        assert_eq!(refused.verdict, "refused");
        let advice = refused.advice.unwrap();
        assert!(
            advice.contains(part) && !advice.contains("audit_log_path"),
            "{advice}"
        );
        let reason = format!("{carried}{reason}");
        for status in [TaskStatus::Rejected, TaskStatus::Failed] {
            let mut ended = task(status, &reason);
            // Of one that is not sealed it is any agent's word.
            let plain = explain(&trace(Side::Outside, Some(ended.clone())));
            assert_ne!(plain.advice.as_deref(), Some(advice.as_str()));
            ended
                .metadata
                .insert("agentanycast-sealed-for".to_owned(), OTHER.to_owned());
            let outside = explain(&trace(Side::Outside, Some(ended)));
            assert_eq!(outside.advice.as_deref(), Some(advice.as_str()));
        }
    }
}

/// What happened under an older key is told with it, and the change itself is a step.
#[test]
fn a_peer_has_the_name_of_then() {
    let first = "12D3KooWAAmJNyLA1vEpeSnSN3ixYPDtvqiQFiyHmRhwKzXBLGWq";
    let second = "12D3KooWF8xhW9UwkNx4jLFUF8w6NoNf1xjwTFy5ZEbCBKYMjkGe";
    let key = |id: &str, until| FormerKey {
        id: id.parse().unwrap(),
        until: at(until),
    };
    let changed = Trace {
        peer_before: vec![key(second, 20), key(first, 5)],
        arrived_at: at(30),
        ..trace(Side::Originator, Some(task(TaskStatus::Submitted, "")))
    };
    let told = |trace: &Trace| -> Vec<_> {
        steps(trace)
            .into_iter()
            .map(|step| (step.kind, step.what))
            .collect()
    };
    let [sent, to_second, to_third, acknowledged] = told(&changed).try_into().unwrap();
    assert_eq!(sent, ("sent", format!("accepted for {first} for the skill echo")));
    assert_eq!(to_second.0, "new-key");
    assert!(
        to_second
            .1
            .starts_with(&format!("{first} has another key since, and is {second}"))
    );
    assert!(
        to_third
            .1
            .starts_with(&format!("{second} has another key since, and is {OTHER}"))
    );
    assert!(acknowledged.1.starts_with(&format!("{OTHER} has it")));
    // One that came between the two changes.
    let mut came = task(TaskStatus::Submitted, "");
    (came.originator, came.created_at) = (id(OTHER), at(10));
    let came = Trace {
        peer_before: changed.peer_before.clone(),
        ..trace(Side::Assignee, Some(came))
    };
    assert!(told(&came)[1].1.starts_with(&format!("came from {second}")));
}

#[test]
fn each_state_of_a_task_that_came_has_its_answer() {
    let came = |status, claimed, agent_listens| Trace {
        claimed,
        agent_listens,
        ..trace(Side::Assignee, Some(task(status, "")))
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
fn what_only_the_audit_log_knows_is_said() {
    for (decision, verdict) in [
        ("deny", "denied"),
        ("rate_limit", "limited"),
        ("allow", "forgotten"),
    ] {
        let trace = Trace {
            audit: audit(decision),
            ..trace(Side::Unknown, None)
        };
        let answer = explain(&trace);
        assert_eq!(answer.verdict, verdict);
        assert_eq!(steps(&trace).len(), 1);
        if decision == "deny" {
            assert!(
                answer.says.contains("acl 2") && answer.says.contains(OTHER),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn a_task_that_was_refused_here_is_told() {
    let refusal = |reason: &str| Refusal {
        at: at(5),
        peer: id(OTHER),
        by_peer: false,
        task_id: "t9".to_owned(),
        reason: reason.to_owned(),
        count: 2,
    };
    let closed = "the message is not taken: the box cannot be opened";
    for (decision, reason, verdict, says, advice) in [
        ("allow", closed, "refused", closed, "still have the key"),
        ("", closed, "refused", OTHER, "still have the key"),
        (
            "",
            "not allowed (acl 2)",
            "refused",
            "acl 2",
            "anycast policy check",
        ),
        (
            "deny",
            "not allowed (acl 2)",
            "denied",
            OTHER,
            "anycast policy check",
        ),
    ] {
        let trace = Trace {
            audit: audit(decision).filter(|_| !decision.is_empty()),
            refusals: vec![refusal(reason)],
            ..trace(Side::Unknown, None)
        };
        let answer = explain(&trace);
        assert_eq!(answer.verdict, verdict, "{answer:?}");
        assert!(answer.says.contains(says), "{answer:?}");
        assert!(answer.advice.unwrap().contains(advice));
        let told = steps(&trace).pop().unwrap();
        assert_eq!(
            (told.kind, told.what),
            (
                "refused",
                format!(
                    "refused here, sent by {OTHER} as its task t9: {reason}; 2 times, and this was the last"
                )
            )
        );
    }
}

#[test]
fn steps_are_in_the_order_of_time() {
    let mut moved = task(TaskStatus::Submitted, "");
    moved.attempts.push(Attempt {
        peer: id(ME),
        reason: "not acknowledged within 3 s".to_owned(),
    });
    let mut trace = trace(Side::Originator, Some(moved));
    trace.attempts_left_at = vec![at(3)];
    trace.arrived_at = at(5);
    trace.turns = vec![(at(0), Role::User), (at(7), Role::Agent), (None, Role::Agent)];
    trace.queued = vec![envelope(false, QueueState::Sent)];
    trace.audit = audit("allow");
    let kinds: Vec<_> = steps(&trace).into_iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        ["allowed", "sent", "moved-on", "acknowledged", "said", "queued"]
    );
}

/// Where a task was sent before, where it is now, and what each of both went over.
#[test]
fn each_hop_is_told() {
    let relay = "12D3KooWAAmJNyLA1vEpeSnSN3ixYPDtvqiQFiyHmRhwKzXBLGWq";
    let over = |at_second, road, relay: Option<&str>| {
        Some(Sent {
            at: at(at_second),
            over: Hop {
                road,
                relay: relay.and_then(id),
            },
        })
    };
    let mut moved = task(TaskStatus::Submitted, "");
    moved.attempts.push(Attempt {
        peer: id(ME),
        reason: "silent".to_owned(),
    });
    let sent = Trace {
        attempts_left_at: vec![at(3)],
        attempts_sent: vec![over(1, Road::Direct, None)],
        sent: over(4, Road::Relay, Some(relay)),
        arrived_at: at(5),
        ..trace(Side::Originator, Some(moved))
    };
    let told: Vec<_> = steps(&sent)
        .into_iter()
        .map(|step| (step.kind, step.what))
        .collect();
    let kinds: Vec<_> = told.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["sent", "went", "moved-on", "went", "acknowledged"]);
    assert_eq!(told[1].1, format!("sent to {ME}, directly"));
    assert_eq!(told[3].1, format!("sent to {OTHER}, through the relay {relay}"));

    let mut came = task(TaskStatus::Working, "");
    came.originator = id(OTHER);
    let came = Trace {
        came_over: over(0, Road::Relay, Some(relay)).map(|sent| sent.over),
        given_at: at(6),
        claimed_at: at(7),
        turns: vec![(at(0), Role::User), (at(8), Role::Agent)],
        ..trace(Side::Assignee, Some(came))
    };
    let told = steps(&came);
    let kinds: Vec<_> = told.iter().map(|step| (step.kind, step.at)).collect();
    assert_eq!(
        kinds,
        [
            ("came", at(0)),
            ("given", at(6)),
            ("claimed", at(7)),
            ("said", at(8))
        ]
    );
    assert_eq!(
        told[0].what,
        format!("came from {OTHER}, through the relay {relay} for the skill echo")
    );
}

#[test]
fn how_the_other_node_is_reached_now_is_told() {
    let relay = "12D3KooWAAmJNyLA1vEpeSnSN3ixYPDtvqiQFiyHmRhwKzXBLGWq";
    let relayed = PeerReach {
        road: Road::Relay,
        relay: id(relay),
        relay_addresses: vec!["/ip4/198.51.100.1/tcp/4001".to_owned()],
        ..reach(true)
    };
    assert_eq!(
        road(Some(&relayed)),
        format!("{OTHER} is connected through the relay {relay}, at /ip4/198.51.100.1/tcp/4001")
    );
    assert_eq!(
        road(Some(&reach(true))),
        format!("{OTHER} is connected directly, at /ip4/192.0.2.1/tcp/4001")
    );
    assert_eq!(
        (road(Some(&reach(false))), road(None)),
        (String::new(), String::new())
    );
}

const URL: &str = "https://agents.example/echo";

fn done(second: u64, deed: OutsideDeed, detail: &str) -> OutsideStep {
    OutsideStep {
        at: at(second),
        last_at: at(second),
        count: 1,
        deed,
        url: URL.to_owned(),
        binding: "JSONRPC 1.0".to_owned(),
        detail: detail.to_owned(),
        failure: None,
        next_at: None,
    }
}

fn failed(second: u64, failure: OutsideFailure, detail: &str) -> OutsideStep {
    OutsideStep {
        failure: Some(failure),
        ..done(second, OutsideDeed::Failed, detail)
    }
}

fn by_url(status: TaskStatus, reason: &str, outside_steps: Vec<OutsideStep>) -> Trace {
    Trace {
        url: URL.to_owned(),
        peer: None,
        outside_steps,
        ..trace(Side::Outside, Some(task(status, reason)))
    }
}

#[test]
fn each_thing_that_was_done_for_a_task_by_url_is_told() {
    let mut sent = by_url(
        TaskStatus::Working,
        "",
        vec![
            done(
                1,
                OutsideDeed::CardRead,
                "https://agents.example/.well-known/agent-card.json",
            ),
            OutsideStep {
                last_at: at(9),
                count: 4,
                ..failed(2, OutsideFailure::Busy, "it answered HTTP 503")
            },
            done(10, OutsideDeed::Given, "r1"),
            OutsideStep {
                next_at: at(104),
                ..failed(30, OutsideFailure::Unreached, "it cannot be reached: refused")
            },
        ],
    );
    sent.outside_steps_left_out = 7;
    let metadata = &mut sent.task.as_mut().unwrap().metadata;
    metadata.insert("agentanycast-sealed-for".to_owned(), OTHER.to_owned());
    let told: Vec<_> = steps(&sent)
        .into_iter()
        .map(|step| (step.kind, step.what))
        .collect();
    let expected = [
        (
            "sent",
            format!("accepted for {URL} for the skill echo, sealed for {OTHER}"),
        ),
        (
            "card",
            format!(
                "the card at https://agents.example/.well-known/agent-card.json was read; the task goes to {URL} (JSONRPC 1.0)"
            ),
        ),
        (
            "left-out",
            "7 steps after the first are not kept any more".to_owned(),
        ),
        (
            "attempt-failed",
            format!("{URL} (JSONRPC 1.0): it answered HTTP 503; 4 times within 7 s"),
        ),
        ("taken", format!("{URL} (JSONRPC 1.0) took it, as its task r1")),
        (
            "attempt-failed",
            format!("{URL} (JSONRPC 1.0): it cannot be reached: refused; it is tried again in 4 s"),
        ),
    ];
    assert_eq!(told, expected);
    let says = explain(&sent).says;
    assert!(
        says.contains("the last attempt failed: it cannot be reached: refused; it is tried again in 4 s"),
        "{says}"
    );
}

#[test]
fn how_it_stands_with_a_task_by_url_has_its_answer_and_advice() {
    let card = || done(1, OutsideDeed::CardRead, "https://agents.example/card.json");
    let no_card = OutsideStep {
        binding: String::new(),
        ..failed(
            2,
            OutsideFailure::Final,
            "there is no agent card at https://agents.example",
        )
    };
    let doubt = OutsideStep {
        failure: Some(OutsideFailure::Broken),
        ..done(2, OutsideDeed::InDoubt, "the connection broke off")
    };
    use TaskStatus::{Failed, Submitted, Working};
    for (status, done, says, advice) in [
        (
            Submitted,
            vec![],
            "no attempt has ended yet",
            "reachable from this host",
        ),
        (
            Submitted,
            vec![card()],
            "which has not answered yet",
            "[bridge.outbound] timeout",
        ),
        (
            Submitted,
            vec![card(), failed(2, OutsideFailure::Unreached, "refused")],
            "the last attempt failed: refused",
            "it goes on by itself",
        ),
        (
            Submitted,
            vec![card(), failed(2, OutsideFailure::Busy, "HTTP 503")],
            "HTTP 503",
            "asked again",
        ),
        (
            Submitted,
            vec![card(), doubt.clone()],
            "it is not known whether",
            "looked for",
        ),
        (
            Working,
            vec![card(), done(2, OutsideDeed::Given, "r1")],
            "as its task r1",
            "`anycast trace r1`",
        ),
        (Failed, vec![no_card], "boom", "no card of an agent"),
        (
            Failed,
            vec![failed(2, OutsideFailure::Unreached, "refused")],
            "boom",
            "send it again",
        ),
        (Failed, vec![card(), doubt], "boom", "look there"),
        (
            Failed,
            vec![failed(2, OutsideFailure::Final, "HTTP 500")],
            "boom",
            "it fails again",
        ),
    ] {
        let reason = if status == Failed { "boom" } else { "" };
        let remote = done.iter().find(|step| step.deed == OutsideDeed::Given);
        let trace = Trace {
            remote_task: remote.map(|step| step.detail.clone()).unwrap_or_default(),
            ..by_url(status, reason, done)
        };
        let answer = explain(&trace);
        let verdict = if status == Failed {
            "undelivered"
        } else {
            "outside"
        };
        assert_eq!(answer.verdict, verdict);
        assert!(answer.says.contains(says), "{answer:?}");
        assert!(
            answer.advice.as_ref().is_some_and(|text| text.contains(advice)),
            "{answer:?}"
        );
    }
    // Of a sealed one the agent's node can be asked by the same id.
    let mut sealed = by_url(Working, "", vec![card(), done(2, OutsideDeed::Given, "r1")]);
    let metadata = &mut sealed.task.as_mut().unwrap().metadata;
    metadata.insert("agentanycast-sealed-for".to_owned(), OTHER.to_owned());
    sealed.sealed_task = "t".to_owned();
    let advice = explain(&sealed).advice.unwrap();
    assert!(
        advice.contains(&format!("`anycast trace t` at the node {OTHER}")),
        "{advice}"
    );
}

#[test]
fn how_a_task_by_url_ended_is_told_in_the_words_for_all_tasks() {
    use TaskStatus::{Canceled, Completed, Failed, Rejected};
    let given = || done(1, OutsideDeed::Given, "r1");
    let card = || done(1, OutsideDeed::CardRead, "https://agents.example/card.json");
    let no = |failure| vec![card(), failed(2, failure, "it answered HTTP 400: no")];
    let no_card = OutsideStep {
        binding: String::new(),
        ..failed(2, OutsideFailure::Unauthorized, "its card: it answered HTTP 401")
    };
    for (status, done, verdict, says, advice) in [
        (Completed, vec![given()], "completed", "is completed: boom", ""),
        (Canceled, vec![given()], "canceled", "is canceled: boom", ""),
        (
            Rejected,
            vec![given()],
            "refused",
            "and the agent outside refused it: boom",
            "`anycast trace r1`",
        ),
        (
            Failed,
            vec![given()],
            "failed",
            "is failed: boom",
            "`anycast trace r1`",
        ),
        (
            Failed,
            no(OutsideFailure::Refused),
            "refused",
            "and the agent outside refused it: boom",
            "it fails again",
        ),
        (
            Failed,
            no(OutsideFailure::Unauthorized),
            "refused",
            "and the agent outside refused it: boom",
            "[bridge.outbound.HOST]",
        ),
        (
            Failed,
            vec![no_card],
            "undelivered",
            "is failed: boom",
            "[bridge.outbound.HOST]",
        ),
    ] {
        let remote = done.iter().find(|step| step.deed == OutsideDeed::Given);
        let trace = Trace {
            remote_task: remote.map(|step| step.detail.clone()).unwrap_or_default(),
            ..by_url(status, "boom", done)
        };
        let answer = explain(&trace);
        assert_eq!(answer.verdict, verdict, "{answer:?}");
        assert!(answer.says.contains(says), "{answer:?}");
        let told = answer.advice.unwrap_or_default();
        assert!(
            told.contains(advice) && told.is_empty() == advice.is_empty(),
            "{told}"
        );
    }
}

/// A cancel that the agent does not take changes nothing here, and is told.
#[test]
fn an_agent_that_could_not_be_told_that_its_task_is_over_is_named() {
    let untold = |next_at| OutsideStep {
        failure: Some(OutsideFailure::Final),
        next_at,
        ..done(5, OutsideDeed::NotWithdrawn, "it answered HTTP 500: oops")
    };
    for (next_at, says, advice) in [
        (
            None,
            "may go on with it: it answered HTTP 500: oops",
            "end its task r1 there",
        ),
        (at(104), "oops; it is tried again in 4 s", "it is told again"),
    ] {
        let trace = Trace {
            remote_task: "r1".to_owned(),
            ..by_url(
                TaskStatus::Canceled,
                "",
                vec![done(1, OutsideDeed::Given, "r1"), untold(next_at)],
            )
        };
        let answer = explain(&trace);
        assert_eq!(answer.verdict, "canceled");
        assert!(
            answer.says.contains("is canceled; ") && answer.says.contains(says),
            "{answer:?}"
        );
        assert!(answer.advice.unwrap().contains(advice));
        let told = steps(&trace);
        let told = told.iter().find(|step| step.kind == "not-withdrawn").unwrap();
        assert!(
            told.what.starts_with(&format!(
                "{URL} (JSONRPC 1.0) could not be told that the task is over: it answered HTTP 500"
            )),
            "{told:?}"
        );
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

#[test]
fn what_an_agent_calls_its_task_is_in_no_command_unless_it_is_plain() {
    for odd in ["x`; rm -rf ~ #", "--help", "a b", &"x".repeat(200)] {
        let trace = Trace {
            remote_task: odd.to_owned(),
            ..by_url(TaskStatus::Working, "", vec![done(2, OutsideDeed::Given, odd)])
        };
        let advice = explain(&trace).advice.unwrap();
        assert!(!advice.contains(odd), "{advice}");
    }
}
