//! One daemon: a core over a disk, and what its shell promises. Inputs may share a turn; the batch of a
//! turn goes to the writer; answers and effects come out in the order in which they came about, and only
//! when the batch of their turn is durable. A crash loses any suffix of what was not yet durable, never a part of a
//! batch. When reading or writing fails, nothing comes out any more until a restart.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_store::{Batch, Store as _, StoreError};

use super::{
    disk::{DiskFault, SimDisk},
    history::CallId,
    mutation::Mutation,
    rng::SimRng,
};
use crate::{
    StreamRoute,
    clock::Now,
    coordinator::Coordinator,
    policy::{PolicyRules, WrittenRule, WrittenRules},
    task::Task,
    tests::harness::peer,
    transaction::{Effect, EngineError, EngineLimits},
};

/// Turns that may wait for the barrier before input is kept back.
const MAX_PENDING: usize = 64;

/// When the runs begin, in Unix milliseconds.
const START: u64 = 1_767_225_600_000;

/// What a call gave.
pub(super) enum CallValue {
    Nothing,
    Task(Box<Task>),
    Route(StreamRoute),
}

pub(super) type CallAnswer = Result<CallValue, EngineError>;

/// What comes out of a turn.
pub(super) enum SimOutput {
    Effect(Box<Effect>),
    Answer(CallId, CallAnswer),
}

struct SimTransaction {
    commit: u64,
    out: Vec<SimOutput>,
}

pub(super) struct SimDaemon {
    pub(super) me: PeerId,
    number: u8,
    pub(super) core: Option<Coordinator>,
    disk: Arc<SimDisk>,
    limits: EngineLimits,
    seed: u64,
    sabotage: Mutation,
    /// True once reading or writing has failed, until the restart.
    failed: bool,
    booted_at: Duration,
    boots: u64,
    /// Milliseconds that its calendar is ahead.
    skew: i64,
    /// Answers of this turn, each with the number of effects that come before it.
    answers: VecDeque<(usize, CallId, CallAnswer)>,
    /// Inputs since the last turn was taken.
    inputs: usize,
    submitted: u64,
    durable: u64,
    batches: VecDeque<Batch>,
    pending: VecDeque<SimTransaction>,
}

impl SimDaemon {
    pub(super) fn new(number: u8, limits: &EngineLimits, seed: u64, sabotage: Mutation) -> Self {
        Self {
            me: peer(number),
            number,
            core: None,
            disk: Arc::default(),
            limits: limits.clone(),
            seed,
            sabotage,
            failed: false,
            booted_at: Duration::ZERO,
            boots: 0,
            skew: 0,
            answers: VecDeque::new(),
            inputs: 0,
            submitted: 0,
            durable: 0,
            batches: VecDeque::new(),
            pending: VecDeque::new(),
        }
    }

    pub(super) fn now(&self, time: Duration) -> Now {
        let unix = (START + time.as_millis() as u64).saturating_add_signed(self.skew);
        Now {
            mono: time.saturating_sub(self.booted_at),
            unix,
        }
    }

    pub(super) fn jump(&mut self, ms: i64) {
        self.skew += ms;
    }

