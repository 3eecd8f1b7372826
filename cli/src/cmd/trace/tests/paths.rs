//! The steps of a task, and what each went over.

use super::*;

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
        ..trace(TaskSide::Originator, Some(task(TaskStatus::Submitted, "")))
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
        ..trace(TaskSide::Assignee, Some(came))
    };
    assert!(told(&came)[1].1.starts_with(&format!("came from {second}")));
}

#[test]
fn steps_are_in_the_order_of_time() {
    let mut moved = task(TaskStatus::Submitted, "");
    moved.attempts.push(Attempt {
        peer: id(ME),
        reason: "not acknowledged within 3 s".to_owned(),
    });
    let mut trace = trace(TaskSide::Originator, Some(moved));
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
        Some(SendRecord {
            at: at(at_second),
            over: Hop {
                via: road,
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
        attempts_sent: vec![over(1, PathKind::Direct, None)],
        sent: over(4, PathKind::Relay, Some(relay)),
        arrived_at: at(5),
        ..trace(TaskSide::Originator, Some(moved))
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
        came_over: over(0, PathKind::Relay, Some(relay)).map(|sent| sent.over),
        given_at: at(6),
        claimed_at: at(7),
        agent_ends: 2,
        turns: vec![(at(0), Role::User), (at(8), Role::Agent)],
        ..trace(TaskSide::Assignee, Some(came))
    };
    let told = steps(&came);
    let kinds: Vec<_> = told.iter().map(|step| (step.kind, step.at)).collect();
    assert_eq!(
        kinds,
        [
            ("came", at(0)),
            ("given", at(6)),
            ("agent-ended", at(6)),
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
        via: PathKind::Relay,
        relay: id(relay),
        relay_addresses: vec!["/ip4/198.51.100.1/tcp/4001".to_owned()],
        ..reach(true)
    };
    assert_eq!(
        path_text(Some(&relayed)),
        format!("{OTHER} is connected through the relay {relay}, at /ip4/198.51.100.1/tcp/4001")
    );
    assert_eq!(
        path_text(Some(&reach(true))),
        format!("{OTHER} is connected directly, at /ip4/192.0.2.1/tcp/4001")
    );
    assert_eq!(
        (path_text(Some(&reach(false))), path_text(None)),
        (String::new(), String::new())
    );
}
