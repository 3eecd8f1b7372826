//! The gRPC binding of A2A 1.0, on the port of the HTTP front.
//!
//! A gRPC channel has no path, so another agent of the mesh is named by the tenant: `agents/ID` or `skills/ID`, which is
//! what its card tells its clients to send; a tenant of the agent follows behind a slash. The one rule: a request is
//! read, and an answer rendered, as the JSON that it stands for.

mod card;
pub(crate) mod json;
pub(crate) mod old;
pub(crate) mod status;

pub(crate) use status::reason;

use std::{pin::Pin, sync::Arc, time::SystemTime};

use agentanycast_proto::a2a::{
    AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
    a2a_service_server::A2aService, send_message_response::Payload,
};
use async_stream::try_stream;
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::{Extensions, Request, Response, Status, metadata::MetadataMap};

use crate::{
    a2a::{
        error::{A2aError, Reason},
        mesh::{Address, Followed, Handler},
        now,
        render::{self, Answer},
        request::{self, Method},
        version::Version,
    },
    auth::Name,
    gateway::Target,
    http::{FrontConfig, Host, declared, front, peer, trace},
};

/// The metadata in which a call says which version it means.
const VERSION: &str = "a2a-version";

type Events = Pin<Box<dyn Stream<Item = Result<StreamResponse, Status>> + Send>>;

/// The service before a handler.
pub(crate) struct Service {
    handler: Arc<dyn Handler>,
    config: Arc<FrontConfig>,
    stop: CancellationToken,
}

impl Service {
    /// Streams end at `stop`.
    pub(crate) fn new(handler: Arc<dyn Handler>, config: Arc<FrontConfig>, stop: CancellationToken) -> Self {
        Self {
            handler,
            config,
            stop,
        }
    }

    /// Who calls whom, and what for.
    fn read(
        &self,
        head: &Head,
        method: Method,
        mut params: Value,
    ) -> Result<(Address, request::Request), Status> {
        let caller = head.extensions.get::<Name>();
        let caller = caller.ok_or_else(|| Status::unauthenticated("nobody is known to have sent this"))?;
        let asked = head
            .metadata
            .get(VERSION)
            .map(|value| value.to_str().unwrap_or("?"));
        Version::V10.agree(asked).map_err(|error| status::of(&error))?;
        let tenant = params["tenant"].as_str().unwrap_or_default();
        let (target, tenant) = target(tenant);
        params["tenant"] = tenant.into();
        let address = Address {
            target,
            caller: caller.as_str().to_owned(),
            extensions: declared(&self.config, head.metadata.as_ref()),
            trace: trace::of(head.metadata.as_ref()),
        };
        let request = request::read(Version::V10, method, params).map_err(|error| status::of(&error))?;
        Ok((address, request))
    }

    async fn answer(&self, head: &Head, method: Method, params: Value) -> Result<Answer, Status> {
        let (address, request) = self.read(head, method, params)?;
        let answer = self.handler.answer(&address, request).await;
        answer.map_err(|error| status::of(&error))
    }

    async fn rendered(&self, head: &Head, method: Method, params: Value) -> Result<Value, Status> {
        Ok(render::answer(
            Version::V10,
            self.answer(head, method, params).await?,
        ))
    }

    async fn follow(&self, head: &Head, method: Method, params: Value) -> Result<Response<Events>, Status> {
        let (address, request) = self.read(head, method, params)?;
        let followed = self.handler.follow(&address, request).await;
        let Followed {
            place, mut events, ..
        } = followed.map_err(|error| status::of(&error))?;
        let stop = self.stop.clone();
        let events = try_stream! {
            loop {
                let event = tokio::select! {
                    biased;
                    () = stop.cancelled() => {
                        let text = "the bridge is stopping; subscribe to the task again";
                        Some(Err(A2aError::new(Reason::Unavailable, text)))
                    }
                    event = events.next() => event,
                };
                let Some(event) = event else { break };
                let event = event.map_err(|error| status::of(&error))?;
                let time = now(SystemTime::now());
                yield json::to_event(&render::event(Version::V10, &place, event, time.as_ref(), false));
            }
        };
        Ok(Response::new(Box::pin(events)))
    }
}

