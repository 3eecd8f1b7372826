//! Who listens for the tasks of this node's agents, which task goes to whom, who has claimed what. Each agent has a queue of
//! its own.

mod claim_debounce;
mod claims;
mod closed_connections;
mod dispatcher;
mod task_times;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

#[cfg(test)]
pub(crate) use self::dispatcher::CREDIT_BYTES;
use self::{
    claim_debounce::ClaimDebounce, claims::TaskClaims, closed_connections::ClosedConnections,
    dispatcher::Dispatcher, task_times::TaskTimes,
};
pub(crate) use self::{
    claims::LostClaim,
    dispatcher::{DeclineOutcome, ListenerDelivery, OfferKind},
};
use super::{
    clock::Now,
    transaction::{HandOverLimits, ListenerId},
};

/// A listener, and for whom it listens.
struct ListenerSeat {
    /// Its gRPC connection, where it has one.
    connection: Option<u64>,
    /// The agent; None: the primary one.
    agent: Option<Arc<str>>,
}

/// A task that the agent which has it gives back.
pub(crate) struct GivenBackTask<'a> {
    pub(crate) task: &'a str,
    /// The agent's connection.
    pub(crate) connection: u64,
    pub(crate) as_what: OfferKind,
    /// Bytes that the task takes in memory.
    pub(crate) weight: usize,
}

/// See the module's text. An agent that is not the primary one is called by its name, the primary one by none.
pub(crate) struct Dispatch {
    primary: Dispatcher,
    others: BTreeMap<Arc<str>, Dispatcher>,
    listeners: HashMap<ListenerId, ListenerSeat>,
    claims: TaskClaims,
    closed: ClosedConnections,
    /// Tasks that ended in this turn and whose claimers' connections are gone: their agents may be back on other ones.
    ended_without_claimer: HashSet<String>,
    /// Claims that their originators have not been told of yet.
    unsent_claims: ClaimDebounce,
    task_times: TaskTimes,
    /// When this run began.
    began: Duration,
    limits: HandOverLimits,
}

impl Dispatch {
    /// Nobody listens since `now`.
    pub(crate) fn new(now: Now, limits: HandOverLimits) -> Self {
        Self {
            primary: Dispatcher::new(now.mono, &limits),
            others: BTreeMap::new(),
            listeners: HashMap::new(),
            claims: TaskClaims::default(),
            closed: ClosedConnections::default(),
            ended_without_claimer: HashSet::new(),
            unsent_claims: ClaimDebounce::default(),
            task_times: TaskTimes::default(),
            began: now.mono,
            limits,
        }
    }

    fn queue(&self, agent: Option<&str>) -> Option<&Dispatcher> {
        match agent {
            Some(name) => self.others.get(name),
            None => Some(&self.primary),
        }
    }

    /// The queue of an agent, if it has one yet.
    fn known_queue_mut(&mut self, agent: Option<&str>) -> Option<&mut Dispatcher> {
        match agent {
            Some(name) => self.others.get_mut(name),
            None => Some(&mut self.primary),
        }
    }

    fn queue_mut(&mut self, agent: Option<&str>) -> &mut Dispatcher {
        let Some(name) = agent else {
            return &mut self.primary;
        };
        if !self.others.contains_key(name) {
            let queue = Dispatcher::new(self.began, &self.limits);
            self.others.insert(Arc::from(name), queue);
        }
        self.others.get_mut(name).unwrap_or(&mut self.primary)
    }

    fn queue_of_listener(&mut self, listener: ListenerId) -> &mut Dispatcher {
        let agent = self.agent_of_listener(listener);
        self.queue_mut(agent.as_deref())
    }

    fn queues_mut(&mut self) -> impl Iterator<Item = &mut Dispatcher> {
        std::iter::once(&mut self.primary).chain(self.others.values_mut())
    }

    /// Whether anybody listens, for any agent.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// How many listen for this agent.
    pub(crate) fn listeners_of(&self, agent: Option<&str>) -> usize {
        self.queue(agent).map_or(0, Dispatcher::listener_count)
    }

    /// Whether anybody listens for this agent.
    pub(crate) fn has_listeners_of(&self, agent: Option<&str>) -> bool {
        self.listeners_of(agent) > 0
    }

    /// The agents for which nobody has listened for longer than `grace`.
    pub(crate) fn idle_agents(&self, now: Now, grace: Duration) -> Vec<Option<Arc<str>>> {
        let is_idle = |queue: &Dispatcher| {
            let since = queue.idle_since();
            since.is_some_and(|since| now.mono.saturating_sub(since) > grace)
        };
        let others = self.others.iter().filter(|(_, queue)| is_idle(queue));
        let others = others.map(|(name, _)| Some(Arc::clone(name)));
        let primary = is_idle(&self.primary).then_some(None);
        primary.into_iter().chain(others).collect()
    }

