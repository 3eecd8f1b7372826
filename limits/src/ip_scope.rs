//! What an address is to somebody on the Internet: a host anybody can reach, one behind this one, or none. PURE.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is to somebody on the Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpScope {
    /// A host anybody can reach.
    Public,
    /// A host of a network behind this one, or this host.
    Inside(&'static str),
    /// No host at all.
    Never(&'static str),
}

const PRIVATE: IpScope = IpScope::Inside("an address of a private network");
const RESERVED: IpScope = IpScope::Inside("a reserved address");
const LOOPBACK: IpScope = IpScope::Inside("an address of this host");
const LINK_LOCAL: IpScope = IpScope::Inside("a link-local address");
const UNSPECIFIED: IpScope = IpScope::Never("the unspecified address");
const MULTICAST: IpScope = IpScope::Never("a multicast address");

/// Blocks of IPv4 that are not public (RFC 6890 and its registry), with their bits.
const V4: [([u8; 4], u32, IpScope); 17] = [
    ([0, 0, 0, 0], 8, UNSPECIFIED),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([100, 64, 0, 0], 10, PRIVATE),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([169, 254, 0, 0], 16, LINK_LOCAL),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 0, 0, 0], 24, RESERVED),
    ([192, 0, 2, 0], 24, RESERVED),
    ([192, 31, 196, 0], 24, RESERVED),
    ([192, 52, 193, 0], 24, RESERVED),
    ([192, 88, 99, 0], 24, RESERVED),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([198, 18, 0, 0], 15, PRIVATE),
    ([198, 51, 100, 0], 24, RESERVED),
    ([203, 0, 113, 0], 24, RESERVED),
    ([224, 0, 0, 0], 4, MULTICAST),
    ([240, 0, 0, 0], 4, RESERVED),
];

/// Blocks of IPv6 inside 2000::/3 that are not public, with their bits; nothing outside it is.
const V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments: Teredo, ORCHID, benchmarking.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// What this address is.
pub fn ip_scope(address: IpAddr) -> IpScope {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> IpScope {
    let bits = address.to_bits();
    let found = V4
        .iter()
        .find(|(block, length, _)| bits >> (32 - length) == u32::from_be_bytes(*block) >> (32 - length));
    found.map_or(IpScope::Public, |(_, _, kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> IpScope {
    if address.is_unspecified() {
        return UNSPECIFIED;
    }
    if address.is_multicast() {
        return MULTICAST;
    }
    if address.is_loopback() {
        return LOOPBACK;
    }
    // What leads to an IPv4 host is what that host is.
    if let Some(inner) = embedded(address) {
        return kind_v4(inner);
    }
    let segments = address.segments();
    if segments[0] & 0xffc0 == 0xfe80 {
        return LINK_LOCAL;
    }
    if segments[0] & 0xfe00 == 0xfc00 || segments[0] & 0xffc0 == 0xfec0 {
        return PRIVATE;
    }
    let bits = address.to_bits();
    let is_in =
        |(block, length): &(Ipv6Addr, u32)| bits >> (128 - length) == block.to_bits() >> (128 - length);
    if segments[0] & 0xe000 != 0x2000 || V6.iter().any(is_in) {
        return RESERVED;
    }
    IpScope::Public
}

/// The IPv4 address in one of IPv6 that stands for it: mapped (`::ffff:0:0/96`), translated
/// (`::ffff:0:0:0/96`), NAT64 (`64:ff9b::/96`), and 6to4 (`2002::/16`). What was once compatible (`::/96`), and what a
/// network chooses for itself (`64:ff9b:1::/48`), is reserved.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let last = Ipv4Addr::from_bits((u32::from(segments[6]) << 16) | u32::from(segments[7]));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            Some(last)
        }
        [0x2002, high, low, ..] => Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(address: &str) -> bool {
        ip_scope(address.parse().unwrap()) != IpScope::Public
    }

    #[test]
    fn the_network_behind_is_refused_in_every_spelling() {
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:192.168.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.1.2.3",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:c0a8:101::",
            "3fff::1",
            "100::1",
            "4000::1",
            "5f00::1",
        ];
        for address in inside {
            assert!(refused(address), "{address}");
        }
    }

    #[test]
    fn the_internet_is_not() {
        let outside = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.254",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ];
        for address in outside {
            assert!(!refused(address), "{address}");
        }
    }

    proptest! {
        /// Every way of writing an IPv4 address as one of IPv6 is judged as that address is.
        #[test]
        fn a_spelling_changes_nothing(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let [a, b] = [(bits >> 16) as u16, bits as u16];
            for v6 in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, a, b),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1),
            ] {
                prop_assert_eq!(ip_scope(v6.into()), ip_scope(v4.into()), "{}", v6);
            }
        }

        /// What the standard library calls private, loopback and so on is refused.
        #[test]
        fn nothing_that_is_known_to_be_inside_passes(bits: u32, bits6: u128) {
            let v4 = Ipv4Addr::from_bits(bits);
            let inside = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
                || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
            prop_assert!(!inside || ip_scope(v4.into()) != IpScope::Public);
            let v6 = Ipv6Addr::from_bits(bits6);
            let inside = v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_multicast();
            prop_assert!(!inside || ip_scope(v6.into()) != IpScope::Public);
        }
    }
}
