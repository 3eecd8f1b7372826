//! The agents at a node: they listen, claim, report, ask, stream, complete, fail or cancel. They go away
//! for a while or for ever. What a call without an answer did they look up before they go on.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use agentanycast_proto::v1::StreamStart;

use super::{
    daemon::{CallAnswer, CallValue},
    history::{CallFate, ReportedEnd, TARGET, from_originator},
    pending_call::{AgentNotice, PendingCall},
    plan::RunPlan,
    rng::SimRng,
    simulator::Simulator,
};
use crate::{
    clock::Now,
    coordinator::Coordinator,
    task::{Status, Task},
    tests::harness::{artifact, text},
    transaction::EngineError,
};

/// Tasks that a listener is sent ahead of what it has read (contract: bounded; the node's own figure).
const UNREAD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentStep {
    Progress,
    Ask,
    Stream(usize),
    Complete,
    Fail,
    Cancel,
}

/// A step on its way.
#[derive(Clone, Debug)]
pub(super) struct StepCall {
    pub(super) agent: usize,
    pub(super) life: u64,
    pub(super) task: String,
    pub(super) step: AgentStep,
    message: String,
    connection: u64,
    heard: usize,
}

struct AgentJob {
    steps: Vec<AgentStep>,
    done: usize,
    busy: bool,
    over: bool,
    /// Messages of the originator that it has read.
    heard: usize,
    /// Questions it has asked.
    asked: usize,
    impatient: bool,
    /// The message of a step whose call got no answer.
    unsure: Option<String>,
}

#[derive(Default)]
pub(super) struct SimAgent {
    /// Grows with each new process.
    pub(super) life: u64,
    connection: Option<u64>,
    listener: Option<u64>,
    unread: VecDeque<Arc<Task>>,
    jobs: BTreeMap<String, AgentJob>,
}

impl SimAgent {
    /// Its node went down.
    pub(super) fn lose_node(&mut self) {
        (self.connection, self.listener) = (None, None);
        self.unread.clear();
    }

    fn job(&mut self, life: u64, task: &str) -> Option<&mut AgentJob> {
        self.jobs.get_mut(task).filter(|_| self.life == life)
    }
}

impl StepCall {
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl AgentJob {
    fn new(dice: &mut SimRng, plan: &RunPlan, heard: usize) -> Self {
        // Where several agents listen, each claims a task before it works on it.
        let first = usize::from(plan.agents > 1);
        let mut steps: Vec<AgentStep> = (0..first + dice.below(4)).map(|_| AgentStep::Progress).collect();
        for _ in 0..2 {
            if dice.chance(15) {
                steps.push(AgentStep::Ask);
                steps.extend((0..dice.below(3)).map(|_| AgentStep::Progress));
            }
        }
        if dice.chance(plan.streams) {
            steps.push(AgentStep::Stream(dice.below(100)));
        }
        steps.push(match dice.below(100) {
            0..6 => AgentStep::Fail,
            6..10 => AgentStep::Cancel,
            _ => AgentStep::Complete,
        });
        Self {
            steps,
            done: 0,
            busy: false,
            over: false,
            heard,
            asked: heard - 1,
            impatient: dice.chance(plan.impatience),
            unsure: None,
        }
    }

    /// The next step, unless it has to wait for something.
    fn next(&self) -> Option<AgentStep> {
        if self.busy || self.over {
            return None;
        }
        let waits = self.asked >= self.heard && !self.impatient;
        self.steps.get(self.done).copied().filter(|_| !waits)
    }

    fn step_done(&mut self, step: AgentStep) {
        self.done += 1;
        self.asked += usize::from(step == AgentStep::Ask);
        self.over = self.done == self.steps.len();
    }
}

impl Simulator {
    /// Agents that are away come back.
    pub(super) fn agents_come(&mut self, at: usize) {
        for agent in 0..self.plan.agents {
            if !self.nodes[at].daemon.is_running() {
                return;
            }
            if self.nodes[at].agents[agent].listener.is_none() && (self.healing || self.rng.chance(70)) {
                let (connection, listener) = (self.number(), self.number());
                let coming = &mut self.nodes[at].agents[agent];
                coming.connection.get_or_insert(connection);
                coming.listener = Some(listener);
                self.note(|| format!("node {at}: agent {agent} listens as {listener}"));
                self.history.listened(at, true, self.time);
                self.call(at, PendingCall::Nobody, |core, now| {
                    core.attach(now, listener).map(|()| CallValue::Nothing)
                });
            }
        }
    }

