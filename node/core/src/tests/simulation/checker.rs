//! After the faults: the network heals, everybody is there, time goes on until everything has ended; and
//! then every task of the run is held against what was promised (design, "Why nothing is lost").

use std::time::Duration;

use super::{
    history::{CallFate, ORIGIN, ReportedEnd, TARGET, TaskHistory},
    simulator::Simulator,
    text_in,
};
use crate::{
    task::{Output, Status, StreamOutcome, Task},
    wire,
};

/// Steps that healing may take.
const STEPS: usize = 3000;

/// The shortest and the longest of them.
const STEP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How a task stands at one of its sides.
struct FinalState {
    status: Status,
    reason: String,
    messages: Vec<String>,
    whole: Vec<(String, String)>,
    streamed: Vec<(String, Option<StreamOutcome>, u64)>,
}

impl Simulator {
    /// Nothing breaks any more; time passes until everything has ended.
    pub(super) fn heal(&mut self) {
        self.healing = true;
        for node in &self.nodes {
            node.daemon.mend_disk();
        }
        let mut step = STEP.0;
        for _ in 0..STEPS {
            if self.history.wrong.is_some() || self.is_done() {
                return;
            }
            let before = self.moves;
            self.everybody_acts();
            let idle = self.moves - before <= 2 * self.plan.nodes as u64;
            step = if idle { (step * 2).min(STEP.1) } else { STEP.0 };
            self.pass(step);
            self.settle();
        }
        let open = self.what_is_open();
        self.history.wrong(format!("it never came to rest: {open}"));
    }

    fn everybody_acts(&mut self) {
        for at in 0..self.nodes.len() {
            self.boot(at);
        }
        for a in 0..self.hosts() {
            for b in 0..a {
                self.link(a, b);
            }
        }
        while self.net.finish_opening(false) {}
        for at in 0..self.nodes.len() {
            while self.notice(at) {}
            while self.report(at) {}
            while self.handle_agent_notice(at) {}
            self.agents_come(at);
            if self.rng.chance(40) {
                self.client_acts_on_all(at);
            }
            self.agents_read(at, usize::MAX);
            self.agents_act_on_all(at);
            self.streams_act_on_all(at);
            self.end_turn(at);
            self.nodes[at].daemon.write(usize::MAX);
            self.settle();
        }
        self.deployed_acts_on_all();
        self.arrive_all();
        for at in 0..self.nodes.len() {
            self.end_turn(at);
            self.nodes[at].daemon.write(usize::MAX);
            self.settle();
        }
    }

    fn is_done(&self) -> bool {
        let has_deployed = self.deployed.is_some();
        // Reports expire, and the update on a refused task goes with its stream; a deployed peer cannot ask.
        let untold = |id: &str| self.plan.tight || self.ttl_passed(&self.history.tasks[id], TARGET);
        self.deployed
            .as_ref()
            .is_none_or(|deployed| deployed.is_done(untold))
            && self.nodes.iter().all(|node| {
                let core = node.daemon.core.as_ref();
                let at_rest = core.is_some_and(|core| {
                    // A deployed peer acknowledges once; what it lost waits until it expires.
                    core.tasks().index().open() == 0 && (has_deployed || core.queued() == 0)
                });
                at_rest
                    && node.client.is_done()
                    && node.streams.is_quiet()
                    && node.daemon.waiting() == (0, false)
            })
    }

    fn what_is_open(&mut self) -> String {
        let mut lines = Vec::new();
        for at in 0..self.nodes.len() {
            let Some(core) = &mut self.nodes[at].daemon.core else {
                continue;
            };
            let (open, queued) = (core.tasks().index().open(), core.queued());
            lines.push(format!("node {at} has {open} open tasks and {queued} envelopes"));
            for task in core
                .tasks_mut()
                .list(&crate::TaskQuery::default(), None, 100)
                .unwrap_or_default()
                .tasks
            {
                if !task.status.is_terminal() {
                    lines.push(format!("  {} {:?} {}", task.id, task.role, task.status));
                }
            }
            if !self.nodes[at].client.is_done() {
                lines.push("  its client waits".into());
            }
        }
        lines.extend(
            self.deployed
                .as_ref()
                .map(super::legacy_daemon::LegacyDaemon::what_is_open),
        );
        lines.join("\n")
    }

