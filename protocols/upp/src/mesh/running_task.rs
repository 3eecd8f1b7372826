//! A task that was sent. Dropping it before its end cancels the task at the agent.

use agentanycast::{ArtifactEvent, EndReason, Message, Node, Task, TaskHandle, TaskStatus};
use futures::{Stream, StreamExt as _, stream};

use super::{
    error::{error_of_task, node_error},
    target::MeshTarget,
};
use crate::{error::UppError, task_wire::is_events};

/// How long a line of events may be: an image as base64.
const MAX_LINE_BYTES: usize = 32 << 20;

/// A task that was sent.
#[derive(Debug)]
pub struct RunningTask {
    handle: TaskHandle,
    ended: bool,
}

impl RunningTask {
    /// Sends a message to an agent. Dropping the future before it is ready cancels the task, too.
    pub async fn send(node: &Node, target: &MeshTarget, message: Message) -> Result<Self, UppError> {
        let (target, agent) = target.resolve(node).await?;
        let mut task = node.task(target, message);
        if let Some(agent) = agent {
            task = task.agent(agent);
        }
        // In a task of its own: the daemon may have begun the task before it answers.
        let sent = tokio::spawn(async move {
            let handle = task.send().await.map_err(node_error)?;
            Ok(Self { handle, ended: false })
        });
        sent.await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime stops.
            Err(_) => Err(UppError::cancelled()),
        })
    }

    /// The task.
    pub fn handle(&self) -> &TaskHandle {
        &self.handle
    }

    /// Waits until the task completes or asks a question. A question cancels the task: a request has no second
    /// message to answer it with.
    pub async fn wait(mut self) -> Result<Task, UppError> {
        let task = self.handle.wait_or_input().await.map_err(node_error)?;
        if task.status == TaskStatus::InputRequired {
            return Ok(task);
        }
        self.ended = true;
        task.into_result().map_err(error_of_task)
    }

    /// The lines of the artifacts in which the agent streams its events ([`is_events`]),
    /// until the task ends or asks a question. Other artifacts are left out.
    pub fn event_lines(&self) -> impl Stream<Item = Result<String, UppError>> + Send + use<> {
        // A task that asks may have further artifacts, so that their stream goes on.
        let asks = asks_input(self.handle.clone());
        let artifacts = Box::pin(self.handle.artifacts().take_until(asks));
        stream::try_unfold(
            (artifacts, LineCutter::default()),
            |(mut artifacts, mut cutter)| async move {
                loop {
                    if let Some(line) = cutter.next_line()? {
                        return Ok(Some((line, (artifacts, cutter))));
                    }
                    match artifacts.next().await {
                        Some(event) => cutter.take(event.map_err(node_error)?)?,
                        None => return Ok(None),
                    }
                }
            },
        )
    }
}

/// Resolves when the task asks a question, and never if it does not.
async fn asks_input(task: TaskHandle) {
    match task.wait_or_input().await {
        Ok(task) if task.status == TaskStatus::InputRequired => {}
        // The stream of artifacts ends by itself.
        _ => std::future::pending().await,
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Without a runtime the process ends anyway, and the daemon keeps the task.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let handle = self.handle.clone();
            runtime.spawn(async move {
                // A task that ended meanwhile refuses, which is as good.
                let _ = handle.cancel().await;
            });
        }
    }
}

/// Cuts the bytes of the event artifacts into lines.
#[derive(Debug, Default)]
struct LineCutter {
    artifact_id: Option<String>,
    bytes: Vec<u8>,
    /// How many bytes were searched for the end of the line.
    searched: usize,
}

impl LineCutter {
    fn take(&mut self, event: ArtifactEvent) -> Result<(), UppError> {
        match event {
            ArtifactEvent::Start {
                artifact_id,
                media_type,
                ..
            } if is_events(&media_type) => {
                self.artifact_id = Some(artifact_id);
                // The rest of a line of an agent that broke off.
                self.bytes.clear();
                self.searched = 0;
            }
            ArtifactEvent::Chunk { artifact_id, data } if self.artifact_id.as_ref() == Some(&artifact_id) => {
                if self.bytes.len() + data.len() > MAX_LINE_BYTES {
                    return Err(UppError::invalid_response(format!(
                        "a line of events has more than {MAX_LINE_BYTES} bytes"
                    )));
                }
                self.bytes.extend_from_slice(&data);
            }
            ArtifactEvent::End {
                artifact_id,
                reason,
                error,
            } if self.artifact_id.as_ref() == Some(&artifact_id) => {
                self.artifact_id = None;
                // A broken stream is told by the end of the task; this one only lacks its rest.
                if reason != EndReason::Complete {
                    tracing::debug!(error, "the stream of events broke off");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<Option<String>, UppError> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let rest = self.bytes.split_off(self.searched + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        line.pop();
        let line = String::from_utf8(line)
            .map_err(|_| UppError::invalid_response("a line of events is not UTF-8"))?;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::task_wire::UPP_EVENTS;

    proptest! {
        #[test]
        fn lines_survive_any_cut(lines in prop::collection::vec("[a-zé]{0,9}", 0..6), cut in 1_usize..5) {
            let artifact_id = || "a".to_owned();
            let mut cutter = LineCutter::default();
            let start = ArtifactEvent::Start {
                artifact_id: artifact_id(),
                name: String::new(),
                media_type: UPP_EVENTS.to_owned(),
                metadata: std::collections::BTreeMap::new(),
            };
            cutter.take(start).unwrap();
            let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let mut read = Vec::new();
            for piece in text.as_bytes().chunks(cut) {
                let data = bytes::Bytes::copy_from_slice(piece);
                cutter.take(ArtifactEvent::Chunk { artifact_id: artifact_id(), data }).unwrap();
                while let Some(line) = cutter.next_line().unwrap() {
                    read.push(line);
                }
            }
            prop_assert_eq!(read, lines);
        }
    }
}