    /// An agent dies, loses its connection, or only stops listening.
    pub(super) fn agent_goes(&mut self, at: usize) {
        let which = self.rng.below(self.plan.agents);
        let how = self.rng.below(3);
        self.note(|| format!("node {at}: agent {which} goes ({how})"));
        let leaving = &mut self.nodes[at].agents[which];
        let mut left: Vec<AgentNotice> = Vec::new();
        let listener = leaving.listener.take();
        left.extend(listener.map(if how == 0 {
            AgentNotice::End
        } else {
            AgentNotice::Detach
        }));
        leaving.unread.clear();
        if how < 2 {
            left.extend(leaving.connection.take().map(AgentNotice::Gone));
        }
        if how == 0 {
            leaving.life += 1;
            leaving.jobs.clear();
            self.break_off_streams_of(at, which);
        }
        if self.rng.chance(50) {
            left.reverse();
        }
        self.nodes[at].agent_notices.extend(left);
    }

    /// The node notices something of an agent that went.
    pub(super) fn handle_agent_notice(&mut self, at: usize) -> bool {
        if !self.nodes[at].daemon.is_running() {
            return false;
        }
        match self.nodes[at].agent_notices.pop_front() {
            Some(AgentNotice::Gone(connection)) => {
                self.history.connection_gone(at, connection, self.time);
                self.input(at, |core, now| {
                    core.on_connection_closed(now, connection);
                    Ok(())
                });
            }
            Some(errand @ (AgentNotice::Detach(listener) | AgentNotice::End(listener))) => {
                let others = self.nodes[at].agents.iter().any(|agent| agent.listener.is_some());
                let more = self.nodes[at]
                    .agent_notices
                    .iter()
                    .any(|errand| matches!(errand, AgentNotice::Detach(_) | AgentNotice::End(_)));
                if !others && !more {
                    self.history.listened(at, false, self.time);
                }
                let has_ended = matches!(errand, AgentNotice::End(_));
                self.call(at, PendingCall::Nobody, move |core, now| {
                    let done = if has_ended {
                        core.agent_ended(now, listener, 0)
                    } else {
                        core.detach(now, listener)
                    };
                    done.map(|()| CallValue::Nothing)
                });
            }
            None => return false,
        }
        true
    }

    /// The node sends a task to a listener.
    pub(super) fn hand_over(&mut self, at: usize, listener: u64, task: Arc<Task>) {
        self.note(|| {
            let (id, status) = (&task.id, task.status);
            format!("node {at}: {id}, {status}, goes to listener {listener}")
        });
        let story = self.history.tasks.get(&task.id);
        if story.is_some_and(|story| story.begun_again && story.claim.is_none()) {
            for agent in &mut self.nodes[at].agents {
                agent.jobs.remove(&task.id); // It is another task for them, too.
            }
        }
        self.history.hand_over(at, &task);
        let agents = &mut self.nodes[at].agents;
        if let Some(agent) = agents.iter_mut().find(|agent| agent.listener == Some(listener)) {
            agent.unread.push_back(task);
            if agent.unread.len() > UNREAD {
                self.history
                    .wrong(format!("listener {listener} is sent more than it reads"));
            }
        }
    }

    pub(super) fn agents_read(&mut self, at: usize, most: usize) {
        for agent in 0..self.plan.agents {
            for _ in 0..most {
                let reading = &mut self.nodes[at].agents[agent];
                let (Some(task), Some(listener)) = (reading.unread.pop_front(), reading.listener) else {
                    break;
                };
                self.read(at, agent, &task);
                self.call(at, PendingCall::Nobody, |core, now| {
                    core.credit(now, listener, 1).map(|()| CallValue::Nothing)
                });
            }
        }
    }