    /// True when a node may have collected ended tasks.
    pub(super) fn may_forget(&self, _at: usize) -> bool {
        self.plan.forgetful || self.plan.tight
    }

    /// What was promised, of each task and from both sides.
    pub(super) fn check(&mut self) {
        for at in 0..self.nodes.len() {
            self.history.note_absence(at, self.time);
        }
        for id in self.history.tasks.keys().cloned().collect::<Vec<_>>() {
            let story = &self.history.tasks[&id];
            if story.begun_again {
                continue;
            }
            let (origin, target, own) = (story.origin, story.target, story.is_own());
            let at_origin = if own { None } else { self.end_at(origin, &id) };
            let at_target = self.end_at(target, &id);
            if self.history.wrong.is_some() {
                return;
            }
            let story = &self.history.tasks[&id];
            let problem = self.problem(story, at_origin.as_ref(), at_target.as_ref());
            if let Some(problem) = problem {
                return self
                    .history
                    .wrong(format!("{id} ({origin} → {target}): {problem}"));
            }
        }
    }

    /// How a task stands at a host. None: it is not there.
    fn end_at(&mut self, at: usize, id: &str) -> Option<FinalState> {
        if at == self.plan.nodes {
            let task = self.deployed.as_ref()?.tasks.get(id)?;
            return Some(FinalState {
                status: task.status,
                reason: String::new(),
                messages: task.messages.clone(),
                whole: task.results.clone(),
                streamed: Vec::new(),
            });
        }
        let task = self.nodes[at].daemon.core.as_mut()?.task(id).ok()?;
        self.history.observe(at, &task, "at the end");
        self.check_subscribers(at, &task);
        let end = end_of(&task);
        self.check_streams(at, id, &end.streamed);
        Some(end)
    }

    fn problem(
        &self,
        story: &TaskHistory,
        origin: Option<&FinalState>,
        target: Option<&FinalState>,
    ) -> Option<String> {
        let sent = self.history.fate_of(&story.said[ORIGIN][0].calls);
        let first = if story.is_own() { target } else { origin };
        if sent == CallFate::Done && first.is_none() && !self.may_forget(story.origin) {
            return Some("it was answered OK, and is not there".into());
        }
        let sides = [(ORIGIN, origin), (TARGET, target)];
        for (side, end) in sides.into_iter().filter_map(|(side, end)| Some((side, end?))) {
            let host = if side == ORIGIN {
                story.origin
            } else {
                story.target
            };
            let problem = self.problem_at(story, side, host, end);
            if problem.is_some() {
                return problem;
            }
        }
        if let Some(problem) = origin.and_then(|end| self.unexplained_at_origin(story, end, target)) {
            return Some(format!("{problem} [origin: {}]", end_text(origin)));
        }
        target
            .and_then(|end| self.unexplained_at_target(story, end, origin))
            .map(|problem| format!("{problem} [origin: {}]", end_text(origin)))
    }

    /// What is wrong with one side by itself.
    fn problem_at(&self, story: &TaskHistory, side: usize, host: usize, end: &FinalState) -> Option<String> {
        if host == self.plan.nodes && side == ORIGIN {
            return None; // Compared with what its assignee's node has, below.
        }
        if !end.status.is_terminal() {
            return Some(format!("at {host} it is {} and nothing more happens", end.status));
        }
        if host == self.plan.nodes {
            return None;
        }
        let unexplained = matches!(end.status, Status::Failed | Status::Rejected) && end.reason.is_empty();
        if unexplained {
            return Some(format!("at {host} it is {} without a reason", end.status));
        }
        let sides = if story.is_own() {
            vec![ORIGIN, TARGET]
        } else {
            vec![side]
        };
        for said in sides.iter().flat_map(|side| &story.said[*side]) {
            // A deployed agent is answered by its originator's node, and told nothing.
            let confirmed = self.history.fate_of(&said.calls) == CallFate::Done;
            if confirmed && !end.messages.contains(&said.id) {
                return Some(format!(
                    "{} was confirmed at {host}, and is lost: {:?}",
                    said.id, end.messages
                ));
            }
        }
        let kept = |ending: &&ReportedEnd| {
            let here = story.is_own() || ending.by == side;
            here && self.history.fate(ending.call) == CallFate::Done
        };
        if let Some(ending) = story.endings.iter().find(kept)
            && ending.status != end.status
        {
            return Some(format!(
                "{} was confirmed at {host}, and it is {}",
                ending.status, end.status
            ));
        }
        None
    }

