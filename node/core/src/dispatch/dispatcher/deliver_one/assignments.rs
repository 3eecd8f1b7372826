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
    trial::OtherListeners,
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
    /// The listeners that may have one more in a moment, in the same order: what comes waits for them, if others have more.
    awaited: BTreeSet<(usize, ListenerId)>,
    /// This listener is given no more tasks until it has none, so that it can be given one alone.
    draining: Option<ListenerId>,
    /// Listeners that have fewer tasks than before: one may be free for a task that is handed out alone, or has been freed of
    /// one.
    relieved: BTreeSet<ListenerId>,
    /// How many listeners there are whose agents have acted.
    acting: usize,
    /// The listeners that may have more with time.
    trials: BTreeSet<ListenerId>,
    /// The place of the last task that was sent.
    last_place: u64,
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

    fn others(&self) -> OtherListeners {
        OtherListeners {
            is_alone: self.listeners.len() == 1,
            some_act: self.acting > 0,
        }
    }

    /// Puts a listener where it belongs among those that can be given a task.
    fn refresh(&mut self, id: ListenerId) {
        let others = self.others();
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let is_free = listener.has_room() && !listener.is_stuck && listener.exclusive == 0;
        let is_free = is_free && self.draining != Some(id);
        let may_have_more = listener.unreported < listener.trial.most(others);
        let is_awaited = is_free && !may_have_more && !listener.trial.is_outdone(others);
        let ready_with = (is_free && may_have_more).then_some(listener.in_hand);
        let awaited_with = is_awaited.then_some(listener.in_hand);
        let ready_before = std::mem::replace(&mut listener.ready_with, ready_with);
        let awaited_before = std::mem::replace(&mut listener.awaited_with, awaited_with);
        replace(&mut self.ready, id, ready_before, ready_with);
        if replace(&mut self.awaited, id, awaited_before, awaited_with) {
            self.relieved.extend(self.ready.iter().map(|(_, id)| *id));
        }
    }

    fn refresh_all(&mut self) {
        let all: Vec<ListenerId> = self.listeners.keys().copied().collect();
        self.relieved.extend(&all);
        for id in all {
            self.refresh(id);
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
                    place: 0,
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

    pub(super) fn add_listener(&mut self, id: ListenerId, listener: ListenerLoad) {
        self.remove_listener(id);
        if listener.trial.goes_on() {
            self.trials.insert(id);
        }
        self.listeners.insert(id, listener);
        self.refresh(id);
        if self.listeners.len() == 2 {
            self.refresh_all();
        }
    }

    /// The listener is to be sent a task.
    pub(super) fn note_sent(&mut self, id: ListenerId, now: Duration) -> u64 {
        self.last_place += 1;
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.trial.on_sent(self.last_place, now);
            if listener.trial.goes_on() {
                self.trials.insert(id);
            }
        }
        self.last_place
    }

    /// The agent of these listeners has acted on the task.
    pub(super) fn note_act(&mut self, key: Option<u64>, ids: &[ListenerId]) {
        if self.acting == self.listeners.len() {
            return;
        }
        let task = key.and_then(|key| self.task(key));
        let sent_to = task.into_iter().flat_map(|task| &task.sent_to);
        let places = sent_to.filter_map(|sent| ids.contains(&sent.listener).then_some(sent.place));
        let place = places.max().unwrap_or_default();
        let acting = self.acting;
        let mut changed = Vec::new();
        for (id, listener) in &mut self.listeners {
            let is_changed = if ids.contains(id) {
                let is_first = listener.trial.on_act();
                self.acting += usize::from(is_first);
                is_first
            } else {
                listener.trial.on_act_of_another(place)
            };
            if is_changed {
                changed.push(*id);
            }
        }
        if acting == 0 {
            return self.refresh_all();
        }
        for id in changed {
            self.refresh(id);
            self.relieved.insert(id);
        }
    }

    /// Time has passed: listeners that are tried may have more.
    pub(super) fn tick_trials(&mut self, now: Duration) {
        for id in self.trials.iter().copied().collect::<Vec<_>>() {
            let goes_on = self.edit_listener(id, |listener| {
                listener.trial.tick(now);
                listener.trial.goes_on()
            });
            if goes_on != Some(true) {
                self.trials.remove(&id);
            }
            self.relieved.insert(id);
        }
    }

    /// Whether a listener is tried.
    pub(super) fn has_trials(&self) -> bool {
        !self.trials.is_empty()
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
        replace(&mut self.ready, id, gone.ready_with, None);
        replace(&mut self.awaited, id, gone.awaited_with, None);
        self.relieved.remove(&id);
        self.trials.remove(&id);
        self.draining = self.draining.filter(|draining| *draining != id);
        self.acting -= usize::from(gone.trial.has_acted);
        self.refresh_all();
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
        let ready_with = self.listener(id).and_then(|listener| listener.ready_with);
        ready_with.is_some_and(|count| self.is_next((count, id)))
    }

    /// The listeners that can be given such a task, those that have the fewest first.
    pub(super) fn ready(&self) -> impl Iterator<Item = ListenerId> {
        let next = self.ready.iter().take_while(|place| self.is_next(**place));
        next.map(|(_, id)| *id)
    }

    /// Whether no listener with fewer tasks may have one more in a moment.
    fn is_next(&self, place: (usize, ListenerId)) -> bool {
        self.awaited.first().is_none_or(|awaited| place < *awaited)
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

/// Moves a listener from its place before to that of now. Whether it had another one.
fn replace(
    places: &mut BTreeSet<(usize, ListenerId)>,
    id: ListenerId,
    before: Option<usize>,
    now: Option<usize>,
) -> bool {
    if before == now {
        return false;
    }
    if let Some(count) = before {
        places.remove(&(count, id));
    }
    if let Some(count) = now {
        places.insert((count, id));
    }
    before.is_some()
}
