//! Agents that end while they have tasks, and what becomes of these.

use agentanycast_proto::v1::StreamStart;

use super::{
    cluster::{B, TestCluster},
    harness::limits,
};
use crate::{
    EngineError,
    task::Status,
    transaction::{EngineLimits, ListenerId},
};

const CONNECTION: u64 = 7;

/// An agent listens as this listener on a connection of its own.
fn listen(lab: &mut TestCluster, listener: ListenerId) -> u64 {
    let connection = CONNECTION + listener;
    lab.call(B, |core, now| core.attach_on(now, listener, connection))
        .unwrap();
    connection
}

/// The agent's process ends; in this order the node hears of it.
fn end(lab: &mut TestCluster, listener: ListenerId) {
    lab.call(B, |core, now| core.agent_ended(now, listener, 64))
        .unwrap();
    let now = lab.now;
    lab.nodes[B].core.on_connection_closed(now, CONNECTION + listener);
}

#[test]
fn the_count_outlives_a_restart_and_ends_the_task() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    for listener in 1..=5 {
        listen(&mut lab, listener);
        assert_eq!(lab.handed_over(B, &id).last(), Some(&Status::Submitted));
        end(&mut lab, listener);
        assert_eq!(u64::from(lab.view(B, &id).agent_ends), listener);
        lab.restart(B);
    }
    lab.connect();
    assert_eq!(lab.status(B, &id), Status::Failed);
    assert_eq!(
        lab.reason(B, &id),
        "its agent ended 5 times while it had this task"
    );
    assert_eq!(lab.status(super::cluster::A, &id), Status::Failed);
    assert_eq!(lab.nodes[B].core.tasks().index().open(), 0);
}

#[test]
fn with_the_limit_0_it_never_fails() {
    let mut lab = TestCluster::with_limits(&EngineLimits {
        max_agent_ends: 0,
        ..limits()
    });
    lab.connect();
    let id = lab.task();
    for listener in 1..=20 {
        listen(&mut lab, listener);
        end(&mut lab, listener);
    }
    assert_eq!(lab.status(B, &id), Status::Submitted);
    assert_eq!(lab.view(B, &id).agent_ends, 20);
}

/// What the agent's library claimed by itself is handed out again as new, at once; its sender goes on seeing
/// WORKING.
#[test]
fn a_claim_of_the_library_is_no_report() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    for listener in 1..=4 {
        let connection = listen(&mut lab, listener);
        assert_eq!(lab.handed_over(B, &id).len() as u64, listener);
        assert_eq!(lab.handed_over(B, &id).last(), Some(&Status::Submitted));
        lab.call(B, |core, now| core.claim_for_agent(now, &id, connection))
            .unwrap();
        assert_eq!(lab.status(B, &id), Status::Working);
        // It is that agent's as long as it lives.
        let other = lab.call(B, |core, now| core.update(now, &id, Status::Working, None, 1));
        assert!(other.is_err());
        end(&mut lab, listener);
        assert_eq!(u64::from(lab.view(B, &id).agent_ends), listener);
        assert_eq!(lab.status(B, &id), Status::Working);
    }
    listen(&mut lab, 9);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(super::cluster::A, &id), Status::Completed);
}

/// A call that was on its way when its connection closed: the task is the next agent's.
#[test]
fn a_connection_that_is_closed_claims_nothing() {
    let mut lab = TestCluster::pair();
    let id = lab.task();
    let closed = listen(&mut lab, 1);
    end(&mut lab, 1);
    let start = StreamStart {
        task_id: id.clone(),
        artifact_id: "a".into(),
        ..StreamStart::default()
    };
    let claims = [
        lab.call(B, |core, now| core.claim_for_agent(now, &id, closed)),
        lab.call(B, |core, now| core.begin(now, &id, closed)),
        lab.call(B, |core, now| {
            core.update(now, &id, Status::Working, None, closed)
        }),
        lab.call(B, |core, now| core.start_stream(now, &start, closed).map(|_| ())),
    ];
    for claim in claims {
        assert!(matches!(claim, Err(EngineError::Precondition(_))), "{claim:?}");
    }
    let next = listen(&mut lab, 2);
    assert_eq!(lab.handed_over(B, &id).len(), 2);
    lab.call(B, |core, now| core.claim_for_agent(now, &id, next))
        .unwrap();
    lab.complete(B, &id, "done").unwrap();
}

/// While no agent comes, it fails like any other claimed task.
#[test]
fn what_no_agent_comes_back_for_fails_after_the_grace_time() {
    for comes_back in [false, true] {
        let mut lab = TestCluster::pair();
        let id = lab.task();
        let connection = listen(&mut lab, 1);
        lab.call(B, |core, now| core.claim_for_agent(now, &id, connection))
            .unwrap();
        end(&mut lab, 1);
        if comes_back {
            listen(&mut lab, 2);
            end(&mut lab, 2);
        }
        lab.advance(2 * limits().agent_grace);
        assert_eq!(lab.status(B, &id), Status::Failed);
        assert_eq!(lab.reason(B, &id), "agent went away");
    }
}

/// An agent's own word makes the task its own: it is not counted, and not handed out again.
#[test]
fn what_an_agent_has_reported_on_is_not_counted() {
    for reports in ["working", "claimed before", "claimed after"] {
        let mut lab = TestCluster::pair();
        let id = lab.task();
        let connection = listen(&mut lab, 1);
        let claim = |lab: &mut TestCluster| {
            lab.call(B, |core, now| core.claim_for_agent(now, &id, connection))
                .unwrap();
        };
        if reports == "claimed before" {
            claim(&mut lab);
        }
        lab.call(B, |core, now| {
            core.update(now, &id, Status::Working, None, connection)
        })
        .unwrap();
        if reports == "claimed after" {
            claim(&mut lab);
        }
        end(&mut lab, 1);
        assert_eq!(lab.view(B, &id).agent_ends, 0, "{reports}");
        listen(&mut lab, 2);
        assert_eq!(lab.handed_over(B, &id).len(), 1, "{reports}");
    }
}

/// An agent that stops listening and is still there goes on with what its library has claimed.
#[test]
fn an_agent_that_only_stops_listening_keeps_its_tasks() {
    let mut lab = TestCluster::pair();
    let (claimed, other) = (lab.task(), lab.task());
    let connection = listen(&mut lab, 1);
    lab.call(B, |core, now| core.claim_for_agent(now, &claimed, connection))
        .unwrap();
    lab.call(B, |core, now| core.detach(now, 1)).unwrap();
    listen(&mut lab, 2);
    assert_eq!(lab.handed_over(B, &claimed).len(), 1);
    assert_eq!(lab.handed_over(B, &other).len(), 2);
    assert_eq!(
        lab.view(B, &claimed).agent_ends + lab.view(B, &other).agent_ends,
        0
    );
    // Its connection ends later: that is an ordinary lost claim.
    let now = lab.now;
    lab.nodes[B].core.on_connection_closed(now, connection);
    listen(&mut lab, 3);
    assert_eq!(lab.handed_over(B, &claimed).len(), 1);
    assert_eq!(lab.status(B, &claimed), Status::Working);
}
