//! PURE: what has happened to a task, in the order in which it did, and what still waits.

use std::time::SystemTime;

use agentanycast::{Hop, PathKind, PeerId, Role, SendRecord, Task, TaskSide, Trace};
use serde_json::Value;

use super::{
    external,
    trace_step::{TraceStep, step},
    wording::{name, queue_stage, uncounted},
};

/// The steps of a task, oldest first; what waits comes last.
pub(crate) fn steps(trace: &Trace) -> Vec<TraceStep> {
    let before = new_keys(trace).chain(decisions(trace)).chain(refused(trace));
    let mut steps: Vec<TraceStep> = before.collect();
    if let Some(task) = &trace.task {
        steps.push(created_step(trace, task));
        steps.extend(external::steps(trace));
        steps.extend(attempts(trace, task));
        steps.extend(
            trace
                .sent
                .as_ref()
                .map(|sent| sent_step(trace, task.assignee.as_ref(), sent)),
        );
        steps.extend(agent_steps(trace));
        steps.extend(message_steps(trace));
        if let (Some(at), TaskSide::Originator) = (trace.arrived_at, trace.side) {
            let what = format!(
                "{} has it: it acknowledged it, or reported on it",
                name_then(trace, task.assignee.as_ref(), Some(at))
            );
            steps.push(step(Some(at), "acknowledged", what));
        }
        if task.status.is_terminal() {
            let reason = task.reason();
            let what = match reason.as_str() {
                "" => format!("it ended: {}", task.status),
                reason => format!("it ended: {}: {reason}", task.status),
            };
            steps.push(step(task.updated_at, "ended", what));
        }
    }
    // Of the same moment, first what was put first: a decision before the task that it lets in.
    steps.sort_by_key(|step| step.at);
    steps.extend(trace.queued.iter().map(|queued| {
        let what = if queued.carries_task {
            "the task"
        } else {
            "news of it"
        };
        step(
            None,
            "queued",
            format!(
                "{what} for {}: {}",
                name(queued.peer.as_ref()),
                queue_stage(queued)
            ),
        )
    }));
    steps
}

/// A peer by the name that it had at that time: the task has the one that it has now.
fn name_then(trace: &Trace, peer: Option<&PeerId>, at: Option<SystemTime>) -> String {
    let is_other = trace.peer.as_ref().is_some_and(|other| other.id.as_ref() == peer);
    // The latest first: the last one that still was is the one of then.
    let then = trace.peer_before.iter().rev().find(|key| at < key.until);
    name(
        then.filter(|_| is_other && at.is_some())
            .map(|key| &key.id)
            .or(peer),
    )
}

/// When the other node changed its key: before then it has another name in what happened.
fn new_keys(trace: &Trace) -> impl Iterator<Item = TraceStep> + '_ {
    let now = trace.peer.iter().filter_map(|peer| peer.id.as_ref());
    let followers = now.chain(trace.peer_before.iter().map(|key| &key.id));
    let changes = trace.peer_before.iter().zip(followers);
    changes.map(|(old, new)| {
        let what = format!("{} has another key since, and is {new}; both keys say so", old.id);
        step(old.until, "new-key", what)
    })
}

fn created_step(trace: &Trace, task: &Task) -> TraceStep {
    let skill = match task.skill.as_str() {
        "" => String::new(),
        skill => format!(" for the skill {skill}"),
    };
    let sealed = match (task.sealed_by(), task.sealed_for()) {
        (Some(by), _) => format!(", sealed by {by} as its task {}", trace.sealed_task),
        (None, Some(to)) => format!(", sealed for {to}"),
        (None, None) => String::new(),
    };
    let first = task
        .attempts
        .first()
        .map_or(&task.assignee, |attempt| &attempt.peer);
    match trace.side {
        TaskSide::Assignee => step(
            task.created_at,
            "came",
            format!(
                "came from {}{}{skill}{sealed}",
                name_then(trace, task.originator.as_ref(), task.created_at),
                trace.came_over.as_ref().map(over).unwrap_or_default()
            ),
        ),
        TaskSide::Both => step(
            task.created_at,
            "sent",
            format!("accepted for the agent beside this node{skill}"),
        ),
        TaskSide::External => step(
            task.created_at,
            "sent",
            format!("accepted for {}{skill}{sealed}", trace.url),
        ),
        _ => step(
            task.created_at,
            "sent",
            format!(
                "accepted for {}{skill}",
                name_then(trace, first.as_ref(), task.created_at)
            ),
        ),
    }
}

/// It left for a peer.
fn sent_step(trace: &Trace, peer: Option<&PeerId>, sent: &SendRecord) -> TraceStep {
    let what = format!("sent to {}{}", name_then(trace, peer, sent.at), over(&sent.over));
    step(sent.at, "went", what)
}

