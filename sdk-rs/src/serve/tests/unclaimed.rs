//! Tests: what was begun unclaimed is lost, shared or taken by another, or nobody serves it any more.

use std::{sync::Arc, time::Duration};

use agentanycast_proto::v1::TaskStatus as Status;
use tokio::sync::mpsc;
use tonic::Code;

use super::{serving_on, status_of};
use crate::{
    CancellationToken, ErrorKind, IncomingTask, Node,
    fake_daemon::{CallMode, FakeDaemon, in_both_modes},
    serve::{
        Handler, claim, fail,
        open_tasks::{DeliveredTask, OpenTasks, RunOutcome},
        run_one,
        task_claim::{ConnectionTime, TaskClaim},
        task_inbox::TaskInbox,
        task_reports,
    },
    session::CallFailure,
};

in_both_modes! {
    an_unclaimed_end_that_was_lost_is_repeated_by_whoever_claims_the_task
    an_end_that_is_not_wanted_any_more_is_not_sent
    a_claim_that_is_not_answered_allows_no_end
    what_was_shared_before_it_began_is_claimed_first
    what_came_on_another_connection_is_claimed_before_its_end
    what_was_shared_while_it_ran_is_claimed_before_its_end
    claims_end_with_the_serving
    the_farewell_claims_first
    a_task_that_has_failed_is_not_claimed
    nothing_is_claimed_while_an_end_is_under_way
    an_end_that_was_given_up_is_followed_by_the_claim
    a_claim_that_got_no_answer_is_doubted_later_too
}

/// How a handler's report was answered.
type ReportResults = mpsc::UnboundedReceiver<Option<ErrorKind>>;

/// A handler that completes its task once for each gate, as soon as that opens.
fn completing(
    gates: &[CancellationToken],
) -> (
    impl Fn(IncomingTask) -> super::HandlerFuture + use<>,
    ReportResults,
) {
    let (answer, answers) = mpsc::unbounded_channel();
    let gates: Vec<_> = gates.to_vec();
    let handler = move |task: IncomingTask| {
        let (answer, gates) = (answer.clone(), gates.clone());
        let running: super::HandlerFuture = Box::pin(async move {
            for gate in gates {
                gate.cancelled().await;
                let ended = task.complete([]).await;
                answer.send(ended.as_ref().err().map(crate::Error::kind))?;
            }
            Ok(())
        });
        running
    };
    (handler, answers)
}

fn open() -> CancellationToken {
    let gate = CancellationToken::new();
    gate.cancel();
    gate
}

fn exclusive(way: CallMode) -> FakeDaemon {
    let fake = FakeDaemon::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    fake
}

/// A task that was handed over just now, to this process alone.
fn conversation(node: &Node) -> Arc<TaskInbox> {
    let claim = TaskClaim::new(Some(ConnectionTime::now(node)), CancellationToken::new());
    Arc::new(TaskInbox::new(claim))
}

async fn an_unclaimed_end_that_was_lost_is_repeated_by_whoever_claims_the_task(way: CallMode) {
    for (took_effect, is_taken, answer, calls) in [
        (
            false,
            true,
            Some(ErrorKind::Conflict),
            &["complete", "update"][..],
        ),
        (false, false, None, &["complete", "update", "complete"]),
        (true, false, None, &["complete", "update"]),
    ] {
        let mut fake = exclusive(way);
        let (handler, mut answers) = completing(&[open()]);
        serving_on(&fake, fake.node().await, handler).await;
        if took_effect {
            fake.state().unanswered.push("complete");
        } else {
            fake.state().lost.push("complete");
        }
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the end", |state| state.calls == ["complete"]).await;
        fake.stop();
        if is_taken {
            fake.state().claimed_by_others.insert("t".to_owned());
        }
        fake.restart();
        assert_eq!(answers.recv().await.unwrap(), answer);
        assert_eq!(fake.state().calls, calls);
        let unclaimed = if calls.len() == 3 {
            &[true, false][..]
        } else {
            &[true]
        };
        assert_eq!(fake.state().unclaimed, unclaimed, "it says whether it is claimed");
        let ended = status_of(&fake, "t") == Status::Completed;
        assert_ne!(ended, is_taken);
    }
}

/// A way to the daemon had to be made first, which took too long.
async fn an_end_that_is_not_wanted_any_more_is_not_sent(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.put("t", Status::Submitted, Vec::new());
    let mut end = task_reports::complete("t", Vec::new(), None);
    let reported = end.report_once(&fake.node().await, || false).await;
    assert!(matches!(reported, Err(CallFailure::Lost(_))));
    assert!(fake.state().calls.is_empty());
}

