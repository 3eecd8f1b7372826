//! What everybody was told: the calls and how they were answered, and of each task who said what, in which
//! order, who claimed it and what its two sides have shown. It knows the promises, not the node: whatever
//! comes out is compared with it at once, and with everything else at the end (`checker`).

use std::{collections::BTreeMap, time::Duration};

use crate::{
    policy::{PolicyOutcome, audit::log_line::AuditEntry},
    task::{Output, Status, StreamOutcome, Task},
    transaction::TaskChange,
};

pub(super) type CallId = usize;

/// What its caller knows of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallFate {
    /// Not answered yet.
    Asked,
    /// Answered OK: it happened, and lasts.
    Done,
    /// Refused: it did not happen, and will not.
    Refused,
    /// Its node went down without an answer.
    Unknown,
}

/// The originator's side of a task, and the side of its agent. A task that a node sends to itself has
/// the latter only.
pub(super) const ORIGIN: usize = 0;
pub(super) const TARGET: usize = 1;

/// A message, with every call that tried to say it.
pub(super) struct SaidMessage {
    pub(super) id: String,
    pub(super) calls: Vec<CallId>,
}

/// A call that ends a task.
pub(super) struct ReportedEnd {
    pub(super) by: usize,
    pub(super) status: Status,
    pub(super) call: CallId,
    /// Ids and contents of what it completes with.
    pub(super) results: Vec<(String, String)>,
}

/// Who works on a task.
#[derive(Clone, Copy)]
pub(super) struct ObservedClaim {
    connection: u64,
    /// Messages of the originator that were there.
    heard: usize,
    lost_since: Option<Duration>,
}

/// A result as a side shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObservedResult {
    Whole(String),
    Streamed(Option<StreamOutcome>, u64),
}

/// What a side of a task has shown last.
#[derive(Clone, Default, Debug)]
pub(super) struct Observation {
    pub(super) status: Option<Status>,
    pub(super) messages: Vec<String>,
    pub(super) results: Vec<(String, ObservedResult)>,
    /// It was seen whole after its end: nothing may change any more.
    settled: bool,
}

pub(super) struct TaskHistory {
    pub(super) origin: usize,
    pub(super) target: usize,
    /// Its place among the tasks of its originator.
    #[allow(dead_code, reason = "shown when a seed fails")]
    pub(super) order: usize,
    pub(super) deadline: Option<u64>,
    /// What the originator said, and what the agents said.
    pub(super) said: [Vec<SaidMessage>; 2],
    pub(super) endings: Vec<ReportedEnd>,
    pub(super) observed: [Observation; 2],
    /// The earliest and the latest hour that each side's calendar has shown since it was sent.
    pub(super) hours: [(u64, u64); 2],
    pub(super) claim: Option<ObservedClaim>,
    /// Calls that claim it if they are answered OK.
    pub(super) claiming: Vec<CallId>,
    /// Since when an agent may have claimed it that got no answer.
    pub(super) doubtful: Option<Duration>,
    /// At some time its agent was away for longer than the grace time.
    pub(super) abandoned: bool,
    /// A deployed originator's further message came when its task was collected: nothing tells it from a new task.
    pub(super) begun_again: bool,
    /// An agent went on without waiting for the answer to its question.
    pub(super) crossed: bool,
    /// Artifacts that were streamed: id, all bytes, and the call that kept the end if it came so far.
    pub(super) streams: Vec<(String, Vec<u8>, Option<CallId>)>,
}

impl TaskHistory {
    pub(super) fn side_of(&self, host: usize) -> usize {
        if host == self.target { TARGET } else { ORIGIN }
    }

    pub(super) fn is_own(&self) -> bool {
        self.origin == self.target
    }
}

pub(super) struct History {
    fates: Vec<CallFate>,
    pub(super) tasks: BTreeMap<String, TaskHistory>,
    pub(super) wrong: Option<String>,
    grace: Duration,
    /// The deployed peer, where nodes collect early: what it says further of a task may come too late.
    forgotten: Option<usize>,
    /// Since when nobody listens at a node.
    idle: Vec<Option<Duration>>,
    /// Connections that are gone, since when.
    gone: BTreeMap<u64, Duration>,
    messages: usize,
    /// How often a new task was decided on, by node and task.
    decided: BTreeMap<(usize, String), usize>,
    crashes: Vec<usize>,
}

impl History {
    pub(super) fn new(hosts: usize, grace: Duration, forgotten: Option<usize>) -> Self {
        Self {
            fates: Vec::new(),
            tasks: BTreeMap::new(),
            wrong: None,
            grace,
            forgotten,
            idle: vec![Some(Duration::ZERO); hosts],
            gone: BTreeMap::new(),
            messages: 0,
            decided: BTreeMap::new(),
            crashes: vec![0; hosts],
        }
    }

