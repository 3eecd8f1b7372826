//! Which client of the hub gets which task: registrations, proposals, sessions and what waits. PURE: time is an argument, and
//! what is to be done comes back as actions. Used by `hub`, which carries the actions out.
//!
//! Invariants: a task is in one session at most, or waits, or was told its end; a client has at most as many proposals and
//! sessions as it may have; tasks of one kind are given in the order in which they came, and kinds with waiting tasks take
//! turns.

mod giving;
mod ids;
mod lanes;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use agentanycast_proto::v1::Skill;

pub(crate) use ids::{Action, ClientId, Listener, OpenRefusal, ProposalAnswer, SessionId, TaskNumber, Told};
use lanes::{Lanes, Member};

use crate::capability::{CheckedRegistration, InputShape, Kind, Requirements};

/// How long a client that does not say that it is ready is waited for, once its Listen stands.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// How long a client may take to answer a proposal, and to open the stream of a session.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a client may be registered without a Listen.
const LISTEN_WITHIN: Duration = Duration::from_mins(1);

/// How long a task waits for a client where none has its kind: clients come back within 60 s (their longest back-off).
const CLIENT_WITHIN: Duration = Duration::from_mins(2);

/// Clients that are registered at a time, with and without a Listen.
const MOST_CLIENTS: usize = 20_000;

/// Different kinds of all clients: skills of the agent's card.
const MOST_KINDS: usize = 1000;

/// When something is, since the hub began.
pub(crate) type Time = Duration;

/// The clients, and what they do.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Proposals and sessions of one client at a time.
    slots: usize,
    clients: HashMap<ClientId, Client>,
    /// Clients without a Listen, in the order of their registration.
    unheard: BTreeMap<u64, ClientId>,
    tasks: HashMap<TaskNumber, FleetTask>,
    sessions: HashMap<SessionId, Session>,
    lanes: Lanes,
    timers: BTreeSet<(Time, Timer)>,
    /// Numbers of tasks, registrations, Listens and assignments.
    next_number: u64,
    actions: Vec<Action>,
}

#[derive(Debug)]
struct Client {
    name: String,
    number: u64,
    capabilities: Arc<Vec<(Kind, Arc<Requirements>)>>,
    listen: Option<Listen>,
    sessions: BTreeSet<SessionId>,
    /// It refused one for which it had no room while it had so many sessions.
    full_at: Option<usize>,
    /// When it was given something last.
    given: u64,
}

#[derive(Debug)]
struct Listen {
    number: u64,
    is_ready: bool,
}

#[derive(Debug)]
struct FleetTask {
    kind: Kind,
    order: u64,
    parts: Arc<[InputShape]>,
    retries: u32,
    session: Option<SessionId>,
    refused: BTreeSet<ClientId>,
    reason: Option<String>,
    waits_since: Time,
}

#[derive(Debug)]
struct Session {
    task: Option<TaskNumber>,
    client: ClientId,
    phase: Phase,
    /// When its client is late with what comes next.
    due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Proposed,
    Ready,
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Listens(ClientId),
    Ready(Listener),
    Answers(SessionId),
    Opens(SessionId),
    HasClient(TaskNumber),
}

/// How many there are of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FleetCounts {
    /// Clients with a Listen.
    pub(crate) clients: usize,
    /// Tasks that wait for a client.
    pub(crate) waiting: usize,
    /// Sessions that were proposed, are ready, and have a stream.
    pub(crate) proposed: usize,
    pub(crate) ready: usize,
    pub(crate) open: usize,
}

