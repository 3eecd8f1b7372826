//! What time does in [`DeliverOne`]: tasks are taken away from listeners that do not take or claim them, and a listener is kept
//! free for a task that is handed out alone.

use std::time::Duration;

use super::{
    super::{
        lane::Lane,
        offer::{DRAIN_AFTER, ListenerDelivery},
    },
    DeliverOne,
    listener::ListenerLoad,
};
use crate::transaction::ListenerId;

impl DeliverOne {
    /// Listeners that are tried may have more. They are given it when the turn is over.
    pub(in super::super) fn tick_trials(&mut self, now: Duration) {
        self.assignments.tick_trials(now);
    }

    /// Takes tasks away from listeners that do not take or claim them, and looks after tasks that are handed out alone: one
    /// that waits for a listener without other tasks is waited for; one listener is given no more tasks after 10 s, and the
    /// task goes to that one all the same after `grace`.
    pub(in super::super) fn tick(&mut self, now: Duration, grace: Duration) -> Vec<ListenerDelivery> {
        let mut deliveries = Vec::new();
        let mut due = Vec::new();
        while let Some(&(at, key)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.remove(&(at, key));
            self.stop_waiting(key);
            if !self.send_to_later_streams(key, now, &mut deliveries) {
                self.note_stuck(key);
                due.push(key);
            }
        }
        for key in due {
            self.take_away(key, now, &mut deliveries);
        }
        for id in self.assignments.check_behind(now) {
            self.serve(id, now, &mut deliveries);
        }
        self.end_give_back_pauses(now, &mut deliveries);
        self.drain_for_exclusive(now, grace, &mut deliveries);
        deliveries
    }

    /// The holder of a task whose time is over is stuck if it has not read the task.
    fn note_stuck(&mut self, key: u64) {
        let holder = self.assignments.task(key).and_then(|task| {
            let has_read = |id: &ListenerId| task.unread_by(*id) == 0;
            task.holder.filter(|holder| !has_read(holder))
        });
        if let Some(holder) = holder {
            self.assignments
                .edit_listener(holder, |listener| listener.is_stuck = true);
        }
    }

    /// The time of a task's holder is over: another listener is to have it.
    pub(super) fn take_away(&mut self, key: u64, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        let Some(offer) = self.assignments.offer(key) else {
            return;
        };
        let other = if offer.lane == Lane::Exclusive {
            self.idle_listeners(key).find(|id| !self.was_sent(key, *id))
        } else {
            let mut ready = self.acceptable(key);
            ready.find(|id| !self.was_sent(key, *id))
        };
        if let Some(other) = other {
            return self.hand_over(key, other, now, deliveries);
        }
        let place = if offer.lane == Lane::Exclusive {
            self.waiting.push_exclusive(key)
        } else {
            self.waiting.push_overdue(key)
        };
        self.assignments
            .edit_offer(key, |offer| offer.place = Some(place));
    }

    fn drain_for_exclusive(
        &mut self,
        now: Duration,
        grace: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        let waits = self.waiting.exclusive().filter_map(|key| {
            let task = self.assignments.task(key)?;
            let waits_since = task.offer.as_ref()?.waits_since;
            waits_since.filter(|_| task.holder.is_none())
        });
        let waited = waits.min().map(|since| now.saturating_sub(since));
        let draining = self.assignments.draining();
        match (waited, draining) {
            (None, Some(freed)) => {
                self.assignments.set_draining(None);
                self.assignments.note_relieved(freed);
            }
            (Some(waited), Some(id)) if waited > grace => {
                let has_room = self.assignments.listener(id).is_some_and(ListenerLoad::has_room);
                if let Some(key) = self.next_exclusive(id).filter(|_| has_room) {
                    self.hand_over(key, id, now, deliveries);
                }
            }
            (Some(waited), None) if waited > DRAIN_AFTER => {
                let candidates = self.assignments.listeners();
                let candidates = candidates.filter(|(_, listener)| listener.exclusive == 0);
                let least = candidates.min_by_key(|(_, listener)| listener.unreported);
                let least = least.map(|(id, _)| id);
                self.assignments.set_draining(least);
            }
            _ => {}
        }
    }
}
