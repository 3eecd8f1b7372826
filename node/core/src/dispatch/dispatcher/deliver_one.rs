//! `deliver = "one"`: a task is handed to one listener at a time.
//!
//! Pure. A listener is a connection: each task that it is handed goes to every stream that it has open for the agent
//! ([`connection_streams`]). A task goes to the listener that has the fewest tasks in hand, of those that have room for it
//! ([`super::send_window`]); of equals to the one that came first. One whose agent has not acted yet begins with few
//! ([`trial`]). There it stays, however long its agent says nothing. It
//! goes to another listener
//! - when the listener or its agent ended before the agent reported on the task ([`DeliverOne::detach`]),
//! - when the agent gives it back ([`DeliverOne::give_back`]),
//! - when the listener's client cannot take it ([`DeliverOne::decline`]),
//! - when the listener has not taken it off its stream for [`HandOverLimits::timeout`],
//! - when the listener has read it and not claimed it for [`HandOverLimits::claim_within`], if that is set and the listener
//!   is known to claim tasks.
//!
//! In the last two cases the task only goes to a listener that was never sent it, and stays where it is until there is one. A
//! listener that has let that time go by is given no more until it reads.
//!
//! What follows on a task goes to the listener that has it, which is the one whose agent claimed it if one did. A listener takes
//! over what an earlier one on the same gRPC connection had. The end of a task is told to the listeners that were sent the
//! task; where it is not known who has it, as after a restart of the node, to all. Streams that are not told of ends are passed
//! over.
//!
//! A task may end the agent that works on it. Each task counts the agents that ended while they had it
//! ([`DeliverOne::agent_ended`]). A task that ended one agent goes behind those that ended none. A task that ended
//! [`EXCLUSIVE_FROM`](super::offer::EXCLUSIVE_FROM) agents goes to one listener that has no other task without a report, and
//! that listener gets no other task until its agent reports on this one. So only the task that ends its agents goes on
//! counting.

mod assignment;
mod assignments;
mod claims;
mod connection_streams;
mod connections;
mod declined;
mod end_notices;
mod given_back;
mod hand_over;
mod listener;
mod moving;
mod trial;
mod waiting;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use assignment::OpenOffer;
use assignments::Assignments;
use connections::ListenerConnections;
use end_notices::EndNotices;
use given_back::GivenBackTasks;
use listener::{FollowUp, ListenerLoad};
use trial::Trial;
use waiting::WaitingTasks;

use super::offer::{ListenerDelivery, OfferKind};
use crate::transaction::{HandOverLimits, ListenerId};

/// Most ended tasks that wait for a listener to be told of their end.
const MAX_UNTOLD_ENDS: usize = 10_000;

/// See the module's text.
#[derive(Debug)]
pub(in super::super) struct DeliverOne {
    timeout: Duration,
    claim_within: Option<Duration>,
    assignments: Assignments,
    waiting: WaitingTasks,
    /// When tasks are taken away from their holders.
    deadlines: BTreeSet<(Duration, u64)>,
    connections: ListenerConnections,
    /// The listener of each stream: the id of its first one.
    listener_of: HashMap<ListenerId, ListenerId>,
    end_notices: EndNotices,
    last_follow_up: u64,
    /// The tasks that ended in this turn, and the listeners that were sent them.
    ended: HashMap<String, Vec<ListenerId>>,
    /// Tasks that ended while no program listened and of which it is not known who has them, with their sizes: the next listener
    /// is told.
    untold_ends: VecDeque<(String, usize)>,
    /// Tasks that are to be given to a listener when this turn is over.
    unassigned: Vec<u64>,
    given_back: GivenBackTasks,
    idle_since: Option<Duration>,
}

impl DeliverOne {
    /// No program listens since `now`.
    pub(super) fn new(now: Duration, limits: &HandOverLimits) -> Self {
        Self {
            timeout: limits.timeout,
            claim_within: limits.claim_within,
            assignments: Assignments::default(),
            waiting: WaitingTasks::default(),
            deadlines: BTreeSet::new(),
            connections: ListenerConnections::default(),
            listener_of: HashMap::new(),
            end_notices: EndNotices::default(),
            last_follow_up: 0,
            ended: HashMap::new(),
            untold_ends: VecDeque::new(),
            unassigned: Vec::new(),
            given_back: GivenBackTasks::default(),
            idle_since: Some(now),
        }
    }

