//! Tests: the daemon goes away in the middle of things, and agents do not notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::v1::{self, TaskStatus as Status, send_streaming_artifact_request::Event};
use futures::StreamExt;

use crate::{
    AgentCard, CancellationToken, ErrorKind, HandlerError, Message, PeerId, Target, TaskStatus,
    fake::{Fake, Way},
};

const PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn peer() -> PeerId {
    PEER.parse().unwrap()
}

fn status_of(fake: &Fake, id: &str) -> Status {
    fake.state().tasks[id].status()
}

/// Each test twice: with an older daemon, which knows unary calls alone, and with one that serves sessions.
macro_rules! both_ways {
    ($($name:ident)*) => {
        mod unary {
            $(#[tokio::test] async fn $name() { super::$name(super::Way::Unary).await; })*
        }
        mod session {
            $(#[tokio::test] async fn $name() { super::$name(super::Way::Session).await; })*
        }
    };
}

both_ways! {
    updates_go_on_and_the_end_comes_once
    an_end_while_the_daemon_was_away_is_not_missed
    a_repeated_send_makes_one_task
    without_patience_a_lost_daemon_is_an_error_that_may_be_retried
    a_refusal_is_not_repeated
    the_card_is_set_again_on_a_new_connection
    a_cancel_whose_answer_was_lost_is_no_conflict
    the_way_is_the_one_that_the_daemon_knows
    the_way_changes_with_the_daemon
    many_waits_outlive_restarts
    dropped_waits_are_given_up
    a_completion_whose_answer_was_lost_is_done_once
    a_claim_whose_answer_was_lost_is_made_again
    a_task_that_another_agent_got_meanwhile_is_let_go
    a_handler_that_does_not_end_its_task_fails_it
    an_exclusive_task_that_is_done_at_once_is_not_claimed
    an_exclusive_task_is_claimed_while_its_handler_runs
    what_a_handler_says_of_an_exclusive_task_comes_after_the_claim
    an_exclusive_task_that_was_read_late_is_claimed_first
    an_exclusive_task_that_is_another_s_is_not_ended
    a_handler_outlives_a_claim_that_is_refused_for_room
    a_refused_end_claims_nothing
    a_claim_does_not_depend_on_who_waits_for_it
    a_task_that_the_daemon_lost_is_begun_anew_when_it_comes_again
    an_answer_that_came_while_the_daemon_was_away_reaches_the_handler
    a_cancel_while_the_daemon_was_away_reaches_the_handler
    concurrency_is_bounded_and_the_rest_stays_unclaimed
    handlers_that_do_not_finish_in_time_fail_their_tasks
    an_artifact_is_sent_in_pieces_from_zero_without_gaps
}

async fn updates_go_on_and_the_end_comes_once(way: Way) {
    let mut fake = Fake::start(way);
    fake.put("t", Status::Working, Vec::new());
    let mut updates = fake.node().await.task_handle("t").updates();
    assert_eq!(updates.next().await.unwrap().unwrap().status, TaskStatus::Working);
    fake.restart();
    let completing = async {
        fake.until("a new subscription", |state| state.subscriptions == 2)
            .await;
        fake.put("t", Status::Completed, Vec::new());
    };
    let (next, ()) = tokio::join!(updates.next(), completing);
    // The state known from before is not repeated.
    assert_eq!(next.unwrap().unwrap().status, TaskStatus::Completed);
    assert!(updates.next().await.is_none());
}

async fn an_end_while_the_daemon_was_away_is_not_missed(way: Way) {
    let mut fake = Fake::start(way);
    fake.put("t", Status::Working, Vec::new());
    let handle = fake.node().await.task_handle("t");
    let waiting = tokio::spawn(async move { handle.wait().await });
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.stop();
    fake.put("t", Status::Completed, Vec::new());
    fake.restart();
    assert_eq!(waiting.await.unwrap().unwrap().status, TaskStatus::Completed);
}

async fn a_repeated_send_makes_one_task(way: Way) {
    let mut fake = Fake::start(way);
    let node = fake.node().await;
    fake.state().unanswered.push("send");
    let sending = tokio::spawn(async move { node.send_task(Target::Peer(peer()), "hi").await });
    fake.until("the send", |state| state.calls == ["send"]).await;
    fake.restart();
    assert_eq!(sending.await.unwrap().unwrap().id(), "task-0");
    assert_eq!(fake.state().calls, ["send", "send"]);
    assert_eq!(fake.state().tasks.len(), 1);
}

async fn without_patience_a_lost_daemon_is_an_error_that_may_be_retried(way: Way) {
    let mut fake = Fake::start(way);
    let node = crate::Node::builder().patience(Duration::ZERO);
    let node = node.connect(fake.node().await.address()).await.unwrap();
    fake.stop();
    let error = node.info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DaemonUnavailable);
    assert!(error.is_retryable());
}

async fn a_refusal_is_not_repeated(way: Way) {
    let fake = Fake::start(way);
    let node = fake.node().await;
    assert_eq!(
        node.connect_peer(&peer(), [""]).await.unwrap_err().kind(),
        ErrorKind::PeerNotFound
    );
    assert_eq!(
        node.card_of(&peer()).await.unwrap_err().kind(),
        ErrorKind::CardNotFound
    );
    let missing = node.task_handle("nothing").wait().await.unwrap_err();
    assert!(matches!(missing, crate::TaskError::Node(error) if error.kind() == ErrorKind::TaskNotFound));
}

async fn the_card_is_set_again_on_a_new_connection(way: Way) {
    let mut fake = Fake::start(way);
    let node = fake.node().await;
    node.set_card(AgentCard::new("a", "b")).await.unwrap();
    node.info().await.unwrap();
    assert_eq!(fake.state().cards, 1);
    fake.restart();
    node.info().await.unwrap();
    assert_eq!(fake.state().cards, 2);
}

async fn a_cancel_whose_answer_was_lost_is_no_conflict(way: Way) {
    let mut fake = Fake::start(way);
    fake.put("t", Status::Working, Vec::new());
    let handle = fake.node().await.task_handle("t");
    fake.state().unanswered.push("cancel");
    let canceling = tokio::spawn(async move { handle.cancel().await });
    fake.until("the cancel", |state| state.calls == ["cancel"]).await;
    fake.restart();
    assert_eq!(canceling.await.unwrap().unwrap().status, TaskStatus::Canceled);
}

async fn the_way_is_the_one_that_the_daemon_knows(way: Way) {
    let mut fake = Fake::start(way);
    let node = fake.node().await;
    for round in 1..=2 {
        let handle = node.send_task(Target::Peer(peer()), "hi").await.unwrap();
        handle.snapshot().await.unwrap();
        let sessions = if way == Way::Session { round } else { 0 };
        assert_eq!(fake.state().sessions, sessions);
        fake.restart();
    }
}

/// The daemon is exchanged for one that does not know, or newly knows, sessions.
async fn the_way_changes_with_the_daemon(way: Way) {
    let mut fake = Fake::start(way);
    let handle = fake
        .node()
        .await
        .send_task(Target::Peer(peer()), "hi")
        .await
        .unwrap();
    fake.way = if way == Way::Session {
        Way::Unary
    } else {
        Way::Session
    };
    fake.restart();
    // An older daemon is asked again once the connection is known to be another.
    handle.snapshot().await.unwrap();
    handle.snapshot().await.unwrap();
    assert_eq!(fake.state().sessions, 1);
    fake.put(handle.id(), Status::Completed, Vec::new());
    handle.wait().await.unwrap();
}

async fn many_waits_outlive_restarts(way: Way) {
    const WAITS: usize = 300;
    let mut fake = Fake::start(way);
    let node = fake.node().await;
    for number in 0..WAITS {
        fake.put(&number.to_string(), Status::Working, Vec::new());
    }
    let waits = (0..WAITS).map(|number| {
        let handle = node.task_handle(number.to_string());
        tokio::spawn(async move { handle.wait().await.unwrap().id })
    });
    let waits: Vec<_> = waits.collect();
    for restarts in 1..=3 {
        fake.until("all wait", |state| state.subscriptions >= restarts * WAITS)
            .await;
        fake.restart();
    }
    for number in 0..WAITS {
        fake.put(&number.to_string(), Status::Completed, Vec::new());
    }
    for (number, wait) in waits.into_iter().enumerate() {
        assert_eq!(wait.await.unwrap(), number.to_string());
    }
}

/// Waits that nobody wants are given up, more of them than the way to the daemon holds; what comes after works.
async fn dropped_waits_are_given_up(way: Way) {
    const WAITS: usize = 500;
    let fake = Fake::start(way);
    let node = fake.node().await;
    fake.put("t", Status::Working, Vec::new());
    let handle = node.task_handle("t");
    let waits: Vec<_> = (0..WAITS)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.wait().await })
        })
        .collect();
    fake.until("all wait", |state| state.subscriptions == WAITS).await;
    for wait in &waits {
        wait.abort();
    }
    if way == Way::Session {
        fake.until("all are given up", |state| state.given_up == WAITS)
            .await;
    }
    fake.put("t", Status::Completed, Vec::new());
    handle.wait().await.unwrap();
}

