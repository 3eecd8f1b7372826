//! Serving tasks: one loop reads what the daemon hands over, keeps the board of open tasks, and runs
//! handlers up to a bound. The loop never waits for a handler, so that cancels and answers always
//! reach the ones that run; after a lost connection it asks how each open task stands.

use std::{
    fmt,
    future::{Future, IntoFuture},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use agentanycast_proto::v1;
use futures::{FutureExt, StreamExt};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, ErrorKind},
    node::Node,
    task::TaskStatus,
    task_handle::get_task,
};

mod artifact_writer;
mod claim;
mod incoming_task;
mod open_tasks;
mod resumed;
mod subscription;
mod task_claim;
mod task_inbox;
mod task_reports;
#[cfg(test)]
mod tests;

pub use artifact_writer::ArtifactWriter;
use claim::DelayedClaims;
pub use incoming_task::{HandlerError, IncomingTask};
use open_tasks::{DeliveredTask, OpenTasks, QueuedTask, RunOutcome};
use resumed::{ResumeQueue, ResumedTask};
use subscription::{ServedAgent, SubscriptionEvent};
use task_inbox::TaskInbox;

/// Unless told otherwise, how many handlers run at once. Handlers mostly wait for models and tools.
const DEFAULT_CONCURRENCY: usize = 64;

/// Unless told otherwise, how long running handlers may finish after the shutdown was asked for.
const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// How long the tasks of aborted handlers may take to be ended as failed.
const FAIL_ABORTED_LIMIT: Duration = Duration::from_secs(3);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler = dyn Fn(IncomingTask) -> BoxFuture<Result<(), HandlerError>> + Send + Sync;

/// Serves tasks; made by [`Node::serve`], started by `.await`.
///
/// Each task is claimed before its handler runs: of several processes on one daemon one gets it. (A process that is the
/// only one begins meanwhile, when it gets a task for the first time.) A handler that returns an error, panics, or returns without having ended its task ends the task as
/// failed. Dropping the future aborts the handlers.
///
/// ```no_run
/// # async fn run(node: agentanycast::Node) -> Result<(), agentanycast::Error> {
/// use agentanycast::Artifact;
///
/// node.serve(|task| async move {
///     task.working("reading").await?;
///     task.complete([Artifact::text(task.message().text_content())]).await?;
///     Ok(())
/// })
/// .concurrency(8)
/// .await
/// # }
/// ```
#[must_use = "nothing is served before this is awaited"]
pub struct Serve {
    node: Node,
    /// As which agent; None: as that of the card that was set.
    agent: Option<ServedAgent>,
    handler: Arc<Handler>,
    concurrency: usize,
    permits: Option<Arc<Semaphore>>,
    resumed: Vec<String>,
    until: CancellationToken,
    drain: Duration,
    patience: Option<Duration>,
}

