//! The engine's task: inputs in, turns to the store's writer, answers and effects out behind the
//! barrier. See `engine.rs`.

mod startup;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use agentanycast_daemon_kit::spans::OnSpan;
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::AgentCard;
use agentanycast_store::{
    StoreError,
    commit::{CommitProgress, Committer, Urgency},
};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use self::startup::{EngineParts, EngineStartError, LoadedEngine, start};
use super::{
    audit_gate::AuditGate,
    clock::{EngineClock, Now},
    coordinator::Coordinator,
    external_queue::ExternalQueue,
    handle::{EngineCall, OnDurable, artifacts::StreamRouter},
    pending_identity::PendingIdentity,
    stream_writer::{self, WriterReport},
    subscriptions::Subscriptions,
    transaction::{Effect, EngineError, RouteOutcome},
    types::OfferedTask,
};
use crate::{
    link::{InboundFrame, Link, LinkEvent},
    task::NetworkPath,
};

/// Inputs that become one turn, with one batch, when they have come together.
const MAX_TURN_INPUTS: usize = 64;

/// Changes of a turn after which it takes no further input.
const MAX_TURN_CHANGES: usize = 256;

/// Inputs that wait for the barrier; at the bound none is taken.
const MAX_PENDING: usize = 2048;

/// Bytes of turns that wait for the barrier; at the bound no input is taken.
const MAX_PENDING_BYTES: usize = 64 << 20;

/// How often time is looked after while something waits for it.
const TICK: Duration = Duration::from_millis(100);

/// How often otherwise.
const SLOW_TICK: Duration = Duration::from_secs(1);

/// How long an engine that stops waits for calls whose callers have a place in the queue and did not send yet.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reports of couriers that wait.
const MAX_QUEUED_REPORTS: usize = 256;

/// Told of peers that are to see another card of this node than before; returns at once.
pub type OnShownCard = Arc<dyn Fn(PeerId) + Send + Sync>;

/// Told what becomes of tasks that are sent by skill; returns at once.
pub type OnRoute = Arc<dyn Fn(RouteOutcome) + Send + Sync>;

/// Told of the card of a peer, encoded, as it came; returns at once whether the engine will be told what is proven by it.
pub type OnCard = Arc<dyn Fn(PeerId, &[u8]) -> bool + Send + Sync>;

/// Told that something of a peer could be decided otherwise when more is known of it; returns at once. The engine is told
/// what is proven of it.
pub type OnIdentityNeeded = Arc<dyn Fn(PeerId) + Send + Sync>;

/// What one input came to.
struct InputOutcome {
    release: Option<OnDurable>,
    effects: Vec<Effect>,
    /// Dropped when the step is let out: the peer may send more then.
    frame: Option<InboundFrame>,
}

/// A turn whose batch is not durable yet.
struct PendingTransaction {
    commit: u64,
    /// Lines of the audit log that have to be on the disk too.
    audited: u64,
    bytes: usize,
    steps: Vec<InputOutcome>,
}

struct WriterHandle {
    stream: u64,
    frames: mpsc::Sender<Bytes>,
}

struct EngineActor {
    core: Coordinator,
    committer: Committer,
    clock: EngineClock,
    submitted: u64,
    /// The last batch submitted is one that nobody waits for.
    lazy: bool,
    durable: u64,
    /// Of the running turn.
    steps: Vec<InputOutcome>,
    pending: VecDeque<PendingTransaction>,
    pending_steps: usize,
    pending_bytes: usize,
    subscriptions: Subscriptions,
    writers: HashMap<PeerId, WriterHandle>,
    stream_router: StreamRouter,
    link: Arc<dyn Link>,
    reports: mpsc::Sender<WriterReport>,
    on_route: OnRoute,
    on_shown_card: OnShownCard,
    on_span: OnSpan,
    on_card: OnCard,
    on_identity_needed: OnIdentityNeeded,
    /// Frames that wait until more is known of their peers.
    pending_identity: PendingIdentity<InboundFrame>,
    audit_gate: AuditGate,
    external_queue: ExternalQueue,
    node_card: watch::Sender<Option<Arc<AgentCard>>>,
    failure: Option<EngineError>,
    failed: watch::Sender<Option<String>>,
}