    fn read(&mut self, at: usize, agent: usize, task: &Task) {
        let heard = from_originator(task);
        let (dice, plan) = (&mut self.rng, &self.plan);
        let mut fresh = || AgentJob::new(dice, plan, heard.max(1));
        let job = self.nodes[at].agents[agent]
            .jobs
            .entry(task.id.clone())
            .or_insert_with(&mut fresh);
        if job.over && heard > job.heard {
            *job = fresh(); // It was left to somebody else, and is free again.
        }
        job.heard = job.heard.max(heard);
        job.over |= task.status.is_terminal();
    }

    pub(super) fn agents_act(&mut self, at: usize) {
        for agent in 0..self.plan.agents {
            let acting = &self.nodes[at].agents[agent];
            if acting.connection.is_none() {
                continue;
            }
            let ready: Vec<&String> = acting
                .jobs
                .iter()
                .filter(|(_, job)| job.next().is_some())
                .map(|(id, _)| id)
                .collect();
            if ready.is_empty() {
                continue;
            }
            let id = ready[self.rng.below(ready.len())].clone();
            self.act(at, agent, &id);
        }
    }

    pub(super) fn agents_act_on_all(&mut self, at: usize) {
        for agent in 0..self.plan.agents {
            for id in self.nodes[at].agents[agent]
                .jobs
                .keys()
                .cloned()
                .collect::<Vec<_>>()
            {
                self.act(at, agent, &id);
            }
        }
    }

    fn act(&mut self, at: usize, agent: usize, task: &str) {
        let acting = &self.nodes[at].agents[agent];
        let (life, Some(connection)) = (acting.life, acting.connection) else {
            return;
        };
        let Some(step) = acting.jobs.get(task).and_then(AgentJob::next) else {
            return;
        };
        let unsure = self.nodes[at].agents[agent].jobs[task].unsure.is_some();
        if let Some(job) = self.nodes[at].agents[agent].job(life, task) {
            job.busy = true;
        }
        if unsure && (step != AgentStep::Progress || self.rng.chance(70)) {
            let what = PendingCall::Check {
                agent,
                life,
                task: task.to_owned(),
            };
            self.call(at, what, |core, _| {
                core.task(task).map(|task| CallValue::Task(Box::new(task)))
            });
            return;
        }
        let letter = if step == AgentStep::Ask { 'Q' } else { 'P' };
        let stepping = StepCall {
            agent,
            life,
            task: task.to_owned(),
            step,
            message: self.history.message_id(letter),
            connection,
            heard: self.heard_by_node(at, task),
        };
        self.step(at, &stepping);
    }

    /// What nobody but the checker knows: how many messages of the originator the node has by now.
    fn heard_by_node(&mut self, at: usize, task: &str) -> usize {
        let core = self.nodes[at].daemon.core.as_mut();
        let task = core.and_then(|core| core.task(task).ok());
        task.as_ref().map_or(0, from_originator)
    }

    fn step(&mut self, at: usize, stepping: &StepCall) {
        let StepCall {
            task, step, message, ..
        } = stepping;
        let results = self.results_of(at, stepping);
        if *step == AgentStep::Ask || !matches!(step, AgentStep::Stream(_)) {
            self.note(|| format!("node {at}: agent {}: {task}: {step:?} {message}", stepping.agent));
        }
        let given = results.clone();
        let call = self.call(at, PendingCall::Step(stepping.clone()), |core, now| {
            take_step(core, now, stepping, &given)
        });
        let ends = match step {
            AgentStep::Complete => Some(Status::Completed),
            AgentStep::Fail => Some(Status::Failed),
            AgentStep::Cancel => Some(Status::Canceled),
            _ => None,
        };
        if matches!(step, AgentStep::Progress | AgentStep::Ask | AgentStep::Complete) {
            self.history.say(task, TARGET, message, call);
        }
        if ends.is_none() {
            self.history.claims(task, call);
        }
        if let (Some(status), Some(story)) = (ends, self.history.tasks.get_mut(task)) {
            story.endings.push(ReportedEnd {
                by: TARGET,
                status,
                call,
                results,
            });
        }
        self.note_crossing(stepping);
    }

