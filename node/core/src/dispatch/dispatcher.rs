//! Handing the tasks of one agent to its listeners. Pure.
//!
//! The setting `agents.deliver` chooses the way: [`DeliverOne`] hands a task to one connection at a time, [`DeliverAll`] hands
//! it to every listener. This file only passes each call on. Common to both: a listener is sent no more than it has room for
//! (`send_window`), a task that ends its agents goes behind the others and is handed out alone later (`lane`), and what a
//! listener's client cannot take goes to another listener.

mod deliver_all;
mod deliver_one;
mod lane;
mod offer;
mod send_window;

use std::time::Duration;

#[cfg(test)]
pub(crate) use self::offer::CREDIT_BYTES;
pub(crate) use self::offer::{DeclineOutcome, ListenerDelivery, OfferKind};
use self::{deliver_all::DeliverAll, deliver_one::DeliverOne};
use crate::transaction::{DeliverMode, HandOverLimits, ListenerId};

/// See the module's text.
#[derive(Debug)]
pub(super) enum Dispatcher {
    One(Box<DeliverOne>),
    All(Box<DeliverAll>),
}

impl Dispatcher {
    /// No program listens since `now`.
    pub(super) fn new(now: Duration, limits: &HandOverLimits) -> Self {
        match limits.deliver {
            DeliverMode::One => Self::One(Box::new(DeliverOne::new(now, limits))),
            DeliverMode::All => Self::All(Box::new(DeliverAll::new(now))),
        }
    }

    /// Since when no program listens.
    pub(super) fn idle_since(&self) -> Option<Duration> {
        match self {
            Self::One(one) => one.idle_since(),
            Self::All(all) => all.idle_since(),
        }
    }

    /// How many listen.
    pub(super) fn listener_count(&self) -> usize {
        match self {
            Self::One(one) => one.stream_count(),
            Self::All(all) => all.listener_count(),
        }
    }

    /// An agent acted: an agent that works without listening is alive all the same.
    pub(super) fn note_activity(&mut self, now: Duration) {
        match self {
            Self::One(one) => one.note_activity(now),
            Self::All(all) => all.note_activity(now),
        }
    }

