//! How much of a peer's data may be in memory at once: frames and bytes per peer, bytes in total; and how many
//! streams it may have open, each of which may hold a window of data that is not read yet.
//!
//! A frame is paid for before it is read and the payment is given back when the consumer drops its
//! [`FramePayment`]; a stream whose peer has nothing left is simply not read (back-pressure to the sender).
//! The peer's share is taken whole when the header is known, so that half-read frames of one peer
//! cannot block each other; the common share is taken as bytes arrive, so that claims cost nobody else.
//! Short frames have places of their own: they never stand in line behind those of streams that move data.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use agentanycast_core::link::MAX_FRAME_BYTES;
use libp2p::PeerId;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::NetLimits;

/// Streams that every peer may have open whatever the others do: ours need a few, deployed ones one for each
/// envelope that is on its way.
const RESERVED_STREAMS: usize = 16;

/// Card exchanges of one peer at once: two for each connection, and some that change their card meanwhile.
const MAX_CARD_EXCHANGES: usize = 8;

/// Budgets of all peers.
pub(super) struct Budgets {
    limits: NetLimits,
    total_bytes: Arc<Semaphore>,
    /// Streams beyond what every peer has for itself.
    shared_streams: Arc<Semaphore>,
    peers: HashMap<PeerId, Weak<PeerBudget>>,
}

/// Frames of fewer bytes are short; those of a stream that moves data are not.
pub(super) const SHORT_FRAME: usize = 32 << 10;

/// The share of one peer.
pub(super) struct PeerBudget {
    short_frames: Arc<Semaphore>,
    long_frames: Arc<Semaphore>,
    /// For long frames: all short ones together are less than one of the longest.
    bytes: Arc<Semaphore>,
    total_bytes: Arc<Semaphore>,
    own_streams: Arc<Semaphore>,
    more_streams: Arc<Semaphore>,
    shared_streams: Arc<Semaphore>,
    cards: Arc<Semaphore>,
}

/// Room for one open stream. Dropping it gives the room back.
#[must_use = "dropping it tells the network floor that the stream has ended"]
pub(super) struct StreamPermit {
    _peer: OwnedSemaphorePermit,
    _shared: Option<OwnedSemaphorePermit>,
}

/// Payment for one frame. Dropping it lets the peer's next frame in.
#[must_use = "dropping it tells the network floor that the frame is no longer in memory"]
pub(super) struct FramePayment {
    _frame: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
    total: OwnedSemaphorePermit,
    /// Keeps the peer's figures alive over a reconnect, so that one cannot double a share.
    peer: Arc<PeerBudget>,
}

impl std::fmt::Debug for FramePayment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FramePayment")
            .field("bytes", &self.total.num_permits())
            .finish_non_exhaustive()
    }
}

impl Budgets {
    pub(super) fn new(limits: &NetLimits) -> Self {
        Self {
            limits: limits.clone(),
            total_bytes: Arc::new(Semaphore::new(limits.bytes_total.max(MAX_FRAME_BYTES))),
            shared_streams: Arc::new(Semaphore::new(limits.inbound_streams_shared)),
            peers: HashMap::new(),
        }
    }

    /// The share of `peer`, the same one as long as anything of it is in use.
    pub(super) fn of_peer(&mut self, peer: PeerId) -> Arc<PeerBudget> {
        if let Some(budget) = self.peers.get(&peer).and_then(Weak::upgrade) {
            return budget;
        }
        let frames = self.limits.frames_per_peer.max(1);
        let budget = Arc::new(PeerBudget {
            short_frames: Arc::new(Semaphore::new(frames)),
            long_frames: Arc::new(Semaphore::new(frames)),
            // Less than one longest frame would be waited for for ever.
            bytes: Arc::new(Semaphore::new(self.limits.bytes_per_peer.max(MAX_FRAME_BYTES))),
            total_bytes: Arc::clone(&self.total_bytes),
            own_streams: Arc::new(Semaphore::new(
                RESERVED_STREAMS.min(self.limits.inbound_streams_per_peer),
            )),
            more_streams: Arc::new(Semaphore::new(
                self.limits
                    .inbound_streams_per_peer
                    .saturating_sub(RESERVED_STREAMS),
            )),
            shared_streams: Arc::clone(&self.shared_streams),
            cards: Arc::new(Semaphore::new(MAX_CARD_EXCHANGES)),
        });
        self.peers.insert(peer, Arc::downgrade(&budget));
        budget
    }

    /// Forgets peers of whom nothing is in use.
    pub(super) fn sweep(&mut self) {
        self.peers.retain(|_, budget| budget.strong_count() > 0);
    }
}

impl PeerBudget {
    /// Room for one more open inbound stream, `None` when the peer has its share open already, or all peers
    /// together have theirs.
    pub(super) fn stream(&self) -> Option<StreamPermit> {
        if let Ok(own) = Arc::clone(&self.own_streams).try_acquire_owned() {
            return Some(StreamPermit {
                _peer: own,
                _shared: None,
            });
        }
        Some(StreamPermit {
            _peer: Arc::clone(&self.more_streams).try_acquire_owned().ok()?,
            _shared: Some(Arc::clone(&self.shared_streams).try_acquire_owned().ok()?),
        })
    }

