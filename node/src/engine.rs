//! The engine: the one authority over tasks.
//!
//! [`state`] decides; this file is the shell around it: one task that feeds inputs to the core in
//! order, hands each turn's batch to the store's writer, and lets the turn's answer and effects out
//! once the batch is durable, in the order of the turns. Nobody is told anything before that.

mod ack_outcome;
mod acks;
mod actor;
mod admission;
mod agent_commands;
mod applied;
mod artifacts;
mod attempts;
mod audit_gate;
mod capacity;
mod claim_debounce;
pub(crate) mod client_commands;
mod counters;
mod dispatcher;
mod durable_clock;
mod external;
mod failover;
mod idempotency;
mod inbound;
mod inspection;
mod invites;
mod listing;
mod log;
mod mem_size;
mod note_watch;
mod notes;
mod outbound;
mod outbound_queue;
mod peer_gc;
mod peer_store;
mod pending_identity;
mod refusals;
mod refused_tasks;
mod reject;
mod schema;
mod sealing;
mod spans;
pub mod state;
mod stream_writer;
mod subscriptions;
mod succession;
mod successors;
mod task_layout;
mod task_subscribers;
mod task_table;
mod task_time;
mod timers;
mod trace_context;
mod transaction;
mod unproven;
pub mod wire;

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, Artifact, Message, StreamStart};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::client_commands::SEALED_NEEDS_URL;
pub use self::{
    actor::{EngineParts, EngineStartError, LoadedEngine, start},
    agent_commands::{CompleteOutcome, StreamRoute},
    artifacts::{ArtifactSender, SendError},
    client_commands::SendTask,
    counters::{BucketCounts, Direction, EngineCounters},
    external::{ExternalQueue, ExternalUpdate},
    inspection::{Activity, PendingEnvelope, TaskInspection},
    note_watch::NoteWatch,
    notes::Note,
    refusals::RecentRefusal,
    state::Core,
    task_subscribers::{EndReceiver, WaitUntil},
    transaction::{
        EngineError, EngineLimits, Now, OnCard, OnIdentityNeeded, OnRoute, RouteOutcome, TaskChange,
    },
};
use self::{
    subscriptions::Subscriptions,
    task_subscribers::{SubscriberEvent, SubscriberQueue},
};
use crate::{
    link::{FairQueue, Link},
    policy::PolicyRules,
    spool::Spool,
    task::{Status, StreamOutcome, Task},
};
pub use invites::NewInvite;
pub use listing::{TaskListPage, TaskQuery};

/// Calls that wait for the engine; more wait at their callers.
const MAX_QUEUED_CALLS: usize = 1024;

/// The most a list of tasks may have.
pub const MAX_PAGE: usize = 500;

/// A task for the local agent, as a listener gets it.
#[derive(Clone, Debug)]
pub struct OfferedTask {
    /// As it is now.
    pub task: Arc<Task>,
    /// Who sent it.
    pub sender_card: Option<Arc<AgentCard>>,
    /// Unix milliseconds: since then it is this listener's alone, as long as that listens.
    pub exclusive_since: Option<u64>,
}

/// A wait for a task.
pub enum WaitResult {
    /// It is over already; how the task stands.
    Ended(Box<Task>),
    /// It goes on. Dropping this ends it.
    Pending(EndReceiver),
}

/// What a call may do: anything the core can, plus registering who listens.
type EngineCall = Box<dyn FnOnce(&mut Core, Now) -> OnDurable + Send>;

/// What happens once the call's turn is durable: the answer goes out, listeners are entered.
type OnDurable = Box<dyn FnOnce(Result<&mut Subscriptions, &EngineError>) + Send>;

/// The engine, for everyone else.
#[derive(Clone)]
pub struct Engine {
    calls: mpsc::Sender<EngineCall>,
    spool: Spool,
    artifacts: artifacts::StreamRegistry,
    link: Arc<dyn Link>,
    clock: actor::EngineClock,
    me: PeerId,
    /// Most bytes that all streamed artifacts may take: the store's quota.
    max_stream_bytes: u64,
    /// Whether decisions are written down.
    audited: bool,
    failed: watch::Receiver<Option<String>>,
    listening: watch::Receiver<bool>,
    note_watch_lock: note_watch::NoteWatchLock,
    external_queue: ExternalQueue,
}

