//! A hub that hands each call to the test and answers as the test says; registrations alone it answers
//! itself. Every wait has a deadline.
//!
//! A streaming call gets its response headers when the test accepts it: until then the server is like one
//! that sends its headers with its first message.

mod agents;
mod stream_call;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use agentanycast_uap_hub::{
    agent::{Domain, MAX_MESSAGE},
    v1::{
        AgentRegistration, AgentRegistrationResponse, ListenRequest, ListenResponse, TestInit, TestResponse,
        TestState, TranslationInit, TranslationResponse,
        agent_hub_server::{AgentHub, AgentHubServer},
    },
};
use tokio::{net::TcpListener, runtime::Runtime, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    metadata::MetadataMap,
    transport::{Server, ServerTlsConfig, server::TcpIncoming},
};

pub(crate) use self::{
    agents::{ListeningAgent, RunningAgent},
    stream_call::StreamCall,
};

const DEADLINE: Duration = Duration::from_secs(20);

/// `future`, which has to resolve.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(DEADLINE, future).await.expect("nothing happens")
}

/// A call of an agent.
#[derive(Debug)]
pub(crate) enum HubCall {
    /// Answered already.
    Register {
        registration: AgentRegistration,
        metadata: MetadataMap,
        client_id: String,
    },
    Listen(StreamCall<ListenRequest, ListenResponse>),
    Execute(StreamCall<TestResponse, TestInit>),
    Translate(StreamCall<TranslationResponse, TranslationInit>),
}

/// A hub.
pub(crate) struct ScriptedHub {
    pub(crate) url: String,
    calls: mpsc::UnboundedReceiver<HubCall>,
    runtime: Option<Runtime>,
}

impl ScriptedHub {
    pub(crate) fn start() -> Self {
        Self::with_tls(None)
    }

    pub(crate) fn with_tls(tls: Option<ServerTlsConfig>) -> Self {
        // Dropping a runtime is what cuts its connections.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (sender, calls) = mpsc::unbounded_channel();
        let hub = AgentHubServer::new(HubServer {
            calls: sender,
            clients: AtomicUsize::new(0),
        })
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
        // The programs' own front says which one; tonic's server asks the process.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        runtime.spawn(async move {
            let mut server = Server::builder();
            if let Some(tls) = tls {
                server = server.tls_config(tls).unwrap();
            }
            let incoming = TcpIncoming::from(TcpListener::from_std(listener).unwrap());
            server
                .add_service(hub)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self {
            url: format!("{scheme}://localhost:{port}"),
            calls,
            runtime: Some(runtime),
        }
    }

    /// Cuts all connections, and takes no more.
    pub(crate) fn cut(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) async fn call(&mut self) -> HubCall {
        within(self.calls.recv()).await.unwrap()
    }

    /// The next call is a registration: its content and the identity that it was answered with.
    pub(crate) async fn registration(&mut self) -> (AgentRegistration, String) {
        match self.call().await {
            HubCall::Register {
                registration,
                client_id,
                ..
            } => (registration, client_id),
            other => panic!("{other:?}"),
        }
    }

    /// The next call is a Listen, which is not accepted yet.
    pub(crate) async fn listen(&mut self) -> StreamCall<ListenRequest, ListenResponse> {
        match self.call().await {
            HubCall::Listen(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// The next call is an Execute, which is not accepted yet.
    pub(crate) async fn execute(&mut self) -> StreamCall<TestResponse, TestInit> {
        match self.call().await {
            HubCall::Execute(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until an agent has registered, listens and is ready.
    pub(crate) async fn agent(&mut self) -> ListeningAgent {
        let (_, client_id) = self.registration().await;
        let agent = ListeningAgent::accept(self.listen().await).await;
        assert_eq!(agent.client_id, client_id);
        agent
    }

    /// Has the agent begin the test `session_id` of the type `kind`, and acknowledge it.
    pub(crate) async fn begin_test(
        &mut self,
        agent: &mut ListeningAgent,
        session_id: &str,
        kind: &str,
    ) -> StreamCall<TestResponse, TestInit> {
        agent.begin(session_id, Domain::Test, kind).await;
        let mut call = self.execute().await;
        assert_eq!(call.header("x-session-id"), session_id);
        assert_eq!(call.header("x-client-id"), agent.client_id);
        call.send(TestInit {
            test_type: kind.to_owned(),
            payloads: Vec::new(),
        })
        .await;
        assert_eq!(call.status().await.0, TestState::Acknowledged);
        call
    }
}

impl Drop for ScriptedHub {
    fn drop(&mut self) {
        self.cut();
    }
}

#[derive(Debug)]
struct HubServer {
    calls: mpsc::UnboundedSender<HubCall>,
    clients: AtomicUsize,
}

impl HubServer {
    async fn streaming<I, O>(
        &self,
        request: Request<Streaming<I>>,
        call: impl FnOnce(StreamCall<I, O>) -> HubCall,
    ) -> Result<Response<ReceiverStream<Result<O, Status>>>, Status> {
        let (handed, answered) = StreamCall::new(request);
        let call = call(handed);
        self.calls
            .send(call)
            .map_err(|_| Status::aborted("the test is over"))?;
        let responses = answered
            .await
            .map_err(|_| Status::aborted("the test dropped the call"))??;
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}

#[tonic::async_trait]
impl AgentHub for HubServer {
    type ListenStream = ReceiverStream<Result<ListenResponse, Status>>;
    type ExecuteStream = ReceiverStream<Result<TestInit, Status>>;
    type TranslateStream = ReceiverStream<Result<TranslationInit, Status>>;

    async fn register(
        &self,
        request: Request<AgentRegistration>,
    ) -> Result<Response<AgentRegistrationResponse>, Status> {
        let client_id = format!("client-{}", self.clients.fetch_add(1, Ordering::Relaxed));
        let (metadata, _, registration) = request.into_parts();
        let call = HubCall::Register {
            registration,
            metadata,
            client_id: client_id.clone(),
        };
        self.calls
            .send(call)
            .map_err(|_| Status::aborted("the test is over"))?;
        Ok(Response::new(AgentRegistrationResponse { client_id }))
    }

    async fn listen(
        &self,
        request: Request<Streaming<ListenRequest>>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        self.streaming(request, HubCall::Listen).await
    }

    async fn execute(
        &self,
        request: Request<Streaming<TestResponse>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        self.streaming(request, HubCall::Execute).await
    }

    async fn translate(
        &self,
        request: Request<Streaming<TranslationResponse>>,
    ) -> Result<Response<Self::TranslateStream>, Status> {
        self.streaming(request, HubCall::Translate).await
    }
}