    pub(super) fn crashed(&mut self, host: usize) {
        self.crashes[host] += 1;
    }

    pub(super) fn has_crashed(&self, host: usize) -> bool {
        self.crashes[host] > 0
    }

    /// A node let a task in: once, and once more for each crash that may have taken the first time back.
    pub(super) fn decided(&mut self, host: usize, entry: &AuditEntry) {
        self.begin_again(&entry.task);
        let begun_again = self.tasks.get(&entry.task).is_some_and(|story| story.begun_again);
        let times = self.decided.entry((host, entry.task.clone())).or_default();
        *times += 1;
        if *times > 1 + self.crashes[host] && !begun_again {
            let (times, task) = (*times, &entry.task);
            self.wrong(format!("node {host} decided on {task} {times} times"));
        }
        if entry.decision.outcome != PolicyOutcome::Allow {
            self.wrong(format!(
                "node {host} did not let {} in, and has no rule against it",
                entry.task
            ));
        }
    }

    /// A node lets a task in that may have ended there before.
    fn begin_again(&mut self, task: &str) {
        let Some(story) = self.tasks.get_mut(task) else {
            return;
        };
        let had_ended = story.observed[TARGET].status.is_some_and(Status::is_terminal);
        if had_ended && self.forgotten == Some(story.origin) {
            story.begun_again = true;
            story.observed[TARGET] = Observation::default();
            (story.claim, story.doubtful) = (None, None);
        }
    }