impl Engine {
    /// Runs `f` on the core and gives its answer once it is durable.
    pub async fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core, Now) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.call_with(move |core, now| (f(core, now), |_: &mut Subscriptions, answer: T| answer))
            .await
    }

    async fn call_with<T, U, F, E>(&self, f: F) -> Result<U, EngineError>
    where
        T: Send + 'static,
        U: Send + 'static,
        F: FnOnce(&mut Core, Now) -> (Result<T, EngineError>, E) + Send + 'static,
        E: FnOnce(&mut Subscriptions, T) -> U + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call: EngineCall = Box::new(move |core, now| {
            let (result, enter) = f(core, now);
            Box::new(move |audience| {
                let answer = match audience {
                    Ok(audience) => result.map(|value| enter(audience, value)),
                    Err(failed) => Err(failed.clone()),
                };
                let _ = reply.send(answer); // The caller may have gone.
            })
        });
        self.calls.send(call).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// This node.
    pub fn me(&self) -> PeerId {
        self.me
    }

    /// The time by the engine's clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Holds new tasks against these rules from now on.
    pub async fn set_rules(&self, rules: PolicyRules) -> Result<(), EngineError> {
        let audited = self.audited;
        let put = move |core: &mut Core, _| {
            core.set_rules(rules, audited)?;
            core.await_all_identities();
            Ok(())
        };
        self.call(put).await
    }

    /// The turns of all that moves much data on this node.
    pub fn transfer_turns(&self) -> &FairQueue {
        self.link.fair_queue()
    }

    /// The files of streamed artifacts.
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Returns once the store has failed: the daemon refuses all work then.
    pub async fn failed(&self) {
        let mut failed = self.failed.clone();
        if failed.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await; // The engine has stopped in good health.
        }
    }

    /// Why the store has failed, if it has.
    pub fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    /// Pieces of streamed artifacts that were sent.
    pub fn chunks_sent(&self) -> u64 {
        self.artifacts.chunks_sent()
    }

    /// Rings for tasks that go to agents beyond this network.
    pub fn external_queue(&self) -> &ExternalQueue {
        &self.external_queue
    }

    /// Whether an agent listens for tasks.
    pub fn listening(&self) -> watch::Receiver<bool> {
        self.listening.clone()
    }

    /// Returns once the engine takes no more calls.
    pub async fn stopped(&self) {
        self.calls.closed().await;
    }

    /// Sends a task, or a further message of one.
    pub async fn send_task(&self, request: Box<SendTask>) -> Result<Box<Task>, EngineError> {
        self.call(move |core, now| core.send_task(now, *request).map(Box::new))
            .await
    }

    /// Sends a task, or a further message of one, and waits for its end; tells its id, and no wait if nobody else may wait for it.
    pub async fn run_task(
        &self,
        request: Box<SendTask>,
    ) -> Result<(String, Option<WaitResult>), EngineError> {
        self.call_with(move |core, now| {
            (
                core.send_task(now, *request).map(Box::new),
                move |audience: &mut Subscriptions, task: Box<Task>| {
                    let id = task.id.clone();
                    if WaitUntil::End.is_over(task.status) {
                        return (id, Some(WaitResult::Ended(task)));
                    }
                    let wait = audience.subscribers.wait(&id, WaitUntil::End);
                    (id, wait.ok().map(WaitResult::Pending))
                },
            )
        })
        .await
    }

    /// A task whole.
    pub async fn task(&self, id: String) -> Result<Box<Task>, EngineError> {
        self.call(move |core, _| core.task(&id).map(Box::new)).await
    }

    /// Where a task is.
    pub async fn inspect_task(&self, id: String) -> Result<TaskInspection, EngineError> {
        self.call(move |core, now| core.inspect_task(now, &id)).await
    }

    /// Tasks of peers that were refused here under this id, or sealed under it; the newest first, those of late.
    pub async fn refused_tasks(&self, id: String) -> Result<Vec<RecentRefusal>, EngineError> {
        self.call(move |core, _| Ok(core.refused_tasks(&id))).await
    }

    /// What is being done.
    pub async fn activity(&self) -> Result<Activity, EngineError> {
        self.call(|core, _| Ok(core.activity())).await
    }

    /// Tasks, newest change first, from behind `after` on, at most [`MAX_PAGE`].
    pub async fn list(
        &self,
        filter: TaskQuery,
        after: Option<(u64, String)>,
        limit: usize,
    ) -> Result<TaskListPage, EngineError> {
        self.call(move |core, _| core.list(&filter, after.as_ref(), limit.min(MAX_PAGE)))
            .await
    }

    /// Cancels a task, from either side.
    pub async fn cancel(&self, id: String) -> Result<Box<Task>, EngineError> {
        self.call(move |core, now| core.cancel(now, &id).map(Box::new))
            .await
    }

    /// The task as it is now, and every change after that.
    pub async fn subscribe(&self, id: String) -> Result<(Task, Subscription), EngineError> {
        self.call_with(move |core, _| {
            (core.task(&id), move |audience: &mut Subscriptions, task: Task| {
                let subscription = audience.subscribers.subscribe(&task.id);
                (task, subscription)
            })
        })
        .await
        .and_then(|(task, line)| {
            let subscription = Subscription {
                queue: line?,
                engine: self.clone(),
                task_id: task.id.clone(),
            };
            Ok((task, subscription))
        })
    }

    /// Waits for a task.
    pub async fn wait(&self, id: String, until: WaitUntil) -> Result<WaitResult, EngineError> {
        self.call_with(move |core, _| {
            (
                core.task_if_over(&id, until).map(|over| over.map(Box::new)),
                move |audience: &mut Subscriptions, over: Option<Box<Task>>| match over {
                    Some(task) => Ok(WaitResult::Ended(task)),
                    None => audience.subscribers.wait(&id, until).map(WaitResult::Pending),
                },
            )
        })
        .await?
    }

    /// Listens for tasks of the local agent, which is on this gRPC connection. When the listener is dropped,
    /// `has_ended` tells whether that is because the agent has ended.
    pub async fn listen(
        &self,
        connection: u64,
        has_ended: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<AgentListener, EngineError> {
        let (sender, tasks) = mpsc::channel(dispatcher::CREDIT);
        let id = self
            .call_with(move |_, _| {
                (Ok(()), move |audience: &mut Subscriptions, ()| {
                    audience.add_listener(sender)
                })
            })
            .await??;
        let listener = AgentListener {
            id,
            tasks,
            read: 0,
            engine: self.clone(),
            has_ended: Box::new(has_ended),
        };
        self.call(move |core, now| core.attach_on(now, id, connection))
            .await?;
        Ok(listener)
    }

    /// UpdateTaskStatus. `connection` is the caller's.
    pub async fn update(
        &self,
        id: String,
        next: Status,
        message: Option<Message>,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| core.update(now, &id, next, message, connection))
            .await
    }

    /// UpdateTaskStatus by which the agent's library claims a task before the agent has said anything.
    pub async fn claim_for_agent(&self, id: String, connection: u64) -> Result<(), EngineError> {
        self.call(move |core, now| core.claim_for_agent(now, &id, connection))
            .await
    }

    /// A gRPC connection is gone.
    pub fn connection_closed(&self, connection: u64) {
        self.post(Box::new(move |core, now| {
            core.on_connection_closed(now, connection);
            Box::new(|_| ())
        }));
    }

    /// Hands a call over from where nothing can be awaited.
    fn post(&self, call: EngineCall) {
        let calls = self.calls.clone();
        if let Err(mpsc::error::TrySendError::Full(call)) = calls.try_send(call)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { calls.send(call).await });
        }
    }

    /// CompleteTask. Artifacts that were streamed for an originator that does not know streams, or of a sealed task, go
    /// along whole. `unclaimed` is the connection of an agent that has not claimed the task: refused if another one has.
    pub async fn complete(
        &self,
        id: String,
        artifacts: Vec<Artifact>,
        message: Option<Message>,
        unclaimed: Option<u64>,
    ) -> Result<(), EngineError> {
        let task = id.clone();
        let outcome = self
            .call(move |core, now| {
                core.check_unclaimed(&task, unclaimed)?;
                core.complete_unless_streams_are_due(now, &task, artifacts, message)
            })
            .await?;
        let CompleteOutcome::StreamsDue {
            streams,
            mut artifacts,
            message,
        } = outcome
        else {
            return Ok(());
        };
        for streamed in streams {
            artifacts.push(
                self::artifacts::assembled(&self.spool, &id, &streamed, state::MAX_ENVELOPE as u64).await?,
            );
        }
        self.call(move |core, now| {
            core.check_unclaimed(&id, unclaimed)?;
            core.complete(now, &id, artifacts, message)
        })
        .await
    }

    /// FailTask; `unclaimed` as in [`Engine::complete`].
    pub async fn fail(&self, id: String, error: String, unclaimed: Option<u64>) -> Result<(), EngineError> {
        self.call(move |core, now| {
            core.check_unclaimed(&id, unclaimed)?;
            core.fail(now, &id, &error)
        })
        .await
    }

    /// SendStreamingArtifact: the sender of one artifact. `connection` is the caller's.
    pub async fn stream_artifact(
        &self,
        start: StreamStart,
        connection: u64,
    ) -> Result<ArtifactSender, SendError> {
        let opening = start.clone();
        let route = self
            .call(move |core, now| core.start_stream(now, &opening, connection))
            .await?;
        ArtifactSender::open(self.clone(), start, route).await
    }

    /// The artifact of a stream with its content, or by reference when that is larger than `most`.
    pub async fn streamed_artifact(
        &self,
        task: &str,
        streamed: &crate::task::Streamed,
        most: u64,
    ) -> Artifact {
        artifacts::assembled(&self.spool, task, streamed, most)
            .await
            .unwrap_or_else(|_| wire::streamed_reference(task, streamed))
    }

    /// Bytes that streamed artifacts may still take here.
    fn stream_room(&self) -> u64 {
        self.max_stream_bytes.saturating_sub(self.spool.used())
    }

    async fn break_off_stream(
        &self,
        task: String,
        artifact: String,
        message: String,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| core.break_off_stream(now, &task, &artifact, &message))
            .await
    }

    async fn end_stream(
        &self,
        task: String,
        artifact: String,
        ended: StreamOutcome,
        bytes: u64,
    ) -> Result<(), EngineError> {
        self.call(move |core, _| core.end_stream(&task, &artifact, ended, bytes))
            .await
    }
}

