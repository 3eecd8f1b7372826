//! Tasks that were not taken, there or here.

use super::*;

#[test]
fn who_refused_it_is_not_said_to_have_logged_it_each_time() {
    let refused = trace(TaskSide::Originator, Some(task(TaskStatus::Rejected, "no")));
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
            TaskSide::Originator,
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
            let plain = explain(&trace(TaskSide::External, Some(ended.clone())));
            assert_ne!(plain.advice.as_deref(), Some(advice.as_str()));
            ended
                .metadata
                .insert("agentanycast-sealed-for".to_owned(), OTHER.to_owned());
            let outside = explain(&trace(TaskSide::External, Some(ended)));
            assert_eq!(outside.advice.as_deref(), Some(advice.as_str()));
        }
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
            ..trace(TaskSide::Unknown, None)
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

/// No rule lets in what has a key that was replaced.
#[test]
fn of_a_key_that_was_replaced_no_rules_are_told() {
    let mut logged = audit("deny").unwrap();
    logged.lines[0] = logged.lines[0].replace("acl 2", "key replaced");
    let refusal = Refusal {
        at: at(5),
        peer: id(OTHER),
        by_peer: false,
        task_id: "t9".to_owned(),
        reason: format!("this key was replaced by that of {ME}; send it from there"),
        count: 1,
        unproven: Vec::new(),
    };
    for audit in [Some(logged), None] {
        let answer = explain(&Trace {
            audit,
            refusals: vec![refusal.clone()],
            ..trace(TaskSide::Unknown, None)
        });
        let advice = answer.advice.unwrap();
        assert!(
            answer.says.contains("replaced") && answer.says.contains(OTHER),
            "{}",
            answer.says
        );
        assert!(
            advice.contains("the new key") && !advice.contains("policy check"),
            "{advice}"
        );
    }
}

#[test]
fn as_whom_a_source_was_seen_is_said() {
    let said = |audit| {
        let trace = Trace {
            audit,
            ..trace(TaskSide::Unknown, None)
        };
        steps(&trace).pop().unwrap().what
    };
    assert!(said(audit("allow")).ends_with(OTHER));
    let mut seen = audit("allow").unwrap();
    seen.lines[0].insert_str(1, "\"as\":\"did:web:a\",");
    assert!(said(Some(seen)).ends_with(", seen as did:web:a"));
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
        unproven: Vec::new(),
    };
    let closed = "the message is not taken: the box cannot be opened";
    let unaudited = agentanycast_core::policy::DecisionReason::Audit.message();
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
        ("", &unaudited, "refused", "audit log", "make room"),
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
            ..trace(TaskSide::Unknown, None)
        };
        let answer = explain(&trace);
        assert_eq!(answer.verdict, verdict, "{answer:?}");
        assert!(answer.says.contains(says), "{answer:?}");
        assert!(answer.advice.unwrap().contains(advice));
        let told = steps(&trace).pop().unwrap();
        // What the log tells is told once.
        if verdict == "denied" {
            assert_eq!(told.kind, "denied");
            continue;
        }
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

/// Whoever runs the node sees as whom the sender was not seen.
#[test]
fn what_did_not_count_of_the_sender_is_told() {
    let refusal = |peer: &str, unproven: &[&str]| Refusal {
        at: at(5),
        peer: id(peer),
        by_peer: false,
        task_id: "t9".to_owned(),
        reason: "not allowed (acl 2)".to_owned(),
        count: 1,
        unproven: unproven.iter().map(ToString::to_string).collect(),
    };
    let why = "did:web:a.example: what is published for it cannot be had: it answered 404";
    for decision in ["", "deny"] {
        let trace = |refusals| Trace {
            audit: audit(decision).filter(|_| !decision.is_empty()),
            refusals,
            ..trace(TaskSide::Unknown, None)
        };
        let told = trace(vec![refusal(OTHER, &[why, "the credential of did:key:z: no"])]);
        let answer = explain(&told);
        let all = format!("did not count: {why}; the credential of did:key:z: no");
        assert!(answer.says.ends_with(&all), "{answer:?}");
        if decision.is_empty() {
            assert!(steps(&told).pop().unwrap().what.contains(&all));
        } else {
            assert!(answer.advice.unwrap().contains("put right what did not count"));
        }
        let plain = explain(&trace(vec![refusal(OTHER, &[])]));
        assert!(!plain.says.contains("count"), "{plain:?}");
    }
    // What another one said under the same id has nothing to do with it.
    let others = Trace {
        audit: audit("deny"),
        refusals: vec![refusal(ME, &[why])],
        ..trace(TaskSide::Unknown, None)
    };
    let answer = explain(&others);
    assert!(!answer.says.contains(why), "{answer:?}");
    assert_eq!(super::super::refusal(&others.refusals[0])["unproven"][0], why);
}
