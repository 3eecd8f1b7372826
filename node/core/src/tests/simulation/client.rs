//! The client at a node: sends tasks, with keys or without, looks after them, answers questions, follows
//! changes, and sometimes cancels. A call without an answer it tries again when that is safe.

use std::collections::BTreeMap;

use super::{
    daemon::{CallAnswer, CallValue},
    history::{CallFate, ORIGIN, ReportedEnd, TARGET},
    pending_call::PendingCall,
    plan::RunPlan,
    rng::SimRng,
    simulator::Simulator,
};
use crate::{
    SendTask, TaskQuery,
    task::{Role, Status, Task},
    tests::harness::text,
    transaction::{EngineError, TaskChange},
};

/// Something that the client wants done.
#[derive(Default)]
struct ClientTask {
    target: usize,
    key: Option<String>,
    message: Option<String>,
    deadline_in: Option<u64>,
    cancels: bool,
    id: Option<String>,
    busy: bool,
    /// It has seen the end, or gave up.
    over: bool,
    /// The question that is being answered, with the message and the key of the answer.
    answering: Option<(usize, String, Option<String>)>,
}

#[derive(Default)]
pub(super) struct SimClient {
    tasks: Vec<ClientTask>,
}

/// Somebody who follows a task.
pub(super) struct SimSubscriber {
    task: String,
    status: Status,
    /// Messages that were there at the beginning.
    from: usize,
    said: Vec<String>,
}

