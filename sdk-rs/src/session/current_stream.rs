//! The stream of calls that is in use: opened by the first call on a connection, opened anew by the first one after
//! it broke. A daemon that does not know such streams is not asked again on the same connection.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tonic::Status;

use super::{
    SessionClient,
    call_stream::{CallStream, CallStreamError},
};

#[derive(Debug)]
pub(super) struct CurrentStream {
    client: SessionClient,
    connections: Arc<AtomicU64>,
    availability: Mutex<StreamAvailability>,
    /// Held by the one that opens a stream.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
enum StreamAvailability {
    Nothing,
    Stream(Arc<CallStream>),
    /// There are none on the connection of this count.
    None {
        on: u64,
    },
}

impl CurrentStream {
    pub(super) fn new(client: SessionClient, connections: Arc<AtomicU64>) -> Self {
        Self {
            client,
            connections,
            availability: Mutex::new(StreamAvailability::Nothing),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// A stream that is not known to be broken; `None` if the daemon has no such streams. Opening one may take so long.
    pub(super) async fn get(&self, limit: Duration) -> Result<Option<Arc<CallStream>>, CallStreamError> {
        match self.known() {
            StreamAvailability::Stream(stream) => return Ok(Some(stream)),
            StreamAvailability::None { .. } => return Ok(None),
            StreamAvailability::Nothing => {}
        }
        let opened = Box::pin(tokio::time::timeout(limit, self.open(limit))).await;
        opened.unwrap_or_else(|_| {
            Err(CallStreamError::Refused(Status::deadline_exceeded(
                "the daemon did not answer in time",
            )))
        })
    }

    async fn open(&self, limit: Duration) -> Result<Option<Arc<CallStream>>, CallStreamError> {
        let _alone = self.opening.lock().await;
        match self.known() {
            StreamAvailability::Stream(stream) => return Ok(Some(stream)),
            StreamAvailability::None { .. } => return Ok(None),
            StreamAvailability::Nothing => {}
        }
        let opened = CallStream::open(self.client.clone(), limit)
            .await
            .map_err(CallStreamError::Refused)?;
        let opened = opened.map(Arc::new);
        *self.availability.lock().unwrap_or_else(PoisonError::into_inner) = match &opened {
            Some(stream) => StreamAvailability::Stream(Arc::clone(stream)),
            None => StreamAvailability::None {
                on: self.connections.load(Ordering::Acquire),
            },
        };
        Ok(opened)
    }

    /// What holds without asking the daemon.
    fn known(&self) -> StreamAvailability {
        let known = self.availability.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            StreamAvailability::Stream(stream) if stream.is_broken() => StreamAvailability::Nothing,
            StreamAvailability::None { on } if *on != self.connections.load(Ordering::Acquire) => {
                StreamAvailability::Nothing
            }
            known => known.clone(),
        }
    }
}
