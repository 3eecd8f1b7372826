//! Finding agents by skill without a registry: Kademlia among the nodes.
//!
//! A node announces each skill of its agent (a provider record under the skill's key), and a record of what the
//! agent is, signed by the node. Whoever looks for a skill asks for its providers and their records. The one rule:
//! nothing that a stranger says is believed or kept beyond what it can prove and a bound allows.

mod address_filter;
mod announcements;
mod behaviour;
mod key;
mod lookup;
mod record;
mod store;

use std::time::{Duration, Instant};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, AgentRecord};
use tokio::sync::{mpsc, oneshot};

use self::lookup::SearchRequest;
use super::request::{answered, ask};

pub(super) use self::behaviour::Behaviour;
pub use self::record::DescribeError;

/// Longest that a search may take; a dial that fails takes 10 s.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Commands that wait for the swarm's task; more are refused.
const COMMANDS: usize = 256;

/// How a node takes part in the DHT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhtConfig {
    /// Which DHT.
    pub network: DhtNetwork,
    /// Whether others ask this node.
    pub mode: DhtMode,
    /// How often, how long.
    pub times: DhtTimes,
}

/// Which DHT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhtNetwork {
    /// The mesh's own: `/agentanycast/kad/1.0.0`.
    Mesh,
    /// The public one: `/ipfs/kad/1.0.0`. Its nodes take providers of skills, and no records of agents.
    Public,
}

/// Whether others ask this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhtMode {
    /// While it has a confirmed public address.
    Auto,
    /// Never.
    Client,
    /// Always.
    Server,
}

/// How often a node does what in the DHT, and how long it believes what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhtTimes {
    /// From one announcement of a skill or record to the next. Default: 10 min; a skill costs some 30 small messages.
    pub announce_every: Duration,
    /// How long an announcement counts, at least a second. Default: 30 min, so that two may fail.
    pub lifetime: Duration,
    /// How far the clocks of two nodes may be apart. Default: 10 min.
    pub skew: Duration,
    /// How often the routing table is refreshed. Default: 5 min.
    pub refresh_every: Duration,
}

impl Default for DhtTimes {
    fn default() -> Self {
        Self {
            announce_every: Duration::from_mins(10),
            lifetime: Duration::from_mins(30),
            skew: Duration::from_mins(10),
            refresh_every: Duration::from_mins(5),
        }
    }
}

/// An agent that the DHT knows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundAgent {
    /// Its node, which has announced the skill itself.
    pub peer: PeerId,
    /// What it tells of itself, signed by `peer`, checked, and naming the skill; its addresses are those worth a
    /// dial. `None` when no record was found in time: then only the announcement says that it has the skill.
    pub record: Option<AgentRecord>,
    /// Where it can be dialled, without `/p2p`, for [`Handle::dial`](super::Handle::dial); may be empty.
    pub addresses: Vec<String>,
}

impl FoundAgent {
    fn new(peer: libp2p::PeerId, known: &[String], record: Option<AgentRecord>) -> Self {
        let mut addresses = record
            .as_ref()
            .map_or_else(Vec::new, |record| record.addresses.clone());
        for address in known {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses.truncate(super::address_book::MAX_ADDRESSES);
        Self {
            peer: peer.into(),
            record,
            addresses,
        }
    }
}

/// Why an agent is not announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProvideError {
    /// The node takes no part in the DHT.
    #[error("the node takes no part in the DHT (anycast.dht_mode is off)")]
    Off,
    /// The card does not fit; what was announced before still is.
    #[error(transparent)]
    Card(#[from] DescribeError),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Why nobody is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The node takes no part in the DHT.
    #[error("the node takes no part in the DHT (anycast.dht_mode is off)")]
    Off,
    /// It knows nobody there who answers questions, and is asked by nobody itself.
    #[error("the node knows nobody in the DHT who answers questions")]
    Alone,
    /// Too many searches are under way; try again in a moment.
    #[error("too many searches in the DHT are under way; try again in a moment")]
    Busy,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// What the behaviour is asked for.
#[derive(Debug)]
enum Command {
    Provide {
        agent: Option<AgentRecord>,
        reply: oneshot::Sender<()>,
    },
    Retract {
        reply: oneshot::Sender<()>,
    },
    Find {
        skill: String,
        asker: SearchRequest,
    },
}

/// The way to the behaviour; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct DhtControl {
    commands: mpsc::Sender<Command>,
}

impl DhtControl {
    /// See [`Handle::provide`](super::Handle::provide).
    pub(super) async fn provide(&self, card: Option<&AgentCard>) -> Result<(), ProvideError> {
        let agent = card.map(record::describe).transpose()?;
        let taken = ask(&self.commands, |reply| Command::Provide { agent, reply }).await;
        taken.ok_or(ProvideError::Stopping)
    }

    /// See [`Handle::retract`](super::Handle::retract).
    pub(super) async fn retract(&self) -> Result<(), ProvideError> {
        let told = ask(&self.commands, |reply| Command::Retract { reply }).await;
        told.ok_or(ProvideError::Stopping)
    }

    /// See [`Handle::find_providers`](super::Handle::find_providers).
    pub(super) async fn find_providers(
        &self,
        skill: &str,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<FoundAgent>, FindError> {
        let (reply, answer) = oneshot::channel();
        let asker = SearchRequest {
            limit,
            deadline: Instant::now() + wait.min(MAX_WAIT),
            reply,
        };
        let skill = skill.to_owned();
        match self.commands.try_send(Command::Find { skill, asker }) {
            Ok(()) => answered(&self.commands, answer)
                .await
                .unwrap_or(Err(FindError::Stopping)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(FindError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(FindError::Stopping),
        }
    }
}
