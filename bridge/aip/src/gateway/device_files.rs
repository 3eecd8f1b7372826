//! Files and payloads that a device sends while it carries a task of the mesh out: artifacts of the task, streamed as they
//! come.
//!
//! Invariant: a file belongs to the task that was under way when it began; it is whole, or broken off.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use agentanycast_gateway::agents::{AgentTask, ArtifactSink, stream_whole};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::protocol::FileProgress;

/// How long the task's sender may take for one piece of a file. The device's other frames wait meanwhile, and after
/// 180 s of silence it counts as gone.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);

/// The name of a payload that says none, and the media type of a file that says none.
const UNNAMED: &str = "payload";
const BYTES: &str = "application/octet-stream";

/// A step of a file, and who waits for it to be taken.
pub(super) struct FileStep {
    progress: FileProgress,
    taken: oneshot::Sender<Result<(), String>>,
}

/// Where the files of one device go. By default nowhere.
#[derive(Default)]
pub(super) struct DeviceFiles(Mutex<Option<mpsc::Sender<FileStep>>>);

impl DeviceFiles {
    /// Files go to the task that takes these steps, until it drops them.
    pub(super) fn of_task(&self) -> mpsc::Receiver<FileStep> {
        let (sender, steps) = mpsc::channel(1);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        steps
    }

    /// Hands a step to the task that is under way.
    ///
    /// # Errors
    /// Why it is not taken, for the device.
    pub(super) async fn hand(&self, progress: FileProgress) -> Result<(), String> {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (taken, answer) = oneshot::channel();
        let handed = async {
            let sender = sender?;
            sender.send(FileStep { progress, taken }).await.ok()?;
            answer.await.ok()
        };
        match timeout(TAKEN_WITHIN, handed).await {
            Ok(Some(taken)) => taken,
            Ok(None) => Err("no task of the mesh is under way that could take a file".to_owned()),
            Err(_) => Err(format!(
                "the task's sender did not take the file within {} s",
                TAKEN_WITHIN.as_secs()
            )),
        }
    }
}

/// Streams the files of `steps` as artifacts of a task. It does not end before the device is gone.
pub(super) async fn take(task: &dyn AgentTask, mut steps: mpsc::Receiver<FileStep>) {
    let mut open = None;
    while let Some(FileStep { progress, taken }) = steps.recv().await {
        let result = step(task, &mut open, progress).await;
        if result.is_err() {
            open = None;
        }
        // The device may be gone.
        let _ = taken.send(result);
    }
}

async fn step(
    task: &dyn AgentTask,
    open: &mut Option<Box<dyn ArtifactSink>>,
    progress: FileProgress,
) -> Result<(), String> {
    let done = match progress {
        FileProgress::Started(start) => {
            let media_type = start.mime_type.as_deref().unwrap_or(BYTES);
            match task.stream(&start.filename, media_type).await {
                Ok(sink) => {
                    *open = Some(sink);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        }
        FileProgress::Chunk(bytes) => match open {
            Some(sink) => sink.write(&bytes).await,
            None => return Err("the file did not begin while this task was under way".to_owned()),
        },
        FileProgress::Complete(_) => match open.take() {
            Some(sink) => sink.finish().await,
            None => return Err("the file did not begin while this task was under way".to_owned()),
        },
        FileProgress::Aborted(_) => {
            *open = None;
            Ok(())
        }
        FileProgress::Payload(header, bytes) => {
            let name = header.filename.as_deref().unwrap_or(UNNAMED);
            stream_whole(task, name, header.mime_type.as_deref().unwrap_or(BYTES), &bytes).await
        }
    };
    done.map_err(|error| error.to_string())
}
