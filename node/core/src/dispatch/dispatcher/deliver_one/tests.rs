//! The dispatcher against a model that knows what every listener was sent, and looks at all of it each time.

mod cases;
mod streams;

use std::collections::{BTreeMap, VecDeque};

use proptest::{collection::vec, prelude::*};

use super::{trial::STEP, *};
use crate::{
    dispatch::dispatcher::{
        lane::Lane,
        offer::{CREDIT_BYTES, DeclineOutcome, GIVE_BACK_PAUSE},
    },
    transaction::DeliverMode,
};

const TIMEOUT: Duration = Duration::from_secs(30);
const CLAIM_WITHIN: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_mins(5);

/// Four of these fill a listener.
const WEIGHT: usize = CREDIT_BYTES / 3;

fn new_dispatcher(claim_within: Option<Duration>) -> DeliverOne {
    let limits = HandOverLimits {
        deliver: DeliverMode::One,
        timeout: TIMEOUT,
        claim_within,
    };
    DeliverOne::new(Duration::ZERO, &limits)
}

#[derive(Clone, Debug)]
enum Event {
    Offer {
        task: u8,
        ends: u32,
    },
    /// The agent ends the task.
    Finish {
        task: u8,
    },
    /// The task ends by another hand, and its agent is told.
    Cancel {
        task: u8,
    },
    Attach {
        on_new_connection: bool,
        which: usize,
    },
    Detach {
        which: usize,
        has_ended: bool,
    },
    Close {
        which: usize,
    },
    Credit {
        which: usize,
        count: usize,
    },
    Decline {
        which: usize,
        task: u8,
    },
    /// An agent says that it works on a task.
    Report {
        which: usize,
        task: u8,
    },
    /// Its library does.
    Reserve {
        which: usize,
        task: u8,
    },
    /// The agent that has claimed a task gives it back.
    GiveBack {
        which: usize,
        task: u8,
    },
    Tick {
        tenths: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let which = any::<usize>;
    let task = || 0_u8..24;
    let ends = prop_oneof![6 => Just(0_u32), 1 => Just(1), 1 => 2_u32..4];
    prop_oneof![
        14 => (task(), ends).prop_map(|(task, ends)| Event::Offer { task, ends }),
        3 => task().prop_map(|task| Event::Finish { task }),
        2 => task().prop_map(|task| Event::Cancel { task }),
        3 => (which(), any::<bool>()).prop_map(|(which, on_new_connection)| Event::Attach { on_new_connection, which }),
        2 => (which(), any::<bool>()).prop_map(|(which, has_ended)| Event::Detach { which, has_ended }),
        1 => which().prop_map(|which| Event::Close { which }),
        8 => (which(), 1_usize..5).prop_map(|(which, count)| Event::Credit { which, count }),
        3 => (which(), task()).prop_map(|(which, task)| Event::Decline { which, task }),
        4 => (which(), task()).prop_map(|(which, task)| Event::Report { which, task }),
        2 => (which(), task()).prop_map(|(which, task)| Event::Reserve { which, task }),
        3 => (which(), task()).prop_map(|(which, task)| Event::GiveBack { which, task }),
        5 => (1_u64..20).prop_map(|seconds| Event::Tick { tenths: 10 * seconds }),
        5 => (1_u64..8).prop_map(|tenths| Event::Tick { tenths }),
    ]
}

#[derive(Debug)]
struct OfferModel {
    ends: Option<u32>,
    lane: Lane,
    never_sent: bool,
    never_acceptable: bool,
    declined: BTreeSet<ListenerId>,
    reserved: bool,
    own: bool,
    /// Its holder's time is over.
    overdue: bool,
    deadline: Option<Duration>,
    read_at: Option<Duration>,
    /// Its holder is to be sent it once more.
    pending: bool,
}

impl OfferModel {
    fn new(ends: Option<u32>, own: bool) -> Self {
        let is_new = ends == Some(0);
        Self {
            ends,
            lane: Lane::new(false, ends),
            never_sent: is_new,
            never_acceptable: is_new,
            declined: BTreeSet::new(),
            reserved: false,
            own,
            overdue: false,
            deadline: None,
            read_at: None,
            pending: false,
        }
    }

    fn is_movable(&self) -> bool {
        !self.own && !self.reserved
    }

    fn is_exclusive(&self) -> bool {
        self.lane == Lane::Exclusive
    }

