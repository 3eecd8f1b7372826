//! To whom a task goes, and what that listener is sent: the steps that every event of [`DeliverOne`] comes to.

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::{lane::Lane, offer::ListenerDelivery},
    DeliverOne,
    listener::{FollowUp, ListenerLoad},
    waiting::QueuePlace,
};
use crate::transaction::ListenerId;

impl DeliverOne {
    /// Gives a task that no listener has to a listener, or has it wait for one.
    pub(super) fn assign(&mut self, key: u64, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        self.stop_waiting(key);
        self.set_departed(key, None);
        self.assignments.edit_offer(key, |offer| {
            offer.lane = Lane::new(false, offer.ends);
            offer.own = false;
        });
        match self.choose(key) {
            Some(id) => self.hand_over(key, id, now, deliveries),
            None => self.wait(key, now),
        }
    }

    /// The task waits for a listener.
    pub(super) fn wait(&mut self, key: u64, now: Duration) {
        let Some(offer) = self.assignments.offer(key) else {
            return;
        };
        let place = match offer.lane {
            Lane::Exclusive => self.waiting.push_exclusive(key),
            lane if offer.declined_by.is_empty() => self.waiting.push_open(lane, key),
            lane => self.waiting.push_declined(lane, key),
        };
        self.assignments.edit_offer(key, |offer| {
            offer.place = Some(place);
            offer.waits_since = Some(now);
            if let Some(declined) = &mut offer.declined {
                declined.since.get_or_insert(now);
            }
        });
    }

    /// The listener that a task goes to which no listener has: the one with the fewest tasks that was never sent it. Where
    /// there is none, one that has it on its stream and reads; then the one with the fewest tasks that was sent it before,
    /// and then any that has it on its stream.
    pub(super) fn choose(&self, key: u64) -> Option<ListenerId> {
        let task = self.assignments.task(key)?;
        let offer = task.offer.as_ref()?;
        let mut had_it = None;
        let candidates: Box<dyn Iterator<Item = ListenerId>> = if offer.lane == Lane::Exclusive {
            Box::new(self.idle_listeners(key))
        } else {
            Box::new(self.acceptable(key))
        };
        for id in candidates {
            if !task.was_sent_to(id) {
                return Some(id);
            }
            had_it.get_or_insert(id);
        }
        let mut unread = task.on_streams().filter(|id| !offer.declined_by.contains(id));
        let reads = unread.clone().find(|id| {
            let listener = self.assignments.listener(*id);
            listener.is_some_and(|listener| !listener.is_stuck)
        });
        reads.or(had_it).or_else(|| unread.next())
    }

    /// The listeners that can be given the task, which is not handed out alone; those that have the fewest first.
    pub(super) fn acceptable(&self, key: u64) -> impl Iterator<Item = ListenerId> {
        let offer = self.assignments.offer(key);
        let ready = self.assignments.ready();
        ready.filter(move |id| offer.is_some_and(|offer| !offer.declined_by.contains(id)))
    }

