//! Who is let in: each way in asks once, replies belong to what was let in, refusals end the task where it came from,
//! and every decision is written down once.

use agentanycast_proto::v1::{AckOutcome, EnvelopeType, SendTaskPayload, a2a_envelope::Payload};

use super::{
    cluster::{A, B, C, TestCluster, numbered, plain, send_task, stranger},
    harness::text,
};
use crate::{EngineError, SendTask, tests::harness::limits};
use crate::{
    policy::{
        PolicyOutcome, PolicyRules, WrittenOverride, WrittenRule, WrittenRules, audit::log_line::TaskOrigin,
    },
    task::Status,
};

fn rule(source: &str, skill: &str, allow: bool) -> WrittenRule {
    WrittenRule {
        source: source.into(),
        skill: skill.into(),
        agent: "*".to_owned(),
        allow,
    }
}

fn rules(acl: &[WrittenRule]) -> PolicyRules {
    read(&WrittenRules {
        acl: acl.to_vec(),
        ..WrittenRules::default()
    })
}

fn read(policy: &WrittenRules) -> PolicyRules {
    PolicyRules::parse(policy).unwrap()
}

fn guard(lab: &mut TestCluster, node: usize, rules: PolicyRules) {
    lab.call(node, |core, _| Ok(core.set_rules(rules, true)?))
        .unwrap();
}

fn skill(name: &str) -> SendTask {
    SendTask {
        skill: name.into(),
        ..SendTask::default()
    }
}

fn from_caller(name: &str) -> SendTask {
    SendTask {
        metadata: [("a2a.caller".to_owned(), name.to_owned())].into(),
        ..SendTask::default()
    }
}

/// What was decided at a node, in order.
fn decided(lab: &TestCluster, node: usize) -> Vec<(PolicyOutcome, String, String)> {
    let there = lab.audited.iter().filter(|(at, _)| *at == node);
    there
        .map(|(_, entry)| {
            let by = entry.decision.reason.to_string();
            (entry.decision.outcome, by, entry.task.clone())
        })
        .collect()
}

#[test]
fn a_url_is_written_down_without_what_may_be_secret_in_it() {
    let mut lab = TestCluster::new();
    guard(&mut lab, A, rules(&[rule("local", "echo", true)]));
    for name in ["echo", "admin"] {
        let request = SendTask {
            url: "https://agents.example.org/weather?token=hunter2".to_owned(),
            message: text("m1", "do it"),
            ..skill(name)
        };
        let sent = lab.call(A, |core, now| core.send_task(now, request));
        assert_eq!(sent.is_ok(), name == "echo");
    }
    let targets: Vec<&str> = lab
        .audited
        .iter()
        .map(|(_, entry)| entry.target.as_str())
        .collect();
    assert_eq!(targets, ["https://agents.example.org/weather"; 2]);
}

#[test]
fn a_peer_that_no_rule_allows_ends_rejected_once() {
    let mut lab = TestCluster::pair();
    let a = lab.id(A).to_string();
    guard(&mut lab, B, rules(&[rule(&a, "echo", true)]));
    let agent = lab.listen(B);
    let b = lab.id(B);
    let allowed = lab.send(A, b, skill("echo")).unwrap().id;
    let denied = lab.send(A, b, skill("admin")).unwrap().id;
    assert_eq!(lab.status(A, &allowed), Status::Submitted);
    assert_eq!(lab.status(A, &denied), Status::Rejected);
    assert!(
        lab.reason(A, &denied).contains("no rule allows it"),
        "{}",
        lab.reason(A, &denied)
    );
    assert!(lab.handed_over(B, &denied).is_empty() && !lab.handed_over(B, &allowed).is_empty());
    assert!(lab.nodes[B].core.task(&denied).is_err(), "nothing is kept of it");
    // It is not sent again.
    let sent = lab.types_to(b).len();
    lab.advance(std::time::Duration::from_mins(1));
    assert_eq!(lab.types_to(b).len(), sent);
    assert_eq!(
        decided(&lab, B),
        [
            (PolicyOutcome::Allow, "acl 1".to_owned(), allowed),
            (PolicyOutcome::Deny, "acl default".to_owned(), denied),
        ]
    );
    let _ = agent;
}

