//! Where somebody comes from, as far as quotas care: one address of IPv4, one network of 64 bits of IPv6, since a
//! subscriber has all the addresses in it. PURE.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

/// One such network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(ip: IpAddr) -> Self {
        Self(match ip.to_canonical() {
            IpAddr::V6(ip) if ip != Ipv6Addr::LOCALHOST => {
                Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into()
            }
            ip => ip,
        })
    }
}

impl From<Network> for IpAddr {
    /// Its only address, or the first one.
    fn from(network: Network) -> Self {
        network.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one() {
        let network = |text: &str| Network::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_ne!(network("::1"), network("::2"));
    }
}