    /// An agent that does not wait for the answer to its question.
    fn note_crossing(&mut self, stepping: &StepCall) {
        let Some(story) = self.history.tasks.get_mut(&stepping.task) else {
            return;
        };
        let asked = story.said[TARGET]
            .iter()
            .filter(|said| said.id.starts_with('Q'))
            .count();
        if asked >= stepping.heard && stepping.step != AgentStep::Ask {
            story.crossed = true;
        }
    }

    /// What the agent completes the task with: now and then something large.
    fn results_of(&mut self, at: usize, stepping: &StepCall) -> Vec<(String, String)> {
        if stepping.step != AgentStep::Complete {
            return Vec::new();
        }
        let size = if self.rng.chance(3) {
            70_000
        } else {
            self.rng.below(40)
        };
        let mut results = vec![(
            "result".to_owned(),
            format!("{}{}", stepping.message, "x".repeat(size)),
        )];
        results.extend(self.streamed_whole(at, &stepping.task));
        results
    }

    pub(super) fn stepped(&mut self, at: usize, stepping: &StepCall, answer: CallAnswer) {
        let StepCall {
            agent,
            life,
            task,
            step,
            connection,
            heard,
            ..
        } = stepping;
        match answer {
            Ok(given) => {
                if matches!(step, AgentStep::Progress | AgentStep::Ask) {
                    self.history.claimed(task, *connection, *heard, self.time);
                }
                if let (AgentStep::Stream(chunks), CallValue::Route(route)) = (step, given) {
                    self.history.streams(task, *connection, *heard, self.time);
                    return self.begin_stream(at, stepping, *chunks, &route);
                }
                if let Some(job) = self.nodes[at].agents[*agent].job(*life, task) {
                    job.busy = false;
                    job.unsure = None;
                    job.step_done(*step);
                }
            }
            Err(error) => self.step_refused(at, stepping, &error),
        }
    }

    /// The step of an artifact has ended, well or not.
    pub(super) fn stream_step_over(&mut self, at: usize, agent: usize, life: u64, task: &str, well: bool) {
        if let Some(job) = self.nodes[at].agents[agent].job(life, task) {
            job.busy = false;
            if well || job.done + 1 < job.steps.len() {
                let step = job.steps[job.done];
                job.step_done(step);
            }
        }
    }

    fn step_refused(&mut self, at: usize, stepping: &StepCall, error: &EngineError) {
        let (tight, forgetful) = (self.plan.tight, self.may_forget(at));
        let lost = matches!(error, EngineError::NotFound(_))
            && self.forget_unclaimed(at, stepping.agent, stepping.life, &stepping.task);
        let allowed = match error {
            EngineError::Exhausted(_) => tight,
            EngineError::NotFound(_) => forgetful || lost,
            EngineError::Precondition(_) => true,
            _ => false,
        };
        if !allowed {
            return self
                .history
                .wrong(format!("node {at} refused {stepping:?}: {error}"));
        }
        self.note(|| format!("node {at}: refused: {error}"));
        if let Some(job) = self.nodes[at].agents[stepping.agent].job(stepping.life, &stepping.task) {
            job.busy = false;
            match error {
                // Looks what is the matter before it goes on.
                EngineError::Precondition(_) => job.unsure = Some(String::new()),
                EngineError::NotFound(_) => job.over = true,
                _ => job.steps = vec![AgentStep::Fail; job.done + 1],
            }
        }
    }

    /// A crash may take a task back that was handed over and not claimed: it comes again. False: it was claimed, or
    /// is not the agent's.
    fn forget_unclaimed(&mut self, at: usize, agent: usize, life: u64, task: &str) -> bool {
        let agent = &mut self.nodes[at].agents[agent];
        let unclaimed = agent.job(life, task).is_some_and(|job| job.done == 0);
        if unclaimed {
            agent.jobs.remove(task);
        }
        unclaimed
    }

