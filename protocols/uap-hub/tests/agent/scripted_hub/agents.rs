//! The agent of a test: as the hub sees it, and as the task that it runs in.

use agentanycast_uap_hub::{
    agent::{Domain, ExecutionAgent, HubError},
    v1::{
        ListenRequest, ListenResponse, SessionAcceptance, SessionProposal, SessionReady, TestProposalDetails,
        TranslationProposalDetails, listen_request, listen_response, session_proposal,
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ScriptedHub, StreamCall, within};

/// An agent that is available.
#[derive(Debug)]
pub(crate) struct ListeningAgent {
    pub(crate) client_id: String,
    pub(crate) call: StreamCall<ListenRequest, ListenResponse>,
}

impl ListeningAgent {
    /// Accepts a Listen once the agent is ready.
    pub(crate) async fn accept(mut call: StreamCall<ListenRequest, ListenResponse>) -> Self {
        let client_id = call.header("x-client-id").to_owned();
        let ready = call.next().await.unwrap().event;
        assert_eq!(ready, Some(listen_request::Event::Ready(())));
        call.accept();
        Self { client_id, call }
    }

    /// Proposes a session; gives the agent's answer.
    pub(crate) async fn propose(
        &mut self,
        session_id: &str,
        domain: Domain,
        kind: &str,
    ) -> SessionAcceptance {
        let r#type = kind.to_owned();
        let details = match domain {
            Domain::Test => session_proposal::Details::Test(TestProposalDetails { r#type }),
            Domain::Translation => {
                session_proposal::Details::Translation(TranslationProposalDetails { r#type })
            }
        };
        self.propose_details(session_id, Some(details)).await
    }

    pub(crate) async fn propose_details(
        &mut self,
        session_id: &str,
        details: Option<session_proposal::Details>,
    ) -> SessionAcceptance {
        let proposal = SessionProposal {
            session_id: session_id.to_owned(),
            details,
        };
        self.send(listen_response::Event::SessionProposal(proposal)).await;
        match self.call.next().await.unwrap().event {
            Some(listen_request::Event::SessionAcceptance(answer)) => {
                assert_eq!(answer.session_id, session_id);
                answer
            }
            other => panic!("{other:?}"),
        }
    }

    /// Says that a session is ready.
    pub(crate) async fn ready(&mut self, session_id: &str) {
        self.send(listen_response::Event::SessionReady(SessionReady {
            session_id: session_id.to_owned(),
        }))
        .await;
    }

    /// Proposes a session that the agent accepts, and says that it is ready.
    pub(crate) async fn begin(&mut self, session_id: &str, domain: Domain, kind: &str) {
        let answer = self.propose(session_id, domain, kind).await;
        assert!(answer.accepted, "{}", answer.reason);
        assert_eq!(answer.reason, "");
        self.ready(session_id).await;
    }

    async fn send(&mut self, event: listen_response::Event) {
        self.call.send(ListenResponse { event: Some(event) }).await;
    }
}

/// An agent that runs beside the test. Stops when it is dropped.
pub(crate) struct RunningAgent {
    stop: CancellationToken,
    _stop: DropGuard,
    running: JoinHandle<Result<(), HubError>>,
}

impl RunningAgent {
    pub(crate) fn start(agent: ExecutionAgent, hub: &ScriptedHub) -> Self {
        let url = hub.url.clone();
        Self::spawn(|stop| async move { agent.run(url.as_str(), stop.cancelled()).await })
    }

    pub(crate) fn spawn<F>(run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = Result<(), HubError>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        Self {
            running: tokio::spawn(run(stop.clone())),
            _stop: stop.clone().drop_guard(),
            stop,
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(self) {
        within(self.running).await.unwrap().unwrap();
    }
}
