//! What a listener's client cannot take, as gRPC limits the size of a message: the next listener is tried, and the task is
//! known as undeliverable if there is none.

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::offer::{DeclineOutcome, DeclinedOffer},
    DeliverOne,
    assignment::OpenOffer,
};
use crate::transaction::ListenerId;

impl DeliverOne {
    /// A listener's client cannot take the task, for this reason.
    pub(in super::super) fn decline(
        &mut self,
        id: ListenerId,
        task: &str,
        reason: &str,
        now: Duration,
    ) -> DeclineOutcome {
        let id = self.listener_of(id);
        let Some(key) = self.assignments.key(task) else {
            return DeclineOutcome::NotOffered;
        };
        // Another stream of the same client may have said so.
        let is_settled = |offer: &OpenOffer| offer.reserved || offer.declined_by.contains(&id);
        if self.assignments.offer(key).is_none_or(is_settled) {
            return DeclineOutcome::NotOffered;
        }
        let living: BTreeSet<ListenerId> = self.assignments.listeners().map(|(id, _)| id).collect();
        let is_held = self
            .assignments
            .task(key)
            .is_some_and(|task| task.holder.is_some_and(|holder| holder != id));
        if !is_held {
            self.stop_waiting(key);
            self.take_from_holder(key);
        }
        self.assignments.edit_offer(key, |offer| {
            offer.declined_by.retain(|other| living.contains(other));
            offer.declined_by.push(id);
            let since = offer.declined.take().and_then(|declined| declined.since);
            offer.declined = Some(DeclinedOffer {
                reason: reason.to_owned(),
                since: since.or(Some(now)).filter(|_| !is_held),
            });
        });
        if is_held {
            return DeclineOutcome::StillOffered;
        }
        self.wait(key, now);
        if self.choose(key).is_some() {
            DeclineOutcome::Reoffer
        } else if self.may_be_taken(key) {
            DeclineOutcome::StillOffered
        } else if self
            .assignments
            .offer(key)
            .is_some_and(|offer| offer.never_acceptable)
        {
            DeclineOutcome::Undeliverable
        } else {
            DeclineOutcome::StillOffered
        }
    }

    /// Whether a listener may still take what others' clients cannot. One that is stuck is not waited for, unless it has the
    /// task on its stream.
    fn may_be_taken(&self, key: u64) -> bool {
        let Some(task) = self.assignments.task(key) else {
            return false;
        };
        let Some(offer) = &task.offer else {
            return false;
        };
        self.assignments.listeners().any(|(id, listener)| {
            let is_awaited = !listener.is_stuck || task.was_sent_to(id);
            is_awaited && !offer.declined_by.contains(&id)
        })
    }

    /// Tasks that no listener can take, and why: at once where no other listener was ever sent them, and after `grace`
    /// otherwise, since who was sent them before may come again.
    pub(in super::super) fn undeliverable(&self, now: Duration, grace: Duration) -> Vec<(String, String)> {
        if self.assignments.listener_count() == 0 {
            return Vec::new();
        }
        let waiting = self.waiting.declined().chain(self.waiting.exclusive());
        let undeliverable = waiting.filter_map(|key| {
            let task = self.assignments.task(key).filter(|task| task.holder.is_none())?;
            let offer = task.offer.as_ref()?;
            let declined = offer.declined.as_ref()?;
            let is_over = declined
                .since
                .is_some_and(|since| offer.never_acceptable || now.saturating_sub(since) > grace);
            let is_lost = is_over && !self.may_be_taken(key);
            is_lost.then(|| (task.task.clone(), declined.reason.clone()))
        });
        undeliverable.collect()
    }
}
