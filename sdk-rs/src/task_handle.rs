//! A task that was sent: waiting for its end, following it, answering it, canceling it.

use std::time::Duration;

use agentanycast_proto::v1;
use futures::StreamExt;

use crate::{
    box_stream::BoxStream,
    error::{Error, ErrorKind, Subject},
    node::{Node, missing},
    peer_id::PeerId,
    task::{Task, TaskError, TaskStatus, TaskUpdate},
};

pub(crate) mod artifacts;
mod updates;

use artifacts::{ArtifactEvent, EndReason};

/// Largest artifact that [`TaskHandle::read_artifact`] holds in memory, in bytes; [`TaskHandle::artifacts`]
/// has no such bound.
pub const MAX_ARTIFACT_IN_MEMORY: usize = 256 << 20;

/// The trailers of a stream follow its last event at once; a daemon that keeps them back is not waited for.
const TRAILER_LIMIT: Duration = Duration::from_secs(1);

/// A task that was sent. Cheap to clone; dropping it does not cancel the task.
///
/// ```no_run
/// # use agentanycast::{Node, Target, TaskError};
/// # async fn run(node: Node) -> Result<(), Box<dyn std::error::Error>> {
/// let handle = node.send_task(Target::skill("translate"), "Good morning").await?;
/// match handle.wait().await {
///     Ok(task) => println!("{}", task.text_content()),
///     Err(TaskError::Failed { reason, .. }) => println!("failed: {reason}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TaskHandle {
    node: Node,
    id: String,
    assignee: Option<PeerId>,
}

impl Node {
    /// A handle for a task that was sent before, also by another process. Does not ask the daemon.
    pub fn task_handle(&self, task_id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), task_id.into(), None)
    }
}

impl TaskHandle {
    pub(crate) fn new(node: Node, id: String, assignee: Option<PeerId>) -> Self {
        Self { node, id, assignee }
    }

    /// Names the task on both sides.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The peer that the task was sent to, if that is known.
    pub(crate) fn assignee(&self) -> Option<&PeerId> {
        self.assignee.as_ref()
    }

    /// The task as it stands, whole.
    pub async fn snapshot(&self) -> Result<Task, Error> {
        get_task(&self.node, &self.id).await
    }

    /// Waits for the task's end, over restarts of the daemon. A task that asks for input
    /// ([`TaskStatus::InputRequired`]) has not ended: follow [`TaskHandle::updates`] to answer it.
    /// Bound the wait with `tokio::time::timeout`; the task itself goes on.
    pub async fn wait(&self) -> Result<Task, TaskError> {
        updates::end(&self.node, &self.id, false).await?.into_result()
    }

    /// The task as it stands when it has ended, however, or asks for input; over restarts of the daemon.
    /// Bound it with `tokio::time::timeout`; the task itself goes on.
    pub async fn wait_or_input(&self) -> Result<Task, Error> {
        updates::end(&self.node, &self.id, true).await
    }

    /// The current state first, then every change, until the task has ended. Goes on after a restart of
    /// the daemon; the terminal state comes once. After an error the stream ends.
    pub fn updates(&self) -> BoxStream<Result<TaskUpdate, Error>> {
        updates::updates(self.node.clone(), self.id.clone())
    }

    /// The artifacts as they come: start, bytes, end, one artifact after the other; what is stored is
    /// replayed first. Goes on where it stood after a restart of the daemon. Ends when the task can
    /// have no further artifact; after an error the stream ends too.
    pub fn artifacts(&self) -> BoxStream<Result<ArtifactEvent, Error>> {
        artifacts::artifacts(self.node.clone(), self.id.clone(), None)
    }

    /// As [`TaskHandle::artifacts`], for one artifact.
    pub fn artifact(&self, artifact_id: impl Into<String>) -> BoxStream<Result<ArtifactEvent, Error>> {
        artifacts::artifacts(self.node.clone(), self.id.clone(), Some(artifact_id.into()))
    }

    /// Reads an artifact whole, at most [`MAX_ARTIFACT_IN_MEMORY`] bytes; waits for its end if it is
    /// still being produced.
    pub async fn read_artifact(&self, artifact_id: impl Into<String>) -> Result<Vec<u8>, Error> {
        let artifact_id = artifact_id.into();
        let mut events = self.artifact(artifact_id.clone());
        let mut bytes = Vec::new();
        while let Some(event) = events.next().await {
            match event? {
                ArtifactEvent::Start { .. } => {}
                ArtifactEvent::Chunk { data, .. } if bytes.len() + data.len() > MAX_ARTIFACT_IN_MEMORY => {
                    let message = format!(
                        "artifact {artifact_id} has more than {MAX_ARTIFACT_IN_MEMORY} bytes; read it as a stream"
                    );
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
                ArtifactEvent::Chunk { data, .. } => bytes.extend(data),
                ArtifactEvent::End {
                    reason: EndReason::Complete,
                    ..
                } => return Ok(bytes),
                ArtifactEvent::End { error, .. } => {
                    let message = format!("artifact {artifact_id} was not finished: {error}");
                    return Err(Error::new(ErrorKind::ArtifactAborted, message));
                }
            }
        }
        let message = format!("task {} has no artifact {artifact_id}", self.id);
        Err(Error::new(ErrorKind::ArtifactNotFound, message))
    }

    /// Cancels the task. A task that has ended is a `Conflict`.
    pub async fn cancel(&self) -> Result<Task, Error> {
        let request = v1::CancelTaskRequest {
            task_id: self.id.clone(),
        };
        match self
            .node
            .session()
            .task_call_with_doubt(Subject::Task, &request)
            .await
        {
            (Ok(answer), _) => answer.task.map(Task::from).ok_or_else(|| missing("task")),
            (Err(error), true) if error.kind() == ErrorKind::Conflict => {
                let task = self.snapshot().await?;
                if task.status == TaskStatus::Canceled {
                    Ok(task)
                } else {
                    Err(error)
                }
            }
            (Err(error), _) => Err(error),
        }
    }
}

pub(crate) async fn get_task(node: &Node, id: &str) -> Result<Task, Error> {
    let request = v1::GetTaskRequest {
        task_id: id.to_owned(),
        ..v1::GetTaskRequest::default()
    };
    let answer = node.session().task_call(Subject::Task, request).await?;
    answer.task.map(Task::from).ok_or_else(|| missing("task"))
}

/// Reads a stream to its trailers: a connection on which many streams are dropped before is closed.
pub(crate) async fn drain<T>(stream: &mut tonic::Streaming<T>) {
    let to_the_end = async { while let Ok(Some(_)) = stream.message().await {} };
    if tokio::time::timeout(TRAILER_LIMIT, to_the_end).await.is_err() {
        tracing::debug!("the daemon kept a finished stream open");
    }
}
