//! What is known of the connection that a request came by. `connection` puts it beside each request.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Weak,
};

use agentanycast_limits::{Network, Slot};

use crate::auth::ClientCertificate;

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    /// The network that it comes from.
    pub network: Network,
    /// The certificate that its TLS has shown.
    pub certificate: Option<ClientCertificate>,
    /// This end of it.
    pub local_addr: Option<SocketAddr>,
    /// Its place among connections, which a socket that it becomes keeps.
    pub slot: Weak<Slot>,
}

impl ClientConnection {
    /// Whether both its ends are loopback addresses.
    pub(crate) fn is_loopback(&self) -> bool {
        let is_here = self
            .local_addr
            .is_some_and(|here| here.ip().to_canonical().is_loopback());
        is_here && IpAddr::from(self.network).is_loopback()
    }
}
