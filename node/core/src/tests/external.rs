//! Tasks that go to agents beyond this network: kept like any other, rung for when something is to be done, and open to
//! nobody but the gateway.

use std::time::Duration;

use agentanycast_proto::v1::{ExternalAction, ExternalStep, MessageRole};

use super::{
    cluster::{A, TestCluster},
    harness::{artifact, text},
};
use crate::{
    ExternalUpdate, SendTask,
    task::{MAX_CHECKPOINT, Status},
    transaction::EngineError,
    wire::text_of,
};
use Status::{Canceled, Completed, Failed, InputRequired, Submitted, Working};

const URL: &str = "https://agents.example.org/weather";

fn begin(lab: &mut TestCluster, request: SendTask) -> Result<String, EngineError> {
    let request = SendTask {
        url: URL.to_owned(),
        message: text("m1", "do it"),
        ..request
    };
    Ok(lab.call(A, |core, now| core.send_task(now, request))?.id)
}

fn say(lab: &mut TestCluster, id: &str, said: ExternalUpdate) -> Status {
    lab.call(A, |core, now| core.apply_external_update(now, id, said))
        .unwrap()
}

fn change(status: Status, message: Option<&str>) -> ExternalUpdate {
    ExternalUpdate {
        changes: vec![(status, message.map(|id| text(id, id)))],
        ..ExternalUpdate::default()
    }
}

#[test]
fn it_is_rung_for_and_no_agent_of_this_node_gets_it() {
    let mut lab = TestCluster::new();
    lab.listen(A);
    let id = begin(&mut lab, SendTask::default()).unwrap();
    assert_eq!(
        (lab.external_due.as_slice(), lab.incoming.len()),
        (&[id.clone()][..], 0)
    );
    assert_eq!(lab.status(A, &id), Submitted);
    for refused in [lab.update(A, &id, Working), lab.complete(A, &id, "x")] {
        assert!(matches!(refused, Err(EngineError::Denied(_))), "{refused:?}");
    }
    let local = lab.send(A, lab.id(A), SendTask::default()).unwrap().id;
    let refused = lab.call(A, |core, now| {
        core.apply_external_update(now, &local, change(Completed, None))
    });
    assert!(matches!(refused, Err(EngineError::Denied(_))), "{refused:?}");
}

#[test]
fn what_is_heard_is_told_in_order() {
    let mut lab = TestCluster::new();
    let id = begin(&mut lab, SendTask::default()).unwrap();
    let said = ExternalUpdate {
        artifacts: vec![artifact("a", "1")],
        changes: vec![
            (Working, Some(text("p", "p"))),
            (InputRequired, Some(text("q", "q"))),
        ],
        ..ExternalUpdate::default()
    };
    assert_eq!(say(&mut lab, &id, said), InputRequired);
    assert_eq!(lab.seen(A, &id), [Working, Working, InputRequired]);
    assert_eq!(lab.changes[0].1.results[0].id(), "a");
    // What has grown is told again.
    let grown = ExternalUpdate {
        artifacts: vec![artifact("a", "12")],
        ..ExternalUpdate::default()
    };
    say(&mut lab, &id, grown);
    let last = lab.changes.last().unwrap();
    assert_eq!((last.1.results.len(), last.1.message.is_none()), (1, true));
    let end = ExternalUpdate {
        settled: true,
        ..change(Completed, Some("done"))
    };
    lab.external_due.clear();
    assert_eq!(say(&mut lab, &id, end), Completed);
    assert!(lab.external_due.is_empty(), "nothing is left to be done");
    let words: Vec<String> = lab
        .view(A, &id)
        .messages
        .iter()
        .map(|message| text_of(message))
        .collect();
    assert_eq!(words, ["do it", "p", "q", "done"]);
}

#[test]
fn an_artifact_is_complete_when_its_agent_or_the_end_says_so() {
    use crate::task::ArtifactGrowth::{Complete, Open, Unfinished};
    let mut lab = TestCluster::new();
    for (end, last) in [(Completed, Complete), (Failed, Unfinished)] {
        let id = begin(&mut lab, SendTask::default()).unwrap();
        let came = |artifacts: &[(&str, &str)], growing: &[&str]| ExternalUpdate {
            artifacts: artifacts.iter().map(|(id, text)| artifact(id, text)).collect(),
            growing: growing.iter().map(|id| (*id).to_owned()).collect(),
            ..ExternalUpdate::default()
        };
        say(
            &mut lab,
            &id,
            came(&[("a", "1"), ("b", "1"), ("c", "1")], &["a", "b"]),
        );
        say(&mut lab, &id, came(&[("b", "12")], &[]));
        lab.restart(A);
        let growth = |lab: &mut TestCluster| {
            let task = lab.view(A, &id);
            ["a", "b", "c"].map(|artifact| task.growth(artifact))
        };
        assert_eq!(growth(&mut lab), [Some(Open), Some(Complete), None]);
        say(&mut lab, &id, change(end, None));
        assert_eq!(growth(&mut lab), [Some(last), Some(Complete), None]);
    }
}

