//! Which client of the hub gets which task: registrations, proposals, sessions and what waits. PURE: time is an argument, and
//! what is to be done comes back as actions. Used by `hub`, which carries the actions out.
//!
//! Invariants: a task is in one session at most, or waits, or was told its end; a client has at most as many proposals and
//! sessions as it may have; tasks of one kind are given in the order in which they came, and kinds with waiting tasks take
//! turns.

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

use crate::capability::{CheckedRegistration, InputShape, Kind, Requirements, printable};

/// How long a client that does not say that it is ready is waited for, once its Listen stands.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// How long a client may take to answer a proposal, and to open the stream of a session.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// How long a client may be registered without a Listen.
const LISTEN_WITHIN: Duration = Duration::from_secs(60);

/// How long a task waits for a client where none has its kind: clients come back within 60 s (their longest back-off).
const CLIENT_WITHIN: Duration = Duration::from_secs(120);

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
        if self.lanes.kinds() + new_kinds > MOST_KINDS {
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

    /// A client answers a proposal. What it says of another session is not heard.
    pub(crate) fn answer(
        &mut self,
        listener: &Listener,
        id: &SessionId,
        accepts: bool,
        reason: &str,
        now: Time,
    ) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if session.client != listener.client || session.phase != Phase::Proposed {
            return;
        }
        if accepts {
            session.phase = Phase::Ready;
            self.timers.remove(&(session.due, Timer::Answers(id.clone())));
            session.due = now + OPEN_WITHIN;
            self.timers.insert((session.due, Timer::Opens(id.clone())));
            self.actions.push(Action::Answered(ProposalAnswer::Accepted));
            self.actions.push(Action::Ready(listener.clone(), id.clone()));
            return;
        }
        let Some(client) = self.clients.get_mut(&listener.client) else {
            return;
        };
        let others = client.sessions.len() - 1;
        if others > 0 {
            // It has no room now: asked again when one of its sessions has ended.
            client.full_at = Some(others);
            self.actions.push(Action::Answered(ProposalAnswer::Busy));
        } else {
            let reason = printable(reason);
            let reason = if reason.is_empty() {
                "no reason was given".to_owned()
            } else {
                reason
            };
            let reason = format!("{} refused: {reason}", client.name);
            self.actions.push(Action::Answered(ProposalAnswer::Refused));
            self.refused(id, &listener.client, reason);
        }
        self.take_back(id, now);
        self.dispatch(now);
    }

    /// A client opens the stream of a session, for which it needs no id; one that it gives must be its own.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn open(
        &mut self,
        id: &SessionId,
        client: Option<&str>,
        domain: crate::capability::Domain,
    ) -> Result<TaskNumber, OpenRefusal> {
        let session = self.sessions.get_mut(id).ok_or(OpenRefusal::Unknown)?;
        if client.is_some_and(|client| *client != *session.client) {
            return Err(OpenRefusal::OfAnotherClient);
        }
        match session.phase {
            Phase::Proposed => return Err(OpenRefusal::NotReady),
            Phase::Open => return Err(OpenRefusal::HasStream),
            Phase::Ready => {}
        }
        let task = session.task.ok_or(OpenRefusal::Unknown)?;
        if self
            .tasks
            .get(&task)
            .is_none_or(|task| task.kind.domain != domain)
        {
            return Err(OpenRefusal::OtherCall);
        }
        session.phase = Phase::Open;
        self.timers.remove(&(session.due, Timer::Opens(id.clone())));
        Ok(task)
    }

    /// The payload types of a task's parts, as the client of its session calls them.
    pub(crate) fn payload_types(&self, task: TaskNumber) -> Vec<String> {
        let types = || {
            let task = self.tasks.get(&task)?;
            let session = self.sessions.get(task.session.as_ref()?)?;
            let client = self.clients.get(&session.client)?;
            let (_, takes) = client.capabilities.iter().find(|(kind, _)| *kind == task.kind)?;
            takes.assign(&task.parts).ok()
        };
        types().unwrap_or_default()
    }

    /// The client of a task's session, for people.
    pub(crate) fn client_name(&self, task: TaskNumber) -> String {
        let session = self.tasks.get(&task).and_then(|task| task.session.as_ref());
        let session = session.and_then(|session| self.sessions.get(session));
        let client = session.and_then(|session| self.clients.get(&session.client));
        client.map(|client| client.name.clone()).unwrap_or_default()
    }

    /// A new task of this kind, which may be given again so many times if a session is lost. Its ends are told by actions.
    pub(crate) fn submit(
        &mut self,
        kind: Kind,
        parts: Arc<[InputShape]>,
        retries: u32,
        now: Time,
    ) -> TaskNumber {
        let number = self.number();
        let is_served = self.lanes.has_member(&kind);
        self.lanes.add_waiting(&kind, number, number);
        let task = FleetTask {
            kind,
            order: number,
            parts,
            retries,
            session: None,
            refused: BTreeSet::new(),
            reason: None,
            waits_since: now,
        };
        self.tasks.insert(number, task);
        if is_served {
            self.reject_if_hopeless(number);
            self.dispatch(now);
        } else {
            self.timers
                .insert((now + CLIENT_WITHIN, Timer::HasClient(number)));
        }
        number
    }

    /// A task has ended: by its session, or because it was canceled. Its session goes on until [`Fleet::session_ended`].
    pub(crate) fn end_task(&mut self, number: TaskNumber, now: Time) {
        let Some(task) = self.remove_task(number) else {
            return;
        };
        let Some(id) = task.session else { return };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.task = None;
        if session.phase != Phase::Open {
            // Its stream will not come: an answer or a stream is refused from here on.
            self.free_session(&id);
            self.dispatch(now);
        }
    }

    /// The stream of a session has ended for this reason; a task that has not ended fails, or is given again. The client is
    /// free.
    pub(crate) fn session_ended(&mut self, id: &SessionId, reason: &str, now: Time) {
        self.lose_session(id, reason, now);
        self.free_session(id);
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

    /// Gives waiting tasks to idle clients, kind by kind in turn.
    fn dispatch(&mut self, now: Time) {
        loop {
            let tasks = &self.tasks;
            let fits = |number: TaskNumber, client: &ClientId, member: &Member| {
                let task = tasks.get(&number);
                task.is_some_and(|task| {
                    !task.refused.contains(client) && member.takes.assign(&task.parts).is_ok()
                })
            };
            let Some((number, client)) = self.lanes.next_match(fits) else {
                return;
            };
            self.propose(number, client, now);
        }
    }

    fn propose(&mut self, number: TaskNumber, id: ClientId, now: Time) {
        let given = self.number();
        let (Some(task), Some(client)) = (self.tasks.get_mut(&number), self.clients.get_mut(&id)) else {
            return;
        };
        let Some(listen) = &client.listen else { return };
        let session = SessionId::new(task.kind.domain);
        let listener = Listener {
            client: id.clone(),
            number: listen.number,
        };
        task.session = Some(session.clone());
        client.sessions.insert(session.clone());
        self.lanes.remove_waiting(&task.kind, task.order);
        self.actions
            .push(Action::Propose(listener, session.clone(), task.kind.clone()));
        let due = now + ANSWER_WITHIN;
        self.timers.insert((due, Timer::Answers(session.clone())));
        let proposed = Session {
            task: Some(number),
            client: id.clone(),
            phase: Phase::Proposed,
            due,
        };
        self.sessions.insert(session, proposed);
        self.lanes.remove_idle(&id, client.given, &client.capabilities);
        client.given = given;
        self.set_idle(&id);
    }

    /// Makes a client a candidate while it has room.
    fn set_idle(&mut self, id: &ClientId) {
        let Some(client) = self.clients.get(id) else { return };
        let room = client.full_at.map_or(self.slots, |full| full.min(self.slots));
        let is_ready = client.listen.as_ref().is_some_and(|listen| listen.is_ready);
        if is_ready && client.sessions.len() < room {
            self.lanes.add_idle(id, client.given, &client.capabilities);
        } else {
            self.lanes.remove_idle(id, client.given, &client.capabilities);
        }
    }

    /// Marks that a client does not do the task of this session.
    fn refused(&mut self, id: &SessionId, client: &ClientId, reason: String) {
        let task = self.sessions.get(id).and_then(|session| session.task);
        if let Some(task) = task.and_then(|task| self.tasks.get_mut(&task)) {
            task.refused.insert(client.clone());
            task.reason = Some(reason);
        }
    }

    /// Ends a proposal; its task waits again, in its place, unless there is no client left for it.
    fn take_back(&mut self, id: &SessionId, now: Time) {
        let task = self.sessions.get_mut(id).and_then(|session| session.task.take());
        if let Some(number) = task {
            self.wait_again(number, now);
            self.reject_if_hopeless(number);
        }
        self.free_session(id);
    }

    fn wait_again(&mut self, number: TaskNumber, now: Time) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.session = None;
        task.waits_since = now;
        self.lanes.add_waiting(&task.kind, task.order, number);
        if !self.lanes.has_member(&task.kind) {
            self.timers
                .insert((now + CLIENT_WITHIN, Timer::HasClient(number)));
        }
    }

    /// A session ended before its task did: that fails, or waits again.
    fn lose_session(&mut self, id: &SessionId, reason: &str, now: Time) {
        let Some(number) = self.sessions.get_mut(id).and_then(|session| session.task.take()) else {
            return;
        };
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.session = None;
        if task.retries == 0 {
            self.remove_task(number);
            self.actions
                .push(Action::Tell(number, Told::Failed(reason.to_owned())));
            return;
        }
        task.retries -= 1;
        task.reason = Some(reason.to_owned());
        self.actions
            .push(Action::Tell(number, Told::WaitsAgain(reason.to_owned())));
        self.wait_again(number, now);
    }

    fn free_session(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        match session.phase {
            Phase::Proposed => self.timers.remove(&(session.due, Timer::Answers(id.clone()))),
            Phase::Ready => self.timers.remove(&(session.due, Timer::Opens(id.clone()))),
            Phase::Open => false,
        };
        let Some(client) = self.clients.get_mut(&session.client) else {
            return;
        };
        client.sessions.remove(id);
        // A refusal for want of room ends no session, so it does not say that there is room again.
        if session.phase != Phase::Proposed {
            client.full_at = None;
        }
        self.set_idle(&session.client);
    }

    fn remove_task(&mut self, number: TaskNumber) -> Option<FleetTask> {
        let task = self.tasks.remove(&number)?;
        if task.session.is_none() {
            self.lanes.remove_waiting(&task.kind, task.order);
        }
        Some(task)
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

    /// Rejects a waiting task that each client of its kind has refused, or whose payloads fit none of them.
    fn reject_if_hopeless(&mut self, number: TaskNumber) {
        let Some(task) = self.tasks.get(&number) else {
            return;
        };
        let mut unfit = None;
        let mut members = self.lanes.members(&task.kind).peekable();
        if members.peek().is_none() {
            return;
        }
        for (id, member) in members {
            if task.refused.contains(id) {
                continue;
            }
            match member.takes.assign(&task.parts) {
                Ok(_) => return,
                Err(why) => unfit = Some(why),
            }
        }
        let reason = task.reason.clone().or(unfit).unwrap_or_default();
        self.remove_task(number);
        self.actions.push(Action::Tell(number, Told::Rejected(reason)));
    }
}
