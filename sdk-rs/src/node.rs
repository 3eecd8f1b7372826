//! The door to the network: a daemon, reached or started, and what can be asked of it. A `Node` is
//! cheap to clone; clones share one connection. A daemon that this node started is stopped when the
//! last clone, task handle and incoming task of it are gone, or by [`Node::shutdown`].

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::v1;
use tokio::sync::Mutex;

use crate::{
    card::{AgentCard, KnownCard},
    error::{Error, ErrorKind, Subject},
    peer_id::PeerId,
    session::{NodeClient, Session},
    task::{Task, TaskFilter, TaskPage},
};

pub(crate) mod access;
pub(crate) mod activity;
pub(crate) mod builder;
pub(crate) mod daemon;
pub(crate) mod invites;
pub(crate) mod network;
pub(crate) mod notes;
pub(crate) mod peers;
pub(crate) mod ping;
pub(crate) mod trace;

pub use builder::NodeBuilder;
use daemon::Daemon;
use network::Network;
use peers::{AgentDirectory, DiscoveryResult, KnownPeer, NodeInfo, Peer};

/// Most tasks that the daemon lists in one answer.
const TASK_PAGE: usize = 500;

/// A connection to the daemon beside this agent.
///
/// ```no_run
/// use agentanycast::{AgentCard, Node, Skill, Target};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::builder().card(AgentCard::new("asker", "Asks")).start().await?;
/// let task = node.send_task(Target::skill("translate"), "Good morning").await?;
/// println!("{}", task.wait().await?.text_content());
/// node.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<NodeInner>,
}

#[derive(Debug)]
struct NodeInner {
    session: Session,
    /// The daemon, if this node started it.
    daemon: Mutex<Option<Daemon>>,
}

impl Node {
    /// Connects to a daemon that runs: `unix:///PATH`, a bare path, or `tcp://HOST:PORT`. The empty
    /// text is the default, `~/.agentanycast/daemon.sock`. Fails at once, with kind
    /// `DaemonUnavailable`, if nobody answers there.
    pub async fn connect(address: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().connect(address).await
    }

    /// Options, and the way to start a daemon.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }

