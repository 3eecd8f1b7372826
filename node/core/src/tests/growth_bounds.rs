//! What would grow, or go wrong again and again, in a node that lives long: old tasks that come faster than
//! they went, marks of peers that never come back, a record that cannot be read any more.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_store::{Batch, Store as _};

use super::{
    cluster::{A, B, TestCluster, numbered, send_task, stranger},
    harness::limits,
};
use crate::{
    SendTask,
    schema::{self, tag},
    task::Status,
    tasks::tests::stored_status,
    transaction::{EngineError, EngineLimits},
};

/// Tasks of a node for itself that have ended.
fn ended_tasks(lab: &mut TestCluster, count: usize) -> Vec<String> {
    let me = lab.id(A);
    let ids: Vec<String> = (0..count)
        .map(|_| lab.send(A, me, SendTask::default()).unwrap().id)
        .collect();
    for id in &ids {
        lab.complete(A, id, "r").unwrap();
    }
    ids
}

#[test]
fn old_tasks_go_as_fast_as_new_ones_come() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        retention_count: 10,
        ..limits()
    });
    let old = ended_tasks(&mut lab, 1_000);
    lab.advance(Duration::from_millis(100));
    let new = ended_tasks(&mut lab, 10);
    assert!(!lab.nodes[A].core.needs_clock());
    let kept = |lab: &mut TestCluster| {
        lab.nodes[A]
            .core
            .tasks_mut()
            .list(&crate::TaskQuery::default(), None, 10_000)
            .unwrap()
            .tasks
            .len()
    };
    // Within the second in which collection begins, some go in each tenth.
    lab.advance(Duration::from_secs(1));
    assert!(kept(&mut lab) < old.len());
    assert!(
        lab.nodes[A].core.needs_clock(),
        "the rest does not wait for a second"
    );
    lab.advance(Duration::from_millis(600));
    assert_eq!(kept(&mut lab), 10);
    assert!(!lab.nodes[A].core.needs_clock());
    assert!(old.iter().all(|id| lab.nodes[A].core.task(id).is_err()));
    assert!(
        new.iter().all(|id| lab.nodes[A].core.task(id).is_ok()),
        "the newest stay"
    );
    // One record of each task, and nothing of those that are gone.
    for (kind, expected) in [
        (tag::TASK, 10),
        (tag::HEAD, 0),
        (tag::MESSAGE, 0),
        (tag::RESULT, 0),
    ] {
        let left = lab.nodes[A].store.scan(&[kind], None, usize::MAX).unwrap();
        assert_eq!(left.len(), expected, "{}", kind.escape_ascii());
    }
}

#[test]
fn an_open_task_never_goes_however_old_and_is_not_in_the_way() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        retention_count: 3,
        ..limits()
    });
    let me = lab.id(A);
    let open = lab.send(A, me, SendTask::default()).unwrap().id;
    lab.advance(Duration::from_millis(100));
    ended_tasks(&mut lab, 10);
    lab.advance(Duration::from_secs(2));
    assert_eq!(lab.status(A, &open), Status::Submitted);
    assert_eq!(
        lab.nodes[A]
            .core
            .tasks_mut()
            .list(&crate::TaskQuery::default(), None, 100)
            .unwrap()
            .tasks
            .len(),
        4
    );
}

/// Whether anything in the store is about this peer.
fn is_known(lab: &TestCluster, peer: PeerId) -> bool {
    [tag::APPLIED, tag::APPLIED_SLOT, tag::APPLIED_ID, tag::OUTBOX]
        .iter()
        .any(|kind| {
            let about = schema::key(*kind, &peer.to_bytes());
            !lab.nodes[B].store.scan(&about, None, 1).unwrap().is_empty()
        })
}

