//! The same over gRPC: what is asked is made of the JSON that it stands for, and what is said becomes JSON again.

mod v0_3;

use std::time::Duration;

use agentanycast_egress::client::{GrpcTransport, HostClient, MAX_ANSWER, from_error};
use agentanycast_proto::a2a::{
    CancelTaskRequest, GetTaskRequest, ListTasksRequest, SubscribeToTaskRequest,
    a2a_service_client::A2aServiceClient, send_message_response::Payload,
};
use async_stream::try_stream;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderValue, Uri};
use serde_json::{Value, json};
use tonic::{Code, Request, Status, metadata::MetadataMap};

use super::{RemoteAgent, unless_silent};
use crate::{
    grpc::{self, json as grpc_json},
    outbound::{
        encode::{LISTED, RemoteCall},
        error::{Kind, OutboundError, from_a2a},
    },
    protocol::version::Version,
};

/// The client of A2A's service.
type GrpcClient = A2aServiceClient<GrpcTransport>;

fn client(http: &HostClient, uri: &Uri) -> Result<GrpcClient, OutboundError> {
    let (transport, origin) = http.grpc(uri)?;
    Ok(A2aServiceClient::with_origin(transport, origin)
        .max_decoding_message_size(MAX_ANSWER)
        .max_encoding_message_size(MAX_ANSWER))
}

pub(super) type ValueStream = BoxStream<'static, Result<Value, OutboundError>>;

impl RemoteAgent {
    pub(super) async fn grpc_ask(&self, ask: RemoteCall) -> Result<Value, OutboundError> {
        let within = self.patience(&ask);
        let mut refused = None;
        loop {
            let (http, head, key) = self.connected(refused.as_ref()).await?;
            let answer = async {
                let ask = ask.clone();
                if self.version() == Version::V03 {
                    return v0_3::answer(v0_3::client(http, &self.uri)?, head, ask).await;
                }
                answer(client(http, &self.uri)?, head, ask, &self.interface.tenant).await
            };
            match timed(within, answer).await {
                Err(fault) if self.may_renew(&fault, refused.is_some()) => refused = key,
                answer => return answer,
            }
        }
    }

    pub(super) async fn grpc_events(&self, ask: RemoteCall) -> Result<ValueStream, OutboundError> {
        let within = self.patience(&ask);
        let mut refused = None;
        loop {
            let (http, head, key) = self.connected(refused.as_ref()).await?;
            let events = async {
                let ask = ask.clone();
                if self.version() == Version::V03 {
                    return v0_3::events(v0_3::client(http, &self.uri)?, head, ask).await;
                }
                events(client(http, &self.uri)?, head, ask, &self.interface.tenant).await
            };
            match timed(within, events).await {
                Err(fault) if self.may_renew(&fault, refused.is_some()) => refused = key,
                events => return events,
            }
        }
    }

    fn may_renew(&self, fault: &OutboundError, renewed: bool) -> bool {
        fault.kind() == Kind::Unauthorized && !renewed && self.http().can_renew()
    }

    /// The host, what goes ahead of each call, and the key in that.
    async fn connected(
        &self,
        refused: Option<&HeaderValue>,
    ) -> Result<(&HostClient, MetadataMap, Option<HeaderValue>), OutboundError> {
        let http = self.http();
        let key = http.auth_header(&self.uri, refused).await?;
        let mut head = http::HeaderMap::new();
        head.insert("a2a-version", HeaderValue::from_static(self.version().as_str()));
        if let Some((name, value)) = &key {
            head.insert(name.clone(), value.clone());
        }
        Ok((http, MetadataMap::from_headers(head), key.map(|(_, value)| value)))
    }
}

async fn timed<T>(
    within: Duration,
    call: impl Future<Output = Result<T, OutboundError>>,
) -> Result<T, OutboundError> {
    let late = || {
        OutboundError::new(
            Kind::Broken,
            format!("it did not begin to answer within {within:?}"),
        )
    };
    tokio::time::timeout(within, call)
        .await
        .unwrap_or_else(|_| Err(late()))
}

