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

/// Ends a task with a result; as failed with the reason if the node does not take the result.
///
/// # Errors
/// Why the node did not take the result; mostly, that the task has ended meanwhile.
pub(super) async fn complete(task: &dyn AgentTask, value: &Value) -> Result<(), GatewayError> {
    let completed = hand_over(task, value).await;
    if let Err(error) = &completed {
        let reason = format!("the result could not be handed over: {error}");
        if let Err(error) = fail(task, &reason).await {
            tracing::debug!(%error, "a task whose result was refused could not be failed");
        }
    }
    completed
}

async fn hand_over(task: &dyn AgentTask, value: &Value) -> Result<(), GatewayError> {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use agentanycast_gateway::{ErrorKind, agents::ArtifactSink};
    use async_trait::async_trait;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A task of which the node takes no result.
    #[derive(Default)]
    struct RefusedTask {
        task: mesh::Task,
        failed: Mutex<Vec<String>>,
    }

    fn refused<T>() -> Result<T, GatewayError> {
        Err(GatewayError::new(ErrorKind::Conflict, "a result broke off"))
    }

    #[async_trait]
    impl AgentTask for RefusedTask {
        fn task(&self) -> &mesh::Task {
            &self.task
        }

        fn cancelled(&self) -> CancellationToken {
            CancellationToken::new()
        }

        async fn claim(&self) -> Result<(), GatewayError> {
            Ok(())
        }

        fn leave(&self) {}

        async fn working(&self, _: mesh::Message) -> Result<(), GatewayError> {
            Ok(())
        }

        async fn ask(&self, _: mesh::Message) -> Result<mesh::Message, GatewayError> {
            refused()
        }

        async fn stream(&self, _: &str, _: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
            refused()
        }

        async fn complete(
            &self,
            _: Vec<mesh::Artifact>,
            _: Option<mesh::Message>,
        ) -> Result<(), GatewayError> {
            refused()
        }

        async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
            self.failed.lock().unwrap().push(reason.to_owned());
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_result_that_the_node_refuses_fails_the_task_with_the_reason() {
        for value in [json!("small"), Value::String("x".repeat(INLINE + 1))] {
            let task = RefusedTask::default();
            let error = complete(&task, &value).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            let failed = task.failed.lock().unwrap().clone();
            assert_eq!(failed.len(), 1);
            assert!(failed[0].contains("a result broke off"), "{failed:?}");
        }
    }
}
