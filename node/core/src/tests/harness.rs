//! One node: a core over a store in memory, and the pipeline behind it. Effects and answers are let
//! out only when their batch is durable; a crash loses whatever was not.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use agentanycast_identity::{Keypair, PeerId, peer_id};
use agentanycast_proto::v1::{Artifact, Message, Part, TextPart, part::Content};
use agentanycast_store::{Batch, Store as _, StoreError, memory::MemoryStore};

use crate::{
    clock::Now,
    coordinator::Coordinator,
    transaction::{DeliverMode, Effect, EngineLimits, HandOverLimits},
};

pub(super) fn key(number: u8) -> Keypair {
    Keypair::ed25519_from_bytes([number; 32]).unwrap()
}

pub(super) fn peer(number: u8) -> PeerId {
    peer_id(&key(number))
}

pub(crate) fn limits() -> EngineLimits {
    EngineLimits {
        retry_delays: [2, 4, 8].map(Duration::from_secs).to_vec(),
        offline_ttl: Some(Duration::from_hours(24)),
        agent_grace: Duration::from_mins(5),
        max_agents: 4096,
        node_name: None,
        agent_forget: Duration::from_hours(24),
        max_agent_ends: 5,
        hand_over: HandOverLimits {
            deliver: DeliverMode::One,
            timeout: Duration::from_secs(30),
            claim_within: None,
        },
        max_task_time: None,
        retention: Duration::from_hours(7 * 24),
        retention_count: 100_000,
        quota: 10 << 30,
        max_open_tasks: 10_000,
        max_artifact_bytes: 64 << 20,
        trace_share: None,
    }
}

pub(super) fn text(id: &str, text: &str) -> Message {
    Message {
        message_id: id.into(),
        parts: vec![part(text)],
        ..Message::default()
    }
}

pub(super) fn artifact(id: &str, text: &str) -> Artifact {
    Artifact {
        artifact_id: id.into(),
        parts: vec![part(text)],
        ..Artifact::default()
    }
}

fn part(text: &str) -> Part {
    Part {
        content: Some(Content::TextPart(TextPart { text: text.into() })),
        ..Part::default()
    }
}

/// What one turn let out, once it was durable; `reply` is whatever its caller waits for.
pub(super) struct ReleasedEffects<R> {
    pub(super) effects: Vec<Effect>,
    #[allow(dead_code, reason = "kept alive until the turn is durable")]
    pub(super) reply: Option<R>,
}

struct TestTransaction<R> {
    commit: u64,
    released: ReleasedEffects<R>,
}

pub(super) struct TestNode<R> {
    pub(super) me: PeerId,
    number: u8,
    pub(super) core: Coordinator,
    pub(super) store: Arc<MemoryStore>,
    limits: EngineLimits,
    boots: u64,
    seed: u64,
    submitted: u64,
    durable: u64,
    batches: VecDeque<Batch>,
    pending: VecDeque<TestTransaction<R>>,
}

impl<R> TestNode<R> {
    pub(super) fn new(number: u8, limits: &EngineLimits, now: Now, seed: u64) -> Self {
        let limits = limits.clone();
        let (me, store) = (peer(number), Arc::new(MemoryStore::default()));
        let mut core = Coordinator::load(me, limits.clone(), store.clone(), now, seed).unwrap();
        core.external_mut().set_key(key(number));
        let (batches, pending) = (VecDeque::new(), VecDeque::new());
        Self {
            me,
            number,
            core,
            store,
            limits,
            boots: 0,
            seed,
            submitted: 0,
            durable: 0,
            batches,
            pending,
        }
    }

    /// Ends the turn: its batch goes to the writer, the rest waits for it.
    pub(super) fn finish_turn(&mut self, now: Now, reply: Option<R>) {
        let mut turn = self.core.finish_transaction(now);
        turn.effects.splice(..0, std::mem::take(&mut turn.early));
        if !turn.batch.is_empty() {
            self.submitted += 1;
            self.batches.push_back(turn.batch);
        }
        self.pending.push_back(TestTransaction {
            commit: self.submitted,
            released: ReleasedEffects {
                effects: turn.effects,
                reply,
            },
        });
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    fn apply(&mut self, most: usize) -> Result<(), StoreError> {
        for _ in 0..most.min(self.batches.len()) {
            if let Some(batch) = self.batches.front() {
                self.store.apply(batch.clone())?;
            }
            self.batches.pop_front();
            self.durable += 1;
        }
        Ok(())
    }

    /// The writer writes at most `most` batches and passes the barrier.
    pub(super) fn commit(&mut self, most: usize) -> Result<Vec<ReleasedEffects<R>>, StoreError> {
        self.apply(most)?;
        self.store.barrier()?;
        self.core.on_durable(self.durable, None);
        let mut released = Vec::new();
        while let Some(pending) = self
            .pending
            .pop_front_if(|pending| pending.commit <= self.durable)
        {
            released.push(pending.released);
        }
        Ok(released)
    }

    /// The process dies after it wrote `applied` more batches, with or without a last barrier, and
    /// starts again. Nobody was told anything of them.
    pub(super) fn crash(&mut self, now: Now, applied: usize, barrier: bool) {
        self.apply(applied).unwrap();
        if barrier {
            self.store.barrier().unwrap();
        }
        self.store.crash();
        self.start(now);
    }

    /// The node goes on with a backup.
    pub(super) fn put_back(&mut self, now: Now, backup: MemoryStore) {
        self.store = Arc::new(backup);
        self.start(now);
    }

    fn start(&mut self, now: Now) {
        self.boots += 1;
        let seed = self.seed ^ (self.boots << 32);
        self.core = Coordinator::load(self.me, self.limits.clone(), self.store.clone(), now, seed).unwrap();
        self.core.external_mut().set_key(key(self.number));
        (self.submitted, self.durable) = (0, 0);
        self.batches.clear();
        self.pending.clear();
    }
}
