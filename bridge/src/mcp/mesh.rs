//! Calls of tools carried out on the mesh.
//!
//! A task that began here carries labels that say so, and who asked (`gateway/labels.rs`). The one rule: a caller sees its
//! own tasks, and no others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_proto::v1;
use futures::StreamExt as _;
use rmcp::model::CallToolResult;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    call::{Ask, Call},
    progress::Progress,
    shown,
    tally::{Outcome, ToolCalls},
};
use crate::gateway::{
    ErrorKind, Gateway, GatewayError, Listing, Outgoing, Target, TaskHandle, contexts, is_halt, is_terminal,
    labels::{CALLER, TARGET, group_of},
    reads::Reads,
    shorten,
};

/// The value of the label that says whom a task is for: in this gateway a caller's tasks are one list.
const HERE: &str = "mcp";

/// Tasks that are waited for at once. Each takes a stream of the connection to the daemon, which has 4 096, and the other
/// gateways need some.
const WAITED_FOR: usize = 1024;

/// What the tools work on.
pub struct Tools {
    gateway: Arc<dyn Gateway>,
    patience: Duration,
    waited_for: Arc<Semaphore>,
    reads: Reads,
    pub(super) tally: Arc<ToolCalls>,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name under which it is known; none: it uses the daemon itself.
    pub(crate) name: Option<String>,
    /// Whether it has said who it is, or need not.
    pub(crate) is_known: bool,
    /// The trace that the call is part of: W3C's headers by name.
    pub(crate) trace: Vec<(&'static str, String)>,
}

impl Caller {
    /// Whoever uses the daemon itself.
    pub(super) fn local() -> Self {
        Self {
            name: None,
            is_known: true,
            trace: Vec::new(),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(TARGET.to_owned(), HERE.to_owned())]);
        if let Some(name) = &self.name {
            labels.insert(CALLER.to_owned(), name.clone());
        }
        labels
    }

    /// Whether a task began here, by this caller, through the node `me`.
    fn owns(&self, task: &v1::Task, me: &str) -> bool {
        let labels = self.labels();
        let agrees = |name: &str| task.metadata.get(name) == labels.get(name);
        task.originator_peer_id == me && agrees(TARGET) && agrees(CALLER)
    }

    /// By what its share of memory counts.
    fn share(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// What a call does while it waits.
#[derive(Default)]
pub(super) struct Waiting {
    /// Nobody waits for the answer any more.
    pub(super) over: CancellationToken,
    /// Who is told how it goes on.
    pub(super) progress: Option<Progress>,
    /// Memory that the call's arguments had, until they are sent on.
    pub(super) held: Option<Box<dyn Send>>,
}

/// What came of a call.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) shown: Box<CallToolResult>,
}

impl From<GatewayError> for Done {
    fn from(error: GatewayError) -> Self {
        let outcome = match error.kind() {
            ErrorKind::TaskNotFound
            | ErrorKind::AgentNotFound
            | ErrorKind::Invalid
            | ErrorKind::Conflict
            | ErrorKind::Denied
            | ErrorKind::Unsupported => Outcome::Refused,
            ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Internal => Outcome::Error,
        };
        Self {
            outcome,
            shown: Box::new(shown::refused(error.to_string())),
        }
    }
}

impl Done {
    fn ok(shown: CallToolResult) -> Self {
        Self {
            outcome: Outcome::Ok,
            shown: Box::new(shown),
        }
    }

    fn task(task: &v1::Task) -> Self {
        let outcome = if shown::is_failure(task) {
            Outcome::TaskFailed
        } else {
            Outcome::Ok
        };
        let shown = Box::new(shown::task(task));
        Self { outcome, shown }
    }

    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Refused,
            shown: Box::new(shown::refused(text)),
        }
    }

    fn over() -> Self {
        Self {
            outcome: Outcome::Cancelled,
            shown: Box::new(shown::refused(
                "nobody waits for this call any more; its task, if it began one, goes on",
            )),
        }
    }
}

impl Tools {
    /// On this node. A call waits at most `patience` for its task; how calls went is counted in `tally`.
    pub fn new(gateway: Arc<dyn Gateway>, patience: Duration, tally: Arc<ToolCalls>) -> Self {
        Self {
            gateway,
            patience,
            waited_for: Arc::new(Semaphore::new(WAITED_FOR)),
            reads: Reads::default(),
            tally,
        }
    }

    /// Carries a call out.
    pub(super) async fn carry_out(&self, caller: &Caller, call: Call, waiting: Waiting) -> Done {
        match self.result(caller, call, waiting).await {
            Ok(done) | Err(done) => done,
        }
    }