/// Nobody knows whose the task is by then. It begins anew when it is handed over again.
async fn a_claim_that_is_not_answered_allows_no_end(way: CallMode) {
    for (code, kind) in [
        (Code::Unavailable, ErrorKind::DaemonUnavailable),
        (Code::DeadlineExceeded, ErrorKind::Timeout),
    ] {
        let fake = exclusive(way);
        let gate = CancellationToken::new();
        let (handler, mut answers) = completing(std::slice::from_ref(&gate));
        let (begin, mut begun) = mpsc::unbounded_channel();
        let node = fake.patient(Duration::from_millis(200)).await;
        let serve = node.serve(move |task| {
            let _ = begin.send(task.id().to_owned());
            handler(task)
        });
        tokio::spawn(serve.concurrency(1).into_future());
        fake.until("the subscription", |state| state.subscriptions == 1)
            .await;
        fake.state().claims_refused = Some(code);
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the claim", |state| !state.calls.is_empty()).await;
        gate.cancel();
        assert_eq!(answers.recv().await.unwrap(), Some(kind));
        // It begins when the first one is let go.
        fake.put("next", Status::Submitted, Vec::new());
        for id in ["t", "next"] {
            assert_eq!(begun.recv().await.unwrap(), id);
        }
        assert_eq!(status_of(&fake, "t"), Status::Submitted);
        fake.state().claims_refused = None;
        answers.recv().await.unwrap();
        fake.put("t", Status::Submitted, Vec::new());
        assert_eq!(answers.recv().await.unwrap(), None);
        assert_eq!(begun.recv().await.unwrap(), "t");
        assert_eq!(status_of(&fake, "t"), Status::Completed);
    }
}

/// The subscription is lost while one task waits and the other's runner is about to start.
async fn what_was_shared_before_it_began_is_claimed_first(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    let mut board = OpenTasks::default();
    for id in ["opened", "waiting"] {
        fake.put(id, Status::Submitted, Vec::new());
        board.deliver(Box::new(DeliveredTask {
            task: fake.state().tasks[id].clone().into(),
            sender_card: None,
            exclusive_since: Some(ConnectionTime::now(&node)),
        }));
    }
    let opened = board.start_next().unwrap();
    assert!(opened.1.claim().is_exclusive(&node));
    board.mark_shared();
    for (waiting, conversation) in [opened, board.start_next().unwrap()] {
        fake.state().calls.clear();
        let (complete, _answers) = completing(&[open()]);
        let handler: Arc<Handler> = Arc::new(complete);
        let outcome = run_one(node.clone(), handler, waiting, conversation, None).await;
        assert_eq!(outcome, RunOutcome::Over);
        assert_eq!(fake.state().calls, ["update", "complete"]);
    }
}

/// The loss of the subscription is not known yet.
async fn what_came_on_another_connection_is_claimed_before_its_end(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.node().await;
    let conversation = conversation(&node);
    fake.put("t", Status::Submitted, Vec::new());
    fake.restart();
    node.info().await.unwrap();
    let end = task_reports::complete("t", Vec::new(), None);
    claim::end(&conversation, &node, end).await.unwrap();
    assert_eq!(fake.state().calls, ["update", "complete"]);
}

async fn what_was_shared_while_it_ran_is_claimed_before_its_end(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    for (id, is_shared) in [("alone", false), ("shared", true), ("theirs", true)] {
        fake.put(id, Status::Submitted, Vec::new());
        fake.state().calls.clear();
        if id == "theirs" {
            fake.state().claimed_by_others.insert(id.to_owned());
        }
        let conversation = conversation(&node);
        if is_shared {
            conversation.claim().mark_shared();
        }
        let ended = claim::end(&conversation, &node, task_reports::complete(id, Vec::new(), None)).await;
        let (kind, calls) = match id {
            "alone" => (None, &["complete"][..]),
            "shared" => (None, &["update", "complete"][..]),
            _ => (Some(ErrorKind::Conflict), &["update"][..]),
        };
        assert_eq!(ended.err().map(|error| error.kind()), kind);
        assert_eq!(fake.state().calls, calls);
    }
}

