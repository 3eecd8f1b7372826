//! The service that clients of the hub call: Register, Listen, Execute and Translate.
//!
//! Invariant: what a client says counts for itself: ids are unguessable, and a session is opened by the client to which it was proposed.

use std::{pin::Pin, sync::Arc};

use agentanycast_front::{
    admission::AdmittedRequest,
    front::FrontRules,
    refusal::{Refusal, RefusalKind},
    response_body::bounded_response,
};
use agentanycast_uap_hub::{
    codec::MAX_MESSAGE,
    v1::{
        AgentRegistration, AgentRegistrationResponse, ListenRequest, ListenResponse, TestInit, TestResponse,
        TranslationInit, TranslationResponse,
        agent_hub_server::{AgentHub, AgentHubServer},
        listen_request::Event,
    },
};
use axum::{body::Body, extract::Request as HttpRequest, response::Response as HttpResponse};
use futures::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};
use tower::Service as _;

use super::{Hub, SessionControl, SessionInit, message_budget::MessageBudget};
use crate::{
    capability::{CheckedRegistration, Domain},
    fleet::{ClientId, Listener, OpenRefusal, SessionId},
    results::Report,
};

/// The metadata that name a client, and a session.
pub(crate) const CLIENT: &str = "x-client-id";
pub(crate) const SESSION: &str = "x-session-id";

/// The longest id that is looked up, in bytes.
const LONGEST_ID: usize = 128;

/// What waits for a client on the stream of a session: its start, and its end.
const CONTROLS: usize = 2;

/// A stream of messages to a client.
type ToClient<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Calls of the service, behind a front.
#[derive(Clone)]
pub(crate) struct HubRoutes {
    server: AgentHubServer<HubService>,
    rules: Arc<FrontRules>,
    budget: MessageBudget,
}

impl HubRoutes {
    /// Those of this hub. Streams end at `stop`.
    pub(crate) fn new(hub: Arc<Hub>, rules: Arc<FrontRules>, stop: CancellationToken) -> Self {
        let server = AgentHubServer::new(HubService { hub, stop })
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Self {
            server,
            rules,
            budget: MessageBudget::default(),
        }
    }

    /// Answers a call, if it may come in.
    pub(crate) async fn answer(mut self, request: HttpRequest) -> HttpResponse {
        let AdmittedRequest { permit, .. } = match self.rules.admit(&request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refused(&refusal),
        };
        let is_listen = request.uri().path().ends_with("/Listen");
        let Ok(response) = self.server.call(request.map(|body| self.budget.body(body))).await;
        let response = response.map(Body::new);
        if is_listen {
            // It takes no place of its caller while it stands: the hub bounds its clients itself.
            return response;
        }
        bounded_response(response, permit).unwrap_or_else(|refusal| refused(&refusal))
    }
}

/// A refusal in gRPC's words.
fn refused(refusal: &Refusal) -> HttpResponse {
    let text = refusal.to_string();
    let status = match refusal.kind() {
        RefusalKind::Unauthenticated => Status::unauthenticated(text),
        RefusalKind::Denied => Status::permission_denied(text),
        RefusalKind::Exhausted => Status::resource_exhausted(text),
        RefusalKind::Unavailable => Status::unavailable(text),
        RefusalKind::Malformed
        | RefusalKind::Invalid
        | RefusalKind::InvalidValue
        | RefusalKind::MediaType => Status::invalid_argument(text),
    };
    status.into_http()
}

/// The service of a hub.
pub(crate) struct HubService {
    hub: Arc<Hub>,
    stop: CancellationToken,
}

/// An id in the metadata of a call; `None`: it has none. Ids that cannot be one read as an unknown one.
fn id_of(metadata: &MetadataMap, name: &str) -> Option<String> {
    let id = metadata.get(name)?;
    let text = id.to_str().ok().filter(|id| id.len() <= LONGEST_ID);
    Some(text.unwrap_or_default().to_owned())
}

/// Tells the hub that a Listen has ended, however it ends.
struct EndedListen {
    hub: Arc<Hub>,
    listener: Listener,
}

impl Drop for EndedListen {
    fn drop(&mut self) {
        self.hub.listen_ended(&self.listener);
    }
}

#[tonic::async_trait]
impl AgentHub for HubService {
    async fn register(
        &self,
        request: Request<AgentRegistration>,
    ) -> Result<Response<AgentRegistrationResponse>, Status> {
        let checked = CheckedRegistration::read(request.into_inner()).map_err(Status::invalid_argument)?;
        let client_id = self
            .hub
            .register(checked)
            .map_err(Status::resource_exhausted)?
            .to_string();
        Ok(Response::new(AgentRegistrationResponse { client_id }))
    }

    type ListenStream = ToClient<ListenResponse>;

