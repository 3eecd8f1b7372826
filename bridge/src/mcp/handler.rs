//! Calls of tools carried out on the mesh.
//!
//! A task that began here carries labels that say so, and who asked (`gateway/labels.rs`). The one rule: a caller sees its
//! own tasks, and no others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_proto::v1;
use futures::StreamExt as _;
use rmcp::model::{CallToolResult, ContentBlock, DetailedTask};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    call::{AskArgs, ToolCall},
    counters::{CallOutcome, ToolCallCounts},
    progress::ProgressReporter,
    render,
    tasks::WaitingCall,
};
use crate::gateway::{
    ErrorKind, Gateway, GatewayError, NewTask, Target, TaskHandle, TaskQuery, contexts, idempotency, is_halt,
    is_terminal,
    labels::{CALLER, TARGET, group_of},
    read_budget::ReadBudget,
    shorten,
};

/// The value of the label that says whom a task is for: in this gateway a caller's tasks are one list.
const HERE: &str = "mcp";

/// Tasks that are waited for at once. Each takes a stream of the connection to the daemon, which has 4 096, and the other
/// gateways need some.
const WAITED_FOR: usize = 1024;

/// What the tools work on.
pub struct ToolHandler {
    gateway: Arc<dyn Gateway>,
    wait_slots: Arc<Semaphore>,
    read_budget: ReadBudget,
    pub(super) counts: Arc<ToolCallCounts>,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct McpCaller {
    /// The name under which it is known; none: it uses the daemon itself.
    pub(crate) name: Option<String>,
    /// Whether it has said who it is, or need not.
    pub(crate) is_known: bool,
    /// The trace that the call is part of: W3C's headers by name.
    pub(crate) trace: Vec<(&'static str, String)>,
}

impl McpCaller {
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
pub(super) struct CallOptions {
    /// Nobody waits for the answer any more.
    pub(super) cancelled: CancellationToken,
    /// Who is told how it goes on.
    pub(super) progress: Option<ProgressReporter>,
    /// Whether a handle is given out instead of waiting.
    pub(super) as_task: bool,
    /// The idempotency key that the client gave.
    pub(super) key: Option<String>,
    /// Memory that the call's arguments had, until they are sent on.
    pub(super) memory: Option<Box<dyn Send>>,
}

/// What came of a call.
pub(super) struct CallResult {
    pub(super) outcome: CallOutcome,
    pub(super) content: Box<CallToolResult>,
    /// The handle of a call that goes on; it is answered instead of what is shown.
    pub(super) handle: Option<Box<rmcp::model::Task>>,
}

impl From<GatewayError> for CallResult {
    fn from(error: GatewayError) -> Self {
        let outcome = match error.kind() {
            ErrorKind::TaskNotFound
            | ErrorKind::AgentNotFound
            | ErrorKind::Invalid
            | ErrorKind::Conflict
            | ErrorKind::Denied
            | ErrorKind::Unsupported => CallOutcome::Refused,
            ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Internal => CallOutcome::Error,
        };
        Self {
            outcome,
            content: Box::new(render::refused(error.to_string())),
            handle: None,
        }
    }
}

impl CallResult {
    fn ok(shown: CallToolResult) -> Self {
        Self {
            outcome: CallOutcome::Ok,
            content: Box::new(shown),
            handle: None,
        }
    }

    fn task(task: &v1::Task) -> Self {
        let outcome = if render::is_failure(task) {
            CallOutcome::TaskFailed
        } else {
            CallOutcome::Ok
        };
        Self {
            outcome,
            content: Box::new(render::task(task)),
            handle: None,
        }
    }

    fn running(task: &v1::Task) -> Self {
        Self {
            handle: Some(Box::new(WaitingCall::new(task).handle(task))),
            ..Self::task(task)
        }
    }

    /// Why nothing came of a call, for people.
    pub(super) fn reason(&self) -> String {
        let first = self.content.content.first().and_then(ContentBlock::as_text);
        first.map_or_else(String::new, |text| text.text.clone())
    }

    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self {
            outcome: CallOutcome::Refused,
            content: Box::new(render::refused(text)),
            handle: None,
        }
    }

    fn abandoned() -> Self {
        Self {
            outcome: CallOutcome::Cancelled,
            content: Box::new(render::refused(
                "nobody waits for this call any more; its task, if it began one, goes on",
            )),
            handle: None,
        }
    }
}

impl ToolHandler {
    /// On this node. How calls went is counted in `tally`.
    pub fn new(gateway: Arc<dyn Gateway>, counts: Arc<ToolCallCounts>) -> Self {
        Self {
            gateway,
            wait_slots: Arc::new(Semaphore::new(WAITED_FOR)),
            read_budget: ReadBudget::default(),
            counts,
        }
    }

    /// Carries a call out.
    pub(super) async fn carry_out(
        &self,
        caller: &McpCaller,
        call: ToolCall,
        waiting: CallOptions,
    ) -> CallResult {
        match self.result(caller, call, waiting).await {
            Ok(done) | Err(done) => done,
        }
    }

    async fn result(
        &self,
        caller: &McpCaller,
        call: ToolCall,
        waiting: CallOptions,
    ) -> Result<CallResult, CallResult> {
        match call {
            ToolCall::Discover { skill, tags, limit } => {
                let found = self.gateway.discover(&skill, &tags, limit).await?;
                Ok(CallResult::ok(render::discovered(&found)))
            }
            ToolCall::Agents(skill, limit) => {
                let mut agents = self.gateway.agents(skill.as_deref()).await?;
                let more = agents.len().saturating_sub(limit);
                agents.truncate(limit);
                Ok(CallResult::ok(render::agents(&agents, more)))
            }
            ToolCall::Skills => Ok(CallResult::ok(render::skills(&self.gateway.agents(None).await?))),
            ToolCall::Card(agent) => {
                let agent = match agent {
                    Some(agent) => agent,
                    None => self.gateway.peer_id().await?,
                };
                Ok(CallResult::ok(render::card(&self.gateway.card(&agent).await?)))
            }
            ToolCall::Ask(ask) => self.ask(caller, *ask, waiting).await,
            ToolCall::Get(id, wait) => {
                let room = self.wait_slot(wait)?;
                let (handle, task) = self.task(caller, &id).await?;
                if is_halt(task.status()) || wait.is_zero() {
                    return Ok(CallResult::task(&task));
                }
                drop(task);
                self.wait(caller, &*handle, wait, waiting, room).await
            }
            ToolCall::Reply(id, message, wait) => self.reply(caller, &id, *message, wait, waiting).await,
            ToolCall::Cancel(id) => {
                let (handle, task) = self.task(caller, &id).await?;
                let ended = || {
                    let id = shorten(&id);
                    CallResult::refused(format!("task {id} has ended; there is nothing to cancel"))
                };
                if is_terminal(task.status()) {
                    return Err(ended());
                }
                match handle.cancel().await {
                    Err(error) if error.kind() == ErrorKind::Conflict => Err(ended()),
                    task => Ok(CallResult::task(&task?)),
                }
            }
            ToolCall::List { limit, status, after } => {
                let me = self.gateway.peer_id().await?;
                let listing = TaskQuery {
                    group: group_of(&caller.labels()),
                    status,
                    limit,
                    after,
                    ..TaskQuery::default()
                };
                let mut listed = self.gateway.list(listing).await?;
                listed.tasks.retain(|task| caller.owns(task, &me));
                Ok(CallResult::ok(render::list(&listed)))
            }
        }
    }

    async fn ask(
        &self,
        caller: &McpCaller,
        ask: AskArgs,
        mut waiting: CallOptions,
    ) -> Result<CallResult, CallResult> {
        let AskArgs {
            target,
            message,
            context_id,
            wait,
        } = ask;
        // The node calls URLs with its own credentials.
        if matches!(target, Target::Url(_)) && !caller.is_known {
            return Err(CallResult::refused(
                "url is for callers who say who they are; ask by agent or skill, or come with a token",
            ));
        }
        // Before anything is sent: whoever is told that there is no room must not have begun a task.
        let room = self.wait_slot(wait)?;
        let mut labels = caller.labels();
        let mut metadata: BTreeMap<String, String> = caller
            .trace
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        let group = group_of(&labels);
        let asked_context = context_id;
        let context_id = contexts::new_context(&mut labels, &asked_context);
        metadata.extend(labels);
        let key = node_key(caller, waiting.key.as_deref())?;
        // What the task is compared with that the node names by the key.
        let said = key.is_some().then(|| (target.clone(), message.clone()));
        let outgoing = NewTask {
            target,
            message,
            context_id,
            metadata,
            group,
            note: None,
            idempotency_key: key,
        };
        let handle = self.gateway.send(outgoing).await?;
        drop(waiting.memory.take());
        if let (Some(given), Some((target, message))) = (waiting.key.as_deref(), said) {
            let fits = |task: &v1::Task| {
                (asked_context.is_empty() || asked_context == contexts::caller_context(task))
                    && is_for(task, &target)
                    && idempotency::is_same(task, &message, false)
            };
            self.check_same(caller, handle.id(), given, fits).await?;
        }
        self.wait(caller, &*handle, wait, waiting, room).await
    }

    async fn reply(
        &self,
        caller: &McpCaller,
        id: &str,
        message: v1::Message,
        wait: Duration,
        mut waiting: CallOptions,
    ) -> Result<CallResult, CallResult> {
        let room = self.wait_slot(wait)?;
        let (handle, task) = self.task(caller, id).await?;
        let id = shorten(id);
        let ended = is_terminal(task.status()).then(|| {
            let state = render::state(task.status());
            CallResult::refused(format!(
                "task {id} has ended ({state}) and takes no message; begin another with ask_agent"
            ))
        });
        drop(task);
        let key = node_key(caller, waiting.key.as_deref())?;
        // A message with a key may have been taken before the task ended.
        let ended = match (ended, &key) {
            (Some(ended), None) => return Err(ended),
            (ended, _) => ended,
        };
        let said = key.is_some().then(|| message.clone());
        match handle.reply(message, None, key).await {
            Err(error) if error.kind() == ErrorKind::Conflict && ended.is_some() => {
                Err(ended.unwrap_or_else(|| error.into()))
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Err(CallResult::refused(format!(
                "task {id} asks for nothing now; see by get_task when its state is input_required"
            ))),
            replied => {
                let named = replied?;
                drop(waiting.memory.take());
                if let (Some(given), Some(message)) = (waiting.key.as_deref(), said) {
                    let fits =
                        |task: &v1::Task| named == handle.id() && idempotency::is_same(task, &message, true);
                    self.check_same(caller, &named, given, fits).await?;
                }
                self.wait(caller, &*handle, wait, waiting, room).await
            }
        }
    }

    /// Checks that the task which the node names by a caller's key is the one that this call means.
    async fn check_same(
        &self,
        caller: &McpCaller,
        named: &str,
        given: &str,
        fits: impl Fn(&v1::Task) -> bool,
    ) -> Result<(), CallResult> {
        match self.task(caller, named).await {
            Ok((_, task)) if fits(&task) => Ok(()),
            Err(done) if done.outcome != CallOutcome::Refused => Err(done),
            // A task of another gateway is unknown here.
            _ => Err(CallResult::refused(idempotency::reused(given))),
        }
    }

    /// Room to wait for a task, if that is wanted.
    fn wait_slot(&self, wait: Duration) -> Result<Option<OwnedSemaphorePermit>, CallResult> {
        if wait.is_zero() {
            return Ok(None);
        }
        let room = Arc::clone(&self.wait_slots).try_acquire_owned();
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
        caller: &McpCaller,
        handle: &dyn TaskHandle,
        wait: Duration,
        waiting: CallOptions,
        _room: Option<OwnedSemaphorePermit>,
    ) -> Result<CallResult, CallResult> {
        let CallOptions {
            cancelled: over,
            progress,
            as_task,
            ..
        } = waiting;
        if as_task && !wait.is_zero() {
            let task = self.read_budget.read(caller.share(), handle).await?;
            let has_halted = is_halt(task.status());
            return Ok(if has_halted {
                CallResult::task(&task)
            } else {
                CallResult::running(&task)
            });
        }
        let halted = async {
            let Some(mut progress) = progress else {
                return handle.halted().await.map(Some);
            };
            let mut updates = handle.updates();
            loop {
                let update = tokio::select! {
                    biased;
                    update = updates.next() => update.transpose()?,
                    () = progress.silence() => {
                        progress.beat().await;
                        continue;
                    }
                };
                let Some(update) = update else { break };
                progress.report(&update).await;
                if is_halt(update.status) {
                    break;
                }
            }
            Ok::<_, GatewayError>(None)
        };
        let task = tokio::select! {
            biased;
            () = over.cancelled() => return Err(CallResult::abandoned()),
            halted = tokio::time::timeout(wait, halted) => halted.ok().transpose()?.flatten(),
        };
        match task {
            Some(task) => Ok(CallResult::task(&task)),
            None => Ok(CallResult::task(
                &self.read_budget.read(caller.share(), handle).await?,
            )),
        }
    }

    /// A call that this caller was given the handle of, as it stands.
    pub(super) async fn waiting_call(
        &self,
        caller: &McpCaller,
        id: &str,
    ) -> Result<DetailedTask, CallResult> {
        let (call, _, task) = self.find_call(caller, id).await?;
        Ok(call.state(&task))
    }

    /// Ends the task that such a call waits for. A call that is over stays as it is.
    pub(super) async fn cancel_call(&self, caller: &McpCaller, id: &str) -> Result<(), CallResult> {
        let (call, handle, task) = self.find_call(caller, id).await?;
        if call.is_over(&task) {
            return Ok(());
        }
        match handle.cancel().await {
            // It has ended meanwhile.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            canceled => canceled.map(drop).map_err(CallResult::from),
        }
    }

    /// The call of that id, with its task.
    pub(super) async fn find_call(
        &self,
        caller: &McpCaller,
        id: &str,
    ) -> Result<(WaitingCall, Arc<dyn TaskHandle>, v1::Task), CallResult> {
        let Some(call) = WaitingCall::parse(id) else {
            let id = shorten(id);
            return Err(CallResult::refused(format!(
                "there is no call {id} of yours; give the taskId that tools/call returned"
            )));
        };
        let (handle, task) = self.task(caller, &call.task_id).await?;
        Ok((call, handle, task))
    }

    /// A task of this caller, as it stands.
    async fn task(
        &self,
        caller: &McpCaller,
        id: &str,
    ) -> Result<(Arc<dyn TaskHandle>, v1::Task), CallResult> {
        let unknown = || {
            let id = shorten(id);
            CallResult::refused(format!(
                "there is no task {id} of yours; list_tasks shows those that there are"
            ))
        };
        let handle = self.gateway.task(id);
        let task = match self.read_budget.read(caller.share(), &*handle).await {
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

/// The node's idempotency key for the one that this caller gave.
fn node_key(caller: &McpCaller, given: Option<&str>) -> Result<Option<String>, CallResult> {
    let key = given.map(|given| idempotency::key_of(caller.share(), given));
    key.transpose().map_err(CallResult::refused)
}

/// Whether a task was sent to this target, as far as the task says.
fn is_for(task: &v1::Task, target: &Target) -> bool {
    match target {
        Target::Skill(skill) => task.target_skill_id == *skill,
        Target::Peer(peer) => {
            let is_assigned = !task.assignee_peer_id.is_empty();
            task.target_skill_id.is_empty() && (!is_assigned || task.assignee_peer_id == *peer)
        }
        Target::Url(_) | Target::Own => task.target_skill_id.is_empty(),
    }
}

#[cfg(test)]
mod tests;