    pub(super) fn idle_since(&self) -> Option<Duration> {
        self.idle_since
    }

    /// How many streams are open.
    pub(super) fn stream_count(&self) -> usize {
        self.listener_of.len()
    }

    /// The listener to which a stream belongs.
    fn listener_of(&self, stream: ListenerId) -> ListenerId {
        self.listener_of.get(&stream).copied().unwrap_or(stream)
    }

    /// Whether a listener may have more in a moment.
    pub(super) fn needs_clock(&self) -> bool {
        self.assignments.has_trials()
    }

    pub(super) fn note_activity(&mut self, now: Duration) {
        if self.assignments.listener_count() == 0 {
            self.idle_since = Some(now);
        }
    }

    pub(super) fn is_reserved(&self, task: &str) -> bool {
        let offer = self.assignments.offer_of(task);
        offer.is_some_and(|offer| offer.reserved)
    }

    pub(super) fn is_on_offer(&self, task: &str) -> bool {
        self.assignments.offer_of(task).is_some()
    }

    pub(super) fn is_held(&self, task: &str) -> bool {
        let key = self.assignments.key(task);
        let task = key.and_then(|key| self.assignments.task(key));
        task.is_some_and(|task| task.offer.is_some() && task.holder.is_some())
    }

    /// Offers a task. Where a listener has it, only that one is told.
    pub(super) fn offer(
        &mut self,
        task: &str,
        as_what: OfferKind,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        let mut deliveries = Vec::new();
        self.drop_end_notices(task);
        if as_what == OfferKind::Ended {
            self.tell_end(task, weight, now, &mut deliveries);
            return deliveries;
        }
        let key = self.assignments.key_or_new(task);
        let holder = self.assignments.task(key).and_then(|task| task.holder);
        self.assignments.edit(key, |task| {
            task.weight = weight;
            task.version += 1;
            match &mut task.offer {
                Some(offer) => offer.renew(as_what),
                None => task.offer = Some(OpenOffer::new(as_what, holder.is_some())),
            }
        });
        match holder {
            Some(holder) => {
                let offer = self.assignments.offer(key);
                if offer.is_some_and(|offer| !offer.is_movable()) {
                    self.stop_waiting(key);
                } else if offer.is_some_and(|offer| offer.place.is_some()) {
                    // It may be handed out otherwise than before.
                    self.stop_waiting(key);
                    self.take_away(key, now, &mut deliveries);
                }
                if self.assignments.task(key).and_then(|task| task.holder) == Some(holder) {
                    self.add_update(key, holder);
                    self.serve(holder, now, &mut deliveries);
                }
            }
            None => self.assign(key, now, &mut deliveries),
        }
        deliveries
    }

    /// Gives a task that no listener has to one that can be given it.
    pub(super) fn offer_again(&mut self, task: &str, now: Duration) -> Vec<ListenerDelivery> {
        let mut deliveries = Vec::new();
        if let Some(key) = self.assignments.key(task)
            && !self.is_held(task)
        {
            self.assign(key, now, &mut deliveries);
        }
        deliveries
    }

    /// An agent acted on the task, or it is gone: it is not offered any more. Whether it was.
    pub(super) fn withdraw(&mut self, task: &str) -> bool {
        self.drop_end_notices(task);
        let Some(key) = self.assignments.key(task) else {
            return false;
        };
        self.stop_waiting(key);
        self.drop_update(key);
        let offer = self.assignments.edit(key, |task| task.offer.take());
        self.assignments.forget_if_done(key);
        offer.flatten().is_some()
    }

    /// The task has ended. The listeners that were sent it are told if that is offered in this turn.
    pub(super) fn on_task_ended(&mut self, task: &str) {
        let Some(key) = self.assignments.key(task) else {
            return;
        };
        self.stop_waiting(key);
        self.drop_update(key);
        self.set_departed(key, None);
        let told = self.assignments.remove(key);
        if !told.is_empty() {
            self.ended.insert(task.to_owned(), told);
        }
    }

    fn tell_end(&mut self, task: &str, weight: usize, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        self.on_task_ended(task);
        let told = self.ended.remove(task).unwrap_or_default();
        self.tell_end_to(told, task, weight, now, deliveries);
    }

