//! PURE: what was done for a task that was sent by URL, how it stands with it, and what to do.

use agentanycast::{ExternalAction, ExternalFailure, ExternalStep, Task, TaskStatus, Trace};

use super::{
    explanation::{Explanation, explanation},
    sealed_box::about_box,
    trace_step::{TraceStep, step},
    wording::{remaining, span, times},
};

/// Each thing that was done.
pub(super) fn steps(trace: &Trace) -> Vec<TraceStep> {
    let last = trace.external_steps.len().saturating_sub(1);
    let each = trace.external_steps.iter().enumerate();
    let mut steps: Vec<TraceStep> = each
        .map(|(place, done)| {
            let next = next_attempt(trace, done).filter(|_| place == last);
            let (kind, what) = describe(done);
            step(
                done.at,
                kind,
                [what, repeat_count(done), next.unwrap_or_default()].concat(),
            )
        })
        .collect();
    if trace.external_steps_left_out > 0 && steps.len() > 1 {
        let what = format!(
            "{} steps after the first are not kept any more",
            trace.external_steps_left_out
        );
        steps.insert(1, step(steps[1].at, "left-out", what));
    }
    steps
}

fn describe(done: &ExternalStep) -> (&'static str, String) {
    let (whom, detail) = (whom(done), &done.detail);
    match done.action {
        ExternalAction::CardRead => (
            "card",
            format!("the card at {detail} was read; the task goes to {whom}"),
        ),
        ExternalAction::Accepted if detail.is_empty() => {
            ("taken", format!("{whom} answered without a task of its own"))
        }
        ExternalAction::Accepted => ("taken", format!("{whom} took it, as its task {detail}")),
        ExternalAction::Failed => ("attempt-failed", format!("{whom}: {detail}")),
        ExternalAction::InDoubt => (
            "in-doubt",
            format!(
                "{whom}: {detail}; whether it has the message is looked for, and the message not sent again"
            ),
        ),
        ExternalAction::Withdrawn => (
            "withdrawn",
            format!("{whom} was told that its task {detail} is over"),
        ),
        ExternalAction::NotWithdrawn => (
            "not-withdrawn",
            format!("{whom} could not be told that the task is over: {detail}"),
        ),
        ExternalAction::ProtocolBreach => (
            "protocol-breach",
            format!("{whom} answered otherwise than A2A says: {detail}"),
        ),
        _ => ("unknown", format!("{whom}: {detail}")),
    }
}

fn whom(done: &ExternalStep) -> String {
    match done.binding.as_str() {
        "" => done.url.clone(),
        binding => format!("{} ({binding})", done.url),
    }
}

/// How often it was so; empty: once.
fn repeat_count(done: &ExternalStep) -> String {
    if done.count < 2 {
        return String::new();
    }
    let within = match remaining(done.last_at, done.at) {
        Some(within) => format!(" within {}", span(within)),
        None => String::new(),
    };
    format!("; {}{within}", times(done.count))
}

/// When it is tried again, if it is.
fn next_attempt(trace: &Trace, done: &ExternalStep) -> Option<String> {
    let goes_on = |task: &Task| !task.status.is_terminal() || done.action == ExternalAction::NotWithdrawn;
    let open = trace.task.as_ref().is_some_and(goes_on);
    let left = remaining(done.next_at, trace.now).filter(|_| open)?;
    Some(if left.as_secs() == 0 {
        "; it is tried again now".to_owned()
    } else {
        format!("; it is tried again in {}", span(left))
    })
}

/// Why it is where it is.
pub(super) fn explain(trace: &Trace, task: &Task) -> Explanation {
    let reason = task.reason();
    let sealed = task
        .sealed_for()
        .map_or_else(String::new, |peer| format!(", sealed for {peer}"));
    let last = trace.external_steps.last();
    let verdict = verdict(trace, task, last);
    let stands_so = match verdict {
        "refused" => "the external agent refused it".to_owned(),
        _ => format!("is {}", task.status),
    };
    let because = if reason.is_empty() {
        reason.clone()
    } else {
        format!(": {reason}")
    };
    let says = format!("it was sent to {}{sealed}, and {stands_so}{because}", trace.url);
    if !task.status.is_terminal() {
        let (stands, advice) = match last {
            Some(last) => progress_text(trace, task, last),
            // Its first attempt goes on still, or an older version has done it.
            None if task.status == TaskStatus::Submitted => {
                ("no attempt has ended yet".to_owned(), Some(reach(&trace.url)))
            }
            None => (String::new(), None),
        };
        let joint = if stands.is_empty() { "" } else { "; " };
        return explanation(verdict, format!("{says}{joint}{stands}"), advice.as_deref());
    }
    if let Some(last) = last.filter(|last| last.action == ExternalAction::NotWithdrawn) {
        let (untold, advice) = not_withdrawn(trace, last);
        return explanation(verdict, format!("{says}; {untold}"), Some(&advice));
    }
    // Any agent can say what a node says of a box.
    let about_box = task.sealed_for().and_then(|_| about_box(&reason));
    let advice = match task.status {
        TaskStatus::Completed | TaskStatus::Canceled => None,
        _ => about_box
            .map(str::to_owned)
            .or_else(|| after_the_end(trace, task, last)),
    };
    explanation(verdict, says, advice.as_deref())
}

/// While it goes on that it is outside; then how it ended, in the words that are for all tasks.
fn verdict(trace: &Trace, task: &Task, last: Option<&ExternalStep>) -> &'static str {
    let had_it = !trace.remote_task.is_empty()
        || trace
            .external_steps
            .iter()
            .any(|done| done.action == ExternalAction::Accepted);
    match task.status {
        status if !status.is_terminal() => "external",
        TaskStatus::Completed => "completed",
        TaskStatus::Canceled => "canceled",
        TaskStatus::Rejected => "refused",
        _ if had_it => "failed",
        _ if last.is_some_and(is_refusal) => "refused",
        _ => "undelivered",
    }
}

