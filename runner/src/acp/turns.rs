//! The turns of an agent that are under way, by their sessions: where what the agent sends about a session goes.
//!
//! Invariants: what waits to be read of one turn is bounded in bytes; a turn that exceeds the bound is told so and gets
//! nothing more. Each part of an answer goes to one turn, or is kept with its session and told.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent_client_protocol::v1::{
    Responder,
    schema::{ContentChunk, RequestPermissionResponse, SessionId, SessionUpdate},
};
use lru::LruCache;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    permission::PermissionRequest,
    voice::{Belongs, Voice},
};

/// How long an agent has to be silent behind the end of its turn: agents in use send the end before the last part of
/// their answer, which comes within milliseconds on a host that has time.
const QUIET: Duration = Duration::from_millis(500);

/// How much longer the silence is where a line waits as long to be known as one of a log.
const DOUBT: Duration = Duration::from_millis(200);

/// How long the silence is waited for.
const QUIET_WITHIN: Duration = Duration::from_secs(30);

/// Most sessions whose voices are known.
const MOST_VOICES: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// A request for permission, and where its answer goes.
pub(super) type PermissionEvent = (PermissionRequest, Responder<RequestPermissionResponse>);

/// What an agent sends about a session.
pub(super) enum TurnEvent {
    /// What it does or says.
    Update(Box<SessionUpdate>),
    /// A part of the answer of an earlier turn that ended by itself, unless the agent gives its ids again.
    Late(Box<ContentChunk>),
    /// A line about the session cannot be read, and ended no call.
    Unread(String),
    /// It wants to be permitted something.
    Permission(Box<PermissionEvent>),
    /// More waits than may; nothing follows.
    TooMuch,
}

/// The turns that are under way.
pub(super) struct Turns(Mutex<Inner>);

struct Inner {
    open: HashMap<SessionId, TurnSender>,
    voices: LruCache<SessionId, SessionVoice>,
}

#[derive(Default)]
struct SessionVoice {
    voice: Voice,
    /// When the agent said or did something last.
    last: Option<Instant>,
}

struct TurnSender {
    events: mpsc::UnboundedSender<(TurnEvent, usize)>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl TurnSender {
    /// Hands over an event; false, where too much waits.
    fn send(&self, event: TurnEvent, size: usize) -> bool {
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > self.limit {
            let _ = self.events.send((TurnEvent::TooMuch, 0));
            return false;
        }
        // The receiver takes the turn out before it goes.
        let _ = self.events.send((event, size));
        true
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            open: HashMap::new(),
            voices: LruCache::new(MOST_VOICES),
        }))
    }
}

impl Turns {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn, of which at most so many bytes may wait.
    pub(super) fn open(self: &Arc<Self>, session: &SessionId, limit: usize) -> TurnEvents {
        let (sender, events) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let turn = TurnSender {
            events: sender,
            waiting: Arc::clone(&waiting),
            limit,
        };
        let mut inner = self.inner();
        inner.voice(session).voice.begin();
        inner.open.insert(session.clone(), turn);
        drop(inner);
        TurnEvents {
            turns: Arc::clone(self),
            session: session.clone(),
            events,
            waiting,
            is_open: true,
        }
    }

    /// Takes what an agent says or does. `size`: its bytes, nearly.
    pub(super) fn update(&self, session: &SessionId, update: SessionUpdate, size: usize) {
        let mut inner = self.inner();
        let Inner { open, voices } = &mut *inner;
        let turn = open.get(session);
        let known = voices.get_mut(session);
        let is_word = matches!(
            update,
            SessionUpdate::AgentMessageChunk(_)
                | SessionUpdate::AgentThoughtChunk(_)
                | SessionUpdate::ToolCall(_)
                | SessionUpdate::ToolCallUpdate(_)
        );
        let Some(SessionVoice { voice, last }) = known else {
            tracing::warn!(session = %session.0, "an ACP agent speaks of a session that no conversation has");
            return;
        };
        if is_word {
            *last = Some(Instant::now());
        }
        let event = match (update, turn) {
            (_, _) if voice.is_loading => return,
            (SessionUpdate::AgentMessageChunk(chunk), Some(_)) => match voice.belongs(&chunk) {
                Belongs::This => TurnEvent::Update(Box::new(SessionUpdate::AgentMessageChunk(chunk))),
                Belongs::Ended => TurnEvent::Late(Box::new(chunk)),
                Belongs::Broken => return voice.keep(&chunk),
            },
            (SessionUpdate::AgentMessageChunk(chunk), None) => {
                tracing::info!(session = %session.0, "an ACP agent speaks outside of its turns; the next task is told");
                return voice.keep(&chunk);
            }
            (update, _) => TurnEvent::Update(Box::new(update)),
        };
        if let Some(turn) = turn
            && !turn.send(event, size)
        {
            open.remove(session);
        }
    }

