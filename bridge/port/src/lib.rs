//! The port between the gateways and the mesh: what a gateway may ask of a node, whoever carries it out. A
//! gateway knows this crate and its own protocol; `sdk` carries the calls to a daemon over gRPC, so that a bridge can run
//! apart from it, and a daemon carries them out itself.
//!
//! The one rule: what is said here is said in the mesh's own terms (`agentanycast.v1`), never in those of an
//! outside protocol. It has three sides: `Gateway` is what callers ask of agents, `agents` what agents behind a
//! gateway do for others, `ExternalTasks` with `external_routes` which tasks go outside. Beside the port are what all gateways make of its terms: whether a task has ended, how it is
//! labelled and what its conversation is called (`caller`, `labels`), what a caller may see of it and do with it (`tasks`); points in time and base64 as they are written (`time`, `base64_text`).
//! How a program knows its gateways and its other parts and runs them is in `composition`, `registration`, `running` and `running_gateways`, what they count beside their requests in `metrics`.

#![forbid(unsafe_code)]

pub mod agents;
pub mod base64_text;
pub mod caller;
pub mod composition;
mod external;
pub mod external_routes;
pub mod external_runner;
#[cfg(feature = "fake")]
pub mod fake;
mod idempotency;
pub mod labels;
#[cfg(feature = "sdk")]
mod lazy;
pub mod metrics;
mod read_budget;
pub mod registration;
pub mod running;
pub mod running_gateways;
#[cfg(feature = "sdk")]
mod sdk;
#[cfg(feature = "sdk")]
mod sdk_agents;
mod strangers_node;
mod target;
pub mod tasks;
pub mod time;
pub mod token_file;

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::{
    card_agents::whole_card_of_agent,
    v1::{self, TaskStatus, part::Content},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use external_routes::ExternalRoutes;

/// The settings of gateways, of the runner and of calls to hosts outside.
pub use agentanycast_gateways as settings;

pub use external::{
    DeliveryEvent, DeliveryReport, ExternalTask, ExternalTasks, TRACE_LABELS, TaskSeal, UnsealedAnswer,
};
#[cfg(feature = "sdk")]
pub use lazy::{ConnectNode, LazyGateway};
#[cfg(feature = "sdk")]
pub use sdk::SdkGateway;
pub use strangers_node::StrangersNode;
pub use target::{OWN_NODE, Target, agent_address, parse_peer};

/// A node, as a gateway is given it when it starts. Cheap to clone.
#[derive(Clone)]
pub struct NodePort {
    /// What the gateway's callers ask of agents.
    pub client: Arc<dyn Gateway>,
    /// What agents behind the gateway are attached to.
    pub agents: Arc<dyn agents::Agents>,
    /// Tasks that are sent by URL, where the node is in this process: a gateway takes those of its schemes.
    pub external: Option<ExternalRoutes>,
    /// The node's own key, where the node is in this process: a gateway signs by it what it says.
    pub key: Option<agentanycast_identity::Keypair>,
    /// The directory of the node's home, where the node is in this process: a gateway keeps small files there.
    pub home: Option<std::path::PathBuf>,
}

/// A message that begins a task.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask {
    /// Whom it is for.
    pub target: Target,
    /// What is said.
    pub message: v1::Message,
    /// The conversation that the task belongs to; empty = a new one.
    pub context_id: String,
    /// Labels that travel to the agent and stay with the task.
    pub metadata: BTreeMap<String, String>,
    /// By which the task can be listed; stays with the node.
    pub group: TaskGroup,
    /// What is to be remembered about the task: with it, or nothing is begun.
    pub note: Option<v1::TaskNote>,
    /// The node's idempotency key: the same one within a day names the same task, and nothing is begun.
    pub idempotency_key: Option<String>,
}

/// What tasks are listed by.
pub type TaskGroup = [u8; 16];

/// Which tasks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Sent with this.
    pub group: TaskGroup,
    /// Of this conversation; empty: any.
    pub context_id: String,
    /// In this state.
    pub status: Option<v1::TaskStatus>,
    /// Changed after this, Unix time in milliseconds.
    pub changed_after: Option<u64>,
    /// At most so many.
    pub limit: usize,
    /// Behind this place: `MILLISECONDS:ID` of a task's last change; empty: from the newest on.
    pub after: String,
}