    /// Room for one more card exchange that the peer opens, `None` when it has its share open already.
    pub(super) fn card(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.cards).try_acquire_owned().ok()
    }

    /// Waits until all peers together have room for a card of `claimed` bytes.
    pub(super) async fn card_bytes(&self, claimed: usize) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.total_bytes)
            .acquire_many_owned(claimed as u32)
            .await
    }

    /// Waits until the peer may have one more frame of `claimed` bytes in memory. Nothing of the common
    /// share is taken yet: see [`FramePayment::reserve`].
    pub(super) async fn frame(self: &Arc<Self>, claimed: usize) -> Result<FramePayment, AcquireError> {
        let (frame, bytes) = if claimed < SHORT_FRAME {
            (Arc::clone(&self.short_frames).acquire_owned().await?, None)
        } else {
            let frame = Arc::clone(&self.long_frames).acquire_owned().await?;
            let bytes = Arc::clone(&self.bytes).acquire_many_owned(claimed as u32);
            (frame, Some(bytes.await?))
        };
        Ok(FramePayment {
            _frame: frame,
            _bytes: bytes,
            total: Arc::clone(&self.total_bytes).acquire_many_owned(0).await?,
            peer: Arc::clone(self),
        })
    }
}

impl FramePayment {
    /// Waits until `bytes` of the frame are paid for from the common share.
    pub(super) async fn reserve(&mut self, bytes: usize) -> Result<(), AcquireError> {
        let missing = bytes.saturating_sub(self.total.num_permits());
        if missing > 0 {
            let more = Arc::clone(&self.peer.total_bytes)
                .acquire_many_owned(missing as u32)
                .await?;
            self.total.merge(more);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_share_is_given_back_and_outlives_a_reconnect() {
        let limits = NetLimits {
            frames_per_peer: 2,
            ..NetLimits::default()
        };
        let mut budgets = Budgets::new(&limits);
        let peer = PeerId::random();
        let budget = budgets.of_peer(peer);
        let first = budget.frame(10).await.unwrap();
        let second = budget.frame(10).await.unwrap();
        assert!(budget.frame(0).now_or_never().is_none());
        drop(budget);
        budgets.sweep();
        assert!(
            budgets.of_peer(peer).frame(0).now_or_never().is_none(),
            "held frames still count"
        );
        drop(first);
        drop(second);
        budgets.sweep();
        assert!(budgets.peers.is_empty());
        assert!(budgets.of_peer(peer).frame(0).now_or_never().is_some());
    }

    #[test]
    fn streams_beyond_a_few_are_shared() {
        let limits = NetLimits {
            inbound_streams_per_peer: RESERVED_STREAMS + 10,
            inbound_streams_shared: 15,
            ..NetLimits::default()
        };
        let mut budgets = Budgets::new(&limits);
        let (a, b) = (
            budgets.of_peer(PeerId::random()),
            budgets.of_peer(PeerId::random()),
        );
        let open = |budget: &PeerBudget| std::iter::from_fn(|| budget.stream()).collect::<Vec<_>>();
        let first = open(&a);
        assert_eq!(first.len(), RESERVED_STREAMS + 10, "a peer's share");
        let second = open(&b);
        assert_eq!(
            second.len(),
            RESERVED_STREAMS + 5,
            "what is left of the shared ones"
        );
        drop(first);
        assert_eq!(open(&b).len(), 5, "up to the peer's share");
        assert_eq!(open(&a).len(), RESERVED_STREAMS + 10);
    }

    #[tokio::test]
    async fn bytes_bound_a_peer_and_all_peers() {
        let limits = NetLimits {
            bytes_total: MAX_FRAME_BYTES,
            ..NetLimits::default()
        };
        let mut budgets = Budgets::new(&limits);
        let (a, b) = (
            budgets.of_peer(PeerId::random()),
            budgets.of_peer(PeerId::random()),
        );
        let mut one = a.frame(MAX_FRAME_BYTES).await.unwrap();
        let _two = a.frame(MAX_FRAME_BYTES).await.unwrap();
        assert!(
            a.frame(SHORT_FRAME).now_or_never().is_none(),
            "32 MiB of one peer"
        );
        assert!(
            a.frame(SHORT_FRAME - 1).now_or_never().is_some(),
            "short ones do not wait"
        );
        let mut other = b.frame(MAX_FRAME_BYTES).await.unwrap();
        other.reserve(5).await.unwrap();
        assert!(
            one.reserve(MAX_FRAME_BYTES).now_or_never().is_none(),
            "the common share is used up"
        );
        drop(other);
        one.reserve(MAX_FRAME_BYTES).await.unwrap();
        one.reserve(5).await.unwrap();
    }
}