#[test]
fn a_peer_that_has_been_silent_for_a_month_is_forgotten() {
    let mut lab = TestCluster::new();
    let (numbering, plain) = (stranger(), super::harness::peer(8));
    lab.join(B, numbering);
    lab.join(B, plain);
    lab.deliver(B, numbering, &numbered(1, send_task("t1")));
    lab.receive(B, plain, send_task("t2"));
    lab.update(B, "t1", Status::Working).unwrap();
    for peer in [numbering, plain] {
        assert!(is_known(&lab, peer));
    }
    lab.advance(Duration::from_hours(24 * 40));
    assert!(is_known(&lab, numbering), "it is connected");
    for peer in [numbering, plain] {
        lab.nodes[B]
            .core
            .with_peers(|peers, transaction| peers.on_disconnected(transaction, peer));
    }
    lab.settle();
    // The update to it has expired by now; nothing is on its way in either direction.
    assert_eq!(lab.nodes[B].core.queued(), 0);
    lab.advance(Duration::from_mins(10));
    for peer in [numbering, plain] {
        assert!(!is_known(&lab, peer), "{peer} is still known");
    }
    // It may come again, and begins anew.
    lab.join(B, numbering);
    lab.deliver(B, numbering, &numbered(1, send_task("t3")));
    assert_eq!(lab.status(B, "t3"), Status::Submitted);
}

#[test]
fn a_peer_that_was_heard_of_this_month_is_remembered_also_after_a_restart() {
    let mut lab = TestCluster::new();
    lab.join(B, stranger());
    let envelope = numbered(1, send_task("t1"));
    lab.deliver(B, stranger(), &envelope);
    lab.nodes[B]
        .core
        .with_peers(|peers, transaction| peers.on_disconnected(transaction, stranger()));
    lab.settle();
    lab.restart(B);
    lab.advance(Duration::from_hours(24 * 29));
    lab.join(B, stranger());
    lab.deliver(B, stranger(), &envelope);
    assert_eq!(
        lab.acks_of(&envelope.envelope_id).len(),
        2,
        "it is acknowledged again"
    );
    assert_eq!(lab.nodes[B].core.observe().counters().duplicates, 1);
}

/// The disk has lost a task's beginning: that task is refused by name; everything that goes over many tasks
/// (lists, handing over, deadlines, collection, the start itself) goes on without it.
#[test]
fn a_damaged_task_stops_nothing_else() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        retention_count: 1,
        ..limits()
    });
    let me = lab.id(A);
    let deadline = |seconds: i64| {
        let at = lab.now.unix as i64 / 1000 + seconds;
        let text = jiff::Timestamp::from_second(at).unwrap().to_string();
        SendTask {
            metadata: [("deadline".to_owned(), text)].into(),
            ..SendTask::default()
        }
    };
    let (soon, later) = (deadline(5), deadline(6));
    let damaged = lab.send(A, me, soon).unwrap().id;
    let sound = lab.send(A, me, later).unwrap().id;
    let mut batch = Batch::default();
    let records = lab.nodes[A].store.scan(&[tag::TASK], None, usize::MAX).unwrap();
    let is_damaged = |value: &[u8]| stored_status(value).unwrap().0 == damaged;
    let (key, value) = records.into_iter().find(|(_, value)| is_damaged(value)).unwrap();
    // A head that is none.
    batch.put(key, [&value[..], b"\x22\x03\xff\xff\xff"].concat());
    lab.nodes[A].store.apply(batch).unwrap();
    lab.nodes[A].store.barrier().unwrap();
    lab.restart(A);
    lab.listen(A);
    assert_eq!(
        lab.handed_over(A, &sound),
        [Status::Submitted],
        "the other one is handed over"
    );
    let refused = lab.nodes[A].core.task(&damaged);
    assert!(
        matches!(&refused, Err(EngineError::Store(why)) if why.contains(&damaged)),
        "{refused:?}"
    );
    let listed = lab.nodes[A]
        .core
        .tasks_mut()
        .list(&crate::TaskQuery::default(), None, 10)
        .unwrap()
        .tasks;
    assert!(listed.len() == 1 && listed[0].id == sound);
    lab.advance(Duration::from_secs(7));
    assert_eq!(lab.status(A, &sound), Status::Failed, "its deadline has passed");
    let ended = ended_tasks(&mut lab, 4);
    lab.advance(Duration::from_secs(2));
    assert!(
        lab.nodes[A].core.task(&ended[0]).is_err(),
        "old tasks are collected"
    );
    assert!(
        !lab.nodes[A].core.needs_clock(),
        "nothing is tried again and again"
    );
}
