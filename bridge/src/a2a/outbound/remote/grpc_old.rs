//! The same over gRPC in 0.3, which is a service of its own.

use agentanycast_proto::a2a_0_3::{CancelTaskRequest, GetTaskRequest, TaskSubscriptionRequest};
use async_stream::try_stream;
use futures::StreamExt as _;
use serde_json::Value;
use tonic::metadata::MetadataMap;

use super::{
    grpc::{Values, fault, with},
    unless_silent,
};
use crate::{
    a2a::{
        old,
        outbound::{
            binding::{Ask, FILES},
            fault::{Fault, Kind},
            http::OldGrpc,
        },
        version::Version,
    },
    grpc::old as grpc_old,
};

fn name(id: &str) -> String {
    format!("tasks/{id}")
}

pub(super) async fn answer(mut client: OldGrpc, head: MetadataMap, ask: Ask) -> Result<Value, Fault> {
    let task = match ask {
        Ask::Send { .. } | Ask::Stream { .. } => {
            let request = grpc_old::to_send(&old::to_send(ask.params(Version::V03, ""), FILES));
            let answer = client.send_message(with(head, request)).await;
            let answer = answer.map_err(|status| fault(&status))?;
            return Ok(old::from_event(grpc_old::of_answer(answer.into_inner())?, FILES));
        }
        Ask::List { .. } => return Err(Fault::new(Kind::Unsupported, "agents of 0.3 list no tasks")),
        Ask::Get { id } | Ask::Subscribe { id } => {
            let name = name(&id);
            let request = GetTaskRequest {
                name,
                ..GetTaskRequest::default()
            };
            client.get_task(with(head, request)).await
        }
        Ask::Cancel { id } => {
            let request = CancelTaskRequest { name: name(&id) };
            client.cancel_task(with(head, request)).await
        }
    };
    let task = task.map_err(|status| fault(&status))?;
    Ok(old::from_task(grpc_old::of_task(task.into_inner())?, FILES))
}

pub(super) async fn events(mut client: OldGrpc, head: MetadataMap, ask: Ask) -> Result<Values, Fault> {
    let started = if let Ask::Subscribe { id } = ask {
        let request = TaskSubscriptionRequest { name: name(&id) };
        client.task_subscription(with(head, request)).await
    } else {
        let request = grpc_old::to_send(&old::to_send(ask.params(Version::V03, ""), FILES));
        client.send_streaming_message(with(head, request)).await
    };
    let mut stream = started.map_err(|status| fault(&status))?.into_inner();
    let events = try_stream! {
        while let Some(event) = unless_silent(stream.next()).await {
            let event = event.map_err(|status| fault(&status))?;
            yield old::from_event(grpc_old::of_event(event)?, FILES);
        }
    };
    Ok(events.boxed())
}