    /// Whether this one listens.
    pub(crate) fn is_listening(&self, listener: ListenerId) -> bool {
        self.listeners.contains_key(&listener)
    }

    /// For whom a listener listens, as it is written with tasks.
    pub(crate) fn agent_of_listener(&self, listener: ListenerId) -> Option<Arc<str>> {
        self.listeners.get(&listener)?.agent.clone()
    }

    /// An agent begins to listen. `wants_ends`: it is told that tasks have ended.
    pub(crate) fn attach(
        &mut self,
        now: Now,
        listener: ListenerId,
        agent: Option<Arc<str>>,
        connection: Option<u64>,
        wants_ends: bool,
    ) -> Vec<ListenerDelivery> {
        let deliveries = self
            .queue_mut(agent.as_deref())
            .attach(listener, connection, wants_ends, now.mono);
        self.listeners
            .insert(listener, ListenerSeat { connection, agent });
        deliveries
    }

    /// An agent does not listen any more.
    pub(crate) fn detach(&mut self, now: Now, listener: ListenerId) -> Vec<ListenerDelivery> {
        let deliveries = self.queue_of_listener(listener).detach(listener, now.mono);
        self.listeners.remove(&listener);
        deliveries
    }

    /// The agent that listens as `listener` has ended. The tasks that it had and had not reported on, each of which counts
    /// it. `read` tasks were sent to it that [`Dispatch::credit`] was not told of.
    pub(crate) fn agent_ended(&mut self, listener: ListenerId, read: usize) -> Vec<String> {
        self.queue_of_listener(listener).agent_ended(listener, read)
    }

    /// A listener has read `count` tasks.
    pub(crate) fn credit(&mut self, now: Now, listener: ListenerId, count: usize) -> Vec<ListenerDelivery> {
        self.queue_of_listener(listener).credit(listener, count, now.mono)
    }

    /// A listener's client cannot take a task.
    pub(crate) fn decline(
        &mut self,
        now: Now,
        listener: ListenerId,
        task: &str,
        reason: &str,
    ) -> DeclineOutcome {
        self.queue_of_listener(listener)
            .decline(listener, task, reason, now.mono)
    }

    /// Tasks that nobody who listens can take, for `grace` or longer, and why.
    pub(crate) fn undeliverable(&self, now: Now, grace: Duration) -> Vec<(String, String)> {
        let all = std::iter::once(&self.primary).chain(self.others.values());
        all.flat_map(|queue| queue.undeliverable(now.mono, grace))
            .collect()
    }

    /// Offers a task of `weight` bytes to the listeners of its agent.
    pub(crate) fn offer(
        &mut self,
        now: Now,
        agent: Option<&str>,
        task: &str,
        as_what: OfferKind,
        weight: usize,
    ) -> Vec<ListenerDelivery> {
        if as_what == OfferKind::Ended && self.ended_without_claimer.remove(task) {
            return self.queue_mut(agent).tell_end_to_all(task, weight, now.mono);
        }
        self.queue_mut(agent).offer(task, as_what, weight, now.mono)
    }

    /// Offers a task again that is on offer.
    pub(crate) fn offer_again(&mut self, now: Now, agent: Option<&str>, task: &str) -> Vec<ListenerDelivery> {
        self.queue_mut(agent).offer_again(task, now.mono)
    }

    /// An agent acted on a task, or it is gone: it is not offered any more.
    pub(crate) fn withdraw(&mut self, agent: Option<&str>, task: &str) {
        self.queue_mut(agent).withdraw(task);
    }

    /// An agent that is not the primary one has another name.
    pub(crate) fn rename(&mut self, from: &str, to: &Arc<str>) {
        if let Some(queue) = self.others.remove(from) {
            self.others.insert(Arc::clone(to), queue);
        }
        for seat in self.listeners.values_mut() {
            if seat.agent.as_deref() == Some(from) {
                seat.agent = Some(Arc::clone(to));
            }
        }
    }

    /// An agent that is not the primary one is not registered any more, and nobody listens for it.
    pub(crate) fn forget(&mut self, agent: &str) {
        self.others.remove(agent);
    }

    /// At the end of a turn: what can be handed out since a task was reported on, or is gone.
    pub(crate) fn due_deliveries(&mut self, now: Now) -> Vec<ListenerDelivery> {
        self.ended_without_claimer.clear();
        self.queues_mut()
            .flat_map(|queue| queue.end_turn(now.mono))
            .collect()
    }