/// A page of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskListing {
    /// Newest change first, without messages and artifacts.
    pub tasks: Vec<v1::Task>,
    /// Behind which place the next page begins; empty: this is the last.
    pub next: String,
    /// Tasks on all pages.
    pub total: usize,
}

/// A task, to be read, followed and ended. Dropping it changes nothing.
#[async_trait]
pub trait TaskHandle: Send + Sync {
    /// Names the task on both sides.
    fn id(&self) -> &str;

    /// The task as it stands, whole.
    async fn snapshot(&self) -> Result<v1::Task, GatewayError>;

    /// The current state, then every change, until the task has ended. Goes on over lost connections.
    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>>;

    /// The content of one artifact, from its beginning, as it is produced.
    fn stream(&self, artifact_id: &str) -> BoxStream<'static, Result<Bytes, GatewayError>>;

    /// The task, whole, once it has ended or asks for something. Goes on over lost connections.
    async fn halted(&self) -> Result<v1::Task, GatewayError>;

    /// Sends a further message, and notes something: both, or neither. Only a task that asks for input takes
    /// one. A node's idempotency key that was used within a day sends nothing. The id of the task that has
    /// the message, which is another one if the key was used there.
    async fn reply(
        &self,
        message: v1::Message,
        note: Option<v1::TaskNote>,
        idempotency_key: Option<String>,
    ) -> Result<String, GatewayError>;

    /// Ends the task. One that has ended is a [`ErrorKind::Conflict`].
    async fn cancel(&self) -> Result<v1::Task, GatewayError>;
}

/// One change of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Its state after the change.
    pub status: v1::TaskStatus,
    /// What came with it: progress, a question, a reason.
    pub message: Option<v1::Message>,
    /// What came out so far.
    pub artifacts: Vec<v1::Artifact>,
    /// The node was lost before it: what was said meanwhile is in the task, and is no update.
    pub resumed: bool,
}

impl Update {
    /// Whether it may stand for a result that has begun, which the task shows by reference: such an update says neither words
    /// nor results.
    pub fn is_hint(&self) -> bool {
        self.message.is_none() && self.artifacts.is_empty() && !is_terminal(self.status)
    }

    /// Whether the task may have begun results that neither this update nor an earlier one tells of. `is_first`: none was heard
    /// before. The end of a task tells of all.
    pub fn may_lack_results(&self, is_first: bool) -> bool {
        !is_terminal(self.status) && (is_first || self.resumed || self.is_hint())
    }
}

/// A node, as gateways see it.
#[async_trait]
pub trait Gateway: Send + Sync {
    /// The peer that the node is.
    async fn peer_id(&self) -> Result<String, GatewayError>;

    /// The did:web of the node; empty if it has none.
    async fn did_web(&self) -> Result<String, GatewayError>;

    /// Begins a task. It is durable when this returns.
    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError>;

    /// A task that was begun before. Does not ask whether there is one.
    fn task(&self, id: &str) -> Arc<dyn TaskHandle>;

    /// A page of tasks.
    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError>;

    /// The card of a peer, or of the node's own agent.
    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError>;

    /// Whole cards of some agents of a node whose card has not all of them: a card with `agents` and `agents_total` alone.
    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError>;

    /// The card of a peer, or whole cards of the agents that are wanted, as a stranger to this node may see them: of this node itself
    /// its open agents alone. [`ErrorKind::AgentNotFound`]: it has none; so does a node that cannot tell.
    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        let _ = wanted;
        let text = format!("no card of {} is known", shorten(peer));
        Err(GatewayError::new(ErrorKind::AgentNotFound, text))
    }

    /// Whether an agent listens for tasks beside the node; `true` where that is not known.
    async fn has_listener(&self) -> Result<bool, GatewayError>;

    /// Writes a note of a task: over this version, else it is a [`ErrorKind::Conflict`]; 0: over whatever there is.
    /// Its new version. It is durable when this returns.
    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError>;

    /// Removes a note of a task; one that there is not is no error.
    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError>;

    /// The notes of a task, by name.
    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError>;

    /// Tasks with open notes, each again when it or its notes have changed. One reader at a time is served; the others
    /// wait. Goes on over lost connections, with all of them again.
    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>>;

    /// All agents that are known; with a skill, those that have it.
    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError>;

    /// Agents with a skill that has all of these tags, at most `limit`.
    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError>;
}

