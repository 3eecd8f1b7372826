//! Tasks that agents gave back: each goes to another listener at once, and to the listener that gave it
//! back after [`GIVE_BACK_PAUSE`].

use std::{collections::VecDeque, time::Duration};

use super::{
    super::offer::{GIVE_BACK_PAUSE, ListenerDelivery, OfferKind},
    DeliverOne,
    assignment::OpenOffer,
};
use crate::transaction::ListenerId;

/// Tasks whose listeners may not have them yet again.
#[derive(Debug, Default)]
pub(super) struct GivenBackTasks(VecDeque<GivenBack>);

#[derive(Debug)]
struct GivenBack {
    key: u64,
    givers: Vec<ListenerId>,
    /// When they may have it again.
    at: Duration,
}

impl DeliverOne {
    /// Whether the listener with this stream has the task.
    pub(in super::super) fn is_held_by(&self, stream: ListenerId, task: &str) -> bool {
        let key = self.assignments.key(task);
        let holder = key.and_then(|key| self.assignments.task(key)?.holder);
        holder == Some(self.listener_of(stream))
    }

    /// The agent that has a task, and listens by these streams, gives it back.
    pub(in super::super) fn give_back(
        &mut self,
        task: &str,
        givers: &[ListenerId],
        as_what: OfferKind,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        let mut givers: Vec<ListenerId> = givers.iter().map(|id| self.listener_of(*id)).collect();
        givers.dedup();
        let key = self.assignments.key_or_new(task);
        self.stop_waiting(key);
        self.set_departed(key, None);
        self.take_from_holder(key);
        self.assignments.edit(key, |task| {
            let declined_by = task.offer.take().map(|offer| offer.declined_by);
            let mut offer = OpenOffer::new(as_what, false);
            offer.declined_by = declined_by.unwrap_or_default();
            offer.declined_by.extend(&givers);
            task.offer = Some(offer);
            task.weight = weight;
            task.version += 1;
        });
        let at = now + GIVE_BACK_PAUSE;
        self.given_back.0.push_back(GivenBack { key, givers, at });
        let mut deliveries = Vec::new();
        self.assign(key, now, &mut deliveries);
        deliveries
    }

    /// Offers tasks to the listeners that gave them back.
    pub(super) fn end_give_back_pauses(&mut self, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        while let Some(due) = self.given_back.0.pop_front_if(|given| given.at <= now) {
            let GivenBack { key, givers, .. } = due;
            self.assignments.edit_offer(key, |offer| {
                offer.declined_by.retain(|id| !givers.contains(id));
            });
            let task = self.assignments.task(key);
            if task.is_some_and(|task| task.holder.is_none() && task.departed_from.is_none()) {
                self.assign(key, now, deliveries);
            }
        }
    }
}
