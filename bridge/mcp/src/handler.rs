//! Calls of tools carried out on the mesh.
//!
//! What a caller may see and do is the port's matter (`agentanycast_gateway::tasks`); its tasks are one list, whomever it asks.

use std::{sync::Arc, time::Duration};

use agentanycast_gateway::{
    ErrorKind, Gateway, GatewayError, Target, TaskHandle,
    caller::{Caller, CallerIdentity},
    is_halt, read_agent_card, shorten,
    tasks::{CallerMessage, CallerQuery, CallerReply, CallerTasks, GatewayTasks, OwnTask, TaskRefusal},
};
use agentanycast_proto::v1;
use futures::StreamExt as _;
use rmcp::model::{CallToolResult, ContentBlock, DetailedTask};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{
    LABELS,
    call::{AskArgs, ToolCall},
    counters::{CallOutcome, ToolCallCounts},
    progress::ProgressReporter,
    render,
    tasks::WaitingCall,
};

/// Tasks that are waited for at once. Each takes a stream of the connection to the daemon, which has 4 096, and the other
/// gateways need some.
const WAITED_FOR: usize = 1024;

/// What the tools work on.
pub struct ToolHandler {
    tasks: GatewayTasks,
    pub(super) counts: Arc<ToolCallCounts>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpCaller {
    /// Who it is to the node.
    pub(crate) identity: CallerIdentity,
    /// The trace that the call is part of: W3C's headers by name.
    pub(crate) trace: Vec<(&'static str, String)>,
}

impl McpCaller {
    /// Whoever uses the daemon itself.
    pub(super) fn local() -> Self {
        Self {
            identity: CallerIdentity::local(),
            trace: Vec::new(),
        }
    }

    /// As the port knows it: its tasks are one list, whomever it asks.
    fn caller(&self) -> Caller {
        Caller::with_one_list(LABELS, self.identity.clone())
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

impl From<TaskRefusal> for CallResult {
    fn from(refusal: TaskRefusal) -> Self {
        match refusal {
            TaskRefusal::NotFound(id) => Self::refused(format!(
                "there is no task {} of yours; list_tasks shows those that there are",
                shorten(&id)
            )),
            TaskRefusal::Ended(id, status) => Self::refused(format!(
                "task {} has ended ({}) and takes no message; begin another with ask_agent",
                shorten(&id),
                render::state(status)
            )),
            TaskRefusal::AsksNothing(id) => Self::refused(format!(
                "task {} asks for nothing now; see by get_task when its state is input_required",
                shorten(&id)
            )),
            TaskRefusal::UrlForUnknown => Self::refused(
                "url is for callers who say who they are; ask by agent or skill, or come with a token",
            ),
            TaskRefusal::TooManyFollowed(most) => GatewayError::new(
                ErrorKind::Busy,
                format!(
                    "{most} tasks are being waited for, the most at once; try again, or with wait_seconds 0"
                ),
            )
            .into(),
            TaskRefusal::Node(error) => error.into(),
            TaskRefusal::OtherContext { .. }
            | TaskRefusal::BadKey(_)
            | TaskRefusal::KeyReused(_)
            | TaskRefusal::TooLarge { .. } => Self::refused(refusal.to_string()),
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
            tasks: GatewayTasks::new(gateway, WAITED_FOR),
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
        let tasks = self.tasks.of_caller(caller.caller());
        let seen = tasks.node();
        let node = &*seen;
        match call {
            ToolCall::Discover { skill, tags, limit } => {
                let found = node.discover(&skill, &tags, limit).await?;
                Ok(CallResult::ok(render::discovered(&found)))
            }
            ToolCall::Agents(skill, limit) => {
                let mut agents = node.agents(skill.as_deref()).await?;
                let more = agents.len().saturating_sub(limit);
                agents.truncate(limit);
                Ok(CallResult::ok(render::agents(&agents, more)))
            }
            ToolCall::Skills => Ok(CallResult::ok(render::skills(&node.agents(None).await?))),
            ToolCall::Card(agent) => {
                let card = match agent {
                    // No call names a skill or URL here.
                    Target::Own | Target::Skill(_) | Target::Url(_) => {
                        node.card(&node.peer_id().await?).await
                    }
                    Target::Peer(peer) => node.card(&peer).await,
                    Target::Agent { peer, agent } => read_agent_card(node, peer.as_deref(), &agent).await,
                };
                Ok(CallResult::ok(render::card(&card?)))
            }
            ToolCall::Ask(ask) => self.ask(&tasks, caller, *ask, waiting).await,
            ToolCall::Get(id, wait) => {
                let slot = self.wait_slot(wait)?;
                let OwnTask { handle, task } = tasks.get(&id).await?;
                if is_halt(task.status()) || wait.is_zero() {
                    return Ok(CallResult::task(&task));
                }
                drop(task);
                wait_for(&tasks, &*handle, wait, waiting, slot).await
            }
            ToolCall::Reply(id, message, wait) => {
                let slot = self.wait_slot(wait)?;
                let mut waiting = waiting;
                let reply = CallerReply {
                    message: *message,
                    context: String::new(),
                    note: None,
                    key: waiting.key.clone(),
                };
                let handle = tasks.reply(&id, reply).await?;
                drop(waiting.memory.take());
                wait_for(&tasks, &*handle, wait, waiting, slot).await
            }
            ToolCall::Cancel(id) => match tasks.cancel(&id).await {
                Err(TaskRefusal::Ended(..)) => {
                    let id = shorten(&id);
                    Err(CallResult::refused(format!(
                        "task {id} has ended; there is nothing to cancel"
                    )))
                }
                task => Ok(CallResult::task(&task?)),
            },
            ToolCall::List { limit, status, after } => {
                let query = CallerQuery {
                    status,
                    limit,
                    after,
                    ..CallerQuery::default()
                };
                Ok(CallResult::ok(render::list(&tasks.list(query).await?)))
            }
        }
    }

    async fn ask(
        &self,
        tasks: &CallerTasks<'_>,
        caller: &McpCaller,
        ask: AskArgs,
        mut waiting: CallOptions,
    ) -> Result<CallResult, CallResult> {
        // The node calls URLs with its own credentials.
        if matches!(ask.target, Target::Url(_)) && !tasks.caller().is_known() {
            return Err(TaskRefusal::UrlForUnknown.into());
        }
        // Before anything is sent: whoever is told that there is no room must not have begun a task.
        let slot = self.wait_slot(ask.wait)?;
        let message = CallerMessage {
            context: ask.context_id,
            trace: caller.trace.clone(),
            key: waiting.key.clone(),
            ..CallerMessage::new(ask.target, ask.message)
        };
        let handle = tasks.send(message).await?;
        drop(waiting.memory.take());
        wait_for(tasks, &*handle, ask.wait, waiting, slot).await
    }

    /// Room to wait for a task, if that is wanted.
    fn wait_slot(&self, wait: Duration) -> Result<Option<OwnedSemaphorePermit>, CallResult> {
        if wait.is_zero() {
            return Ok(None);
        }
        Ok(Some(self.tasks.follow_slot()?))
    }

    /// A call that this caller was given the handle of, as it stands.
    pub(super) async fn waiting_call(
        &self,
        caller: &McpCaller,
        id: &str,
    ) -> Result<DetailedTask, CallResult> {
        let (call, own) = self.find_call(caller, id).await?;
        Ok(call.state(&own.task))
    }

    /// Ends the task that such a call waits for. A call that is over stays as it is.
    pub(super) async fn cancel_call(&self, caller: &McpCaller, id: &str) -> Result<(), CallResult> {
        let (call, own) = self.find_call(caller, id).await?;
        if call.is_over(&own.task) {
            return Ok(());
        }
        match own.handle.cancel().await {
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
    ) -> Result<(WaitingCall, OwnTask), CallResult> {
        let Some(call) = WaitingCall::parse(id) else {
            let id = shorten(id);
            return Err(CallResult::refused(format!(
                "there is no call {id} of yours; give the taskId that tools/call returned"
            )));
        };
        let own = self.tasks.of_caller(caller.caller()).get(&call.task_id).await?;
        Ok((call, own))
    }
}

/// The task once it has come to a halt, or as it stands when the time is over.
async fn wait_for(
    tasks: &CallerTasks<'_>,
    handle: &dyn TaskHandle,
    wait: Duration,
    waiting: CallOptions,
    _slot: Option<OwnedSemaphorePermit>,
) -> Result<CallResult, CallResult> {
    let CallOptions {
        cancelled: over,
        progress,
        as_task,
        ..
    } = waiting;
    if as_task && !wait.is_zero() {
        let task = tasks.read(handle).await?;
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
        None => Ok(CallResult::task(&tasks.read(handle).await?)),
    }
}

#[cfg(test)]
mod tests;
