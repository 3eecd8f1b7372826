//! Random lives of fleets: each task is in one place at a time, ends once, and no client has more than its slots.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::{tests::kind, *};
use crate::capability::Domain;

const KINDS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum Step {
    Join(usize),
    Relisten(usize),
    Leave(usize),
    Submit(usize, u32),
    Answer(usize, bool),
    Open(usize),
    EndTask(usize),
    EndSession(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0_usize..64;
    let step = prop_oneof![
        2 => (0_usize..7).prop_map(Step::Join),
        1 => at.clone().prop_map(Step::Relisten),
        1 => at.clone().prop_map(Step::Leave),
        4 => (0_usize..3, 0_u32..2).prop_map(|(kind, retries)| Step::Submit(kind, retries)),
        6 => (at.clone(), any::<bool>()).prop_map(|(at, accepts)| Step::Answer(at, accepts)),
        4 => at.clone().prop_map(Step::Open),
        2 => at.clone().prop_map(Step::EndTask),
        3 => at.prop_map(Step::EndSession),
        1 => (0_u64..40).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

/// What an observer knows of the fleet from its actions alone.
#[derive(Default)]
struct Model {
    listeners: Vec<Listener>,
    proposed: Vec<(Listener, SessionId)>,
    ready: Vec<(Listener, SessionId)>,
    /// Sessions with a stream, and their tasks.
    open: Vec<(Listener, SessionId, TaskNumber)>,
    given: HashMap<TaskNumber, SessionId>,
    ended: HashSet<TaskNumber>,
    submitted: Vec<TaskNumber>,
}

impl Model {
    fn read(&mut self, fleet: &mut Fleet, slots: usize) {
        for action in fleet.take_actions() {
            match action {
                Action::Propose(listener, session, _) => {
                    assert!(
                        self.listeners.contains(&listener),
                        "only clients that listen are asked, not {listener:?}, of {:?}",
                        self.listeners
                    );
                    self.proposed.push((listener, session));
                }
                Action::Ready(listener, session) => {
                    self.ready.retain(|(_, known)| *known != session);
                    self.ready.push((listener, session));
                }
                Action::EndListen(listener) => self.listeners.retain(|known| *known != listener),
                Action::Tell(task, Told::WaitsAgain(_)) => {
                    self.given.remove(&task);
                }
                Action::Tell(task, Told::Rejected(reason) | Told::Failed(reason)) => {
                    assert!(!reason.is_empty());
                    assert!(self.ended.insert(task), "a task ends once");
                    self.given.remove(&task);
                }
                Action::SkillsChanged | Action::Answered(_) => {}
            }
        }
        for client in fleet.clients.values() {
            assert!(client.sessions.len() <= slots);
            assert!(
                client
                    .sessions
                    .iter()
                    .all(|session| fleet.sessions.contains_key(session))
            );
        }
        let mut tasks = HashSet::new();
        for (id, session) in &fleet.sessions {
            if let Some(task) = session.task {
                assert!(tasks.insert(task), "a task is in one session");
                assert_eq!(fleet.tasks[&task].session.as_ref(), Some(id));
            }
            assert!(fleet.clients[&session.client].sessions.contains(id));
        }
        for (number, task) in &fleet.tasks {
            let waits = fleet.lanes.waiting(&task.kind).contains(number);
            assert_eq!(waits, task.session.is_none(), "it waits or has a session");
            assert!(!self.ended.contains(number));
        }
        for task in &self.submitted {
            assert!(
                self.ended.contains(task) != fleet.tasks.contains_key(task),
                "none is lost"
            );
        }
        // A client with room and a task for it do not wait for each other.
        for (id, client) in &fleet.clients {
            let room = client.full_at.map_or(slots, |full| full.min(slots));
            if client.listen.as_ref().is_none_or(|listen| !listen.is_ready) || client.sessions.len() >= room {
                continue;
            }
            for (kind, _) in client.capabilities.iter() {
                for number in fleet.lanes.waiting(kind) {
                    assert!(
                        fleet.tasks[&number].refused.contains(id),
                        "an idle client was not asked"
                    );
                }
            }
        }
    }
}

fn pick<T: Clone>(all: &[T], at: usize) -> Option<T> {
    (!all.is_empty()).then(|| all[at % all.len()].clone())
}

proptest! {
    #[test]
    fn no_task_is_lost_or_given_twice(slots in 1_usize..4, steps in steps()) {
        let mut fleet = Fleet::new(slots);
        let mut model = Model::default();
        let mut now = Time::ZERO;
        let mut names = 0;
        for step in steps {
            match step {
                Step::Join(kinds) => {
                    names += 1;
                    let name = format!("c{names}");
                    let id = ClientId::from(name.as_str());
                    let of_client: Vec<&str> = KINDS.iter().enumerate().filter(|(at, _)| (kinds + 1) >> at & 1 == 1).map(|(_, kind)| *kind).collect();
                    if of_client.is_empty() {
                        continue;
                    }
                    let registration = super::tests::registration(&name, &of_client, None);
                    fleet.register(id.clone(), registration, now).unwrap();
                    let listener = fleet.listen(&id, now).unwrap();
                    model.listeners.push(listener.clone());
                    fleet.ready(&listener, now);
                }
                Step::Relisten(at) => if let Some(listener) = pick(&model.listeners, at) {
                    let newer = fleet.listen(&listener.client, now).unwrap();
                    model.listeners.push(newer.clone());
                    fleet.ready(&newer, now);
                    for (known, _) in &mut model.proposed {
                        if known.client == newer.client {
                            *known = newer.clone();
                        }
                    }
                }
                Step::Leave(at) => if let Some(listener) = pick(&model.listeners, at) {
                    model.listeners.retain(|known| *known != listener);
                    fleet.listen_ended(&listener, now);
                }
                Step::Submit(of, retries) => {
                    let task = fleet.next_task();
                    fleet.submit(task, kind(KINDS[of]), Arc::from([]), retries, now);
                    model.submitted.push(task);
                }
                Step::Answer(at, accepts) => if let Some((listener, session)) = pick(&model.proposed, at) {
                    model.proposed.retain(|(_, known)| *known != session);
                    fleet.answer(&listener, &session, accepts, "no", now);
                }
                Step::Open(at) => if let Some((listener, session)) = pick(&model.ready, at) {
                    model.ready.retain(|(_, known)| *known != session);
                    if let Ok(task) = fleet.open(&session, Some(&*listener.client), Domain::Test) {
                        prop_assert!(model.given.insert(task, session.clone()).is_none(), "given to two");
                        model.open.push((listener, session, task));
                    }
                }
                Step::EndTask(at) => if let Some((_, session, task)) = pick(&model.open, at)
                    && model.given.get(&task) == Some(&session) {
                    model.given.remove(&task);
                    model.ended.insert(task);
                    fleet.end_task(task, now);
                }
                Step::EndSession(at) => if let Some((_, session, _)) = pick(&model.open, at) {
                    model.open.retain(|(_, known, _)| *known != session);
                    fleet.session_ended(&session, "the stream ended", now);
                }
                Step::Pass(seconds) => {
                    now += Duration::from_secs(seconds);
                    fleet.expire(now);
                }
            }
            model.read(&mut fleet, slots);
        }
        // Nothing waits for ever: with no client left, all tasks end.
        while let Some(listener) = model.listeners.pop() {
            fleet.listen_ended(&listener, now);
            model.read(&mut fleet, slots);
        }
        now += Duration::from_secs(1000);
        fleet.expire(now);
        now += Duration::from_secs(1000);
        fleet.expire(now);
        model.read(&mut fleet, slots);
        prop_assert!(fleet.tasks.is_empty() && fleet.sessions.is_empty() && fleet.clients.is_empty());
        prop_assert!(fleet.timers.is_empty(), "{:?}", fleet.timers);
    }
}
