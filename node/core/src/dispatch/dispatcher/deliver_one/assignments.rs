//! Which listener has which task, and which listener has the fewest, in `deliver = "one"`. PURE.
//!
//! The counts of each listener follow from the tasks: every change of a task goes through [`Assignments::edit`], which counts
//! it, so the two never differ. The listeners that can be given a task stand in the order of how many they have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use super::{
    assignment::{HeldTask, OpenOffer, Recipient, TaskAssignment},
    listener::ListenerLoad,
};
use crate::transaction::ListenerId;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    last_key: u64,
    tasks: HashMap<u64, TaskAssignment>,
    by_task: HashMap<String, u64>,
    listeners: BTreeMap<ListenerId, ListenerLoad>,
    /// The listeners that can be given a task that every listener may be given, by how many tasks they have.
    ready: BTreeSet<(usize, ListenerId)>,
    /// This listener is given no more tasks until it has none, so that it can be given one alone.
    draining: Option<ListenerId>,
    /// Listeners that have fewer tasks than before: one may be free for a task that is handed out alone, or has been freed of
    /// one.
    relieved: BTreeSet<ListenerId>,
}

impl Assignments {
    pub(super) fn key(&self, task: &str) -> Option<u64> {
        self.by_task.get(task).copied()
    }

    /// The key of the task, which is new if it is not known. Keys are never used again.
    pub(super) fn key_or_new(&mut self, task: &str) -> u64 {
        if let Some(key) = self.key(task) {
            return key;
        }
        self.last_key += 1;
        self.tasks.insert(self.last_key, TaskAssignment::new(task));
        self.by_task.insert(task.to_owned(), self.last_key);
        self.last_key
    }

    pub(super) fn task(&self, key: u64) -> Option<&TaskAssignment> {
        self.tasks.get(&key)
    }

    pub(super) fn offer(&self, key: u64) -> Option<&OpenOffer> {
        self.tasks.get(&key)?.offer.as_ref()
    }

    pub(super) fn offer_of(&self, task: &str) -> Option<&OpenOffer> {
        self.offer(self.key(task)?)
    }

    /// Changes a task; its holder's counts follow.
    pub(super) fn edit<R>(&mut self, key: u64, change: impl FnOnce(&mut TaskAssignment) -> R) -> Option<R> {
        let task = self.tasks.get_mut(&key)?;
        let before = task.held();
        let result = change(task);
        let after = task.held();
        if before != after {
            if let Some(held) = before {
                self.count(held, false);
            }
            if let Some(held) = after {
                self.count(held, true);
            }
        }
        Some(result)
    }

    /// The same of what is on offer of it.
    pub(super) fn edit_offer<R>(&mut self, key: u64, change: impl FnOnce(&mut OpenOffer) -> R) -> Option<R> {
        self.edit(key, |task| task.offer.as_mut().map(change))?
    }

    fn count(&mut self, held: HeldTask, is_added: bool) {
        let Some(listener) = self.listeners.get_mut(&held.listener) else {
            return;
        };
        let change = |count: &mut usize, by: bool| {
            let by = usize::from(by);
            *count = if is_added { *count + by } else { *count - by };
        };
        change(&mut listener.in_hand, true);
        change(&mut listener.unreported, held.is_unreported);
        change(&mut listener.exclusive, held.is_exclusive);
        if !is_added {
            self.relieved.insert(held.listener);
        }
        self.refresh(held.listener);
    }

    /// Puts a listener where it belongs among those that can be given a task.
    fn refresh(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let is_free = listener.has_room() && !listener.is_stuck && listener.exclusive == 0;
        let is_ready = is_free && self.draining != Some(id);
        let ready_with = is_ready.then_some(listener.in_hand);
        if listener.ready_with != ready_with {
            if let Some(before) = std::mem::replace(&mut listener.ready_with, ready_with) {
                self.ready.remove(&(before, id));
            }
            if let Some(count) = ready_with {
                self.ready.insert((count, id));
            }
        }
    }

