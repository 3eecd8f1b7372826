//! A caller's own view of tasks, the same for every gateway: what it sends, reads, lists, follows, answers and cancels is what
//! it began itself, and nothing else is there for it.
//!
//! What is refused is a [`TaskRefusal`], which a gateway says in the words of its protocol.

mod awaited_task;

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::v1;
use futures::{StreamExt as _, stream::BoxStream};
use prost::Message as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    ErrorKind, Gateway, GatewayError, NewTask, Target, TaskHandle, TaskListing, TaskQuery, Update,
    caller::{Caller, CallerIdentity},
    idempotency, is_terminal,
    labels::{CALLER, CONTEXT, STRANGER, TARGET},
    read_budget::ReadBudget,
    shorten,
    strangers_node::StrangersNode,
};

pub use awaited_task::AwaitedTask;

/// What a message, with what it comes with, may have on its way to another node, in bytes: that of nodes.
const MOST: usize = (16 << 20) - 1024;

/// What a label has besides its name and value at most, and a message besides itself and its labels: ids.
const LABEL: usize = 16;
const BESIDES: usize = 256;

/// Why nothing came of what a caller asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefusal {
    /// There is no such task of this caller.
    #[error("there is no task {}", shorten(.0))]
    NotFound(String),
    /// The task has ended, so it is not cancelled and takes no message.
    #[error("task {} has ended", shorten(.0))]
    Ended(String, v1::TaskStatus),
    /// The task asks for nothing now, so it takes no message.
    #[error("task {} asks for nothing now, so it takes no message", shorten(.0))]
    AsksNothing(String),
    /// A message for a task that is of another conversation.
    #[error("task {} belongs to the conversation {context}", shorten(id))]
    OtherContext {
        /// The task.
        id: String,
        /// Its conversation, as its caller calls it.
        context: String,
    },
    /// No idempotency key is like this.
    #[error("{0}")]
    BadKey(String),
    /// The idempotency key named another message before.
    #[error("{}", idempotency::reused(.0))]
    KeyReused(String),
    /// No node passes such a message on.
    #[error(
        "the message takes {takes} bytes with the task's labels, the limit is {most}; send large content by its URL"
    )]
    TooLarge {
        /// So many bytes.
        takes: usize,
        /// The most.
        most: usize,
    },
    /// URLs are called with the node's credentials, so only for callers that say who they are.
    #[error("agents by URL are for callers who say who they are")]
    UrlForUnknown,
    /// So many tasks are being followed and waited for, the most at once.
    #[error("{0} tasks are being followed, the most at once; try again later")]
    TooManyFollowed(usize),
    /// The node says no.
    #[error(transparent)]
    Node(#[from] GatewayError),
}

/// A message that begins a task, as a caller gives it.
#[derive(Clone, Debug)]
pub struct CallerMessage {
    /// Whom it is for.
    pub target: Target,
    /// What is said.
    pub message: v1::Message,
    /// What the caller calls the conversation; empty: a new one.
    pub context: String,
    /// Labels that it gives the task.
    pub labels: BTreeMap<String, String>,
    /// Labels of the gateway's own, besides those of the caller.
    pub gateway_labels: BTreeMap<String, String>,
    /// The trace that it is part of (W3C Trace Context): its headers by name.
    pub trace: Vec<(&'static str, String)>,
    /// What is to be remembered about the task.
    pub note: Option<v1::TaskNote>,
    /// The idempotency key, as it was given.
    pub key: Option<String>,
}

impl CallerMessage {
    /// With nothing besides: a new conversation.
    pub fn new(target: Target, message: v1::Message) -> Self {
        Self {
            target,
            message,
            context: String::new(),
            labels: BTreeMap::new(),
            gateway_labels: BTreeMap::new(),
            trace: Vec::new(),
            note: None,
            key: None,
        }
    }
}

/// A further message for a task, as a caller gives it.
#[derive(Clone, Debug)]
pub struct CallerReply {
    /// What is said.
    pub message: v1::Message,
    /// What the caller calls the conversation; empty: that of the task.
    pub context: String,
    /// What is to be remembered about the task.
    pub note: Option<v1::TaskNote>,
    /// The idempotency key, as it was given.
    pub key: Option<String>,
}

/// Which of its tasks a caller wants listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerQuery {
    /// Of the conversation that it calls so; empty: any.
    pub context: String,
    /// In this state.
    pub status: Option<v1::TaskStatus>,
    /// Changed after this, Unix time in milliseconds.
    pub changed_after: Option<u64>,
    /// At most so many.
    pub limit: usize,
    /// Behind this place, as [`TaskQuery::after`].
    pub after: String,
}

