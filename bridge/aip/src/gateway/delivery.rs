//! What came of a task of a device, handed to its sender: small results with the end of the task, large ones in pieces before it.

use agentanycast_gateway::{
    GatewayError,
    agents::{AgentTask, stream_whole},
};
use agentanycast_proto::v1 as mesh;
use prost::Message as _;
use serde_json::Value;
use uuid::Uuid;

use super::content::{JSON, value_part};

/// What goes with the end of a task at most, in bytes.
const INLINE: usize = 3 << 20;

/// The longest reason of a failure, in characters.
const LONGEST_REASON: usize = 4000;

/// Ends a task with a result.
///
/// # Errors
/// Those of the node; mostly, that the task has ended meanwhile.
pub(super) async fn complete(task: &dyn AgentTask, value: &Value) -> Result<(), GatewayError> {
    let artifact = mesh::Artifact {
        artifact_id: Uuid::new_v4().to_string(),
        name: "result".to_owned(),
        parts: vec![value_part(value)],
        ..mesh::Artifact::default()
    };
    if artifact.encoded_len() <= INLINE {
        return task.complete(vec![artifact], None).await;
    }
    let (name, media_type, bytes) = match value {
        Value::String(text) => ("result.txt", "text/plain", text.clone().into_bytes()),
        value => ("result.json", JSON, value.to_string().into_bytes()),
    };
    stream_whole(task, name, media_type, &bytes).await?;
    task.complete(Vec::new(), None).await
}

/// Ends a task as failed.
///
/// # Errors
/// Those of the node.
pub(super) async fn fail(task: &dyn AgentTask, reason: &str) -> Result<(), GatewayError> {
    let reason: String = reason.chars().take(LONGEST_REASON).collect();
    task.fail(&reason).await
}
