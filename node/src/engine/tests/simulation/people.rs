//! Who uses the nodes, and what they may rely on: a client that sends tasks, answers questions and
//! sometimes cancels; an agent that claims, reports, asks and completes. Both outlive their node's
//! crashes and try again what they got no answer to.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt as _, rngs::StdRng};

use super::world::World;
use crate::{
    engine::{
        feed::ListenerId,
        originate::SendTask,
        tests::harness::{artifact, text},
        turn::{Change, EngineError},
        wire,
    },
    task::{Output, Status, Task},
};

/// The answer to a call, heard once it is durable.
pub(super) enum Reply {
    Sent {
        key: usize,
        id: String,
    },
    Looked(Box<Task>),
    Stepped {
        id: String,
        done: Result<(), EngineError>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Progress(usize),
    Ask,
    Complete,
}

/// A task as its agent sees it.
struct Job {
    steps: Vec<Step>,
    /// Steps that the node has confirmed.
    done: usize,
    busy: bool,
    /// Messages of the originator that the agent has read.
    heard: usize,
    over: bool,
}

pub(super) struct People {
    /// Ids of the tasks that the node has accepted, by the client's key.
    sent: BTreeMap<usize, String>,
    wanted: usize,
    to_cancel: BTreeSet<usize>,
    canceled: BTreeSet<String>,
    /// Ends that the subscribers saw.
    ends: BTreeMap<String, Vec<Status>>,
    progress: BTreeMap<String, Vec<usize>>,
    listener: Option<ListenerId>,
    next_listener: ListenerId,
    jobs: BTreeMap<String, Job>,
}

impl People {
    pub(super) fn new(random: &mut StdRng) -> Self {
        let wanted = random.random_range(1..8);
        Self {
            sent: BTreeMap::new(),
            wanted,
            to_cancel: (0..wanted).filter(|_| random.random_range(0..100) < 15).collect(),
            canceled: BTreeSet::new(),
            ends: BTreeMap::new(),
            progress: BTreeMap::new(),
            listener: None,
            next_listener: 0,
            jobs: BTreeMap::new(),
        }
    }

    pub(super) fn have_sent_all(&self) -> bool {
        self.sent.len() == self.wanted
    }

    /// Calls without an answer are tried again; the agent has to listen anew.
    pub(super) fn lose_their_node(&mut self) {
        self.listener = None;
        self.jobs.values_mut().for_each(|job| job.busy = false);
    }

    /// A subscriber sees a change.
    pub(super) fn see(&mut self, change: &Change) {
        if change.status.is_terminal() {
            self.ends
                .entry(change.task_id.clone())
                .or_default()
                .push(change.status);
        }
        let said = change
            .message
            .as_ref()
            .and_then(|said| said.message_id.strip_prefix('p')?.parse().ok());
        if let Some(number) = said {
            self.progress
                .entry(change.task_id.clone())
                .or_default()
                .push(number);
        }
    }
}

fn plan(random: &mut StdRng) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..random.random_range(0..5)).map(Step::Progress).collect();
    if random.random_range(0..100) < 25 {
        steps.push(Step::Ask);
        steps.extend((steps.len()..steps.len() + 2).map(Step::Progress));
    }
    steps.push(Step::Complete);
    steps
}

/// Messages of the originator: the first one and its answers.
fn from_originator(task: &Task) -> usize {
    task.messages
        .iter()
        .filter(|message| message.message_id.starts_with("from-originator"))
        .count()
}

fn result_of(id: &str) -> String {
    format!("the result of {id}")
}

impl World {
    /// The client sends what it has not sent, or looks after something.
    pub(super) fn client_acts(&mut self, at: usize) {
        let people = &self.people[at];
        if !people.have_sent_all() && (people.sent.is_empty() || self.chance(50)) {
            let people = &self.people[at];
            let key = (0..people.wanted)
                .find(|key| !people.sent.contains_key(key))
                .unwrap_or(0);
            let request = SendTask {
                peer: Some(self.nodes[1 - at].me),
                message: text("from-originator-0", "do it"),
                idempotency_key: key.to_string(),
                ..SendTask::default()
            };
            let id = self.nodes[at].core.send_task(self.now, request).unwrap().id;
            return self.turn(at, Some(Reply::Sent { key, id }));
        }
        for id in self.people[at].sent.values().cloned().collect::<Vec<_>>() {
            let task = self.nodes[at]
                .core
                .task(&id)
                .expect("an accepted task is never lost");
            self.turn(at, Some(Reply::Looked(Box::new(task))));
        }
        self.client_cancels(at);
    }