    /// The task has ended, and it is not known who has it: each listener is told, or the next one that comes.
    pub(super) fn tell_end_to_all(
        &mut self,
        task: &str,
        weight: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        self.drop_end_notices(task);
        self.on_task_ended(task);
        self.ended.remove(task);
        let mut deliveries = Vec::new();
        let all: Vec<ListenerId> = self.assignments.listeners().map(|(id, _)| id).collect();
        if all.is_empty() {
            self.untold_ends.push_back((task.to_owned(), weight));
            if self.untold_ends.len() > MAX_UNTOLD_ENDS {
                self.untold_ends.pop_front();
            }
        }
        self.tell_end_to(all, task, weight, now, &mut deliveries);
        deliveries
    }

    fn tell_end_to(
        &mut self,
        listeners: Vec<ListenerId>,
        task: &str,
        weight: usize,
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        for id in listeners {
            let listener = self.assignments.listener(id);
            if listener.is_none_or(|listener| !listener.streams.wants_ends()) {
                continue;
            }
            let end = FollowUp::End {
                task: task.to_owned(),
                weight,
            };
            let order = self.next_follow_up();
            self.assignments
                .edit_listener(id, |listener| listener.follow_ups.insert(order, end));
            if let Some((other, dropped)) = self.end_notices.push(order, id, task) {
                self.remove_follow_up(other, dropped);
            }
            self.serve_follow_ups(id, now, deliveries);
            // Others may have become free by the same end, and have less to do.
            self.assignments.note_relieved(id);
        }
    }

    /// A stream is opened. It belongs to the listener of its connection, if there is one.
    pub(super) fn attach(
        &mut self,
        stream: ListenerId,
        connection: Option<u64>,
        wants_ends: bool,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        if self.idle_since.take().is_some() {
            // A listener that can take what was declined has the time to come from now on.
            let declined: Vec<u64> = self.waiting.declined().chain(self.waiting.exclusive()).collect();
            for key in declined {
                self.assignments.edit_offer(key, |offer| {
                    if let Some(declined) = &mut offer.declined {
                        declined.since = Some(now);
                    }
                });
            }
        }
        let there = connection.and_then(|connection| self.living_listener_on(connection));
        let id = there.unwrap_or(stream);
        let finds_tasks = !self.waiting.is_empty();
        self.listener_of.insert(stream, id);
        if there.is_some() {
            self.assignments.edit_listener(id, |listener| {
                listener.streams.add(stream, wants_ends);
                listener.is_stuck = false;
            });
        } else {
            let trial = Trial::new(now, finds_tasks);
            let listener = ListenerLoad::new(id, connection, wants_ends, trial);
            self.assignments.add_listener(id, listener);
        }
        if let Some(connection) = connection.filter(|_| there.is_none()) {
            for key in self.connections.join(connection, id) {
                self.assignments.edit(key, |task| task.departed_from = None);
                self.assignments.give(key, id);
            }
        }
        let mut deliveries = Vec::new();
        if wants_ends {
            for (task, weight) in std::mem::take(&mut self.untold_ends) {
                self.tell_end_to(vec![id], &task, weight, now, &mut deliveries);
            }
        }
        self.serve(id, now, &mut deliveries);
        deliveries
    }

    /// The listener on this connection whose agent has not ended.
    fn living_listener_on(&self, connection: u64) -> Option<ListenerId> {
        let mut there = self.connections.listeners_on(connection).into_iter();
        there.find(|id| {
            let listener = self.assignments.listener(*id);
            listener.is_some_and(|listener| !listener.has_ended)
        })
    }

