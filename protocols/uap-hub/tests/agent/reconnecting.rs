//! How an agent comes back to its hub. The waits themselves are tested beside their code, under a clock that
//! stands; here they are real, and at most 2 s.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_uap_hub::{
    agent::{
        AgentSession, BoxError, Domain, ExecutionAgent, HubConnection, HubEndpoint, HubError, Proposal,
        SessionEnd, SessionRunner,
    },
    v1::{AgentRegistration, TestState},
};
use async_trait::async_trait;
use tokio::sync::{Notify, mpsc};
use tonic::{Code, Status};

use crate::scripted_hub::{RunningAgent, ScriptedHub, within};

async fn completes(_: AgentSession) -> Result<SessionEnd, BoxError> {
    Ok(SessionEnd::completed())
}

#[tokio::test]
async fn registers_anew_after_a_loss_and_waits_less_once_a_listen_stood() {
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], completes), &hub);
    let mut refused_at = Vec::new();
    for _ in 0..2 {
        hub.registration().await;
        refused_at.push(Instant::now());
        hub.listen().await.fail(Status::unavailable("later")).await;
    }
    assert!(refused_at[0].elapsed() >= Duration::from_secs(1));
    let agent = hub.agent().await;
    assert!(refused_at[1].elapsed() >= Duration::from_secs(2));

    let lost_at = Instant::now();
    let first_id = agent.client_id.clone();
    drop(agent);
    let mut agent = hub.agent().await;
    let waited = lost_at.elapsed();
    // 4 s, had no Listen stood.
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(4)).contains(&waited),
        "{waited:?}"
    );
    assert_ne!(agent.client_id, first_id);
    hub.begin_test(&mut agent, "JOB-1", "junit").await;
}

#[tokio::test]
async fn a_session_outlives_the_listen_that_brought_it() {
    let go_on = Arc::new(Notify::new());
    let notified = go_on.clone();
    let handler = move |_| {
        let go_on = notified.clone();
        async move {
            go_on.notified().await;
            Ok(SessionEnd::completed())
        }
    };
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], handler), &hub);
    let mut agent = hub.agent().await;
    let mut session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    agent.call.fail(Status::aborted("another Listen")).await;
    let mut agent = hub.agent().await;
    // Its slot is taken still.
    let answer = agent.propose("JOB-2", Domain::Test, "junit").await;
    assert!(answer.reason.starts_with("busy: "), "{answer:?}");
    go_on.notify_one();
    assert_eq!(session.end().await.0, TestState::Completed);
    hub.begin_test(&mut agent, "JOB-3", "junit").await;
}

#[tokio::test]
async fn what_was_accepted_and_not_begun_is_forgotten_with_its_listen() {
    let mut hub = ScriptedHub::start();
    let _agent = RunningAgent::start(ExecutionAgent::new("a").test("junit", [], completes), &hub);
    let mut agent = hub.agent().await;
    assert!(agent.propose("JOB-1", Domain::Test, "junit").await.accepted);
    drop(agent);
    let mut agent = hub.agent().await;
    agent.ready("JOB-1").await;
    hub.begin_test(&mut agent, "JOB-2", "junit").await;
}

/// Tells the test when it is connected and when not.
struct ToldRunner(mpsc::UnboundedSender<Told>);

#[derive(Debug)]
enum Told {
    Connected(String),
    Disconnected(String, Option<Code>, Duration),
}

#[async_trait]
impl SessionRunner for ToldRunner {
    fn registration(&self) -> AgentRegistration {
        AgentRegistration::default()
    }

    fn accepts(&self, proposal: &Proposal) -> Result<(), String> {
        Err(format!("no {}", proposal.kind))
    }

    async fn carry_out(&self, _: AgentSession) -> SessionEnd {
        SessionEnd::completed()
    }

    fn connected(&self, client_id: &str) {
        let _ = self.0.send(Told::Connected(client_id.to_owned()));
    }

    fn disconnected(&self, error: &HubError, retry_in: Duration) {
        let code = match error {
            HubError::Ended { status, .. } => Some(status.code()),
            _ => None,
        };
        let _ = self.0.send(Told::Disconnected(error.to_string(), code, retry_in));
    }
}

/// Why the first connection to a hub fails.
pub(crate) async fn first_error(endpoint: HubEndpoint) -> String {
    let (sender, mut told) = mpsc::unbounded_channel();
    let _running = RunningAgent::spawn(|stop| async move {
        let connection = HubConnection::new(endpoint);
        connection
            .run(Arc::new(ToldRunner(sender)), stop.cancelled())
            .await
    });
    match within(told.recv()).await.unwrap() {
        Told::Disconnected(error, ..) => error,
        other @ Told::Connected(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_runner_is_told_of_its_connection() {
    let mut hub = ScriptedHub::start();
    let (sender, mut told) = mpsc::unbounded_channel();
    let connection = HubConnection::new(HubEndpoint::new(&hub.url).unwrap());
    let running = RunningAgent::spawn(|stop| async move {
        connection
            .run(Arc::new(ToldRunner(sender)), stop.cancelled())
            .await
    });
    let mut agent = hub.agent().await;
    match within(told.recv()).await.unwrap() {
        Told::Connected(client_id) => assert_eq!(client_id, agent.client_id),
        other @ Told::Disconnected(..) => panic!("{other:?}"),
    }
    assert_eq!(
        agent.propose("JOB-1", Domain::Test, "junit").await.reason,
        "no junit"
    );
    agent.call.fail(Status::aborted("another Listen")).await;
    match within(told.recv()).await.unwrap() {
        Told::Disconnected(error, code, retry_in) => {
            assert_eq!(error, "the hub ended Listen: Aborted: another Listen");
            assert_eq!((code, retry_in), (Some(Code::Aborted), Duration::from_secs(1)));
        }
        other @ Told::Connected(_) => panic!("{other:?}"),
    }
    // A hub that is away is tried again.
    hub.cut();
    let url = hub.url.clone();
    loop {
        if let Told::Disconnected(error, code, retry_in) = within(told.recv()).await.unwrap()
            && retry_in > Duration::from_secs(1)
        {
            assert!(
                error.starts_with(&format!("cannot connect to the hub {url}: ")),
                "{error}"
            );
            assert_eq!((code, retry_in), (None, Duration::from_secs(2)));
            break;
        }
    }
    running.stop();
    running.ended().await;
}
