//! Sending one artifact into this node's own files: for a reader here, or to go along whole when its task completes.
//!
//! A reader that is behind slows the agent; the end of the task ends the artifact.

use agentanycast_proto::v1::{StreamEndReason, StreamStart};
use bytes::Bytes;

use super::{super::StreamStop, SendError, end_of, ended, ended_as};
use crate::{
    delivery::artifact::{READ_AHEAD, split},
    handle::Engine,
    spool::SpoolWriter,
};

/// The sender of an artifact that goes into this node's own files.
pub(super) struct FileSender {
    engine: Engine,
    writer: SpoolWriter,
    stop: StreamStop,
    most: Option<u64>,
}

impl FileSender {
    pub(super) async fn open(
        engine: Engine,
        start: StreamStart,
        stop: StreamStop,
        most: Option<u64>,
    ) -> Result<Self, SendError> {
        let writer = engine.spool().create(&start).await?;
        Ok(Self {
            engine,
            writer,
            stop,
            most,
        })
    }

    /// Resolves when the task has ended.
    pub(super) async fn stopped(&self) {
        self.stop.token.cancelled().await;
    }

    /// Why it is not sent once the task has ended.
    pub(super) fn task_ended(&self) -> SendError {
        ended(self.writer.start())
    }

    pub(super) async fn push(&mut self, data: Bytes, is_last: bool) -> Result<(), SendError> {
        if let Some(most) = self.most
            && self.writer.bytes() + data.len() as u64 > most
        {
            return Err(SendError::TooLarge(format!(
                "the task is sealed, or its originator's daemon takes no streams, and an artifact over {most} bytes does not fit into a message"
            )));
        }
        if data.len() as u64 > self.engine.stream_room() {
            return Err(SendError::TooLarge(
                "no room for the artifact (store_quota)".into(),
            ));
        }
        let mut furthest = self.writer.furthest_reader();
        loop {
            let ahead = furthest
                .borrow_and_update()
                .is_some_and(|read| self.writer.bytes() > read + READ_AHEAD);
            if !ahead {
                break;
            }
            tokio::select! {
                () = self.stop.token.cancelled() => return Err(self.task_ended()),
                changed = furthest.changed() => if changed.is_err() { break },
            }
        }
        if self.stop.token.is_cancelled() {
            return Err(self.task_ended());
        }
        let chunks: Vec<Bytes> = split(data).collect();
        self.writer.append(&chunks, is_last).await?;
        Ok(())
    }

    pub(super) async fn finish(&mut self, reason: StreamEndReason, message: &str) -> Result<(), SendError> {
        let StreamStart {
            task_id, artifact_id, ..
        } = self.writer.start().clone();
        self.writer
            .finish(end_of(self.writer.start(), reason, message))
            .await?;
        Ok(self
            .engine
            .end_stream(task_id, artifact_id, ended_as(reason), self.writer.bytes())
            .await?)
    }
}
