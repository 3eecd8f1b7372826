//! The engine before it runs: its state is read from the store, and can be asked what the last run left behind.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use agentanycast_identity::{Keypair, PeerId};
use agentanycast_program::spans::OnSpan;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        CALLS, Engine,
        artifacts::{Plane, Registry},
        audience::Audience,
        core::Core,
        lobby::Lobby,
        outside::Bell,
        turn::{Limits, Now, OnCard, OnDoubt, OnRoute},
        witness::Witness,
    },
    REPORTS, Shell,
};
use crate::{
    net,
    policy::{Rules, audit::Audit},
    spool::Spool,
    store::{
        Store, StoreError,
        commit::{Committer, Progress},
    },
};

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer's thread could not be started.
    #[error("cannot start the store's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// What [`start`] needs.
pub struct Parts {
    /// Where tasks are kept.
    pub store: Arc<dyn Store>,
    /// Where streamed artifacts are kept.
    pub spool: Spool,
    /// What the operator set.
    pub limits: Limits,
    /// This node.
    pub me: PeerId,
    /// Its key, for what others carry between it and another node.
    pub key: Keypair,
    /// Told what becomes of tasks that are sent by skill.
    pub on_route: OnRoute,
    /// Told of spans, if [`Limits::trace_share`] says that there are some.
    pub on_span: OnSpan,
    /// Told of peers' cards.
    pub on_card: OnCard,
    /// Told of peers that it depends on their names whether they are denied.
    pub on_doubt: OnDoubt,
}

/// The engine before the network is there: it can be asked what the last run left behind.
pub struct Loaded {
    core: Core,
    committer: Committer,
    progress: mpsc::UnboundedReceiver<Progress>,
    clock: Clock,
    spool: Spool,
    on_route: OnRoute,
    on_span: OnSpan,
    on_card: OnCard,
    on_doubt: OnDoubt,
    witness: Witness,
}

/// The daemon's clock.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Clock {
    start: Instant,
}

impl Clock {
    pub(in crate::engine) fn now(&self) -> Now {
        Now {
            mono: self.start.elapsed(),
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
        }
    }
}

/// Reads the state from the store.
pub fn start(parts: Parts) -> Result<Loaded, StartError> {
    let clock = Clock {
        start: Instant::now(),
    };
    let mut core = Core::load(
        parts.me,
        parts.limits,
        Arc::clone(&parts.store),
        clock.now(),
        rand::random(),
    )?;
    core.set_key(parts.key);
    let (committer, progress) = Committer::start(parts.store)?;
    Ok(Loaded {
        core,
        committer,
        progress,
        clock,
        spool: parts.spool,
        on_route: parts.on_route,
        on_span: parts.on_span,
        on_card: parts.on_card,
        on_doubt: parts.on_doubt,
        witness: Witness::default(),
    })
}

impl Loaded {
    /// The state, to be asked what the last run left.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Holds new tasks against these rules, and writes each decision down if there is a log for it. `required`: no new
    /// task is taken while that cannot be written.
    pub fn guard(&mut self, rules: Rules, audit: Option<Audit>, required: bool) -> Result<(), StoreError> {
        self.core.set_rules(rules, audit.is_some())?;
        self.witness = Witness::new(audit, required);
        if let Some(shut) = self.witness.shuts_door() {
            self.core.block_door(shut);
        }
        Ok(())
    }

    /// Runs the engine on this network until `stop`, then drains what is pending.
    pub fn run(
        self,
        net: net::Handle,
        events: mpsc::Receiver<net::Event>,
        stop: CancellationToken,
    ) -> (Engine, JoinHandle<()>) {
        let (calls, inbox) = mpsc::channel(CALLS);
        let (failed_sender, failed) = watch::channel(None);
        let (listening_sender, listening) = watch::channel(false);
        let registry = Registry::default();
        let bell = Bell::default();
        let engine = Engine {
            calls,
            spool: self.spool,
            artifacts: registry.clone(),
            me: net.local_peer(),
            net: net.clone(),
            clock: self.clock,
            max_stream_bytes: self.core.limits().quota,
            audited: self.witness.is_there(),
            failed,
            listening,
            note_turn: Arc::new(Semaphore::new(1)),
            bell: bell.clone(),
        };
        let (reports, courier_reports) = mpsc::channel(REPORTS);
        let shell = Shell {
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
            audience: Audience::new(listening_sender),
            links: HashMap::new(),
            plane: Plane::new(engine.clone(), registry),
            net,
            reports,
            on_route: self.on_route,
            on_span: self.on_span,
            on_card: self.on_card,
            on_doubt: self.on_doubt,
            lobby: Lobby::default(),
            witness: self.witness,
            bell,
            failure: None,
            failed: failed_sender,
        };
        let task = tokio::spawn(shell.run(inbox, events, courier_reports, self.progress, stop));
        (engine, task)
    }
}
