//! Notes that gateways keep with tasks.

use agentanycast_core::Note;
use agentanycast_proto::v1::{
    DeleteTaskNoteRequest, DeleteTaskNoteResponse, ListTaskNotesRequest, ListTaskNotesResponse,
    PutTaskNoteRequest, PutTaskNoteResponse, TaskNote, WatchTaskNotesResponse,
};
use futures::Stream;

use super::{Service, ServiceError, ServiceResult};

impl Service {
    pub(crate) async fn put_task_note(
        &self,
        request: PutTaskNoteRequest,
    ) -> ServiceResult<PutTaskNoteResponse> {
        let note = request
            .note
            .ok_or_else(|| ServiceError::invalid("the request has no note"))?;
        let if_version = (request.if_version != 0).then_some(request.if_version);
        let put = self
            .engine()
            .put_note(request.task_id, from_proto(note), if_version)
            .await;
        let version = put.map_err(ServiceError::while_away)?;
        Ok(PutTaskNoteResponse { version })
    }

    pub(crate) async fn delete_task_note(
        &self,
        request: DeleteTaskNoteRequest,
    ) -> ServiceResult<DeleteTaskNoteResponse> {
        let deleted = self.engine().delete_note(request.task_id, request.name).await;
        deleted.map_err(ServiceError::while_away)?;
        Ok(DeleteTaskNoteResponse {})
    }

    pub(crate) async fn list_task_notes(
        &self,
        request: ListTaskNotesRequest,
    ) -> ServiceResult<ListTaskNotesResponse> {
        let notes = self.engine().notes_of(request.task_id).await;
        let notes = notes.map_err(ServiceError::while_away)?;
        let notes = notes.into_iter().map(to_proto).collect();
        Ok(ListTaskNotesResponse { notes })
    }

    /// The notes of each task that has open ones, then of each task whose notes change.
    pub(crate) fn watch_task_notes(
        &self,
    ) -> impl Stream<Item = ServiceResult<WatchTaskNotesResponse>> + Send + use<> {
        let engine = self.engine().clone();
        async_stream::try_stream! {
            let mut watch = engine.watch_notes().await.map_err(ServiceError::while_away)?;
            while let Some((task_id, notes)) = watch.next().await {
                let notes = notes.into_iter().map(to_proto).collect();
                yield WatchTaskNotesResponse { task_id, notes };
            }
            Err(ServiceError::stopping())?;
        }
    }
}

/// A note that is to be written.
pub(super) fn from_proto(note: TaskNote) -> Note {
    Note {
        name: note.name,
        owner: note.owner,
        content: note.content,
        open: note.open,
        version: 0,
    }
}

fn to_proto(note: Note) -> TaskNote {
    TaskNote {
        name: note.name,
        owner: note.owner,
        content: note.content,
        open: note.open,
        version: note.version,
    }
}
