//! One connection's part of the stream behaviour: negotiates what [`super::Control`] asks for, several
//! at once, and passes on what the remote opens. It keeps no stream itself; a stream that someone holds
//! keeps the connection alive. The one rule: every request gets an answer or its sender is dropped.

use std::{
    array,
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    InboundUpgrade, OutboundUpgrade, PeerId, Stream,
    core::UpgradeInfo,
    swarm::{
        ConnectionHandler, ConnectionHandlerEvent, ConnectionId, StreamUpgradeError, SubstreamProtocol,
        handler::{ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound},
    },
};
use tokio::sync::{mpsc, oneshot};

use super::{InboundStream, OPEN_TIMEOUT, OpenError, Protocol};
use crate::counters::Counters;

/// Outbound negotiations at once on one connection: enough that a burst does not go in single file, and
/// under what the remote accepts at once (rust-libp2p: 128 by default).
const MAX_NEGOTIATING: usize = 64;

/// A stream that someone wants.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(super) protocol: Protocol,
    pub(super) reply: oneshot::Sender<Result<Stream, OpenError>>,
}

/// The handler of one connection.
pub(crate) struct Handler {
    peer: PeerId,
    connection: ConnectionId,
    relay: Option<PeerId>,
    requests: mpsc::Receiver<OpenRequest>,
    negotiating: usize,
    inbound: mpsc::Sender<InboundStream>,
    counters: Arc<Counters>,
}

impl Handler {
    pub(super) fn new(
        peer: PeerId,
        connection: ConnectionId,
        relay: Option<PeerId>,
        requests: mpsc::Receiver<OpenRequest>,
        inbound: mpsc::Sender<InboundStream>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            peer,
            connection,
            relay,
            requests,
            negotiating: 0,
            inbound,
            counters,
        }
    }

    fn accept(&self, stream: Stream, protocol: Protocol) {
        let inbound = InboundStream {
            peer: self.peer,
            protocol,
            stream,
            connection: self.connection,
            relay: self.relay,
        };
        if let Err(refused) = self.inbound.try_send(inbound) {
            self.counters.refused_streams.increment();
            tracing::debug!(peer = %self.peer, %refused, "inbound stream reset: too many are waiting");
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = Accept;
    type OutboundProtocol = Offer;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = OpenRequest;

    fn listen_protocol(&self) -> SubstreamProtocol<Accept> {
        SubstreamProtocol::new(Accept, ()).with_timeout(OPEN_TIMEOUT)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Offer, OpenRequest, Infallible>> {
        while self.negotiating < MAX_NEGOTIATING
            && let Poll::Ready(Some(request)) = self.requests.poll_recv(cx)
        {
            if request.reply.is_closed() {
                continue;
            }
            self.negotiating += 1;
            let protocol =
                SubstreamProtocol::new(Offer(request.protocol), request).with_timeout(OPEN_TIMEOUT);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
        }
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, event: Infallible) {
        match event {}
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Accept, Offer, (), OpenRequest>) {
        // An answer that nobody waits for any more is dropped, and with it the stream.
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, info: () }) => {
                self.accept(protocol.0, protocol.1);
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                self.negotiating -= 1;
                let _ = info.reply.send(Ok(protocol));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { error, info }) => {
                self.negotiating -= 1;
                let error = match error {
                    StreamUpgradeError::Timeout => OpenError::Timeout,
                    StreamUpgradeError::NegotiationFailed => {
                        OpenError::Unsupported(info.protocol.as_ref().to_owned())
                    }
                    StreamUpgradeError::Io(error) => OpenError::Io(error),
                    StreamUpgradeError::Apply(never) => match never {},
                };
                let _ = info.reply.send(Err(error));
            }
            _ => {}
        }
    }
}

/// Accepts streams of either protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accept;

impl UpgradeInfo for Accept {
    type Info = Protocol;
    type InfoIter = array::IntoIter<Protocol, 2>;

    fn protocol_info(&self) -> Self::InfoIter {
        Protocol::ACCEPTED.into_iter()
    }
}

impl InboundUpgrade<Stream> for Accept {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, protocol: Protocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}

/// Offers one protocol on a stream that we open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer(Protocol);

impl UpgradeInfo for Offer {
    type Info = Protocol;
    type InfoIter = array::IntoIter<Protocol, 1>;

    fn protocol_info(&self) -> Self::InfoIter {
        [self.0].into_iter()
    }
}

impl OutboundUpgrade<Stream> for Offer {
    type Output = Stream;
    type Error = Infallible;
    type Future = Ready<Result<Stream, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, _: Protocol) -> Self::Future {
        ready(Ok(stream))
    }
}
