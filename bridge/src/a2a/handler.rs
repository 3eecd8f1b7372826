//! Requests carried out on the mesh: the one handler behind all bindings and versions.
//!
//! A task that came by this gateway carries labels that say so: who asked, whom, for which tenant. They travel with
//! the task and are as durable as it, so the bridge keeps nothing of its own. The one rule: a caller sees tasks that
//! carry its own labels, and no others; its conversations are its own too, whatever it calls them.

mod artifact_chunks;
mod event_stream;
mod list;
mod send;
mod webhooks;

use agentanycast_egress::egress_filter::EgressFilter;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_identity::{DidWeb, document_of};
use agentanycast_proto::v1;
use async_trait::async_trait;
use futures::{StreamExt as _, stream::BoxStream};
use serde_json::{Map, Value};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    card::{self, CardEndpoint},
    diff::TaskEvent,
    encode::A2aResponse,
    error::{A2aError, Reason},
    event_id::EventId,
    message::TaskContext,
    request::{A2aCall, Request},
    tenant,
    version::Version,
};
use crate::gateway::{
    self, ErrorKind, Gateway, GatewayError, Target, TaskGroup, TaskHandle, contexts, is_terminal,
    labels::{CALLER, TARGET, group_of},
    read_budget::ReadBudget,
    shorten,
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
    /// The name under which the caller is known; `anonymous` if there is none.
    pub caller: String,
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
    /// ([`tenant`](super::tenant)).
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

    /// The card of an agent.
    async fn card(&self, target: &Target, front: &CardEndpoint) -> Result<Value, A2aError>;

    /// The DID document of the node, if this is the path where its did:web has it; `endpoint`: where the node is called.
    async fn did_document(&self, path: &str, endpoint: Option<&str>) -> Result<Option<Value>, A2aError>;

    /// All agents that the node knows.
    async fn agents(&self) -> Result<Vec<v1::ListedAgent>, A2aError>;

    /// Whether requests can be carried out now.
    async fn check(&self) -> Result<(), A2aError>;

    /// The card for those who are known; without one, an error in the words of this version.
    async fn extended_card(
        &self,
        target: &Target,
        front: &CardEndpoint,
        version: Version,
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
    gateway: Arc<dyn Gateway>,
    config: HandlerConfig,
    stream_slots: Arc<Semaphore>,
    read_budget: Arc<ReadBudget>,
}

impl MeshHandler {
    /// On this node.
    pub fn new(gateway: Arc<dyn Gateway>, config: HandlerConfig) -> Self {
        Self {
            gateway,
            config,
            stream_slots: Arc::new(Semaphore::new(FOLLOWED)),
            read_budget: Arc::default(),
        }
    }

    /// A task of this caller, as it stands.
    async fn task(&self, address: &CallContext, tenant: &str, id: &str) -> Result<LoadedTask, A2aError> {
        let unknown = || A2aError::new(Reason::TaskNotFound, format!("there is no task {}", shorten(id)));
        let handle = self.gateway.task(id);
        let task = match self.read_budget.read(&address.caller, &*handle).await {
            Err(error) if matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Invalid) => {
                return Err(unknown());
            }
            task => task?,
        };
        if !belongs(&task, &self.gateway.peer_id().await?, address, tenant) {
            return Err(unknown());
        }
        Ok(LoadedTask { handle, task })
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

    async fn own_card(&self) -> Result<v1::AgentCard, GatewayError> {
        self.gateway.card(&self.gateway.peer_id().await?).await
    }

    /// The agent beside the node, if it has this skill.
    async fn own_skill(&self, id: &str) -> Option<v1::DiscoveredAgent> {
        let card = self.own_card().await.ok()?;
        let skill = card.skills.into_iter().find(|skill| skill.id == id)?;
        Some(v1::DiscoveredAgent {
            agent_name: card.name,
            skills: vec![v1::SkillInfo {
                skill_id: skill.id,
                description: skill.description,
                tags: skill.tags,
            }],
            ..v1::DiscoveredAgent::default()
        })
    }

    fn stream_slot(&self) -> Result<OwnedSemaphorePermit, A2aError> {
        Arc::clone(&self.stream_slots).try_acquire_owned().map_err(|_| {
            let text = format!("{FOLLOWED} tasks are being followed, the most at once; try again later");
            A2aError::new(Reason::ResourceExhausted, text)
        })
    }
}

/// A task, and how to reach it.
struct LoadedTask {
    handle: Arc<dyn TaskHandle>,
    task: v1::Task,
}

#[async_trait]
impl A2aHandler for MeshHandler {
    async fn answer(&self, address: &CallContext, request: Request) -> Result<A2aResponse, A2aError> {
        let tenant = &request.tenant;
        // What the daemon takes to accept a message counts too: clients count from their request on.
        let until = Instant::now() + self.config.patience;
        self.check_extensions(address)?;
        match request.call {
            A2aCall::LegacySend(send) => {
                if address.target == Target::Own && !self.gateway.has_listener().await? {
                    return Ok(A2aResponse::Legacy(None, None));
                }
                let place = self.stream_slot()?;
                let handle = self.send(address, tenant, &send).await?;
                let task = self.halted(address, &handle, place, until).await?;
                Ok(A2aResponse::Legacy(
                    Some(Box::new(finished_results(task))),
                    send.history,
                ))
            }
            A2aCall::Send(send) => {
                // Before anything is sent: whoever is told that there is no room must not have begun a task.
                let place = send.wait.then(|| self.stream_slot()).transpose()?;
                let handle = self.send(address, tenant, &send).await?;
                let task = match place {
                    Some(place) => self.halted(address, &handle, place, until).await?,
                    None => self.read_budget.read(&address.caller, &*handle).await?,
                };
                Ok(A2aResponse::Sent(Box::new(finished_results(task)), send.history))
            }
            A2aCall::Get { id, history } => {
                let known = self.task(address, tenant, &id).await?;
                Ok(A2aResponse::Task(Box::new(finished_results(known.task)), history))
            }
            A2aCall::Cancel { id } => {
                let known = self.task(address, tenant, &id).await?;
                let ended = || {
                    let text = format!("task {} has ended", known.task.task_id);
                    A2aError::new(Reason::TaskNotCancelable, text)
                };
                if is_terminal(known.task.status()) {
                    return Err(ended());
                }
                match known.handle.cancel().await {
                    Err(error) if error.kind() == ErrorKind::Conflict => Err(ended()),
                    task => Ok(A2aResponse::Task(Box::new(finished_results(task?)), None)),
                }
            }
            A2aCall::List(list) => Ok(A2aResponse::Tasks(self.list(address, tenant, list).await?)),
            A2aCall::Push(push) => self.push(address, tenant, push).await,
            A2aCall::ExtendedCard => Err(no_extended_card(Version::V10)),
            A2aCall::Subscribe { .. } => Err(A2aError::new(
                Reason::UnsupportedOperation,
                "a task is followed by a stream",
            )),
        }
    }

    async fn follow(&self, address: &CallContext, request: Request) -> Result<TaskStream, A2aError> {
        self.check_extensions(address)?;
        let place = self.stream_slot()?;
        let reads = (Arc::clone(&self.read_budget), address.caller.clone());
        let tenant = &request.tenant;
        let sent = matches!(request.call, A2aCall::Send(_));
        let heard = address.last_event.map(EventId::from_number);
        let handle = match request.call {
            A2aCall::Send(send) => self.send(address, tenant, &send).await?,
            A2aCall::Subscribe { id } => {
                let known = self.task(address, tenant, &id).await?;
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
        // First the updates, then the task: what happens between is in both, and nothing in neither. The first
        // update is the state that the task had before it is read, and is no news to its reader: a task that has
        // been answered meanwhile does not ask again.
        let mut updates = handle.updates();
        updates.next().await.transpose()?;
        let task = self.read_budget.read(&address.caller, &*handle).await?;
        Ok(TaskStream {
            context: TaskContext {
                context_id: contexts::caller_context(&task).to_owned(),
                task_id: task.task_id.clone(),
            },
            sent,
            events: event_stream::event_stream(handle, updates, task, (sent, heard), reads, place),
        })
    }

    async fn card(&self, target: &Target, front: &CardEndpoint) -> Result<Value, A2aError> {
        let card = match target {
            Target::Own => self.own_card().await,
            Target::Peer(peer) => self.gateway.card(peer).await,
            Target::Skill(skill) => {
                let any = BTreeMap::new();
                let found = self.gateway.discover(skill, &any, ASKED_FOR_SKILL);
                let found = match self.own_skill(skill).await {
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
        let did = self.gateway.did_web().await?;
        let is_elsewhere = |did: DidWeb| did.document_path() != path;
        if did.parse().ok().is_none_or(is_elsewhere) {
            return Ok(None);
        }
        let peer = self.gateway.peer_id().await?;
        let document = peer
            .parse()
            .ok()
            .and_then(|peer| document_of(&did, peer, endpoint));
        Ok(document)
    }

    async fn agents(&self) -> Result<Vec<v1::ListedAgent>, A2aError> {
        Ok(self.gateway.agents(None).await?)
    }

    async fn check(&self) -> Result<(), A2aError> {
        // That there is none says that tasks can be read.
        match self.gateway.task("health").snapshot().await {
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
    ) -> Result<Value, A2aError> {
        match (&self.config.extended_card, target) {
            (Some(more), Target::Own) => {
                // Whoever asks in 0.3 reads its fields, whatever the public card has.
                let front = CardEndpoint {
                    dual: front.dual || version == Version::V03,
                    ..front.clone()
                };
                Ok(card::write(&self.own_card().await?, &front, Some(more)))
            }
            _ => Err(no_extended_card(version)),
        }
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

/// The labels of a task that this caller sends.
fn labels(address: &CallContext, tenant: &str) -> BTreeMap<String, String> {
    let target = match &address.target {
        Target::Own => "own".to_owned(),
        Target::Peer(peer) => format!("peer:{peer}"),
        Target::Skill(skill) => format!("skill:{skill}"),
        Target::Url(url) => format!("url:{url}"),
    };
    let mut labels = BTreeMap::from([
        (CALLER.to_owned(), address.caller.clone()),
        (TARGET.to_owned(), target),
    ]);
    if !tenant.is_empty() {
        labels.insert(TENANT.to_owned(), tenant.to_owned());
    }
    labels
}

/// By what the node lists the tasks of this caller with this agent and tenant.
fn group(address: &CallContext, tenant: &str) -> TaskGroup {
    group_of(&labels(address, tenant))
}

/// Whether a task came from this caller, for this agent and tenant, through the node `me`. Tasks of other nodes have
/// labels too, those of bridges there or of anybody's making.
fn belongs(task: &v1::Task, me: &str, address: &CallContext, tenant: &str) -> bool {
    let wanted = labels(address, tenant);
    let has = |name: &str| task.metadata.get(name) == wanted.get(name);
    task.originator_peer_id == me && has(CALLER) && has(TARGET) && has(TENANT)
}

/// The task without results that are still being produced.
pub(crate) fn finished_results(mut task: v1::Task) -> v1::Task {
    task.artifacts.retain(is_finished);
    task
}

/// Whether a result is all there, if only by reference.
pub(crate) fn is_finished(artifact: &v1::Artifact) -> bool {
    !gateway::is_reference(artifact) || !artifact_chunks::is_open(artifact)
}
