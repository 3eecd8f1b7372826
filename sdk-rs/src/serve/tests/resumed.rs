//! Tasks that are taken one by one, let go of, and taken up by a later process.

use tokio::sync::Semaphore;

use super::*;

in_both_modes! {
    a_task_is_claimed_only_with_a_permit
    a_task_that_was_left_does_not_fail
    a_task_of_an_earlier_process_is_resumed
    an_answer_reaches_a_resumed_task
    what_cannot_be_resumed_says_why
    a_service_takes_up_the_tasks_of_an_earlier_process
    a_service_waits_until_the_earlier_process_is_gone
}

async fn a_task_is_claimed_only_with_a_permit(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let permits = Arc::new(Semaphore::new(0));
    let serve = fake.node().await.serve(|task| async move {
        task.cancelled().cancelled().await;
        Ok(())
    });
    tokio::spawn(serve.permits(Arc::clone(&permits)).into_future());
    fake.until("the subscription", |state| state.subscriptions == 1)
        .await;
    let working = |state: &crate::fake_daemon::State| {
        let tasks = state.tasks.values();
        tasks.filter(|task| task.status() == Status::Working).count()
    };
    // The first one is another's: it leaves its permit to the next one.
    fake.state().claimed_by_others.insert("a".to_owned());
    for id in ["a", "b", "c"] {
        fake.put(id, Status::Submitted, Vec::new());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.state().calls, [""; 0]);
    permits.add_permits(1);
    fake.until("one is claimed", |state| working(state) == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let count = working(&fake.state());
    assert_eq!((count, status_of(&fake, "b")), (1, Status::Working));
    permits.add_permits(1);
    fake.until("two are claimed", |state| working(state) == 2).await;
}

async fn a_task_that_was_left_does_not_fail(way: CallMode) {
    let fake = FakeDaemon::start(way);
    serving(&fake, |task| async move {
        if task.id() == "left" {
            task.claim().await?;
            task.leave();
        }
        Ok(())
    })
    .await;
    fake.put("left", Status::Submitted, Vec::new());
    fake.put("other", Status::Submitted, Vec::new());
    fake.until("the other one fails", |state| {
        state.tasks["other"].status() == Status::Failed
    })
    .await;
    assert_eq!(status_of(&fake, "left"), Status::Working);
}

async fn a_task_of_an_earlier_process_is_resumed(way: CallMode) {
    let mut fake = FakeDaemon::start(way);
    fake.put("done", Status::Working, Vec::new());
    fake.put("canceled", Status::Working, Vec::new());
    let node = fake.node().await;
    let done = node.resume_task("done").await.unwrap();
    let canceled = node.resume_task("canceled").await.unwrap();
    assert_eq!(fake.state().automatic, [false, false]);
    done.complete([]).await.unwrap();
    assert_eq!(status_of(&fake, "done"), Status::Completed);
    // Also over a restart of the daemon.
    fake.restart();
    fake.put("canceled", Status::Canceled, Vec::new());
    let told = tokio::time::timeout(Duration::from_secs(20), async move {
        canceled.cancelled().cancelled().await;
    });
    told.await.unwrap();
}

async fn an_answer_reaches_a_resumed_task(way: CallMode) {
    let fake = FakeDaemon::start(way);
    let (asked, question, answer) = (
        Message::text("paint"),
        Message::agent_text("Which colour?"),
        Message::text("blue"),
    );
    let said: Vec<v1::Message> = vec![asked.into(), question.clone().into()];
    fake.put("t", Status::InputRequired, said.clone());
    let task = fake.node().await.resume_task("t").await.unwrap();
    let waiting = tokio::spawn(async move { task.ask(question).await });
    fake.until("it asks again", |state| state.calls.len() >= 2).await;
    fake.put("t", Status::Working, [said, vec![answer.into()]].concat());
    assert_eq!(waiting.await.unwrap().unwrap().text_content(), "blue");
}

async fn what_cannot_be_resumed_says_why(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.put("ended", Status::Completed, Vec::new());
    fake.put("new", Status::Submitted, Vec::new());
    fake.put("another's", Status::Working, Vec::new());
    fake.state().claimed_by_others.insert("another's".to_owned());
    let node = fake.node().await;
    for (id, kind) in [
        ("ended", ErrorKind::Conflict),
        ("new", ErrorKind::Conflict),
        ("another's", ErrorKind::Conflict),
        ("unknown", ErrorKind::TaskNotFound),
    ] {
        assert_eq!(node.resume_task(id).await.unwrap_err().kind(), kind, "{id}");
    }
}

async fn a_service_takes_up_the_tasks_of_an_earlier_process(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.put("begun", Status::Working, Vec::new());
    fake.put("panics", Status::Working, Vec::new());
    fake.put("ended", Status::Completed, Vec::new());
    let serve = fake.node().await.serve(|task| async move {
        assert_ne!(task.id(), "ended");
        assert_ne!(task.id(), "panics", "out of paper");
        task.complete([]).await?;
        Ok(())
    });
    let ids = ["unknown", "ended", "begun", "panics"].map(str::to_owned);
    tokio::spawn(serve.resume(ids).concurrency(1).into_future());
    fake.until("the tasks end", |state| {
        state.tasks["begun"].status() == Status::Completed && state.tasks["panics"].status() == Status::Failed
    })
    .await;
    // What comes anew is served as ever.
    fake.put("new", Status::Submitted, Vec::new());
    fake.until("the next one ends", |state| {
        state.tasks["new"].status() == Status::Completed
    })
    .await;
}

async fn a_service_waits_until_the_earlier_process_is_gone(way: CallMode) {
    let fake = FakeDaemon::start(way);
    fake.put("t", Status::Working, Vec::new());
    fake.state().claimed_by_others.insert("t".to_owned());
    let serve = fake.node().await.serve(|task| async move {
        task.complete([]).await?;
        Ok(())
    });
    tokio::spawn(serve.resume(["t".to_owned()]).into_future());
    fake.until("it was asked for", |state| !state.calls.is_empty())
        .await;
    assert_eq!(status_of(&fake, "t"), Status::Working);
    fake.state().claimed_by_others.remove("t");
    fake.until("it ends", |state| state.tasks["t"].status() == Status::Completed)
        .await;
}
