//! Ports in multiaddrs.
//!
//! PURE.

use multiaddr::{Multiaddr, Protocol};

/// The TCP or UDP port.
pub fn port(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| match part {
        Protocol::Tcp(port) | Protocol::Udp(port) => Some(port),
        _ => None,
    })
}

/// The same address with another port.
#[must_use]
pub fn with_port(address: &Multiaddr, port: u16) -> Multiaddr {
    let set = |part| match part {
        Protocol::Tcp(_) => Protocol::Tcp(port),
        Protocol::Udp(_) => Protocol::Udp(port),
        other => other,
    };
    address.iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_read_and_set_where_there_is_one() {
        let address = |text: &str| text.parse::<Multiaddr>().unwrap();
        for (text, port_of, with_seven) in [
            (
                "/ip4/127.0.0.1/tcp/4001/ws",
                Some(4001),
                "/ip4/127.0.0.1/tcp/7/ws",
            ),
            ("/ip6/::/udp/1/quic-v1", Some(1), "/ip6/::/udp/7/quic-v1"),
            ("/dns4/relay.example", None, "/dns4/relay.example"),
        ] {
            assert_eq!(port(&address(text)), port_of);
            assert_eq!(with_port(&address(text), 7), address(with_seven));
        }
    }
}