impl EngineActor {
    async fn run(
        mut self,
        mut calls: mpsc::Receiver<EngineCall>,
        mut events: mpsc::Receiver<LinkEvent>,
        mut reports: mpsc::Receiver<WriterReport>,
        mut progress: mpsc::UnboundedReceiver<CommitProgress>,
        stop: CancellationToken,
    ) {
        self.finish_turn();
        let mut last_tick = tokio::time::Instant::now();
        loop {
            let hurries = self.core.needs_clock() || !self.pending_identity.is_empty();
            let period = if hurries { TICK } else { SLOW_TICK };
            let room = self.pending_steps < MAX_PENDING && self.pending_bytes < MAX_PENDING_BYTES;
            tokio::select! {
                Some(progress) = progress.recv() => {
                    self.on_progress(progress);
                    continue;
                }
                Some(()) = self.audit_gate.changed(), if self.audit_gate.is_there() => {
                    self.check_audit();
                    self.release_durable();
                    continue;
                }
                Some(report) = reports.recv() => self.on_report(&report),
                Some(call) = calls.recv(), if room => {
                    self.on_call(call);
                    self.drain_ready_inputs(&mut calls, &mut events);
                }
                Some(event) = events.recv(), if room => {
                    self.on_event(event);
                    self.drain_ready_inputs(&mut calls, &mut events);
                }
                () = tokio::time::sleep_until(last_tick + period) => {
                    last_tick = tokio::time::Instant::now();
                    self.on_tick();
                }
                () = stop.cancelled() => break,
            }
            self.finish_turn();
        }
        calls.close();
        // A call that is queued while the receiver is dropped may stay in the queue, and its caller wait for ever.
        let refused = async { while calls.recv().await.is_some() {} };
        if tokio::time::timeout(REFUSE_TIMEOUT, refused).await.is_err() {
            tracing::debug!("calls that had a place in the queue were not made in time");
        }
        self.drain(&mut progress).await;
    }

    /// What has come meanwhile becomes part of the running turn: one batch, one barrier.
    fn drain_ready_inputs(
        &mut self,
        calls: &mut mpsc::Receiver<EngineCall>,
        events: &mut mpsc::Receiver<LinkEvent>,
    ) {
        while self.steps.len() < MAX_TURN_INPUTS && self.core.transaction().changes() < MAX_TURN_CHANGES {
            let (call, event) = (calls.try_recv().ok(), events.try_recv().ok());
            if call.is_none() && event.is_none() {
                return;
            }
            if let Some(call) = call {
                self.on_call(call);
            }
            if let Some(event) = event {
                self.on_event(event);
            }
        }
    }

    /// Waits for what was promised to become durable, so that every caller gets its answer.
    async fn drain(mut self, progress: &mut mpsc::UnboundedReceiver<CommitProgress>) {
        while !self.pending.is_empty() && self.failure.is_none() {
            tokio::select! {
                news = progress.recv() => match news {
                    Some(news) => self.on_progress(news),
                    None => break,
                },
                Some(()) = self.audit_gate.changed() => self.release_durable(),
            }
        }
        self.subscriptions.subscribers().close();
        self.subscriptions.note_changes().close();
        // Joining the writers' threads ends the last barrier, and writes the last lines.
        let writers = (self.committer, self.audit_gate);
        let _ = tokio::task::spawn_blocking(move || drop(writers)).await;
    }

    fn on_call(&mut self, call: EngineCall) {
        let now = self.clock.now();
        let release = call(&mut self.core, now);
        let done = self.core.transaction().take_store_failure();
        self.note(done);
        self.step(Some(release), None);
        self.release_settled();
    }

    fn on_event(&mut self, event: LinkEvent) {
        let now = self.clock.now();
        let done = match event {
            LinkEvent::Connected { peer } => {
                self.core.admission_mut().await_identities([peer]);
                self.core.on_connected(now, peer)
            }
            LinkEvent::Renewed { peer } => {
                // The old connection may be dead without knowing it.
                self.writers.remove(&peer);
                self.core
                    .with_peers(|peers, transaction| peers.on_renewed(transaction, peer));
                Ok(())
            }
            LinkEvent::Disconnected { peer } => {
                self.writers.remove(&peer);
                self.core
                    .with_peers(|peers, transaction| peers.on_disconnected(transaction, peer));
                if !self.pending_identity.holds(peer) {
                    self.core.admission_mut().on_identity_resolved(peer);
                }
                Ok(())
            }
            LinkEvent::Frame { peer, frame } => {
                if let Some(frame) = self.pending_identity.pass(peer, frame) {
                    self.on_frame(now, peer, frame);
                }
                return;
            }
            LinkEvent::Card { peer, card } => {
                let card = self.core.on_card(now, peer, card);
                let will_be_told = card.is_some_and(|card| (self.on_card)(peer, &card));
                if !will_be_told {
                    self.core.admission_mut().on_identity_resolved(peer);
                }
                Ok(())
            }
            LinkEvent::Addresses { peer, addrs } => {
                self.core
                    .with_peers(|peers, transaction| peers.put_addresses(transaction, peer, addrs));
                Ok(())
            }
        };
        self.note(done);
        self.step(None, None);
        self.release_settled();
    }

