//! The gRPC binding of both versions of A2A, on the port of the HTTP front: here that of 1.0, in `v0_3` that of 0.3.
//!
//! A gRPC channel has no path, so another agent of the mesh is named by the tenant (`protocol::tenant`), which is what its card
//! tells its clients to send. 0.3 has no tenants, and names it in its metadata. The one rule: a request is read, and an answer rendered, as the JSON that it stands for.

mod card;
pub(crate) mod json;
mod message_size;
pub(crate) mod mux;
pub(crate) mod status;
pub(crate) mod v0_3;

pub(crate) use status::reason;

use std::{pin::Pin, sync::Arc};

use agentanycast_front::{
    auth::FrontCaller,
    client_connection::ClientConnection,
    host::RequestHost,
    path_segment::decode,
    refusal::{Refusal, RefusalKind},
    trace,
};
use agentanycast_gateway::Target;
use agentanycast_proto::a2a::{
    AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
    a2a_service_server::A2aService, send_message_response::Payload,
};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use crate::{
    card_endpoint::card_endpoint,
    client_files::{ClientFiles, FileClient},
    extensions::declared,
    front_config::{A2aFrontConfig, idempotency_key, single_value},
    handler::{A2aHandler, CallContext},
    protocol::{
        card::CardEndpoint,
        encode::{self, A2aResponse},
        error::A2aError,
        request::{self, Method},
        v0_3_protojson::FileEncoding,
        version::Version,
    },
    task_events::task_events,
};

/// The metadata in which a call says which version it means.
const VERSION: &str = "a2a-version";

/// The metadata in which a call of 0.3 names the agent that it is for, percent-encoded as paths are.
const TENANT: &str = "a2a-tenant";

/// A stream of messages.
type MessageStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

type EventStream = MessageStream<StreamResponse>;

/// The service of both versions before a handler.
pub(crate) struct GrpcService {
    handler: Arc<dyn A2aHandler>,
    config: Arc<A2aFrontConfig>,
    client_files: Arc<ClientFiles>,
    stop: CancellationToken,
}

impl GrpcService {
    /// Streams end at `stop`.
    pub(crate) fn new(
        handler: Arc<dyn A2aHandler>,
        config: Arc<A2aFrontConfig>,
        client_files: Arc<ClientFiles>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            handler,
            config,
            client_files,
            stop,
        }
    }

    /// What the client of 0.3 puts in the bytes of a file, and reads, after the message that it has `sent`.
    fn files(&self, head: &RequestHead, sent: Option<&Value>) -> FileEncoding {
        let caller = head.extensions.get::<FrontCaller>().map(FrontCaller::as_str);
        let agent = head.metadata.get("user-agent");
        let agent = agent.and_then(|agent| agent.to_str().ok());
        let client = FileClient::new(
            caller.unwrap_or_default(),
            head.extensions.get::<ClientConnection>(),
            agent,
        );
        self.client_files.encoding(client, sent)
    }

    /// Who calls whom, and what for.
    fn read(
        &self,
        head: &RequestHead,
        version: Version,
        method: Method,
        mut params: Value,
    ) -> Result<(CallContext, request::Request), Status> {
        let failed = |error: A2aError| status::from_a2a_error(version, &error);
        let caller = head.extensions.get::<FrontCaller>();
        let caller = caller.ok_or_else(|| Status::unauthenticated("nobody is known to have sent this"))?;
        let given = head.metadata.get_all(VERSION).iter();
        let asked = single_value(given.map(|value| value.to_str().unwrap_or("?")));
        version.check_header(asked.as_deref()).map_err(failed)?;
        let tenant = match version {
            Version::V03 => head.tenant().map_err(failed)?,
            Version::V10 => params["tenant"].as_str().unwrap_or_default().to_owned(),
        };
        params["tenant"] = tenant.into();
        let address = CallContext {
            target: Target::Own,
            caller: caller.into(),
            extensions: declared(&self.config, head.metadata.as_ref()),
            trace: trace::trace_headers(head.metadata.as_ref()),
            idempotency_key: idempotency_key(head.metadata.as_ref()),
            last_event: None,
        };
        let request = request::read(version, method, params).map_err(failed)?;
        Ok(address.resolve_tenant(request))
    }

    async fn answer(
        &self,
        head: &RequestHead,
        version: Version,
        method: Method,
        params: Value,
    ) -> Result<A2aResponse, Status> {
        let (address, request) = self.read(head, version, method, params)?;
        let answer = self.handler.answer(&address, request).await;
        answer.map_err(|error| status::from_a2a_error(version, &error))
    }

    async fn rendered(&self, head: &RequestHead, method: Method, params: Value) -> Result<Value, Status> {
        Ok(encode::answer(
            Version::V10,
            self.answer(head, Version::V10, method, params).await?,
        ))
    }

    async fn follow(
        &self,
        head: &RequestHead,
        version: Version,
        method: Method,
        params: Value,
    ) -> Result<BoxStream<'static, Result<Value, Status>>, Status> {
        let failed = move |error: A2aError| status::from_a2a_error(version, &error);
        let (address, request) = self.read(head, version, method, params)?;
        let followed = self.handler.follow(&address, request).await.map_err(failed)?;
        let events = task_events(followed, version, &self.stop);
        Ok(events
            .map(move |told| told.map(|(event, _)| event).map_err(failed))
            .boxed())
    }

    async fn events(
        &self,
        head: &RequestHead,
        method: Method,
        params: Value,
    ) -> Result<Response<EventStream>, Status> {
        let events = self.follow(head, Version::V10, method, params).await?;
        let events = events.map(|event| event.map(|event| json::to_event(&event)));
        Ok(Response::new(Box::pin(events)))
    }

    /// What a card says of the bridge to whoever made this call.
    fn front(&self, head: &RequestHead, version: Version, target: &Target) -> Result<CardEndpoint, Status> {
        let host = head.extensions.get::<Result<RequestHost, Refusal>>().cloned();
        let host = host.unwrap_or_else(|| {
            Err(Refusal::new(
                RefusalKind::Invalid,
                "the call names no authority; send one",
            ))
        });
        card_endpoint(&self.config, target, "", host.map_err(A2aError::from))
            .map_err(|error| status::from_a2a_error(version, &error))
    }
}