/// A task of a caller as it was read, and how to reach it.
pub struct OwnTask {
    /// How to reach it.
    pub handle: Arc<dyn TaskHandle>,
    /// As it stood.
    pub task: v1::Task,
}

/// The tasks of one gateway's callers.
pub struct GatewayTasks {
    node: Arc<dyn Gateway>,
    read_budget: Arc<ReadBudget>,
    follow_slots: Arc<Semaphore>,
    most_followed: usize,
}

impl GatewayTasks {
    /// On this node; at most so many tasks are followed and waited for at once.
    pub fn new(node: Arc<dyn Gateway>, most_followed: usize) -> Self {
        Self {
            node,
            read_budget: Arc::default(),
            follow_slots: Arc::new(Semaphore::new(most_followed)),
            most_followed,
        }
    }

    /// The node.
    pub fn node(&self) -> &Arc<dyn Gateway> {
        &self.node
    }

    /// The node, as this caller may see it.
    pub fn node_for(&self, identity: &CallerIdentity) -> Arc<dyn Gateway> {
        if identity.is_stranger() {
            Arc::new(StrangersNode::new(Arc::clone(&self.node)))
        } else {
            Arc::clone(&self.node)
        }
    }

    /// Those of this caller.
    pub fn of_caller(&self, caller: Caller) -> CallerTasks<'_> {
        CallerTasks { shared: self, caller }
    }

    /// Room to follow a task or to wait for it. Taken before anything is sent: whoever is told that there is no room must
    /// not have begun a task.
    ///
    /// # Errors
    /// When there is none.
    pub fn follow_slot(&self) -> Result<OwnedSemaphorePermit, TaskRefusal> {
        let slot = Arc::clone(&self.follow_slots).try_acquire_owned();
        slot.map_err(|_| TaskRefusal::TooManyFollowed(self.most_followed))
    }
}

/// Reads tasks of one caller, within its share of memory. Cheap to clone.
#[derive(Clone)]
pub struct TaskReader {
    budget: Arc<ReadBudget>,
    share: String,
}

impl TaskReader {
    /// A task as it stands.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn read(&self, handle: &dyn TaskHandle) -> Result<v1::Task, GatewayError> {
        self.budget.read(&self.share, handle).await
    }
}

/// The tasks of one caller.
pub struct CallerTasks<'a> {
    shared: &'a GatewayTasks,
    caller: Caller,
}