impl Fleet {
    /// Without clients; each may have so many proposals and sessions at a time.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: slots.max(1),
            clients: HashMap::new(),
            unheard: BTreeMap::new(),
            tasks: HashMap::new(),
            sessions: HashMap::new(),
            lanes: Lanes::default(),
            timers: BTreeSet::new(),
            next_number: 0,
            actions: Vec::new(),
        }
    }

    /// What is to be done since the last call.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When [`Fleet::expire`] is to be called next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// The skills of the clients that listen, in the order of their ids; of several clients what the first says.
    pub(crate) fn skills(&self) -> Vec<Skill> {
        self.lanes.skills()
    }

    /// How many there are.
    pub(crate) fn counts(&self) -> FleetCounts {
        let of = |phase: Phase| {
            self.sessions
                .values()
                .filter(|session| session.phase == phase)
                .count()
        };
        FleetCounts {
            clients: self.clients.len() - self.unheard.len(),
            waiting: self.tasks.values().filter(|task| task.session.is_none()).count(),
            proposed: of(Phase::Proposed),
            ready: of(Phase::Ready),
            open: of(Phase::Open),
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// A client that has registered under this id, which is new.
    ///
    /// # Errors
    /// When there are too many clients that listen, or too many kinds.
    pub(crate) fn register(
        &mut self,
        id: ClientId,
        registration: CheckedRegistration,
        now: Time,
    ) -> Result<(), String> {
        let new_kinds = registration
            .capabilities
            .iter()
            .filter(|(kind, _)| !self.lanes.has_member(kind))
            .count();
        if self.lanes.served() + new_kinds > MOST_KINDS {
            return Err(format!(
                "the hub has {MOST_KINDS} different types, the most; connect this agent to another hub"
            ));
        }
        if self.clients.len() >= MOST_CLIENTS {
            // One that does not listen gives way.
            let Some((_, oldest)) = self.unheard.pop_first() else {
                return Err(format!(
                    "the hub has {MOST_CLIENTS} agents, the most; connect to another hub"
                ));
            };
            self.clients.remove(&oldest);
        }
        let number = self.number();
        self.unheard.insert(number, id.clone());
        self.timers
            .insert((now + LISTEN_WITHIN, Timer::Listens(id.clone())));
        let capabilities = registration.capabilities.into_iter();
        let client = Client {
            name: registration.name,
            number,
            capabilities: Arc::new(
                capabilities
                    .map(|(kind, takes)| (kind, Arc::new(takes)))
                    .collect(),
            ),
            listen: None,
            sessions: BTreeSet::new(),
            full_at: None,
            given: 0,
        };
        self.clients.insert(id, client);
        Ok(())
    }

    /// The Listen of a client stands. An older one ends, and what was proposed on it is proposed again.
    ///
    /// # Errors
    /// There is no such client.
    pub(crate) fn listen(&mut self, id: &ClientId, now: Time) -> Result<Listener, ()> {
        let number = self.number();
        let client = self.clients.get_mut(id).ok_or(())?;
        let listener = |number| Listener {
            client: id.clone(),
            number,
        };
        let is_ready = false;
        let older = client.listen.replace(Listen { number, is_ready });
        self.unheard.remove(&client.number);
        self.timers
            .insert((now + READY_WITHIN, Timer::Ready(listener(number))));
        if let Some(older) = older {
            self.actions.push(Action::EndListen(listener(older.number)));
            self.remove_member(id, now);
            let sessions = self.clients.get(id).map(|client| client.sessions.clone());
            for session in sessions.unwrap_or_default() {
                if self
                    .sessions
                    .get(&session)
                    .is_some_and(|session| session.phase == Phase::Proposed)
                {
                    self.take_back(&session, now);
                }
            }
            self.dispatch(now);
        }
        Ok(listener(number))
    }

    /// The client of this Listen takes proposals.
    pub(crate) fn ready(&mut self, listener: &Listener, now: Time) {
        let Some(client) = self.clients.get_mut(&listener.client) else {
            return;
        };
        let Some(listen) = client
            .listen
            .as_mut()
            .filter(|listen| listen.number == listener.number)
        else {
            return;
        };
        if std::mem::replace(&mut listen.is_ready, true) {
            return;
        }
        // Told on a Listen that has ended, perhaps unread.
        for id in &client.sessions {
            if self
                .sessions
                .get(id)
                .is_some_and(|session| session.phase == Phase::Ready)
            {
                self.actions.push(Action::Ready(listener.clone(), id.clone()));
            }
        }
        let number = client.number;
        for (kind, takes) in client.capabilities.iter() {
            let member = Member {
                number,
                takes: Arc::clone(takes),
            };
            if self.lanes.add_member(kind, &listener.client, member) {
                self.actions.push(Action::SkillsChanged);
            }
        }
        self.set_idle(&listener.client);
        self.dispatch(now);
    }

    /// A Listen has ended. If it was the client's last one, the client is gone.
    pub(crate) fn listen_ended(&mut self, listener: &Listener, now: Time) {
        let id = &listener.client;
        let is_current = self
            .clients
            .get(id)
            .and_then(|client| client.listen.as_ref())
            .is_some_and(|listen| listen.number == listener.number);
        if !is_current {
            return;
        }
        self.remove_member(id, now);
        let Some(client) = self.clients.remove(id) else {
            return;
        };
        for session in client.sessions {
            match self.sessions.get(&session).map(|session| session.phase) {
                Some(Phase::Proposed) => {
                    self.refused(&session, id, format!("{} disconnected", client.name));
                    self.take_back(&session, now);
                }
                Some(Phase::Ready | Phase::Open) => {
                    self.lose_session(&session, &format!("agent disconnected: {}", client.name), now);
                    self.free_session(&session);
                }
                None => {}
            }
        }
        // What this client alone could have done is rejected.
        for (kind, _) in client.capabilities.iter() {
            for number in self.lanes.waiting(kind) {
                self.reject_if_hopeless(number);
            }
        }
        self.dispatch(now);
    }

    /// What did not happen in time.
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some((time, _)) = self.timers.first() {
            if *time > now {
                break;
            }
            if let Some((_, timer)) = self.timers.pop_first() {
                self.expired(timer, now);
            }
        }
    }

    fn expired(&mut self, timer: Timer, now: Time) {
        match timer {
            Timer::Listens(id) => {
                if self
                    .clients
                    .get(&id)
                    .is_some_and(|client| client.listen.is_none())
                    && let Some(client) = self.clients.remove(&id)
                {
                    self.unheard.remove(&client.number);
                }
            }
            Timer::Ready(listener) => self.ready(&listener, now),
            Timer::Answers(id) => {
                let Some(session) = self.sessions.get(&id) else {
                    return;
                };
                if session.phase != Phase::Proposed {
                    return;
                }
                let client = session.client.clone();
                let name = self.clients.get(&client).map_or("", |client| &client.name);
                let reason = format!("{name} did not answer within {} s", ANSWER_WITHIN.as_secs());
                self.actions.push(Action::Answered(ProposalAnswer::Silent));
                self.refused(&id, &client, reason);
                self.take_back(&id, now);
                self.dispatch(now);
            }
            Timer::Opens(id) => {
                let Some(session) = self.sessions.get(&id) else {
                    return;
                };
                if session.phase != Phase::Ready {
                    return;
                }
                let name = self
                    .clients
                    .get(&session.client)
                    .map_or("", |client| &client.name);
                let reason = format!(
                    "{name} did not open its stream within {} s",
                    OPEN_WITHIN.as_secs()
                );
                self.session_ended(&id, &reason, now);
            }
            Timer::HasClient(number) => {
                let Some(task) = self.tasks.get(&number) else {
                    return;
                };
                if task.session.is_some() || self.lanes.has_member(&task.kind) {
                    return;
                }
                let since = task.waits_since.max(self.lanes.empty_since(&task.kind));
                let due = since + CLIENT_WITHIN;
                if due > now {
                    self.timers.insert((due, Timer::HasClient(number)));
                    return;
                }
                let last = task.reason.clone().unwrap_or_else(|| {
                    let (kind, within) = (&task.kind, CLIENT_WITHIN.as_secs());
                    format!("no agent with {kind} has connected to the hub for {within} s")
                });
                self.remove_task(number);
                self.actions.push(Action::Tell(number, Told::Rejected(last)));
            }
        }
    }

    /// The client is a candidate no longer.
    fn remove_member(&mut self, id: &ClientId, now: Time) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        self.lanes.remove_idle(id, client.given, &client.capabilities);
        for (kind, _) in client.capabilities.iter() {
            if self.lanes.remove_member(kind, id, now) {
                self.actions.push(Action::SkillsChanged);
                for number in self.lanes.waiting(kind) {
                    self.timers
                        .insert((now + CLIENT_WITHIN, Timer::HasClient(number)));
                }
            }
        }
    }
}
