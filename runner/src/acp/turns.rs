//! The turns of an agent that are under way, by their sessions: where what the agent sends about a session goes.
//!
//! Invariant: what waits to be read of one turn is bounded in bytes; a turn that exceeds the bound is told so and gets
//! nothing more.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use agent_client_protocol::v1::{
    Responder,
    schema::{RequestPermissionRequest, RequestPermissionResponse, SessionId, SessionUpdate},
};
use tokio::sync::mpsc;

/// A request for permission, and where its answer goes.
pub(super) type PermissionEvent = (RequestPermissionRequest, Responder<RequestPermissionResponse>);

/// What an agent sends about a session.
pub(super) enum TurnEvent {
    /// What it does or says.
    Update(Box<SessionUpdate>),
    /// It wants to be permitted something.
    Permission(Box<PermissionEvent>),
    /// More waits than may; nothing follows.
    TooMuch,
}

/// The turns that are under way.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<SessionId, TurnSender>>);

struct TurnSender {
    events: mpsc::UnboundedSender<(TurnEvent, usize)>,
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl Turns {
    /// Begins a turn, of which at most so many bytes may wait.
    pub(super) fn open(self: &Arc<Self>, session: &SessionId, limit: usize) -> TurnEvents {
        let (sender, events) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let turn = TurnSender {
            events: sender,
            waiting: Arc::clone(&waiting),
            limit,
        };
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.insert(session.clone(), turn);
        drop(turns);
        TurnEvents {
            turns: Arc::clone(self),
            session: session.clone(),
            events,
            waiting,
        }
    }

    /// Hands an event to the turn of a session; the event, if there is no turn. `size`: its bytes, nearly.
    pub(super) fn put(&self, session: &SessionId, event: TurnEvent, size: usize) -> Option<TurnEvent> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(turn) = turns.get(session) else {
            return Some(event);
        };
        if turn.waiting.fetch_add(size, Ordering::Relaxed) + size > turn.limit {
            let _ = turn.events.send((TurnEvent::TooMuch, 0));
            turns.remove(session);
            return None;
        }
        turn.events.send((event, size)).err().map(|unsent| unsent.0.0)
    }
}

/// The events of one turn, which ends when they are dropped.
pub(super) struct TurnEvents {
    turns: Arc<Turns>,
    session: SessionId,
    events: mpsc::UnboundedReceiver<(TurnEvent, usize)>,
    waiting: Arc<AtomicUsize>,
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
}

impl Drop for TurnEvents {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.remove(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said() -> TurnEvent {
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
        TurnEvent::Update(Box::new(serde_json::from_value(update).unwrap()))
    }

    #[tokio::test]
    async fn events_go_to_their_turn_as_long_as_it_reads() {
        let turns = Arc::new(Turns::default());
        let (one, two) = (SessionId::new("1"), SessionId::new("2"));
        let mut events = turns.open(&one, 10);
        for _ in 0..20 {
            assert!(turns.put(&one, said(), 10).is_none());
            assert!(matches!(events.next().await, TurnEvent::Update(_)));
        }
        assert!(turns.put(&two, said(), 1).is_some());
        drop(events);
        assert!(turns.put(&one, said(), 1).is_some());
    }

    #[tokio::test]
    async fn a_turn_that_does_not_read_is_told_that_there_is_too_much() {
        let turns = Arc::new(Turns::default());
        let one = SessionId::new("1");
        let mut events = turns.open(&one, 10);
        assert!(turns.put(&one, said(), 6).is_none());
        assert!(turns.put(&one, said(), 6).is_none());
        assert!(turns.put(&one, said(), 1).is_some());
        assert!(matches!(events.next().await, TurnEvent::Update(_)));
        assert!(matches!(events.try_next(), Some(TurnEvent::TooMuch)));
    }
}
