//! How large the registry and everything in it may become. Each bound is named in the refusal that it causes.
//!
//! PURE, only values; the defaults are the contract's, and where it is silent the reason stands with the figure.

use std::time::Duration;

use agentanycast_identity::proof::MAX_SKEW;
use agentanycast_proto::agent_name::MAX_AGENT_NAME;

/// Most skills, tags, addresses and key rotations that a registration is decoded with: what the limits let pass, and then
/// some.
pub const MAX_REGISTRATION_ELEMENTS: usize = 20_000;

/// The bounds of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// How long an entry lives without a heartbeat. Default: 30 s.
    pub ttl: Duration,
    /// Most entries that were registered here. Default: 65 536.
    pub local: usize,
    /// Most entries learned from other relays. Default: 65 536.
    pub federated: usize,
    /// Most skills of one peer, those of all its agents. Default: 4096.
    pub skills: usize,
    /// Most sets of the index that one peer stands in: one for each skill, one for each tag, one more for each skill with
    /// several tags. A registration and a heartbeat move the peer in all of them. Default: 16 384, so that 4096 skills
    /// have two tags each.
    pub places: usize,
    /// Most tags of one skill. Default: 32.
    pub tags: usize,
    /// Most bytes of a peer id, a skill id, an agent's name, an address, a tag or its value. Default: 256.
    pub id_bytes: usize,
    /// Most bytes of the name that an agent has on its node. 64, as nodes take.
    pub agent_name_bytes: usize,
    /// Most bytes of the description of a skill or an agent. Default: 4 KiB.
    pub description_bytes: usize,
    /// Most addresses of one agent. Default: 16.
    pub addresses: usize,
    /// Most bytes of one agent as it is answered. Default: 1 MiB, so that three fit into any answer.
    pub agent_bytes: usize,
    /// Most bytes of all entries that were registered here: what they answer, what was signed for them, and a share for
    /// the index. Default: 512 MiB.
    pub local_bytes: usize,
    /// Most bytes of all entries learned from other relays. Default: 1 GiB.
    pub federated_bytes: usize,
    /// Most entries that one source registers without proof, and as many with. As many again are remembered after their
    /// end. Default: 1024, so that 64 addresses are needed to fill the table.
    pub per_source: usize,
    /// Most bytes of those. Default: 8 MiB, so that 64 addresses are needed.
    pub source_bytes: usize,
    /// Most entries of one origin, by what relays say that this one was told of; and most that one stranger's address
    /// pushes, in whatever names. Strangers together have half of `federated` at most, none of it of any origin's share.
    /// As many again are remembered after their end. Default: 16 384, a quarter.
    pub per_origin: usize,
    /// Most bytes of those; of all strangers together, half of `federated_bytes`. Default: 256 MiB, a quarter.
    pub origin_bytes: usize,
    /// Whether only what the peer has signed is taken. Default: no.
    pub signed_only: bool,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            local: 65_536,
            federated: 65_536,
            skills: 4096,
            places: 16_384,
            tags: 32,
            id_bytes: 256,
            agent_name_bytes: MAX_AGENT_NAME,
            description_bytes: 4096,
            addresses: 16,
            agent_bytes: 1 << 20,
            local_bytes: 512 << 20,
            federated_bytes: 1 << 30,
            per_source: 1024,
            source_bytes: 8 << 20,
            per_origin: 16_384,
            origin_bytes: 256 << 20,
            signed_only: false,
        }
    }
}

impl RegistryLimits {
    /// Longest life that another relay may give an entry: a registration that was renewed just now, and as long
    /// again for clocks that do not agree.
    pub(super) fn longest_life(&self) -> Duration {
        self.ttl.saturating_mul(2)
    }

    /// Most entries that all strangers together may push.
    pub(super) fn strangers(&self) -> usize {
        self.federated / 2
    }

    /// Most bytes of those.
    pub(super) fn stranger_bytes(&self) -> usize {
        self.federated_bytes / 2
    }

    /// How many requests a registration or a heartbeat counts as that moves its peer in so many sets of the index.
    pub fn cost(places: usize) -> u64 {
        /// Sets that one request pays for: moving a peer in them takes some ten microseconds.
        const PLACES_PER_REQUEST: usize = 256;
        (places / PLACES_PER_REQUEST).max(1) as u64
    }

    /// How long it is remembered that a registration is over: longer than any copy of it can live, and than anything
    /// that was signed before its end could still be taken.
    pub(super) fn tombstone_life(&self) -> Duration {
        self.ttl.saturating_mul(10).max(MAX_SKEW * 2)
    }
}
