//! The agents of this node: which of them listens for tasks, which task goes to which of them, which has claimed what.

mod claim_debounce;
mod claims;
mod dispatcher;
mod task_times;

use std::{collections::HashMap, time::Duration};

#[cfg(test)]
pub(crate) use self::dispatcher::CREDIT_BYTES;
use self::{
    claim_debounce::ClaimDebounce, claims::TaskClaims, dispatcher::Dispatcher, task_times::TaskTimes,
};
pub(crate) use self::{
    claims::LostClaim,
    dispatcher::{DeclineOutcome, ListenerDelivery, OfferKind},
};
use super::transaction::{ListenerId, Now};

/// See the module's text.
pub(crate) struct Dispatch {
    dispatcher: Dispatcher,
    /// The gRPC connection of each listener.
    listening_on: HashMap<ListenerId, u64>,
    claims: TaskClaims,
    /// Claims that their originators have not been told of yet.
    unsent_claims: ClaimDebounce,
    task_times: TaskTimes,
}

impl Dispatch {
    /// Nobody listens since `now`.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            dispatcher: Dispatcher::new(now.mono),
            listening_on: HashMap::new(),
            claims: TaskClaims::default(),
            unsent_claims: ClaimDebounce::default(),
            task_times: TaskTimes::default(),
        }
    }

    /// Whether an agent listens.
    pub(crate) fn has_listeners(&self) -> bool {
        self.dispatcher.idle_since().is_none()
    }

    /// Since when no agent listens; None: one does.
    pub(crate) fn idle_since(&self) -> Option<Duration> {
        self.dispatcher.idle_since()
    }

    /// A listener is on this gRPC connection.
    pub(crate) fn set_connection(&mut self, listener: ListenerId, connection: u64) {
        self.listening_on.insert(listener, connection);
    }

    /// An agent begins to listen.
    pub(crate) fn attach(&mut self, now: Now, listener: ListenerId) -> Vec<ListenerDelivery> {
        self.dispatcher.attach(listener, now.mono)
    }

    /// An agent does not listen any more.
    pub(crate) fn detach(&mut self, now: Now, listener: ListenerId) -> Vec<ListenerDelivery> {
        self.listening_on.remove(&listener);
        self.dispatcher.detach(listener, now.mono)
    }

    /// The agent that listens as `listener` has ended. The tasks that it had and had not reported on, each of which counts
    /// it. `read` tasks were sent to it that [`Dispatch::credit`] was not told of.
    pub(crate) fn agent_ended(&mut self, listener: ListenerId, read: usize) -> Vec<String> {
        self.dispatcher.agent_ended(listener, read)
    }

    /// A listener has read `count` tasks.
    pub(crate) fn credit(&mut self, listener: ListenerId, count: usize) -> Vec<ListenerDelivery> {
        self.dispatcher.credit(listener, count)
    }

    /// A listener's client cannot take a task.
    pub(crate) fn decline(
        &mut self,
        now: Now,
        listener: ListenerId,
        task: &str,
        reason: &str,
    ) -> DeclineOutcome {
        self.dispatcher.decline(listener, task, reason, now.mono)
    }

    /// Tasks that nobody who listens can take, for `grace` or longer, and why.
    pub(crate) fn undeliverable(&self, now: Now, grace: Duration) -> Vec<(String, String)> {
        self.dispatcher.undeliverable(now.mono, grace)
    }

    /// Offers a task of `weight` bytes to every listener.
    pub(crate) fn offer(&mut self, task: &str, as_what: OfferKind, weight: usize) -> Vec<ListenerDelivery> {
        self.dispatcher.offer(task, as_what, weight)
    }

    /// Offers a task again that is on offer.
    pub(crate) fn offer_again(&mut self, task: &str) -> Vec<ListenerDelivery> {
        self.dispatcher.offer_again(task)
    }

    /// An agent acted on a task, or it is gone: it is not offered any more.
    pub(crate) fn withdraw(&mut self, task: &str) {
        self.dispatcher.withdraw(task);
    }

    /// What can be handed out since a task was reported on, or is gone.
    pub(crate) fn due_deliveries(&mut self) -> Vec<ListenerDelivery> {
        if self.dispatcher.is_due() {
            self.dispatcher.dispatch()
        } else {
            Vec::new()
        }
    }

    /// Looks after tasks that are handed out alone.
    pub(crate) fn tick(&mut self, now: Now, grace: Duration) -> Vec<ListenerDelivery> {
        self.dispatcher.tick(now.mono, grace)
    }

    /// An agent acted, whether it listens or not.
    pub(crate) fn note_activity(&mut self, now: Now) {
        self.dispatcher.note_activity(now.mono);
    }

    /// Whether a task's only holder has claimed it without a word from the agent.
    pub(crate) fn is_reserved(&self, task: &str) -> bool {
        self.dispatcher.is_reserved(task)
    }

    /// Whether a listener on this connection has the task, and keeps it although it was claimed.
    pub(crate) fn reserve_for(&mut self, connection: u64, task: &str) -> bool {
        let there = self.listening_on.iter().filter(|(_, on)| **on == connection);
        let mut listeners: Vec<ListenerId> = there.map(|(listener, _)| *listener).collect();
        listeners.sort_unstable();
        listeners
            .into_iter()
            .any(|listener| self.dispatcher.reserve_for(listener, task))
    }

    /// An agent on this connection claims the task.
    pub(crate) fn claim(&mut self, task: &str, connection: u64) {
        self.claims.claim(task, connection, false);
    }

    /// The library of an agent on this connection claims the task before the agent has said anything. A claim that the
    /// agent made itself stays one: `was_claimed` says that the connection had claimed it before.
    pub(crate) fn claim_automatically(&mut self, task: &str, connection: u64, was_claimed: bool) {
        if !was_claimed || self.claims.is_automatic(task) {
            let is_automatic = self.dispatcher.is_reserved(task);
            self.claims.claim(task, connection, is_automatic);
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

    /// A gRPC connection is gone: what it claimed may be taken over.
    pub(crate) fn on_connection_closed(&mut self, now: Now, connection: u64) {
        self.claims.on_connection_closed(now.mono, connection);
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

    /// Claims of agents' libraries whose tasks are not on offer any more are ordinary ones.
    pub(crate) fn confirm_claims(&mut self) {
        let dispatcher = &self.dispatcher;
        self.claims.confirm(|task| dispatcher.is_on_offer(task));
    }

    /// The task has ended.
    pub(crate) fn on_task_ended(&mut self, task: &str) {
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

    /// Whether a claim is to be told of in the next moments.
    pub(crate) fn needs_clock(&self) -> bool {
        self.unsent_claims.needs_clock()
    }

    /// Tasks that agents have had for longer than `limit`. `tasks`: all that may be with agents, and whether each is
    /// claimed.
    pub(crate) fn overlong<'a>(
        &mut self,
        now: Now,
        limit: Duration,
        tasks: impl Iterator<Item = (&'a str, bool)>,
    ) -> Vec<String> {
        let is_with_agents = |(id, is_claimed): &(&str, bool)| *is_claimed || self.dispatcher.is_held(id);
        let with_agents = tasks.filter(is_with_agents).map(|(id, _)| id);
        self.task_times.overdue(now.mono, limit, with_agents)
    }
}