    /// True when somebody may have ended the task so, from this side.
    fn was_ended(&self, story: &TaskHistory, by: usize, status: Status) -> bool {
        story.endings.iter().any(|ending| {
            let fate = self.history.fate(ending.call);
            (ending.by == by || story.is_own()) && ending.status == status && fate != CallFate::Refused
        })
    }

    fn unexplained_at_origin(
        &self,
        story: &TaskHistory,
        end: &FinalState,
        target: Option<&FinalState>,
    ) -> Option<String> {
        if story.origin == self.plan.nodes {
            return self.unexplained_at_deployed_origin(story, end, target);
        }
        let at_target = target.map(|target| target.status);
        let same = at_target == Some(end.status) || (at_target.is_none() && self.may_forget(story.target));
        let by_agent = same && self.was_ended(story, TARGET, end.status);
        let explained = match end.status {
            Status::Completed => {
                // What came too late for the agent to wait for, and reports that expired, are missing.
                let gaps = story.crossed || self.ttl_passed(story, TARGET);
                let differs = target.and_then(|target| difference(gaps, end, target));
                if differs.is_some() {
                    return differs;
                }
                same && self.completed_with(story, end)
            }
            Status::Canceled => by_agent || self.was_ended(story, ORIGIN, Status::Canceled),
            Status::Failed => {
                by_agent
                    || story.crossed
                    || self.time_ran_out(story, ORIGIN)
                    || (same && (self.time_ran_out(story, TARGET) || self.ttl_passed(story, TARGET)))
                    || (same && story.abandoned)
                    || self.plan.tight
                    || (self.plan.forgetful && at_target.is_none())
            }
            _ => by_agent || self.plan.tight || (self.plan.forgetful && at_target.is_none()),
        };
        (!explained).then(|| {
            format!(
                "its originator sees {}: {}; its agent's node {}",
                end.status,
                end.reason,
                end_text(target)
            )
        })
    }

    fn unexplained_at_target(
        &self,
        story: &TaskHistory,
        end: &FinalState,
        origin: Option<&FinalState>,
    ) -> Option<String> {
        let at_origin = origin.map(|origin| origin.status);
        if story.target == self.plan.nodes {
            return None;
        }
        let gone = at_origin.is_none() && !story.is_own();
        let given_up = at_origin.is_some_and(|status| status.is_terminal() && status != Status::Completed);
        let explained = match end.status {
            Status::Completed => self.completed_with(story, end),
            Status::Canceled => {
                self.was_ended(story, ORIGIN, Status::Canceled)
                    || self.was_ended(story, TARGET, Status::Canceled)
                    || given_up
                    || gone
            }
            Status::Failed => {
                self.was_ended(story, TARGET, Status::Failed)
                    || story.abandoned
                    || self.ttl_passed(story, TARGET) // A question that nobody got.
                    || story
                        .deadline
                        .is_some_and(|deadline| story.hours[TARGET].1 >= deadline)
            }
            _ => false,
        };
        (!explained).then(|| format!("its agent's node has {}: {}", end.status, end.reason))
    }

