//! The engine, for everything else in the node: one method for each command. A command is queued for the engine's actor,
//! and its answer comes once what it changed is durable.

mod access;
mod agent_calls;
pub(crate) mod artifacts;
mod node_agents;
mod note_watch;

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, Artifact};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

pub use self::{
    agent_calls::AgentListener,
    artifacts::{ArtifactSender, SendError},
    note_watch::NoteWatch,
};
use self::{artifacts::StreamRegistry, note_watch::NoteWatchLock};
use super::{
    clock::{EngineClock, Now},
    coordinator::{Activity, Coordinator, ExternalUpdate, SendTask, TaskInspection},
    external_queue::ExternalQueue,
    subscriptions::Subscriptions,
    task_subscribers::{EndReceiver, SubscriberEvent, SubscriberQueue, WaitUntil},
    transaction::{EngineError, TaskChange},
    types::{EngineCounters, NodeAgent, Note, RecentRefusal, ShownCard, TaskListPage, TaskQuery},
    wire,
};
use crate::{
    delivery::outbox::QueueDepths,
    link::{FairQueue, Link},
    policy::{PeerAttributes, PolicyRules},
    spool::Spool,
    task::{Status, StreamOutcome, Task},
};

/// Calls that wait for the engine; more wait at their callers.
pub(super) const MAX_QUEUED_CALLS: usize = 1024;

/// The most a list of tasks may have.
pub const MAX_PAGE: usize = 500;

/// A wait for a task.
pub enum WaitResult {
    /// It is over already; how the task stands.
    Ended(Box<Task>),
    /// It goes on. Dropping this ends it.
    Pending(EndReceiver),
}

/// A command for the coordinator.
pub(super) type EngineCall = Box<dyn FnOnce(&mut Coordinator, Now) -> OnDurable + Send>;

/// What happens once the call's turn is durable: the answer goes out, listeners are entered.
pub(super) type OnDurable = Box<dyn FnOnce(Result<&mut Subscriptions, &EngineError>) + Send>;

/// The engine, for everything else in the node: one method for each command. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    parts: HandleParts,
}

/// What a handle is made of.
#[derive(Clone)]
pub(crate) struct HandleParts {
    pub calls: mpsc::Sender<EngineCall>,
    pub spool: Spool,
    pub streams: StreamRegistry,
    pub link: Arc<dyn Link>,
    pub clock: EngineClock,
    pub me: PeerId,
    /// Most bytes that all streamed artifacts may take: the store's quota.
    pub max_stream_bytes: u64,
    /// Whether decisions are written down.
    pub audited: bool,
    pub failed: watch::Receiver<Option<String>>,
    pub listening: watch::Receiver<bool>,
    pub node_card: watch::Receiver<Option<Arc<AgentCard>>>,
    pub note_watch_lock: NoteWatchLock,
    pub external_queue: ExternalQueue,
}

impl Engine {
    pub(super) fn new(parts: HandleParts) -> Self {
        Self { parts }
    }

    /// The streams of artifacts that go on.
    pub(super) fn streams(&self) -> &StreamRegistry {
        &self.parts.streams
    }

    /// The network.
    pub(super) fn link(&self) -> &dyn Link {
        &*self.parts.link
    }

