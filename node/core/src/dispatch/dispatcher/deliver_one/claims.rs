//! Claims: a task is its claimer's. The claim of an agent's library, before the agent has said anything, keeps the task from
//! other listeners as long as that agent is there.

use super::{super::offer::OfferKind, DeliverOne, assignment::OpenOffer};
use crate::transaction::ListenerId;

impl DeliverOne {
    /// Sets when a task that its holder has read, and that is to be claimed, is taken away.
    pub(super) fn await_claim(&mut self, key: u64, holder: ListenerId) {
        let claims = self
            .assignments
            .listener(holder)
            .is_some_and(|holder| holder.claims);
        let read_at = self.assignments.offer(key).and_then(|offer| offer.read_at);
        if let Some(within) = self.claim_within.filter(|_| claims)
            && let Some(read_at) = read_at
        {
            self.set_deadline(key, read_at + within);
        }
    }

    /// An agent on this connection, or its library, has claimed the task: its listener there has it.
    pub(in super::super) fn on_claimed(&mut self, task: &str, connection: u64) {
        let listeners = self.connections.listeners_on(connection);
        let Some(&first) = listeners.first() else {
            return;
        };
        self.assignments.note_act(self.assignments.key(task), &listeners);
        for &id in &listeners {
            self.note_claims(id);
        }
        let key = self.assignments.key_or_new(task);
        let Some(known) = self.assignments.task(key) else {
            return;
        };
        let is_reserved = known.offer.as_ref().is_some_and(|offer| offer.reserved);
        let is_there = known.holder.is_some_and(|holder| listeners.contains(&holder));
        if !is_there && !is_reserved {
            let sent = listeners.iter().find(|id| known.was_sent_to(**id));
            self.move_to_claimer(key, sent.copied().unwrap_or(first));
        }
        if !is_reserved {
            self.stop_waiting(key);
            self.assignments.edit_offer(key, |offer| offer.own = true);
        }
    }

    /// An agent ends the task: the listener that has it works.
    pub(in super::super) fn on_end_reported(&mut self, task: &str) {
        let key = self.assignments.key(task);
        let holder = key.and_then(|key| self.assignments.task(key)?.holder);
        self.assignments.note_act(key, holder.as_slice());
    }

    /// The task is its claimer's. What the claimer has not been sent of it follows.
    fn move_to_claimer(&mut self, key: u64, claimer: ListenerId) {
        self.set_departed(key, None);
        self.take_from_holder(key);
        self.assignments.give(key, claimer);
        let is_behind = self.assignments.edit(key, |task| {
            let sent = task.recipient(claimer).map_or(0, |sent| sent.version);
            let is_behind = sent != task.version && (sent > 0 || task.offer.is_some());
            if is_behind && task.offer.is_none() {
                task.offer = Some(OpenOffer::new(OfferKind::InProgress, true));
            }
            is_behind
        });
        if is_behind == Some(true) {
            self.add_update(key, claimer);
            self.assignments.note_relieved(claimer);
        }
    }

    /// The listener's connection claims tasks. Tasks that it has read are to be claimed as well.
    fn note_claims(&mut self, id: ListenerId) {
        let had = self.assignments.edit_listener(id, |listener| {
            let is_new = !std::mem::replace(&mut listener.claims, true);
            let had = listener.had.iter().copied();
            had.filter(|_| is_new).collect::<Vec<_>>()
        });
        if self.claim_within.is_none() {
            return;
        }
        for key in had.unwrap_or_default() {
            let is_unclaimed = self.assignments.task(key).is_some_and(|task| {
                task.holder == Some(id)
                    && task.unread_by(id) == 0
                    && task.offer.as_ref().is_some_and(OpenOffer::is_movable)
            });
            if is_unclaimed {
                self.await_claim(key, id);
            }
        }
    }

    /// The library of the agent that listens as `id` has claimed the task, and the agent has said nothing yet. False: that
    /// listener was not sent it, or another one's library has claimed it.
    pub(in super::super) fn reserve_for(&mut self, id: ListenerId, task: &str) -> bool {
        let id = self.listener_of(id);
        let Some(key) = self.assignments.key(task) else {
            return false;
        };
        let can_reserve = self.assignments.task(key).is_some_and(|task| {
            let is_counted = task
                .offer
                .as_ref()
                .is_some_and(|offer| offer.ends.is_some() && (!offer.reserved || task.holder == Some(id)));
            is_counted && task.was_sent_to(id)
        });
        if !can_reserve {
            return false;
        }
        self.stop_waiting(key);
        if self.assignments.task(key).and_then(|task| task.holder) != Some(id) {
            self.move_to_claimer(key, id);
        }
        self.assignments.edit_offer(key, |offer| {
            offer.reserved = true;
            (offer.declined, offer.never_acceptable) = (None, false);
        });
        true
    }
}