    /// Looks after tasks that are handed out alone, and listeners that do not take what they were sent.
    pub(crate) fn tick(&mut self, now: Now, grace: Duration) -> Vec<ListenerDelivery> {
        self.queues_mut()
            .flat_map(|queue| queue.tick(now.mono, grace))
            .collect()
    }

    /// Looks after what time does in moments: new listeners may have more.
    pub(crate) fn tick_trials(&mut self, now: Now) {
        self.queues_mut().for_each(|queue| queue.tick_trials(now.mono));
    }

    /// An agent acted, whether it listens or not.
    pub(crate) fn note_activity(&mut self, now: Now, agent: Option<&str>) {
        self.queue_mut(agent).note_activity(now.mono);
    }

    /// Whether a task's only holder has claimed it without a word from the agent.
    pub(crate) fn is_reserved(&self, agent: Option<&str>, task: &str) -> bool {
        self.queue(agent).is_some_and(|queue| queue.is_reserved(task))
    }

    /// The listeners for this agent on this connection.
    fn listeners_on(&self, connection: u64, agent: Option<&str>) -> Vec<ListenerId> {
        let there = self
            .listeners
            .iter()
            .filter(|(_, seat)| seat.connection == Some(connection));
        let there = there.filter(|(_, seat)| seat.agent.as_deref() == agent);
        let mut listeners: Vec<ListenerId> = there.map(|(listener, _)| *listener).collect();
        listeners.sort_unstable();
        listeners
    }

    /// Whether the task was handed to this connection alone.
    pub(crate) fn is_held_on(&self, agent: Option<&str>, task: &str, connection: u64) -> bool {
        let listeners = self.listeners_on(connection, agent);
        let queue = self.queue(agent);
        queue.is_some_and(|queue| listeners.iter().any(|listener| queue.is_held_by(*listener, task)))
    }

