//! The same over gRPC in 0.3, which is a service of its own.

use agentanycast_egress::client::{GrpcTransport, HostClient, MAX_ANSWER};
use agentanycast_proto::a2a_0_3::{
    CancelTaskRequest, GetTaskRequest, TaskSubscriptionRequest, a2a_service_client::A2aServiceClient,
};
use async_stream::try_stream;
use futures::StreamExt as _;
use http::Uri;
use serde_json::Value;
use tonic::metadata::MetadataMap;

use super::{ValueStream, fault, unless_silent, with};
use crate::{
    grpc::v0_3 as grpc_old,
    outbound::{
        encode::{FILES, RemoteCall},
        error::{Kind, OutboundError},
    },
    protocol::{v0_3_protojson, version::Version},
};

/// The client of A2A's service.
type GrpcClient = A2aServiceClient<GrpcTransport>;

pub(super) fn client(http: &HostClient, uri: &Uri) -> Result<GrpcClient, OutboundError> {
    let (transport, origin) = http.grpc(uri)?;
    Ok(A2aServiceClient::with_origin(transport, origin)
        .max_decoding_message_size(MAX_ANSWER)
        .max_encoding_message_size(MAX_ANSWER))
}

fn name(id: &str) -> String {
    format!("tasks/{id}")
}

pub(super) async fn answer(
    mut client: GrpcClient,
    head: MetadataMap,
    ask: RemoteCall,
) -> Result<Value, OutboundError> {
    let task = match ask {
        RemoteCall::Send { .. } | RemoteCall::Stream { .. } => {
            let request = grpc_old::to_send(&v0_3_protojson::to_send(ask.params(Version::V03, ""), FILES));
            let answer = client.send_message(with(head, request)).await;
            let answer = answer.map_err(|status| fault(&status))?;
            return Ok(v0_3_protojson::from_event(
                grpc_old::from_answer(answer.into_inner())?,
                FILES,
            ));
        }
        RemoteCall::List { .. } => {
            return Err(OutboundError::new(
                Kind::Unsupported,
                "agents of 0.3 list no tasks",
            ));
        }
        RemoteCall::Get { id } | RemoteCall::Subscribe { id } => {
            let name = name(&id);
            let request = GetTaskRequest {
                name,
                ..GetTaskRequest::default()
            };
            client.get_task(with(head, request)).await
        }
        RemoteCall::Cancel { id } => {
            let request = CancelTaskRequest { name: name(&id) };
            client.cancel_task(with(head, request)).await
        }
    };
    let task = task.map_err(|status| fault(&status))?;
    Ok(v0_3_protojson::from_task(
        grpc_old::from_task(task.into_inner())?,
        FILES,
    ))
}

pub(super) async fn events(
    mut client: GrpcClient,
    head: MetadataMap,
    ask: RemoteCall,
) -> Result<ValueStream, OutboundError> {
    let started = if let RemoteCall::Subscribe { id } = ask {
        let request = TaskSubscriptionRequest { name: name(&id) };
        client.task_subscription(with(head, request)).await
    } else {
        let request = grpc_old::to_send(&v0_3_protojson::to_send(ask.params(Version::V03, ""), FILES));
        client.send_streaming_message(with(head, request)).await
    };
    let mut stream = started.map_err(|status| fault(&status))?.into_inner();
    let events = try_stream! {
        while let Some(event) = unless_silent(stream.next()).await {
            let event = event.map_err(|status| fault(&status))?;
            yield v0_3_protojson::from_event(grpc_old::from_event(event)?, FILES);
        }
    };
    Ok(events.boxed())
}
