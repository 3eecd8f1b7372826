//! Notes of tasks: kept over a crash, told when their task changes, gone with it.

use std::time::Duration;

use agentanycast_store::Store as _;

use super::{
    cluster::{A, B, TestCluster},
    harness::limits,
};
use crate::{
    Note, SendTask, TaskQuery,
    schema::tag,
    transaction::{EngineError, EngineLimits},
};

fn note(name: &str, open: bool) -> Note {
    Note {
        name: name.to_owned(),
        owner: "alice".to_owned(),
        content: b"x".to_vec(),
        open,
        version: 0,
    }
}

fn put(lab: &mut TestCluster, task: &str, note: Note, if_version: Option<u64>) -> Result<u64, EngineError> {
    lab.call(A, |core, _| core.put_note(task, note, if_version))
}

#[test]
fn a_note_outlives_a_crash_and_goes_with_its_task() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        retention_count: 0,
        ..limits()
    });
    let me = lab.id(A);
    let task = lab.send(A, me, SendTask::default()).unwrap().id;
    let version = put(&mut lab, &task, note("a", true), None).unwrap();
    lab.restart(A);
    let notes = lab.nodes[A].core.notes_of(&task).unwrap();
    assert_eq!((notes[0].name.as_str(), notes[0].version), ("a", version));
    assert_eq!(
        lab.nodes[A].core.external().tasks_with_open_notes(),
        [task.as_str()]
    );

    lab.complete(A, &task, "r").unwrap();
    lab.advance(Duration::from_secs(2));
    assert!(matches!(
        put(&mut lab, &task, note("a", true), None),
        Err(EngineError::NotFound(_))
    ));
    assert!(lab.nodes[A].core.external().tasks_with_open_notes().is_empty());
    let left = lab.nodes[A].store.scan(&[tag::NOTE], None, 10).unwrap();
    assert!(left.is_empty());
}

/// A message is taken with its note, or not at all.
#[test]
fn a_note_that_comes_with_a_message_is_as_durable_as_it() {
    let mut lab = TestCluster::pair();
    let to = lab.id(B);
    let noted = |note: Note| SendTask {
        note: Some(note),
        ..SendTask::default()
    };
    let task = lab.send(A, to, noted(note("a", true))).unwrap().id;
    lab.restart(A);
    assert_eq!(
        lab.nodes[A].core.external().tasks_with_open_notes(),
        [task.as_str()]
    );
    let listed = |lab: &mut TestCluster| {
        lab.nodes[A]
            .core
            .tasks_mut()
            .list(&TaskQuery::default(), None, 10)
            .unwrap()
            .tasks
    };
    let refused = lab.send(A, to, noted(note("", true)));
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    assert_eq!(listed(&mut lab).len(), 1, "nothing was begun");
    // Nor is anything noted of a message that is not taken.
    let answer = SendTask {
        task_id: task.clone(),
        ..noted(note("b", true))
    };
    let refused = lab.send(A, to, answer);
    assert!(refused.is_err(), "it asks for nothing: {refused:?}");
    let notes = lab.nodes[A].core.notes_of(&task).unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
}

/// Whoever read a note that was written or deleted since does not write over what there is now.
#[test]
fn a_note_is_written_over_the_version_that_was_read() {
    let mut lab = TestCluster::pair();
    let task = lab.task();
    let first = put(&mut lab, &task, note("a", true), None).unwrap();
    let second = put(&mut lab, &task, note("a", true), Some(first)).unwrap();
    for old in [first, 7] {
        let refused = put(&mut lab, &task, note("a", false), Some(old));
        assert!(
            matches!(refused, Err(EngineError::Precondition(_))),
            "{refused:?}"
        );
    }
    lab.call(A, |core, _| {
        core.delete_note(&task, "a");
        Ok(())
    })
    .unwrap();
    let refused = put(&mut lab, &task, note("a", false), Some(second));
    assert!(
        matches!(refused, Err(EngineError::Precondition(_))),
        "{refused:?}"
    );
    assert!(lab.nodes[A].core.notes_of(&task).unwrap().is_empty());
}

#[test]
fn what_is_too_large_is_refused() {
    let mut lab = TestCluster::pair();
    let task = lab.task();
    for bad in [
        note("", true),
        note(&"n".repeat(600), true),
        Note {
            content: vec![0; 9000],
            ..note("a", true)
        },
    ] {
        let refused = put(&mut lab, &task, bad, None);
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