    /// It has no holder now.
    fn wait_again(&mut self) {
        self.lane = Lane::new(false, self.ends);
        (self.own, self.overdue, self.pending) = (false, false, false);
        (self.deadline, self.read_at) = (None, None);
    }
}

#[derive(Debug)]
struct TaskModel {
    /// Tells the task from one of before with the same name.
    generation: u64,
    version: u64,
    offer: Option<OfferModel>,
    holder: Option<ListenerId>,
    departed: Option<u64>,
    /// The version that each listener that lives was sent last; 0: it only claimed it.
    sent: BTreeMap<ListenerId, u64>,
    /// The place of the first delivery to each of them among all.
    places: BTreeMap<ListenerId, u64>,
    claimed_by: Option<u64>,
}

impl TaskModel {
    /// It is to go to a listener.
    fn waits(&self) -> bool {
        let offer = self.offer.as_ref();
        let is_free = self.holder.is_none() && self.departed.is_none();
        offer.is_some_and(|offer| is_free || offer.overdue)
    }
}

#[derive(Debug)]
struct ListenerModel {
    connection: u64,
    claims: bool,
    /// It has let the time of a task go by without reading it, and has read nothing since.
    is_stuck: bool,
    has_acted: bool,
    /// It found tasks that waited, and came then.
    found_tasks_at: Option<Duration>,
    /// The place of its first task, and when it was sent that.
    first: Option<(u64, Duration)>,
    /// How many tasks it may have beside others.
    allowance: usize,
    /// Another has acted on a task of a later place.
    is_outdone: bool,
    /// The generation and version of each task that it has not read; None: the end of one.
    unread: VecDeque<Option<(u64, u64)>>,
}

impl ListenerModel {
    fn has_room(&self) -> bool {
        self.unread.len() * WEIGHT < CREDIT_BYTES
    }
}

#[derive(Default)]
struct Model {
    now: Duration,
    last_listener: ListenerId,
    last_connection: u64,
    last_generation: u64,
    last_place: u64,
    open: BTreeSet<u64>,
    tasks: BTreeMap<String, TaskModel>,
    listeners: BTreeMap<ListenerId, ListenerModel>,
    /// Ends of tasks that these are to be told of.
    ends: BTreeSet<(ListenerId, String)>,
    /// The generations of tasks that these gave back, and when they may have them again.
    given_back: VecDeque<(Duration, u64, Vec<ListenerId>)>,
}

impl Model {
    fn pick(&self, which: usize) -> Option<ListenerId> {
        let count = self.listeners.len();
        self.listeners.keys().nth(which % count.max(1)).copied()
    }

    fn insert(&mut self, name: &str) -> &mut TaskModel {
        self.last_generation += 1;
        let generation = self.last_generation;
        self.tasks.entry(name.to_owned()).or_insert(TaskModel {
            generation,
            version: 0,
            offer: None,
            holder: None,
            departed: None,
            sent: BTreeMap::new(),
            places: BTreeMap::new(),
            claimed_by: None,
        })
    }

    fn forget_if_done(&mut self, name: &str) {
        let is_done = |task: &TaskModel| {
            task.offer.is_none() && task.holder.is_none() && task.departed.is_none() && task.sent.is_empty()
        };
        if self.tasks.get(name).is_some_and(is_done) {
            self.tasks.remove(name);
        }
    }

    fn load(&self, id: ListenerId) -> usize {
        self.tasks.values().filter(|task| task.holder == Some(id)).count()
    }

    fn unreported(&self, id: ListenerId) -> impl Iterator<Item = &OfferModel> {
        let held = self.tasks.values().filter(move |task| task.holder == Some(id));
        held.filter_map(|task| task.offer.as_ref())
            .filter(|offer| !offer.own)
    }

    fn unread_by(&self, id: ListenerId, generation: u64) -> usize {
        let unread = self
            .listeners
            .get(&id)
            .into_iter()
            .flat_map(|listener| &listener.unread);
        unread.flatten().filter(|(of, _)| *of == generation).count()
    }

    /// Whether the listener can be given the task.
    fn is_eligible(&self, id: ListenerId, offer: &OfferModel, draining: Option<ListenerId>) -> bool {
        self.is_acceptable(id, offer, draining) && (offer.is_exclusive() || self.is_next(id, draining))
    }

    /// The same, whoever else is to be waited for.
    fn is_acceptable(&self, id: ListenerId, offer: &OfferModel, draining: Option<ListenerId>) -> bool {
        let Some(listener) = self.listeners.get(&id).filter(|listener| listener.has_room()) else {
            return false;
        };
        let is_free = if offer.is_exclusive() {
            listener.unread.is_empty() && self.unreported(id).next().is_none()
        } else {
            self.is_free(id, draining) && self.may_have_more(id)
        };
        is_free && !offer.declined.contains(&id)
    }