    fn new(session: Session, daemon: Option<Daemon>) -> Self {
        Self {
            inner: Arc::new(NodeInner {
                session,
                daemon: Mutex::new(daemon),
            }),
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Where the daemon listens, as [`Node::connect`] takes it.
    pub fn address(&self) -> String {
        self.session().address().to_string()
    }

    /// Who the daemon is.
    pub async fn info(&self) -> Result<NodeInfo, Error> {
        let rpc = |mut client: NodeClient, request| async move { client.get_node_info(request).await };
        let answer = self
            .session()
            .call(Subject::Node, v1::GetNodeInfoRequest {}, rpc)
            .await?;
        answer
            .node_info
            .map(NodeInfo::from)
            .ok_or_else(|| missing("node info"))
    }

    /// Sets the card of the local agent. It is set again whenever the daemon has been restarted.
    ///
    /// Returns what of the card other nodes cannot find, a sentence each, such as skills beyond what
    /// registries take; a warning of each is also logged. The card itself is set whole.
    pub async fn set_card(&self, card: AgentCard) -> Result<Vec<String>, Error> {
        self.session().set_card(card.into()).await
    }

    /// What of the local agent's card other nodes cannot find now, as [`set_card`](Self::set_card) returns
    /// it. Empty with a daemon that is too old to say it.
    pub async fn card_warnings(&self) -> Result<Vec<String>, Error> {
        let own = self.info().await?.peer_id.ok_or_else(|| missing("peer id"))?;
        Ok(self.peer_card(&own, None, false).await?.warnings)
    }

    /// The card of a peer: fetched if it is connected, else the one known from before.
    pub async fn card_of(&self, peer: &PeerId) -> Result<AgentCard, Error> {
        self.known_card_of(peer).await.map(|known| known.card)
    }

    async fn peer_card(
        &self,
        peer: &PeerId,
        agents_page: Option<v1::AgentsPage>,
        public: bool,
    ) -> Result<v1::GetPeerCardResponse, Error> {
        let rpc = |mut client: NodeClient, request| async move { client.get_peer_card(request).await };
        let request = v1::GetPeerCardRequest {
            peer_id: peer.to_string(),
            agents_page,
            public,
        };
        self.session().call(Subject::Card, request, rpc).await
    }

    /// The card of a peer, or the wanted cards of its agents, as this node shows them to strangers: of itself its open agents alone.
    /// For gateways.
    #[doc(hidden)]
    pub async fn public_card(
        &self,
        peer: &PeerId,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, Error> {
        let answer = self.peer_card(peer, wanted, true).await?;
        answer.card.ok_or_else(|| missing("card"))
    }

    /// The same, with what else the daemon knows of the peer.
    pub async fn known_card_of(&self, peer: &PeerId) -> Result<KnownCard, Error> {
        let answer = self.peer_card(peer, None, false).await?;
        Ok(KnownCard {
            card: answer.card.map(AgentCard::from).ok_or_else(|| missing("card"))?,
            successor: PeerId::from_daemon(answer.successor_peer_id),
            warnings: answer.warnings,
        })
    }

    /// The cards of some agents of a node with several, in the order of their names, as many as one answer holds: those whose names
    /// come after `after` ("": from the first), with a `name` that one alone. They are the `agents` of the answer, whose
    /// `agents_total` is how many the node has.
    pub async fn agents_page(&self, peer: &PeerId, after: &str, name: &str) -> Result<AgentCard, Error> {
        let wanted = v1::AgentsPage {
            after: after.to_owned(),
            name: name.to_owned(),
        };
        let answer = self.peer_card(peer, Some(wanted), false).await?;
        answer.card.map(AgentCard::from).ok_or_else(|| missing("card"))
    }

    /// The cards of all agents of a node, in the order of their names.
    pub async fn agent_cards(&self, peer: &PeerId) -> Result<Vec<AgentCard>, Error> {
        let mut cards: Vec<AgentCard> = Vec::new();
        loop {
            let after = cards.last().map_or("", |last| last.agent.as_str());
            let page = self.agents_page(peer, after, "").await?.agents;
            let is_further = page.first().is_some_and(|first| first.agent.as_str() > after);
            if !is_further {
                return Ok(cards);
            }
            cards.extend(page);
        }
    }

    /// The connected peers.
    pub async fn peers(&self) -> Result<Vec<Peer>, Error> {
        let rpc = |mut client: NodeClient, request| async move { client.list_peers(request).await };
        let answer = self
            .session()
            .call(Subject::Node, v1::ListPeersRequest {}, rpc)
            .await?;
        Ok(answer.peers.into_iter().map(Peer::from).collect())
    }

    /// How the daemon is reached, through which relays, and how it reaches its peers. Of a daemon that is too old
    /// to say, fails with kind `Unsupported`.
    pub async fn network(&self) -> Result<Network, Error> {
        let answer = self.session().network().await?;
        Ok(answer.into())
    }

    /// The peers that the daemon knows by name: itself first, then those that are connected, then those that have
    /// shown a card before.
    pub async fn known_peers(&self) -> Result<Vec<KnownPeer>, Error> {
        let answer = self.session().known_peers().await?;
        Ok(answer
            .peers
            .into_iter()
            .filter_map(KnownPeer::from_daemon)
            .collect())
    }

    /// The agents that the daemon knows: its own, those of connected peers, and those that registries tell of; with a
    /// skill, those that have it. `nearby`: no registry is asked.
    pub async fn agents(&self, skill: Option<&str>, nearby: bool) -> Result<AgentDirectory, Error> {
        let request = v1::ListAgentsRequest {
            skill_id: skill.unwrap_or_default().to_owned(),
            nearby,
        };
        Ok(self.session().list_agents(request).await?.into())
    }

    /// The peer of a `did:key`, or the peers that a `did:web` names by its document on the web, which the daemon fetches.
    /// Kind `InvalidArgument`: it is neither; `PeerNotFound`: its document cannot be had.
    pub async fn peers_of_did(&self, did: &str) -> Result<Vec<PeerId>, Error> {
        let answer = self.session().resolve_did(did).await?;
        Ok(answer
            .peer_ids
            .into_iter()
            .filter_map(PeerId::from_daemon)
            .collect())
    }

    /// Connects to a peer, trying these multiaddrs first.
    pub async fn connect_peer<A: Into<String>>(
        &self,
        peer: &PeerId,
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Peer, Error> {
        let rpc = |mut client: NodeClient, request| async move { client.connect_peer(request).await };
        let addresses = addresses.into_iter().map(Into::into).collect();
        let request = v1::ConnectPeerRequest {
            peer_id: peer.to_string(),
            addresses,
        };
        let answer = self.session().call(Subject::Peer, request, rpc).await?;
        answer.peer_info.map(Peer::from).ok_or_else(|| missing("peer"))
    }

    /// Finds agents by skill. Only agents with all these tags; at most `limit` of them, 0 = 100.
    /// Nobody is an empty list, not an error;
    /// no registry that answers is one, unless agents with the skill were found before.
    pub async fn discover(
        &self,
        skill: impl Into<String>,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<DiscoveryResult, Error> {
        let rpc = |mut client: NodeClient, request| async move { client.discover(request).await };
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let request = v1::DiscoverRequest {
            skill_id: skill.into(),
            tags: tags.clone(),
            limit,
        };
        let answer = self.session().call(Subject::Discovery, request, rpc).await?;
        Ok(answer.into())
    }

    /// Tasks of the daemon, sent and received, newest change first, without messages and artifacts:
    /// [`TaskHandle::snapshot`](crate::TaskHandle::snapshot) has them.
    pub async fn tasks(&self, filter: &TaskFilter) -> Result<Vec<Task>, Error> {
        let limit = if filter.limit == 0 {
            usize::MAX
        } else {
            filter.limit
        };
        let mut tasks = Vec::new();
        let mut page_token = String::new();
        while tasks.len() < limit {
            let wanted = limit - tasks.len();
            let page = self.page_of(filter, wanted, page_token).await?;
            tasks.extend(page.tasks);
            page_token = page.next;
            if page_token.is_empty() {
                break;
            }
        }
        Ok(tasks)
    }

    /// One page of [`Node::tasks`], of at most `limit` tasks and at most 500. `page_token` is the last page's `next`;
    /// empty: the first one.
    pub async fn task_page(
        &self,
        filter: &TaskFilter,
        page_token: impl Into<String>,
    ) -> Result<TaskPage, Error> {
        let limit = if filter.limit == 0 {
            TASK_PAGE
        } else {
            filter.limit
        };
        self.page_of(filter, limit, page_token.into()).await
    }

    async fn page_of(
        &self,
        filter: &TaskFilter,
        limit: usize,
        page_token: String,
    ) -> Result<TaskPage, Error> {
        let request = v1::ListTasksRequest {
            statuses: filter.statuses.iter().map(|status| i32::from(*status)).collect(),
            page_size: limit.min(TASK_PAGE) as i32,
            page_token,
            group: filter.group.map(Vec::from).unwrap_or_default(),
            context_id: filter.context_id.clone(),
            changed_after: filter.changed_after.map(Into::into),
            id_prefix: filter.id_prefix.clone(),
        };
        let page = self.session().list_tasks(request).await?;
        Ok(TaskPage {
            tasks: listed(page.tasks, page.asked),
            next: page.next_page_token,
            total: usize::try_from(page.total).unwrap_or_default(),
        })
    }

    /// Whether this node started the daemon, and so stops it.
    pub async fn owns_daemon(&self) -> bool {
        self.inner.daemon.lock().await.is_some()
    }

    /// The multiaddrs that a daemon started by this node announced, each with its `/p2p/<peer id>`; loopback
    /// addresses are among them. Empty for a daemon that somebody else started.
    pub async fn announced_addresses(&self) -> Vec<String> {
        match self.inner.daemon.lock().await.as_ref() {
            Some(daemon) => daemon.announced().await,
            None => Vec::new(),
        }
    }

    /// Stops the daemon if this node started it: SIGTERM, and the hard way after 5 s. Else nothing.
    pub async fn shutdown(&self) {
        if let Some(daemon) = self.inner.daemon.lock().await.take() {
            daemon.stop().await;
        }
    }
}

/// Tasks of a list, with what was asked; an older daemon does not say it.
fn listed(tasks: Vec<v1::Task>, asked: Vec<String>) -> Vec<Task> {
    let asked = asked.into_iter().chain(std::iter::repeat_with(String::new));
    let tasks = tasks.into_iter().map(Task::from).zip(asked);
    tasks.map(|(task, asked)| Task { asked, ..task }).collect()
}

/// The daemon left out what the protocol says it must send.
pub(crate) fn missing(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the daemon answered without a {what}"),
    )
}