impl CallerTasks<'_> {
    /// Whose they are.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The node, as this caller may see it.
    pub fn node(&self) -> Arc<dyn Gateway> {
        self.shared.node_for(self.caller.identity())
    }

    /// Reads tasks for as long as a stream goes on.
    pub fn reader(&self) -> TaskReader {
        TaskReader {
            budget: Arc::clone(&self.shared.read_budget),
            share: self.caller.share().to_owned(),
        }
    }

    /// A task that is known to be the caller's, as it stands.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn read(&self, handle: &dyn TaskHandle) -> Result<v1::Task, GatewayError> {
        self.shared.read_budget.read(self.caller.share(), handle).await
    }

    /// A task of this caller, as it stands.
    ///
    /// # Errors
    /// [`TaskRefusal::NotFound`] for those of others, too.
    pub async fn get(&self, id: &str) -> Result<OwnTask, TaskRefusal> {
        let handle = self.shared.node.task(id);
        let task = match self.read(&*handle).await {
            Err(error) if matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Invalid) => {
                return Err(TaskRefusal::NotFound(id.to_owned()));
            }
            task => task?,
        };
        if !self.caller.owns(&task, &self.shared.node.peer_id().await?) {
            return Err(TaskRefusal::NotFound(id.to_owned()));
        }
        Ok(OwnTask { handle, task })
    }

    /// Begins a task. It is durable when this returns.
    ///
    /// # Errors
    /// Why it was not begun; with an idempotency key, also that this named another message before.
    pub async fn send(&self, sent: CallerMessage) -> Result<Arc<dyn TaskHandle>, TaskRefusal> {
        if matches!(sent.target, Target::Url(_)) && !self.caller.is_known() {
            return Err(TaskRefusal::UrlForUnknown);
        }
        let mut metadata = sent.labels;
        self.caller.remove_reserved(&mut metadata);
        let mut own = self.caller.labels();
        let context_id = self.caller.new_context(&mut own, &sent.context);
        metadata.extend(own);
        for (name, value) in sent.trace {
            // What the caller says in so many words stands.
            metadata.entry(name.to_owned()).or_insert(value);
        }
        metadata.extend(sent.gateway_labels);
        let is_for_peer = match &sent.target {
            Target::Peer(_) | Target::Skill(_) => true,
            Target::Agent { peer, .. } => peer.is_some(),
            Target::Own | Target::Url(_) => false,
        };
        if is_for_peer {
            check_size(&metadata, &sent.message)?;
        }
        let key = self.node_key(sent.key.as_deref())?;
        // What the task is compared with that the node names by the key.
        let said = key.is_some().then(|| (sent.target.clone(), sent.message.clone()));
        let outgoing = NewTask {
            target: sent.target,
            message: sent.message,
            context_id,
            metadata,
            group: self.caller.group(),
            note: sent.note,
            idempotency_key: key,
        };
        let handle = self.shared.node.send(outgoing).await?;
        if let (Some(given), Some((target, message))) = (&sent.key, said) {
            let fits = |task: &v1::Task| {
                self.is_of_context(task, &sent.context)
                    && (self.caller.is_per_agent() || is_for(task, &target))
                    && idempotency::is_same(task, &message, false)
            };
            self.check_same(handle.id(), given, fits).await?;
        }
        Ok(handle)
    }

    /// Sends a further message for a task that asks for one.
    ///
    /// # Errors
    /// Why it was not sent; with an idempotency key, also that this named another message before.
    pub async fn reply(&self, id: &str, reply: CallerReply) -> Result<Arc<dyn TaskHandle>, TaskRefusal> {
        let OwnTask { handle, task } = self.get(id).await?;
        if !self.is_of_context(&task, &reply.context) {
            let context = self.caller.gateway_labels().context_of(&task).to_owned();
            return Err(TaskRefusal::OtherContext {
                id: task.task_id,
                context,
            });
        }
        let key = self.node_key(reply.key.as_deref())?;
        let status = task.status();
        // A message with a key may have been taken before the task ended.
        if is_terminal(status) && key.is_none() {
            return Err(TaskRefusal::Ended(task.task_id, status));
        }
        let is_assigned_to_peer =
            !task.assignee_peer_id.is_empty() && task.assignee_peer_id != task.originator_peer_id;
        if is_assigned_to_peer || !task.target_skill_id.is_empty() {
            check_size(&task.metadata, &reply.message)?;
        }
        let task_id = task.task_id;
        let said = key.is_some().then(|| reply.message.clone());
        let named = match handle.reply(reply.message, reply.note, key).await {
            Err(error) if error.kind() == ErrorKind::Conflict && is_terminal(status) => {
                return Err(TaskRefusal::Ended(task_id, status));
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                return Err(TaskRefusal::AsksNothing(task_id));
            }
            named => named?,
        };
        if let (Some(given), Some(message)) = (&reply.key, said) {
            let fits = |task: &v1::Task| named == handle.id() && idempotency::is_same(task, &message, true);
            self.check_same(&named, given, fits).await?;
        }
        Ok(handle)
    }

    /// Ends a task of this caller.
    ///
    /// # Errors
    /// [`TaskRefusal::Ended`] if it has.
    pub async fn cancel(&self, id: &str) -> Result<v1::Task, TaskRefusal> {
        let OwnTask { handle, task } = self.get(id).await?;
        let ended = |status| TaskRefusal::Ended(task.task_id.clone(), status);
        if is_terminal(task.status()) {
            return Err(ended(task.status()));
        }
        match handle.cancel().await {
            Err(error) if error.kind() == ErrorKind::Conflict => Err(ended(task.status())),
            canceled => Ok(canceled?),
        }
    }

    /// A page of the caller's tasks, without their messages and artifacts.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn list(&self, query: CallerQuery) -> Result<TaskListing, GatewayError> {
        let me = self.shared.node.peer_id().await?;
        let context_id = match query.context.as_str() {
            "" => String::new(),
            name => self.caller.mesh_context(name),
        };
        let query = TaskQuery {
            group: self.caller.group(),
            context_id,
            status: query.status,
            changed_after: query.changed_after,
            limit: query.limit,
            after: query.after,
        };
        let mut listed = self.shared.node.list(query).await?;
        listed.tasks.retain(|task| self.caller.owns(task, &me));
        Ok(listed)
    }

    /// What changes of a task, and the task as it stands.
    ///
    /// First the updates, then the task: what happens between is in both, and nothing in neither. The first update is the
    /// state that the task had before it is read, and is no news to its reader: a task that has been answered meanwhile does
    /// not ask again.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn follow(
        &self,
        handle: &dyn TaskHandle,
    ) -> Result<(BoxStream<'static, Result<Update, GatewayError>>, v1::Task), GatewayError> {
        let mut updates = handle.updates();
        updates.next().await.transpose()?;
        let task = self.read(handle).await?;
        Ok((updates, task))
    }

    /// The task once it has ended or asks for something, or as it stands at `until`. `_slot` was taken before the
    /// message was sent.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn halted(
        &self,
        handle: &dyn TaskHandle,
        _slot: OwnedSemaphorePermit,
        until: Instant,
    ) -> Result<v1::Task, GatewayError> {
        match tokio::time::timeout_at(until, handle.halted()).await {
            Ok(halted) => halted,
            Err(_) => self.read(handle).await,
        }
    }

    fn is_of_context(&self, task: &v1::Task, context: &str) -> bool {
        context.is_empty() || context == self.caller.gateway_labels().context_of(task)
    }

    /// The node's idempotency key for the one that this caller gave.
    fn node_key(&self, given: Option<&str>) -> Result<Option<String>, TaskRefusal> {
        let key = given.map(|given| idempotency::key_of(self.caller.key_owner(), given));
        key.transpose().map_err(TaskRefusal::BadKey)
    }

    /// Checks that the task which the node names by the caller's key is the one that this message belongs to.
    async fn check_same(
        &self,
        named: &str,
        given: &str,
        fits: impl Fn(&v1::Task) -> bool,
    ) -> Result<(), TaskRefusal> {
        match self.get(named).await {
            Ok(known) if fits(&known.task) => Ok(()),
            // A task of another agent, caller or gateway is unknown here.
            Ok(_) | Err(TaskRefusal::NotFound(_)) => Err(TaskRefusal::KeyReused(given.to_owned())),
            Err(refusal) => Err(refusal),
        }
    }
}