#[test]
fn an_envelope_that_comes_again_is_not_decided_again() {
    let mut lab = TestCluster::pair();
    lab.join(B, stranger());
    let stranger_id = stranger().to_string();
    guard(&mut lab, B, rules(&[rule(&stranger_id, "", true)]));
    let denied = |id: &str| {
        Payload::SendTask(SendTaskPayload {
            task_id: id.into(),
            message: Some(text("m", "x")),
            target_skill_id: "admin".into(),
            ..SendTaskPayload::default()
        })
    };
    let envelopes = [
        plain("p-denied", denied("t1")),
        plain("p-allowed", send_task("t2")),
        numbered(1, denied("t3")),
        numbered(2, send_task("t4")),
    ];
    for _ in 0..3 {
        for envelope in &envelopes {
            lab.deliver(B, stranger(), envelope);
        }
    }
    let tasks: Vec<String> = decided(&lab, B).into_iter().map(|(.., task)| task).collect();
    assert_eq!(tasks, ["t1", "t2", "t3", "t4"]);
    for (envelope, outcome) in [
        ("p-denied", AckOutcome::Rejected),
        ("numbered-2", AckOutcome::Accepted),
    ] {
        assert_eq!(lab.acks_of(envelope).len(), 3);
        assert!(lab.acks_of(envelope).iter().all(|(found, _)| *found == outcome));
    }
    let entry = &lab.audited[0].1;
    assert_eq!(
        (entry.envelope.as_str(), entry.transport),
        ("p-denied", TaskOrigin::P2p)
    );
    assert_eq!(
        (entry.source.as_str(), entry.skill.as_str()),
        (stranger_id.as_str(), "admin")
    );
    assert_eq!(entry.target, lab.id(B).to_string());
}

#[test]
fn what_belongs_to_a_task_that_was_let_in_is_allowed_whatever_the_rules_become() {
    let mut lab = TestCluster::pair();
    let agent = lab.listen(B);
    guard(&mut lab, B, PolicyRules::default());
    let id = lab.task();
    lab.update(B, &id, Status::Working).unwrap();
    lab.update(B, &id, Status::InputRequired).unwrap();
    for node in [A, B] {
        guard(&mut lab, node, rules(&[rule("*", "*", false)]));
    }
    let answer = SendTask {
        task_id: id.clone(),
        message: text("m2", "this one"),
        ..SendTask::default()
    };
    let b = lab.id(B);
    lab.send(A, b, answer).unwrap();
    assert_eq!(lab.status(B, &id), Status::Working);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
    assert_eq!(decided(&lab, B).len(), 1);
    assert!(matches!(
        lab.send(A, b, SendTask::default()),
        Err(EngineError::Denied(_))
    ));
    let _ = agent;
}

/// A further message of a task that is no more begins no other one, and is no way around the rules.
#[test]
fn a_further_message_is_no_way_in() {
    let mut lab = TestCluster::pair();
    lab.join(B, stranger());
    guard(&mut lab, B, rules(&[rule("local", "*", true)]));
    let further = Payload::SendTask(SendTaskPayload {
        task_id: "gone".into(),
        message: Some(text("m", "x")),
        further: true,
        ..SendTaskPayload::default()
    });
    lab.deliver(B, stranger(), &numbered(1, further));
    assert_eq!(lab.acks_of("numbered-1")[0].0, AckOutcome::Rejected);
    // Nor is the id of somebody else's task.
    let b = lab.id(B);
    let own = lab.send(B, b, SendTask::default()).unwrap().id;
    lab.deliver(B, stranger(), &numbered(2, send_task(&own)));
    assert_eq!(lab.acks_of("numbered-2")[0].0, AckOutcome::Rejected);
    assert_eq!(lab.view(B, &own).messages.len(), 1);
}

