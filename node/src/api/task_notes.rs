//! TaskNoteService: the additive notes that gateways keep with tasks.

use std::pin::Pin;

use agentanycast_core::Note;
use agentanycast_proto::v1::{
    DeleteTaskNoteRequest, DeleteTaskNoteResponse, ListTaskNotesRequest, ListTaskNotesResponse,
    PutTaskNoteRequest, PutTaskNoteResponse, TaskNote, WatchTaskNotesRequest, WatchTaskNotesResponse,
    task_note_service_server::TaskNoteService,
};
use futures::Stream;
use tonic::{Request, Response, Status};

use super::{Api, status_of, task_updates::node_stopping};

#[tonic::async_trait]
impl TaskNoteService for Api {
    async fn put_task_note(
        &self,
        request: Request<PutTaskNoteRequest>,
    ) -> Result<Response<PutTaskNoteResponse>, Status> {
        let PutTaskNoteRequest {
            task_id,
            note,
            if_version,
        } = request.into_inner();
        let note = note.ok_or_else(|| Status::invalid_argument("the request has no note"))?;
        let note = from_proto(note);
        let if_version = (if_version != 0).then_some(if_version);
        let put = self.engine().put_note(task_id, note, if_version).await;
        let version = put.map_err(|error| status_of(&error))?;
        Ok(Response::new(PutTaskNoteResponse { version }))
    }

    async fn delete_task_note(
        &self,
        request: Request<DeleteTaskNoteRequest>,
    ) -> Result<Response<DeleteTaskNoteResponse>, Status> {
        let DeleteTaskNoteRequest { task_id, name } = request.into_inner();
        let deleted = self.engine().delete_note(task_id, name).await;
        deleted.map_err(|error| status_of(&error))?;
        Ok(Response::new(DeleteTaskNoteResponse {}))
    }

    async fn list_task_notes(
        &self,
        request: Request<ListTaskNotesRequest>,
    ) -> Result<Response<ListTaskNotesResponse>, Status> {
        let task_id = request.into_inner().task_id;
        let notes = self.engine().notes_of(task_id).await;
        let notes = notes.map_err(|error| status_of(&error))?;
        let notes = notes.into_iter().map(to_proto).collect();
        Ok(Response::new(ListTaskNotesResponse { notes }))
    }

    type WatchTaskNotesStream = Pin<Box<dyn Stream<Item = Result<WatchTaskNotesResponse, Status>> + Send>>;

    async fn watch_task_notes(
        &self,
        _: Request<WatchTaskNotesRequest>,
    ) -> Result<Response<Self::WatchTaskNotesStream>, Status> {
        let engine = self.engine().clone();
        Ok(Response::new(Box::pin(async_stream::try_stream! {
            let mut watch = engine.watch_notes().await.map_err(|error| status_of(&error))?;
            while let Some((task_id, notes)) = watch.next().await {
                let notes = notes.into_iter().map(to_proto).collect();
                yield WatchTaskNotesResponse { task_id, notes };
            }
            Err(node_stopping())?;
        })))
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