    /// The task is known no more. The listeners that were sent it, which still listen.
    pub(super) fn remove(&mut self, key: u64) -> Vec<ListenerId> {
        self.edit(key, |task| (task.holder, task.offer) = (None, None));
        let Some(task) = self.tasks.remove(&key) else {
            return Vec::new();
        };
        self.by_task.remove(&task.task);
        let told: Vec<ListenerId> = task.sent_to.iter().map(|sent| sent.listener).collect();
        for id in &told {
            if let Some(listener) = self.listeners.get_mut(id) {
                listener.had.remove(&key);
            }
        }
        told
    }

    /// Forgets the task if nothing has to be known of it.
    pub(super) fn forget_if_done(&mut self, key: u64) {
        if self.task(key).is_some_and(TaskAssignment::is_forgettable) {
            self.remove(key);
        }
    }

    /// The task is the listener's from now on; it counts as one that was sent it.
    pub(super) fn give(&mut self, key: u64, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        listener.had.insert(key);
        self.edit(key, |task| {
            task.holder = Some(id);
            if !task.was_sent_to(id) {
                task.sent_to.push(Recipient {
                    listener: id,
                    unread: 0,
                    version: 0,
                    number: 0,
                });
            }
        });
    }

    pub(super) fn listener_count(&self) -> usize {
        self.listeners.len()
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = (ListenerId, &ListenerLoad)> {
        self.listeners.iter().map(|(id, listener)| (*id, listener))
    }

    pub(super) fn listener(&self, id: ListenerId) -> Option<&ListenerLoad> {
        self.listeners.get(&id)
    }

    /// Changes a listener; where it stands among the others follows.
    pub(super) fn edit_listener<R>(
        &mut self,
        id: ListenerId,
        change: impl FnOnce(&mut ListenerLoad) -> R,
    ) -> Option<R> {
        let result = self.listeners.get_mut(&id).map(change);
        self.refresh(id);
        result
    }

    pub(super) fn add_listener(&mut self, id: ListenerId, connection: Option<u64>, wants_ends: bool) {
        self.remove_listener(id);
        self.listeners
            .insert(id, ListenerLoad::new(id, connection, wants_ends));
        self.refresh(id);
    }

    /// The listeners with a stream that is behind the others since this look.
    pub(super) fn check_behind(&mut self, now: Duration) -> Vec<ListenerId> {
        let checked = self.listeners.iter_mut();
        let behind = checked.filter_map(|(id, listener)| listener.streams.check_behind(now).then_some(*id));
        let behind: Vec<ListenerId> = behind.collect();
        for id in &behind {
            self.refresh(*id);
        }
        behind
    }

    /// The listener is gone. The tasks that it had are still to be taken from it.
    pub(super) fn remove_listener(&mut self, id: ListenerId) -> Option<ListenerLoad> {
        let gone = self.listeners.remove(&id)?;
        if let Some(count) = gone.ready_with {
            self.ready.remove(&(count, id));
        }
        self.relieved.remove(&id);
        self.draining = self.draining.filter(|draining| *draining != id);
        Some(gone)
    }

    pub(super) fn draining(&self) -> Option<ListenerId> {
        self.draining
    }

    pub(super) fn set_draining(&mut self, draining: Option<ListenerId>) {
        let before = std::mem::replace(&mut self.draining, draining);
        for id in before.into_iter().chain(draining) {
            self.refresh(id);
        }
    }

    /// Whether the listener can be given a task that every listener may be given.
    pub(super) fn is_ready(&self, id: ListenerId) -> bool {
        self.listener(id)
            .is_some_and(|listener| listener.ready_with.is_some())
    }

    /// The listeners that can be given such a task, those that have the fewest first.
    pub(super) fn ready(&self) -> impl Iterator<Item = ListenerId> {
        self.ready.iter().map(|(_, id)| *id)
    }

    /// The listeners that have fewer tasks than when this was last asked.
    pub(super) fn take_relieved(&mut self) -> BTreeSet<ListenerId> {
        std::mem::take(&mut self.relieved)
    }

    /// The listener is to be looked at when the turn is over.
    pub(super) fn note_relieved(&mut self, id: ListenerId) {
        self.relieved.insert(id);
    }

    #[cfg(test)]
    pub(super) fn known_tasks(&self) -> usize {
        assert_eq!(self.tasks.len(), self.by_task.len());
        self.tasks.len()
    }
}
