//! Requests carried out on the mesh: the one handler behind all bindings and versions.
//!
//! What a caller may see and do is the port's matter (`agentanycast_gateway::tasks`); for each tenant it has tasks of its own.

mod artifact_chunks;
mod event_stream;
mod list;
mod send;
mod webhooks;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_egress::egress_filter::EgressFilter;
use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, Target,
    caller::{Caller, CallerIdentity},
    is_terminal, read_agent_card, shorten,
    tasks::{CallerTasks, GatewayTasks, TaskRefusal},
};
use agentanycast_identity::{DidWeb, document_of};
use agentanycast_proto::v1;
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::protocol::{
    LABELS,
    card::{self, CardEndpoint},
    diff::TaskEvent,
    encode::A2aResponse,
    error::{A2aError, Reason},
    event_id::EventId,
    finished::finished_results,
    message::TaskContext,
    request::{A2aCall, Request},
    tenant,
    version::Version,
};

/// The label with the tenant, beside those of all gateways.
const TENANT: &str = "a2a.tenant";

/// Tasks that are followed or waited for at once. Each takes a stream of the connection to the daemon, which has
/// 4 096, and other calls need some.
const FOLLOWED: usize = 2048;

/// Agents that the card of a skill is made of.
const ASKED_FOR_SKILL: usize = 8;

/// Whom a request is for, and who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallContext {
    /// The agent.
    pub target: Target,
    /// Who calls.
    pub caller: CallerIdentity,
    /// Extensions that it declares, of those that are known here.
    pub extensions: Vec<String>,
    /// The trace that the request is part of (W3C Trace Context): its headers by name.
    pub trace: Vec<(&'static str, String)>,
    /// The caller's idempotency key, as it was given.
    pub idempotency_key: Option<String>,
    /// The number of the last event that the caller has heard of a task that it follows again.
    pub last_event: Option<u64>,
}

impl CallContext {
    /// The address that a request means, and the request: where the path names no agent, its tenant may
    /// ([`tenant`](crate::protocol::tenant)).
    pub(crate) fn resolve_tenant(mut self, mut request: Request) -> (Self, Request) {
        if self.target == Target::Own {
            let (target, tenant) = tenant::parse(&request.tenant);
            (self.target, request.tenant) = (target, tenant.to_owned());
        }
        (self, request)
    }
}

/// A task that is being followed.
pub struct TaskStream {
    /// Which.
    pub context: TaskContext,
    /// A message was sent with the request; otherwise the client only wants to hear of the task.
    pub sent: bool,
    /// The task, then what changes, until it has ended.
    pub events: BoxStream<'static, Result<NumberedEvent, A2aError>>,
}

/// An event of a task that is being followed.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedEvent {
    /// What happened.
    pub event: TaskEvent,
    /// How far the client has heard of the task with it; a client that comes again names it.
    pub id: Option<u64>,
}

/// What stands behind the bindings.
#[async_trait]
pub trait A2aHandler: std::marker::Send + Sync {
    /// Answers a request at once, or when its task has come to a halt.
    async fn answer(&self, address: &CallContext, request: Request) -> Result<A2aResponse, A2aError>;

    /// Answers a request by what happens. What fails before the first event is an error and no stream.
    async fn follow(&self, address: &CallContext, request: Request) -> Result<TaskStream, A2aError>;

    /// The card of an agent, as this caller may see it.
    async fn card(
        &self,
        target: &Target,
        front: &CardEndpoint,
        caller: &CallerIdentity,
    ) -> Result<Value, A2aError>;

    /// The DID document of the node, if this is the path where its did:web has it; `endpoint`: where the node is called.
    async fn did_document(&self, path: &str, endpoint: Option<&str>) -> Result<Option<Value>, A2aError>;

    /// All agents that the node knows and this caller may see.
    async fn agents(&self, caller: &CallerIdentity) -> Result<Vec<v1::ListedAgent>, A2aError>;

    /// Whether requests can be carried out now.
    async fn check(&self) -> Result<(), A2aError>;

    /// The card for those who are known; without one, an error in the words of this version.
    async fn extended_card(
        &self,
        target: &Target,
        front: &CardEndpoint,
        version: Version,
        caller: &CallerIdentity,
    ) -> Result<Value, A2aError>;
}

/// What the handler is told.
#[derive(Clone, Debug)]
pub struct HandlerConfig {
    /// How long an answer may wait for its task; then it shows the task as it stands.
    pub patience: Duration,
    /// Where webhooks may be.
    pub egress: EgressFilter,
    /// Extensions that whoever asks for something must declare.
    pub required_extensions: Vec<String>,
    /// What the card of the node's own agent says besides to those who are known; without it there is no such card.
    pub extended_card: Option<Map<String, Value>>,
}

impl Default for HandlerConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_mins(10),
            egress: EgressFilter::Public,
            required_extensions: Vec::new(),
            extended_card: None,
        }
    }
}