fn stopping() -> EngineError {
    EngineError::Unavailable(agentanycast_proto::STOPPING.into())
}

/// The changes of one task from one moment on. Dropping it ends it.
pub struct Subscription {
    queue: Arc<SubscriberQueue>,
    engine: Engine,
    task_id: String,
}

impl Subscription {
    /// The next change; None when the task is gone or the daemon stops. Whoever is far behind gets the task as
    /// it stands instead of the changes that led there.
    pub async fn next(&mut self) -> Option<Arc<TaskChange>> {
        match self.queue.next().await? {
            SubscriberEvent::Change(change) => Some(change),
            SubscriberEvent::Lost => {
                let task = self.engine.task(self.task_id.clone()).await.ok()?;
                Some(Arc::new(TaskChange::from_task(*task)))
            }
        }
    }
}

/// An agent that listens. Dropping it stops that.
pub struct AgentListener {
    id: dispatcher::ListenerId,
    tasks: mpsc::Receiver<OfferedTask>,
    /// Tasks that were read since the core was told.
    read: usize,
    engine: Engine,
    has_ended: Box<dyn Fn() -> bool + Send + Sync>,
}

impl AgentListener {
    /// The next task, or the next news of one. None: the daemon stops.
    pub async fn next(&mut self) -> Option<OfferedTask> {
        let incoming = self.tasks.recv().await?;
        self.read += 1;
        // What is read is room for as much more, which the core delivers: told when nothing more is here, or of many at once.
        if self.tasks.is_empty() || self.read >= dispatcher::CREDIT / 4 {
            let (id, read) = (self.id, std::mem::take(&mut self.read));
            let call: EngineCall = Box::new(move |core, now| {
                let _ = core.credit(now, id, read);
                Box::new(|_| ())
            });
            self.engine.calls.send(call).await.ok()?;
        }
        Some(incoming)
    }

    /// The agent's client, on this connection, cannot take the task.
    pub async fn decline(&self, task: &Task, connection: u64, reason: String) -> Result<(), EngineError> {
        let (listener, id) = (self.id, task.id.clone());
        self.engine
            .call(move |core, now| core.decline(now, listener, connection, &id, &reason))
            .await
    }
}

impl Drop for AgentListener {
    fn drop(&mut self) {
        let (id, read, has_ended) = (self.id, self.read, (self.has_ended)());
        self.engine.post(Box::new(move |core, now| {
            let _ = if has_ended {
                core.agent_ended(now, id, read)
            } else {
                core.detach(now, id)
            };
            Box::new(move |audience| {
                if let Ok(audience) = audience {
                    audience.remove_listener(id);
                }
            })
        }));
    }
}

/// Unix milliseconds as protobuf has them.
pub(crate) fn timestamp(unix_ms: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: (unix_ms / 1000) as i64,
        nanos: ((unix_ms % 1000) * 1_000_000) as i32,
    }
}

/// As much of a peer's reason as is kept and shown.
fn short(reason: &str) -> String {
    reason.chars().take(1000).collect()
}

/// A duration for people: the largest unit that divides it.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests;
