//! Bare gRPC: the generated client without the SDK around it, for calls that the SDK never makes.

use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{self, Message, Part, Task, TextPart, node_service_client::NodeServiceClient, part::Content},
};
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::wait::within;

/// The generated client.
pub type Rpc = NodeServiceClient<Channel>;

/// Connects to `unix://PATH` or `tcp://HOST:PORT`.
///
/// # Panics
/// When nobody answers.
pub async fn connect(address: &str) -> Rpc {
    try_connect(address)
        .await
        .unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// As [`connect`], where failure is a result.
pub async fn try_connect(address: &str) -> Result<Rpc, tonic::transport::Error> {
    let channel = channel(address).await?;
    Ok(NodeServiceClient::new(channel)
        .max_decoding_message_size(MAX_GRPC_MESSAGE)
        .max_encoding_message_size(MAX_GRPC_MESSAGE))
}

/// The channel alone, for other services.
pub async fn channel(address: &str) -> Result<Channel, tonic::transport::Error> {
    let uri = address
        .strip_prefix("tcp://")
        .map_or(address.to_owned(), |authority| format!("http://{authority}"));
    Endpoint::from_shared(uri)?.connect().await
}

/// A message of one text.
pub fn text(text: &str) -> Message {
    Message {
        message_id: uuid::Uuid::new_v4().to_string(),
        role: v1::MessageRole::User.into(),
        parts: vec![text_part(text)],
        created_at: None,
    }
}

/// A part of one text.
pub fn text_part(text: &str) -> Part {
    Part {
        content: Some(Content::TextPart(TextPart {
            text: text.to_owned(),
        })),
        ..Part::default()
    }
}

/// An artifact of one text.
pub fn artifact(name: &str, text: &str) -> v1::Artifact {
    v1::Artifact {
        artifact_id: uuid::Uuid::new_v4().to_string(),
        name: name.to_owned(),
        parts: vec![text_part(text)],
        ..v1::Artifact::default()
    }
}

/// All texts of these parts.
pub fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(part)) => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// A request to send this message to this peer.
pub fn to_peer(peer: &agentanycast::PeerId, message: Message) -> v1::SendTaskRequest {
    v1::SendTaskRequest {
        target: Some(v1::send_task_request::Target::PeerId(peer.to_string())),
        message: Some(message),
        ..v1::SendTaskRequest::default()
    }
}

/// Sends a text to a peer; the task as the daemon took it.
pub async fn send(rpc: &mut Rpc, peer: &agentanycast::PeerId, what: &str) -> Task {
    let answer = rpc.send_task(to_peer(peer, text(what))).await.unwrap();
    answer.into_inner().task.expect("an accepted task")
}

/// A task whole.
pub async fn get(rpc: &mut Rpc, task_id: &str) -> Result<Task, Status> {
    let task_id = task_id.to_owned();
    let answer = rpc
        .get_task(v1::GetTaskRequest {
            task_id,
            ..Default::default()
        })
        .await?;
    Ok(answer.into_inner().task.expect("a task that is there"))
}

/// Listens for tasks and their ends.
pub async fn listen(rpc: &mut Rpc) -> Streaming<v1::SubscribeIncomingTasksResponse> {
    let request = v1::SubscribeIncomingTasksRequest {
        ends: true,
        ..Default::default()
    };
    let answer = rpc.subscribe_incoming_tasks(request).await;
    answer.unwrap().into_inner()
}

/// The next task that is handed over.
pub async fn next_task(stream: &mut Streaming<v1::SubscribeIncomingTasksResponse>) -> Task {
    let event = within("a task is handed over", stream.message()).await;
    event
        .unwrap()
        .expect("the stream goes on")
        .task
        .expect("a task in the event")
}

/// Claims a task, or moves it on.
pub async fn update(rpc: &mut Rpc, task_id: &str, status: v1::TaskStatus) -> Result<(), Status> {
    let request = v1::UpdateTaskStatusRequest {
        task_id: task_id.to_owned(),
        status: status.into(),
        message: None,
        ..Default::default()
    };
    rpc.update_task_status(request).await.map(drop)
}

/// As [`update`], with a text of the agent.
pub async fn report(rpc: &mut Rpc, task_id: &str, status: v1::TaskStatus, what: &str) -> Result<(), Status> {
    say(rpc, task_id, status, text(what)).await
}

/// As [`update`], with a message of the agent.
pub async fn say(
    rpc: &mut Rpc,
    task_id: &str,
    status: v1::TaskStatus,
    message: Message,
) -> Result<(), Status> {
    let request = v1::UpdateTaskStatusRequest {
        task_id: task_id.to_owned(),
        status: status.into(),
        message: Some(message),
        ..Default::default()
    };
    rpc.update_task_status(request).await.map(drop)
}

/// Ends a task with one text.
pub async fn complete(rpc: &mut Rpc, task_id: &str, result: &str) -> Result<(), Status> {
    let request = v1::CompleteTaskRequest {
        task_id: task_id.to_owned(),
        artifacts: vec![artifact("result", result)],
        ..v1::CompleteTaskRequest::default()
    };
    rpc.complete_task(request).await.map(drop)
}

/// The services that a server's reflection lists, in order.
///
/// # Panics
/// When it lists none.
pub async fn reflected(channel: Channel) -> Vec<String> {
    let request = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..ServerReflectionRequest::default()
    };
    let mut reflection = ServerReflectionClient::new(channel);
    let answers = reflection
        .server_reflection_info(futures::stream::iter([request]))
        .await
        .expect("reflection answers");
    let answer = answers.into_inner().message().await.expect("an answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.and_then(|answer| answer.message_response)
    else {
        panic!("reflection lists no services")
    };
    let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    names.sort();
    names
}