/// What comes before a request.
struct RequestHead {
    metadata: MetadataMap,
    /// Has the caller, from the entry.
    extensions: Extensions,
}

impl RequestHead {
    /// The agent that a call of 0.3 names, and its tenant; empty for the one beside the node.
    fn tenant(&self) -> Result<String, A2aError> {
        let Some(given) = self.metadata.get(TENANT) else {
            return Ok(String::new());
        };
        given.to_str().ok().and_then(decode).ok_or_else(|| {
            let text = format!("{TENANT} cannot be read; percent-encode UTF-8, of 512 bytes at most");
            A2aError::params(text)
        })
    }
}

fn split<T>(request: Request<T>) -> (RequestHead, T) {
    let (metadata, extensions, message) = request.into_parts();
    (RequestHead { metadata, extensions }, message)
}

fn params_of_send(request: SendMessageRequest) -> Result<Value, Status> {
    json::from_send(request).map_err(|error| status::from_a2a_error(Version::V10, &error.into()))
}

fn webhook_of(tenant: &str, task_id: &str, id: &str) -> Value {
    json!({ "tenant": tenant, "taskId": task_id, "id": id })
}

fn id_of(tenant: &str, id: &str) -> Value {
    json!({ "tenant": tenant, "id": id })
}

#[tonic::async_trait]
impl A2aService for GrpcService {
    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let (head, request) = split(request);
        let sent = self
            .rendered(&head, Method::Send, params_of_send(request)?)
            .await?;
        let payload = match sent.get("message") {
            Some(message) => Payload::Message(json::to_message(message)),
            None => Payload::Task(json::to_task(&sent["task"])),
        };
        let payload = Some(payload);
        Ok(Response::new(SendMessageResponse { payload }))
    }

    type SendStreamingMessageStream = EventStream;

    async fn send_streaming_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<EventStream>, Status> {
        let (head, request) = split(request);
        self.events(&head, Method::Stream, params_of_send(request)?).await
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<Task>, Status> {
        let (head, request) = split(request);
        let mut params = id_of(&request.tenant, &request.id);
        params["historyLength"] = request.history_length.into();
        let task = self.rendered(&head, Method::Get, params).await?;
        Ok(Response::new(json::to_task(&task)))
    }

    async fn list_tasks(
        &self,
        request: Request<ListTasksRequest>,
    ) -> Result<Response<ListTasksResponse>, Status> {
        let (head, request) = split(request);
        let params =
            json::from_list(&request).map_err(|error| status::from_a2a_error(Version::V10, &error))?;
        let page = self.rendered(&head, Method::List, params).await?;
        Ok(Response::new(json::to_page(&page)))
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        let (head, request) = split(request);
        let params = id_of(&request.tenant, &request.id);
        let task = self.rendered(&head, Method::Cancel, params).await?;
        Ok(Response::new(json::to_task(&task)))
    }

    type SubscribeToTaskStream = EventStream;

    async fn subscribe_to_task(
        &self,
        request: Request<SubscribeToTaskRequest>,
    ) -> Result<Response<EventStream>, Status> {
        let (head, request) = split(request);
        let params = id_of(&request.tenant, &request.id);
        self.events(&head, Method::Subscribe, params).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<TaskPushNotificationConfig>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        let (head, request) = split(request);
        let tenant = request.tenant.clone();
        let webhook = self
            .rendered(&head, Method::SetPush, json::from_webhook(request))
            .await?;
        Ok(Response::new(json::to_webhook(&webhook, &tenant)))
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        let (head, request) = split(request);
        let params = webhook_of(&request.tenant, &request.task_id, &request.id);
        let webhook = self.rendered(&head, Method::GetPush, params).await?;
        Ok(Response::new(json::to_webhook(&webhook, &request.tenant)))
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<Response<ListTaskPushNotificationConfigsResponse>, Status> {
        let (head, request) = split(request);
        let mut params = webhook_of(&request.tenant, &request.task_id, "");
        if request.page_size != 0 {
            params["pageSize"] = request.page_size.into();
        }
        params["pageToken"] = request.page_token.into();
        let listed = self.rendered(&head, Method::ListPush, params).await?;
        Ok(Response::new(json::to_webhooks(&listed, &request.tenant)))
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<GetExtendedAgentCardRequest>,
    ) -> Result<Response<AgentCard>, Status> {
        let (head, request) = split(request);
        let params = json!({"tenant": request.tenant});
        let (address, _) = self.read(&head, Version::V10, Method::ExtendedCard, params)?;
        let front = self.front(&head, Version::V10, &address.target)?;
        let card = self
            .handler
            .extended_card(&address.target, &front, Version::V10, &address.caller)
            .await;
        let card = card.map_err(|error| status::from_a2a_error(Version::V10, &error))?;
        Ok(Response::new(card::to_card(&card)))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        let (head, request) = split(request);
        let params = webhook_of(&request.tenant, &request.task_id, &request.id);
        self.answer(&head, Version::V10, Method::DeletePush, params)
            .await?;
        Ok(Response::new(()))
    }
}