#[test]
fn own_agent_and_bridge_callers_are_asked_about_too() {
    let mut lab = TestCluster::pair();
    guard(
        &mut lab,
        A,
        rules(&[rule("http:alice", "", true), rule("local", "echo", true)]),
    );
    let b = lab.id(B);
    let by_alice = lab.send(A, b, from_caller("alice")).unwrap().id;
    let by_bob = lab.send(A, b, from_caller("bob")).unwrap_err();
    assert!(
        matches!(&by_bob, EngineError::Denied(why) if why.contains("policy")),
        "{by_bob}"
    );
    let own = lab.send(A, b, skill("echo")).unwrap().id;
    let other = lab.send(A, b, skill("admin")).unwrap_err();
    assert!(matches!(other, EngineError::Denied(_)));
    let long = lab.send(A, b, from_caller(&"x".repeat(2000))).unwrap_err();
    assert!(matches!(long, EngineError::Invalid(_)));
    let lines: Vec<(&str, TaskOrigin, &str)> = lab
        .audited
        .iter()
        .map(|(_, entry)| (entry.source.as_str(), entry.transport, entry.task.as_str()))
        .collect();
    assert_eq!(
        lines,
        [
            ("http:alice", TaskOrigin::Bridge, by_alice.as_str()),
            ("http:bob", TaskOrigin::Bridge, ""),
            ("local", TaskOrigin::Local, own.as_str()),
            ("local", TaskOrigin::Local, ""),
        ]
    );
    // The envelope in the line is the one that went out.
    let sent = lab.last_to(b, EnvelopeType::SendTask).envelope_id;
    assert_eq!(lab.audited[2].1.envelope, sent);
}

/// What a peer calls itself in its labels is nobody's name here.
#[test]
fn a_peer_cannot_pass_for_a_caller_of_the_bridge() {
    let mut lab = TestCluster::pair();
    guard(
        &mut lab,
        B,
        rules(&[rule("http:alice", "*", true), rule("local", "*", true)]),
    );
    let b = lab.id(B);
    for forged in [from_caller("alice"), from_caller("local")] {
        let id = lab.send(A, b, forged).unwrap().id;
        assert_eq!(lab.status(A, &id), Status::Rejected);
    }
}

#[test]
fn limits_hold_for_each_source_by_itself_and_end_with_its_tasks() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    for (one, other) in [(A, B), (C, B)] {
        let (x, y) = (lab.id(one), lab.id(other));
        lab.join(one, y);
        lab.join(other, x);
    }
    let b = lab.id(B);
    let policy = WrittenRules {
        max_in_flight: 2,
        ..WrittenRules::default()
    };
    guard(&mut lab, B, read(&policy));
    let ids: Vec<String> = (0..3)
        .map(|_| lab.send(A, b, SendTask::default()).unwrap().id)
        .collect();
    assert_eq!(lab.status(A, &ids[2]), Status::Rejected);
    assert!(
        lab.reason(A, &ids[2]).contains("2 tasks of this source are open"),
        "{}",
        lab.reason(A, &ids[2])
    );
    let other = lab.send(C, b, SendTask::default()).unwrap().id;
    assert_eq!(lab.status(C, &other), Status::Submitted);
    lab.complete(B, &ids[0], "done").unwrap();
    let next = lab.send(A, b, SendTask::default()).unwrap().id;
    assert_eq!(lab.status(A, &next), Status::Submitted);
    assert_eq!(decided(&lab, B)[2].0, PolicyOutcome::RateLimit);
}

#[test]
fn own_callers_are_counted_also_over_a_restart_and_new_rules() {
    let mut lab = TestCluster::pair();
    let b = lab.id(B);
    let policy = WrittenRules {
        max_in_flight: 5,
        overrides: vec![WrittenOverride {
            source: "http:alice".into(),
            rps: None,
            max_in_flight: Some(1),
            max_bytes: None,
        }],
        ..WrittenRules::default()
    };
    let first = lab.send(A, b, from_caller("alice")).unwrap().id;
    for _ in 0..2 {
        guard(&mut lab, A, read(&policy));
        let full = lab.send(A, b, from_caller("alice")).unwrap_err();
        assert!(matches!(full, EngineError::Exhausted(_)), "{full}");
        lab.send(A, b, from_caller("bob")).unwrap();
        lab.restart(A);
        lab.connect();
    }
    guard(&mut lab, A, read(&policy));
    lab.call(A, |core, now| core.cancel(now, &first)).unwrap();
    lab.send(A, b, from_caller("alice")).unwrap();
    lab.send(A, b, from_caller("alice")).unwrap_err();
}