    /// The first thing that went wrong stands.
    pub(super) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert_with(|| what.into());
    }

    pub(super) fn ask(&mut self) -> CallId {
        self.settled(CallFate::Asked)
    }

    pub(super) fn settled(&mut self, fate: CallFate) -> CallId {
        self.fates.push(fate);
        self.fates.len() - 1
    }

    pub(super) fn settle(&mut self, call: CallId, fate: CallFate) {
        self.fates[call] = fate;
    }

    pub(super) fn fate(&self, call: CallId) -> CallFate {
        self.fates[call]
    }

    /// What is known of something that several calls tried.
    pub(super) fn fate_of(&self, calls: &[CallId]) -> CallFate {
        let fates = || calls.iter().map(|call| self.fates[*call]);
        if fates().any(|fate| fate == CallFate::Done) {
            CallFate::Done
        } else if fates().all(|fate| fate == CallFate::Refused) {
            CallFate::Refused
        } else {
            CallFate::Unknown
        }
    }

    /// An id that no message had before: its first letter tells who speaks.
    pub(super) fn message_id(&mut self, who: char) -> String {
        self.messages += 1;
        format!("{who}{}", self.messages)
    }

    /// Somebody says something about a task, or tries to.
    pub(super) fn say(&mut self, task: &str, by: usize, id: &str, call: CallId) {
        if let Some(story) = self.tasks.get_mut(task) {
            match story.said[by].iter_mut().find(|said| said.id == id) {
                Some(said) => said.calls.push(call),
                None => story.said[by].push(SaidMessage {
                    id: id.to_owned(),
                    calls: vec![call],
                }),
            }
        }
    }

    /// A new task was sent.
    pub(super) fn tell(
        &mut self,
        id: &str,
        [origin, target]: [usize; 2],
        hours: [u64; 2],
        message: &str,
        call: CallId,
    ) {
        let order = self.tasks.values().filter(|story| story.origin == origin).count();
        let story = TaskHistory {
            origin,
            target,
            order,
            deadline: None,
            said: [
                vec![SaidMessage {
                    id: message.to_owned(),
                    calls: vec![call],
                }],
                Vec::new(),
            ],
            endings: Vec::new(),
            observed: Default::default(),
            hours: hours.map(|hour| (hour, hour)),
            claim: None,
            claiming: Vec::new(),
            doubtful: None,
            abandoned: false,
            begun_again: false,
            crossed: false,
            streams: Vec::new(),
        };
        self.tasks.insert(id.to_owned(), story);
    }

    /// A node shows a task whole.
    pub(super) fn observe(&mut self, host: usize, task: &Task, where_from: &str) {
        let sight = sight_of(task);
        let Some(story) = self.tasks.get(&task.id) else {
            return self.wrong(format!("{} was never sent ({where_from})", task.id));
        };
        let side = story.side_of(host);
        let problem = self.problem_with(story, side, &sight);
        if let Some(problem) = problem {
            return self.wrong(format!("{} at node {host} ({where_from}): {problem}", task.id));
        }
        if let Some(story) = self.tasks.get_mut(&task.id) {
            story.observed[side] = sight;
        }
    }

    fn problem_with(&self, story: &TaskHistory, side: usize, new: &Observation) -> Option<String> {
        let old = &story.observed[side];
        let status = new.status.filter(|_| !story.begun_again)?;
        if let Some(problem) = follows(old.status, status) {
            return Some(problem);
        }
        if !new.messages.starts_with(&old.messages) {
            return Some(format!(
                "messages were {:?} and are {:?}",
                old.messages, new.messages
            ));
        }
        if old.settled {
            if old.messages != new.messages {
                return Some(format!("it had ended, and then came {:?}", new.messages));
            }
            if !same_results(&old.results, &new.results) {
                return Some(format!(
                    "results were {:?} and are {:?}",
                    old.results, new.results
                ));
            }
        }
        self.problem_with_messages(story, &new.messages, status)
    }

    fn problem_with_messages(
        &self,
        story: &TaskHistory,
        messages: &[String],
        status: Status,
    ) -> Option<String> {
        let mut heard = [0, 0];
        for (at, id) in messages.iter().enumerate() {
            let known = (0..2).find_map(|by| {
                let position = story.said[by].iter().position(|said| said.id == *id)?;
                Some((by, position))
            });
            let Some((by, position)) = known else {
                if at + 1 == messages.len() && status.is_terminal() && at > 0 {
                    continue; // A node's own words on why it ended the task.
                }
                return Some(format!("nobody said {id}: {messages:?}"));
            };
            if position < heard[by] {
                return Some(format!("{id} came twice or out of order: {messages:?}"));
            }
            heard[by] = position + 1;
            if self.fate_of(&story.said[by][position].calls) == CallFate::Refused {
                return Some(format!("{id} was refused and is there: {messages:?}"));
            }
        }
        None
    }

    /// A subscriber could see a change.
    pub(super) fn see_change(&mut self, host: usize, change: &TaskChange) {
        let Some(story) = self.tasks.get_mut(&change.task_id) else {
            return self.wrong(format!("{} was never sent and changes", change.task_id));
        };
        let side = story.side_of(host);
        let problem = follows(story.observed[side].status, change.status);
        story.observed[side].status = Some(change.status);
        if let Some(problem) = problem.filter(|_| !story.begun_again) {
            self.wrong(format!("{} at node {host}: {problem}", change.task_id));
        }
    }

    /// An agent calls to say that it works on a task: the node may know it long before the agent is answered.
    pub(super) fn claims(&mut self, task: &str, call: CallId) {
        if let Some(story) = self.tasks.get_mut(task) {
            story.claiming.push(call);
        }
    }

    /// An agent was answered OK that it works on a task. `heard`: messages of the originator that the
    /// node had then.
    pub(super) fn claimed(&mut self, task: &str, connection: u64, heard: usize, time: Duration) {
        let grace = self.grace;
        let lost_since = self.gone.get(&connection).copied();
        let Some(story) = self.tasks.get_mut(task) else {
            return;
        };
        if let Some(old) = story.claim {
            story.abandoned |= old
                .lost_since
                .is_some_and(|since| time.checked_sub(since).unwrap() >= grace);
            if old.connection != connection && old.lost_since.is_none() && heard <= old.heard {
                let (first, second) = (old.connection, connection);
                return self.wrong(format!("{task} is claimed by {first} and by {second}"));
            }
        }
        story.claim = Some(ObservedClaim {
            connection,
            heard,
            lost_since,
        });
    }

    /// An agent was answered OK that it streams an artifact: that claims a task that nobody works on.
    pub(super) fn streams(&mut self, task: &str, connection: u64, heard: usize, time: Duration) {
        let claim = self.tasks.get(task).and_then(|story| story.claim);
        if claim.is_none_or(|claim| claim.lost_since.is_some() || heard > claim.heard) {
            self.claimed(task, connection, heard, time);
        }
    }

    /// True when the task's latest claim is not the one of this connection.
    pub(super) fn is_claimed_by_other(&self, task: &str, connection: Option<u64>) -> bool {
        let claim = self.tasks.get(task).and_then(|story| story.claim);
        claim.is_some_and(|claim| Some(claim.connection) != connection)
    }

    /// A task goes to a listener.
    pub(super) fn hand_over(&mut self, host: usize, task: &Task) {
        self.observe(host, task, "handed over");
        // A crash may have taken the line with it.
        if self.crashes[host] == 0 && !self.decided.contains_key(&(host, task.id.clone())) {
            self.wrong(format!("{} was handed over, and nobody let it in", task.id));
        }
        let heard = from_originator(task);
        let claim = self.tasks.get(&task.id).and_then(|story| story.claim);
        if !task.status.is_terminal() && claim.is_some_and(|claim| heard <= claim.heard) {
            self.wrong(format!("{} was claimed and is handed over as new", task.id));
        }
    }

    /// An agent's connection is gone.
    pub(super) fn connection_gone(&mut self, host: usize, connection: u64, time: Duration) {
        self.gone.insert(connection, time);
        for story in self.tasks.values_mut().filter(|story| story.target == host) {
            if let Some(claim) = story
                .claim
                .as_mut()
                .filter(|claim| claim.connection == connection)
            {
                claim.lost_since.get_or_insert(time);
            }
        }
    }

    /// A node starts: no agent of before is there.
    pub(super) fn booted(&mut self, host: usize, time: Duration) {
        for story in self.tasks.values_mut().filter(|story| story.target == host) {
            if let Some(claim) = &mut story.claim {
                claim.lost_since = Some(time);
            }
            story.doubtful = story.doubtful.map(|_| time);
        }
        self.idle[host] = Some(time);
    }

    /// An agent may have claimed a task: it got no answer.
    pub(super) fn may_be_claimed(&mut self, task: &str, time: Duration) {
        if let Some(story) = self.tasks.get_mut(task) {
            story.doubtful = Some(time);
        }
    }

    /// Whether agents listen at a node.
    pub(super) fn listened(&mut self, host: usize, somebody: bool, time: Duration) {
        self.note_absence(host, time);
        match (somebody, self.idle[host]) {
            (true, _) => self.idle[host] = None,
            (false, None) => self.idle[host] = Some(time),
            _ => {}
        }
    }

    /// Remembers which tasks were without an agent for long enough to be given up. To be asked before
    /// anything that ends an absence.
    pub(super) fn note_absence(&mut self, host: usize, time: Duration) {
        let grace = self.grace;
        let long = |since: Option<Duration>| since.is_some_and(|since| time.saturating_sub(since) >= grace);
        let idle = long(self.idle[host]);
        for story in self.tasks.values_mut().filter(|story| story.target == host) {
            story.claiming.retain(|call| self.fates[*call] == CallFate::Asked);
            let claimed = story.claim.is_some() || !story.claiming.is_empty();
            let lost = story.claim.is_some_and(|claim| long(claim.lost_since)) || (idle && claimed);
            story.abandoned |= lost || story.doubtful.is_some_and(|since| idle || long(Some(since)));
        }
    }

    /// What a node's calendar shows.
    pub(super) fn hour(&mut self, host: usize, unix: u64) {
        for story in self.tasks.values_mut() {
            for (side, at) in [(ORIGIN, story.origin), (TARGET, story.target)] {
                if at == host {
                    let (low, high) = story.hours[side];
                    story.hours[side] = (low.min(unix), high.max(unix));
                }
            }
        }
    }
}

