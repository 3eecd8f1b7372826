//! An address of this host that other hosts use.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// Where nothing is (RFC 5737). Nothing is sent there.
const NOBODY: &str = "192.0.2.1:9";

/// One that is not of the loopback; `None`: the host is in no network.
pub fn host_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(NOBODY).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