    /// Whether no listener with fewer tasks may have one more in a moment.
    fn is_next(&self, id: ListenerId, draining: Option<ListenerId>) -> bool {
        let is_awaited = |other: &&ListenerId| {
            let is_outdone = self.listeners[*other].is_outdone && self.some_act();
            self.is_free(**other, draining) && !self.may_have_more(**other) && !is_outdone
        };
        let awaited = self.listeners.keys().filter(is_awaited);
        let first = awaited.map(|other| (self.load(*other), *other)).min();
        first.is_none_or(|first| (self.load(id), id) < first)
    }

    fn is_free(&self, id: ListenerId, draining: Option<ListenerId>) -> bool {
        let listener = &self.listeners[&id];
        let has_exclusive = self.unreported(id).any(OfferModel::is_exclusive);
        listener.has_room() && !listener.is_stuck && draining != Some(id) && !has_exclusive
    }

    fn some_act(&self) -> bool {
        self.listeners.values().any(|listener| listener.has_acted)
    }

    /// Whether it has acted, or has fewer tasks than it may have before that.
    fn may_have_more(&self, id: ListenerId) -> bool {
        let listener = &self.listeners[&id];
        let most = if listener.is_outdone && self.some_act() {
            Some(1)
        } else if self.listeners.len() > 1 {
            Some(listener.allowance)
        } else {
            listener.found_tasks_at.map(|_| 1)
        };
        listener.has_acted || most.is_none_or(|most| self.unreported(id).count() < most)
    }

    /// Time makes listeners that have not acted trusted.
    fn grow_allowances(&mut self) {
        for listener in self.listeners.values_mut() {
            listener.found_tasks_at = listener.found_tasks_at.filter(|at| *at + STEP > self.now);
            if let Some((_, at)) = listener.first {
                let steps = self.now.saturating_sub(at).as_millis() / STEP.as_millis();
                listener.allowance = if steps < 10 {
                    1 + steps as usize
                } else {
                    usize::MAX
                };
            }
        }
    }

    /// The agent of these acts on the task.
    fn act(&mut self, name: &str, ids: &[ListenerId]) {
        let places = self.tasks.get(name).map(|task| &task.places);
        let places = places.into_iter().flatten().filter(|(id, _)| ids.contains(id));
        let place = places.map(|(_, place)| *place).max().unwrap_or_default();
        for (id, listener) in &mut self.listeners {
            if ids.contains(id) {
                listener.has_acted = true;
            } else {
                listener.is_outdone |= listener.first.is_some_and(|(first, _)| first < place);
            }
        }
    }

    fn has_on_stream(&self, id: ListenerId, task: &TaskModel) -> bool {
        task.sent.get(&id) == Some(&task.version) && self.unread_by(id, task.generation) > 0
    }

    fn happen(&mut self, event: &Event, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        let now = self.now;
        match *event {
            Event::Offer { task, ends } => self.offer(&task.to_string(), ends, feed),
            Event::Finish { task } => {
                let name = task.to_string();
                let holder = self.tasks.get(&name).and_then(|task| task.holder);
                self.act(&name, holder.as_slice());
                feed.on_end_reported(&name);
                feed.withdraw(&name);
                feed.on_task_ended(&name);
                self.tasks.remove(&name);
                self.ends.retain(|(_, ended)| *ended != name);
                Vec::new()
            }
            Event::Cancel { task } => {
                let name = task.to_string();
                let told = self.tasks.remove(&name).map(|task| task.sent).unwrap_or_default();
                self.ends.retain(|(_, ended)| *ended != name);
                self.ends.extend(told.into_keys().map(|id| (id, name.clone())));
                feed.on_task_ended(&name);
                feed.offer(&name, OfferKind::Ended, WEIGHT, now)
            }
            Event::Attach {
                on_new_connection,
                which,
            } => self.attach(on_new_connection, which, feed),
            Event::Detach { which, has_ended } => match self.pick(which) {
                Some(id) => self.detach(id, has_ended, feed),
                None => feed.detach(99_999, now),
            },
            Event::Close { which } => {
                let connection = self.open.iter().nth(which % self.open.len().max(1)).copied();
                if let Some(connection) = connection {
                    self.close(connection, feed);
                }
                Vec::new()
            }
            Event::Credit { which, count } => match self.pick(which) {
                Some(id) => self.credit(id, count, feed),
                None => Vec::new(),
            },
            Event::Decline { which, task } => match self.pick(which) {
                Some(id) => self.decline(id, &task.to_string(), feed),
                None => Vec::new(),
            },
            Event::Report { which, task } => {
                if let Some(id) = self.pick(which) {
                    self.claim(id, &task.to_string(), false, feed);
                }
                Vec::new()
            }
            Event::Reserve { which, task } => {
                if let Some(id) = self.pick(which) {
                    self.claim(id, &task.to_string(), true, feed);
                }
                Vec::new()
            }
            Event::GiveBack { which, task } => match self.pick(which) {
                Some(id) => self.give_back(id, &task.to_string(), feed),
                None => Vec::new(),
            },
            Event::Tick { tenths } => {
                self.now += STEP * u32::try_from(tenths).unwrap();
                self.end_give_back_pauses();
                self.grow_allowances();
                let mut unread = Vec::new();
                for task in self.tasks.values_mut() {
                    if let Some(offer) = &mut task.offer
                        && offer.deadline.is_some_and(|at| at <= self.now)
                    {
                        (offer.deadline, offer.overdue) = (None, true);
                        unread.extend(task.holder.map(|holder| (holder, task.generation)));
                    }
                }
                unread.retain(|(id, generation)| self.unread_by(*id, *generation) > 0);
                for (id, _) in unread {
                    self.listeners.get_mut(&id).unwrap().is_stuck = true;
                }
                feed.tick_trials(self.now);
                feed.tick(self.now, GRACE)
            }
        }
    }

