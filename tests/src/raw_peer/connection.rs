//! One connection of a stranger: a task drives the muxer, opens streams on demand, and takes those that the
//! other side opens. Dropping the link drops the connection.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use agentanycast_proto::v1::{A2aEnvelope, AckPayload, AgentCard, a2a_envelope::Payload};
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::core::{
    muxing::{StreamMuxerBox, StreamMuxerExt as _, SubstreamBox},
    upgrade::Version,
};
use multistream_select::{Negotiated, dialer_select_proto, listener_select_proto};
use prost::Message as _;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{A2A, CARD, ReadMode, encoded, frame};
use crate::within;

/// A stream on which a protocol was agreed, or proposed at least.
pub type RawStream = Negotiated<SubstreamBox>;

/// Longest frame that the other side may send; a longer one ends the reading.
const MAX_FRAME: usize = 16 << 20;

/// Envelopes that are kept; further ones are read and forgotten.
const MAX_RECEIVED: usize = 100_000;

/// A connection.
#[derive(Debug)]
pub struct RawConnection {
    opener: mpsc::Sender<oneshot::Sender<io::Result<SubstreamBox>>>,
    received: Arc<ReceivedEnvelopes>,
    over: CancellationToken,
    driver: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct ReceivedEnvelopes {
    envelopes: Mutex<Vec<A2aEnvelope>>,
    news: Notify,
}

impl RawConnection {
    pub(super) fn start(muxer: StreamMuxerBox, manners: ReadMode) -> Self {
        let (opener, wishes) = mpsc::channel(16);
        let (received, over) = (Arc::<ReceivedEnvelopes>::default(), CancellationToken::new());
        let ears = Arc::clone(&received);
        let ended = over.clone();
        let driver = tokio::spawn(async move {
            let mut driver = MuxerDriver {
                muxer,
                wishes,
                waiting: VecDeque::new(),
                heard: ears,
                manners,
            };
            poll_fn(|cx| driver.poll(cx)).await;
            ended.cancel();
        });
        Self {
            opener,
            received,
            over,
            driver,
        }
    }

    /// Opens a stream and proposes this protocol; what is written goes along with the proposal.
    pub async fn open(&self, protocol: &'static str) -> io::Result<RawStream> {
        let bare = self.open_unnegotiated().await?;
        let proposed = dialer_select_proto(bare, [protocol], Version::V1Lazy).await;
        Ok(proposed.map_err(io::Error::other)?.1)
    }