    /// Hands a request to the turn of its session; the request, if there is no turn.
    pub(super) fn permission(&self, event: PermissionEvent, size: usize) -> Option<PermissionEvent> {
        let mut inner = self.inner();
        let session = event.0.session_id.clone();
        let Some(turn) = inner.open.get(&session) else {
            return Some(event);
        };
        if !turn.send(TurnEvent::Permission(Box::new(event)), size) {
            inner.open.remove(&session);
        }
        None
    }

    /// Tells the turn of a session, if there is one, of a line that cannot be read.
    pub(super) fn unread(&self, session: &SessionId, reason: String) {
        let mut inner = self.inner();
        if let Some(turn) = inner.open.get(session) {
            let size = reason.len();
            if !turn.send(TurnEvent::Unread(reason), size) {
                inner.open.remove(session);
            }
        }
    }

    /// The agent has perhaps said something in a session, which is known half a second later.
    pub(super) fn doubt(&self, session: &SessionId) {
        if let Some(known) = self.inner().voices.get_mut(session) {
            known.last = Some(Instant::now() + DOUBT);
        }
    }

    /// From now on, or no more, the agent repeats what was said before in a session.
    pub(super) fn set_loading(&self, session: &SessionId, is_loading: bool) {
        self.inner().voice(session).voice.is_loading = is_loading;
    }

    /// What is to be told of what the agent said outside of the turns of a session.
    pub(super) fn take_kept(&self, session: &SessionId) -> Option<String> {
        self.inner().voices.get_mut(session)?.voice.take_kept()
    }

    /// Resolves when the agent has said and done nothing in a session for [`QUIET`]; after [`QUIET_WITHIN`] anyway.
    pub(super) async fn quiet(&self, session: &SessionId) {
        let began = Instant::now();
        loop {
            let last = self.inner().voices.peek(session).and_then(|known| known.last);
            let until = last.map_or(began, |last| last.max(began)) + QUIET;
            let until = until.min(began + QUIET_WITHIN);
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Inner {
    fn voice(&mut self, session: &SessionId) -> &mut SessionVoice {
        self.voices
            .get_or_insert_mut(session.clone(), SessionVoice::default)
    }
}

/// The events of one turn. What is unread when they are dropped is kept with the session.
pub(super) struct TurnEvents {
    turns: Arc<Turns>,
    session: SessionId,
    events: mpsc::UnboundedReceiver<(TurnEvent, usize)>,
    waiting: Arc<AtomicUsize>,
    is_open: bool,
}

impl TurnEvents {
    /// The next event; never, when there are no more. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> TurnEvent {
        match self.events.recv().await {
            Some((event, size)) => self.taken(event, size),
            None => std::future::pending().await,
        }
    }

    /// The next event, if there is one.
    pub(super) fn try_next(&mut self) -> Option<TurnEvent> {
        let (event, size) = self.events.try_recv().ok()?;
        Some(self.taken(event, size))
    }

    fn taken(&self, event: TurnEvent, size: usize) -> TurnEvent {
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        event
    }

    /// Ends the turn, which the agent ended by itself or not: nothing follows what can be read now.
    pub(super) fn close(&mut self, by_itself: bool) {
        if std::mem::take(&mut self.is_open) {
            let mut inner = self.turns.inner();
            inner.open.remove(&self.session);
            inner.voice(&self.session).voice.end(by_itself);
        }
    }

    /// Keeps a late part of an answer, which is told outside of the turns.
    pub(super) fn keep(&self, chunk: &ContentChunk) {
        self.turns.inner().voice(&self.session).voice.keep(chunk);
    }

    /// The agent gives the ids of its messages again.
    pub(super) fn reuse_ids(&self) {
        self.turns.inner().voice(&self.session).voice.reuse_ids();
    }

    /// See [`Turns::quiet`].
    pub(super) fn quiet(&self) -> impl Future<Output = ()> + use<> {
        let (turns, session) = (Arc::clone(&self.turns), self.session.clone());
        async move { turns.quiet(&session).await }
    }
}

impl Drop for TurnEvents {
    fn drop(&mut self) {
        self.close(false);
        while let Some(event) = self.try_next() {
            match event {
                TurnEvent::Late(chunk) => self.keep(&chunk),
                TurnEvent::Update(update) => {
                    if let SessionUpdate::AgentMessageChunk(chunk) = *update {
                        self.keep(&chunk);
                    }
                }
                TurnEvent::Unread(_) | TurnEvent::Permission(_) | TurnEvent::TooMuch => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
