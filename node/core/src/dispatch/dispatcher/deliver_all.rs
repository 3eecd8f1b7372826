//! `deliver = "all"`: every listener of an agent gets every task.
//!
//! Pure. Every open listener gets every new task, once; a task for which no program listened, or whose
//! every listener went away before an agent acted on it, is offered again. What is handed over for the
//! first time while one listens is that one's alone ([`ListenerDelivery::exclusive`]). A listener is sent no
//! more than it has room for ([`LISTENER_CREDIT`](crate::types::LISTENER_CREDIT),
//! [`CREDIT_BYTES`](super::offer::CREDIT_BYTES)), so that a slow agent costs no memory.
//!
//! A task may end the agent that works on it. Each task counts the agents that ended while they had it
//! ([`DeliverAll::agent_ended`]). A task that ended one agent goes behind those that ended none. A task that ended
//! [`EXCLUSIVE_FROM`](super::offer::EXCLUSIVE_FROM) agents goes to one listener that has no other task, and that listener gets no other
//! task until its agent reports on this one. So only the task that ends its agents goes on counting.

mod given_back;
mod listener;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use given_back::GivenBackTasks;
use listener::ListenerState;

use super::{
    lane::Lane,
    offer::{DRAIN_AFTER, DeclineOutcome, DeclinedOffer, ListenerDelivery, MAX_ENDED_OFFERS, OfferKind},
};
use crate::transaction::ListenerId;

/// A listener that has read nothing for so long, although tasks wait for it to read them, is stuck: what it
/// has does not keep the task from others. Longer than the second within which a task is begun as one agent's
/// alone (docs/protocol.md, `exclusive_since`).
const STUCK_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct TaskOffer {
    task: String,
    /// Bytes that the task takes in memory.
    weight: usize,
    holders: Vec<ListenerId>,
    /// Listeners that came while others had it, and were not sent it.
    passed_over: Vec<ListenerId>,
    /// True for a task that has ended: told once, then forgotten.
    has_ended: bool,
    /// A listener was sent it, whether that still listens or not.
    was_sent: bool,
    /// No listener has ever been sent the task, in this run of the node or before.
    never_sent: bool,
    /// No listener has ever been sent the task but those whose clients cannot take it, in this run of the node or before.
    never_acceptable: bool,
    /// A listener's client cannot take it.
    declined: Option<DeclinedOffer>,
    /// How many agents ended while they had it; None: ends are not counted, since an agent has reported on
    /// it.
    ends: Option<u32>,
    /// Its only holder has claimed it without a word from the agent: others are not given it.
    reserved: bool,
    /// Those that had it under this number, where it is handed out alone; those that gave it back.
    tried_listeners: Vec<ListenerId>,
    /// Handed out alone: since when it waits for a listener, or a listener has it without a report.
    since: Option<Duration>,
    /// Handed out alone: one more listener is to get it, since those that have it did not report.
    wants_another: bool,
}

impl TaskOffer {
    fn lane(&self) -> Lane {
        Lane::new(self.has_ended, self.ends)
    }
}

/// See the module's text.
#[derive(Debug)]
pub(in super::super) struct DeliverAll {
    next: u64,
    offers: BTreeMap<u64, TaskOffer>,
    by_task: HashMap<String, u64>,
    ended_count: usize,
    listeners: BTreeMap<ListenerId, ListenerState>,
    idle_since: Option<Duration>,
    /// Is given no more tasks until it has none, so that it can be given one alone.
    draining: Option<ListenerId>,
    /// Something that others waited for is out of the way.
    is_due: bool,
    given_back: GivenBackTasks,
}