#[test]
fn bytes_of_open_tasks_are_bounded() {
    let mut lab = TestCluster::pair();
    let policy = WrittenRules {
        max_bytes: 3000,
        ..WrittenRules::default()
    };
    let (a, b) = (lab.id(A), lab.id(B));
    for node in [A, B] {
        guard(&mut lab, node, read(&policy));
    }
    let of = |bytes: usize| SendTask {
        message: text("m", &"x".repeat(bytes)),
        ..SendTask::default()
    };
    let large = || of(2000);
    // One that never fits is refused though nothing is open.
    assert!(matches!(lab.send(A, b, of(3000)), Err(EngineError::Exhausted(_))));
    // Both sides count what their own sources have: A its agent, B the peer.
    let first = lab.send(A, b, large()).unwrap().id;
    assert!(matches!(lab.send(A, b, large()), Err(EngineError::Exhausted(_))));
    guard(&mut lab, A, PolicyRules::default());
    let second = lab.send(A, b, large()).unwrap().id;
    assert_eq!(lab.status(A, &second), Status::Rejected);
    let back = lab.send(B, a, large()).unwrap().id;
    assert_eq!(lab.status(B, &back), Status::Submitted);
    lab.complete(B, &first, "done").unwrap();
    let third = lab.send(A, b, large()).unwrap().id;
    assert_eq!(lab.status(A, &third), Status::Submitted);
}

#[test]
fn while_decisions_cannot_be_written_nobody_comes_in_and_what_runs_goes_on() {
    let mut lab = TestCluster::pair();
    let agent = lab.listen(B);
    let b = lab.id(B);
    guard(&mut lab, B, PolicyRules::default());
    let running = lab.task();
    lab.nodes[B].core.admission_mut().set_blocked(true);
    let late = lab.task();
    assert_eq!(lab.status(A, &late), Status::Rejected);
    assert!(lab.reason(A, &late).contains("audit log"));
    assert!(matches!(
        lab.send(B, b, SendTask::default()),
        Err(EngineError::Exhausted(_))
    ));
    lab.complete(B, &running, "done").unwrap();
    assert_eq!(lab.status(A, &running), Status::Completed);
    lab.nodes[B].core.admission_mut().set_blocked(false);
    let again = lab.task();
    assert_eq!(lab.status(A, &again), Status::Submitted);
    let _ = agent;
}

#[test]
fn without_rules_and_log_nothing_is_asked() {
    let mut lab = TestCluster::pair();
    lab.call(B, |core, _| Ok(core.set_rules(PolicyRules::default(), false)?))
        .unwrap();
    assert!(!lab.nodes[B].core.admission().is_enabled());
    let id = lab.task();
    assert_eq!(lab.status(A, &id), Status::Submitted);
    assert!(lab.audited.is_empty());
}

#[test]
fn rules_may_be_about_one_agent_and_others_are_not_told_its_name() {
    let mut lab = TestCluster::pair();
    let (from, to) = (lab.id(A).to_string(), lab.id(B));
    let of_agent = |agent: &str, allow| WrittenRule {
        agent: agent.to_owned(),
        ..rule(&from, "*", allow)
    };
    guard(
        &mut lab,
        B,
        rules(&[of_agent("vault", false), of_agent("*", true)]),
    );
    for name in ["painter", "vault"] {
        let card = agentanycast_proto::v1::AgentCard {
            name: name.to_owned(),
            ..Default::default()
        };
        lab.call(B, |core, now| {
            core.register_agent(now, name, card, false, crate::RegistrationAccess::AsBefore)
        })
        .unwrap();
    }
    let mut ask = |target: &str| {
        let request = SendTask {
            target_agent: target.to_owned(),
            ..SendTask::default()
        };
        let id = lab.send(A, to, request).unwrap().id;
        (lab.status(A, &id), lab.reason(A, &id))
    };
    assert_eq!(ask("painter").0, Status::Submitted);
    assert_eq!(ask("").0, Status::Submitted, "the primary agent is the painter");
    let (status, reason) = ask("vault");
    assert_eq!(status, Status::Rejected);
    assert!(reason.contains("acl 1"), "{reason}");
    let (_, reason) = ask("nobody");
    assert_eq!(reason, "no agent \"nobody\" here; there are: painter");
}
