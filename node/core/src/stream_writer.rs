//! One envelope stream to a peer: opens it, writes what it is given, reports that it is open and
//! that it is gone. It never reopens: the outbox has to start again from its lowest entry then.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    link::{Link, LinkWriter},
    task::NetworkPath,
};

/// Frames that wait to be written: the outbox's window, its retries, and acknowledgements.
pub(super) const MAX_QUEUED_FRAMES: usize = 4096;

/// Frames written with one flush.
const BATCH: usize = 64;

/// How long a failed opening is kept back, so that a peer that takes no streams is not asked in a loop.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// What a courier reports.
#[derive(Debug)]
pub(super) enum WriterReport {
    /// Frames can be written.
    Opened {
        /// To whom.
        peer: PeerId,
        /// Which stream.
        stream: u64,
        /// What it goes over.
        over: NetworkPath,
    },
    /// It is gone, or could not be opened.
    Closed {
        /// To whom.
        peer: PeerId,
        /// Which stream.
        stream: u64,
    },
}

/// Runs until the stream is gone or `frames` is closed.
pub(super) async fn run(
    link: Arc<dyn Link>,
    peer: PeerId,
    stream: u64,
    mut frames: mpsc::Receiver<Bytes>,
    reports: mpsc::Sender<WriterReport>,
) {
    match link.open_stream(peer).await {
        Ok(mut writer) => {
            let over = writer.relay().map_or(NetworkPath::Direct, NetworkPath::Relay);
            if reports
                .send(WriterReport::Opened { peer, stream, over })
                .await
                .is_ok()
            {
                let cause = write_all(&mut *writer, &mut frames).await;
                tracing::debug!(%peer, stream, cause, "envelope stream closed");
            }
            writer.close().await;
        }
        Err(error) => {
            tracing::debug!(%peer, %error, "no envelope stream");
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
    let _ = reports.send(WriterReport::Closed { peer, stream }).await;
}

async fn write_all(writer: &mut dyn LinkWriter, frames: &mut mpsc::Receiver<Bytes>) -> String {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            taken = frames.recv_many(&mut batch, BATCH) => {
                if taken == 0 {
                    return "given up".into();
                }
            }
            () = writer.closed() => return "closed by the peer".into(),
        }
        if let Err(error) = writer.write(&batch).await {
            return error.to_string();
        }
        batch.clear();
    }
}