    /// A deployed originator knows what its assignee's node told it, if it was there to be told.
    fn unexplained_at_deployed_origin(
        &self,
        story: &TaskHistory,
        end: &FinalState,
        target: Option<&FinalState>,
    ) -> Option<String> {
        let Some(target) = target else {
            return None; // It never came, or was refused.
        };
        let same = target.status == end.status
            && (end.status != Status::Completed || same_set(&target.whole, &end.whole));
        // Where refusals are many nobody waits for the last envelope (`is_done`); it must be on its way then.
        let on_its_way = self.plan.tight
            && self.nodes[story.target]
                .daemon
                .core
                .as_ref()
                .is_some_and(|core| core.queued() > 0);
        // What was refused leaves no mark: after a crash the same envelope may be let in (`Coordinator::mark_applied`).
        let refused_before_crash =
            self.plan.tight && end.status == Status::Rejected && self.history.has_crashed(story.target);
        let excused = self.was_ended(story, ORIGIN, Status::Canceled)
            || self.ttl_passed(story, TARGET)
            || on_its_way
            || refused_before_crash;
        (!same && !excused).then(|| {
            format!(
                "a deployed originator sees {}; {}",
                end.status,
                end_text(Some(target))
            )
        })
    }

    fn completed_with(&self, story: &TaskHistory, end: &FinalState) -> bool {
        story.endings.iter().any(|ending| {
            ending.status == Status::Completed
                && self.history.fate(ending.call) != CallFate::Refused
                && same_set(&ending.results, &end.whole)
        })
    }

    /// By some calendar of this side the deadline or the time to deliver is over.
    fn time_ran_out(&self, story: &TaskHistory, side: usize) -> bool {
        let late = story
            .deadline
            .is_some_and(|deadline| story.hours[side].1 >= deadline);
        late || (side == ORIGIN && self.ttl_passed(story, ORIGIN))
    }

    fn ttl_passed(&self, story: &TaskHistory, side: usize) -> bool {
        let ttl = self.plan.limits.offline_ttl.map(|ttl| ttl.as_millis() as u64);
        let (low, high) = story.hours[side];
        ttl.is_some_and(|ttl| high >= low + ttl)
    }
}

/// What both sides of a completed task must agree on.
fn difference(gaps: bool, origin: &FinalState, target: &FinalState) -> Option<String> {
    if target.status != Status::Completed {
        return None;
    }
    let common = |end: &FinalState, other: &FinalState, by_originator: bool| {
        let mut common = end.messages.clone();
        common.retain(|id| id.starts_with('C') == by_originator && other.messages.contains(id));
        common
    };
    let same = if gaps {
        [true, false]
            .iter()
            .all(|who| common(origin, target, *who) == common(target, origin, *who))
    } else {
        origin.messages == target.messages
    };
    if !same {
        return Some(format!(
            "messages differ: {:?} and {:?}",
            origin.messages, target.messages
        ));
    }
    let streams = |end: &FinalState| {
        let mut streams = end.streamed.clone();
        streams.retain(|(_, ended, _)| *ended == Some(StreamOutcome::Complete));
        streams
    };
    (origin.whole != target.whole || streams(origin) != streams(target)).then(|| {
        format!(
            "results differ: {:?} {:?} and {:?} {:?}",
            origin.whole, origin.streamed, target.whole, target.streamed
        )
    })
}

fn same_set(a: &[(String, String)], b: &[(String, String)]) -> bool {
    a.len() == b.len() && a.iter().all(|result| b.contains(result))
}

fn end_of(task: &Task) -> FinalState {
    let mut end = FinalState {
        status: task.status,
        reason: task
            .status_message
            .as_deref()
            .map(wire::text_of)
            .unwrap_or_default(),
        messages: task.messages.iter().map(|said| said.message_id.clone()).collect(),
        whole: Vec::new(),
        streamed: Vec::new(),
    };
    for result in &task.results {
        match &**result {
            Output::Whole(artifact) => end
                .whole
                .push((artifact.artifact_id.clone(), text_in(&artifact.parts))),
            Output::Streamed(streamed) => {
                end.streamed
                    .push((streamed.artifact_id.clone(), streamed.outcome, streamed.bytes));
            }
        }
    }
    end
}

fn end_text(end: Option<&FinalState>) -> String {
    end.map_or("does not have it".into(), |end| {
        format!("has {} ({}) with {:?}", end.status, end.reason, end.messages)
    })
}
