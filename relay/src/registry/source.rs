//! Where a request came from, as far as quotas care: one address of IPv4, one network of 64 bits of IPv6,
//! since a subscriber has all the addresses in it.
//!
//! PURE.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

/// One source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(u128);

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) if ip == Ipv6Addr::LOCALHOST => Self(ip.to_bits()),
            IpAddr::V6(ip) => Self(ip.to_bits() >> 64 << 64),
        }
    }
}

/// How many entries each source has. A source without any takes no memory.
#[derive(Debug, Default)]
pub(super) struct Counts(HashMap<(Source, Kind), u32>);

/// What is counted apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Registered with proof.
    Verified,
    /// Registered without.
    Unverified,
    /// Pushed by a relay that we do not know.
    Pushed,
}

impl Counts {
    pub(super) fn of(&self, source: Source, kind: Kind) -> usize {
        self.0.get(&(source, kind)).map_or(0, |count| *count as usize)
    }

    pub(super) fn add(&mut self, source: Source, kind: Kind) {
        *self.0.entry((source, kind)).or_default() += 1;
    }

    pub(super) fn remove(&mut self, source: Source, kind: Kind) {
        if let Some(count) = self.0.get_mut(&(source, kind)) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&(source, kind));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_subscriber_is_one_source() {
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("::1"), source("::2"));
    }
}