/// A claim that succeeds after all would take the task away from who serves next.
async fn claims_end_with_the_serving(way: CallMode) {
    for gives_up in [true, false] {
        let mut fake = FakeDaemon::start(way);
        let node = fake.node().await;
        let serve = || {
            let (handler, _) = completing(&[open()]);
            node.clone().serve(handler)
        };
        let patience = Duration::from_millis(if gives_up { 200 } else { 60_000 });
        let served = tokio::spawn(serve().give_up_after(patience).into_future());
        fake.until("the subscription", |state| state.subscriptions == 1)
            .await;
        fake.state().lost.push("update");
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the claim", |state| state.calls == ["update"]).await;
        fake.stop();
        if gives_up {
            let error = served.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DaemonUnavailable);
        } else {
            served.abort();
            assert!(served.await.unwrap_err().is_cancelled());
        }
        fake.restart();
        // Longer than the pauses of a claim that is made again by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fake.state().calls, ["update"]);
        let again = tokio::spawn(serve().into_future());
        fake.until("the new subscription", |state| state.subscriptions == 2)
            .await;
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
            .await;
        again.abort();
    }
}

async fn the_farewell_claims_first(way: CallMode) {
    let fake = exclusive(way);
    fake.state().claims_refused = Some(Code::ResourceExhausted);
    let stop = CancellationToken::new();
    let serve = fake.node().await.serve(|_task| std::future::pending());
    let served = tokio::spawn(serve.drain(Duration::ZERO).until(stop.clone()).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls == ["update"]).await;
    // Until the refusal has been read.
    tokio::time::sleep(Duration::from_millis(100)).await;
    fake.state().claims_refused = None;
    stop.cancel();
    served.await.unwrap().unwrap();
    assert_eq!(fake.state().calls.last(), Some(&"fail"));
    assert_eq!(status_of(&fake, "t"), Status::Failed);
}

async fn a_task_that_has_failed_is_not_claimed(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let node = fake.node().await;
    let conversation = conversation(&node);
    fake.put("t", Status::Submitted, Vec::new());
    assert_eq!(fail(&node, "t", &conversation, "x").await, RunOutcome::Over);
    claim::claim_in_background(&conversation, &node, "t");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.state().calls, ["fail"]);
}

/// The claim was refused for want of room, and would be made again beside the handler. The end has just taken effect.
async fn nothing_is_claimed_while_an_end_is_under_way(way: CallMode) {
    let mut fake = exclusive(way);
    let gate = CancellationToken::new();
    let (handler, mut answers) = completing(std::slice::from_ref(&gate));
    serving_on(&fake, fake.node().await, handler).await;
    fake.state().claims_refused = Some(Code::ResourceExhausted);
    fake.state().unanswered.push("complete");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls == ["update"]).await;
    gate.cancel();
    fake.until("the end", |state| state.calls.contains(&"complete"))
        .await;
    let so_far = fake.state().calls.clone();
    fake.state().claims_refused = None;
    // Longer than the pause before the claim is made again.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(fake.state().calls, so_far);
    fake.restart();
    assert_eq!(answers.recv().await.unwrap(), None);
}

/// The end took longer than the moment after which a task is claimed, and its handler goes on.
async fn an_end_that_was_given_up_is_followed_by_the_claim(way: CallMode) {
    let fake = exclusive(way);
    fake.state().unanswered.push("complete");
    let given_up = |task: IncomingTask| async move {
        let ended = tokio::time::timeout(Duration::from_millis(200), task.complete([])).await;
        assert!(ended.is_err());
        std::future::pending().await
    };
    serving_on(&fake, fake.node().await, given_up).await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls == ["complete", "update"])
        .await;
}

/// The claim was given up. It had taken effect, and the daemon still believes in the connection that it came on.
async fn a_claim_that_got_no_answer_is_doubted_later_too(way: CallMode) {
    let mut fake = exclusive(way);
    let gates = [CancellationToken::new(), CancellationToken::new()];
    let (handler, mut answers) = completing(&gates);
    let node = fake.patient(Duration::from_millis(200)).await;
    serving_on(&fake, node, handler).await;
    fake.state().unanswered.push("update");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls == ["update"]).await;
    fake.stop();
    gates[0].cancel();
    assert_eq!(answers.recv().await.unwrap(), Some(ErrorKind::DaemonUnavailable));
    fake.state().claimed_by_others.insert("t".to_owned());
    fake.restart();
    gates[1].cancel();
    fake.until("a refused claim", |state| state.calls.len() >= 2)
        .await;
    fake.state().claimed_by_others.clear();
    assert_eq!(answers.recv().await.unwrap(), None);
    assert_eq!(status_of(&fake, "t"), Status::Completed);
}
