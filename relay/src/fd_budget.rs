//! How many connections there may be of each kind, so that all together leave file descriptors for everything else.
//!
//! PURE. The one rule: what the ceilings add up to, and [`RESERVED`], is within the limit of open files.

use std::fmt;

/// Descriptors for what is no connection of anybody: the store, other relays, threads, logs.
const RESERVED: u64 = 256;

/// Fewest descriptors that are shared out: with less nothing could be served at all.
const FEWEST: u64 = 64;

/// Most connections of a listener of gRPC or HTTP.
const MOST: u64 = 16_384;

/// Most of them of one address, which has a quarter where there are few.
const MOST_OF_ONE_ADDRESS: u64 = 1024;

/// Most connections of peers, each way, that may be agreeing on who they are.
const MOST_PENDING: u64 = 1024;

/// The same of one address: whoever connects and says nothing has a place for the 10 s that it may take.
const MOST_PENDING_OF_ONE_ADDRESS: u64 = 128;

/// Places of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerLimits {
    pub(crate) all: usize,
    pub(crate) of_one_address: usize,
}

/// The ceilings of all listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FdBudget {
    /// Connections of peers that stand, and of one address.
    pub(crate) peers: ListenerLimits,
    /// Those that are agreeing on who they are: each way, and of one address inbound.
    pub(crate) pending: ListenerLimits,
    pub(crate) registry: ListenerLimits,
    pub(crate) api: ListenerLimits,
    pub(crate) metrics: ListenerLimits,
    pub(crate) mcp: ListenerLimits,
}

/// That a setting is not what it is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoweredLimit {
    descriptors: u64,
    configured: u64,
    effective: usize,
}

impl fmt::Display for LoweredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            descriptors,
            configured,
            effective,
        } = self;
        write!(
            f,
            "max_connections is {configured}, but {descriptors} open files are enough for {effective} only, which is the \
             ceiling now; raise the limit of open files"
        )
    }
}

impl FdBudget {
    /// With so many descriptors, and these settings for connections of peers and of one address. Peers have half of what is
    /// not kept, the registry a quarter, the directory an eighth, metrics and
    /// MCP a sixteenth each.
    pub(crate) fn new(
        descriptors: u64,
        connections: u64,
        of_one_address: u64,
    ) -> (Self, Option<LoweredLimit>) {
        let shared = descriptors.saturating_sub(RESERVED).max(FEWEST);
        let pending = (shared / 16).min(MOST_PENDING);
        let most = shared / 2 - 2 * pending;
        let peers = if connections <= most {
            listener_limits(connections, of_one_address)
        } else {
            listener_limits(most, of_one_address.min(most.div_ceil(4)))
        };
        let lowered = LoweredLimit {
            descriptors,
            configured: connections,
            effective: peers.all,
        };
        let listener =
            |share: u64| listener_limits(share.min(MOST), share.div_ceil(4).min(MOST_OF_ONE_ADDRESS));
        let ceilings = Self {
            peers,
            pending: listener_limits(pending, pending.div_ceil(4).min(MOST_PENDING_OF_ONE_ADDRESS)),
            registry: listener(shared / 4),
            api: listener(shared / 8),
            metrics: listener(shared / 16),
            mcp: listener(shared / 16),
        };
        (ceilings, (connections > most).then_some(lowered))
    }
}

fn listener_limits(all: u64, of_one_address: u64) -> ListenerLimits {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    ListenerLimits {
        all: count(all),
        of_one_address: count(of_one_address),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_defaults_fit_into_the_usual_limit() {
        let (ceilings, lowered) = FdBudget::new(65_536, 16_384, 1024);
        assert_eq!(lowered, None);
        assert_eq!(ceilings.peers, listener_limits(16_384, 1024));
        assert_eq!(ceilings.pending, listener_limits(1024, 128));
        assert_eq!(ceilings.registry, listener_limits(16_320, 1024));
    }

    #[test]
    fn a_setting_that_does_not_fit_is_lowered_and_that_is_said() {
        let (ceilings, lowered) = FdBudget::new(1024, 16_384, 1024);
        assert_eq!(ceilings.peers, listener_limits(288, 72));
        let said = lowered.unwrap().to_string();
        assert!(
            said.starts_with("max_connections is 16384, but 1024 open files are enough for 288"),
            "{said}"
        );
    }

    proptest! {
        #[test]
        fn all_together_are_within_the_limit(descriptors in 320..2_000_000_u64, connections in 1..100_000_u64, one in 1..5000_u64) {
            let (ceilings, lowered) = FdBudget::new(descriptors, connections, one);
            let FdBudget { peers, pending, registry, api, metrics, mcp } = ceilings;
            let sum = peers.all + 2 * pending.all + registry.all + api.all + metrics.all + mcp.all;
            prop_assert!(sum as u64 + RESERVED <= descriptors, "{ceilings:?}");
            prop_assert_eq!(lowered.is_none(), peers == listener_limits(connections, one));
            for places in [peers, pending, registry, api, metrics, mcp] {
                prop_assert!(places.all > 0 && places.of_one_address > 0);
            }
        }
    }
}