/// Whether an agent, and not only a card, was asked, and said that it does not take the task.
fn is_refusal(done: &ExternalStep) -> bool {
    let said_no = matches!(
        done.failure,
        Some(ExternalFailure::Refused | ExternalFailure::Unauthorized | ExternalFailure::Unsupported)
    );
    done.action == ExternalAction::Failed && !done.binding.is_empty() && said_no
}

/// That a task is over of which its agent does not know it, and what to do.
fn not_withdrawn(trace: &Trace, last: &ExternalStep) -> (String, String) {
    let (whom, detail, often) = (whom(last), &last.detail, repeat_count(last));
    let next = next_attempt(trace, last);
    let advice = match (&next, trace.remote_task.as_str()) {
        (Some(_), _) => "nothing: it is told again".to_owned(),
        (None, remote) if is_plain(remote) => format!(
            "it is over here, whatever the agent still does; if it must not go on there, end its task {remote} there"
        ),
        (None, _) => {
            "it is over here, whatever the agent still does; if it must not go on there, end it there"
                .to_owned()
        }
    };
    let next = next.unwrap_or_default();
    let says =
        format!("{whom} could not be told that it is over, and may go on with it: {detail}{often}{next}");
    (says, advice)
}

/// How it stands with a task that goes on.
fn progress_text(trace: &Trace, task: &Task, last: &ExternalStep) -> (String, Option<String>) {
    let whom = whom(last);
    let next = next_attempt(trace, last).unwrap_or_default();
    match last.action {
        ExternalAction::CardRead => (
            format!("it was sent to {whom}, which has not answered yet"),
            Some("wait: [bridge.outbound] timeout says for how long".to_owned()),
        ),
        ExternalAction::Accepted => (
            format!("{whom} has it, as its task {}", last.detail),
            go_on(trace, task),
        ),
        ExternalAction::ProtocolBreach => (
            format!(
                "{whom} has it, and answers otherwise than A2A says: {}",
                last.detail
            ),
            go_on(trace, task),
        ),
        ExternalAction::InDoubt => (
            format!("it is not known whether {whom} has it: {}{next}", last.detail),
            Some(advice_on(last, true)),
        ),
        _ => (
            format!(
                "the last attempt failed: {}{}{next}",
                last.detail,
                repeat_count(last)
            ),
            Some(advice_on(last, true)),
        ),
    }
}

/// Where to look further for a task that the agent has.
fn go_on(trace: &Trace, task: &Task) -> Option<String> {
    let remote = &trace.remote_task;
    let there = match task.sealed_for() {
        Some(peer) if is_plain(remote) => format!(
            "`anycast trace {}` at the node {peer} finds it by this id, once it has come there; `anycast trace {remote}` at \
             the bridge's node says whether it got there",
            trace.sealed_task
        ),
        Some(peer) => format!(
            "`anycast trace {}` at the node {peer} finds it by this id, once it has come there",
            trace.sealed_task
        ),
        None if remote.is_empty() => return None,
        None if is_plain(remote) => format!(
            "ask at the agent for its task {remote}; if it is behind an AgentAnycast bridge, `anycast trace {remote}` at the \
             bridge's node goes on from here"
        ),
        None => "ask at the agent for its task, by the id that is shown as remote".to_owned(),
    };
    Some(match task.status {
        TaskStatus::InputRequired => format!("answer it: send a message with this task id; {there}"),
        _ => there,
    })
}

/// Whether an id that an agent chose can stand in a command that people copy.
fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.bytes().all(plain)
}

/// What to do about a task that has ended, and not well.
fn after_the_end(trace: &Trace, task: &Task, last: Option<&ExternalStep>) -> Option<String> {
    match last {
        None => Some(reach(&trace.url)),
        Some(last) if last.failure.is_none() => go_on(trace, task),
        // It had taken it, and what it said of it was not taken.
        Some(last)
            if matches!(
                last.failure,
                Some(ExternalFailure::Final | ExternalFailure::Refused)
            ) && !trace.remote_task.is_empty() =>
        {
            go_on(trace, task)
        }
        Some(last) => Some(advice_on(last, false)),
    }
}

fn advice_on(last: &ExternalStep, goes_on: bool) -> String {
    let after = if goes_on {
        "it goes on by itself then"
    } else {
        "then send it again"
    };
    match last.failure {
        Some(ExternalFailure::Unreached) => format!("{} {after}", reach(&last.url)),
        Some(ExternalFailure::Busy) if goes_on => "nothing: it takes none now, and is asked again".to_owned(),
        Some(ExternalFailure::Busy) => "it took none at that time: send it again later".to_owned(),
        Some(ExternalFailure::Broken) if goes_on => {
            "nothing: it is looked for there; what breaks the connection is in the way, or the agent fell".to_owned()
        }
        Some(ExternalFailure::Broken) => {
            "look there whether it has the message before you send it again".to_owned()
        }
        Some(ExternalFailure::Unauthorized) => {
            "give this node a credential for that host: a table [bridge.outbound.HOST]; then send it again".to_owned()
        }
        Some(ExternalFailure::TaskGone) => "the agent has lost it: send it again".to_owned(),
        _ if last.binding.is_empty() => {
            "no card of an agent that this node can speak to was found there: the URL is that of an agent, of its card, or of an \
             interface that the card at the top of its host lists"
                .to_owned()
        }
        _ => "sent again as it is it fails again: what it answered says why, or its log".to_owned(),
    }
}

fn reach(url: &str) -> String {
    format!("is the agent at {url} running, reachable from this host, and allowed by [bridge.outbound]?")
}