    /// The agent that has a task gives it back: its listeners get it after a pause at the earliest.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        agent: Option<&str>,
        given_back: &GivenBackTask<'_>,
    ) -> Vec<ListenerDelivery> {
        self.claims.remove(given_back.task);
        let givers = self.listeners_on(given_back.connection, agent);
        let (as_what, weight) = (given_back.as_what, given_back.weight);
        let queue = self.queue_mut(agent);
        queue.give_back(given_back.task, &givers, as_what, weight, now.mono)
    }

    /// Whether a listener on this connection has the task, and keeps it although it was claimed.
    pub(crate) fn reserve_for(&mut self, connection: u64, agent: Option<&str>, task: &str) -> bool {
        let listeners = self.listeners_on(connection, agent);
        let queue = self.queue_mut(agent);
        listeners
            .into_iter()
            .any(|listener| queue.reserve_for(listener, task))
    }

    /// An agent on this connection claims the task.
    pub(crate) fn claim(&mut self, agent: Option<&str>, task: &str, connection: u64) {
        self.claims.claim(task, connection, false);
        if let Some(queue) = self.known_queue_mut(agent) {
            queue.on_claimed(task, connection);
        }
    }

    /// The library of an agent on this connection claims the task before the agent has said anything. A claim that the
    /// agent made itself stays one: `was_claimed` says that the connection had claimed it before.
    pub(crate) fn claim_automatically(
        &mut self,
        agent: Option<&str>,
        task: &str,
        connection: u64,
        was_claimed: bool,
    ) {
        if !was_claimed || self.claims.is_automatic(task) {
            let is_automatic = self.is_reserved(agent, task);
            self.claims.claim(task, connection, is_automatic);
        }
        if let Some(queue) = self.known_queue_mut(agent) {
            queue.on_claimed(task, connection);
        }
    }

    /// An agent ends the task.
    pub(crate) fn on_end_reported(&mut self, agent: Option<&str>, task: &str) {
        if let Some(queue) = self.known_queue_mut(agent) {
            queue.on_end_reported(task);
        }
    }

    /// Whether this connection, which lives, has claimed the task, now or before it was answered.
    pub(crate) fn is_claimed_by(&self, task: &str, connection: u64) -> bool {
        self.claims.is_claimed_by(task, connection)
    }

    /// Whether another connection that lives has claimed the task.
    pub(crate) fn is_claimed_by_other(&self, task: &str, connection: u64) -> bool {
        self.claims.is_claimed_by_other(task, connection)
    }

    /// Whether the last claim of the task was made by an agent's library.
    pub(crate) fn is_claimed_automatically(&self, task: &str) -> bool {
        self.claims.is_automatic(task)
    }

    /// Whether this connection was closed a short time ago.
    pub(crate) fn is_closed(&self, connection: u64) -> bool {
        self.closed.contains(connection)
    }

    /// A gRPC connection is gone: what it claimed may be taken over.
    pub(crate) fn on_connection_closed(&mut self, now: Now, connection: u64) {
        self.closed.push(connection);
        self.claims.on_connection_closed(now.mono, connection);
        for queue in self.queues_mut() {
            queue.on_connection_closed(connection);
        }
    }

    /// Agents listen again: tasks for which `is_unclaimed` holds have their time to be taken over from now on.
    pub(crate) fn restart_claim_grace(&mut self, now: Now, is_unclaimed: impl Fn(&str) -> bool) {
        self.claims.restart_grace(now.mono, is_unclaimed);
    }

    /// After a start: these tasks were claimed, and by whom is not known any more.
    pub(crate) fn set_lost_claims(&mut self, now: Now, lost: impl Iterator<Item = LostClaim>) {
        self.claims.set_lost(now.mono, lost);
    }

    /// The agent that had claimed the task through its library has ended.
    pub(crate) fn on_automatic_claim_lost(&mut self, now: Now, task: &str) {
        self.claims.on_automatic_lost(now.mono, task);
    }

    /// The task is not claimed any more: the agent whose library had claimed it has ended.
    pub(crate) fn release_claim(&mut self, now: Now, task: &str) {
        self.claims.release(now.mono, task);
    }

    /// Tasks whose claimer's connection has been gone for longer than `grace`, in no order.
    pub(crate) fn lost_claims(&self, now: Now, grace: Duration) -> impl Iterator<Item = &str> {
        self.claims.lost(now.mono, grace)
    }

    /// Tasks that agents' libraries had claimed and whose agents have ended, sorted.
    pub(crate) fn lost_automatic_claims(&self) -> Vec<String> {
        self.claims.lost_automatic()
    }

    /// Claims of agents' libraries whose tasks are not on offer any more are ordinary ones. `agent_of`: whose task it is.
    pub(crate) fn confirm_claims(&mut self, agent_of: impl Fn(&str) -> Option<Arc<str>>) {
        let (primary, others) = (&self.primary, &self.others);
        self.claims.confirm(|task| match agent_of(task) {
            Some(agent) => others.get(&agent).is_some_and(|queue| queue.is_on_offer(task)),
            None => primary.is_on_offer(task),
        });
    }

    /// The task has ended.
    pub(crate) fn on_task_ended(&mut self, agent: Option<&str>, task: &str) {
        if let Some(queue) = self.known_queue_mut(agent) {
            queue.on_task_ended(task);
        }
        if self.claims.is_lost(task) {
            self.ended_without_claimer.insert(task.to_owned());
        }
        self.claims.remove(task);
        self.unsent_claims.on_update_sent(task);
    }

    /// A task was claimed, and its originator is told of that a little later.
    pub(crate) fn delay_claim_update(&mut self, now: Now, task: &str) {
        self.unsent_claims.on_claimed(task, now.mono);
    }

    /// The originator of a task is told something. Whether it did not know of the claim.
    pub(crate) fn on_update_sent(&mut self, task: &str) -> bool {
        self.unsent_claims.on_update_sent(task)
    }

    /// Tasks of whose claim their originators are to be told now.
    pub(crate) fn due_claim_updates(&mut self, now: Now) -> Vec<String> {
        self.unsent_claims.due(now.mono)
    }

    /// Whether a claim is to be told of in the next moments, or a listener may have more.
    pub(crate) fn needs_clock(&self) -> bool {
        let mut queues = std::iter::once(&self.primary).chain(self.others.values());
        self.unsent_claims.needs_clock() || queues.any(Dispatcher::needs_clock)
    }

    /// Tasks that agents have had for longer than `limit`. `tasks`: all that may be with agents, whose each is, and whether it
    /// is claimed.
    pub(crate) fn overlong<'a>(
        &mut self,
        now: Now,
        limit: Duration,
        tasks: impl Iterator<Item = (&'a str, Option<&'a str>, bool)>,
    ) -> Vec<String> {
        let (primary, others) = (&self.primary, &self.others);
        let is_held = |id: &str, agent: Option<&str>| match agent {
            Some(agent) => others.get(agent).is_some_and(|queue| queue.is_held(id)),
            None => primary.is_held(id),
        };
        let with_agents = tasks.filter(|(id, agent, is_claimed)| *is_claimed || is_held(id, *agent));
        let with_agents = with_agents.map(|(id, _, _)| id);
        self.task_times.overdue(now.mono, limit, with_agents)
    }
}