    fn offer(&mut self, name: &str, ends: u32, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        self.ends.retain(|(_, ended)| ended != name);
        let again = |ends| {
            if ends == 0 {
                OfferKind::New
            } else {
                OfferKind::Again { ends }
            }
        };
        let task = self.insert(name);
        let kind = match &task.offer {
            Some(offer) if offer.ends.is_none() || offer.reserved => OfferKind::InProgress,
            None if task.version > 0 || task.holder.is_some() || ends == 3 => OfferKind::InProgress,
            _ => again(ends),
        };
        task.version += 1;
        let holder = task.holder;
        match &mut task.offer {
            Some(offer) => {
                offer.ends = kind.ends();
                offer.lane = Lane::new(false, offer.ends);
                offer.never_sent &= kind == OfferKind::New;
                offer.never_acceptable &= kind == OfferKind::New;
                offer.own |= std::mem::take(&mut offer.reserved);
            }
            None => task.offer = Some(OfferModel::new(kind.ends(), holder.is_some())),
        }
        if let Some(offer) = &mut task.offer {
            if holder.is_none() {
                offer.wait_again();
            } else if !offer.is_movable() {
                (offer.deadline, offer.overdue) = (None, false);
            }
            offer.pending = holder.is_some();
        }
        if holder.is_none() {
            task.departed = None;
        }
        feed.offer(name, kind, WEIGHT, self.now)
    }

    fn attach(
        &mut self,
        on_new_connection: bool,
        which: usize,
        feed: &mut DeliverOne,
    ) -> Vec<ListenerDelivery> {
        self.last_listener += 1;
        let id = self.last_listener;
        let known = self.open.iter().nth(which % self.open.len().max(1)).copied();
        // Several streams of one connection are in `streams`.
        let is_free = |on: &u64| self.listeners.values().all(|listener| listener.connection != *on);
        let known = known.filter(|on| !on_new_connection && is_free(on));
        let connection = known.unwrap_or_else(|| {
            self.last_connection += 1;
            self.last_connection
        });
        self.open.insert(connection);
        let finds_tasks = self.tasks.values().any(TaskModel::waits);
        let departed = self.tasks.values_mut();
        for task in departed.filter(|task| task.departed == Some(connection)) {
            (task.departed, task.holder) = (None, Some(id));
            task.sent.insert(id, 0);
        }
        self.listeners.insert(
            id,
            ListenerModel {
                connection,
                claims: false,
                is_stuck: false,
                has_acted: false,
                found_tasks_at: finds_tasks.then_some(self.now),
                first: None,
                allowance: 1,
                is_outdone: false,
                unread: VecDeque::new(),
            },
        );
        feed.attach(id, Some(connection), true, self.now)
    }

    fn detach(&mut self, id: ListenerId, has_ended: bool, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        if has_ended {
            self.agent_ends(id, feed);
        }
        let connection = self.listeners[&id].connection;
        let successor_on = Some(connection).filter(|on| self.open.contains(on) && !has_ended);
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names {
            let generation = self.tasks[&name].generation;
            let has_read = self.unread_by(id, generation) == 0;
            let task = self.tasks.get_mut(&name).unwrap();
            if task.sent.remove(&id).is_none() {
                continue;
            }
            let was_holder = task.holder == Some(id);
            if let Some(offer) = &mut task.offer
                && !offer.declined.contains(&id)
                && !(was_holder && offer.reserved)
            {
                offer.never_acceptable = false;
            }
            if was_holder {
                task.holder = None;
                let is_answered = task
                    .offer
                    .as_ref()
                    .is_some_and(|offer| offer.own && has_read && !offer.pending && successor_on.is_some());
                if task.offer.as_ref().is_none_or(|offer| offer.reserved) {
                    (task.offer, task.departed) = (None, successor_on);
                } else if is_answered {
                    task.departed = successor_on;
                } else if let Some(offer) = &mut task.offer {
                    offer.wait_again();
                }
            }
            self.forget_if_done(&name);
        }
        self.ends.retain(|(told, _)| *told != id);
        self.listeners.remove(&id);
        feed.detach(id, self.now)
    }

