//! A connection on which envelopes and deltas go both ways: what a WebSocket and a call of gRPC have in
//! common.
//!
//! Invariant: deltas of one stream go out in order; what is behind in reading holds only its own connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_uamp::{
    body::EnvelopeBody,
    delta::{Delta, DeltaType},
    envelope::{EnvelopeDraft, Intent},
    error::{UampCode, UampError},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    handler::{Rejected, UampHandler, UampSender},
    now_ms,
    stream::{ReadFrom, UampStream, begin_reading},
};

/// What waits to be written on a connection: the transport's own buffers come behind it.
const WRITE_AHEAD: usize = 16;

/// Streams that one connection follows at a time.
const MOST_FOLLOWED: usize = 256;

/// What goes out, as JSON.
#[derive(Debug)]
pub(super) enum SessionOut {
    /// An envelope.
    Envelope(Vec<u8>),
    /// A delta.
    Delta(Vec<u8>),
}

/// A connection. Dropping it ends what it follows; the streams go on.
pub(super) struct UampSession {
    handler: Arc<UampHandler>,
    sender: UampSender,
    out: mpsc::Sender<SessionOut>,
    followed: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
}

/// Tells a delta from an envelope.
#[derive(Deserialize)]
struct RecordProbe {
    delta_seq: Option<serde_json::Number>,
}

impl UampSession {
    /// Of this caller; what goes out is received at the other end.
    pub(super) fn new(handler: Arc<UampHandler>, sender: UampSender) -> (Self, mpsc::Receiver<SessionOut>) {
        let (out, written) = mpsc::channel(WRITE_AHEAD);
        let session = Self {
            handler,
            sender,
            out,
            followed: Mutex::default(),
        };
        (session, written)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<String, AbortOnDropHandle<()>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record. A record that is refused is answered by an error envelope.
    pub(super) async fn take(&self, json: &[u8]) {
        let is_delta = agentanycast_readers::json::read::<RecordProbe>(json)
            .is_ok_and(|probe| probe.delta_seq.is_some());
        let taken = if is_delta {
            self.take_delta(json).await.map_err(Rejected::from)
        } else {
            self.take_envelope(json).await
        };
        if let Err(rejected) = taken {
            self.refuse(&rejected).await;
        }
    }

    /// Answers by an error envelope.
    pub(super) async fn refuse(&self, rejected: &Rejected) {
        let envelope = self.handler.error_envelope(rejected);
        self.send(SessionOut::Envelope(envelope.to_string().into_bytes()))
            .await;
    }

    async fn send(&self, out: SessionOut) {
        // A connection that is gone drops this session soon.
        let _ = self.out.send(out).await;
    }

    async fn take_envelope(&self, json: &[u8]) -> Result<(), Rejected> {
        let accepted = self.handler.accept(&self.sender, json).await?;
        let Some(stream_id) = &accepted.stream_id else {
            return Ok(());
        };
        let stream = self.handler.open(&self.sender.caller, stream_id).await?;
        let said = json!({ "state": "accepted", "stream_id": stream_id, "location": accepted.location() });
        let draft = EnvelopeDraft::new(
            Intent::Progress,
            vec![stream.origin.from.clone()],
            EnvelopeBody::json(&said),
            now_ms(),
        );
        let draft = draft
            .with_reply_to(accepted.id)
            .with_stream_id(stream_id.as_str());
        let envelope = Value::Object(self.handler.signed(&draft)).to_string();
        self.send(SessionOut::Envelope(envelope.into_bytes())).await;
        // An answer to a question goes on with the stream that is followed already.
        if !self.is_followed(stream_id) {
            self.follow(&stream, ReadFrom::at(0))?;
        }
        Ok(())
    }

    /// An acknowledgement, `{"ack": N}`. Of a stream that is not followed here it begins to follow it behind
    /// that frame; `{"from": N}` begins at a frame.
    async fn take_delta(&self, json: &[u8]) -> Result<(), UampError> {
        let delta = Delta::read(json, self.handler.max_envelope())?;
        let from = (delta.kind == DeltaType::Progress)
            .then(|| delta.payload.get("from")?.as_u64())
            .flatten();
        if let Some(from) = from {
            let stream = self.handler.open(&self.sender.caller, &delta.stream_id).await?;
            return self.follow(&stream, ReadFrom::at(from));
        }
        // Also of a stream whose last frame is on its way: what was sent is not sent again.
        let is_known = self.followed().contains_key(&delta.stream_id);
        let stream = self.handler.open(&self.sender.caller, &delta.stream_id).await?;
        // One that ended without its last frame goes on when the frame before it is acknowledged.
        if is_known && (self.is_followed(&delta.stream_id) || stream.is_over()) {
            return self.handler.acknowledge(&self.sender.caller, &delta).await;
        }
        match delta.acknowledged() {
            Some(through) => {
                let text = "has to be a delta_seq";
                let from = ReadFrom::behind("ack", through);
                self.follow(
                    &stream,
                    from.ok_or_else(|| UampError::field("payload.ack", text))?,
                )
            }
            None => self.handler.acknowledge(&self.sender.caller, &delta).await,
        }
    }

    /// Returns when all that is followed has ended.
    pub(super) async fn finished(&self) {
        let followed: Vec<_> = self.followed().drain().map(|(_, follower)| follower).collect();
        for follower in followed {
            let _ = follower.await;
        }
    }

    fn is_followed(&self, stream_id: &str) -> bool {
        self.followed()
            .get(stream_id)
            .is_some_and(|follower| !follower.is_finished())
    }

    fn follow(&self, stream: &Arc<UampStream>, from: ReadFrom) -> Result<(), UampError> {
        let mut followed = self.followed();
        followed.remove(&stream.id);
        if followed.len() >= MOST_FOLLOWED {
            followed.retain(|_, follower| !follower.is_finished());
        }
        if followed.len() >= MOST_FOLLOWED {
            let text = format!("this connection follows {MOST_FOLLOWED} streams, the most at a time");
            return Err(UampError::coded(UampCode::BackendBusy, text));
        }
        begin_reading(stream, from)?;
        let (handler, out, reader) = (Arc::clone(&self.handler), self.out.clone(), stream.reader());
        let follower = tokio::spawn(async move {
            let mut seq = from.seq;
            let told = async {
                while let Ok(Some(delta)) = reader.0.next(seq).await {
                    handler.counters.delta();
                    let json = delta.to_json().into_bytes();
                    if out.send(SessionOut::Delta(json)).await.is_err() {
                        return;
                    }
                    seq += 1;
                }
                if let Some(envelope) = closing(&handler, &reader.0) {
                    let _ = out.send(SessionOut::Envelope(envelope)).await;
                }
            };
            tokio::select! {
                () = told => {}
                () = handler.stop.cancelled() => {}
            }
        });
        followed.insert(stream.id.clone(), AbortOnDropHandle::new(follower));
        Ok(())
    }
}

/// The envelope that closes a conversation: `confirm` when it was completed, `deny` when it was rejected.
fn closing(handler: &UampHandler, stream: &UampStream) -> Option<Vec<u8>> {
    let (is_done, content): (bool, Map<String, Value>) = stream.end()?;
    let intent = if is_done { Intent::Confirm } else { Intent::Deny };
    let body = EnvelopeBody::json(&Value::Object(content));
    let draft = EnvelopeDraft::new(intent, vec![stream.origin.from.clone()], body, now_ms());
    let draft = draft
        .with_reply_to(stream.origin.id)
        .with_stream_id(stream.id.as_str());
    Some(Value::Object(handler.signed(&draft)).to_string().into_bytes())
}
