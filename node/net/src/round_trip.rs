//! How long a peer takes to answer: libp2p's ping, when somebody asks and not at its own times.
//!
//! Each measurement is one exchange on a stream of its own: the choice of the protocol goes with the ping, and costs no
//! round trip. A second exchange on the stream would not do: libp2p's own behaviour (0.48) looks for a second ping of a
//! stream only when something else wakes it, over QUIC after seconds. It serves one stream of ours at a time, and drops the
//! one before: where that happens to this one it is tried once more.

use std::{
    io,
    time::{Duration, Instant},
};

use agentanycast_identity::PeerId;
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::Stream;
use tokio::time::timeout;

use super::streams::{OpenError, Protocol, StreamControl};

/// Bytes of a ping and of its answer.
const SIZE: usize = 32;
/// Longest wait for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// From the last byte of the ping to the last of its answer.
    pub took: Duration,
    /// The relay that both went through; `None`: they went directly.
    pub relay: Option<PeerId>,
}

/// Why a peer has not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// There was no stream to ask on.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nothing came back in time.
    #[error("no answer within {} s", ANSWER_TIMEOUT.as_secs())]
    Timeout,
    /// The stream broke.
    #[error("the stream broke: {0}")]
    Broken(#[from] io::Error),
}

/// Pings a connected peer.
pub(super) async fn measure(control: &StreamControl, peer: PeerId) -> Result<RoundTrip, NoAnswer> {
    match once(control, peer).await {
        Err(NoAnswer::Broken(_)) => once(control, peer).await,
        outcome => outcome,
    }
}

async fn once(control: &StreamControl, peer: PeerId) -> Result<RoundTrip, NoAnswer> {
    let mut opened = control.open(peer.into(), Protocol::Ping).await?;
    let took = timeout(ANSWER_TIMEOUT, exchange(&mut opened.stream))
        .await
        .map_err(|_| NoAnswer::Timeout)??;
    // The peer sees the end of the stream, and not a reset. Nothing depends on that.
    let _ = timeout(Duration::from_secs(1), opened.stream.close()).await;
    Ok(RoundTrip {
        took,
        relay: opened.relay.map(PeerId::from),
    })
}

async fn exchange(stream: &mut Stream) -> io::Result<Duration> {
    let sent: [u8; SIZE] = rand::random();
    let mut answer = [0; SIZE];
    let start = Instant::now();
    stream.write_all(&sent).await?;
    stream.flush().await?;
    stream.read_exact(&mut answer).await?;
    let took = start.elapsed();
    if answer == sent {
        Ok(took)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not what was sent",
        ))
    }
}
