//! Sessions that do not end well, and the end of an agent.

use std::{io, num::NonZeroUsize, sync::Arc, time::Duration};

use agentanycast_uap_hub::{
    agent::{AgentSession, BoxError, Domain, ExecutionAgent, SessionEnd, SessionOver},
    v1::{TestInit, TestState},
};
use tokio::sync::{Notify, mpsc, oneshot};
use tonic::Status;

use crate::scripted_hub::{RunningAgent, ScriptedHub, within};

#[tokio::test]
async fn a_handler_that_fails_ends_its_session_as_failed() {
    async fn fails(_: AgentSession) -> Result<SessionEnd, BoxError> {
        Err(Box::new(io::Error::other("the disk is full")))
    }
    async fn is_invalid(_: AgentSession) -> Result<SessionEnd, BoxError> {
        Ok(SessionEnd::invalid("no file"))
    }
    async fn panics(session: AgentSession) -> Result<SessionEnd, BoxError> {
        session.progress.running("").await?;
        panic!("index {} is out of bounds", session.payloads.len());
    }
    let mut hub = ScriptedHub::start();
    let agent = ExecutionAgent::new("a")
        .test("fails", [], fails)
        .test("invalid", [], is_invalid)
        .test("panics", [], panics);
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    for (kind, state, message) in [
        ("fails", TestState::Failed, "the disk is full"),
        ("invalid", TestState::Invalid, "no file"),
        (
            "panics",
            TestState::Failed,
            "the agent panicked: index 0 is out of bounds",
        ),
        // The panic ended nothing else.
        ("fails", TestState::Failed, "the disk is full"),
    ] {
        let mut session = hub.begin_test(&mut agent, "JOB-1", kind).await;
        assert_eq!(session.end().await, (state, message.to_owned()));
        assert_eq!(session.next().await, None);
    }
}

/// A session's id, and what it is told by its progress once it is cancelled.
type BegunSession = (String, oneshot::Receiver<Result<(), SessionOver>>);

/// An agent whose sessions say when they begin, and end when they are cancelled or notified.
fn controlled() -> (ExecutionAgent, mpsc::UnboundedReceiver<BegunSession>, Arc<Notify>) {
    let (begun, sessions) = mpsc::unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let notified = go_on.clone();
    let handler = move |session: AgentSession| {
        let (begun, go_on) = (begun.clone(), notified.clone());
        async move {
            let (cancelled, receiver) = oneshot::channel();
            begun.send((session.session_id.clone(), receiver))?;
            tokio::select! {
                () = session.cancelled.cancelled() => {
                    let _ = cancelled.send(session.progress.running("late").await);
                    Ok(SessionEnd::failed("cancelled"))
                }
                () = go_on.notified() => Ok(SessionEnd::completed()),
            }
        }
    };
    (
        ExecutionAgent::new("a").test("junit", [], handler),
        sessions,
        go_on,
    )
}

#[tokio::test]
async fn a_session_that_the_hub_ends_is_cancelled_alone() {
    let mut hub = ScriptedHub::start();
    let (agent, mut sessions, go_on) = controlled();
    let _agent = RunningAgent::start(agent.slots(NonZeroUsize::new(4).unwrap()), &hub);
    let mut agent = hub.agent().await;

    let mut other = hub.begin_test(&mut agent, "JOB-0", "junit").await;
    let (_, mut other_cancelled) = within(sessions.recv()).await.unwrap();

    // By an error.
    let session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    let (id, cancelled) = within(sessions.recv()).await.unwrap();
    assert_eq!(id, "JOB-1");
    session.fail(Status::cancelled("not wanted")).await;
    assert_eq!(within(cancelled).await.unwrap(), Err(SessionOver));

    // Without one.
    let session = hub.begin_test(&mut agent, "JOB-2", "junit").await;
    let (_, cancelled) = within(sessions.recv()).await.unwrap();
    drop(session);
    assert_eq!(within(cancelled).await.unwrap(), Err(SessionOver));

    // Before it said what is to be done.
    agent.begin("JOB-3", Domain::Test, "junit").await;
    let session = hub.execute().await;
    session.fail(Status::not_found("Invalid Session ID")).await;

    assert!(other_cancelled.try_recv().is_err());
    go_on.notify_one();
    assert_eq!(other.end().await.0, TestState::Completed);
    // No slot is lost.
    let mut open = Vec::new();
    for number in 4..8 {
        open.push(
            hub.begin_test(&mut agent, &format!("JOB-{number}"), "junit")
                .await,
        );
        within(sessions.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn a_lost_connection_cancels_its_sessions() {
    let mut hub = ScriptedHub::start();
    let (agent, mut sessions, _) = controlled();
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    let _session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    let (_, cancelled) = within(sessions.recv()).await.unwrap();
    hub.cut();
    assert_eq!(within(cancelled).await.unwrap(), Err(SessionOver));
}

#[tokio::test]
async fn an_agent_that_stops_lets_sessions_end() {
    let mut hub = ScriptedHub::start();
    let (agent, mut sessions, go_on) = controlled();
    let running = RunningAgent::start(
        agent
            .slots(NonZeroUsize::new(2).unwrap())
            .drain(Duration::from_secs(1000)),
        &hub,
    );
    let mut agent = hub.agent().await;
    let mut session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    let (_, mut cancelled) = within(sessions.recv()).await.unwrap();
    running.stop();
    loop {
        let answer = agent.propose("JOB-2", Domain::Test, "junit").await;
        if !answer.accepted {
            // Unless the proposal before was taken.
            if answer.reason == "the agent stops" {
                break;
            }
            assert!(answer.reason.contains("already"), "{}", answer.reason);
        }
    }
    assert!(cancelled.try_recv().is_err());
    go_on.notify_one();
    assert_eq!(session.end().await.0, TestState::Completed);
    drop(session);
    running.ended().await;
    agent.call.over().await;
}

#[tokio::test]
async fn an_agent_that_stops_cancels_what_does_not_end() {
    let mut hub = ScriptedHub::start();
    let (agent, mut sessions, _) = controlled();
    let running = RunningAgent::start(agent.drain(Duration::ZERO), &hub);
    let mut agent = hub.agent().await;
    let mut session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    let (_, cancelled) = within(sessions.recv()).await.unwrap();
    running.stop();
    assert_eq!(within(cancelled).await.unwrap(), Err(SessionOver));
    assert_eq!(
        session.end().await,
        (TestState::Failed, "the agent stops".to_owned())
    );
    assert_eq!(session.next().await, None);
    drop(session);
    running.ended().await;
}

#[tokio::test]
async fn a_hub_that_asks_for_another_type_than_it_proposed_is_told() {
    let mut hub = ScriptedHub::start();
    let (agent, _sessions, _) = controlled();
    let _agent = RunningAgent::start(agent, &hub);
    let mut agent = hub.agent().await;
    agent.begin("JOB-1", Domain::Test, "junit").await;
    let mut session = hub.execute().await;
    session
        .send(TestInit {
            test_type: "other".to_owned(),
            payloads: Vec::new(),
        })
        .await;
    let expected = "the agent has no processor for the test \"other\"".to_owned();
    assert_eq!(session.end().await, (TestState::Invalid, expected));
}