pub(super) fn with<T>(head: MetadataMap, message: T) -> Request<T> {
    Request::from_parts(head, tonic::Extensions::default(), message)
}

async fn answer(
    mut client: GrpcClient,
    head: MetadataMap,
    ask: RemoteCall,
    tenant: &str,
) -> Result<Value, OutboundError> {
    let tenant = tenant.to_owned();
    let failed = |status: Status| fault(&status);
    match ask {
        RemoteCall::Send { .. } | RemoteCall::Stream { .. } => {
            let request = grpc_json::to_send(&ask.params(Version::V10, &tenant));
            let answer = client.send_message(with(head, request)).await.map_err(failed)?;
            Ok(match answer.into_inner().payload {
                Some(Payload::Task(task)) => json!({"task": grpc_json::from_task(task)?}),
                Some(Payload::Message(message)) => json!({"message": grpc_json::from_message(message)?}),
                None => json!({}),
            })
        }
        RemoteCall::Get { id } | RemoteCall::Subscribe { id } => {
            let request = GetTaskRequest {
                tenant,
                id,
                ..GetTaskRequest::default()
            };
            let task = client.get_task(with(head, request)).await.map_err(failed)?;
            Ok(grpc_json::from_task(task.into_inner())?)
        }
        RemoteCall::Cancel { id } => {
            let request = CancelTaskRequest {
                tenant,
                id,
                ..CancelTaskRequest::default()
            };
            let task = client.cancel_task(with(head, request)).await.map_err(failed)?;
            Ok(grpc_json::from_task(task.into_inner())?)
        }
        RemoteCall::List { context } => {
            let request = ListTasksRequest {
                tenant,
                context_id: context,
                page_size: Some(LISTED as i32),
                ..ListTasksRequest::default()
            };
            let tasks = client.list_tasks(with(head, request)).await.map_err(failed)?;
            let tasks = tasks.into_inner().tasks.into_iter().map(grpc_json::from_task);
            Ok(json!({"tasks": tasks.collect::<Result<Vec<_>, _>>()?}))
        }
    }
}

async fn events(
    mut client: GrpcClient,
    head: MetadataMap,
    ask: RemoteCall,
    tenant: &str,
) -> Result<ValueStream, OutboundError> {
    let started = if let RemoteCall::Subscribe { id } = ask {
        let request = SubscribeToTaskRequest {
            tenant: tenant.to_owned(),
            id,
        };
        client.subscribe_to_task(with(head, request)).await
    } else {
        let request = grpc_json::to_send(&ask.params(Version::V10, tenant));
        client.send_streaming_message(with(head, request)).await
    };
    let mut stream = started.map_err(|status| fault(&status))?.into_inner();
    let events = try_stream! {
        while let Some(event) = unless_silent(stream.next()).await {
            yield grpc_json::from_event(event.map_err(|status| fault(&status))?)?;
        }
    };
    Ok(events.boxed())
}

/// What a status means. One that a call ended with before it had begun has the connection's error behind it.
pub(super) fn fault(status: &Status) -> OutboundError {
    if let Some(cause) = std::error::Error::source(status) {
        let before = cause
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect);
        return from_error(cause, before);
    }
    let reason = grpc::reason(status);
    let word = match (reason.as_deref(), status.code()) {
        (Some(reason), _) => reason,
        (None, Code::NotFound) => "TASK_NOT_FOUND",
        (None, Code::Unimplemented) => "UNIMPLEMENTED",
        (None, Code::Unauthenticated) => "UNAUTHENTICATED",
        (None, Code::PermissionDenied) => "PERMISSION_DENIED",
        (None, Code::ResourceExhausted) => "RESOURCE_EXHAUSTED",
        (None, Code::Unavailable) => "UNAVAILABLE",
        (None, code) => code.description(),
    };
    let said = from_a2a(0, word, status.message());
    match status.code() {
        // It may have been taken before.
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown if reason.is_none() => {
            OutboundError::new(Kind::Broken, said.to_string())
        }
        _ => said,
    }
}
