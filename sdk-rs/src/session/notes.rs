//! The calls of TaskNoteService, each with the session's patience.

use agentanycast_proto::v1;
use tonic::Streaming;

use super::Session;
use crate::error::{Error, Subject};

impl Session {
    pub(crate) async fn put_note(
        &self,
        request: v1::PutTaskNoteRequest,
    ) -> Result<v1::PutTaskNoteResponse, Error> {
        let rpc = |_, request: v1::PutTaskNoteRequest| {
            let mut client = self.notes.clone();
            async move { client.put_task_note(request).await }
        };
        self.call(Subject::Task, request, rpc).await
    }

    pub(crate) async fn delete_note(&self, request: v1::DeleteTaskNoteRequest) -> Result<(), Error> {
        let rpc = |_, request: v1::DeleteTaskNoteRequest| {
            let mut client = self.notes.clone();
            async move { client.delete_task_note(request).await }
        };
        self.call(Subject::Task, request, rpc).await.map(drop)
    }

    pub(crate) async fn list_notes(
        &self,
        request: v1::ListTaskNotesRequest,
    ) -> Result<v1::ListTaskNotesResponse, Error> {
        let rpc = |_, request: v1::ListTaskNotesRequest| {
            let mut client = self.notes.clone();
            async move { client.list_task_notes(request).await }
        };
        self.call(Subject::Task, request, rpc).await
    }

    pub(crate) async fn watch_notes(&self) -> Result<Streaming<v1::WatchTaskNotesResponse>, Error> {
        let rpc = |_, request: v1::WatchTaskNotesRequest| {
            let mut client = self.notes.clone();
            async move { client.watch_task_notes(request).await }
        };
        self.call(Subject::Node, v1::WatchTaskNotesRequest {}, rpc).await
    }
}