    /// True while it takes calls and answers them.
    pub(super) fn is_running(&self) -> bool {
        self.core.is_some() && !self.failed
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn has_room(&self) -> bool {
        self.is_running() && self.pending.len() < MAX_PENDING
    }

    /// Something goes into the core. None: nobody is there to take it.
    pub(super) fn input<T>(
        &mut self,
        time: Duration,
        f: impl FnOnce(&mut Coordinator, Now) -> Result<T, StoreError>,
    ) -> Option<T> {
        let now = self.now(time);
        if self.failed {
            return None;
        }
        let done = f(self.core.as_mut()?, now);
        self.inputs += 1;
        match done {
            Ok(value) => Some(value),
            Err(StoreError::Damaged(what)) => panic!("a record that nobody damaged is damaged: {what}"),
            Err(_) => {
                self.fail();
                None
            }
        }
    }

    /// What came of the last input and need not wait for its turn.
    pub(super) fn take_early(&mut self) -> Vec<Effect> {
        let early = self.core.as_mut().map(|core| core.transaction().take_early());
        early.filter(|_| !self.failed).unwrap_or_default()
    }

    /// A call of a client; its answer comes out with its turn.
    pub(super) fn call(
        &mut self,
        time: Duration,
        id: CallId,
        f: impl FnOnce(&mut Coordinator, Now) -> CallAnswer,
    ) -> Option<()> {
        let (before, answer) = self.input(time, |core, now| {
            let before = core.transaction().pending_effects();
            let answer = f(core, now);
            core.transaction().take_store_failure().map(|()| (before, answer))
        })?;
        self.answers.push_back((before, id, answer));
        Some(())
    }

    /// Ends the turn that the inputs since the last one make. Returns what need not wait for it.
    #[must_use]
    pub(super) fn end_turn(&mut self, time: Duration) -> Vec<Effect> {
        if self.inputs == 0 || !self.is_running() {
            return Vec::new();
        }
        self.inputs = 0;
        let now = self.now(time);
        let Some(core) = &mut self.core else {
            return Vec::new();
        };
        let mut turn = core.finish_transaction(now);
        if core.transaction().take_store_failure().is_err() {
            self.fail();
            return Vec::new();
        }
        self.sabotage.of_batch(&mut turn.batch);
        let mut out = Vec::new();
        for (number, effect) in turn.effects.into_iter().enumerate() {
            while let Some((_, id, answer)) = self.answers.pop_front_if(|(before, ..)| *before <= number) {
                out.push(SimOutput::Answer(id, answer));
            }
            out.push(SimOutput::Effect(Box::new(effect)));
        }
        out.extend(
            self.answers
                .drain(..)
                .map(|(_, id, answer)| SimOutput::Answer(id, answer)),
        );
        let lazy = out.is_empty();
        if !turn.batch.is_empty() {
            self.submitted += 1;
            self.batches.push_back(turn.batch);
        }
        if !lazy {
            let commit = self.sabotage.of_commit(self.submitted);
            self.pending.push_back(SimTransaction { commit, out });
        }
        turn.early
    }

    /// How many batches wait for the writer, and whether anybody waits for one of them.
    pub(super) fn waiting(&self) -> (usize, bool) {
        (self.batches.len(), !self.pending.is_empty())
    }

    /// The writer writes at most `most` batches as one group and passes the barrier.
    pub(super) fn write(&mut self, most: usize) {
        let count = most.min(self.batches.len());
        if count == 0 || !self.is_running() {
            return;
        }
        let mut group = Batch::default();
        for batch in self.batches.drain(..count) {
            group.changes.extend(batch.changes);
        }
        match self.disk.apply(group).and_then(|()| self.disk.barrier()) {
            Ok(()) => {
                self.durable += count as u64;
                if let Some(core) = &mut self.core {
                    core.on_durable(self.durable, None);
                }
            }
            Err(_) => self.fail(),
        }
    }

    /// What may be let out by now, in order.
    pub(super) fn release(&mut self) -> Option<Vec<SimOutput>> {
        let durable = self.durable;
        let pending = self.pending.pop_front_if(|pending| pending.commit <= durable)?;
        Some(pending.out)
    }

    pub(super) fn break_disk(&mut self, dice: &mut SimRng) {
        match dice.below(3) {
            0 => self.disk.fail(DiskFault::Writes),
            1 => self.disk.fail(DiskFault::Barriers),
            _ => self.disk.fail_a_read(dice.below(20)),
        }
    }

    /// No read or write fails from now on.
    pub(super) fn mend_disk(&self) {
        self.disk.mend();
    }

    fn fail(&mut self) {
        self.failed = true;
        self.pending.clear();
        self.answers.clear();
    }

    /// The process dies. Some of what it had handed to the writer may have become durable all the same.
    pub(super) fn crash(&mut self, dice: &mut SimRng) {
        self.disk.mend();
        if self.failed {
            // What was written without a barrier may be there or not.
            if dice.chance(50) {
                self.disk.lose_power();
            }
        } else {
            let survive = dice.below(self.batches.len() + 1);
            for batch in self.batches.iter().take(survive) {
                let _ = self.disk.apply(batch.clone());
            }
            if let Some(batch) = self.batches.get(survive) {
                let half = self.sabotage.half_of(batch);
                let _ = self.disk.apply(half);
            }
        }
        let _ = self.disk.barrier();
        self.core = None;
        self.failed = false;
        self.batches.clear();
        self.pending.clear();
        self.answers.clear();
    }

    /// It starts again. False: it could not.
    pub(super) fn boot(&mut self, time: Duration) -> bool {
        self.boots += 1;
        self.booted_at = time;
        let seed = self.seed ^ (self.boots << 32) ^ u64::from(self.number);
        let disk = Arc::clone(&self.disk);
        let core = Coordinator::load(self.me, self.limits.clone(), disk, self.now(time), seed);
        // Rules that let everybody in, and count what everybody has: the door is a part of every road.
        let guarded = core.and_then(|mut core| core.set_rules(rules(), true).map(|()| core));
        self.core = guarded.ok();
        (self.inputs, self.submitted, self.durable) = (1, 0, 0);
        self.core.is_some()
    }
}

fn rules() -> PolicyRules {
    let policy = WrittenRules {
        acl: vec![WrittenRule {
            source: "*".into(),
            skill: "*".into(),
            agent: "*".to_owned(),
            allow: true,
        }],
        max_in_flight: 1_000_000,
        ..WrittenRules::default()
    };
    PolicyRules::parse(&policy).unwrap()
}