    fn client_cancels(&mut self, at: usize) {
        if !self.chance(10) {
            return;
        }
        let people = &self.people[at];
        let doomed = people
            .to_cancel
            .iter()
            .filter_map(|key| people.sent.get(key))
            .cloned()
            .collect::<Vec<_>>();
        for id in doomed {
            if self.nodes[at].core.cancel(self.now, &id).is_ok() {
                self.people[at].canceled.insert(id);
                self.turn(at, None);
            }
        }
    }

    /// Somebody gets the answer to a call.
    pub(super) fn hear(&mut self, at: usize, reply: Reply) {
        match reply {
            Reply::Sent { key, id } => {
                let known = self.people[at].sent.insert(key, id.clone());
                assert!(known.is_none_or(|known| known == id), "key {key} names two tasks");
            }
            Reply::Looked(task) if task.status == Status::InputRequired => self.answer(at, &task),
            Reply::Looked(_) => {}
            Reply::Stepped { id, done } => self.stepped(at, &id, done),
        }
    }

    fn answer(&mut self, at: usize, task: &Task) {
        let message = text(&format!("from-originator-{}", from_originator(task)), "yes");
        let answer = SendTask {
            task_id: task.id.clone(),
            message,
            ..SendTask::default()
        };
        // Refused when it was answered or canceled a moment ago.
        let _ = self.nodes[at].core.send_task(self.now, answer);
        self.turn(at, None);
    }

    pub(super) fn agent_comes_or_goes(&mut self, at: usize) {
        match self.people[at].listener.take() {
            Some(listener) => {
                self.nodes[at].core.detach(self.now, listener).unwrap();
                self.turn(at, None);
            }
            None => self.agent_comes(at),
        }
    }

    pub(super) fn agent_comes(&mut self, at: usize) {
        let people = &mut self.people[at];
        if people.listener.is_none() {
            people.next_listener += 1;
            people.listener = Some(people.next_listener);
            self.nodes[at].core.attach(people.next_listener).unwrap();
            self.turn(at, None);
        }
    }

    /// The agent is handed a task, or news of one.
    pub(super) fn receive(&mut self, at: usize, listener: ListenerId, task: &Task) {
        if self.people[at].listener != Some(listener) {
            return; // It went to a connection that is gone.
        }
        let heard = from_originator(task);
        let job = self.people[at]
            .jobs
            .entry(task.id.clone())
            .or_insert_with(|| Job {
                steps: plan(&mut self.random),
                done: 0,
                busy: false,
                heard,
                over: false,
            });
        if task.status.is_terminal() {
            job.over = true;
        } else {
            let again = job.done > 0 && heard <= job.heard && job.steps[job.done - 1] != Step::Ask;
            assert!(
                !again,
                "{} was claimed and is handed over again: {:?}",
                task.id, task.status
            );
            job.heard = job.heard.max(heard);
        }
        self.nodes[at].core.credit(listener, 1).unwrap();
        self.turn(at, None);
    }

    /// The agent does the next step of each of its jobs that does not wait.
    pub(super) fn agent_acts(&mut self, at: usize) {
        if self.people[at].listener.is_none() && self.chance(50) {
            return self.agent_comes(at);
        }
        for id in self.people[at].jobs.keys().cloned().collect::<Vec<_>>() {
            let job = &self.people[at].jobs[&id];
            let waits_for_answer = job.done > 0 && job.steps[job.done - 1] == Step::Ask && job.heard < 2;
            if job.busy || job.over || job.done == job.steps.len() || waits_for_answer {
                continue;
            }
            let step = job.steps[job.done];
            let done = self.step(at, &id, step);
            if let Some(job) = self.people[at].jobs.get_mut(&id) {
                job.busy = true;
            }
            self.turn(at, Some(Reply::Stepped { id, done }));
        }
    }