    /// A stream is closed; with the last one of its connection the listener ends. What that held without a report goes to another
    /// listener. What its library had claimed stays claimed, unless the agent has ended ([`DeliverOne::agent_ended`]).
    pub(super) fn detach(&mut self, stream: ListenerId, now: Duration) -> Vec<ListenerDelivery> {
        let Some(id) = self.listener_of.remove(&stream) else {
            return Vec::new();
        };
        let others = self.assignments.edit_listener(id, |listener| {
            (listener.streams.count() > 1).then(|| (listener.streams.remove(stream), listener.has_ended))
        });
        if let Some((lost, has_ended)) = others.flatten() {
            let mut deliveries = Vec::new();
            // What an agent had that has ended is looked after with its last stream.
            if !has_ended {
                self.leave_to_other_streams(id, &lost, now, &mut deliveries);
            }
            return deliveries;
        }
        let Some(gone) = self.assignments.remove_listener(id) else {
            return Vec::new();
        };
        if self.assignments.listener_count() == 0 {
            self.idle_since = Some(now);
        }
        let connection = gone.connection.filter(|on| self.connections.leave(*on, id));
        let successor_on = connection.filter(|_| !gone.has_ended);
        for order in gone.follow_ups.keys() {
            self.end_notices.remove(*order);
        }
        let mut orphans = Vec::new();
        for key in gone.had {
            match self.leave_task(key, id, successor_on.is_some(), now) {
                LeftTask::Unreported => orphans.push(key),
                LeftTask::Reported => self.set_departed(key, successor_on),
                LeftTask::Other => {}
            }
            self.assignments.forget_if_done(key);
        }
        if let Some(connection) = connection {
            self.connections.forget_if_unused(connection);
        }
        let mut deliveries = Vec::new();
        for key in orphans {
            self.assign(key, now, &mut deliveries);
        }
        deliveries
    }

    /// A stream of the listener is closed, and others are open: what none of these was sent is handed out again. The closed one
    /// alone had not read `lost`.
    fn leave_to_other_streams(
        &mut self,
        id: ListenerId,
        lost: &[u64],
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        for key in lost {
            self.count_read(*key, id);
        }
        let Some(listener) = self.assignments.listener(id) else {
            return;
        };
        let is_unknown = |key: &u64| {
            let task = self.assignments.task(*key).filter(|task| task.holder == Some(id));
            let is_sent = |number| number > 0 && !listener.streams.reaches(number);
            task.is_some_and(|task| {
                let sent = task.sent_to.iter().find(|sent| sent.listener == id);
                let is_open = task.offer.as_ref().is_some_and(|offer| !offer.reserved);
                is_open && sent.is_some_and(|sent| is_sent(sent.number))
            })
        };
        let unknown: Vec<u64> = listener.had.iter().copied().filter(is_unknown).collect();
        for key in unknown {
            if self.assignments.offer(key).is_some_and(|offer| offer.own) {
                self.add_update(key, id);
            } else {
                self.stop_waiting(key);
                self.take_from_holder(key);
                self.assign(key, now, deliveries);
            }
        }
        self.serve(id, now, deliveries);
    }

    /// A listener that is gone has the task no more. `is_agent_there`: its agent goes on with what it has reported on, and has
    /// read.
    fn leave_task(&mut self, key: u64, id: ListenerId, is_agent_there: bool, now: Duration) -> LeftTask {
        let left = self.assignments.edit(key, |task| {
            let was_holder = task.holder == Some(id);
            let has_all = task.unread_by(id) == 0 && task.follow_up.is_none();
            task.sent_to.retain(|sent| sent.listener != id);
            if was_holder {
                (task.holder, task.follow_up) = (None, None);
            }
            let Some(offer) = &mut task.offer else {
                return if was_holder {
                    LeftTask::Reported
                } else {
                    LeftTask::Other
                };
            };
            if was_holder && (offer.reserved || offer.own && has_all && is_agent_there) {
                return LeftTask::Reported;
            }
            if !offer.declined_by.contains(&id) {
                offer.never_acceptable = false;
                if let Some(declined) = &mut offer.declined {
                    declined.since = Some(now);
                }
            }
            if was_holder {
                offer.own = false;
                offer.read_at = None;
                LeftTask::Unreported
            } else {
                LeftTask::Other
            }
        });
        match left {
            Some(LeftTask::Reported) => {
                self.stop_waiting(key);
                // An answer that its agent has read is offered again if that agent does not come back.
                self.assignments.edit(key, |task| {
                    task.offer = task.offer.take().filter(|offer| !offer.reserved);
                });
            }
            Some(LeftTask::Unreported) => self.stop_waiting(key),
            _ => {}
        }
        left.unwrap_or(LeftTask::Other)
    }

    /// The task, which no listener has, waits for the next listener of this connection, or no more.
    fn set_departed(&mut self, key: u64, connection: Option<u64>) {
        let before = self
            .assignments
            .edit(key, |task| std::mem::replace(&mut task.departed_from, connection));
        if let Some(before) = before.flatten() {
            self.connections.remove_departed(before, key);
        }
        if let Some(connection) = connection {
            self.connections.add_departed(connection, key);
        }
    }

