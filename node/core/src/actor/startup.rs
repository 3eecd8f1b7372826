//! The engine before it runs: its state is read from the store, and can be asked what the last run left behind.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use agentanycast_daemon_kit::spans::OnSpan;
use agentanycast_identity::{Keypair, PeerId};
use agentanycast_store::{
    Store, StoreError,
    commit::{CommitProgress, Committer},
};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        audit_gate::AuditGate,
        clock::EngineClock,
        coordinator::Coordinator,
        external_queue::ExternalQueue,
        handle::{
            Engine, HandleParts, MAX_QUEUED_CALLS,
            artifacts::{StreamRegistry, StreamRouter},
        },
        pending_identity::PendingIdentity,
        subscriptions::Subscriptions,
        transaction::EngineLimits,
    },
    EngineActor, MAX_QUEUED_REPORTS, OnCard, OnIdentityNeeded, OnRoute, OnShownCard,
};
use crate::{
    link::{Link, LinkEvent},
    policy::{PolicyRules, audit::Audit, invites::SECRET},
    spool::Spool,
};

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineStartError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer's thread could not be started.
    #[error("cannot start the store's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// What [`start`] needs.
pub struct EngineParts {
    /// Where tasks are kept.
    pub store: Arc<dyn Store>,
    /// Where streamed artifacts are kept.
    pub spool: Spool,
    /// What the operator set.
    pub limits: EngineLimits,
    /// This node.
    pub me: PeerId,
    /// Its key, for what others carry between it and another node.
    pub key: Keypair,
    /// Told what becomes of tasks that are sent by skill.
    pub on_route: OnRoute,
    /// Told of peers that are to see another card of this node than before.
    pub on_shown_card: OnShownCard,
    /// Told of spans, if [`EngineLimits::trace_share`] says that there are some.
    pub on_span: OnSpan,
    /// Told of peers' cards.
    pub on_card: OnCard,
    /// Told of peers that it depends on their names whether they are denied.
    pub on_identity_needed: OnIdentityNeeded,
}

/// The engine before the network is there: it can be asked what the last run left behind.
pub struct LoadedEngine {
    me: PeerId,
    core: Coordinator,
    committer: Committer,
    progress: mpsc::UnboundedReceiver<CommitProgress>,
    clock: EngineClock,
    spool: Spool,
    on_route: OnRoute,
    on_shown_card: OnShownCard,
    on_span: OnSpan,
    on_card: OnCard,
    on_identity_needed: OnIdentityNeeded,
    audit_gate: AuditGate,
}

/// Reads the state from the store.
pub fn start(parts: EngineParts) -> Result<LoadedEngine, EngineStartError> {
    let clock = EngineClock::start();
    let mut core = Coordinator::load(
        parts.me,
        parts.limits,
        Arc::clone(&parts.store),
        clock.now(),
        rand::random(),
    )?;
    core.external_mut().set_key(parts.key);
    let (committer, progress) = Committer::start(parts.store)?;
    Ok(LoadedEngine {
        me: parts.me,
        core,
        committer,
        progress,
        clock,
        spool: parts.spool,
        on_route: parts.on_route,
        on_shown_card: parts.on_shown_card,
        on_span: parts.on_span,
        on_card: parts.on_card,
        on_identity_needed: parts.on_identity_needed,
        audit_gate: AuditGate::default(),
    })
}

impl LoadedEngine {
    /// The ids of all tasks that the last run left, in no order.
    pub fn task_ids(&self) -> impl Iterator<Item = &str> {
        self.core.tasks().index().all().map(|(id, _)| id)
    }

    /// Where the last run listened.
    pub fn last_listen_addresses(&self) -> Vec<String> {
        self.core.peers().listen_addresses().to_vec()
    }

    /// The addresses of all peers, as kept.
    pub fn peer_addresses(&self) -> Vec<(PeerId, Vec<String>)> {
        self.core.peers().addresses()
    }

    /// What is shown to which nodes, so that they let this one in.
    pub fn accepted_invites(&self) -> HashMap<PeerId, [u8; SECRET]> {
        self.core.admission().accepted_invites()
    }

    /// Holds new tasks against these rules, and writes each decision down if there is a log for it. `required`: no new
    /// task is taken while that cannot be written.
    pub fn guard(
        &mut self,
        rules: PolicyRules,
        audit: Option<Audit>,
        required: bool,
    ) -> Result<(), StoreError> {
        self.core.set_rules(rules, audit.is_some())?;
        self.audit_gate = AuditGate::new(audit, required);
        if let Some(shut) = self.audit_gate.blocks_admission() {
            self.core.admission_mut().set_blocked(shut);
        }
        Ok(())
    }

    /// Runs the engine on this link until `stop`, then drains what is pending.
    pub fn run(
        self,
        link: Arc<dyn Link>,
        events: mpsc::Receiver<LinkEvent>,
        stop: CancellationToken,
    ) -> (Engine, JoinHandle<()>) {
        let (calls, inbox) = mpsc::channel(MAX_QUEUED_CALLS);
        let (failed_sender, failed) = watch::channel(None);
        let (listening_sender, listening) = watch::channel(false);
        let (node_card_sender, node_card) = watch::channel(None);
        let registry = StreamRegistry::default();
        let bell = ExternalQueue::default();
        let engine = Engine::new(HandleParts {
            calls,
            spool: self.spool,
            streams: registry.clone(),
            me: self.me,
            link: Arc::clone(&link),
            clock: self.clock,
            max_stream_bytes: self.core.limits().quota,
            audited: self.audit_gate.is_there(),
            failed,
            listening,
            node_card,
            note_watch_lock: Arc::new(Semaphore::new(1)),
            external_queue: bell.clone(),
        });
        let (reports, courier_reports) = mpsc::channel(MAX_QUEUED_REPORTS);
        let shell = EngineActor {
            core: self.core,
            committer: self.committer,
            clock: self.clock,
            submitted: 0,
            lazy: false,
            durable: 0,
            steps: Vec::new(),
            pending: VecDeque::new(),
            pending_steps: 0,
            pending_bytes: 0,
            subscriptions: Subscriptions::new(listening_sender),
            writers: HashMap::new(),
            stream_router: StreamRouter::new(engine.clone(), registry),
            link,
            reports,
            on_route: self.on_route,
            on_shown_card: self.on_shown_card,
            on_span: self.on_span,
            on_card: self.on_card,
            on_identity_needed: self.on_identity_needed,
            pending_identity: PendingIdentity::default(),
            audit_gate: self.audit_gate,
            external_queue: bell,
            node_card: node_card_sender,
            failure: None,
            failed: failed_sender,
        };
        let task = tokio::spawn(shell.run(inbox, events, courier_reports, self.progress, stop));
        (engine, task)
    }
}
