//! Everyone at this node who is told of tasks: the subscribers of each, and the agents that listen for new ones.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::{mpsc, watch};

use super::{
    note_changes::NoteChanges,
    task_subscribers::TaskSubscribers,
    transaction::{EngineError, ListenerId},
    types::OfferedTask,
};

/// Agents that listen at once. Each new task goes to every one of them; an agent is a connection, and there
/// are 512 of those.
const MAX_LISTENERS: usize = 8192;

/// Everyone who is told of changes.
pub(super) struct Subscriptions {
    subscribers: TaskSubscribers,
    note_changes: Arc<NoteChanges>,
    listeners: HashMap<ListenerId, mpsc::Sender<OfferedTask>>,
    next_listener: ListenerId,
    /// Whether there is any.
    listening: watch::Sender<bool>,
}

impl Subscriptions {
    /// Nobody yet; `listening` is told whether an agent listens.
    pub(super) fn new(listening: watch::Sender<bool>) -> Self {
        Self {
            subscribers: TaskSubscribers::default(),
            note_changes: Arc::default(),
            listeners: HashMap::new(),
            next_listener: 0,
            listening,
        }
    }

    /// The subscribers of each task.
    pub(crate) fn subscribers(&mut self) -> &mut TaskSubscribers {
        &mut self.subscribers
    }

    /// The tasks whose notes changed.
    pub(crate) fn note_changes(&self) -> &Arc<NoteChanges> {
        &self.note_changes
    }

    pub(super) fn add_listener(
        &mut self,
        sender: mpsc::Sender<OfferedTask>,
    ) -> Result<ListenerId, EngineError> {
        if self.listeners.len() >= MAX_LISTENERS {
            return Err(EngineError::Exhausted(format!(
                "{MAX_LISTENERS} agents listen for tasks already, the limit of this node"
            )));
        }
        self.next_listener += 1;
        self.listeners.insert(self.next_listener, sender);
        self.tell();
        Ok(self.next_listener)
    }

    pub(super) fn remove_listener(&mut self, id: ListenerId) {
        self.listeners.remove(&id);
        self.tell();
    }

    /// Hands a task to a listener, if it is still there.
    pub(super) fn hand_over(&self, listener: ListenerId, incoming: OfferedTask) {
        if let Some(sender) = self.listeners.get(&listener) {
            // Full or closed: the listener has gone, and its detaching offers the task again.
            let _ = sender.try_send(incoming);
        }
    }

    fn tell(&self) {
        let is_listening = !self.listeners.is_empty();
        self.listening
            .send_if_modified(|known| std::mem::replace(known, is_listening) != is_listening);
    }
}