/// Refuses a message that no node can pass on to another one, however long its sender waits; nodes say so as of any bound.
fn check_size(labels: &BTreeMap<String, String>, message: &v1::Message) -> Result<(), TaskRefusal> {
    let told = labels
        .iter()
        .filter(|(name, _)| ![CALLER, CONTEXT, STRANGER, TARGET].contains(&name.as_str()));
    let labels: usize = told.map(|(name, value)| name.len() + value.len() + LABEL).sum();
    let takes = message.encoded_len() + labels + BESIDES;
    if takes > MOST {
        return Err(TaskRefusal::TooLarge { takes, most: MOST });
    }
    Ok(())
}

/// Whether a task was sent to this target, as far as the task says.
fn is_for(task: &v1::Task, target: &Target) -> bool {
    let is_of_peer = |peer: &str| {
        let assignee = task.assignee_peer_id.as_str();
        task.target_skill_id.is_empty() && (assignee.is_empty() || assignee == peer)
    };
    let is_own = |peer: &str| peer == task.originator_peer_id;
    match target {
        Target::Skill(skill) => task.target_skill_id == *skill,
        // This node writes with its own tasks which of its agents has them, and no name for its primary one.
        Target::Peer(peer) => is_of_peer(peer) && (task.agent.is_empty() || is_own(peer)),
        Target::Agent { peer, agent } => {
            let is_own = peer.as_deref().is_none_or(is_own);
            peer.as_deref().is_none_or(is_of_peer)
                && task.target_skill_id.is_empty()
                && (task.agent == *agent || is_own && task.agent.is_empty())
        }
        Target::Url(_) | Target::Own => task.target_skill_id.is_empty(),
    }
}

#[cfg(all(test, feature = "fake"))]
mod tests;