    /// Opens a stream and proposes nothing.
    pub async fn open_unnegotiated(&self) -> io::Result<SubstreamBox> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::ConnectionAborted);
        self.opener.send(reply).await.map_err(|_| gone())?;
        tokio::select! {
            opened = answer => opened.map_err(|_| gone())?,
            // A wish that was sent while the driver ended may stay in the queue.
            () = self.closed() => Err(gone()),
        }
    }

    /// Writes bytes on a stream of their own, ends it, and waits for the other side's end. An error: the other
    /// side reset it, or the connection.
    pub async fn send_bytes(&self, protocol: &'static str, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.open(protocol).await?;
        stream.write_all(bytes).await?;
        stream.close().await?;
        // Over QUIC, letting go earlier tells the other side to stop sending, and it may not have agreed on the
        // protocol yet.
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    }

    /// Sends envelopes, all on one stream of their own.
    ///
    /// # Panics
    /// When the stream is not taken.
    pub async fn send(&self, envelopes: &[A2aEnvelope]) {
        let said = within("envelopes are taken", self.send_bytes(A2A, &encoded(envelopes))).await;
        said.expect("envelopes are taken");
    }

    /// Shows these bytes as a card; what the other side shows, `None` when it shows nothing.
    pub async fn send_card(&self, card: &[u8]) -> io::Result<Option<AgentCard>> {
        let mut stream = self.open(CARD).await?;
        stream.write_all(&frame(card)).await?;
        stream.flush().await?;
        match read_frame(&mut stream).await? {
            Some(shown) => Ok(Some(AgentCard::decode(&*shown)?)),
            None => Ok(None),
        }
    }

    /// Every envelope that has come.
    pub fn heard(&self) -> Vec<A2aEnvelope> {
        self.received.lock().clone()
    }

    /// The first envelope, of those that came and those to come, that `wanted` gives a value for.
    ///
    /// # Panics
    /// When none comes.
    pub async fn wait_for<T>(&self, what: &str, wanted: impl Fn(&A2aEnvelope) -> Option<T>) -> T {
        let found = async {
            let mut looked_at = 0;
            loop {
                let news = self.received.news.notified();
                {
                    let envelopes = self.received.lock();
                    if let Some(found) = envelopes[looked_at..].iter().find_map(&wanted) {
                        return found;
                    }
                    looked_at = envelopes.len();
                }
                news.await;
            }
        };
        within(what, found).await
    }

    /// The acknowledgement of this envelope.
    pub async fn ack_of(&self, envelope: &A2aEnvelope) -> AckPayload {
        let id = &envelope.envelope_id;
        self.wait_for("an envelope is acknowledged", |heard| match &heard.payload {
            Some(Payload::Ack(ack)) if ack.acknowledged_envelope_id == *id => Some(ack.clone()),
            _ => None,
        })
        .await
    }

    /// Whether this envelope has been acknowledged so far.
    pub fn is_acked(&self, envelope: &A2aEnvelope) -> bool {
        let id = &envelope.envelope_id;
        let is_of = |heard: &A2aEnvelope| matches!(&heard.payload, Some(Payload::Ack(ack)) if ack.acknowledged_envelope_id == *id);
        self.received.lock().iter().any(is_of)
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) {
        self.over.cancelled().await;
    }

    /// Whether the connection still stands, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.over.is_cancelled()
    }
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl ReceivedEnvelopes {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<A2aEnvelope>> {
        self.envelopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, envelope: A2aEnvelope) {
        let mut envelopes = self.lock();
        if envelopes.len() < MAX_RECEIVED {
            envelopes.push(envelope);
        }
        drop(envelopes);
        self.news.notify_waiters();
    }
}

struct MuxerDriver {
    muxer: StreamMuxerBox,
    wishes: mpsc::Receiver<oneshot::Sender<io::Result<SubstreamBox>>>,
    waiting: VecDeque<oneshot::Sender<io::Result<SubstreamBox>>>,
    heard: Arc<ReceivedEnvelopes>,
    manners: ReadMode,
}

impl MuxerDriver {
    /// Ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut moved = false;
            while let Poll::Ready(Some(wish)) = self.wishes.poll_recv(cx) {
                self.waiting.push_back(wish);
            }
            if !self.waiting.is_empty()
                && let Poll::Ready(opened) = self.muxer.poll_outbound_unpin(cx)
            {
                if let Some(wish) = self.waiting.pop_front() {
                    // Whoever asked may have gone.
                    let _ = wish.send(opened);
                }
                moved = true;
            }
            match self.muxer.poll_inbound_unpin(cx) {
                Poll::Ready(Ok(stream)) => {
                    tokio::spawn(listen(stream, Arc::clone(&self.heard), self.manners));
                    moved = true;
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            match self.muxer.poll_unpin(cx) {
                Poll::Ready(Ok(_)) => moved = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }
}

/// Serves a stream that the other side opened. Whatever goes wrong on it is the end of it.
async fn listen(stream: SubstreamBox, heard: Arc<ReceivedEnvelopes>, manners: ReadMode) {
    let Ok((protocol, mut stream)) = listener_select_proto(stream, [A2A, CARD]).await else {
        return;
    };
    if manners == ReadMode::NeverReads {
        // Kept open with a closed window until the connection ends.
        std::future::pending::<()>().await;
    }
    if protocol == CARD {
        let _ = read_frame(&mut stream).await;
        let _ = stream.close().await;
        return;
    }
    while let Ok(Some(frame)) = read_frame(&mut stream).await {
        match A2aEnvelope::decode(&*frame) {
            Ok(envelope) => heard.add(envelope),
            Err(_) => return,
        }
    }
    let _ = stream.close().await;
}

/// One frame; `None` when the stream ends instead.
async fn read_frame(stream: &mut RawStream) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; 4];
    match stream.read_exact(&mut header).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(header) as usize;
    if length > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok(Some(payload))
}