    async fn listen(
        &self,
        request: Request<Streaming<ListenRequest>>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        let unknown = || Status::not_found("Invalid Client ID: register first, and send x-client-id");
        let id = id_of(request.metadata(), CLIENT).ok_or_else(unknown)?;
        let (listener, told) = self
            .hub
            .listen(&ClientId::from(id.as_str()))
            .map_err(|()| unknown())?;
        let hub = Arc::clone(&self.hub);
        let ended = EndedListen {
            hub: Arc::clone(&hub),
            listener: listener.clone(),
        };
        let said = request.into_inner();
        let over = CancellationToken::new();
        let heard = over.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = heard.cancelled() => {}
                () = hear(&hub, &listener, said) => heard.cancel(),
            }
        });
        let stop = self.stop.clone();
        let over = over.drop_guard();
        let told = stream::unfold((told, ended, over), |(mut told, ended, over)| async move {
            let message = tokio::select! {
                biased;
                message = told.recv() => message?,
                () = over.token().cancelled() => return None,
            };
            Some((message, (told, ended, over)))
        });
        let told = told.take_until(async move { stop.cancelled().await });
        Ok(Response::new(told.boxed()))
    }

    type ExecuteStream = ToClient<TestInit>;

    async fn execute(
        &self,
        request: Request<Streaming<TestResponse>>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        self.open(request, Domain::Test, |init| TestInit {
            test_type: init.name.to_string(),
            payloads: init.payloads,
        })
    }

    type TranslateStream = ToClient<TranslationInit>;

    async fn translate(
        &self,
        request: Request<Streaming<TranslationResponse>>,
    ) -> Result<Response<Self::TranslateStream>, Status> {
        self.open(request, Domain::Translation, |init| TranslationInit {
            target_format: init.name.to_string(),
            payloads: init.payloads,
        })
    }
}

/// Hears what a client says on its Listen, to its end or its first error.
async fn hear(hub: &Hub, listener: &Listener, mut said: Streaming<ListenRequest>) {
    while let Some(message) = said.next().await {
        let event = match message {
            Ok(message) => message.event,
            Err(error) => {
                tracing::debug!(%error, "the Listen of an agent broke off");
                return;
            }
        };
        match event {
            Some(Event::Ready(())) => hub.ready(listener),
            Some(Event::SessionAcceptance(answer)) => {
                let session = SessionId::from(answer.session_id.as_str());
                hub.answer(listener, &session, answer.accepted, &answer.reason);
            }
            // Of a later version.
            None => {}
        }
    }
}

impl HubService {
    /// Opens the stream of a session. Its start is sent when the session says so, which does not wait for the client.
    fn open<R: Into<Report> + Send + 'static, I: Send + 'static>(
        &self,
        request: Request<Streaming<R>>,
        domain: Domain,
        init: impl FnOnce(SessionInit) -> I,
    ) -> Result<Response<ToClient<I>>, Status> {
        let unknown = || Status::not_found("Invalid Session ID: no such session is ready");
        let session = id_of(request.metadata(), SESSION).ok_or_else(unknown)?;
        let client = id_of(request.metadata(), CLIENT);
        let said = request.into_inner();
        // tonic tells an error more than once: the first ends it.
        let reports = stream::unfold(Some(said), |said| async move {
            let mut said = said?;
            let message = said.next().await?;
            let rest = message.is_ok().then_some(said);
            Some((message.map(Into::into), rest))
        });
        let (control, controls) = mpsc::channel(CONTROLS);
        let session = SessionId::from(session.as_str());
        let opened = self.hub.open(
            &session,
            client.as_deref(),
            domain,
            reports.fuse().boxed(),
            control,
        );
        let begins = opened.map(init).map_err(|refused| match refused {
            OpenRefusal::Unknown => unknown(),
            OpenRefusal::OfAnotherClient => {
                Status::permission_denied("the session was proposed to another agent")
            }
            OpenRefusal::NotReady => {
                Status::failed_precondition("the session is not ready: accept its proposal first")
            }
            OpenRefusal::HasStream => Status::failed_precondition("the session has a stream"),
            OpenRefusal::OtherCall => {
                Status::failed_precondition("tests are opened by Execute, translations by Translate")
            }
        })?;
        let told = stream::unfold(
            (controls, Some(begins)),
            |(mut controls, mut begins)| async move {
                loop {
                    match controls.recv().await? {
                        SessionControl::Start => {
                            if let Some(begins) = begins.take() {
                                return Some((Ok(begins), (controls, None)));
                            }
                        }
                        SessionControl::Reset(status) => {
                            controls.close();
                            return Some((Err(status), (controls, None)));
                        }
                    }
                }
            },
        );
        Ok(Response::new(told.boxed()))
    }
}