/// What comes before a request.
struct Head {
    metadata: MetadataMap,
    /// Has the caller, from the entry.
    extensions: Extensions,
}

fn split<T>(request: Request<T>) -> (Head, T) {
    let (metadata, extensions, message) = request.into_parts();
    (Head { metadata, extensions }, message)
}

/// The agent that a tenant names, and the tenant of that agent.
fn target(tenant: &str) -> (Target, &str) {
    let named = |rest: &'_ str| -> (usize, String) {
        let name = rest.split('/').next().unwrap_or_default();
        (name.len(), name.to_owned())
    };
    for (kind, of) in [
        ("agents/", Target::Peer as fn(String) -> Target),
        ("skills/", Target::Skill),
    ] {
        if let Some(rest) = tenant.strip_prefix(kind) {
            let (length, name) = named(rest);
            let name = if kind == "agents/" { peer(&name) } else { name };
            return (of(name), rest[length..].trim_start_matches('/'));
        }
    }
    (Target::Own, tenant)
}

fn webhook_of(tenant: &str, task_id: &str, id: &str) -> Value {
    json!({ "tenant": tenant, "taskId": task_id, "id": id })
}

fn id_of(tenant: &str, id: &str) -> Value {
    json!({ "tenant": tenant, "id": id })
}

#[tonic::async_trait]
impl A2aService for Service {
    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let (head, request) = split(request);
        let sent = self.rendered(&head, Method::Send, json::of_send(request)).await?;
        let payload = Some(Payload::Task(json::to_task(&sent["task"])));
        Ok(Response::new(SendMessageResponse { payload }))
    }

    type SendStreamingMessageStream = Events;

    async fn send_streaming_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<Events>, Status> {
        let (head, request) = split(request);
        self.follow(&head, Method::Stream, json::of_send(request)).await
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
        let page = self
            .rendered(&head, Method::List, json::of_list(&request))
            .await?;
        Ok(Response::new(json::to_page(&page)))
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        let (head, request) = split(request);
        let params = id_of(&request.tenant, &request.id);
        let task = self.rendered(&head, Method::Cancel, params).await?;
        Ok(Response::new(json::to_task(&task)))
    }

    type SubscribeToTaskStream = Events;

    async fn subscribe_to_task(
        &self,
        request: Request<SubscribeToTaskRequest>,
    ) -> Result<Response<Events>, Status> {
        let (head, request) = split(request);
        let params = id_of(&request.tenant, &request.id);
        self.follow(&head, Method::Subscribe, params).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<TaskPushNotificationConfig>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        let (head, request) = split(request);
        let tenant = request.tenant.clone();
        let webhook = self
            .rendered(&head, Method::SetPush, json::of_webhook(request))
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
        let (address, _) = self.read(&head, Method::ExtendedCard, params)?;
        let host = head.extensions.get::<Result<Host, A2aError>>().cloned();
        let host = host.unwrap_or_else(|| {
            Err(A2aError::new(
                Reason::InvalidRequest,
                "the call names no authority; send one",
            ))
        });
        let front = front(&self.config, &address.target, "", host).map_err(|error| status::of(&error))?;
        let card = self
            .handler
            .extended_card(&address.target, &front, Version::V10)
            .await;
        let card = card.map_err(|error| status::of(&error))?;
        Ok(Response::new(card::to_card(&card)))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        let (head, request) = split(request);
        let params = webhook_of(&request.tenant, &request.task_id, &request.id);
        self.answer(&head, Method::DeletePush, params).await?;
        Ok(Response::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_names_an_agent() {
        assert_eq!(target(""), (Target::Own, ""));
        assert_eq!(target("acme"), (Target::Own, "acme"));
        assert_eq!(target("agents/12D3"), (Target::Peer("12D3".to_owned()), ""));
        assert_eq!(
            target("skills/echo/acme"),
            (Target::Skill("echo".to_owned()), "acme")
        );
    }
}
