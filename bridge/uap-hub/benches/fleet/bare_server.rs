//! A bare tonic service with the messages of the hub: each agent gets the next session when it has ended its last one. It checks nothing and
//! keeps nothing.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use agentanycast_uap_hub::v1::{
    AgentRegistration, AgentRegistrationResponse, Attachment, ListenRequest, ListenResponse, Payload,
    SessionProposal, SessionReady, TestInit, TestProposalDetails, TestResponse, TranslationInit,
    TranslationResponse,
    agent_hub_server::{AgentHub, AgentHubServer},
    listen_request, listen_response,
    session_proposal::Details,
};
use futures::{Stream, StreamExt as _, stream};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc},
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::{TYPES, server::announce, sessions};

type ToClient<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Listener = mpsc::Sender<Result<ListenResponse, Status>>;

#[derive(Default)]
struct Bare {
    begun: AtomicUsize,
    ended: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
    all_ended: Notify,
}

impl Bare {
    /// Proposes the next session to an agent; its id is a number, and the agent's.
    async fn propose(&self, agent: usize) {
        let number = self.begun.fetch_add(1, Relaxed);
        if number >= sessions() {
            return;
        }
        let proposal = SessionProposal {
            session_id: format!("{number}-{agent}"),
            details: Some(Details::Test(TestProposalDetails {
                r#type: TYPES[agent % TYPES.len()].to_owned(),
            })),
        };
        self.tell(agent, listen_response::Event::SessionProposal(proposal))
            .await;
    }

    async fn tell(&self, agent: usize, event: listen_response::Event) {
        let listener = self.listeners.lock().unwrap()[agent].clone();
        listener
            .send(Ok(ListenResponse { event: Some(event) }))
            .await
            .unwrap();
    }
}

struct Service(Arc<Bare>);

#[tonic::async_trait]
impl AgentHub for Service {
    async fn register(
        &self,
        _: Request<AgentRegistration>,
    ) -> Result<Response<AgentRegistrationResponse>, Status> {
        let client_id = "agent".to_owned();
        Ok(Response::new(AgentRegistrationResponse { client_id }))
    }

    type ListenStream = ToClient<ListenResponse>;

    async fn listen(
        &self,
        request: Request<Streaming<ListenRequest>>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        let (sender, receiver) = mpsc::channel(8);
        let agent = {
            let mut listeners = self.0.listeners.lock().unwrap();
            listeners.push(sender);
            listeners.len() - 1
        };
        let bare = Arc::clone(&self.0);
        let mut said = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(message)) = said.next().await {
                if let Some(listen_request::Event::SessionAcceptance(answer)) = message.event {
                    let session_id = answer.session_id;
                    bare.tell(
                        agent,
                        listen_response::Event::SessionReady(SessionReady { session_id }),
                    )
                    .await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver).boxed()))
    }

    type ExecuteStream = ToClient<TestInit>;

    async fn execute(
        &self,
        request: Request<Streaming<TestResponse>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        let id = request
            .metadata()
            .get("x-session-id")
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let (name, agent) = id.split_once('-').unwrap();
        let agent: usize = agent.parse().unwrap();
        let init = TestInit {
            test_type: TYPES[agent % TYPES.len()].to_owned(),
            payloads: vec![Payload {
                attachment: Some(Attachment {
                    name: name.to_owned(),
                    mime_type: "application/octet-stream".to_owned(),
                    data: vec![7; 1024].into(),
                }),
                ..Payload::default()
            }],
        };
        let bare = Arc::clone(&self.0);
        let mut said = request.into_inner();
        let (held, ended) = mpsc::channel::<()>(1);
        tokio::spawn(async move {
            while let Some(Ok(_)) = said.next().await {}
            drop(held);
            if bare.ended.fetch_add(1, Relaxed) + 1 == sessions() {
                bare.all_ended.notify_one();
            }
            bare.propose(agent).await;
        });
        let end = stream::once(async move {
            let mut ended = ended;
            ended.recv().await
        });
        let told = stream::once(async move { Ok(init) }).chain(end.filter_map(|_| async { None }));
        Ok(Response::new(told.boxed()))
    }

    type TranslateStream = ToClient<TranslationInit>;

    async fn translate(
        &self,
        _: Request<Streaming<TranslationResponse>>,
    ) -> Result<Response<Self::TranslateStream>, Status> {
        Err(Status::unimplemented("tests only"))
    }
}

/// Serves until the process is ended.
pub(crate) async fn serve() {
    let bare = Arc::<Bare>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = AgentHubServer::new(Service(Arc::clone(&bare)));
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(
        Server::builder()
            .tcp_nodelay(true)
            .add_service(service)
            .serve_with_incoming(incoming),
    );
    announce(&url).await;
    let agents = bare.listeners.lock().unwrap().len();
    for agent in 0..agents {
        bare.propose(agent).await;
    }
    bare.all_ended.notified().await;
    println!("done");
    std::future::pending::<()>().await;
}
