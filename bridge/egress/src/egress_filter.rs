//! Which addresses are connected to when somebody outside names the host: agents that are called, webhooks. A
//! name can lead anywhere, also into the network behind the bridge, and can lead elsewhere a moment later.
//!
//! The one rule: what is connected to is what was looked at. So a name is resolved once, the addresses are screened,
//! and the connection goes to one of those; nothing else resolves the name again.

mod connector;
mod dns;
#[cfg(any(test, feature = "test-names"))]
pub use dns::led;

use std::net::IpAddr;

use agentanycast_limits::ip_scope::{IpScope, ip_scope};

pub use connector::{ConnectError, FilteredConnector};

/// Whom connections may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressFilter {
    /// Hosts of the public Internet.
    Public,
    /// Hosts of private networks and this one too.
    Private,
}

impl EgressFilter {
    /// Why no connection goes to this address; `None`: it may.
    pub fn refusal(self, address: IpAddr) -> Option<&'static str> {
        match ip_scope(address) {
            IpScope::Public => None,
            IpScope::Never(what) => Some(what),
            IpScope::Inside(what) => (self == Self::Public).then_some(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_host_is_refused_whatever_is_allowed() {
        for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0"] {
            assert!(
                EgressFilter::Private.refusal(address.parse().unwrap()).is_some(),
                "{address}"
            );
        }
        for address in ["127.0.0.1", "::1", "10.0.0.1", "fe80::1", "::ffff:127.0.0.1"] {
            assert_eq!(
                EgressFilter::Private.refusal(address.parse().unwrap()),
                None,
                "{address}"
            );
        }
    }
}
