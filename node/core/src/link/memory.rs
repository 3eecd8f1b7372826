//! Nodes that reach each other in memory: a [`Link`] for tests of what stands above it.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_identity::PeerId;
use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt as _};
use tokio::sync::mpsc;

use super::{
    FairQueue, FrameBatch, FramePermit, HEADER_BYTES, InboundFrame, Link, LinkEvent, LinkWriter,
    OpenStreamError,
};

/// Frames that wait for their receiver; a writer waits for room.
const MAX_QUEUED_EVENTS: usize = 64;

/// The nodes that are there.
#[derive(Clone, Default)]
pub(crate) struct MemoryNetwork(Arc<Mutex<HashMap<PeerId, mpsc::Sender<LinkEvent>>>>);

impl MemoryNetwork {
    /// A node comes: its link, and what happens on it.
    pub(crate) fn join(&self, me: PeerId) -> (Arc<MemoryLink>, mpsc::Receiver<LinkEvent>) {
        let (events, inbox) = mpsc::channel(MAX_QUEUED_EVENTS);
        self.nodes().insert(me, events);
        let link = MemoryLink {
            network: self.clone(),
            me,
            fair_queue: FairQueue::default(),
        };
        (Arc::new(link), inbox)
    }

    /// Connects two nodes.
    pub(crate) async fn connect(&self, a: PeerId, b: PeerId) {
        for (to, peer) in [(a, b), (b, a)] {
            let events = self.events_of(to).expect("a node that has joined");
            let told = events.send(LinkEvent::Connected { peer }).await;
            told.expect("the node runs");
        }
    }

    fn events_of(&self, node: PeerId) -> Option<mpsc::Sender<LinkEvent>> {
        self.nodes().get(&node).cloned()
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<PeerId, mpsc::Sender<LinkEvent>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The link of one node.
pub(crate) struct MemoryLink {
    network: MemoryNetwork,
    me: PeerId,
    fair_queue: FairQueue,
}

impl Link for MemoryLink {
    fn set_wanted(&self, _: PeerId, _: bool) {}

    fn reach(&self, _: PeerId) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }

    fn open_stream(&self, peer: PeerId) -> BoxFuture<'_, Result<Box<dyn LinkWriter>, OpenStreamError>> {
        let opened = match self.network.events_of(peer) {
            Some(events) => Ok(Box::new(MemoryWriter { me: self.me, events }) as Box<dyn LinkWriter>),
            None => Err("there is no such node".into()),
        };
        future::ready(opened).boxed()
    }

    fn fair_queue(&self) -> &FairQueue {
        &self.fair_queue
    }
}

struct MemoryWriter {
    me: PeerId,
    events: mpsc::Sender<LinkEvent>,
}

impl LinkWriter for MemoryWriter {
    fn relay(&self) -> Option<PeerId> {
        None
    }

    fn write<'a>(&'a mut self, frames: &'a [Bytes]) -> BoxFuture<'a, io::Result<()>> {
        async move {
            for bytes in frames {
                let frame = InboundFrame {
                    bytes: bytes.clone(),
                    permit: FramePermit::new(()),
                    relay: None,
                };
                let event = LinkEvent::Frame { peer: self.me, frame };
                let sent = self.events.send(event).await;
                sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
            Ok(())
        }
        .boxed()
    }

    fn write_batch<'a>(&'a mut self, batch: &'a FrameBatch) -> BoxFuture<'a, io::Result<()>> {
        async move {
            let mut wire = batch.wire();
            while let Some((header, rest)) = wire.split_first_chunk::<HEADER_BYTES>() {
                let (frame, rest) = rest.split_at(u32::from_be_bytes(*header) as usize);
                self.write(&[Bytes::copy_from_slice(frame)]).await?;
                wire = rest;
            }
            Ok(())
        }
        .boxed()
    }

    fn closed(&mut self) -> BoxFuture<'_, ()> {
        self.events.closed().boxed()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        future::ready(()).boxed()
    }
}