/// The handler that passes requests on to the mesh.
pub struct MeshHandler {
    tasks: GatewayTasks,
    config: HandlerConfig,
}

impl MeshHandler {
    /// On this node.
    pub fn new(gateway: Arc<dyn Gateway>, config: HandlerConfig) -> Self {
        Self {
            tasks: GatewayTasks::new(gateway, FOLLOWED),
            config,
        }
    }

    fn node(&self) -> &dyn Gateway {
        &**self.tasks.node()
    }

    /// The tasks of this caller with this agent and tenant.
    fn of_caller(&self, address: &CallContext, tenant: &str) -> CallerTasks<'_> {
        let tenant = (!tenant.is_empty()).then(|| tenant.to_owned());
        let caller = Caller::with_target(LABELS, address.caller.clone(), &address.target);
        self.tasks.of_caller(caller.with_label(TENANT, tenant))
    }

    /// Checks that a client declares what it must.
    fn check_extensions(&self, address: &CallContext) -> Result<(), A2aError> {
        let mut required = self.config.required_extensions.iter();
        match required.find(|required| !address.extensions.contains(required)) {
            None => Ok(()),
            Some(missing) => Err(A2aError::new(
                Reason::ExtensionSupportRequired,
                format!("this needs the extension {missing}; declare it in A2A-Extensions"),
            )),
        }
    }

    /// The agent beside the node, if it has this skill.
    async fn own_skill(node: &dyn Gateway, id: &str) -> Option<v1::DiscoveredAgent> {
        let card = own_card(node).await.ok()?;
        let skill = card.skills.into_iter().find(|skill| skill.id == id)?;
        Some(v1::DiscoveredAgent {
            agent_name: card.name,
            skills: vec![v1::SkillInfo {
                skill_id: skill.id,
                description: skill.description,
                tags: skill.tags,
                agent: String::new(),
            }],
            ..v1::DiscoveredAgent::default()
        })
    }
}

#[async_trait]
impl A2aHandler for MeshHandler {
    async fn answer(&self, address: &CallContext, request: Request) -> Result<A2aResponse, A2aError> {
        let tasks = self.of_caller(address, &request.tenant);
        // What the daemon takes to accept a message counts too: clients count from their request on.
        let until = Instant::now() + self.config.patience;
        self.check_extensions(address)?;
        match request.call {
            A2aCall::LegacySend(send) => {
                if address.target == Target::Own && !self.node().has_listener().await? {
                    return Ok(A2aResponse::Legacy(None, None));
                }
                let slot = self.tasks.follow_slot()?;
                let handle = self.send(&tasks, address, &send).await?;
                let task = tasks.halted(&*handle, slot, until).await?;
                Ok(A2aResponse::Legacy(
                    Some(Box::new(finished_results(task))),
                    send.history,
                ))
            }
            A2aCall::Send(send) => {
                let slot = send.wait.then(|| self.tasks.follow_slot()).transpose()?;
                let handle = self.send(&tasks, address, &send).await?;
                let task = match slot {
                    Some(slot) => tasks.halted(&*handle, slot, until).await?,
                    None => tasks.read(&*handle).await?,
                };
                Ok(A2aResponse::Sent(Box::new(finished_results(task)), send.history))
            }
            A2aCall::Get { id, history } => {
                let known = tasks.get(&id).await?;
                Ok(A2aResponse::Task(Box::new(finished_results(known.task)), history))
            }
            A2aCall::Cancel { id } => match tasks.cancel(&id).await {
                Err(TaskRefusal::Ended(id, _)) => {
                    let text = format!("task {id} has ended");
                    Err(A2aError::new(Reason::TaskNotCancelable, text))
                }
                task => Ok(A2aResponse::Task(Box::new(finished_results(task?)), None)),
            },
            A2aCall::List(list) => Ok(A2aResponse::Tasks(list::page(&self.tasks, &tasks, list).await?)),
            A2aCall::Push(push) => self.push(&tasks, address, push).await,
            A2aCall::ExtendedCard => Err(no_extended_card(Version::V10)),
            A2aCall::Subscribe { .. } => Err(A2aError::new(
                Reason::UnsupportedOperation,
                "a task is followed by a stream",
            )),
        }
    }

