//! Tasks that were sent by URL.

use super::*;

const URL: &str = "https://agents.example/echo";

fn done(second: u64, action: ExternalAction, detail: &str) -> ExternalStep {
    ExternalStep {
        at: at(second),
        last_at: at(second),
        count: 1,
        action,
        url: URL.to_owned(),
        binding: "JSONRPC 1.0".to_owned(),
        detail: detail.to_owned(),
        failure: None,
        next_at: None,
    }
}

fn failed(second: u64, failure: ExternalFailure, detail: &str) -> ExternalStep {
    ExternalStep {
        failure: Some(failure),
        ..done(second, ExternalAction::Failed, detail)
    }
}

fn by_url(status: TaskStatus, reason: &str, external_steps: Vec<ExternalStep>) -> Trace {
    Trace {
        url: URL.to_owned(),
        peer: None,
        external_steps,
        ..trace(TaskSide::External, Some(task(status, reason)))
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
                ExternalAction::CardRead,
                "https://agents.example/.well-known/agent-card.json",
            ),
            ExternalStep {
                last_at: at(9),
                count: 4,
                ..failed(2, ExternalFailure::Busy, "it answered HTTP 503")
            },
            done(10, ExternalAction::Accepted, "r1"),
            ExternalStep {
                next_at: at(104),
                ..failed(30, ExternalFailure::Unreached, "it cannot be reached: refused")
            },
        ],
    );
    sent.external_steps_left_out = 7;
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
    let card = || done(1, ExternalAction::CardRead, "https://agents.example/card.json");
    let no_card = ExternalStep {
        binding: String::new(),
        ..failed(
            2,
            ExternalFailure::Final,
            "there is no agent card at https://agents.example",
        )
    };
    let doubt = ExternalStep {
        failure: Some(ExternalFailure::Broken),
        ..done(2, ExternalAction::InDoubt, "the connection broke off")
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
            vec![card(), failed(2, ExternalFailure::Unreached, "refused")],
            "the last attempt failed: refused",
            "it goes on by itself",
        ),
        (
            Submitted,
            vec![card(), failed(2, ExternalFailure::Busy, "HTTP 503")],
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
            vec![card(), done(2, ExternalAction::Accepted, "r1")],
            "as its task r1",
            "`anycast trace r1`",
        ),
        (Failed, vec![no_card], "boom", "no card of an agent"),
        (
            Failed,
            vec![failed(2, ExternalFailure::Unreached, "refused")],
            "boom",
            "send it again",
        ),
        (Failed, vec![card(), doubt], "boom", "look there"),
        (
            Failed,
            vec![failed(2, ExternalFailure::Final, "HTTP 500")],
            "boom",
            "it fails again",
        ),
    ] {
        let reason = if status == Failed { "boom" } else { "" };
        let remote = done.iter().find(|step| step.action == ExternalAction::Accepted);
        let trace = Trace {
            remote_task: remote.map(|step| step.detail.clone()).unwrap_or_default(),
            ..by_url(status, reason, done)
        };
        let answer = explain(&trace);
        let verdict = if status == Failed {
            "undelivered"
        } else {
            "external"
        };
        assert_eq!(answer.verdict, verdict);
        assert!(answer.says.contains(says), "{answer:?}");
        assert!(
            answer.advice.as_ref().is_some_and(|text| text.contains(advice)),
            "{answer:?}"
        );
    }
    // Of a sealed one the agent's node can be asked by the same id.
    let mut sealed = by_url(Working, "", vec![card(), done(2, ExternalAction::Accepted, "r1")]);
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
    let given = || done(1, ExternalAction::Accepted, "r1");
    let card = || done(1, ExternalAction::CardRead, "https://agents.example/card.json");
    let no = |failure| vec![card(), failed(2, failure, "it answered HTTP 400: no")];
    let no_card = ExternalStep {
        binding: String::new(),
        ..failed(2, ExternalFailure::Unauthorized, "its card: it answered HTTP 401")
    };
    for (status, done, verdict, says, advice) in [
        (Completed, vec![given()], "completed", "is completed: boom", ""),
        (Canceled, vec![given()], "canceled", "is canceled: boom", ""),
        (
            Rejected,
            vec![given()],
            "refused",
            "and the external agent refused it: boom",
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
            no(ExternalFailure::Refused),
            "refused",
            "and the external agent refused it: boom",
            "it fails again",
        ),
        (
            Failed,
            no(ExternalFailure::Unauthorized),
            "refused",
            "and the external agent refused it: boom",
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
        let remote = done.iter().find(|step| step.action == ExternalAction::Accepted);
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
    let untold = |next_at| ExternalStep {
        failure: Some(ExternalFailure::Final),
        next_at,
        ..done(5, ExternalAction::NotWithdrawn, "it answered HTTP 500: oops")
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
                vec![done(1, ExternalAction::Accepted, "r1"), untold(next_at)],
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
fn what_an_agent_calls_its_task_is_in_no_command_unless_it_is_plain() {
    for odd in ["x`; rm -rf ~ #", "--help", "a b", &"x".repeat(200)] {
        let trace = Trace {
            remote_task: odd.to_owned(),
            ..by_url(
                TaskStatus::Working,
                "",
                vec![done(2, ExternalAction::Accepted, odd)],
            )
        };
        let advice = explain(&trace).advice.unwrap();
        assert!(!advice.contains(odd), "{advice}");
    }
}