    /// Has the coordinator do something, and gives the answer once that is durable.
    async fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Coordinator, Now) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.call_with(move |core, now| (f(core, now), |_: &mut Subscriptions, answer: T| answer))
            .await
    }

    pub(super) async fn call_with<T, U, F, E>(&self, f: F) -> Result<U, EngineError>
    where
        T: Send + 'static,
        U: Send + 'static,
        F: FnOnce(&mut Coordinator, Now) -> (Result<T, EngineError>, E) + Send + 'static,
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
        self.parts.calls.send(call).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// This node.
    pub fn me(&self) -> PeerId {
        self.parts.me
    }

    /// The time by the engine's clock.
    pub fn now(&self) -> Now {
        self.parts.clock.now()
    }

    /// Holds new tasks against these rules from now on.
    pub async fn set_rules(&self, rules: PolicyRules) -> Result<(), EngineError> {
        let audited = self.parts.audited;
        let put = move |core: &mut Coordinator, _| {
            core.set_rules(rules, audited)?;
            core.await_all_identities();
            Ok(())
        };
        self.call(put).await
    }

    /// The turns of all that moves much data on this node.
    pub fn transfer_turns(&self) -> &FairQueue {
        self.parts.link.fair_queue()
    }

    /// The files of streamed artifacts.
    pub fn spool(&self) -> &Spool {
        &self.parts.spool
    }

    /// Returns once the store has failed: the daemon refuses all work then.
    pub async fn failed(&self) {
        let mut failed = self.parts.failed.clone();
        if failed.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await; // The engine has stopped in good health.
        }
    }

    /// Why the store has failed, if it has.
    pub fn failure(&self) -> Option<String> {
        self.parts.failed.borrow().clone()
    }

    /// Pieces of streamed artifacts that were sent.
    pub fn chunks_sent(&self) -> u64 {
        self.parts.streams.chunks_sent()
    }

    /// Rings for tasks that go to agents beyond this network.
    pub fn external_queue(&self) -> &ExternalQueue {
        &self.parts.external_queue
    }

    /// Whether an agent listens for tasks.
    pub fn listening(&self) -> watch::Receiver<bool> {
        self.parts.listening.clone()
    }

    /// Returns once the engine takes no more calls.
    pub async fn stopped(&self) {
        self.parts.calls.closed().await;
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
                    let wait = audience.subscribers().wait(&id, WaitUntil::End);
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
        self.call(move |core, _| {
            core.tasks_mut()
                .list(&filter, after.as_ref(), limit.min(MAX_PAGE))
        })
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
                let subscription = audience.subscribers().subscribe(&task.id);
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
                core.task_if(&id, |status| until.is_over(status))
                    .map(|over| over.map(Box::new)),
                move |audience: &mut Subscriptions, over: Option<Box<Task>>| match over {
                    Some(task) => Ok(WaitResult::Ended(task)),
                    None => audience.subscribers().wait(&id, until).map(WaitResult::Pending),
                },
            )
        })
        .await?
    }

    /// Hands a call over from where nothing can be awaited.
    fn post(&self, call: EngineCall) {
        let calls = self.parts.calls.clone();
        if let Err(mpsc::error::TrySendError::Full(call)) = calls.try_send(call)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { calls.send(call).await });
        }
    }

    /// The artifact of a stream with its content, or by reference when that is larger than `most`.
    pub async fn streamed_artifact(
        &self,
        task: &str,
        streamed: &crate::task::Streamed,
        most: u64,
    ) -> Artifact {
        artifacts::assembled(&self.parts.spool, task, streamed, most)
            .await
            .unwrap_or_else(|_| wire::streamed_reference(task, streamed))
    }

    /// Bytes that streamed artifacts may still take here.
    pub(super) fn stream_room(&self) -> u64 {
        self.parts
            .max_stream_bytes
            .saturating_sub(self.parts.spool.used())
    }

    pub(super) async fn break_off_stream(
        &self,
        task: String,
        artifact: String,
        message: String,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| core.break_off_stream(now, &task, &artifact, &message))
            .await
    }

    pub(super) async fn end_stream(
        &self,
        task: String,
        artifact: String,
        ended: StreamOutcome,
        bytes: u64,
    ) -> Result<(), EngineError> {
        self.call(move |core, _| core.end_stream(&task, &artifact, ended, bytes))
            .await
    }

    /// Where this run listens, for the next one; what others see of the agents that the last run had.
    pub async fn remember_listen_addresses(&self, addresses: Vec<String>) -> Result<ShownCard, EngineError> {
        self.call(move |core, _| {
            core.with_peers(|peers, transaction| peers.set_listen_addresses(transaction, addresses));
            Ok(core.shown_card())
        })
        .await
    }

    /// The card of a node, as far as it is known here, and who that node is now.
    pub async fn card_of(&self, peer: PeerId) -> Result<(Option<AgentCard>, PeerId), EngineError> {
        let is_own = peer == self.parts.me;
        self.call(move |core, _| {
            let card = if is_own {
                core.node_card()
            } else {
                core.with_peers(|peers, transaction| peers.card(transaction, peer))?
            };
            Ok((card.map(Arc::unwrap_or_clone), core.peers().current_key(peer)))
        })
        .await
    }

    /// A peer has shown this card.
    pub async fn put_peer_card(&self, peer: PeerId, card: AgentCard) -> Result<(), EngineError> {
        self.call(move |core, _| {
            let card = card.encode_to_vec().into();
            core.with_peers(|peers, transaction| peers.put_card(transaction, peer, &card));
            Ok(())
        })
        .await
    }

    /// The name of the local agent, and the peers that have shown a card, the latest first, with the names on them; an
    /// empty name is none.
    pub async fn known_names(&self) -> Result<(String, Vec<(PeerId, String)>), EngineError> {
        self.call(|core, _| {
            let own = core.node_card().map(|card| card.name.clone()).unwrap_or_default();
            let named = core.peers().names().map(|(peer, name)| (peer, name.to_owned()));
            Ok((own, named.collect()))
        })
        .await
    }

    /// The task that was sent with this idempotency key.
    pub async fn task_by_idempotency_key(&self, key: String) -> Result<Option<Task>, EngineError> {
        self.call(move |core, _| Ok(core.tasks_mut().read_by_key(&key)?))
            .await
    }

    /// Writes a note of a task, over this version or over whatever there is; its new version.
    pub async fn put_note(
        &self,
        task: String,
        note: Note,
        if_version: Option<u64>,
    ) -> Result<u64, EngineError> {
        self.call(move |core, _| core.put_note(&task, note, if_version))
            .await
    }

    /// Removes a note, if there is one.
    pub async fn delete_note(&self, task: String, name: String) -> Result<(), EngineError> {
        self.call(move |core, _| {
            core.delete_note(&task, &name);
            Ok(())
        })
        .await
    }

    /// The notes of a task, by name.
    pub async fn notes_of(&self, task: String) -> Result<Vec<Note>, EngineError> {
        self.call(move |core, _| core.notes_of(&task)).await
    }

    /// What a gateway has heard of a task that is with an agent beyond this network; the state of the task after it.
    pub async fn apply_external_update(
        &self,
        id: String,
        update: ExternalUpdate,
    ) -> Result<Status, EngineError> {
        self.call(move |core, now| core.apply_external_update(now, &id, update))
            .await
    }

    /// What is proven of a peer from now on. `rejected_claims`: what it says of itself and does not count, when nothing
    /// more is looked up.
    pub async fn set_peer_attributes(
        &self,
        peer: PeerId,
        attributes: PeerAttributes,
        rejected_claims: Option<Vec<String>>,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| {
            core.set_peer_attributes(now, peer, attributes)?;
            if let Some(rejected) = rejected_claims {
                core.admission_mut().set_rejected_claims(peer, rejected);
                core.admission_mut().on_identity_resolved(peer);
            }
            Ok(())
        })
        .await
    }

    /// No more is proven of a peer than what is known of it.
    pub async fn identity_resolved(&self, peer: PeerId) -> Result<(), EngineError> {
        self.call(move |core, _| {
            core.admission_mut().on_identity_resolved(peer);
            Ok(())
        })
        .await
    }

    /// What there is and what was done, in figures.
    pub async fn metrics(&self) -> Result<EngineMetrics, EngineError> {
        self.call(|core, _| {
            Ok(EngineMetrics {
                counters: core.observe().counters().clone(),
                takes_tasks: !core.admission().is_blocked(),
                open_tasks: core.tasks().index().open(),
                depths: core.peers().depths(),
                agents: core.list_agents(),
            })
        })
        .await
    }

    /// Acknowledges an envelope of an artifact's stream; `next` is the chunk needed next.
    pub(super) async fn ack_stream(
        &self,
        peer: PeerId,
        envelope_id: String,
        refused: Option<String>,
        next: Option<i32>,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| {
            core.ack_stream(now, peer, envelope_id, refused.as_deref(), next);
            Ok(())
        })
        .await
    }

    /// The turn to look after open notes.
    pub(super) async fn note_watch_turn(&self) -> Result<OwnedSemaphorePermit, EngineError> {
        let turn = Arc::clone(&self.parts.note_watch_lock).acquire_owned().await;
        turn.map_err(|_| stopping())
    }
}

/// What there is and what was done, in figures.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    /// What was done since the start.
    pub counters: EngineCounters,
    /// Whether new tasks are taken: their decisions can be written down.
    pub takes_tasks: bool,
    /// Number of tasks that have not ended.
    pub open_tasks: usize,
    /// Envelopes that wait for their peers, by how far they are.
    pub depths: QueueDepths,
    /// The agents of this node.
    pub agents: Vec<NodeAgent>,
}

pub(super) fn stopping() -> EngineError {
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