    /// An agent begins to listen, on this gRPC connection if that is known. `wants_ends`: it is told that tasks have ended.
    pub(super) fn attach(
        &mut self,
        id: ListenerId,
        connection: Option<u64>,
        wants_ends: bool,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.attach(id, connection, wants_ends, now),
            Self::All(all) => all.attach(id, wants_ends, now),
        }
    }

    /// An agent stopped listening: what only it held is offered again. What its library had claimed stays
    /// claimed, unless the agent has ended ([`Dispatcher::agent_ended`]).
    pub(super) fn detach(&mut self, id: ListenerId, now: Duration) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.detach(id, now),
            Self::All(all) => all.detach(id, now),
        }
    }

    /// The agent that listens as `id` has ended: its process, or its connection. It is still to be detached.
    /// Returns the tasks that it had been handed and had not reported on, each of which counts it.
    pub(super) fn agent_ended(&mut self, id: ListenerId, read: usize) -> Vec<String> {
        match self {
            Self::One(one) => one.agent_ended(id, read),
            Self::All(all) => all.agent_ended(id, read),
        }
    }

    /// A gRPC connection is gone.
    pub(super) fn on_connection_closed(&mut self, connection: u64) {
        match self {
            Self::One(one) => one.on_connection_closed(connection),
            Self::All(_) => {}
        }
    }

    /// A listener has read `count` tasks.
    pub(super) fn credit(&mut self, id: ListenerId, count: usize, now: Duration) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.credit(id, count, now),
            Self::All(all) => all.credit(id, count),
        }
    }

    /// A listener's client cannot take the task, for this reason.
    pub(super) fn decline(
        &mut self,
        id: ListenerId,
        task: &str,
        reason: &str,
        now: Duration,
    ) -> DeclineOutcome {
        match self {
            Self::One(one) => one.decline(id, task, reason, now),
            Self::All(all) => all.decline(id, task, reason, now),
        }
    }

    /// Tasks that no listener can take, for `grace` or longer, and why; those that were sent them before have not come again.
    pub(super) fn undeliverable(&self, now: Duration, grace: Duration) -> Vec<(String, String)> {
        match self {
            Self::One(one) => one.undeliverable(now, grace),
            Self::All(all) => all.undeliverable(now, grace),
        }
    }

    /// Offers a task of `weight` bytes.
    pub(super) fn offer(
        &mut self,
        task: &str,
        as_what: OfferKind,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.offer(task, as_what, weight, now),
            Self::All(all) => all.offer(task, as_what, weight),
        }
    }

    /// The agent that has a task gives it back: it is offered again, to the streams `givers` of that agent when
    /// [`GIVE_BACK_PAUSE`](offer::GIVE_BACK_PAUSE) is over.
    pub(super) fn give_back(
        &mut self,
        task: &str,
        givers: &[ListenerId],
        as_what: OfferKind,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.give_back(task, givers, as_what, weight, now),
            Self::All(all) => all.give_back(task, givers, as_what, weight, now),
        }
    }

    /// Tells the listeners that a task has ended of which it is not known who has it.
    pub(super) fn tell_end_to_all(
        &mut self,
        task: &str,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.tell_end_to_all(task, weight, now),
            Self::All(all) => all.offer(task, OfferKind::Ended, weight),
        }
    }

    /// Offers again what is on offer.
    pub(super) fn offer_again(&mut self, task: &str, now: Duration) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.offer_again(task, now),
            Self::All(all) => all.offer_again(task),
        }
    }

    /// An agent acted on the task, or it is gone: it is not offered any more. Whether it was, and had not ended.
    pub(super) fn withdraw(&mut self, task: &str) -> bool {
        match self {
            Self::One(one) => one.withdraw(task),
            Self::All(all) => all.withdraw(task),
        }
    }

    /// The library of the agent that listens as `id` has claimed the task, and the agent has said nothing
    /// yet: no other listener gets it, and it still counts if this agent ends. False: that listener does not
    /// have it.
    pub(super) fn reserve_for(&mut self, id: ListenerId, task: &str) -> bool {
        match self {
            Self::One(one) => one.reserve_for(id, task),
            Self::All(all) => all.reserve_for(id, task),
        }
    }

    /// An agent, or its library, has claimed the task on this gRPC connection.
    pub(super) fn on_claimed(&mut self, task: &str, connection: u64) {
        match self {
            Self::One(one) => one.on_claimed(task, connection),
            Self::All(_) => {}
        }
    }

    /// An agent ends the task.
    pub(super) fn on_end_reported(&mut self, task: &str) {
        match self {
            Self::One(one) => one.on_end_reported(task),
            Self::All(_) => {}
        }
    }

    /// The task has ended. What is said of that follows in the same turn, if anything is ([`OfferKind::Ended`]).
    pub(super) fn on_task_ended(&mut self, task: &str) {
        match self {
            Self::One(one) => one.on_task_ended(task),
            Self::All(_) => {}
        }
    }

    /// Whether its only holder has claimed the task without a word from the agent.
    pub(super) fn is_reserved(&self, task: &str) -> bool {
        match self {
            Self::One(one) => one.is_reserved(task),
            Self::All(all) => all.is_reserved(task),
        }
    }

    /// Whether a listener has been handed the task, which is on offer and has not ended, and still listens.
    pub(super) fn is_held(&self, task: &str) -> bool {
        match self {
            Self::One(one) => one.is_held(task),
            Self::All(all) => all.is_held(task),
        }
    }

    /// Whether the task was handed to this listener alone.
    pub(super) fn is_held_by(&self, id: ListenerId, task: &str) -> bool {
        match self {
            Self::One(one) => one.is_held_by(id, task),
            Self::All(_) => false,
        }
    }

    /// Whether the task is on offer, and has not ended.
    pub(super) fn is_on_offer(&self, task: &str) -> bool {
        match self {
            Self::One(one) => one.is_on_offer(task),
            Self::All(all) => all.is_on_offer(task),
        }
    }

    /// The turn is over. What can be handed out since a task was reported on, or is gone.
    pub(super) fn end_turn(&mut self, now: Duration) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.end_turn(now),
            Self::All(all) if all.is_due() => all.dispatch(),
            Self::All(_) => Vec::new(),
        }
    }

    /// Whether time does something in the next moments.
    pub(super) fn needs_clock(&self) -> bool {
        match self {
            Self::One(one) => one.needs_clock(),
            Self::All(_) => false,
        }
    }

    /// Looks after what time does in moments: new listeners may have more.
    pub(super) fn tick_trials(&mut self, now: Duration) {
        match self {
            Self::One(one) => one.tick_trials(now),
            Self::All(_) => {}
        }
    }

    /// Looks after what time does: tasks that are handed out alone, and listeners that do not take what they were sent.
    pub(super) fn tick(&mut self, now: Duration, grace: Duration) -> Vec<ListenerDelivery> {
        match self {
            Self::One(one) => one.tick(now, grace),
            Self::All(all) => all.tick(now, grace),
        }
    }
}