    fn on_frame(&mut self, now: Now, peer: PeerId, frame: InboundFrame) {
        self.core
            .transaction()
            .set_inbound_path(frame.relay.map_or(NetworkPath::Direct, NetworkPath::Relay));
        let done = self.core.on_frame(now, peer, &frame.bytes);
        self.note(done);
        if self.core.admission_mut().take_identity_needed() {
            self.pending_identity.park(now.mono, peer, frame);
            (self.on_identity_needed)(peer);
        } else {
            self.step(None, Some(frame));
        }
    }

    /// What waited for peers of whom is known now what they prove.
    fn release_settled(&mut self) {
        for peer in self.core.admission_mut().take_identity_resolved() {
            let now = self.clock.now();
            for frame in self.pending_identity.release(peer) {
                self.on_frame(now, peer, frame);
            }
        }
    }

    fn on_tick(&mut self) {
        let now = self.clock.now();
        self.check_audit();
        let done = self.core.tick(now);
        self.note(done);
        for late in self.pending_identity.due(now.mono) {
            self.core.admission_mut().on_identity_timeout(late);
        }
        self.release_settled();
    }

    fn on_report(&mut self, report: &WriterReport) {
        match *report {
            WriterReport::Opened { peer, stream, over } => self
                .core
                .with_peers(|peers, _| peers.on_stream_opened(peer, stream, over)),
            WriterReport::Closed { peer, stream } => {
                if self
                    .writers
                    .get(&peer)
                    .is_some_and(|writer| writer.stream == stream)
                {
                    self.writers.remove(&peer);
                }
                self.core
                    .with_peers(|peers, transaction| peers.on_stream_closed(transaction, peer, stream));
            }
        }
    }

    fn note(&mut self, done: Result<(), StoreError>) {
        match done {
            Ok(()) => {}
            Err(StoreError::Damaged(what)) => {
                tracing::error!(what, "a stored record is damaged and is not used");
            }
            Err(error) => self.fail(&error),
        }
    }

    /// The store failed: nothing more is promised to anybody (fail-stop).
    fn fail(&mut self, error: &StoreError) {
        if self.failure.is_none() {
            tracing::error!(%error, "the store failed; the daemon refuses all work until it is restarted");
            let failure = EngineError::Store(error.to_string());
            let steps = self.pending.drain(..).flat_map(|pending| pending.steps);
            for release in steps.filter_map(|step| step.release) {
                release(Err(&failure));
            }
            self.failure = Some(failure);
            let _ = self.failed.send(Some(error.to_string()));
        }
    }

    /// Ends an input of the running turn: what it came to is let out before what the next one comes to.
    fn step(&mut self, release: Option<OnDurable>, frame: Option<InboundFrame>) {
        self.hand_over();
        let effects = self.core.transaction().take_effects();
        // What has no effect needs no barrier before the peer may send more.
        let frame = frame.filter(|_| !effects.is_empty() || self.core.peers().has_pending_acks());
        if release.is_some() || !effects.is_empty() || frame.is_some() {
            self.steps.push(InputOutcome {
                release,
                effects,
                frame,
            });
        }
    }

    /// Lets out what need not wait for the barrier.
    fn hand_over(&mut self) {
        let early = self.core.transaction().take_early();
        self.let_out_early(early);
    }

    fn let_out_early(&mut self, early: Vec<Effect>) {
        if self.failure.is_none() {
            for effect in early {
                self.let_out(effect, &mut None);
            }
        }
    }

    /// Hands the turn's batch over; its answers and effects wait for the barrier.
    fn finish_turn(&mut self) {
        self.hand_over();
        let turn = self.core.finish_transaction(self.clock.now());
        let done = self.core.transaction().take_store_failure();
        self.note(done);
        self.let_out_early(turn.early);
        let mut steps = std::mem::take(&mut self.steps);
        if let Some(failure) = &self.failure {
            for release in steps.into_iter().filter_map(|step| step.release) {
                release(Err(failure));
            }
            return;
        }
        if !turn.effects.is_empty() {
            steps.push(InputOutcome {
                release: None,
                effects: turn.effects,
                frame: None,
            });
        }
        let nobody_waits = steps.is_empty();
        let urgency = if nobody_waits {
            Urgency::Lazy
        } else {
            Urgency::Awaited
        };
        let mut bytes = 0;
        if !turn.batch.is_empty() {
            bytes = turn
                .batch
                .changes
                .iter()
                .map(|(_, value)| value.as_ref().map_or(0, Bytes::len))
                .sum();
            self.submitted = self.committer.submit(turn.batch, urgency);
            self.lazy = urgency == Urgency::Lazy;
        }
        if nobody_waits && bytes == 0 {
            return;
        }
        if !nobody_waits && self.lazy && self.submitted > self.durable {
            // This turn has to wait for batches that nobody has waited for so far.
            self.committer.hurry();
            self.lazy = false;
        }
        self.pending_bytes += bytes;
        self.pending_steps += steps.len();
        let audited = self.audit_gate.required_line();
        self.pending.push_back(PendingTransaction {
            commit: self.submitted,
            audited,
            bytes,
            steps,
        });
        self.release_durable();
    }