    /// The listeners that can be given the task alone; those that have the fewest first.
    pub(super) fn idle_listeners(&self, key: u64) -> impl Iterator<Item = ListenerId> {
        let offer = self.assignments.offer(key);
        let listeners = self.assignments.listeners();
        let mut idle: Vec<(usize, ListenerId)> = listeners
            .filter(|(id, listener)| {
                listener.is_idle() && offer.is_some_and(|offer| !offer.declined_by.contains(id))
            })
            .map(|(id, listener)| (listener.in_hand, id))
            .collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id)
    }

    pub(super) fn was_sent(&self, key: u64, id: ListenerId) -> bool {
        self.assignments
            .task(key)
            .is_some_and(|task| task.was_sent_to(id))
    }

    /// The task is the listener's, and is sent to it unless it has it on its stream.
    pub(super) fn hand_over(
        &mut self,
        key: u64,
        id: ListenerId,
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        self.stop_waiting(key);
        self.take_from_holder(key);
        self.assignments.give(key, id);
        if self.assignments.draining() == Some(id)
            && self
                .assignments
                .offer(key)
                .is_some_and(|offer| offer.lane == Lane::Exclusive)
        {
            self.assignments.set_draining(None);
        }
        let task = self.assignments.task(key);
        let is_on_stream = task.is_some_and(|task| task.on_streams().any(|on| on == id));
        if is_on_stream {
            self.set_deadline(key, now + self.timeout);
        } else {
            self.send(key, id, now, deliveries);
        }
    }

    /// Sends the task to the listener that has it.
    fn send(&mut self, key: u64, id: ListenerId, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        let weight = self.assignments.task(key).map_or(0, |task| task.weight);
        let place = self.assignments.note_sent(id, now);
        let delivery = self
            .assignments
            .edit_listener(id, |listener| listener.streams.send(Some(key), weight));
        let Some(delivery) = delivery else {
            return;
        };
        let sent = self.assignments.edit(key, |task| {
            task.count_sent(id, delivery.number);
            if let Some(sent) = task.recipient(id).filter(|sent| sent.place == 0) {
                sent.place = place;
            }
            let offer = task.offer.as_mut()?;
            let is_first = std::mem::take(&mut offer.never_sent);
            let is_awaited = offer.is_movable() && offer.place.is_none();
            Some((task.task.clone(), is_first, is_awaited))
        });
        let Some((task, is_first, is_awaited)) = sent.flatten() else {
            return;
        };
        let has_unread = self
            .assignments
            .task(key)
            .is_some_and(|task| task.unread_by(id) > 1);
        // What it has not read of the task counts from when it was sent the first of it.
        if is_awaited
            && !(has_unread
                && self
                    .assignments
                    .offer(key)
                    .is_some_and(|offer| offer.deadline.is_some()))
        {
            self.set_deadline(key, now + self.timeout);
        }
        let exclusive = is_first && delivery.streams.len() == 1;
        push_deliveries(deliveries, delivery.streams, &task, exclusive);
    }

    /// Sends a task that its listener has not read to the streams that were opened after it was sent. Whether there are any.
    pub(super) fn send_to_later_streams(
        &mut self,
        key: u64,
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) -> bool {
        let Some(task) = self.assignments.task(key) else {
            return false;
        };
        let unread = task.holder.and_then(|holder| {
            let sent = task.sent_to.iter().find(|sent| sent.listener == holder)?;
            (sent.unread > 0).then_some((holder, sent.number))
        });
        let Some((holder, number)) = unread else {
            return false;
        };
        let weight = task.weight;
        let delivery = self.assignments.edit_listener(holder, |listener| {
            listener.streams.send_to_later(key, weight, number)
        });
        let Some(delivery) = delivery.filter(|delivery| !delivery.streams.is_empty()) else {
            return false;
        };
        let name = self.assignments.edit(key, |task| {
            task.count_sent(holder, delivery.number);
            task.task.clone()
        });
        self.set_deadline(key, now + self.timeout);
        push_deliveries(deliveries, delivery.streams, &name.unwrap_or_default(), false);
        true
    }

    /// Gives a listener what it has room for: what it alone is told, then tasks that wait.
    pub(super) fn serve(&mut self, id: ListenerId, now: Duration, deliveries: &mut Vec<ListenerDelivery>) {
        self.serve_follow_ups(id, now, deliveries);
        while self.assignments.is_ready(id)
            && let Some(key) = self.next_waiting(id)
        {
            self.hand_over(key, id, now, deliveries);
        }
        if self.waiting.has_exclusive()
            && self.assignments.listener(id).is_some_and(ListenerLoad::is_idle)
            && let Some(key) = self.next_exclusive(id)
        {
            self.hand_over(key, id, now, deliveries);
        }
    }

    /// Gives a listener what it alone is told, as far as it has room for that.
    pub(super) fn serve_follow_ups(
        &mut self,
        id: ListenerId,
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        while let Some((order, follow_up)) = self.next_follow_up_of(id) {
            match follow_up {
                FollowUp::Update(key) => {
                    self.assignments.edit(key, |task| task.follow_up = None);
                    self.send(key, id, now, deliveries);
                }
                FollowUp::End { task, weight } => {
                    self.end_notices.remove(order);
                    let told = self
                        .assignments
                        .edit_listener(id, |listener| listener.streams.send(None, weight));
                    let told = told.map(|told| told.streams).unwrap_or_default();
                    push_deliveries(deliveries, told, &task, false);
                }
            }
        }
    }

    fn next_follow_up_of(&mut self, id: ListenerId) -> Option<(u64, FollowUp)> {
        self.assignments
            .edit_listener(id, |listener| {
                listener
                    .has_room()
                    .then(|| listener.follow_ups.pop_first())
                    .flatten()
            })
            .flatten()
    }

    /// The next task that waits and that the listener may be given.
    fn next_waiting(&mut self, id: ListenerId) -> Option<u64> {
        loop {
            let next = self.waiting.next_after(&self.assignments.listener(id)?.passed)?;
            let task = self.assignments.task(next.key);
            let is_for_it = task.is_some_and(|task| {
                let has_declined = task
                    .offer
                    .as_ref()
                    .is_none_or(|offer| offer.declined_by.contains(&id));
                let is_overdue = matches!(next.place, QueuePlace::Overdue(_));
                let had_it = is_overdue && task.was_sent_to(id);
                !has_declined && !had_it
            });
            if is_for_it {
                return Some(next.key);
            }
            if matches!(next.place, QueuePlace::Open(_)) {
                return None; // Every listener may be given what stands there.
            }
            self.assignments
                .edit_listener(id, |listener| listener.passed.pass(next.place));
        }
    }

    /// The first task that waits to be handed out alone and that the listener may be given.
    pub(super) fn next_exclusive(&self, id: ListenerId) -> Option<u64> {
        self.waiting.exclusive().find(|key| {
            self.assignments.task(*key).is_some_and(|task| {
                let may_have = task.holder.is_none() || !task.was_sent_to(id);
                let offer = task.offer.as_ref();
                may_have && offer.is_some_and(|offer| !offer.declined_by.contains(&id))
            })
        })
    }

    /// The task does not wait for a listener, nor for its holder's time to be over.
    pub(super) fn stop_waiting(&mut self, key: u64) {
        let times = self.assignments.edit_offer(key, |offer| {
            offer.waits_since = None;
            (offer.place.take(), offer.deadline.take())
        });
        let Some((place, deadline)) = times else {
            return;
        };
        if let Some(place) = place {
            self.waiting.remove(place);
        }
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, key));
        }
    }

    pub(super) fn set_deadline(&mut self, key: u64, at: Duration) {
        let before = self
            .assignments
            .edit_offer(key, |offer| offer.deadline.replace(at));
        let Some(before) = before else {
            return;
        };
        if let Some(before) = before {
            self.deadlines.remove(&(before, key));
        }
        self.deadlines.insert((at, key));
    }

    /// No listener has the task now.
    pub(super) fn take_from_holder(&mut self, key: u64) {
        self.drop_update(key);
        self.assignments.edit(key, |task| {
            task.holder = None;
            if let Some(offer) = &mut task.offer {
                (offer.own, offer.read_at) = (false, None);
            }
        });
    }

    pub(super) fn next_follow_up(&mut self) -> u64 {
        self.last_follow_up += 1;
        self.last_follow_up
    }

    /// The holder of the task is to be sent it once more.
    pub(super) fn add_update(&mut self, key: u64, holder: ListenerId) {
        if self
            .assignments
            .task(key)
            .is_some_and(|task| task.follow_up.is_some())
        {
            return;
        }
        let order = self.next_follow_up();
        self.assignments.edit(key, |task| task.follow_up = Some(order));
        self.assignments.edit_listener(holder, |listener| {
            listener.follow_ups.insert(order, FollowUp::Update(key));
        });
    }

    /// The holder of the task is not sent it once more.
    pub(super) fn drop_update(&mut self, key: u64) {
        let update = self
            .assignments
            .edit(key, |task| (task.holder, task.follow_up.take()));
        if let Some((Some(holder), Some(order))) = update {
            self.remove_follow_up(holder, order);
        }
    }

    pub(super) fn remove_follow_up(&mut self, id: ListenerId, order: u64) {
        self.assignments
            .edit_listener(id, |listener| listener.follow_ups.remove(&order));
    }

    /// No listener is told that the task has ended.
    pub(super) fn drop_end_notices(&mut self, task: &str) {
        for (id, order) in self.end_notices.remove_task(task) {
            self.remove_follow_up(id, order);
        }
    }

    /// Gives the listeners what they have room for, so that of several the one with the fewest tasks comes first each time.
    pub(super) fn serve_all(
        &mut self,
        ids: BTreeSet<ListenerId>,
        now: Duration,
        deliveries: &mut Vec<ListenerDelivery>,
    ) {
        let in_hand = |one: &Self, id| one.assignments.listener(id).map(|listener| listener.in_hand);
        let counted = ids.iter().filter_map(|id| Some((in_hand(self, *id)?, *id)));
        let mut least_busy_first: BTreeSet<(usize, ListenerId)> = counted.collect();
        while let Some((_, id)) = least_busy_first.pop_first() {
            if self.assignments.is_ready(id)
                && let Some(key) = self.next_waiting(id)
            {
                let from = self.assignments.task(key).and_then(|task| task.holder);
                // Another may be free that was never sent it.
                let to = from.map_or_else(|| self.choose(key).unwrap_or(id), |_| id);
                let touched: BTreeSet<ListenerId> =
                    [Some(id), from, Some(to)].into_iter().flatten().collect();
                let counted = |one: &Self| -> Vec<(usize, ListenerId)> {
                    let counted = touched.iter().filter_map(|id| Some((in_hand(one, *id)?, *id)));
                    counted.collect()
                };
                for before in counted(self) {
                    least_busy_first.remove(&before);
                }
                self.hand_over(key, to, now, deliveries);
                least_busy_first.extend(counted(self));
            }
        }
        for id in ids {
            self.serve(id, now, deliveries);
        }
    }
}

/// The same delivery for each of a listener's streams.
fn push_deliveries(
    deliveries: &mut Vec<ListenerDelivery>,
    streams: Vec<ListenerId>,
    task: &str,
    exclusive: bool,
) {
    deliveries.extend(streams.into_iter().map(|listener| ListenerDelivery {
        listener,
        task: task.to_owned(),
        exclusive,
    }));
}