    /// What the agent had read and had not reported on counts its end, and nothing else does.
    fn agent_ends(&mut self, id: ListenerId, feed: &mut DeliverOne) {
        let mut counted = BTreeSet::new();
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names {
            let has_read = self.unread_by(id, self.tasks[&name].generation) == 0;
            let task = self.tasks.get_mut(&name).unwrap();
            let Some(offer) = task.offer.as_mut().filter(|_| task.sent.contains_key(&id)) else {
                continue;
            };
            let had_it = if offer.reserved {
                task.holder == Some(id)
            } else {
                has_read
            };
            if had_it
                && !offer.declined.contains(&id)
                && let Some(ends) = &mut offer.ends
            {
                *ends += 1;
                offer.reserved = false;
                counted.insert(name);
            }
        }
        let ended = feed.agent_ended(id, 0);
        assert_eq!(ended.len(), counted.len(), "each counts once");
        assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), counted);
    }

    fn close(&mut self, connection: u64, feed: &mut DeliverOne) {
        self.open.remove(&connection);
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names {
            let task = self.tasks.get_mut(&name).unwrap();
            if task.departed == Some(connection) {
                task.departed = None;
                if let Some(offer) = &mut task.offer {
                    offer.wait_again();
                }
            }
            self.forget_if_done(&name);
        }
        feed.on_connection_closed(connection);
    }

    fn credit(&mut self, id: ListenerId, count: usize, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        let listener = self.listeners.get_mut(&id).unwrap();
        let read: Vec<_> = listener
            .unread
            .drain(..count.min(listener.unread.len()))
            .collect();
        listener.is_stuck = false;
        let claims = listener.claims;
        for (generation, _) in read.into_iter().flatten() {
            let has_read = self.unread_by(id, generation) == 0;
            let task = self.tasks.values_mut().find(|task| task.generation == generation);
            if let Some(task) = task.filter(|task| has_read && task.holder == Some(id))
                && let Some(offer) = task.offer.as_mut().filter(|offer| offer.is_movable())
            {
                offer.overdue = false;
                offer.read_at = Some(self.now);
                offer.deadline = claims.then_some(self.now + CLAIM_WITHIN);
            }
        }
        feed.credit(id, count, self.now)
    }

    fn decline(&mut self, id: ListenerId, name: &str, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        let Some(task) = self.tasks.get_mut(name).filter(|task| task.departed.is_none()) else {
            return Vec::new();
        };
        let was_sent = task.sent.contains_key(&id);
        let Some(offer) = task.offer.as_mut().filter(|offer| !offer.reserved && was_sent) else {
            return Vec::new();
        };
        if !offer.declined.insert(id) {
            return Vec::new();
        }
        let is_held = task.holder.is_some_and(|holder| holder != id);
        if !is_held {
            task.holder = None;
            (offer.own, offer.overdue, offer.pending) = (false, false, false);
            (offer.deadline, offer.read_at) = (None, None);
        }
        match feed.decline(id, name, "too large", self.now) {
            DeclineOutcome::NotOffered => panic!("{name} is on offer"),
            DeclineOutcome::StillOffered => Vec::new(),
            DeclineOutcome::Reoffer => {
                assert!(!is_held);
                self.tasks
                    .get_mut(name)
                    .unwrap()
                    .offer
                    .as_mut()
                    .unwrap()
                    .wait_again();
                feed.offer_again(name, self.now)
            }
            DeclineOutcome::Undeliverable => {
                let (task, offer) = (&self.tasks[name], self.tasks[name].offer.as_ref().unwrap());
                assert!(!is_held && offer.never_acceptable);
                for (other, listener) in &self.listeners {
                    let may_take = !listener.is_stuck || task.sent.contains_key(other);
                    assert!(
                        offer.declined.contains(other) || !may_take,
                        "{other} may take {name}"
                    );
                }
                feed.withdraw(name);
                feed.on_task_ended(name);
                self.tasks.remove(name);
                Vec::new()
            }
        }
    }

    /// The agent, or its library, says that it works on a task. (The coordinator keeps others from it while the connection of
    /// the one that said so lives.)
    fn claim(&mut self, id: ListenerId, name: &str, automatic: bool, feed: &mut DeliverOne) {
        let connection = self.listeners[&id].connection;
        let Some(task) = self.tasks.get(name) else {
            return;
        };
        let claimed_by = task.claimed_by.filter(|by| self.open.contains(by));
        if claimed_by.is_some_and(|by| by != connection) || !self.open.contains(&connection) {
            return;
        }
        let there = self
            .listeners
            .iter()
            .filter(|(_, other)| other.connection == connection);
        let there: Vec<ListenerId> = there.map(|(other, _)| *other).collect();
        let reserver = there.iter().copied().find(|other| {
            let offer = task.offer.as_ref();
            let is_counted = offer.is_some_and(|offer| {
                offer.ends.is_some() && (!offer.reserved || task.holder == Some(*other))
            });
            automatic && is_counted && task.sent.contains_key(other)
        });
        let reserved = automatic && there.iter().any(|other| feed.reserve_for(*other, name));
        assert_eq!(reserved, reserver.is_some(), "{name} is claimed");
        self.act(name, &there);
        if !reserved {
            feed.withdraw(name);
            self.tasks.get_mut(name).unwrap().offer = None;
            self.forget_if_done(name);
        }
        feed.on_claimed(name, connection);
        for other in &there {
            self.begin_to_claim(*other, name);
        }
        self.insert(name);
        let task = self.tasks.get_mut(name).unwrap();
        task.claimed_by = Some(connection);
        if task.holder.is_none_or(|holder| !there.contains(&holder)) || reserver.is_some() {
            let sent = there.iter().find(|other| task.sent.contains_key(other));
            let claimer = reserver.or(sent.copied()).unwrap_or(there[0]);
            if task.holder != Some(claimer) {
                let sent = *task.sent.entry(claimer).or_insert(0);
                (task.holder, task.departed) = (Some(claimer), None);
                if let Some(offer) = &mut task.offer {
                    (offer.own, offer.pending) = (false, false);
                }
                let is_behind = sent != task.version && (sent > 0 || task.offer.is_some());
                if is_behind {
                    let offer = task.offer.get_or_insert_with(|| OfferModel::new(None, true));
                    offer.pending = true;
                }
            }
        }
        if let Some(offer) = &mut task.offer {
            (offer.deadline, offer.overdue) = (None, false);
            if reserved {
                (offer.reserved, offer.never_acceptable) = (true, false);
            }
        }
    }

    /// The agent gives back what it has claimed: it is on offer to the others.
    fn give_back(&mut self, id: ListenerId, name: &str, feed: &mut DeliverOne) -> Vec<ListenerDelivery> {
        let connection = self.listeners[&id].connection;
        let there = self
            .listeners
            .iter()
            .filter(|(_, other)| other.connection == connection);
        let there: Vec<ListenerId> = there.map(|(other, _)| *other).collect();
        let claimed = |task: &&mut TaskModel| task.claimed_by == Some(connection);
        let Some(task) = self.tasks.get_mut(name).filter(claimed) else {
            return Vec::new();
        };
        let before = task.offer.take();
        let ends = before.as_ref().and_then(|offer| offer.ends).unwrap_or_default();
        let mut offer = OfferModel::new(Some(ends), false);
        (offer.never_sent, offer.never_acceptable) = (false, false);
        offer.declined = before.map(|offer| offer.declined).unwrap_or_default();
        offer.declined.extend(&there);
        task.offer = Some(offer);
        (task.holder, task.departed, task.claimed_by) = (None, None, None);
        task.version += 1;
        let until = self.now + GIVE_BACK_PAUSE;
        self.given_back.push_back((until, task.generation, there.clone()));
        feed.give_back(name, &there, OfferKind::Again { ends }, WEIGHT, self.now)
    }

    fn end_give_back_pauses(&mut self) {
        while let Some((_, generation, givers)) = self.given_back.pop_front_if(|(at, ..)| *at <= self.now) {
            let task = self.tasks.values_mut().find(|task| task.generation == generation);
            if let Some(offer) = task.and_then(|task| task.offer.as_mut()) {
                offer.declined.retain(|id| !givers.contains(id));
            }
        }
    }

    /// What the listener had read before its connection's first claim is to be claimed too.
    fn begin_to_claim(&mut self, id: ListenerId, claimed: &str) {
        let listener = self.listeners.get_mut(&id).unwrap();
        if std::mem::replace(&mut listener.claims, true) {
            return;
        }
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names.iter().filter(|name| *name != claimed) {
            let has_read = self.unread_by(id, self.tasks[name].generation) == 0;
            let task = self.tasks.get_mut(name).unwrap();
            if let Some(offer) = task.offer.as_mut().filter(|offer| offer.is_movable())
                && let Some(read_at) = offer.read_at
                && has_read
                && task.holder == Some(id)
            {
                offer.deadline = Some(read_at + CLAIM_WITHIN);
            }
        }
    }

    fn deliver(
        &mut self,
        deliveries: Vec<ListenerDelivery>,
        draining: Option<ListenerId>,
        feed: &DeliverOne,
    ) -> Result<(), TestCaseError> {
        let now_draining = feed.assignments.draining();
        let names: BTreeSet<&str> = deliveries.iter().map(|delivery| delivery.task.as_str()).collect();
        // A task may go to a listener that has it on its stream without a delivery; then nothing is known of the order.
        let is_silent = |name: &String, task: &TaskModel| {
            !names.contains(name.as_str()) && task.holder != holder_in(feed, name)
        };
        // A task that is taken from a listener lets that one have another, after those whose turn it is. One that gets a task
        // alone may have been kept free for that in this step.
        let is_alone = |id: &ListenerId| {
            let own = deliveries.iter().filter(|delivery| delivery.listener == *id);
            let mut offers = own.filter_map(|delivery| self.tasks.get(&delivery.task)?.offer.as_ref());
            offers.any(OfferModel::is_exclusive)
        };
        let free = self.listeners.keys().copied();
        let free = free.filter(|id| self.may_have_more(*id) && !is_alone(id));
        let free: BTreeSet<ListenerId> = free.collect();
        let has_silent = self.tasks.iter().any(|(name, task)| is_silent(name, task));
        for ListenerDelivery {
            listener: id,
            task: name,
            exclusive,
        } in deliveries
        {
            prop_assert!(
                self.listeners.contains_key(&id),
                "{name} went to {id}, who does not listen"
            );
            prop_assert!(self.listeners[&id].has_room(), "{id} has no room for {name}");
            if self.ends.remove(&(id, name.clone())) {
                prop_assert!(!exclusive);
                self.listeners.get_mut(&id).unwrap().unread.push_back(None);
                continue;
            }
            let task = self.tasks.get(&name);
            prop_assert!(
                task.is_some_and(|task| task.offer.is_some()),
                "{name} is not on offer"
            );
            let task = task.unwrap();
            let offer = task.offer.as_ref().unwrap();
            prop_assert_eq!(exclusive, offer.never_sent, "{} to {}", &name, id);
            let is_follow_up = task.holder == Some(id);
            if is_follow_up {
                prop_assert!(offer.pending, "{name} came to {id} once more");
            } else {
                let may_move = task.holder.is_none() || offer.overdue && !task.sent.contains_key(&id);
                prop_assert!(may_move, "{name} went from {:?} to {id}", task.holder);
                let is_forced = offer.is_exclusive() && draining == Some(id);
                let draining_still = draining.filter(|_| draining == now_draining);
                let is_for_it = self.is_acceptable(id, offer, draining_still)
                    && (has_silent || offer.is_exclusive() || self.is_next(id, draining_still));
                prop_assert!(
                    is_for_it || is_forced,
                    "{name} went to {id}, which cannot be given it"
                );
                let better = free.iter().find(|other| {
                    let is_new = !task.sent.contains_key(other);
                    let is_eligible = self.is_eligible(**other, offer, draining)
                        && self.is_eligible(**other, offer, now_draining);
                    let is_less_busy = (self.load(**other), **other) < (self.load(id), id);
                    let is_better = is_new && (is_less_busy || task.sent.contains_key(&id));
                    is_eligible && is_better && **other != id
                });
                prop_assert!(
                    has_silent || is_forced || better.is_none(),
                    "{name} went to {id}, and {better:?} has less to do"
                );
            }
            let (generation, version) = (task.generation, task.version);
            let was_unread = self.unread_by(id, generation) > 0;
            self.last_place += 1;
            let task = self.tasks.get_mut(&name).unwrap();
            task.sent.insert(id, version);
            task.places.entry(id).or_insert(self.last_place);
            task.holder = Some(id);
            let offer = task.offer.as_mut().unwrap();
            (offer.never_sent, offer.pending) = (false, false);
            if !is_follow_up {
                (offer.own, offer.overdue, offer.read_at, offer.deadline) = (false, false, None, None);
            }
            if offer.is_movable() && !offer.overdue && !(was_unread && offer.deadline.is_some()) {
                offer.deadline = Some(self.now + TIMEOUT);
            }
            let listener = self.listeners.get_mut(&id).unwrap();
            listener.first.get_or_insert((self.last_place, self.now));
            listener.unread.push_back(Some((generation, version)));
        }
        self.follow_silent_moves(feed)
    }

    /// Tasks whose new holder has them on its stream.
    fn follow_silent_moves(&mut self, feed: &DeliverOne) -> Result<(), TestCaseError> {
        let names: Vec<String> = self.tasks.keys().cloned().collect();
        for name in names {
            let (task, holder) = (&self.tasks[&name], holder_in(feed, &name));
            if task.holder == holder {
                continue;
            }
            let offer = task.offer.as_ref();
            prop_assert!(
                task.holder.is_none() && offer.is_some() && task.departed.is_none(),
                "{name} went from {:?} to {holder:?}",
                task.holder
            );
            let has_it = holder
                .is_some_and(|id| self.has_on_stream(id, task) && !offer.unwrap().declined.contains(&id));
            prop_assert!(has_it, "{holder:?} was never sent {name}");
            let task = self.tasks.get_mut(&name).unwrap();
            task.holder = holder;
            task.offer.as_mut().unwrap().deadline = Some(self.now + TIMEOUT);
        }
        Ok(())
    }

    fn check(&self, feed: &DeliverOne) -> Result<(), TestCaseError> {
        prop_assert_eq!(feed.idle_since().is_none(), !self.listeners.is_empty());
        prop_assert_eq!(feed.assignments.known_tasks(), self.tasks.len());
        let draining = feed.assignments.draining();
        for (name, task) in &self.tasks {
            prop_assert_eq!(
                feed.is_on_offer(name),
                task.offer.is_some(),
                "{} is on offer",
                name
            );
            let Some(offer) = &task.offer else {
                continue;
            };
            prop_assert_eq!(feed.is_held(name), task.holder.is_some(), "{} is held", name);
            prop_assert_eq!(feed.is_reserved(name), offer.reserved, "{} is reserved", name);
            let has_room = |id: &ListenerId| self.listeners[id].has_room();
            prop_assert!(
                !offer.pending || task.holder.is_none_or(|holder| !has_room(&holder)),
                "more of {name} waits for nothing"
            );
            if task.departed.is_some() || task.holder.is_some() && !offer.overdue {
                continue;
            }
            let takers = self.listeners.keys().find(|id| {
                let is_other = task.holder.is_none() || !task.sent.contains_key(id);
                let has_it = task.holder.is_none() && self.has_on_stream(**id, task);
                let has_it = has_it && !offer.declined.contains(id);
                is_other && (has_it || self.is_eligible(**id, offer, draining))
            });
            prop_assert!(takers.is_none(), "{name} waits, and {takers:?} can be given it");
        }
        for (id, ended) in &self.ends {
            prop_assert!(
                !self.listeners[id].has_room(),
                "{id} is not told that {ended} has ended"
            );
        }
        for (id, listener) in feed.assignments.listeners() {
            prop_assert_eq!(listener.in_hand, self.load(id), "tasks of {}", id);
            prop_assert_eq!(listener.unreported, self.unreported(id).count());
        }
        let deadlines = self
            .tasks
            .values()
            .filter_map(|task| task.offer.as_ref()?.deadline);
        prop_assert_eq!(feed.deadlines.len(), deadlines.count());
        prop_assert_eq!(feed.end_notices.len(), self.ends.len());
        Ok(())
    }

    fn step(&mut self, event: &Event, feed: &mut DeliverOne) -> Result<(), TestCaseError> {
        let draining = feed.assignments.draining();
        let mut deliveries = self.happen(event, feed);
        deliveries.extend(feed.end_turn(self.now));
        self.deliver(deliveries, draining, feed)?;
        self.check(feed)
    }
}

fn holder_in(feed: &DeliverOne, task: &str) -> Option<ListenerId> {
    let key = feed.assignments.key(task)?;
    feed.assignments.task(key)?.holder
}

proptest! {
    #[test]
    fn each_task_has_one_holder_which_is_the_least_busy(events in vec(event(), 0..300)) {
        let mut feed = new_dispatcher(Some(CLAIM_WITHIN));
        let mut model = Model::default();
        for event in &events {
            model.step(event, &mut feed)?;
        }
        while !model.listeners.is_empty() {
            model.step(&Event::Detach { which: 0, has_ended: true }, &mut feed)?;
        }
        while !model.open.is_empty() {
            model.step(&Event::Close { which: 0 }, &mut feed)?;
        }
        for task in 0..24 {
            model.step(&Event::Finish { task }, &mut feed)?;
        }
        prop_assert_eq!(feed.assignments.known_tasks(), 0);
        prop_assert_eq!(feed.connections.len() + feed.deadlines.len() + feed.end_notices.len(), 0);
        prop_assert!(feed.waiting.is_empty());
    }
}