    async fn result(&self, caller: &Caller, call: Call, waiting: Waiting) -> Result<Done, Done> {
        match call {
            Call::Discover { skill, tags, limit } => {
                let found = self.gateway.discover(&skill, &tags, limit).await?;
                Ok(Done::ok(shown::found(&found)))
            }
            Call::Card(agent) => {
                let agent = match agent {
                    Some(agent) => agent,
                    None => self.gateway.peer_id().await?,
                };
                Ok(Done::ok(shown::card(&self.gateway.card(&agent).await?)))
            }
            Call::Ask(ask) => self.ask(caller, *ask, waiting).await,
            Call::Get(id, wait) => {
                let room = self.room(wait)?;
                let (handle, task) = self.task(caller, &id).await?;
                if is_halt(task.status()) || wait.is_zero() {
                    return Ok(Done::task(&task));
                }
                drop(task);
                self.wait(caller, &*handle, wait, waiting, room).await
            }
            Call::Reply(id, message, wait) => self.reply(caller, &id, *message, wait, waiting).await,
            Call::Cancel(id) => {
                let (handle, task) = self.task(caller, &id).await?;
                let ended = || {
                    let id = shorten(&id);
                    Done::refused(format!("task {id} has ended; there is nothing to cancel"))
                };
                if is_terminal(task.status()) {
                    return Err(ended());
                }
                match handle.cancel().await {
                    Err(error) if error.kind() == ErrorKind::Conflict => Err(ended()),
                    task => Ok(Done::task(&task?)),
                }
            }
            Call::List { limit, status, after } => {
                let me = self.gateway.peer_id().await?;
                let listing = Listing {
                    group: group_of(&caller.labels()),
                    status,
                    limit,
                    after,
                    ..Listing::default()
                };
                let mut listed = self.gateway.list(listing).await?;
                listed.tasks.retain(|task| caller.owns(task, &me));
                Ok(Done::ok(shown::list(&listed)))
            }
        }
    }

    async fn ask(&self, caller: &Caller, ask: Ask, mut waiting: Waiting) -> Result<Done, Done> {
        let Ask {
            target,
            message,
            context_id,
            wait,
        } = ask;
        // The node calls URLs with its own credentials.
        if matches!(target, Target::Url(_)) && !caller.is_known {
            return Err(Done::refused(
                "url is for callers who say who they are; ask by agent or skill, or come with a token",
            ));
        }
        // Before anything is sent: whoever is told that there is no room must not have begun a task.
        let room = self.room(wait)?;
        let mut labels = caller.labels();
        let mut metadata: BTreeMap<String, String> = caller
            .trace
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        let group = group_of(&labels);
        let context_id = contexts::begin(&mut labels, &context_id);
        metadata.extend(labels);
        let outgoing = Outgoing {
            target,
            message,
            context_id,
            metadata,
            group,
            note: None,
            idempotency_key: None,
        };
        let handle = self.gateway.send(outgoing).await?;
        drop(waiting.held.take());
        self.wait(caller, &*handle, wait, waiting, room).await
    }

    async fn reply(
        &self,
        caller: &Caller,
        id: &str,
        message: v1::Message,
        wait: Duration,
        mut waiting: Waiting,
    ) -> Result<Done, Done> {
        let room = self.room(wait)?;
        let (handle, task) = self.task(caller, id).await?;
        let id = shorten(id);
        if is_terminal(task.status()) {
            let state = shown::state(task.status());
            return Err(Done::refused(format!(
                "task {id} has ended ({state}) and takes no message; begin another with ask_agent"
            )));
        }
        drop(task);
        match handle.reply(message, None, None).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Err(Done::refused(format!(
                "task {id} asks for nothing now; see by get_task when its state is input_required"
            ))),
            replied => {
                replied?;
                drop(waiting.held.take());
                self.wait(caller, &*handle, wait, waiting, room).await
            }
        }
    }

    /// Room to wait for a task, if that is wanted.
    fn room(&self, wait: Duration) -> Result<Option<OwnedSemaphorePermit>, Done> {
        if wait.is_zero() {
            return Ok(None);
        }
        let room = Arc::clone(&self.waited_for).try_acquire_owned();
        room.map(Some).map_err(|_| {
            GatewayError::new(
                ErrorKind::Busy,
                format!("{WAITED_FOR} tasks are being waited for, the most at once; try again, or with wait_seconds 0"),
            )
            .into()
        })
    }

    /// The task once it has come to a halt, or as it stands when the time is over.
    async fn wait(
        &self,
        caller: &Caller,
        handle: &dyn TaskHandle,
        wait: Duration,
        waiting: Waiting,
        _room: Option<OwnedSemaphorePermit>,
    ) -> Result<Done, Done> {
        let Waiting { over, progress, .. } = waiting;
        let halted = async {
            let Some(mut progress) = progress else {
                return handle.halted().await.map(Some);
            };
            let mut updates = handle.updates();
            while let Some(update) = updates.next().await {
                let update = update?;
                progress.tell(&update).await;
                if is_halt(update.status) {
                    break;
                }
            }
            Ok::<_, GatewayError>(None)
        };
        let task = tokio::select! {
            biased;
            () = over.cancelled() => return Err(Done::over()),
            halted = tokio::time::timeout(wait.min(self.patience), halted) => halted.ok().transpose()?.flatten(),
        };
        match task {
            Some(task) => Ok(Done::task(&task)),
            None => Ok(Done::task(&self.reads.of(caller.share(), handle).await?)),
        }
    }

    /// A task of this caller, as it stands.
    async fn task(&self, caller: &Caller, id: &str) -> Result<(Arc<dyn TaskHandle>, v1::Task), Done> {
        let unknown = || {
            let id = shorten(id);
            Done::refused(format!(
                "there is no task {id} of yours; list_tasks shows those that there are"
            ))
        };
        let handle = self.gateway.task(id);
        let task = match self.reads.of(caller.share(), &*handle).await {
            Err(error) if matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Invalid) => {
                return Err(unknown());
            }
            task => task?,
        };
        if !caller.owns(&task, &self.gateway.peer_id().await?) {
            return Err(unknown());
        }
        Ok((handle, task))
    }
}

#[cfg(test)]
mod tests;
