//! Tasks that are larger than an agent's client takes, and ends by agents that have claimed nothing.

use super::{
    cluster::{A, B, C, TestCluster},
    harness::{limits, text},
    offered_back::handed_over,
};
use crate::{
    EngineError, SendTask,
    dispatch::CREDIT_BYTES,
    task::Status,
    transaction::{DeliverMode, ListenerId},
};

/// The gRPC connections of two agents.
const SMALL: u64 = 1;
const LARGE: u64 = 2;

const REASON: &str = "larger than its client takes";

fn decline(lab: &mut TestCluster, listener: ListenerId, connection: u64, id: &str) {
    let decline =
        |core: &mut crate::coordinator::Coordinator, now| core.decline(now, listener, connection, id, REASON);
    lab.call(B, decline).unwrap();
}

/// A task of a connected pair whose agent asks, with the connection of the first.
fn asked(lab: &mut TestCluster) -> String {
    let id = lab.task();
    for next in [Status::Working, Status::InputRequired] {
        lab.call(B, |core, now| core.update(now, &id, next, None, SMALL))
            .unwrap();
    }
    id
}

fn answer(lab: &mut TestCluster, id: &str) {
    let request = SendTask {
        task_id: id.to_owned(),
        message: text("m2", "much"),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), request).unwrap();
}

#[test]
fn a_task_that_the_only_agent_cannot_take_fails_at_once() {
    let mut lab = TestCluster::pair();
    let small = lab.listen(B);
    let id = lab.task();
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(lab.status(A, &id), Status::Failed);
    assert_eq!(lab.reason(A, &id), REASON);
    assert_eq!(
        lab.handed_over(B, &id),
        [Status::Submitted],
        "nothing of it is told"
    );
}

/// One that came while another had it takes it.
#[test]
fn a_task_that_one_agent_cannot_take_goes_to_another() {
    let mut lab = TestCluster::pair();
    let small = lab.listen(B);
    let id = lab.task();
    lab.listen(B);
    decline(&mut lab, small, SMALL, &id);
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(lab.status(A, &id), Status::Submitted);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

/// The same of agents elsewhere, when it was sent by skill.
#[test]
fn a_task_that_no_agent_here_can_take_goes_to_another_node() {
    let (mut lab, id, small) = handed_over();
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(lab.handed_over(C, &id), [Status::Submitted]);
    lab.complete(C, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

/// Whoever had it may have lost its connection for a moment.
#[test]
fn a_task_that_another_agent_had_waits_for_that_one() {
    let mut lab = TestCluster::pair();
    let small = lab.listen(B);
    let large = lab.listen(B);
    let id = lab.task();
    decline(&mut lab, small, SMALL, &id);
    lab.call(B, |core, now| core.detach(now, large)).unwrap();
    decline(&mut lab, small, SMALL, &id);
    lab.advance(limits().agent_grace / 2);
    assert_eq!(lab.status(A, &id), Status::Submitted);
    lab.advance(limits().agent_grace);
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Status::Failed, REASON.into())
    );
}

/// The same after a restart of the node, where nothing is known of who had it.
#[test]
fn a_task_of_before_waits_for_an_agent_that_can_take_it() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let id = lab.task();
    lab.restart(B);
    lab.connect();
    let small = lab.listen(B);
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(lab.status(A, &id), Status::Submitted);
    lab.listen(B);
    assert_eq!(lab.handed_over(B, &id), [Status::Submitted; 3]);
    lab.complete(B, &id, "done").unwrap();
    assert_eq!(lab.status(A, &id), Status::Completed);
}

/// Nobody else goes on with what an agent asked for, whoever has been told of it.
#[test]
fn an_answer_that_its_agent_cannot_take_fails_the_task() {
    let mut lab = TestCluster::pair();
    let small = lab.listen(B);
    lab.listen(B);
    let id = asked(&mut lab);
    answer(&mut lab, &id);
    assert_eq!(lab.status(B, &id), Status::Working);
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Status::Failed, REASON.into())
    );
    assert_eq!(
        lab.handed_over(B, &id).last(),
        Some(&Status::Failed),
        "all hear of it"
    );
}

/// One that came while the answer waited to be read is owed nothing of it, and hears of what comes next.
#[test]
fn an_answer_that_its_agent_cannot_take_takes_nobodys_room() {
    for deliver in [DeliverMode::One, DeliverMode::All] {
        takes_nobodys_room(deliver);
    }
}

fn takes_nobodys_room(deliver: DeliverMode) {
    let mut limits = limits();
    limits.hand_over.deliver = deliver;
    let mut lab = TestCluster::with_limits(&limits);
    lab.connect();
    let small = lab.listen(B);
    let id = asked(&mut lab);
    let request = SendTask {
        task_id: id.clone(),
        message: text("m2", &"x".repeat(CREDIT_BYTES)),
        ..SendTask::default()
    };
    lab.send(A, lab.id(B), request).unwrap();
    let other = lab.listen(B);
    decline(&mut lab, small, SMALL, &id);
    assert_eq!(lab.status(A, &id), Status::Failed);
    // What is read makes room for the news of the end, which is as large.
    for listener in [small, other] {
        let mut read = 0;
        loop {
            let given = lab.incoming.iter().filter(|(_, to, _)| *to == listener).count();
            if given == read {
                break;
            }
            let fresh = given - std::mem::replace(&mut read, given);
            lab.call(B, |core, now| core.credit(now, listener, fresh))
                .unwrap();
        }
    }
    let next = [lab.task(), lab.task()];
    let handed: Vec<usize> = next.iter().map(|id| lab.handed_over(B, id).len()).collect();
    let each = if deliver == DeliverMode::All { 2 } else { 1 };
    assert_eq!(handed, [each; 2], "who has read all has room");
}

/// Another agent that cannot take the answer says nothing of the one that asked.
#[test]
fn an_answer_that_others_cannot_take_waits_for_its_agent() {
    let mut lab = TestCluster::pair();
    let small = lab.listen(B);
    let id = asked(&mut lab);
    answer(&mut lab, &id);
    decline(&mut lab, small, LARGE, &id);
    assert_eq!(lab.status(A, &id), Status::Working);
    lab.advance(2 * limits().agent_grace);
    assert_eq!(
        (lab.status(A, &id), lab.reason(A, &id)),
        (Status::Failed, REASON.into())
    );
}

/// An agent that begins unclaimed may have been overtaken: what another one has claimed it does not end.
#[test]
fn an_unclaimed_end_is_refused_while_another_claim_stands() {
    let mut lab = TestCluster::pair();
    lab.listen(B);
    let id = lab.task();
    lab.call(B, |core, now| core.update(now, &id, Status::Working, None, LARGE))
        .unwrap();
    let check =
        |lab: &mut TestCluster, connection| lab.call(B, |core, _| core.check_unclaimed(&id, connection));
    assert!(matches!(
        check(&mut lab, Some(SMALL)),
        Err(EngineError::Precondition(_))
    ));
    check(&mut lab, Some(LARGE)).unwrap();
    check(&mut lab, None).unwrap();
    lab.call(B, |core, now| {
        core.on_connection_closed(now, LARGE);
        Ok(())
    })
    .unwrap();
    check(&mut lab, Some(SMALL)).unwrap();
}
