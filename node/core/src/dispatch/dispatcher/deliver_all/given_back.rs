//! Tasks that agents gave back which had claimed them: each is offered to all other listeners at once, and to the listener that
//! gave it back after [`GIVE_BACK_PAUSE`].

use std::{collections::VecDeque, time::Duration};

use super::{
    super::offer::{GIVE_BACK_PAUSE, ListenerDelivery, OfferKind},
    DeliverAll,
};
use crate::transaction::ListenerId;

/// Tasks whose listeners may not have them yet again, and when they may.
#[derive(Debug, Default)]
pub(super) struct GivenBackTasks(VecDeque<(Duration, String)>);

impl DeliverAll {
    /// The agent that had claimed a task, and listens by these streams, gives it back.
    pub(in super::super) fn give_back(
        &mut self,
        task: &str,
        givers: &[ListenerId],
        as_what: OfferKind,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        self.put_offer(task, as_what, weight, givers.to_vec());
        self.given_back
            .0
            .push_back((now + GIVE_BACK_PAUSE, task.to_owned()));
        self.dispatch()
    }

    /// Offers tasks that no listener has to those that gave them back.
    pub(super) fn end_give_back_pauses(&mut self, now: Duration) -> Vec<ListenerDelivery> {
        let mut deliveries = Vec::new();
        while let Some((_, task)) = self.given_back.0.pop_front_if(|(at, _)| *at <= now) {
            if self.is_on_offer(&task) && !self.is_held(&task) {
                deliveries.extend(self.offer_again(&task));
            }
        }
        deliveries
    }
}
