//! The streams that are in memory, by caller and id. Streams that are not used leave it, and come back from
//! their tasks when they are asked for.
//!
//! Invariant: at most [`MOST_STREAMS`] are in memory; one that is read is never let go of.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agentanycast_gateway::caller::CallerIdentity;
use agentanycast_uamp::{
    envelope::EnvelopeId,
    error::{UampCode, UampError},
};

use super::stream::UampStream;

/// Streams in memory: each has up to 8 MiB of chunks that are not acknowledged or kept, most have some KiB.
pub(super) const MOST_STREAMS: usize = 4096;

/// How long a stream that has ended, or that no consumer reads, stays in memory.
const KEPT_FOR: Duration = Duration::from_mins(10);

/// How long a stream that goes on was not read at least that gives way to a new one.
const IDLE: Duration = Duration::from_secs(5);

/// Streams that give way at a time.
const AT_A_TIME: usize = MOST_STREAMS / 8;

/// By caller and stream id.
type StreamKey = (CallerIdentity, String);

/// The streams.
#[derive(Default)]
pub(super) struct StreamTable(Mutex<TableState>);

#[derive(Default)]
struct TableState {
    streams: HashMap<StreamKey, Arc<UampStream>>,
    /// The streams by the envelopes that opened them.
    by_envelope: HashMap<(CallerIdentity, EnvelopeId), String>,
}

impl StreamTable {
    fn state(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of a caller.
    pub(super) fn get(&self, caller: &CallerIdentity, id: &str) -> Option<Arc<UampStream>> {
        self.state()
            .streams
            .get(&(caller.clone(), id.to_owned()))
            .cloned()
    }

    /// The stream that an envelope opened.
    pub(super) fn by_envelope(&self, caller: &CallerIdentity, id: EnvelopeId) -> Option<Arc<UampStream>> {
        let state = self.state();
        let stream = state.by_envelope.get(&(caller.clone(), id))?;
        state.streams.get(&(caller.clone(), stream.clone())).cloned()
    }

    /// Adds a stream; the one that is there already, if there is one.
    ///
    /// # Errors
    /// [`UampCode::BackendBusy`] when all that are in memory are in use.
    pub(super) fn add(&self, stream: Arc<UampStream>) -> Result<Arc<UampStream>, UampError> {
        let mut state = self.state();
        let key = (stream.caller.clone(), stream.id.clone());
        if let Some(known) = state.streams.get(&key) {
            return Ok(Arc::clone(known));
        }
        if state.streams.len() >= MOST_STREAMS && !state.make_room() {
            let text = format!("{MOST_STREAMS} streams are open, the most at a time; try again later");
            return Err(UampError::coded(UampCode::BackendBusy, text));
        }
        let by = (stream.caller.clone(), stream.origin.id);
        state.by_envelope.entry(by).or_insert_with(|| stream.id.clone());
        state.streams.insert(key, Arc::clone(&stream));
        Ok(stream)
    }

    /// Lets go of streams that were not used for a while.
    pub(super) fn sweep(&self) {
        let mut state = self.state();
        let old: Vec<StreamKey> = state
            .streams
            .iter()
            .filter(|(_, stream)| stream.unused_for() >= KEPT_FOR)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            state.remove(&key);
        }
    }

    /// How many are in memory, and how many of those go on.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        let open = state.streams.values().filter(|stream| !stream.is_over()).count();
        (state.streams.len() as u64, open as u64)
    }
}

impl TableState {
    /// Lets go of some streams that were unused for longest: those that have ended, else those that no consumer reads.
    /// Several at a time, since it looks at all of them.
    fn make_room(&mut self) -> bool {
        let now = Instant::now();
        let mut candidates: Vec<((bool, Duration), &StreamKey)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.readers() == 0)
            .map(|(key, stream)| (stream.over_and_unused_for(now), key))
            .filter(|((is_over, unused), _)| *is_over || *unused > IDLE)
            .collect();
        if candidates.len() > AT_A_TIME {
            candidates.select_nth_unstable_by_key(AT_A_TIME, |(age, _)| std::cmp::Reverse(*age));
            candidates.truncate(AT_A_TIME);
        }
        let chosen: Vec<StreamKey> = candidates.into_iter().map(|(_, key)| key.clone()).collect();
        for key in &chosen {
            self.remove(key);
        }
        !chosen.is_empty()
    }

    fn remove(&mut self, key: &StreamKey) {
        if let Some(stream) = self.streams.remove(key) {
            stream.abandon();
            self.by_envelope
                .remove(&(stream.caller.clone(), stream.origin.id));
        }
    }
}