/// Serves in the background; counts how often the handler ran.
async fn serving<F>(
    fake: &Fake,
    handler: impl Fn(crate::IncomingTask) -> F + Send + Sync + 'static,
) -> Arc<AtomicUsize>
where
    F: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let serve = fake.node().await.serve(move |task| {
        counted.fetch_add(1, Ordering::SeqCst);
        handler(task)
    });
    tokio::spawn(serve.into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    runs
}

async fn a_completion_whose_answer_was_lost_is_done_once(way: Way) {
    let mut fake = Fake::start(way);
    let (done, mut outcome) = tokio::sync::mpsc::channel(1);
    let runs = serving(&fake, move |task| {
        let done = done.clone();
        async move {
            done.send(task.complete([]).await.is_ok()).await?;
            Ok(())
        }
    })
    .await;
    fake.state().unanswered.push("complete");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the completion", |state| state.calls.contains(&"complete"))
        .await;
    fake.restart();
    assert!(
        outcome.recv().await.unwrap(),
        "the repeated completion was resolved by the task's state"
    );
    fake.until("the new subscription", |state| state.subscriptions == 2)
        .await;
    // Handed over again, as after a crash before the daemon noted the claim.
    fake.put("t", Status::Submitted, Vec::new());
    fake.put("other", Status::Submitted, Vec::new());
    fake.until("the other task's end", |state| {
        state.tasks["other"].status() == Status::Completed
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

async fn a_claim_whose_answer_was_lost_is_made_again(way: Way) {
    let mut fake = Fake::start(way);
    let runs = serving(&fake, |task| async move { Ok(task.complete([]).await?) }).await;
    fake.state().unanswered.push("update");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls.contains(&"update"))
        .await;
    fake.restart();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// The claim got no answer; after the restart another agent was quicker. Its task is left alone.
async fn a_task_that_another_agent_got_meanwhile_is_let_go(way: Way) {
    let mut fake = Fake::start(way);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let serve = fake.node().await.serve(move |task| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(task.complete([]).await?) }
    });
    tokio::spawn(serve.concurrency(1).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.state().unanswered.push("update");
    fake.put("theirs", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls.contains(&"update"))
        .await;
    fake.stop();
    fake.state().taken.insert("theirs".to_owned());
    fake.restart();
    fake.until("the new subscription", |state| state.subscriptions == 2)
        .await;
    // It waits for the one handler, until the first task is let go.
    fake.put("ours", Status::Submitted, Vec::new());
    fake.until("the end", |state| {
        state.tasks["ours"].status() == Status::Completed
    })
    .await;
    assert_eq!(
        runs.load(Ordering::SeqCst),
        1,
        "the handler ran for another's task"
    );
    assert_eq!(status_of(&fake, "theirs"), Status::Working);
}

async fn a_handler_that_does_not_end_its_task_fails_it(way: Way) {
    let fake = Fake::start(way);
    serving(&fake, |task| async move {
        match task.id() {
            "error" => Err(HandlerError::new("no ink")),
            "panic" => panic!("out of paper"),
            _ => Ok(()),
        }
    })
    .await;
    for (id, reason) in [
        ("error", "no ink"),
        ("panic", "handler panicked: out of paper"),
        ("idle", "handler returned without completing the task"),
    ] {
        fake.put(id, Status::Submitted, Vec::new());
        fake.until(id, |state| state.tasks[id].status() == Status::Failed)
            .await;
        let task = crate::Task::from(fake.state().tasks[id].clone());
        assert_eq!(task.reason(), reason);
    }
}

async fn an_exclusive_task_that_is_done_at_once_is_not_claimed(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let runs = serving(&fake, |task| async move { Ok(task.complete([]).await?) }).await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
    assert_eq!(fake.state().calls, ["complete"]);
    fake.put("other", Status::Submitted, Vec::new());
    fake.until("the other's end", |state| {
        state.tasks["other"].status() == Status::Completed
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

async fn an_exclusive_task_is_claimed_while_its_handler_runs(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let gate = CancellationToken::new();
    let opened = gate.clone();
    let runs = serving(&fake, move |task| {
        let opened = opened.clone();
        async move {
            opened.cancelled().await;
            Ok(task.complete([]).await?)
        }
    })
    .await;
    // Its claim is not answered: the handler goes on all the same, and the end waits for it.
    fake.state().unanswered.push("update");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls == ["update"]).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    gate.cancel();
    fake.put("u", Status::Submitted, Vec::new());
    fake.until("the other's end", |state| {
        state.tasks["u"].status() == Status::Completed
    })
    .await;
    assert_eq!(status_of(&fake, "t"), Status::Working);
    let mut fake = fake;
    fake.restart();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}

async fn what_a_handler_says_of_an_exclusive_task_comes_after_the_claim(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    serving(&fake, |task| async move {
        if task.id() == "streams" {
            let mut report = task.stream_artifact("r", "text/plain").await?;
            report.write("x").await?;
            report.finish().await?;
        } else {
            task.ask("which?").await?;
        }
        Ok(task.complete([]).await?)
    })
    .await;
    fake.put("asks", Status::Submitted, vec![Message::text("a").into()]);
    fake.until("the question", |state| {
        state.tasks["asks"].status() == Status::InputRequired
    })
    .await;
    // Longer than until the claim that is made for those that say nothing.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(fake.state().calls, ["update", "update"]);
    assert_eq!(status_of(&fake, "asks"), Status::InputRequired);
    fake.state().unanswered.push("update");
    fake.put("streams", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.calls.len() == 3).await;
    assert!(fake.state().sent.is_empty(), "a piece went before the claim");
}

async fn an_exclusive_task_that_was_read_late_is_claimed_first(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::from_secs(5));
    let runs = serving(&fake, |task| async move { Ok(task.complete([]).await?) }).await;
    fake.state().taken.insert("theirs".to_owned());
    fake.put("theirs", Status::Submitted, Vec::new());
    fake.put("ours", Status::Submitted, Vec::new());
    fake.until("the end", |state| {
        state.tasks["ours"].status() == Status::Completed
    })
    .await;
    fake.until("the refused claim", |state| {
        state.calls.iter().filter(|call| **call == "update").count() == 2
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Another agent was given the task since, and has claimed it: it is not this one's to end, whatever its handler does.
async fn an_exclusive_task_that_is_another_s_is_not_ended(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let (said, mut heard) = tokio::sync::mpsc::channel(8);
    serving(&fake, move |task| {
        let said = said.clone();
        async move {
            let (id, said) = (task.id().to_owned(), said);
            let say = async |what: Result<(), crate::Error>| {
                let kind = what.as_ref().err().map(crate::Error::kind);
                said.send((id.clone(), kind)).await.unwrap();
                what
            };
            match task.id() {
                "says" => say(task.working("x").await).await?,
                "panics" => {
                    task.cancelled().cancelled().await;
                    panic!("out of paper");
                }
                "is told" => {
                    task.cancelled().cancelled().await;
                    say(task.complete([]).await).await?;
                }
                _ => task.complete([]).await?,
            }
            Ok(())
        }
    })
    .await;
    for id in ["says", "panics", "is told"] {
        fake.state().taken.insert(id.to_owned());
        fake.put(id, Status::Submitted, Vec::new());
    }
    for _ in 0..2 {
        let (id, kind) = heard.recv().await.unwrap();
        assert_eq!(kind, Some(ErrorKind::Conflict), "{id}");
    }
    // Whatever was still to come of them has come before this.
    for id in ["last", "very last"] {
        fake.put(id, Status::Submitted, Vec::new());
        fake.until(id, |state| state.tasks[id].status() == Status::Completed)
            .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for id in ["says", "panics", "is told"] {
        assert_eq!(status_of(&fake, id), Status::Submitted, "{id}");
    }
}

/// A claim that the daemon has no room for does not stop the handler, whose end is taken all the same.
async fn a_handler_outlives_a_claim_that_is_refused_for_room(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let gate = CancellationToken::new();
    let opened = gate.clone();
    serving(&fake, move |task| {
        let opened = opened.clone();
        async move {
            opened.cancelled().await;
            Ok(task.complete([]).await?)
        }
    })
    .await;
    fake.state().full = true;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| !state.calls.is_empty()).await;
    gate.cancel();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}

/// An end that is refused, or not waited for, leaves the task to be claimed.
async fn a_refused_end_claims_nothing(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    serving(&fake, |task| async move {
        let _ = tokio::time::timeout(Duration::from_millis(100), task.complete([])).await;
        std::future::pending::<()>().await;
        Ok(())
    })
    .await;
    fake.state().refused.push("complete");
    fake.put("refused", Status::Submitted, Vec::new());
    fake.until("the claim", |state| {
        state.tasks["refused"].status() == Status::Working
    })
    .await;
    assert_eq!(fake.state().calls, ["complete", "update"]);
}

/// Who waits for a claim may stop waiting, or never look again.
async fn a_claim_does_not_depend_on_who_waits_for_it(way: Way) {
    let fake = Fake::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    serving(&fake, |task| async move {
        let mut working = std::pin::pin!(task.working("x"));
        tokio::select! {
            biased;
            _ = &mut working => panic!("it was answered at once"),
            () = std::future::ready(()) => {}
        }
        Ok(task.complete([]).await?)
    })
    .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}

/// A daemon hands over before it has passed the barrier: after a crash it does not know the task, until that is sent
/// again.
async fn a_task_that_the_daemon_lost_is_begun_anew_when_it_comes_again(way: Way) {
    for (exclusive_for, restarts) in [
        (None, false),
        (Some(Duration::ZERO), false),
        (Some(Duration::ZERO), true),
    ] {
        let mut fake = Fake::start(way);
        fake.state().exclusive_for = exclusive_for;
        let runs = serving(&fake, move |task| async move {
            if restarts {
                // Until it is learnt that the daemon does not know it.
                let learnt = task.cancelled().cancelled_owned();
                let _ = tokio::time::timeout(Duration::from_secs(2), learnt).await;
            }
            Ok(task.complete([]).await?)
        })
        .await;
        fake.hand_over("t");
        if restarts {
            fake.until("the claim", |state| !state.calls.is_empty()).await;
            fake.restart();
            fake.until("the new subscription", |state| state.subscriptions == 2)
                .await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        } else {
            fake.until("a call", |state| state.calls.len() == 1).await;
        }
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the end", |state| {
            state
                .tasks
                .get("t")
                .is_some_and(|task| task.status() == Status::Completed)
        })
        .await;
        assert!(runs.load(Ordering::SeqCst) <= 2);
    }
}

async fn an_answer_that_came_while_the_daemon_was_away_reaches_the_handler(way: Way) {
    let mut fake = Fake::start(way);
    serving(&fake, |task| async move {
        let answer = task.ask("which?").await?;
        assert_eq!(task.messages().len(), 2);
        task.fail(answer.text_content()).await?;
        Ok(())
    })
    .await;
    let first: v1::Message = Message::text("do it").into();
    fake.put("t", Status::Submitted, vec![first.clone()]);
    fake.until("the question", |state| {
        state.tasks["t"].status() == Status::InputRequired
    })
    .await;
    fake.stop();
    fake.put(
        "t",
        Status::Working,
        vec![first, Message::text("this one").into()],
    );
    fake.restart();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Failed)
        .await;
    assert_eq!(
        crate::Task::from(fake.state().tasks["t"].clone()).reason(),
        "this one"
    );
}

async fn a_cancel_while_the_daemon_was_away_reaches_the_handler(way: Way) {
    let mut fake = Fake::start(way);
    let noticed = CancellationToken::new();
    let notice = noticed.clone();
    serving(&fake, move |task| {
        let notice = notice.clone();
        async move {
            task.cancelled().cancelled().await;
            notice.cancel();
            Ok(())
        }
    })
    .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.tasks["t"].status() == Status::Working)
        .await;
    fake.stop();
    fake.put("t", Status::Canceled, Vec::new());
    fake.restart();
    noticed.cancelled().await;
    assert_eq!(status_of(&fake, "t"), Status::Canceled);
}

async fn concurrency_is_bounded_and_the_rest_stays_unclaimed(way: Way) {
    let fake = Fake::start(way);
    let gate = CancellationToken::new();
    let open = gate.clone();
    let serve = fake.node().await.serve(move |task| {
        let open = open.clone();
        async move {
            open.cancelled().await;
            Ok(task.complete([]).await?)
        }
    });
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve.concurrency(2).until(stop.clone()).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    let count = |state: &crate::fake::State, wanted| {
        state
            .tasks
            .values()
            .filter(|task| task.status() == wanted)
            .count()
    };
    for id in ["a", "b", "c"] {
        fake.put(id, Status::Submitted, Vec::new());
    }
    fake.until("two claims", |state| count(state, Status::Working) == 2)
        .await;
    assert_eq!(count(&fake.state(), Status::Submitted), 1);
    gate.cancel();
    fake.until("all ends", |state| count(state, Status::Completed) == 3)
        .await;
    stop.cancel();
    served.await.unwrap().unwrap();
}

async fn handlers_that_do_not_finish_in_time_fail_their_tasks(way: Way) {
    let fake = Fake::start(way);
    let serve = fake.node().await.serve(|_task| std::future::pending());
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve.drain(Duration::ZERO).until(stop.clone()).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.tasks["t"].status() == Status::Working)
        .await;
    stop.cancel();
    served.await.unwrap().unwrap();
    assert_eq!(status_of(&fake, "t"), Status::Failed);
}

async fn an_artifact_is_sent_in_pieces_from_zero_without_gaps(way: Way) {
    let fake = Fake::start(way);
    serving(&fake, |task| async move {
        let mut writer = task.stream_artifact("big", "text/plain").await?;
        writer.write(vec![7; 150 << 10]).await?;
        writer.write("end").await?;
        writer.finish().await?;
        Ok(task.complete([]).await?)
    })
    .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
    let state = fake.state();
    let events: Vec<_> = state.sent.iter().filter_map(|sent| sent.event.as_ref()).collect();
    assert!(matches!(events[0], Event::StreamStart(start) if start.artifact_name == "big"));
    let sizes: Vec<_> = events
        .iter()
        .filter_map(|event| {
            if let Event::StreamChunk(chunk) = event {
                Some((chunk.sequence, chunk.data.len()))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(sizes, [(0, 65536), (1, 65536), (2, 22528), (3, 3)]);
    assert!(matches!(events[5], Event::StreamEnd(end) if end.reason() == v1::StreamEndReason::Complete));
}