#[test]
fn an_answer_and_a_cancel_are_rung_for() {
    let mut lab = TestCluster::new();
    let id = begin(&mut lab, SendTask::default()).unwrap();
    say(&mut lab, &id, change(InputRequired, Some("q")));
    lab.external_due.clear();
    let mut message = text("m2", "the red one");
    message.role = MessageRole::Agent.into();
    let answer = SendTask {
        task_id: id.clone(),
        message,
        ..SendTask::default()
    };
    lab.call(A, |core, now| core.send_task(now, answer)).unwrap();
    assert_eq!(lab.external_due, std::slice::from_ref(&id));
    let task = lab.view(A, &id);
    assert_eq!(task.status, Working);
    assert_eq!(
        task.messages.last().unwrap().role(),
        MessageRole::User,
        "by this it is known as ours"
    );
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    assert_eq!(lab.external_due, [id.clone(), id.clone()]);
    // What comes late changes nothing but the gateway's note.
    let late = ExternalUpdate {
        checkpoint: Some(vec![7]),
        settled: true,
        ..change(Completed, None)
    };
    assert_eq!(say(&mut lab, &id, late), Canceled);
    assert_eq!(lab.view(A, &id).external.unwrap().checkpoint, [7]);
}

#[test]
fn what_was_done_is_kept_with_it_and_over_a_start() {
    let mut lab = TestCluster::new();
    let id = begin(&mut lab, SendTask::default()).unwrap();
    let did = |action: ExternalAction, detail: &str| ExternalStep {
        action: action.into(),
        count: 1,
        detail: detail.to_owned(),
        ..ExternalStep::default()
    };
    let steps = |action, detail| ExternalUpdate {
        steps: vec![did(action, detail)],
        ..ExternalUpdate::default()
    };
    for _ in 0..3 {
        say(&mut lab, &id, steps(ExternalAction::Failed, "HTTP 503"));
    }
    let taken = ExternalUpdate {
        checkpoint: Some(vec![1]),
        ..steps(ExternalAction::Accepted, "r1")
    };
    say(&mut lab, &id, taken);
    lab.restart(A);
    lab.call(A, |core, now| core.cancel(now, &id)).unwrap();
    say(&mut lab, &id, steps(ExternalAction::Withdrawn, "r1"));
    lab.restart(A);
    let found = lab.nodes[A].core.inspect_task(lab.now, &id).unwrap();
    let trail = found.task.external.unwrap().log;
    let told: Vec<_> = trail
        .steps
        .iter()
        .map(|step| (step.action(), step.count))
        .collect();
    assert_eq!(
        told,
        [
            (ExternalAction::Failed, 3),
            (ExternalAction::Accepted, 1),
            (ExternalAction::Withdrawn, 1)
        ]
    );
    assert_eq!(trail.remote, "r1");
    assert_eq!(lab.view(A, &id).status, Canceled);
}

#[test]
fn what_is_not_settled_is_rung_for_after_a_start() {
    let mut lab = TestCluster::new();
    let open = begin(&mut lab, SendTask::default()).unwrap();
    let canceled = begin(&mut lab, SendTask::default()).unwrap();
    let done = begin(&mut lab, SendTask::default()).unwrap();
    let noted = ExternalUpdate {
        checkpoint: Some(vec![1, 2]),
        ..change(Working, None)
    };
    say(&mut lab, &open, noted);
    lab.call(A, |core, now| core.cancel(now, &canceled)).unwrap();
    let end = ExternalUpdate {
        settled: true,
        ..change(Completed, None)
    };
    say(&mut lab, &done, end);
    lab.external_due.clear();
    lab.restart(A);
    lab.external_due.sort();
    let mut expected = [open.clone(), canceled];
    expected.sort();
    assert_eq!(lab.external_due, expected);
    let outside = lab.view(A, &open).external.unwrap();
    assert_eq!(
        (
            outside.url.as_str(),
            outside.checkpoint.as_slice(),
            outside.settled
        ),
        (URL, &[1, 2][..], false)
    );
}

#[test]
fn every_end_is_possible_and_a_deadline_is_one() {
    let mut lab = TestCluster::new();
    for end in [Status::Rejected, Canceled, Failed, Completed] {
        for before in [Submitted, Working, InputRequired] {
            let id = begin(&mut lab, SendTask::default()).unwrap();
            if before != Submitted {
                say(&mut lab, &id, change(before, None));
            }
            assert_eq!(
                say(&mut lab, &id, change(end, Some("why"))),
                end,
                "after {before}"
            );
            assert_eq!(lab.reason(A, &id), "why");
        }
    }
    let metadata = [("deadline".to_owned(), "2026-01-01T00:00:05Z".to_owned())];
    let request = SendTask {
        metadata: metadata.into(),
        ..SendTask::default()
    };
    let id = begin(&mut lab, request).unwrap();
    lab.external_due.clear();
    lab.advance(Duration::from_secs(10));
    assert_eq!(
        (lab.status(A, &id), lab.external_due.as_slice()),
        (Failed, &[id][..])
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut lab = TestCluster::new();
    let id = begin(&mut lab, SendTask::default()).unwrap();
    for said in [
        ExternalUpdate {
            checkpoint: Some(vec![0; MAX_CHECKPOINT + 1]),
            ..ExternalUpdate::default()
        },
        ExternalUpdate {
            artifacts: vec![artifact("", "x")],
            ..ExternalUpdate::default()
        },
    ] {
        let refused = lab.call(A, |core, now| core.apply_external_update(now, &id, said));
        assert!(refused.is_err());
    }
    assert_eq!(lab.status(A, &id), Submitted);
    let elsewhere = SendTask {
        url: "https://elsewhere.example.org/".to_owned(),
        task_id: id,
        message: text("m2", "x"),
        ..SendTask::default()
    };
    let refused = lab.call(A, |core, now| core.send_task(now, elsewhere));
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