impl DeliverAll {
    /// No program listens since `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            next: 1,
            offers: BTreeMap::new(),
            by_task: HashMap::new(),
            ended_count: 0,
            listeners: BTreeMap::new(),
            idle_since: Some(now),
            draining: None,
            is_due: false,
            given_back: GivenBackTasks::default(),
        }
    }

    /// Offers a task of `weight` bytes to every listener.
    pub(super) fn offer(&mut self, task: &str, as_what: OfferKind, weight: usize) -> Vec<ListenerDelivery> {
        self.put_offer(task, as_what, weight, Vec::new());
        self.dispatch()
    }

    fn put_offer(&mut self, task: &str, as_what: OfferKind, weight: usize, tried_listeners: Vec<ListenerId>) {
        let known = self.withdraw(task);
        let news = as_what == OfferKind::Ended;
        if news {
            self.ended_count += 1;
            if self.ended_count > MAX_ENDED_OFFERS {
                self.drop_oldest_ended();
            }
        }
        let offer = TaskOffer {
            task: task.to_owned(),
            weight,
            holders: Vec::new(),
            passed_over: Vec::new(),
            has_ended: news,
            was_sent: false,
            never_sent: as_what == OfferKind::New && !known,
            never_acceptable: as_what == OfferKind::New && !known,
            declined: None,
            ends: as_what.ends(),
            reserved: false,
            tried_listeners,
            since: None,
            wants_another: false,
        };
        let number = offer.lane().number(self.next);
        self.next += 1;
        self.offers.insert(number, offer);
        self.by_task.insert(task.to_owned(), number);
    }

    /// An agent acted on the task, or it is gone: it is not offered any more. Whether it was, and had not ended.
    pub(super) fn withdraw(&mut self, task: &str) -> bool {
        let number = self.by_task.remove(task);
        let Some(offer) = number.and_then(|number| self.offers.remove(&number)) else {
            return false;
        };
        self.ended_count -= usize::from(offer.has_ended);
        self.is_due |= offer.lane() == Lane::Exclusive || self.has_exclusive();
        !offer.has_ended
    }

    /// Offers again what is offered, to those who have not got it and to those who have.
    pub(super) fn offer_again(&mut self, task: &str) -> Vec<ListenerDelivery> {
        let number = self.by_task.get(task);
        let Some(offer) = number.and_then(|number| self.offers.get(number)) else {
            return Vec::new();
        };
        let (weight, untaken, declined) = (offer.weight, offer.never_acceptable, offer.declined.clone());
        let as_what = match offer.ends {
            Some(ends) => OfferKind::Again { ends },
            None => OfferKind::InProgress,
        };
        self.withdraw(task);
        let deliveries = self.offer(task, as_what, weight);
        let number = self.by_task.get(task);
        if let Some(offer) = number.and_then(|number| self.offers.get_mut(number)) {
            (offer.never_acceptable, offer.declined) = (untaken, declined);
        }
        deliveries
    }

    /// The library of the agent that listens as `id` has claimed the task, and the agent has said nothing
    /// yet: no other listener gets it, and it still counts if this agent ends. False: that listener does not
    /// have it.
    pub(super) fn reserve_for(&mut self, id: ListenerId, task: &str) -> bool {
        let number = self.by_task.get(task);
        let Some(offer) = number.and_then(|number| self.offers.get_mut(number)) else {
            return false;
        };
        if offer.ends.is_none() || !offer.holders.contains(&id) {
            return false;
        }
        offer.holders = vec![id];
        offer.reserved = true;
        (offer.declined, offer.never_acceptable) = (None, false);
        self.is_due |= self.has_exclusive();
        true
    }

    /// The agent that listens as `id` has ended: its process, or its connection. It is still to be detached.
    /// Returns the tasks that it had been handed and had not reported on, each of which counts it.
    pub(super) fn agent_ended(&mut self, id: ListenerId, read: usize) -> Vec<String> {
        self.note_read(id, read);
        let Some(listener) = self.listeners.get(&id) else {
            return Vec::new();
        };
        let unread: HashSet<u64> = listener.unread().collect();
        let mut ended = Vec::new();
        for (number, offer) in &mut self.offers {
            let Some(ends) = &mut offer.ends else {
                continue;
            };
            // What was claimed was read.
            let was_read = offer.reserved || !unread.contains(number);
            if offer.holders.contains(&id) && was_read {
                *ends += 1;
                offer.reserved = false;
                ended.push(offer.task.clone());
            }
        }
        ended
    }

    /// Whether its only holder has claimed the task without a word from the agent.
    pub(super) fn is_reserved(&self, task: &str) -> bool {
        let number = self.by_task.get(task);
        let offer = number.and_then(|number| self.offers.get(number));
        offer.is_some_and(|offer| offer.reserved)
    }

    /// Whether a listener has been handed the task, which has not ended, and still listens.
    pub(super) fn is_held(&self, task: &str) -> bool {
        let number = self.by_task.get(task);
        let offer = number.and_then(|number| self.offers.get(number));
        offer.is_some_and(|offer| !offer.has_ended && !offer.holders.is_empty())
    }

    /// Whether the task is on offer, and has not ended.
    pub(super) fn is_on_offer(&self, task: &str) -> bool {
        let number = self.by_task.get(task);
        number.is_some_and(|number| Lane::from_number(*number) != Lane::Ended)
    }

    /// Whether something may be handed out since a task was reported on or is gone.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Whether tasks that are handed out alone are on offer.
    pub(super) fn has_exclusive(&self) -> bool {
        self.offers.range(Lane::Exclusive.numbers()).next().is_some()
    }

    /// Looks after tasks that are handed out alone. One that waits for a listener without other tasks is
    /// waited for: one listener is given no more tasks after 10 s, and the task goes to that one all the same
    /// after `grace`. One that a listener has had for `grace` without a report goes to one more. What a stuck
    /// listener has is offered to the others.
    pub(super) fn tick(&mut self, now: Duration, grace: Duration) -> Vec<ListenerDelivery> {
        self.reoffer_stuck(now);
        let stuck = self.stuck();
        let mut waits_since = None;
        for (_, offer) in self.offers.range_mut(Lane::Exclusive.numbers()) {
            if offer.reserved {
                offer.since = None;
                continue;
            }
            let since = *offer.since.get_or_insert(now);
            if !offer.holders.is_empty() {
                let is_stuck = offer.holders.iter().all(|holder| stuck.contains(holder));
                offer.wants_another |= is_stuck || now.saturating_sub(since) > grace;
            } else if waits_since.is_none_or(|earliest| since < earliest) {
                waits_since = Some(since);
            }
        }
        let waited = waits_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.draining = self.draining.filter(|_| waits_since.is_some());
        if waited > DRAIN_AFTER && self.draining.is_none() {
            let busy = self.keepers();
            let candidates = self.listeners.keys().filter(|id| !busy.contains(id));
            self.draining = candidates.copied().min_by_key(|id| self.held_by(*id));
        }
        let forced = self.draining.filter(|_| waited > grace);
        let mut deliveries = self.end_give_back_pauses(now);
        deliveries.extend(self.dispatch());
        if let Some(id) = forced
            && self.draining == forced
        {
            self.dispatch_exclusive(id, &mut deliveries);
        }
        deliveries
    }

    fn stuck(&self) -> HashSet<ListenerId> {
        let stuck = self.listeners.iter().filter(|(_, listener)| listener.is_stuck());
        stuck.map(|(id, _)| *id).collect()
    }

    /// Offers what only listeners have that are stuck since the last look to those that were passed over.
    fn reoffer_stuck(&mut self, now: Duration) {
        let mut is_new = false;
        for listener in self.listeners.values_mut() {
            is_new |= listener.check_stuck(now);
        }
        if !is_new {
            return;
        }
        let stuck = self.stuck();
        let shared = |number: &u64| matches!(Lane::from_number(*number), Lane::Fresh | Lane::Suspect);
        let is_kept = |offer: &TaskOffer| {
            let all_stuck = offer.holders.iter().all(|holder| stuck.contains(holder));
            all_stuck && !offer.reserved && !offer.passed_over.is_empty()
        };
        let kept = self.offers.iter().filter(|(number, _)| shared(number));
        let kept: Vec<u64> = kept
            .filter(|(_, offer)| is_kept(offer))
            .map(|(number, _)| *number)
            .collect();
        for number in kept {
            let Some(mut offer) = self.offers.remove(&number) else {
                continue;
            };
            offer.passed_over.clear();
            let again = Lane::from_number(number).number(self.next);
            self.next += 1;
            self.by_task.insert(offer.task.clone(), again);
            self.offers.insert(again, offer);
            for listener in self.listeners.values_mut() {
                listener.renumber(number, again);
            }
        }
    }

    /// Listeners that have a task alone.
    fn keepers(&self) -> HashSet<ListenerId> {
        let alone = self.offers.range(Lane::Exclusive.numbers());
        alone
            .flat_map(|(_, offer)| offer.holders.iter().copied())
            .collect()
    }

    fn holds_any(&self, id: ListenerId) -> bool {
        let mut offers = self.offers.values();
        offers.any(|offer| !offer.has_ended && offer.holders.contains(&id))
    }

    /// Tasks that a listener was handed and has not reported on.
    fn held_by(&self, id: ListenerId) -> usize {
        let offers = self.offers.values();
        offers
            .filter(|offer| !offer.has_ended && offer.holders.contains(&id))
            .count()
    }

    /// An agent begins to listen.
    pub(super) fn attach(
        &mut self,
        id: ListenerId,
        wants_ends: bool,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        if self.idle_since.take().is_some() {
            // A listener that can take what was declined has the time to come from now on.
            let declined = self
                .offers
                .values_mut()
                .filter_map(|offer| offer.declined.as_mut());
            declined.for_each(|declined| declined.since = Some(now));
        }
        self.listeners
            .insert(id, ListenerState::new(self.next, wants_ends));
        self.dispatch()
    }

    /// An agent stopped listening: what only it held is offered again. What its library had claimed stays
    /// claimed, unless the agent has ended ([`DeliverAll::agent_ended`]).
    pub(super) fn detach(&mut self, id: ListenerId, now: Duration) -> Vec<ListenerDelivery> {
        let Some(gone) = self.listeners.remove(&id) else {
            return Vec::new();
        };
        if self.listeners.is_empty() {
            self.idle_since = Some(now);
        }
        self.draining = self.draining.filter(|emptying| *emptying != id);
        let (mut orphans, mut claimed) = (Vec::new(), Vec::new());
        for (&number, offer) in &mut self.offers {
            let held = offer.holders.len();
            offer.holders.retain(|holder| *holder != id);
            offer.passed_over.retain(|other| *other != id);
            let has_left = offer.holders.len() < held;
            if offer.reserved && has_left {
                claimed.push(offer.task.clone());
                continue;
            }
            if has_left {
                offer.never_acceptable = false;
                if let Some(declined) = &mut offer.declined {
                    declined.since = Some(now);
                }
            }
            // It may have been the last one that others could still hope for.
            let had_not_come = !gone.has_passed(number) && !offer.tried_listeners.contains(&id);
            let was_awaited = offer.declined.is_some() && had_not_come;
            if (has_left || was_awaited) && offer.holders.is_empty() && !offer.has_ended {
                orphans.push(offer.task.clone());
            }
        }
        for task in claimed {
            self.withdraw(&task);
        }
        self.forget_sent_ended();
        let mut deliveries: Vec<ListenerDelivery> = Vec::new();
        for task in orphans {
            deliveries.extend(self.offer_again(&task));
        }
        if self.is_due {
            deliveries.extend(self.dispatch());
        }
        deliveries
    }

    /// A listener's client cannot take the task, for this reason.
    pub(super) fn decline(
        &mut self,
        id: ListenerId,
        task: &str,
        reason: &str,
        now: Duration,
    ) -> DeclineOutcome {
        let has_alone = self.has_exclusive();
        let Some((&number, offer)) = self
            .by_task
            .get(task)
            .and_then(|number| Some((number, self.offers.get_mut(number)?)))
        else {
            return DeclineOutcome::NotOffered;
        };
        if offer.has_ended || offer.reserved {
            return DeclineOutcome::NotOffered;
        }
        offer.holders.retain(|holder| *holder != id);
        let is_held = !offer.holders.is_empty();
        let since = offer.declined.take().and_then(|declined| declined.since);
        offer.declined = Some(DeclinedOffer {
            reason: reason.to_owned(),
            since: since.or(Some(now)).filter(|_| !is_held),
        });
        let is_alone = Lane::from_number(number) == Lane::Exclusive;
        // This listener may have no other task now, and so be free for one that is handed out alone.
        self.is_due |= has_alone;
        // A stuck one is not waited for.
        let has_come = |(id, listener): (&ListenerId, &ListenerState)| {
            let has_come = if is_alone {
                offer.tried_listeners.contains(id)
            } else {
                listener.has_passed(number)
            };
            has_come || listener.is_stuck()
        };
        if is_held || !self.listeners.iter().all(has_come) {
            return DeclineOutcome::StillOffered;
        }
        if !offer.passed_over.is_empty() {
            return DeclineOutcome::Reoffer;
        }
        if offer.never_acceptable {
            DeclineOutcome::Undeliverable
        } else {
            DeclineOutcome::StillOffered
        }
    }

    /// Tasks that no listener can take, for `grace` or longer, and why; those that were sent them before have not come again.
    pub(super) fn undeliverable(&self, now: Duration, grace: Duration) -> Vec<(String, String)> {
        if self.listeners.is_empty() {
            return Vec::new();
        }
        // One that has no room yet may take what it has not come to.
        let all_came = |number: u64, offer: &TaskOffer| {
            self.listeners.iter().all(|(id, listener)| {
                listener.is_stuck() || listener.has_passed(number) || offer.tried_listeners.contains(id)
            })
        };
        self.offers
            .iter()
            .filter(|(_, offer)| offer.holders.is_empty() && offer.declined.is_some())
            .filter(|(number, offer)| all_came(**number, offer))
            .map(|(_, offer)| offer)
            .filter_map(|offer| Some((offer, offer.declined.as_ref()?)))
            .filter(|(_, declined)| {
                declined
                    .since
                    .is_some_and(|since| now.saturating_sub(since) > grace)
            })
            .map(|(offer, declined)| (offer.task.clone(), declined.reason.clone()))
            .collect()
    }

    /// A listener has read `count` tasks.
    pub(super) fn credit(&mut self, id: ListenerId, count: usize) -> Vec<ListenerDelivery> {
        self.note_read(id, count);
        self.dispatch()
    }

    fn note_read(&mut self, id: ListenerId, count: usize) {
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.read(count);
        }
    }

    /// An agent acted: an agent that works without listening is alive all the same.
    pub(super) fn note_activity(&mut self, now: Duration) {
        if self.listeners.is_empty() {
            self.idle_since = Some(now);
        }
    }

    /// How many listen.
    pub(super) fn listener_count(&self) -> usize {
        self.listeners.len()
    }

    /// Since when no program listens.
    pub(super) fn idle_since(&self) -> Option<Duration> {
        self.idle_since
    }

    /// Hands out what there is room for.
    pub(super) fn dispatch(&mut self) -> Vec<ListenerDelivery> {
        self.is_due = false;
        let mut deliveries = Vec::new();
        let has_alone = self.has_exclusive();
        let keepers = if has_alone { self.keepers() } else { HashSet::new() };
        let is_alone = self.listeners.len() == 1;
        let stuck = self.stuck();
        for (&id, listener) in &mut self.listeners {
            let is_reserved = keepers.contains(&id) || self.draining == Some(id);
            while listener.has_room() {
                let next = listener.advance(&self.offers, is_reserved);
                let Some((number, offer)) =
                    next.and_then(|number| Some((number, self.offers.get_mut(&number)?)))
                else {
                    break;
                };
                let had_it = offer.holders.contains(&id) || offer.tried_listeners.contains(&id);
                if offer.reserved || had_it {
                    continue; // The listener that has it has claimed it, or is this one, or this one gave it back.
                }
                let is_held = offer.holders.iter().any(|holder| !stuck.contains(holder));
                if listener.came_after(number) && is_held {
                    offer.passed_over.push(id);
                    continue; // Another listener has it and may still take it.
                }
                listener.send(number, offer.weight);
                offer.holders.push(id);
                offer.was_sent = true;
                let is_first = std::mem::take(&mut offer.never_sent);
                deliveries.push(ListenerDelivery {
                    listener: id,
                    task: offer.task.clone(),
                    exclusive: is_alone && is_first,
                });
            }
        }
        if has_alone {
            let ids: Vec<ListenerId> = self.listeners.keys().copied().collect();
            for id in ids {
                let is_free = !keepers.contains(&id)
                    && self.listeners.get(&id).is_some_and(ListenerState::has_read_all)
                    && !self.holds_any(id);
                if is_free {
                    self.dispatch_exclusive(id, &mut deliveries);
                }
            }
        }
        self.forget_sent_ended();
        deliveries
    }

    /// Hands the first task that waits for it to a listener, alone.
    fn dispatch_exclusive(&mut self, id: ListenerId, deliveries: &mut Vec<ListenerDelivery>) {
        let Some(listener) = self.listeners.get_mut(&id).filter(|listener| listener.has_room()) else {
            return;
        };
        let mut waiting = self.offers.range_mut(Lane::Exclusive.numbers());
        let next = waiting.find(|(_, offer)| {
            let is_wanted = offer.holders.is_empty() || offer.wants_another;
            is_wanted && !offer.reserved && !offer.tried_listeners.contains(&id)
        });
        let Some((&number, offer)) = next else {
            return;
        };
        listener.send(number, offer.weight);
        offer.holders.push(id);
        offer.tried_listeners.push(id);
        offer.was_sent = true;
        (offer.never_sent, offer.wants_another, offer.since) = (false, false, None);
        deliveries.push(ListenerDelivery {
            listener: id,
            task: offer.task.clone(),
            exclusive: false,
        });
        self.draining = self.draining.filter(|emptying| *emptying != id);
    }

    fn forget_sent_ended(&mut self) {
        if self.ended_count == 0 || self.listeners.is_empty() {
            return;
        }
        let cursors = self.listeners.values().map(ListenerState::last_ended);
        let behind = cursors.min().unwrap_or(0);
        let told: Vec<String> = self
            .offers
            .range(..=behind)
            .filter(|(_, offer)| offer.was_sent)
            .map(|(_, offer)| offer.task.clone())
            .collect();
        for task in told {
            self.withdraw(&task);
        }
    }

    fn drop_oldest_ended(&mut self) {
        let mut news = self.offers.range(Lane::Ended.numbers());
        let oldest = news.next().map(|(_, offer)| offer.task.clone());
        if let Some(task) = oldest {
            self.withdraw(&task);
        }
    }
}

#[cfg(test)]
mod tests;