    fn step(&mut self, at: usize, id: &str, step: Step) -> Result<(), EngineError> {
        let (now, core) = (self.now, &mut self.nodes[at].core);
        match step {
            Step::Progress(number) => {
                core.update(now, id, Status::Working, Some(text(&format!("p{number}"), "")), 1)
            }
            Step::Ask => {
                let answered = core.task(id).is_ok_and(|task| from_originator(&task) > 1);
                if answered
                    || core
                        .task(id)
                        .is_ok_and(|task| task.status == Status::InputRequired)
                {
                    return Ok(()); // The first try took effect, and only its answer was lost.
                }
                core.update(now, id, Status::InputRequired, Some(text("question", "sure?")), 1)
            }
            Step::Complete => core.complete(now, id, vec![artifact("a", &result_of(id))], None),
        }
    }

    fn stepped(&mut self, at: usize, id: &str, done: Result<(), EngineError>) {
        let status = self.nodes[at].core.task(id).unwrap().status;
        let Some(job) = self.people[at].jobs.get_mut(id) else {
            return;
        };
        job.busy = false;
        match done {
            Ok(()) => job.done += 1,
            Err(_) if status.is_terminal() => job.over = true,
            Err(error) => panic!("the agent may not go on with {id}: {error}"),
        }
    }

    /// What was promised, of each task and from both sides.
    pub(super) fn check(&mut self) {
        for at in 0..2 {
            for id in self.people[at].sent.values().cloned().collect::<Vec<_>>() {
                let mine = self.nodes[at]
                    .core
                    .task(&id)
                    .expect("an accepted task is never lost");
                let theirs = self.nodes[1 - at].core.task(&id).expect("it was delivered");
                self.check_end(at, &mine, &theirs);
                self.check_progress(at, &mine);
            }
        }
    }

    fn check_end(&self, at: usize, mine: &Task, theirs: &Task) {
        let (id, people) = (&mine.id, &self.people[at]);
        assert!(
            theirs.status.is_terminal(),
            "{id} is {} at its agent",
            theirs.status
        );
        assert_eq!(
            from_originator(theirs),
            from_originator(mine).min(2),
            "messages of {id} were lost or doubled"
        );
        if people.canceled.contains(id) {
            assert!(
                matches!(mine.status, Status::Canceled | Status::Completed),
                "{id} is {}",
                mine.status
            );
        } else {
            assert_eq!(mine.status, Status::Completed, "{id}: {:?}", mine.status_message);
            let results: Vec<String> = mine.results.iter().map(|result| content(result)).collect();
            assert_eq!(results, [result_of(id)]);
            let ids = |task: &Task| {
                task.messages
                    .iter()
                    .map(|said| said.message_id.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                ids(mine),
                ids(theirs),
                "the two sides of {id} differ: something came twice, or not at all"
            );
        }
        let ends = people.ends.get(id).map_or(0, Vec::len);
        assert!(ends <= 1, "subscribers saw {id} end {ends} times");
    }

    fn check_progress(&self, at: usize, mine: &Task) {
        let (id, job) = (&mine.id, self.people[1 - at].jobs.get(&mine.id));
        let kept: Vec<usize> = mine
            .messages
            .iter()
            .filter_map(|said| said.message_id.strip_prefix('p')?.parse().ok())
            .collect();
        assert!(kept.is_sorted(), "progress of {id} is out of order: {kept:?}");
        let seen = self.people[at].progress.get(id).cloned().unwrap_or_default();
        assert!(
            seen.is_sorted(),
            "subscribers saw the progress of {id} out of order: {seen:?}"
        );
        let Some(job) = job.filter(|_| mine.status == Status::Completed) else {
            return;
        };
        for step in &job.steps[..job.done] {
            if let Step::Progress(number) = step {
                assert!(
                    kept.contains(number),
                    "progress {number} of {id} was confirmed and got lost"
                );
            }
        }
    }

    pub(super) fn what_is_open(&mut self) -> String {
        let mut lines = Vec::new();
        for at in 0..2 {
            let (open, queued) = (self.nodes[at].core.open_tasks(), self.nodes[at].core.queued());
            lines.push(format!("node {at} has {open} open tasks and {queued} envelopes"));
            for task in self.nodes[at].core.list(&[], None, 100).unwrap() {
                lines.push(format!("  {} {:?} {}", task.id, task.role, task.status));
            }
        }
        lines.join("\n")
    }
}

fn content(result: &Output) -> String {
    match result {
        Output::Whole(artifact) => wire::text_of(&agentanycast_proto::v1::Message {
            parts: artifact.parts.clone(),
            ..agentanycast_proto::v1::Message::default()
        }),
        Output::Streamed(streamed) => format!("a stream named {}", streamed.name),
    }
}