    fn on_progress(&mut self, progress: CommitProgress) {
        match progress {
            CommitProgress::Durable { batches, took } => {
                self.durable = batches;
                self.core.on_durable(batches, took);
                self.release_durable();
            }
            CommitProgress::Failed(error) => self.fail(&error),
        }
    }

    fn release_durable(&mut self) {
        while self.pending.front().is_some_and(|pending| {
            pending.commit <= self.durable && self.audit_gate.is_durable(pending.audited)
        }) {
            let Some(pending) = self.pending.pop_front() else {
                return;
            };
            self.pending_bytes -= pending.bytes;
            self.pending_steps -= pending.steps.len();
            for mut step in pending.steps {
                if let Some(release) = step.release {
                    release(Ok(&mut self.subscriptions));
                }
                for effect in step.effects {
                    self.let_out(effect, &mut step.frame);
                }
            }
        }
    }

    /// Shuts the door for new tasks while their decisions cannot be written down.
    fn check_audit(&mut self) {
        if let Some(shut) = self.audit_gate.blocks_admission() {
            self.core.admission_mut().set_blocked(shut);
        }
    }

    fn let_out(&mut self, effect: Effect, frame: &mut Option<InboundFrame>) {
        match effect {
            Effect::OpenStream { peer, stream } => self.open_stream(peer, stream),
            Effect::Send { peer, stream, frame } => self.write(peer, Some(stream), frame),
            Effect::Ack { peer, frame } => self.write(peer, None, frame),
            Effect::Wanted { peer, wanted } => self.link.set_wanted(peer, wanted),
            Effect::Changed(change) => {
                let ended = || self.core.tasks().small_ended(&change.task_id);
                self.subscriptions.subscribers().publish(&change, ended);
            }
            Effect::NodeCard(card) => {
                self.node_card.send_replace(card);
            }
            Effect::PeerCard(peer) => (self.on_shown_card)(peer),
            Effect::NotesChanged { task_id } => self.subscriptions.note_changes().push(task_id),
            Effect::Incoming {
                listener,
                task,
                sender_card,
                exclusive_since,
            } => {
                let incoming = OfferedTask {
                    task,
                    sender_card,
                    exclusive_since,
                };
                self.subscriptions.hand_over(listener, incoming);
            }
            Effect::StreamAccepted {
                peer,
                start,
                envelope_id,
            } => {
                let permit = frame.take().map(|frame| frame.permit);
                self.stream_router.on_start(peer, start, envelope_id, permit);
            }
            Effect::StreamPiece {
                peer,
                envelope_id,
                payload,
            } => {
                let permit = frame.take().map(|frame| frame.permit);
                self.stream_router.on_piece(peer, envelope_id, *payload, permit);
            }
            Effect::Audit(entry) => self.audit_gate.submit(*entry),
            Effect::Routed(news) => (self.on_route)(news),
            Effect::Traced(span) => (self.on_span)(*span),
            Effect::External { task_id } => self.external_queue.push(task_id),
            Effect::StreamAck { peer, ack } => self.stream_router.on_ack(peer, ack),
            Effect::StopStreams { task_id, incoming } => self.stream_router.stop(&task_id, incoming),
            Effect::Forget { task_id } => self.stream_router.remove_files(task_id),
        }
    }

    fn open_stream(&mut self, peer: PeerId, stream: u64) {
        let (frames, inbox) = mpsc::channel(stream_writer::MAX_QUEUED_FRAMES);
        self.writers.insert(peer, WriterHandle { stream, frames });
        tokio::spawn(stream_writer::run(
            Arc::clone(&self.link),
            peer,
            stream,
            inbox,
            self.reports.clone(),
        ));
    }

    /// Writes on stream number `stream`, or on whatever stream there is. When the courier cannot take
    /// more, its stream ends; the outbox starts again from its lowest entry on the next one.
    fn write(&mut self, peer: PeerId, stream: Option<u64>, frame: Bytes) {
        let Some(writer) = self.writers.get(&peer) else {
            return;
        };
        if stream.is_none_or(|stream| stream == writer.stream) && writer.frames.try_send(frame).is_err() {
            self.writers.remove(&peer);
        }
    }
}
