//! Files and payloads that a device sends while it carries a task of the mesh out: artifacts of the task, streamed as they
//! come.
//!
//! Invariant: a file belongs to the task that was under way when it began; it is whole, or its task is not completed.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use agentanycast_aip::protocol::FileProgress;
use agentanycast_gateway::agents::{AgentTask, ArtifactSink, stream_whole};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

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
    /// Files go to the task that takes these, until it drops them.
    pub(super) fn of_task(&self) -> TaskFiles {
        let (sender, steps) = mpsc::channel(1);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        TaskFiles {
            steps,
            begun: None,
            sink: None,
            broken: None,
        }
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

/// The files of one task.
pub(super) struct TaskFiles {
    steps: mpsc::Receiver<FileStep>,
    /// The name of a file or payload that is not whole yet.
    begun: Option<String>,
    sink: Option<Box<dyn ArtifactSink>>,
    /// Why the first file that is not whole broke off. A node completes no task of which a result broke off.
    broken: Option<String>,
}

impl TaskFiles {
    /// Streams the files as artifacts of the task. It does not end before the device is gone; dropping the future loses
    /// a step, after which [`TaskFiles::broken`] says so.
    pub(super) async fn take(&mut self, task: &dyn AgentTask) {
        while let Some(FileStep { progress, taken }) = self.steps.recv().await {
            let result = self.step(task, progress).await;
            if let Err(reason) = &result {
                self.break_off(reason);
            }
            // The device may be gone.
            let _ = taken.send(result);
        }
    }

    /// The task's commands are done: why it cannot be completed, if a file of it broke off.
    pub(super) fn broken(mut self) -> Option<String> {
        self.break_off("the task's commands were done before the file was complete");
        self.broken
    }

    fn break_off(&mut self, reason: &str) {
        self.sink = None;
        if let Some(name) = self.begun.take() {
            self.broken
                .get_or_insert_with(|| format!("file '{name}' broke off: {reason}"));
        }
    }

    async fn step(&mut self, task: &dyn AgentTask, progress: FileProgress) -> Result<(), String> {
        const NOT_BEGUN: &str = "the file did not begin while this task was under way";
        let done = match progress {
            FileProgress::Started(start) => {
                let media_type = start.mime_type.as_deref().unwrap_or(BYTES);
                self.begun = Some(start.filename.clone());
                let begun = task.stream(&start.filename, media_type).await;
                begun.map(|sink| self.sink = Some(sink))
            }
            FileProgress::Chunk(bytes) => {
                let sink = self.sink.as_mut().ok_or(NOT_BEGUN)?;
                sink.write(&bytes).await
            }
            FileProgress::Complete(_) => {
                let sink = self.sink.take().ok_or(NOT_BEGUN)?;
                let whole = sink.finish().await;
                whole.map(|()| self.begun = None)
            }
            FileProgress::Aborted(reason) => {
                self.break_off(&reason);
                Ok(())
            }
            FileProgress::Payload(header, bytes) => {
                let name = header.filename.as_deref().unwrap_or(UNNAMED);
                let media_type = header.mime_type.as_deref().unwrap_or(BYTES);
                // A payload may come between the chunks of a file.
                let file = self.begun.replace(name.to_owned());
                let whole = stream_whole(task, name, media_type, &bytes).await;
                whole.map(|()| self.begun = file)
            }
        };
        done.map_err(|error| error.to_string())
    }
}
