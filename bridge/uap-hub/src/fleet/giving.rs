//! Tasks and sessions of the fleet: a task is proposed to one client after the other until one takes it, and its session is followed to its
//! end. PURE. Used by the fleet, whose invariants it keeps.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    ANSWER_WITHIN, Action, CLIENT_WITHIN, ClientId, Fleet, FleetTask, Listener, OPEN_WITHIN, OpenRefusal,
    Phase, ProposalAnswer, Session, SessionId, TaskNumber, Time, Timer, Told, lanes::Member,
};
use crate::capability::{Domain, InputShape, Kind, printable};

impl Fleet {
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
        domain: Domain,
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

    /// Names a task that is about to be submitted.
    pub(crate) fn next_task(&mut self) -> TaskNumber {
        self.number()
    }

    /// A new task of this kind, which may be given again so many times if a session is lost. Its ends are told by actions.
    pub(crate) fn submit(
        &mut self,
        number: TaskNumber,
        kind: Kind,
        parts: Arc<[InputShape]>,
        retries: u32,
        now: Time,
    ) {
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

    /// Gives waiting tasks to idle clients, kind by kind in turn.
    pub(super) fn dispatch(&mut self, now: Time) {
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
            self.propose(number, &client, now);
        }
    }

    pub(super) fn propose(&mut self, number: TaskNumber, id: &ClientId, now: Time) {
        let given = self.number();
        let (Some(task), Some(client)) = (self.tasks.get_mut(&number), self.clients.get_mut(id)) else {
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
        self.lanes.remove_idle(id, client.given, &client.capabilities);
        client.given = given;
        self.set_idle(id);
    }

    /// Makes a client a candidate while it has room.
    pub(super) fn set_idle(&mut self, id: &ClientId) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let room = client.full_at.map_or(self.slots, |full| full.min(self.slots));
        let is_ready = client.listen.as_ref().is_some_and(|listen| listen.is_ready);
        if is_ready && client.sessions.len() < room {
            self.lanes.add_idle(id, client.given, &client.capabilities);
        } else {
            self.lanes.remove_idle(id, client.given, &client.capabilities);
        }
    }

    /// Marks that a client does not do the task of this session.
    pub(super) fn refused(&mut self, id: &SessionId, client: &ClientId, reason: String) {
        let task = self.sessions.get(id).and_then(|session| session.task);
        if let Some(task) = task.and_then(|task| self.tasks.get_mut(&task)) {
            task.refused.insert(client.clone());
            task.reason = Some(reason);
        }
    }

    /// Ends a proposal; its task waits again, in its place, unless there is no client left for it.
    pub(super) fn take_back(&mut self, id: &SessionId, now: Time) {
        let task = self.sessions.get_mut(id).and_then(|session| session.task.take());
        if let Some(number) = task {
            self.wait_again(number, now);
            self.reject_if_hopeless(number);
        }
        self.free_session(id);
    }

    pub(super) fn wait_again(&mut self, number: TaskNumber, now: Time) {
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
    pub(super) fn lose_session(&mut self, id: &SessionId, reason: &str, now: Time) {
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

    pub(super) fn free_session(&mut self, id: &SessionId) {
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

    pub(super) fn remove_task(&mut self, number: TaskNumber) -> Option<FleetTask> {
        let task = self.tasks.remove(&number)?;
        if task.session.is_none() {
            self.lanes.remove_waiting(&task.kind, task.order);
        }
        Some(task)
    }

    /// Rejects a waiting task that each client of its kind has refused, or whose payloads fit none of them.
    pub(super) fn reject_if_hopeless(&mut self, number: TaskNumber) {
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