/// The card of one agent of a node; `None`: of this node.
///
/// # Errors
/// Those of the node; [`ErrorKind::AgentNotFound`] with the names of its agents if the node has none of this name.
pub async fn read_agent_card(
    node: &dyn Gateway,
    peer: Option<&str>,
    agent: &str,
) -> Result<v1::AgentCard, GatewayError> {
    let peer = match peer {
        Some(peer) => peer.to_owned(),
        None => node.peer_id().await?,
    };
    let card = node.card(&peer).await?;
    let mut page = v1::AgentCard::default();
    if card.agents_total > 0 {
        let wanted = v1::AgentsPage {
            name: agent.to_owned(),
            ..v1::AgentsPage::default()
        };
        // Where the node cannot be asked now, what its card says has to do.
        page = node.agents_page(&peer, wanted).await.unwrap_or_default();
    }
    whole_card_of_agent(&card, page, agent)
        .map_err(|unknown| GatewayError::new(ErrorKind::AgentNotFound, unknown.to_string()))
}

/// An agent as [`Target::parse_agent`] takes it: `PEER`, or `PEER/NAME` on a node with several; `self` is this node.
pub fn address_of(agent: &v1::ListedAgent) -> String {
    let peer = if agent.own { OWN_NODE } else { &agent.peer_id };
    agent_address(peer, &agent.agent)
}

/// How the node reaches an agent, in a word.
pub fn reachability(agent: &v1::ListedAgent) -> &'static str {
    match agent.connection_type() {
        _ if agent.own => "here",
        v1::ConnectionType::Direct if agent.lan => "lan",
        v1::ConnectionType::Direct => "direct",
        v1::ConnectionType::Relay => "relay",
        v1::ConnectionType::Unspecified => "registry",
    }
}

/// The skills of these agents by their ids: what is said of each, of several descriptions the first, and who has it.
pub fn skills_of(agents: &[v1::ListedAgent]) -> BTreeMap<&str, (&str, Vec<&v1::ListedAgent>)> {
    let mut skills: BTreeMap<&str, (&str, Vec<&v1::ListedAgent>)> = BTreeMap::new();
    for agent in agents {
        for skill in &agent.skills {
            let (description, who) = skills.entry(&skill.skill_id).or_default();
            if description.is_empty() {
                *description = &skill.description;
            }
            who.push(agent);
        }
    }
    skills
}

/// Whether a task in this state never changes again.
pub fn is_terminal(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled | TaskStatus::Rejected
    )
}

/// Whether whoever waits has something to do now.
pub fn is_halt(status: TaskStatus) -> bool {
    is_terminal(status) || status == TaskStatus::InputRequired
}

/// How a node refers to content that is read apart.
pub const REFERENCE: &str = "agentanycast-stream:";

/// Whether the content of a result is elsewhere.
pub fn is_reference(artifact: &v1::Artifact) -> bool {
    let [part] = artifact.parts.as_slice() else {
        return false;
    };
    matches!(&part.content, Some(Content::UrlPart(part)) if part.url.starts_with(REFERENCE))
}

/// Of what a caller gave, as much as an error shows.
pub fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Why a call failed, as far as a gateway has to tell its callers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No such task, or none any more.
    TaskNotFound,
    /// No such peer, skill or card, or none that can be reached now.
    AgentNotFound,
    /// What was given is not acceptable.
    Invalid,
    /// The task's state does not allow it.
    Conflict,
    /// Forbidden by the node.
    Denied,
    /// A bound was reached; later it may work.
    Busy,
    /// The node cannot be asked now.
    Unavailable,
    /// The node does not have this.
    Unsupported,
    /// Failed inside.
    Internal,
}

/// How the text of a node begins that has nowhere to look for agents by their skills.
pub const NO_DISCOVERY: &str = "this node has no discovery configured";

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GatewayError {
    kind: ErrorKind,
    message: String,
}

impl GatewayError {
    /// With this text for people.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// What a gateway decides on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the node has nowhere to look for agents by their skills: the same call fails until its settings change.
    /// Its kind is [`ErrorKind::Unavailable`], as that of a search without an answer.
    pub fn has_no_discovery(&self) -> bool {
        self.kind == ErrorKind::Unavailable && self.message.starts_with(NO_DISCOVERY)
    }
}