    /// A gRPC connection is gone: no listener there takes over what its listeners had.
    pub(super) fn on_connection_closed(&mut self, connection: u64) {
        for key in self.connections.close(connection) {
            self.assignments.edit(key, |task| task.departed_from = None);
            if self.assignments.offer(key).is_some() {
                self.unassigned.push(key);
            }
            self.assignments.forget_if_done(key);
        }
    }

    /// The agent that has this stream has ended. It is still to be detached. Returns the tasks that it had read and had not
    /// reported on, each of which counts it, with the last of its streams.
    pub(super) fn agent_ended(&mut self, stream: ListenerId, read: usize) -> Vec<String> {
        let id = self.listener_of(stream);
        let read = self.assignments.edit_listener(id, |listener| {
            listener.has_ended = true;
            listener.read(stream, read)
        });
        for key in read.unwrap_or_default() {
            self.count_read(key, id);
        }
        let listener = self.assignments.listener(id);
        let Some(listener) = listener.filter(|listener| listener.streams.count() == 1) else {
            return Vec::new();
        };
        let had: Vec<u64> = listener.had.iter().copied().collect();
        let counted = had.into_iter().filter_map(|key| {
            let counted = self.assignments.edit(key, |task| {
                let (is_holder, has_read) = (task.holder == Some(id), task.unread_by(id) == 0);
                let offer = task.offer.as_mut()?;
                // What was claimed was read; what another listener's library has claimed is that one's.
                let had_it = if offer.reserved { is_holder } else { has_read };
                if !had_it || offer.declined_by.contains(&id) {
                    return None;
                }
                *offer.ends.as_mut()? += 1;
                offer.reserved = false;
                Some(task.task.clone())
            });
            counted.flatten()
        });
        counted.collect()
    }

    /// A listener has read one delivery of a task. Whether it has read them all.
    fn count_read(&mut self, key: u64, id: ListenerId) -> bool {
        let has_read = self.assignments.edit(key, |task| {
            let Some(sent) = task.recipient(id) else {
                return false;
            };
            sent.unread = sent.unread.saturating_sub(1);
            sent.unread == 0
        });
        has_read.unwrap_or(false)
    }

    /// `count` tasks were read off a stream.
    pub(super) fn credit(
        &mut self,
        stream: ListenerId,
        count: usize,
        now: Duration,
    ) -> Vec<ListenerDelivery> {
        let id = self.listener_of(stream);
        let read = self
            .assignments
            .edit_listener(id, |listener| listener.read(stream, count));
        for key in read.unwrap_or_default() {
            if self.count_read(key, id) {
                self.on_all_read(key, id, now);
            }
        }
        let mut deliveries = Vec::new();
        self.serve(id, now, &mut deliveries);
        deliveries
    }

    /// A listener has read all that it was sent of a task.
    fn on_all_read(&mut self, key: u64, id: ListenerId, now: Duration) {
        let is_held = self.assignments.task(key).is_some_and(|task| {
            task.holder == Some(id) && task.offer.as_ref().is_some_and(OpenOffer::is_movable)
        });
        if !is_held {
            return;
        }
        self.stop_waiting(key);
        self.assignments
            .edit_offer(key, |offer| offer.read_at = Some(now));
        self.await_claim(key, id);
    }

    /// The turn is over.
    pub(super) fn end_turn(&mut self, now: Duration) -> Vec<ListenerDelivery> {
        self.ended.clear();
        let mut deliveries = Vec::new();
        for key in std::mem::take(&mut self.unassigned) {
            if self
                .assignments
                .task(key)
                .is_some_and(|task| task.holder.is_none())
            {
                self.assign(key, now, &mut deliveries);
            }
        }
        // A task that moves relieves the listener that had it.
        loop {
            let relieved = self.assignments.take_relieved();
            if relieved.is_empty() {
                return deliveries;
            }
            self.serve_all(relieved, now, &mut deliveries);
        }
    }
}

/// What a listener that is gone leaves of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftTask {
    /// Its agent has reported on it, or its library has claimed it, and it had it.
    Reported,
    /// It had it, and its agent has not reported on it.
    Unreported,
    /// It did not have it any more.
    Other,
}

#[cfg(test)]
mod tests;