    async fn follow(&self, address: &CallContext, request: Request) -> Result<TaskStream, A2aError> {
        self.check_extensions(address)?;
        let slot = self.tasks.follow_slot()?;
        let tasks = self.of_caller(address, &request.tenant);
        let sent = matches!(request.call, A2aCall::Send(_));
        let heard = address.last_event.map(EventId::from_number);
        let handle = match request.call {
            A2aCall::Send(send) => self.send(&tasks, address, &send).await?,
            A2aCall::Subscribe { id } => {
                let known = tasks.get(&id).await?;
                let misses_the_end = heard.is_some_and(|heard| !heard.has_end());
                if is_terminal(known.task.status()) && !misses_the_end {
                    let text = format!("task {} has ended; read it instead", known.task.task_id);
                    return Err(A2aError::new(Reason::UnsupportedOperation, text));
                }
                known.handle
            }
            _ => {
                return Err(A2aError::new(
                    Reason::UnsupportedOperation,
                    "this is not answered by a stream",
                ));
            }
        };
        let (updates, task) = tasks.follow(&*handle).await?;
        Ok(TaskStream {
            context: TaskContext {
                context_id: LABELS.context_of(&task).to_owned(),
                task_id: task.task_id.clone(),
            },
            sent,
            events: event_stream::event_stream(handle, updates, task, (sent, heard), tasks.reader(), slot),
        })
    }

    async fn card(
        &self,
        target: &Target,
        front: &CardEndpoint,
        caller: &CallerIdentity,
    ) -> Result<Value, A2aError> {
        let node = self.tasks.node_for(caller);
        let card = match target {
            Target::Own => match own_card(&*node).await {
                Err(error) if is_hidden(&error, front, caller) => Ok(card_without_agents()),
                card => card,
            },
            Target::Peer(peer) => node.card(peer).await,
            Target::Agent { peer, agent } => read_agent_card(&*node, peer.as_deref(), agent).await,
            Target::Skill(skill) => {
                let any = BTreeMap::new();
                let found = node.discover(skill, &any, ASKED_FOR_SKILL);
                let found = match Self::own_skill(&*node, skill).await {
                    // Neither registries nor peers are needed for what is here.
                    Some(own) => found.await.into_iter().flatten().chain([own]).collect(),
                    None => found.await?,
                };
                if found.is_empty() {
                    let text = format!("no agent has the skill {}", shorten(skill));
                    return Err(A2aError::new(Reason::AgentNotFound, text));
                }
                Ok(card::skill_card(skill, &found))
            }
            Target::Url(_) => return Err(A2aError::new(Reason::AgentNotFound, "no such agent")),
        };
        Ok(card::write(&card?, front, None))
    }

    async fn did_document(&self, path: &str, endpoint: Option<&str>) -> Result<Option<Value>, A2aError> {
        let did = self.node().did_web().await?;
        let is_elsewhere = |did: DidWeb| did.document_path() != path;
        if did.parse().ok().is_none_or(is_elsewhere) {
            return Ok(None);
        }
        let peer = self.node().peer_id().await?;
        let document = peer
            .parse()
            .ok()
            .and_then(|peer| document_of(&did, peer, endpoint));
        Ok(document)
    }

    async fn agents(&self, caller: &CallerIdentity) -> Result<Vec<v1::ListedAgent>, A2aError> {
        Ok(self.tasks.node_for(caller).agents(None).await?)
    }

    async fn check(&self) -> Result<(), A2aError> {
        // That there is none says that tasks can be read.
        match self.node().task("health").snapshot().await {
            Err(error) if !matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Invalid) => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    async fn extended_card(
        &self,
        target: &Target,
        front: &CardEndpoint,
        version: Version,
        caller: &CallerIdentity,
    ) -> Result<Value, A2aError> {
        match (&self.config.extended_card, target) {
            (Some(more), Target::Own) => {
                // Whoever asks in 0.3 reads its fields, whatever the public card has.
                let front = CardEndpoint {
                    dual: front.dual || version == Version::V03,
                    ..front.clone()
                };
                let card = own_card(&*self.tasks.node_for(caller)).await?;
                Ok(card::write(&card, &front, Some(more)))
            }
            _ => Err(no_extended_card(version)),
        }
    }
}

async fn own_card(node: &dyn Gateway) -> Result<v1::AgentCard, GatewayError> {
    node.card(&node.peer_id().await?).await
}

/// Whether a stranger is shown no agent, and may be shown some when it says who it is: it has to learn from a card how to do that.
fn is_hidden(error: &GatewayError, front: &CardEndpoint, caller: &CallerIdentity) -> bool {
    error.kind() == ErrorKind::AgentNotFound && caller.is_stranger() && !front.schemes.is_empty()
}

/// The card of the node for such a stranger.
fn card_without_agents() -> v1::AgentCard {
    v1::AgentCard {
        name: "AgentAnycast".to_owned(),
        description: "Agents here are for callers who say who they are".to_owned(),
        ..v1::AgentCard::default()
    }
}

/// In 1.0, what a card does not declare is not supported (3.3.4 of the specification); its other error is for an agent
/// that declares a card and has none.
fn no_extended_card(version: Version) -> A2aError {
    let reason = match version {
        Version::V03 => Reason::ExtendedAgentCardNotConfigured,
        Version::V10 => Reason::UnsupportedOperation,
    };
    A2aError::new(reason, "this agent has no extended card; its public one says all")
}