/// Messages of the originator among those of a task.
pub(super) fn from_originator(task: &Task) -> usize {
    let by = |said: &&std::sync::Arc<agentanycast_proto::v1::Message>| said.message_id.starts_with('C');
    task.messages.iter().filter(by).count()
}

fn sight_of(task: &Task) -> Observation {
    let shown = |result: &Output| match result {
        Output::Whole(artifact) => ObservedResult::Whole(super::text_in(&artifact.parts)),
        Output::Streamed(streamed) => ObservedResult::Streamed(streamed.outcome, streamed.bytes),
    };
    Observation {
        status: Some(task.status),
        messages: task.messages.iter().map(|said| said.message_id.clone()).collect(),
        results: task
            .results
            .iter()
            .map(|result| (result.id().to_owned(), shown(result)))
            .collect(),
        settled: task.status.is_terminal(),
    }
}

/// Why a side cannot show `new` after `old`; what lay between may have gone unseen.
fn follows(old: Option<Status>, new: Status) -> Option<String> {
    let old = old.unwrap_or(Status::Submitted);
    let wrong = match (old, new) {
        (old, new) if old == new => false,
        (old, _) if old.is_terminal() => true,
        (old, Status::Rejected) => old != Status::Submitted,
        (_, new) => new == Status::Submitted,
    };
    wrong.then(|| format!("it was {old} and is {new}"))
}

/// The same, but for streams that were still running when the task ended.
fn same_results(old: &[(String, ObservedResult)], new: &[(String, ObservedResult)]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|((old_id, old), (new_id, new))| {
            old_id == new_id
                && (old == new
                    || matches!(
                        (old, new),
                        (ObservedResult::Streamed(None, _), ObservedResult::Streamed(..))
                    ))
        })
}