impl Node {
    /// Serves tasks with `handler`, see [`Serve`].
    pub fn serve<H, F>(&self, handler: H) -> Serve
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Serve::new(self.clone(), handler)
    }
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl Serve {
    pub(crate) fn new<H, F>(node: Node, handler: H) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self {
            node,
            agent: None,
            handler: Arc::new(move |task| Box::pin(handler(task))),
            concurrency: DEFAULT_CONCURRENCY,
            permits: None,
            resumed: Vec::new(),
            until: CancellationToken::new(),
            drain: DEFAULT_DRAIN,
            patience: None,
        }
    }

    pub(crate) fn for_agent(
        mut self,
        registration: v1::RegisterAgentRequest,
        program: Option<v1::AgentProgram>,
    ) -> Self {
        self.agent = Some(ServedAgent {
            registration,
            program,
        });
        self
    }

    /// How many handlers run at once, at least 1; default 64. Further tasks wait, unclaimed; their senders take turns.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers.max(1);
        self
    }

    /// Each task takes a permit of `permits` before it is claimed, and uses it up when its handler starts. So a task is
    /// claimed only when the program has asked for one. Default: a task needs no permit.
    pub fn permits(mut self, permits: Arc<Semaphore>) -> Self {
        self.permits = Some(permits);
        self
    }

    /// Tasks of an earlier process of this agent, which it claimed and did not end. They are claimed again and handled
    /// first, without permits. One that another process has is asked for 10 s; one that has ended is left out.
    pub fn resume(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        self.resumed.extend(ids);
        self
    }

    /// Stops when the token is cancelled: no new task is taken, running handlers may finish within the
    /// drain time (see [`Serve::drain`]), then the future resolves.
    pub fn until(mut self, shutdown: CancellationToken) -> Self {
        self.until = shutdown;
        self
    }

    /// How long running handlers may finish after the shutdown was asked for; default 30 s. The tasks
    /// of handlers that do not finish end as failed.
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Gives up, with kind `DaemonUnavailable`, when the daemon has been away for this long. Default:
    /// never, a service outlives its daemon's upgrade.
    pub fn give_up_after(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    async fn run(mut self) -> Result<(), Error> {
        let mut feed =
            subscription::subscribe_with_retries(self.node.clone(), self.agent.clone(), self.patience);
        // Also when this future is dropped, and after the farewell, which needs claims.
        let closed = CancellationToken::new();
        let _until_closed = closed.clone().drop_guard();
        let mut board = OpenTasks::new(closed);
        let mut running: JoinSet<(String, RunOutcome)> = JoinSet::new();
        let mut syncing: JoinSet<()> = JoinSet::new();
        let mut resumed = ResumeQueue::new(std::mem::take(&mut self.resumed));
        let mut begun = DelayedClaims::new(self.node.clone());
        let mut stop_at: Option<Instant> = None;
        loop {
            while stop_at.is_none()
                && running.len() + resumed.under_way() < self.concurrency
                && resumed.begin_next(&self.node)
            {}
            while stop_at.is_none() && running.len() < self.concurrency && board.has_waiting() {
                let Ok(permit) = self.take_permit() else { break };
                let Some((waiting, conversation)) = board.start_next() else {
                    break;
                };
                begun.push(waiting.id.clone(), Arc::clone(&conversation));
                let (node, handler) = (self.node.clone(), Arc::clone(&self.handler));
                running.spawn(async move {
                    let id = waiting.id.clone();
                    let outcome = run_one(node, handler, waiting, conversation, permit).await;
                    (id, outcome)
                });
            }
            if stop_at.is_some() && running.is_empty() {
                return Ok(());
            }
            // The stream stays open for what follows on the tasks that run: others are to have the rest.
            while stop_at.is_some()
                && let Some(id) = board.pass_on()
            {
                let node = self.node.clone();
                syncing.spawn(async move { task_reports::pass_on(&node, &id).await });
            }
            tokio::select! {
                biased;
                () = self.until.cancelled(), if stop_at.is_none() => stop_at = Some(Instant::now() + self.drain),
                () = sleep_until_or_forever(stop_at) => {
                    running.shutdown().await;
                    return self.fail_aborted(&board).await;
                }
                Some(done) = running.join_next() => match done {
                    Ok((id, outcome)) => board.finish(&id, outcome),
                    Err(error) => tracing::error!(%error, "a task's runner ended unexpectedly"),
                },
                Some(taken) = resumed.next(), if stop_at.is_none() => {
                    if let Some(task) = taken.filter(|task| board.open_resumed(task.incoming.id(), &task.inbox)) {
                        running.spawn(run_resumed(self.node.clone(), Arc::clone(&self.handler), task));
                    }
                }
                Some(_) = syncing.join_next() => {}
                () = begun.claim() => {}
                () = self.permit_available(), if stop_at.is_none() && running.len() < self.concurrency && board.has_waiting() => {}
                handed = feed.next() => match handed {
                    Some(Ok(SubscriptionEvent::Task(handed))) => {
                        if let Some(refused) = board.deliver(handed) {
                            let (node, conversation) = (self.node.clone(), board.inbox_of_refused());
                            syncing.spawn(async move {
                                fail(&node, &refused, &conversation, open_tasks::TOO_MANY_WAITING).await;
                            });
                        }
                    }
                    Some(Ok(SubscriptionEvent::Lost)) => board.mark_shared(),
                    // What happened to the open tasks while nobody listened has to be asked for.
                    Some(Ok(SubscriptionEvent::Resumed)) => {
                        for (id, conversation) in board.open() {
                            let node = self.node.clone();
                            syncing.spawn(async move { catch_up(&node, &id, &conversation).await });
                        }
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Err(self.node.session().unavailable()),
                },
            }
        }
    }

    /// A permit for one task; `None`: it needs none. Fails while there is no permit.
    fn take_permit(&self) -> Result<Option<OwnedSemaphorePermit>, tokio::sync::TryAcquireError> {
        let permits = self.permits.as_ref();
        permits
            .map(|permits| Arc::clone(permits).try_acquire_owned())
            .transpose()
    }

    /// Resolves when there is a permit, which stays there; never, where tasks need none or the semaphore is closed.
    async fn permit_available(&self) {
        if let Some(permits) = &self.permits
            && permits.acquire().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Ends the tasks whose handlers were aborted.
    async fn fail_aborted(&self, board: &OpenTasks) -> Result<(), Error> {
        let open = board
            .open()
            .into_iter()
            .filter(|(_, conversation)| !conversation.is_over());
        let calls = open.map(|(id, conversation)| {
            let node = self.node.clone();
            async move { fail(&node, &id, &conversation, "the agent is shutting down").await }
        });
        if tokio::time::timeout(FAIL_ABORTED_LIMIT, futures::future::join_all(calls))
            .await
            .is_err()
        {
            tracing::warn!("not all tasks of aborted handlers could be ended in time");
        }
        Ok(())
    }
}

impl IntoFuture for Serve {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

async fn sleep_until_or_forever(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Claims a task, runs its handler, and sees to it that the task ends.
async fn run_one(
    node: Node,
    handler: Arc<Handler>,
    waiting: QueuedTask,
    conversation: Arc<TaskInbox>,
    permit: Option<OwnedSemaphorePermit>,
) -> RunOutcome {
    let _over = conversation.claim().handler_guard();
    if !conversation.claim().is_exclusive(&node)
        && let Err(error) = Box::pin(claim::make(&conversation, &node, &waiting.id)).await
    {
        tracing::debug!(task = waiting.id, %error, "the task was not claimed");
        return RunOutcome::NotStarted;
    }
    handle(&node, &*handler, waiting, &conversation, permit).await
}

/// Runs the handler of a task that an earlier process began.
async fn run_resumed(node: Node, handler: Arc<Handler>, task: ResumedTask) -> (String, RunOutcome) {
    let id = task.incoming.id().to_owned();
    let _over = task.inbox.claim().handler_guard();
    let outcome = run_handler(&node, &*handler, task.incoming, &task.inbox).await;
    (id, outcome)
}

/// Runs the handler of a task, once it is read.
async fn handle(
    node: &Node,
    handler: &Handler,
    waiting: QueuedTask,
    conversation: &Arc<TaskInbox>,
    permit: Option<OwnedSemaphorePermit>,
) -> RunOutcome {
    let id = waiting.id.clone();
    let given = match load_task(node, waiting).await {
        Ok(given) => given,
        Err(error) => {
            let reason = format!("the agent could not read the task: {error}");
            return Box::pin(fail(node, &id, conversation, &reason)).await;
        }
    };
    conversation.open_with(&given.task);
    let incoming = IncomingTask::new(node.clone(), given, Arc::clone(conversation));
    // A task that did not come to its handler leaves its permit to the next one.
    if let Some(permit) = permit {
        permit.forget();
    }
    run_handler(node, handler, incoming, conversation).await
}

/// Runs the handler of a task, and sees to it that the task ends.
async fn run_handler(
    node: &Node,
    handler: &Handler,
    incoming: IncomingTask,
    conversation: &Arc<TaskInbox>,
) -> RunOutcome {
    let id = incoming.id().to_owned();
    let outcome = AssertUnwindSafe(async move { handler(incoming).await })
        .catch_unwind()
        .await;
    let reason = match outcome {
        Ok(Ok(())) => "handler returned without completing the task".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("handler panicked: {}", panic_text(panic.as_ref())),
    };
    if conversation.is_lost() {
        tracing::warn!(
            task = id,
            "the daemon lost the task before it was durable; if it comes again it begins anew"
        );
        return RunOutcome::NotStarted;
    }
    if conversation.is_given_back() {
        return RunOutcome::NotStarted;
    }
    if conversation.is_over() || conversation.is_left() {
        return RunOutcome::Over;
    }
    tracing::warn!(task = id, reason, "the task fails");
    Box::pin(fail(node, &id, conversation, &reason)).await
}

/// Fails a task, unless it is another's.
async fn fail(node: &Node, id: &str, conversation: &Arc<TaskInbox>, reason: &str) -> RunOutcome {
    let Err(error) = claim::end(conversation, node, task_reports::fail(id, reason)).await else {
        return RunOutcome::Over;
    };
    // If it is a conflict somebody else has it, or was quicker to end it.
    if error.kind() != ErrorKind::Conflict {
        tracing::warn!(task = id, %error, "the task could not be ended as failed");
    }
    RunOutcome::from_error(&error)
}

/// The task with all it holds: what was kept while it waited, or else asked for now.
async fn load_task(node: &Node, waiting: QueuedTask) -> Result<Box<DeliveredTask>, Error> {
    match waiting.held {
        Some(held) => Ok(held),
        None => Box::pin(fetch_task(node, &waiting.id)).await,
    }
}

async fn fetch_task(node: &Node, id: &str) -> Result<Box<DeliveredTask>, Error> {
    let task = get_task(node, id).await?;
    let card = match &task.originator {
        Some(peer) => node.card_of(peer).await.ok(),
        None => None,
    };
    Ok(Box::new(DeliveredTask {
        task,
        sender_card: card,
        exclusive_since: None,
    }))
}

/// Brings an open task up to date after the connection was lost.
async fn catch_up(node: &Node, id: &str, conversation: &TaskInbox) {
    match get_task(node, id).await {
        Ok(task) => {
            conversation.update(&task);
            if matches!(task.status, TaskStatus::Working | TaskStatus::InputRequired)
                && conversation.claim().is_held()
                && let Err(error) = resumed::claim_again(node, &task).await
            {
                // Another agent may have the task, or it has ended: the handler's end tells which.
                tracing::debug!(task = id, %error, "the task could not be claimed on the new connection");
            }
        }
        Err(error) if error.kind() == ErrorKind::TaskNotFound => {
            conversation.mark_lost();
            conversation.cancel();
        }
        Err(error) => tracing::warn!(task = id, %error, "how the task stands could not be learnt"),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
