//! Tests of claims: what is begun, and ended, without one, and what is not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::v1::TaskStatus as Status;
use tonic::Code;

use super::{serving, status_of};
use crate::{
    CancellationToken, ErrorKind, HandlerError, Message,
    fake_daemon::{CallMode, FakeDaemon, in_both_modes},
};

in_both_modes! {
    an_exclusive_task_that_is_done_at_once_is_not_claimed
    an_exclusive_task_is_claimed_while_its_handler_runs
    what_a_handler_says_of_an_exclusive_task_comes_after_the_claim
    an_exclusive_task_that_was_read_late_is_claimed_first
    an_exclusive_task_that_is_another_s_is_not_ended
    a_handler_outlives_a_claim_that_is_refused_for_room
    a_refused_end_claims_nothing
    a_claim_does_not_depend_on_who_waits_for_it
    a_claim_whose_answer_was_lost_is_made_again
    a_task_that_another_agent_got_meanwhile_is_let_go
    a_handler_that_outlives_a_connection_says_so
    what_a_handler_gives_back_begins_anew_when_it_comes_again
    what_an_older_daemon_does_not_take_back_goes_on
    a_report_is_done_if_the_task_has_it
}

/// Serves by a handler that completes each task once the gate is open, that is, canceled; counts its runs.
async fn serving_behind_a_gate(fake: &FakeDaemon) -> (Arc<AtomicUsize>, CancellationToken) {
    let gate = CancellationToken::new();
    let opened = gate.clone();
    let runs = serving(fake, move |task| {
        let opened = opened.clone();
        async move {
            opened.cancelled().await;
            Ok(task.complete([]).await?)
        }
    })
    .await;
    (runs, gate)
}

/// The claim before it is the SDK's; that the handler outlived the connection is the agent's word.
async fn a_handler_that_outlives_a_connection_says_so(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    let (_, gate) = serving_behind_a_gate(&fake).await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| state.automatic == [true]).await;
    fake.restart();
    fake.until("its renewal", |state| state.automatic == [true, false])
        .await;
    gate.cancel();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}

async fn an_exclusive_task_that_is_done_at_once_is_not_claimed(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

async fn an_exclusive_task_is_claimed_while_its_handler_runs(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let (runs, gate) = serving_behind_a_gate(&fake).await;
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

async fn what_a_handler_says_of_an_exclusive_task_comes_after_the_claim(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

async fn an_exclusive_task_that_was_read_late_is_claimed_first(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.state().exclusive_for = Some(Duration::from_secs(5));
    let runs = serving(&fake, |task| async move { Ok(task.complete([]).await?) }).await;
    fake.state().claimed_by_others.insert("theirs".to_owned());
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
async fn an_exclusive_task_that_is_another_s_is_not_ended(way: CallMode) {
    let fake = FakeDaemon::start(way);
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
        fake.state().claimed_by_others.insert(id.to_owned());
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
async fn a_handler_outlives_a_claim_that_is_refused_for_room(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.state().exclusive_for = Some(Duration::ZERO);
    let (_, gate) = serving_behind_a_gate(&fake).await;
    fake.state().claims_refused = Some(Code::ResourceExhausted);
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the claim", |state| !state.calls.is_empty()).await;
    gate.cancel();
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}

/// An end that is refused, or not waited for, leaves the task to be claimed.
async fn a_refused_end_claims_nothing(way: CallMode) {
    let fake = FakeDaemon::start(way);
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
async fn a_claim_does_not_depend_on_who_waits_for_it(way: CallMode) {
    let fake = FakeDaemon::start(way);
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

async fn a_claim_whose_answer_was_lost_is_made_again(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
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
async fn a_task_that_another_agent_got_meanwhile_is_let_go(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
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
    fake.state().claimed_by_others.insert("theirs".to_owned());
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
    // The other one gives it back.
    fake.state().claimed_by_others.clear();
    fake.forget_claims();
    fake.put("theirs", Status::Submitted, Vec::new());
    fake.until("its end", |state| {
        state.tasks["theirs"].status() == Status::Completed
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// Also when the answer is lost.
async fn what_a_handler_gives_back_begins_anew_when_it_comes_again(way: CallMode) {
    for is_lost in [false, true] {
        let mut fake = FakeDaemon::start(way);
        let gate = CancellationToken::new();
        let (opened, runs) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&runs);
        serving(&fake, move |task| {
            let (opened, run) = (opened.clone(), counted.fetch_add(1, Ordering::SeqCst));
            async move {
                if run > 0 {
                    return Ok(task.complete([]).await?);
                }
                opened.cancelled().await;
                task.give_back().await?;
                assert!(task.is_over());
                Err(HandlerError::new("this fails no task"))
            }
        })
        .await;
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the claim", |state| state.calls == ["update"]).await;
        if is_lost {
            fake.state().unanswered.push("update");
        }
        gate.cancel();
        if is_lost {
            fake.until("the call", |state| state.calls.len() > 1).await;
            fake.restart();
        }
        fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
            .await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        assert!(!fake.state().calls.contains(&"fail"));
    }
}

async fn what_an_older_daemon_does_not_take_back_goes_on(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.state().takes_nothing_back = true;
    let runs = serving(&fake, |task| async move {
        let refused = task.give_back().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(!task.is_over());
        Ok(task.complete([]).await?)
    })
    .await;
    fake.put("t", Status::Submitted, Vec::new());
    fake.until("the end", |state| state.tasks["t"].status() == Status::Completed)
        .await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A report got no answer; after the restart another agent has the task, which works on it too. Only the report itself, in the
/// task, shows that it was taken.
async fn a_report_is_done_if_the_task_has_it(way: CallMode) {
    for (is_taken, wanted) in [(true, None), (false, Some(ErrorKind::Conflict))] {
        let mut fake = FakeDaemon::start(way);
        let (said, mut heard) = tokio::sync::mpsc::channel(1);
        let gate = CancellationToken::new();
        let opened = gate.clone();
        serving(&fake, move |task| {
            let (said, opened) = (said.clone(), opened.clone());
            async move {
                task.working("first").await?;
                opened.cancelled().await;
                let answer = task.working("second").await;
                said.send(answer.err().map(|error| error.kind())).await.unwrap();
                Ok(())
            }
        })
        .await;
        fake.put("t", Status::Submitted, Vec::new());
        fake.until("the first report", |state| state.calls == ["update", "update"])
            .await;
        {
            let mut state = fake.state();
            let calls = if is_taken {
                &mut state.unanswered
            } else {
                &mut state.lost
            };
            calls.push("update");
        }
        gate.cancel();
        fake.until("the second one", |state| state.calls.len() == 3).await;
        fake.stop();
        fake.state().claimed_by_others.insert("t".to_owned());
        fake.restart();
        assert_eq!(heard.recv().await.unwrap(), wanted, "taken: {is_taken}");
    }
}