/// What something went over, to be put behind a peer's name.
fn over(hop: &Hop) -> String {
    match (hop.via, &hop.relay) {
        (PathKind::Direct, _) => ", directly".to_owned(),
        (PathKind::Relay, relay) => format!(", through the relay {}", name(relay.as_ref())),
        _ => String::new(),
    }
}

/// What agents here did with it.
fn agent_steps(trace: &Trace) -> impl Iterator<Item = TraceStep> + use<> {
    let marks = [
        (trace.given_at, "given", "an agent that listens here was given it"),
        (trace.claimed_at, "claimed", "an agent here took it"),
    ];
    let known = marks.into_iter().filter(|(at, ..)| at.is_some());
    let ends = match trace.agent_ends {
        0 => None,
        1 => Some("an agent here ended while it had it, and it was handed out again".to_owned()),
        ends => Some(format!(
            "{ends} agents here ended while they had it; it is handed out alone"
        )),
    };
    let given_at = trace.given_at;
    let known = known.map(|(at, kind, what)| step(at, kind, what));
    known.chain(ends.map(|what| step(given_at, "agent-ended", what)))
}

fn attempts(trace: &Trace, task: &Task) -> Vec<TraceStep> {
    let left = trace.attempts_left_at.iter().chain(std::iter::repeat(&None));
    let sent = trace.attempts_sent.iter().chain(std::iter::repeat(&None));
    let each = task.attempts.iter().zip(left.zip(sent)).enumerate();
    each.flat_map(|(place, (attempt, (at, sent)))| {
        let next = task
            .attempts
            .get(place + 1)
            .map_or(&task.assignee, |next| &next.peer);
        // A version that did not keep the time says 1970.
        let at = at.filter(|at| *at > SystemTime::UNIX_EPOCH).or(task.created_at);
        let what = format!(
            "{}: {}; then it was for {}",
            name(attempt.peer.as_ref()),
            attempt.reason,
            name_then(trace, next.as_ref(), at)
        );
        let went = sent
            .as_ref()
            .map(|sent| sent_step(trace, attempt.peer.as_ref(), sent));
        went.into_iter().chain([step(at, "moved-on", what)])
    })
    .collect()
}

/// What was said after the first message; what ended the task is told with the end.
fn message_steps(trace: &Trace) -> impl Iterator<Item = TraceStep> + '_ {
    let ended = trace
        .task
        .as_ref()
        .is_some_and(|task| task.status.is_terminal() && task.status_message.is_some());
    let count = trace.turns.len().saturating_sub(usize::from(ended));
    let later = trace.turns.iter().take(count).skip(1);
    later.filter(|(at, _)| at.is_some()).map(|(at, role)| match role {
        Role::User => step(*at, "said", "its originator sent a further message"),
        _ => step(*at, "said", "the agent reported"),
    })
}

/// Each time that it was not taken here, but for those that the audit log tells.
fn refused(trace: &Trace) -> impl Iterator<Item = TraceStep> + '_ {
    let lines = trace.audit.iter().flat_map(|audit| &audit.lines);
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let denied: Vec<Value> = lines.filter(|line| line["decision"] != "allow").collect();
    let refusals = trace.refusals.iter();
    let untold = refusals.filter(move |refusal| denied.iter().all(|line| line["task"] != refusal.task_id));
    untold.map(|refusal| {
        let often = match refusal.count {
            0 | 1 => String::new(),
            count => format!("; {count} times, and this was the last"),
        };
        let what = format!(
            "refused here, sent by {} as its task {}: {}{often}{}",
            name(refusal.peer.as_ref()),
            refusal.task_id,
            refusal.reason,
            uncounted(refusal)
        );
        step(refusal.at, "refused", what)
    })
}

/// What the audit log says, as steps.
fn decisions(trace: &Trace) -> impl Iterator<Item = TraceStep> + '_ {
    let lines = trace.audit.iter().flat_map(|audit| &audit.lines);
    lines.filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let at: jiff::Timestamp = line["time"].as_str()?.parse().ok()?;
        let (decision, source, rule) = (text("decision"), text("source"), text("rule"));
        let seen_as = line["as"]
            .as_str()
            .map_or_else(String::new, |name| format!(", seen as {name}"));
        let (kind, done) = match decision.as_str() {
            "allow" => ("allowed", "allowed"),
            "rate_limit" => ("limited", "refused by a limit"),
            _ => ("denied", "denied"),
        };
        Some(step(
            Some(at.into()),
            kind,
            format!("{done} by this node's policy ({rule}), asked by {source}{seen_as}"),
        ))
    })
}
