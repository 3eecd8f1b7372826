//! Tests: the daemon goes away in the middle of things, and agents do not notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::v1::{self, TaskStatus as Status, send_streaming_artifact_request::Event};

use super::BoxFuture;
use crate::{
    CancellationToken, ErrorKind, HandlerError, IncomingTask, Message, Node,
    fake_daemon::{CallMode, FakeDaemon, in_both_modes},
};

mod claims;
mod resumed;
mod unclaimed;

in_both_modes! {
    a_completion_whose_answer_was_lost_is_done_once
    a_handler_that_does_not_end_its_task_fails_it
    a_task_that_the_daemon_lost_is_begun_anew_when_it_comes_again
    an_answer_that_came_while_the_daemon_was_away_reaches_the_handler
    a_cancel_while_the_daemon_was_away_reaches_the_handler
    concurrency_is_bounded_and_the_rest_stays_unclaimed
    a_daemon_that_is_away_is_given_up_in_time
    handlers_that_do_not_finish_in_time_fail_their_tasks
    what_comes_to_an_agent_that_stops_is_passed_on
    an_artifact_is_sent_in_pieces_from_zero_without_gaps
    an_artifact_whose_end_was_not_answered_is_asked_for
}

fn status_of(fake: &FakeDaemon, id: &str) -> Status {
    fake.state().tasks[id].status()
}

type HandlerFuture = BoxFuture<Result<(), HandlerError>>;

/// Serves in the background; counts how often the handler ran.
async fn serving<F>(
    fake: &FakeDaemon,
    handler: impl Fn(IncomingTask) -> F + Send + Sync + 'static,
) -> Arc<AtomicUsize>
where
    F: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    serving_on(fake, fake.node().await, handler).await
}

/// As [`serving`], with this node.
async fn serving_on<F>(
    fake: &FakeDaemon,
    node: Node,
    handler: impl Fn(IncomingTask) -> F + Send + Sync + 'static,
) -> Arc<AtomicUsize>
where
    F: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let serve = node.serve(move |task| {
        counted.fetch_add(1, Ordering::SeqCst);
        handler(task)
    });
    tokio::spawn(serve.into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    runs
}

async fn a_completion_whose_answer_was_lost_is_done_once(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
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

async fn a_handler_that_does_not_end_its_task_fails_it(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

/// A daemon hands over before it has passed the barrier: after a crash it does not know the task, until that is sent
/// again.
async fn a_task_that_the_daemon_lost_is_begun_anew_when_it_comes_again(way: CallMode) {
    for (exclusive_for, restarts) in [
        (None, false),
        (Some(Duration::ZERO), false),
        (Some(Duration::ZERO), true),
    ] {
        let mut fake = FakeDaemon::start(way);
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

async fn an_answer_that_came_while_the_daemon_was_away_reaches_the_handler(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
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

async fn a_cancel_while_the_daemon_was_away_reaches_the_handler(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
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

async fn concurrency_is_bounded_and_the_rest_stays_unclaimed(way: CallMode) {
    let fake = FakeDaemon::start(way);
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
    let count = |state: &crate::fake_daemon::State, wanted| {
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

/// Whatever patience the node has with it.
async fn a_daemon_that_is_away_is_given_up_in_time(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let node = fake.patient(Duration::from_hours(1)).await;
    let serve = node.serve(|_task| std::future::pending());
    let served = tokio::spawn(serve.give_up_after(Duration::from_millis(100)).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.stop();
    let served = tokio::time::timeout(Duration::from_secs(20), served).await;
    let error = served.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DaemonUnavailable);
}

async fn handlers_that_do_not_finish_in_time_fail_their_tasks(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

/// The stream of tasks stays open while a handler runs: the daemon hands over more, which another agent is to have.
async fn what_comes_to_an_agent_that_stops_is_passed_on(way: CallMode) {
    let fake = FakeDaemon::start(way);
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
    let served = tokio::spawn(serve.concurrency(1).until(stop.clone()).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    fake.put("runs", Status::Submitted, Vec::new());
    fake.until("the claim", |state| {
        state.tasks["runs"].status() == Status::Working
    })
    .await;
    fake.put("waits", Status::Submitted, Vec::new());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(fake.state().passed_on.is_empty());
    stop.cancel();
    fake.until("it is passed on", |state| state.passed_on == ["waits"])
        .await;
    fake.put("comes", Status::Submitted, Vec::new());
    fake.until("this too", |state| state.passed_on == ["waits", "comes"])
        .await;
    gate.cancel();
    served.await.unwrap().unwrap();
    assert_eq!(status_of(&fake, "runs"), Status::Completed);
}

async fn an_artifact_is_sent_in_pieces_from_zero_without_gaps(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

/// The daemon goes away before it answers the end of an artifact: what it has of it afterwards says how it ended.
async fn an_artifact_whose_end_was_not_answered_is_asked_for(way: CallMode) {
    let lost = Some(ErrorKind::DaemonUnavailable);
    let reference = |id: &str| crate::Part::url(format!("agentanycast-stream:t/{id}"));
    let whole = outcome_of_an_unanswered_end(way, |_| Some(crate::Part::text("all")));
    assert_eq!(whole.await, None);
    let unknown = outcome_of_an_unanswered_end(way, |_| None);
    assert_eq!(unknown.await, lost);
    let open = outcome_of_an_unanswered_end(way, |id| Some(reference(id)));
    assert_eq!(open.await, lost);
    let broken = outcome_of_an_unanswered_end(way, |id| {
        let mut part = reference(id);
        let end = ("agentanycast-stream-end".to_owned(), "error".to_owned());
        part.metadata.extend([end]);
        Some(part)
    });
    assert_eq!(broken.await, lost);
}

/// How the end of an artifact fails that is not answered, if the daemon then has this part of it.
async fn outcome_of_an_unanswered_end(
    way: CallMode,
    shown: impl Fn(&str) -> Option<crate::Part>,
) -> Option<ErrorKind> {
    let mut fake = FakeDaemon::start(way);
    let (done, mut outcome) = tokio::sync::mpsc::channel(1);
    serving(&fake, move |task| {
        let done = done.clone();
        async move {
            let mut writer = task.stream_artifact("big", "text/plain").await?;
            writer.write("all").await?;
            let failure = writer.finish().await.err();
            done.send(failure.map(|error| error.kind())).await?;
            Ok(task.complete([]).await?)
        }
    })
    .await;
    fake.state().unanswered.push("artifact");
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the artifact", |state| state.calls.contains(&"artifact"))
        .await;
    {
        let mut state = fake.state();
        let Some(Event::StreamStart(start)) = state.sent[0].event.clone() else {
            panic!("{:?}", state.sent)
        };
        let part = shown(&start.artifact_id);
        let artifact = part.map(|part| v1::Artifact {
            artifact_id: start.artifact_id,
            parts: vec![part.into()],
            ..v1::Artifact::default()
        });
        state.tasks.get_mut("t").unwrap().artifacts = artifact.into_iter().collect();
    }
    fake.restart();
    outcome.recv().await.unwrap()
}
