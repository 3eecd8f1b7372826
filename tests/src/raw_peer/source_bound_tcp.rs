//! TCP from an address of one's own choice, for whoever attacks from elsewhere on the loopback. It only dials.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use libp2p::{
    Multiaddr, Transport,
    core::transport::{DialOpts, ListenerId, TransportError, TransportEvent},
    multiaddr::Protocol,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

/// Dials from this address.
pub(super) struct SourceBoundTcp(pub(super) Ipv4Addr);

impl Transport for SourceBoundTcp {
    type Output = Compat<TcpStream>;
    type Error = io::Error;
    type ListenerUpgrade = futures::future::Pending<io::Result<Self::Output>>;
    type Dial = BoxFuture<'static, io::Result<Self::Output>>;

    fn listen_on(&mut self, _: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        Err(TransportError::MultiaddrNotSupported(address))
    }

    fn remove_listener(&mut self, _: ListenerId) -> bool {
        false
    }

    fn dial(&mut self, address: Multiaddr, _: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        let mut parts = address.iter();
        let (Some(Protocol::Ip4(ip)), Some(Protocol::Tcp(port))) = (parts.next(), parts.next()) else {
            return Err(TransportError::MultiaddrNotSupported(address));
        };
        let source = SocketAddr::new(self.0.into(), 0);
        let dialing = async move {
            let socket = TcpSocket::new_v4()?;
            socket.bind(source)?;
            let stream = socket.connect(SocketAddr::new(ip.into(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream.compat())
        };
        Ok(dialing.boxed())
    }

    fn poll(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        Poll::Pending
    }
}
