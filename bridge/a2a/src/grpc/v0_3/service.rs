//! The gRPC binding of 0.3: the service of 1.0 in the words of `a2a.v1`.

use agentanycast_proto::a2a_0_3::{
    AgentCard, CancelTaskRequest, CreateTaskPushNotificationConfigRequest,
    DeleteTaskPushNotificationConfigRequest, GetAgentCardRequest, GetTaskPushNotificationConfigRequest,
    GetTaskRequest, ListTaskPushNotificationConfigRequest, ListTaskPushNotificationConfigResponse,
    SendMessageRequest, SendMessageResponse, StreamResponse, Task, TaskPushNotificationConfig,
    TaskSubscriptionRequest, a2a_service_server::A2aService,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use super::{card, from_send, from_webhook, to_answer, to_event, to_task, to_webhook, to_webhooks};
use crate::{
    card_endpoint::card_v0_3,
    grpc::{GrpcService, MessageStream, RequestHead, split, status},
    protocol::{error::A2aError, request::Method, v0_3_protojson, version::Version},
};

type EventStreamV03 = MessageStream<StreamResponse>;

/// What names of tasks begin with, and what stands between such a name and that of a webhook.
const TASKS: &str = "tasks/";
const WEBHOOKS: &str = "/pushNotificationConfigs/";

impl GrpcService {
    /// The answer as the JSON of its protobuf.
    async fn call_v0_3(&self, head: &RequestHead, method: Method, params: Value) -> Result<Value, Status> {
        let answer = self.answer(head, Version::V03, method, params).await?;
        Ok(v0_3_protojson::answer(answer, self.files(head, None)))
    }

    async fn stream_v0_3(
        &self,
        head: &RequestHead,
        method: Method,
        params: Value,
    ) -> Result<Response<EventStreamV03>, Status> {
        let events = self.follow(head, Version::V03, method, params).await?;
        let files = self.files(head, None);
        let events =
            events.map(move |event| event.map(|event| to_event(&v0_3_protojson::to_event(event, files))));
        Ok(Response::new(Box::pin(events)))
    }

    fn params_of_send(&self, head: &RequestHead, request: SendMessageRequest) -> Result<Value, Status> {
        let sent = from_send(request).map_err(|error| failed(&error.into()))?;
        let files = self.files(head, Some(&sent));
        v0_3_protojson::from_send(sent, files).map_err(|error| failed(&error))
    }
}

fn failed(error: &A2aError) -> Status {
    status::from_a2a_error(Version::V03, error)
}

/// The id in `tasks/ID`.
fn task_of(name: &str) -> Result<&str, Status> {
    let id = name.strip_prefix(TASKS);
    let id = id.filter(|id| !id.is_empty() && !id.contains('/'));
    id.ok_or_else(|| failed(&A2aError::params("name, or parent, must be tasks/ID")))
}

/// The ids in `tasks/ID/pushNotificationConfigs/ID`, as parameters.
fn webhook_of(name: &str) -> Result<Value, Status> {
    let Some((task, id)) = name.split_once(WEBHOOKS) else {
        let text = "name must be tasks/ID/pushNotificationConfigs/ID";
        return Err(failed(&A2aError::params(text)));
    };
    Ok(json!({"id": task_of(task)?, "pushNotificationConfigId": id}))
}

#[tonic::async_trait]
impl A2aService for GrpcService {
    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        let (head, request) = split(request);
        let params = self.params_of_send(&head, request)?;
        let sent = self.call_v0_3(&head, Method::Send, params).await?;
        Ok(Response::new(to_answer(&sent)))
    }

    type SendStreamingMessageStream = EventStreamV03;

    async fn send_streaming_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<EventStreamV03>, Status> {
        let (head, request) = split(request);
        let params = self.params_of_send(&head, request)?;
        self.stream_v0_3(&head, Method::Stream, params).await
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<Task>, Status> {
        let (head, request) = split(request);
        let mut params = json!({"id": task_of(&request.name)?});
        // The protobuf cannot tell none from all.
        if request.history_length != 0 {
            params["historyLength"] = request.history_length.into();
        }
        let task = self.call_v0_3(&head, Method::Get, params).await?;
        Ok(Response::new(to_task(&task)))
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        let (head, request) = split(request);
        let params = json!({"id": task_of(&request.name)?});
        let task = self.call_v0_3(&head, Method::Cancel, params).await?;
        Ok(Response::new(to_task(&task)))
    }

    type TaskSubscriptionStream = EventStreamV03;

    async fn task_subscription(
        &self,
        request: Request<TaskSubscriptionRequest>,
    ) -> Result<Response<EventStreamV03>, Status> {
        let (head, request) = split(request);
        let params = json!({"id": task_of(&request.name)?});
        self.stream_v0_3(&head, Method::Subscribe, params).await
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<CreateTaskPushNotificationConfigRequest>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        let (head, request) = split(request);
        let webhook = request.config.and_then(|config| config.push_notification_config);
        let config = json!({"pushNotificationConfig": from_webhook(webhook.unwrap_or_default())});
        let mut params =
            v0_3_protojson::from_webhook(json!({"configId": request.config_id, "config": config}));
        params["taskId"] = task_of(&request.parent)?.into();
        let webhook = self.call_v0_3(&head, Method::SetPush, params).await?;
        Ok(Response::new(to_webhook(&webhook)))
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        let (head, request) = split(request);
        let webhook = self
            .call_v0_3(&head, Method::GetPush, webhook_of(&request.name)?)
            .await?;
        Ok(Response::new(to_webhook(&webhook)))
    }

    async fn list_task_push_notification_config(
        &self,
        request: Request<ListTaskPushNotificationConfigRequest>,
    ) -> Result<Response<ListTaskPushNotificationConfigResponse>, Status> {
        let (head, request) = split(request);
        let mut params = json!({"id": task_of(&request.parent)?, "pageToken": request.page_token});
        if request.page_size != 0 {
            params["pageSize"] = request.page_size.into();
        }
        let listed = self.call_v0_3(&head, Method::ListPush, params).await?;
        Ok(Response::new(to_webhooks(&listed)))
    }

    async fn get_agent_card(
        &self,
        request: Request<GetAgentCardRequest>,
    ) -> Result<Response<AgentCard>, Status> {
        let (head, _) = split(request);
        let (address, _) = self.read(&head, Version::V03, Method::ExtendedCard, json!({}))?;
        let front = self.front(&head, Version::V03, &address.target)?;
        let card = card_v0_3(&*self.handler, &address.target, front, &address.caller).await;
        let card = card.map_err(|error| failed(&error))?;
        Ok(Response::new(card::to_card(&card)))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        let (head, request) = split(request);
        let params = webhook_of(&request.name)?;
        self.answer(&head, Version::V03, Method::DeletePush, params)
            .await?;
        Ok(Response::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_ids() {
        assert_eq!(task_of("tasks/t").unwrap(), "t");
        let params = json!({"id": "t", "pushNotificationConfigId": "w"});
        assert_eq!(webhook_of("tasks/t/pushNotificationConfigs/w").unwrap(), params);
        for bad in ["", "t", "tasks/", "tasks/t/x", "/tasks/t"] {
            let status = task_of(bad).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{bad}");
            assert!(status.message().starts_with("InvalidParamsError: "), "{status}");
        }
        for bad in [
            "tasks/t",
            "pushNotificationConfigs/w",
            "x/t/pushNotificationConfigs/w",
        ] {
            assert!(webhook_of(bad).is_err(), "{bad}");
        }
    }
}