    pub(super) fn step_unanswered(&mut self, at: usize, stepping: &StepCall, fate: CallFate) {
        if fate == CallFate::Unknown {
            self.history.may_be_claimed(&stepping.task, self.time);
        }
        if let Some(job) = self.nodes[at].agents[stepping.agent].job(stepping.life, &stepping.task) {
            job.busy = false;
            if fate == CallFate::Unknown {
                job.unsure = Some(stepping.message.clone());
            }
        }
    }

    pub(super) fn check_unanswered(&mut self, at: usize, agent: usize, life: u64, task: &str) {
        if let Some(job) = self.nodes[at].agents[agent].job(life, task) {
            job.busy = false;
        }
    }

    /// The agent learns how its task stands, after a call that failed or got no answer.
    pub(super) fn checked(&mut self, at: usize, agent: usize, life: u64, id: &str, answer: CallAnswer) {
        let forgetful = self.may_forget(at);
        let task = match answer {
            Ok(CallValue::Task(task)) => task,
            // Who asked has forgotten it, or is gone: nobody hears the answer.
            Err(EngineError::NotFound(_)) if self.nodes[at].agents[agent].job(life, id).is_none() => return,
            Err(EngineError::NotFound(_)) if self.forget_unclaimed(at, agent, life, id) => return,
            Err(EngineError::NotFound(_)) if forgetful => {
                if let Some(job) = self.nodes[at].agents[agent].job(life, id) {
                    (job.busy, job.over) = (false, true);
                }
                return;
            }
            Ok(_) => return,
            Err(error) => return self.history.wrong(format!("node {at}: {id}: {error}")),
        };
        self.history.observe(at, &task, "shown to its agent");
        let connection = self.nodes[at].agents[agent].connection;
        let claimed_by_other = self.history.is_claimed_by_other(id, connection);
        let Some(job) = self.nodes[at].agents[agent].job(life, id) else {
            return;
        };
        job.busy = false;
        let unsure = job.unsure.take().unwrap_or_default();
        let Some(step) = job.steps.get(job.done).copied() else {
            return;
        };
        if task.status.is_terminal() || (unsure.is_empty() && claimed_by_other) {
            job.over = true;
        } else if task.messages.iter().any(|said| said.message_id == unsure) {
            job.step_done(step);
        } else if matches!(step, AgentStep::Stream(_)) || (step == AgentStep::Ask && job.impatient) {
            // Its artifact broke off with its node, and another one would have another name; or it has asked
            // and did not wait.
            job.step_done(AgentStep::Progress);
        } else if unsure.is_empty() && !(step == AgentStep::Complete && self.plan.streams > 0) {
            // (An artifact that was still running may have ended since.)
            let status = task.status;
            self.history.wrong(format!(
                "{id} is {status}, and node {at} refuses its agent {step:?}"
            ));
        }
    }
}

fn take_step(
    core: &mut Coordinator,
    now: Now,
    stepping: &StepCall,
    results: &[(String, String)],
) -> CallAnswer {
    let StepCall {
        task: id,
        step,
        message,
        connection,
        ..
    } = stepping;
    let said = text(message, "");
    match step {
        AgentStep::Progress => core.update(now, id, Status::Working, Some(said), *connection)?,
        AgentStep::Ask => core.update(now, id, Status::InputRequired, Some(said), *connection)?,
        AgentStep::Fail => core.fail(now, id, "the agent failed it")?,
        AgentStep::Complete => {
            let results = results
                .iter()
                .map(|(id, content)| artifact(id, content))
                .collect();
            core.complete(now, id, results, Some(said))?;
        }
        AgentStep::Cancel => drop(core.cancel(now, id)?),
        AgentStep::Stream(_) => {
            let start = StreamStart {
                task_id: id.clone(),
                artifact_id: format!("stream-{message}"),
                ..StreamStart::default()
            };
            return core.start_stream(now, &start, *connection).map(CallValue::Route);
        }
    }
    Ok(CallValue::Nothing)
}