impl SimClient {
    pub(super) fn new(dice: &mut SimRng, plan: &RunPlan, at: usize, hosts: usize) -> Self {
        let errand = |dice: &mut SimRng| {
            // Sometimes to itself.
            let target = dice.below(hosts);
            let target = if target == at && !dice.chance(30) {
                (at + 1) % hosts
            } else {
                target
            };
            ClientTask {
                target,
                key: dice.chance(70).then(|| format!("key-{at}-{}", dice.next())),
                message: None,
                deadline_in: dice
                    .chance(plan.deadlines)
                    .then(|| 2000 + dice.below(60_000) as u64),
                cancels: dice.chance(plan.cancels),
                id: None,
                busy: false,
                over: false,
                answering: None,
            }
        };
        let count = 1 + dice.below(7);
        Self {
            tasks: (0..count).map(|_| errand(dice)).collect(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.tasks.iter().all(|errand| errand.over)
    }

    pub(super) fn unanswered(&mut self, errand: usize, fate: CallFate) {
        let errand = &mut self.tasks[errand];
        errand.busy = false;
        // Without a key it would be another task.
        if errand.id.is_none() && errand.key.is_none() && fate == CallFate::Unknown {
            errand.over = true;
        }
    }
}

impl Simulator {
    pub(super) fn client_acts(&mut self, at: usize) {
        let count = self.nodes[at].client.tasks.len();
        let number = self.rng.below(count);
        self.run_errand(at, number);
    }

    pub(super) fn client_acts_on_all(&mut self, at: usize) {
        self.client_takes_up(at);
        for number in 0..self.nodes[at].client.tasks.len() {
            self.run_errand(at, number);
        }
    }

    /// Takes up questions about tasks whose sending got no answer, as a client does by listing them.
    fn client_takes_up(&mut self, at: usize) {
        let waiting = self.nodes[at].daemon.core.as_mut().map(|core| {
            let asking = TaskQuery {
                statuses: vec![Status::InputRequired],
                ..TaskQuery::default()
            };
            let tasks = core
                .tasks_mut()
                .list(&asking, None, 100)
                .unwrap_or_default()
                .tasks;
            let mine = tasks
                .into_iter()
                .filter(|task| !matches!(task.role, Role::Assignee(_)));
            mine.map(|task| task.id).collect::<Vec<_>>()
        });
        for id in waiting.unwrap_or_default() {
            let errands = &mut self.nodes[at].client.tasks;
            if !errands.iter().any(|errand| errand.id.as_ref() == Some(&id)) {
                errands.push(ClientTask {
                    id: Some(id),
                    ..ClientTask::default()
                });
            }
        }
    }

    fn run_errand(&mut self, at: usize, number: usize) {
        let errand = &self.nodes[at].client.tasks[number];
        if errand.busy || errand.over {
            return;
        }
        let Some(id) = errand.id.clone() else {
            return self.send(at, number);
        };
        let cancels = errand.cancels && !self.healing;
        self.nodes[at].client.tasks[number].busy = true;
        if cancels && self.rng.chance(10) {
            self.cancel(at, number, &id);
        } else if self.rng.chance(20) {
            self.call(at, PendingCall::Subscribe { errand: number }, |core, _| {
                given(core.task(&id))
            });
        } else {
            self.call(at, PendingCall::Look { errand: number }, |core, _| {
                given(core.task(&id))
            });
        }
    }

    fn send(&mut self, at: usize, number: usize) {
        let message = self.nodes[at].client.tasks[number].message.clone();
        let message = message.unwrap_or_else(|| self.history.message_id('C'));
        let now = self.nodes[at].daemon.now(self.time);
        let errand = &mut self.nodes[at].client.tasks[number];
        errand.busy = true;
        errand.message = Some(message.clone());
        let (target, key) = (errand.target, errand.key.clone().unwrap_or_default());
        let mut metadata = BTreeMap::new();
        let deadline = errand.deadline_in.map(|after| now.unix + after);
        metadata.extend(deadline.map(|at| ("deadline".to_owned(), rfc3339(at))));
        let request = SendTask {
            peer: Some(self.peer_of(target)),
            message: text(&message, "do it"),
            idempotency_key: key,
            metadata,
            ..SendTask::default()
        };
        let mut sent = None;
        let (call, taken) = self.begin_call(at, PendingCall::Send { errand: number }, |core, now| {
            let task = core.send_task(now, request)?;
            sent = Some(task.clone());
            Ok(CallValue::Task(Box::new(task)))
        });
        // An agent here is handed the task at once, so what was sent has to be known before.
        if let Some(task) = sent {
            self.note(|| format!("node {at}: sends {} to {target}", task.id));
            if self.history.tasks.contains_key(&task.id) {
                self.history.say(&task.id, ORIGIN, &message, call);
            } else {
                let hours = [at, target].map(|host| self.hour_at(host));
                self.history.tell(&task.id, [at, target], hours, &message, call);
                if let Some(story) = self.history.tasks.get_mut(&task.id) {
                    story.deadline = deadline;
                }
            }
        }
        self.end_call(at, call, taken);
    }

    fn cancel(&mut self, at: usize, number: usize, id: &str) {
        self.note(|| format!("node {at}: the client cancels {id}"));
        let call = self.call(at, PendingCall::Cancel { errand: number }, |core, now| {
            given(core.cancel(now, id))
        });
        if let Some(story) = self.history.tasks.get_mut(id) {
            let by = if story.is_own() { TARGET } else { ORIGIN };
            story.endings.push(ReportedEnd {
                by,
                status: Status::Canceled,
                call,
                results: Vec::new(),
            });
        }
    }

    pub(super) fn client_hears(&mut self, at: usize, number: usize, what: &PendingCall, answer: CallAnswer) {
        self.nodes[at].client.tasks[number].busy = false;
        match answer {
            Ok(CallValue::Task(task)) => self.client_sees(at, number, what, &task),
            Ok(_) => {}
            Err(error) => self.client_is_refused(at, number, what, &error),
        }
    }

    fn client_sees(&mut self, at: usize, number: usize, what: &PendingCall, task: &Task) {
        self.history.observe(at, task, "shown to its client");
        let errand = &mut self.nodes[at].client.tasks[number];
        match what {
            PendingCall::Send { .. } => {
                let known = errand.id.replace(task.id.clone());
                if known.is_some_and(|known| known != task.id) {
                    self.history.wrong("a key names two tasks");
                }
                return;
            }
            PendingCall::Subscribe { .. } => {
                let from = task.messages.len();
                self.nodes[at].subscribers.push(SimSubscriber {
                    task: task.id.clone(),
                    status: task.status,
                    from,
                    said: Vec::new(),
                });
            }
            PendingCall::Cancel { .. } if task.status != Status::Canceled => {
                let status = task.status;
                self.history
                    .wrong(format!("{} was canceled and is {status}", task.id));
            }
            _ => {}
        }
        if task.status.is_terminal() {
            self.nodes[at].client.tasks[number].over = true;
        } else if task.status == Status::InputRequired && (self.healing || self.rng.chance(70)) {
            self.answer(at, number, task);
        }
    }

    fn answer(&mut self, at: usize, number: usize, task: &Task) {
        let questions = task
            .messages
            .iter()
            .filter(|said| said.message_id.starts_with('Q'))
            .count();
        let known = self.nodes[at].client.tasks[number].answering.clone();
        let known = known.filter(|(question, _, key)| *question == questions && key.is_some());
        let (_, message, key) = known.unwrap_or_else(|| {
            let message = self.history.message_id('C');
            let key = self.rng.chance(50).then(|| format!("answer-{message}"));
            (questions, message, key)
        });
        let errand = &mut self.nodes[at].client.tasks[number];
        errand.busy = true;
        errand.answering = Some((questions, message.clone(), key.clone()));
        let request = SendTask {
            task_id: task.id.clone(),
            message: text(&message, "yes"),
            idempotency_key: key.unwrap_or_default(),
            ..SendTask::default()
        };
        let call = self.call(at, PendingCall::Answer { errand: number }, |core, now| {
            given(core.send_task(now, request))
        });
        self.note(|| format!("node {at}: the client answers {} with {message}", task.id));
        let by = ORIGIN;
        self.history.say(&task.id, by, &message, call);
    }

    fn client_is_refused(&mut self, at: usize, number: usize, what: &PendingCall, error: &EngineError) {
        let (tight, forgetful) = (self.plan.tight, self.may_forget(at));
        let allowed = match error {
            EngineError::Exhausted(_) => tight,
            EngineError::NotFound(_) => forgetful,
            // It had ended, or was answered, before.
            EngineError::Precondition(_) => {
                matches!(what, PendingCall::Cancel { .. } | PendingCall::Answer { .. })
            }
            _ => false,
        };
        if !allowed {
            return self.history.wrong(format!("node {at} refused {what:?}: {error}"));
        }
        let errand = &mut self.nodes[at].client.tasks[number];
        match (what, error) {
            (_, EngineError::NotFound(_)) => errand.over = true,
            // Not for ever: what is full stays full while its people wait for each other.
            (PendingCall::Send { .. }, _) if self.healing || self.rng.chance(30) => errand.over = true,
            _ => {}
        }
    }

    pub(super) fn subscribers_see(&mut self, at: usize, change: &TaskChange) {
        let mut problem = None;
        for follower in self.nodes[at]
            .subscribers
            .iter_mut()
            .filter(|follower| follower.task == change.task_id && !follower.status.is_terminal())
        {
            // An artifact began or ended: nothing else is new.
            let same = follower.status == change.status && change.message.is_none();
            if !same && !may_come_next(follower.status, change.status) {
                problem = Some(format!("{} after {}", change.status, follower.status));
            }
            follower.status = change.status;
            if let Some(said) = &change.message {
                if follower.said.contains(&said.message_id) {
                    problem = Some(format!("{} twice", said.message_id));
                }
                follower.said.push(said.message_id.clone());
            }
        }
        if let Some(problem) = problem {
            self.history.wrong(format!(
                "{}: a subscriber at node {at} sees {problem}",
                change.task_id
            ));
        }
    }

    /// A subscriber that was there to the end has seen all that was said, and the end.
    pub(super) fn check_subscribers(&mut self, at: usize, task: &Task) {
        let problems: Vec<String> = self.nodes[at]
            .subscribers
            .iter()
            .filter(|follower| follower.task == task.id)
            .filter_map(|follower| {
                let said: Vec<&str> = task.messages[follower.from..]
                    .iter()
                    .map(|said| said.message_id.as_str())
                    .filter(|id| !id.starts_with('C'))
                    .collect();
                let complete = follower.status == task.status && said == follower.said;
                (!complete).then(|| {
                    format!(
                        "{} is {} with {said:?}; a subscriber at node {at} saw {} with {:?}",
                        task.id, task.status, follower.status, follower.said
                    )
                })
            })
            .collect();
        for problem in problems {
            self.history.wrong(problem);
        }
    }
}

fn given(task: Result<Task, EngineError>) -> CallAnswer {
    task.map(|task| CallValue::Task(Box::new(task)))
}

/// The contract's table for what a subscriber may see next; ends on a node's authority come from anywhere.
fn may_come_next(old: Status, new: Status) -> bool {
    use Status::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
    match old {
        Submitted => new != Submitted,
        Working => matches!(new, Working | InputRequired | Completed | Failed | Canceled),
        // An agent that ends a waiting task works on it first, in the same step.
        InputRequired => matches!(new, Working | Completed | Failed | Canceled),
        Completed | Failed | Canceled | Rejected => false,
    }
}

fn rfc3339(unix_ms: u64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms as i64)
        .unwrap_or_default()
        .to_string()
}
