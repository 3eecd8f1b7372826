//! Notes that a gateway keeps with tasks: what it has to remember about them, as durable as they are.

use agentanycast_proto::v1;
use async_stream::stream;

use super::Node;
use crate::{
    box_stream::BoxStream,
    error::{self, Error, Subject},
};

/// What a gateway has noted about a task. It stays on the daemon, and goes with the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskNote {
    /// The task has no second one of this name.
    pub name: String,
    /// Whose it is; the daemon bounds the open notes of each owner.
    pub owner: String,
    /// What is noted, 8 KiB with name and owner.
    pub content: Vec<u8>,
    /// Something is still to be done about it.
    pub open: bool,
    /// Another one each time that it is written; what is set here is not used.
    pub version: u64,
}

impl From<v1::TaskNote> for TaskNote {
    fn from(note: v1::TaskNote) -> Self {
        Self {
            name: note.name,
            owner: note.owner,
            content: note.content,
            open: note.open,
            version: note.version,
        }
    }
}

impl From<TaskNote> for v1::TaskNote {
    fn from(note: TaskNote) -> Self {
        Self {
            name: note.name,
            owner: note.owner,
            content: note.content,
            open: note.open,
            version: note.version,
        }
    }
}

impl Node {
    /// Writes a note of a task: over this version, else it is a `Conflict`, or over whatever there is. Its new version.
    pub async fn put_task_note(
        &self,
        task_id: impl Into<String>,
        note: TaskNote,
        if_version: Option<u64>,
    ) -> Result<u64, Error> {
        let request = v1::PutTaskNoteRequest {
            task_id: task_id.into(),
            note: Some(note.into()),
            if_version: if_version.unwrap_or_default(),
        };
        Ok(self.session().put_note(request).await?.version)
    }

    /// Removes a note of a task; one that there is not is no error.
    pub async fn delete_task_note(
        &self,
        task_id: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<(), Error> {
        let request = v1::DeleteTaskNoteRequest {
            task_id: task_id.into(),
            name: name.into(),
        };
        self.session().delete_note(request).await
    }

    /// The notes of a task, by name.
    pub async fn task_notes(&self, task_id: impl Into<String>) -> Result<Vec<TaskNote>, Error> {
        let request = v1::ListTaskNotesRequest {
            task_id: task_id.into(),
        };
        let answer = self.session().list_notes(request).await?;
        Ok(answer.notes.into_iter().map(Into::into).collect())
    }

    /// Tasks with open notes, each with all its notes: those that there are, and each again when it or its notes have
    /// changed. The daemon serves one reader at a time; the others wait. Goes on after a restart of the daemon, with
    /// all of them again; after an error the stream ends.
    pub fn watch_task_notes(&self) -> BoxStream<Result<(String, Vec<TaskNote>), Error>> {
        let node = self.clone();
        Box::pin(stream! {
            let mut backoff = node.session().backoff();
            loop {
                let mut events = match node.session().watch_notes().await {
                    Ok(events) => events,
                    Err(error) => {
                        yield Err(error);
                        return;
                    }
                };
                let loss = loop {
                    match events.message().await {
                        Ok(Some(event)) => {
                            backoff.reset();
                            let notes = event.notes.into_iter().map(TaskNote::from).collect();
                            yield Ok((event.task_id, notes));
                        }
                        Ok(None) => break None,
                        Err(status) if error::is_stream_loss(&status) => break Some(status),
                        Err(status) => {
                            yield Err(error::from_status(status, Subject::Node));
                            return;
                        }
                    }
                };
                tracing::debug!(?loss, "the notes broke off; asking for them again");
                if !backoff.pause().await {
                    yield Err(node.session().unavailable());
                    return;
                }
            }
        })
    }
}
