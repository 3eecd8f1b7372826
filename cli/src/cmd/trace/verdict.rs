//! PURE: why a task is where it is, in one sentence, and what to do about it.
//!
//! The rule: only what the trace shows is said; the last word is always what somebody can do next, if anybody can.

use agentanycast::{
    PathKind, PeerReach, QueueState, QueuedEnvelope, Refusal, Task, TaskSide, TaskStatus, Trace,
};
use agentanycast_core::{policy, task::LOST_BY_ASSIGNEE};
use serde_json::Value;

use super::{
    explanation::{Explanation, explanation},
    external,
    sealed_box::about_box,
    wording::{name, queue_stage, remaining, span, uncounted},
};
use crate::hints;

/// Explains a trace.
pub(crate) fn explain(trace: &Trace) -> Explanation {
    let Some(task) = &trace.task else {
        return explain_without_task(trace);
    };
    match trace.side {
        TaskSide::Assignee => explain_here(trace, task),
        TaskSide::Both => explain_own(trace, task),
        TaskSide::External => external::explain(trace, task),
        _ => explain_sent(trace, task),
    }
}

/// Only the audit log knows it, or that it was refused.
fn explain_without_task(trace: &Trace) -> Explanation {
    let last = trace.audit.iter().flat_map(|audit| &audit.lines).next_back();
    let line: Value = last
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_default();
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let (source, skill, rule) = (text("source"), text("skill"), text("rule"));
    match (text("decision"), trace.refusals.first()) {
        ("allow" | "", Some(refusal)) => refused_here(refusal),
        ("allow", None) => explanation(
            "forgotten",
            "it was let in here, and is no more: it was collected, what it said was not taken (as a box that does not open), or the \
             node was too full to keep it",
            Some("its originator knows how it ended, and why"),
        ),
        ("rate_limit", _) => explanation(
            "limited",
            format!("{source} had reached a limit of this node ({rule}), so it was refused"),
            Some("send it later, or raise the limit in [policy.rate_limit]"),
        ),
        _ if rule == "key replaced" => explanation(
            "denied",
            format!(
                "the key of {source} was replaced by another one, as both have signed, so it was never kept here"
            ),
            Some(REPLACED),
        ),
        _ if rule == "audit log" => explanation(
            "denied",
            "its decision could not be written into the audit log, and without that nothing new is taken",
            Some(UNAUDITED),
        ),
        _ => {
            let of = |refusal: &&Refusal| refusal.peer.as_ref().is_some_and(|peer| peer.as_ref() == source);
            let uncounted = trace.refusals.iter().find(of).map(uncounted).unwrap_or_default();
            let check = format!(
                "if it should be allowed, {}; `{}` says what they do",
                if uncounted.is_empty() {
                    "change the rules"
                } else {
                    "put right what did not count, or change the rules"
                },
                hints::command(&format!("policy check --source {source} --skill '{skill}'"))
            );
            let says = format!(
                "this node's policy denied it to {source} ({rule}), so it was never kept here{uncounted}"
            );
            explanation("denied", says, Some(&check))
        }
    }
}

/// What to do about a key that another one has followed; rules do not change it.
const REPLACED: &str = "send it from the node that has the new key; where the old one came back from a backup, start with a new key and name that in the rules";

/// What to do about an audit log that cannot be written; rules do not change it.
const UNAUDITED: &str = "make room on the disk of [policy] audit_log_path, or mend the path and send SIGHUP; /health of the daemon says what is wrong";

/// What to do about a task that no rules would let in, by its reason; None: it is about something else.
fn about_door(reason: &str) -> Option<&'static str> {
    let cases = [
        (policy::REPLACED, REPLACED),
        ("this node cannot write its audit log", UNAUDITED),
    ];
    let fits = cases.iter().find(|(start, _)| reason.starts_with(start));
    fits.map(|(_, advice)| *advice)
}

/// It was let in, or no log says so, and was not taken.
fn refused_here(refusal: &Refusal) -> Explanation {
    let whom = name(refusal.peer.as_ref());
    let reason = &refusal.reason;
    let other = format!(
        "if it should be taken: `{}` says what the rules do, and the reason what else was in the way",
        hints::command("policy check --source PEER")
    );
    let advice = about_door(reason).or_else(|| about_box(reason)).unwrap_or(&other);
    explanation(
        "refused",
        format!(
            "this node did not take it from {whom}, so it was never kept here: {reason}{}",
            uncounted(refusal)
        ),
        Some(advice),
    )
}

/// It was sent from here to another node.
fn explain_sent(trace: &Trace, task: &Task) -> Explanation {
    let whom = name(task.assignee.as_ref());
    let reason = task.reason();
    let carrier = trace.queued.iter().find(|queued| queued.carries_task);
    match task.status {
        TaskStatus::Completed => explanation(
            "completed",
            format!("it arrived at {whom} and was completed"),
            None,
        ),
        TaskStatus::Canceled => explanation("canceled", "it was canceled", None),
        TaskStatus::Rejected => explanation(
            "refused",
            format!("{whom} refused it: {reason}"),
            Some(about_box(&reason).unwrap_or(
                "what refuses it is there: the same command on that node says what, of the last 1 000 tasks that it refused, and of older \
                 ones by its audit log, if it keeps one ([policy] audit_log_path); its daemon's log has the first refusal of each \
                 peer as a warning, and all of them at log level debug only",
            )),
        ),
        // When it arrived is not known over a restart, but what was lost there had arrived.
        TaskStatus::Failed if trace.arrived_at.is_none() && !reason.starts_with(LOST_BY_ASSIGNEE) => explanation(
            "undelivered",
            format!("nobody has acknowledged it since this daemon was started, and it was given up: {reason}"),
            Some(&once_more(trace.peer.as_ref(), &reason)),
        ),
        TaskStatus::Failed => explanation(
            "failed",
            format!("it arrived at {whom}, and failed: {reason}"),
            None,
        ),
        _ => match carrier {
            Some(carrier) => on_its_way(trace, carrier, &whom),
            None => reached(trace.peer.as_ref(), with_the_assignee(task, &whom)),
        },
    }
}

fn on_its_way(trace: &Trace, carrier: &QueuedEnvelope, whom: &str) -> Explanation {
    let connected = trace.peer.as_ref().is_some_and(|peer| peer.connected);
    let given_up = match remaining(carrier.expires_at, trace.now) {
        Some(left) => format!("; it is given up in {}", span(left)),
        None => String::new(),
    };
    if !connected {
        let tried = trace.peer.as_ref().map(tried).unwrap_or_default();
        let says = format!("it waits here: {whom} is not connected{tried}{given_up}");
        return explanation("peer-away", says, Some(&way_out(trace.peer.as_ref())));
    }
    let others = match trace.candidates.len() {
        0 => String::new(),
        count => format!("; {count} other agents get it if that one does not take it"),
    };
    let says = format!(
        "it is for {whom}, which is connected: {}{others}{given_up}",
        queue_stage(carrier)
    );
    match carrier.state {
        QueueState::Queued => explanation("in-queue", says, None),
        QueueState::Parked => explanation(
            "unacknowledged",
            says,
            Some(
                "the peer takes envelopes and does not acknowledge them: look at its log, or restart it; it is sent again then",
            ),
        ),
        _ => explanation("unacknowledged", says, None),
    }
}

/// It is there, as far as this node knows.
fn with_the_assignee(task: &Task, whom: &str) -> Explanation {
    match task.status {
        TaskStatus::Working => explanation(
            "working",
            format!("it arrived: an agent at {whom} works on it"),
            None,
        ),
        TaskStatus::InputRequired => explanation(
            "needs-input",
            format!(
                "it arrived: the agent at {whom} waits for a further message: {}",
                task.reason()
            ),
            Some("answer it: send a message with this task id"),
        ),
        _ => explanation(
            "delivered",
            format!("{whom} has it, and no agent there has begun yet"),
            Some("is an agent running there? The same command on that node says what it waits for"),
        ),
    }
}

/// What is there, of which nothing is heard while that node is away.
fn reached(peer: Option<&PeerReach>, there: Explanation) -> Explanation {
    match peer.filter(|peer| !peer.connected) {
        Some(peer) => Explanation {
            says: format!(
                "{}; it is not connected now{}, and what comes of it is told once it is",
                there.says,
                tried(peer)
            ),
            advice: Some(way_out(Some(peer))),
            ..there
        },
        None => there,
    }
}

/// It was sent here.
fn explain_here(trace: &Trace, task: &Task) -> Explanation {
    let whom = name(task.originator.as_ref());
    if task.status.is_terminal() {
        let reason = match task.reason() {
            reason if reason.is_empty() => String::new(),
            reason => format!(": {reason}"),
        };
        let ended = format!("it came from {whom} and ended {}{reason}", task.status);
        return match trace.queued.first() {
            Some(news) => {
                let advice = trace
                    .peer
                    .as_ref()
                    .filter(|peer| !peer.connected)
                    .map(|peer| way_out(Some(peer)));
                explanation(
                    "news-waits",
                    format!(
                        "{ended}; its originator is still to be told: {}",
                        queue_stage(news)
                    ),
                    advice.as_deref(),
                )
            }
            None => explanation("ended", format!("{ended}; its originator knows"), None),
        };
    }
    if trace.held {
        let says = format!(
            "it came from {whom} by skill and is held: it may go to another agent until its originator confirms it"
        );
        return explanation("held", says, None);
    }
    with_the_agent(trace, task, &format!("it came from {whom}"))
}

fn explain_own(trace: &Trace, task: &Task) -> Explanation {
    if task.status.is_terminal() {
        return explanation(
            "ended",
            format!(
                "this node's agent sent it to itself, and it ended {}",
                task.status
            ),
            None,
        );
    }
    with_the_agent(trace, task, "this node's agent sent it to itself")
}

fn with_the_agent(trace: &Trace, task: &Task, came: &str) -> Explanation {
    match (task.status, trace.claimed, trace.agent_listens) {
        (TaskStatus::InputRequired, ..) => explanation(
            "needs-input",
            format!("{came}; the agent waits for a further message of its originator"),
            None,
        ),
        (_, true, true) => explanation("working", format!("{came}; the agent has taken it"), None),
        (_, true, false) => explanation(
            "agent-gone",
            format!("{came}; an agent has taken it, and no agent is connected now"),
            Some("start the agent again: it goes on, or the task fails after agent_grace"),
        ),
        (_, false, true) => explanation(
            "unclaimed",
            format!("{came}; its agent listens and has not taken it yet"),
            Some(&format!(
                "it may have others to do first (`{}` shows how many); the log of the agent tells",
                hints::command("ps")
            )),
        ),
        (_, false, false) => explanation(
            "no-agent",
            match task.agent.as_str() {
                "" => format!("{came}; no agent listens here"),
                agent => format!("{came}; nothing listens for the agent {agent}"),
            },
            Some("start the agent beside this daemon; it gets the task at once"),
        ),
    }
}

fn tried(peer: &PeerReach) -> String {
    let error = match peer.last_error.as_str() {
        "" => String::new(),
        error => format!(" ({error})"),
    };
    let next = match peer.next_attempt_in {
        Some(wait) => format!(", next in {}", span(wait)),
        None => String::new(),
    };
    match peer.failures {
        0 => error,
        1 => format!("; one attempt failed{error}{next}"),
        failures => format!("; {failures} attempts failed{error}{next}"),
    }
}

/// What to do about a task that has ended undelivered: nothing goes on by itself.
fn once_more(peer: Option<&PeerReach>, reason: &str) -> String {
    // Other ends, as by a deadline, have nothing to do with how long envelopes wait.
    let longer = if reason.starts_with("not delivered within") {
        "; for peers that are away for longer, set a longer offline_queue_ttl here"
    } else {
        ""
    };
    match peer {
        Some(peer) if peer.connected => "the peer is connected now: send it again".to_owned(),
        Some(peer) if peer.addresses.is_empty() => format!(
            "no address of the peer is known: send it again to its multiaddr (…/p2p/PEER_ID), or give both nodes a relay in \
             bootstrap_peers first{longer}"
        ),
        Some(peer) => format!(
            "it does not go by itself any more: see that its daemon runs and is reachable at {}, then send it again{longer}",
            some_addresses(peer)
        ),
        None => format!("send it again{longer}"),
    }
}

/// Enough addresses of a peer to go by.
fn some_addresses(peer: &PeerReach) -> String {
    let shown: Vec<&str> = peer.addresses.iter().take(3).map(String::as_str).collect();
    shown.join(", ")
}

/// What to do about a peer that is not there, and that something still waits for.
fn way_out(peer: Option<&PeerReach>) -> String {
    match peer {
        Some(peer) if peer.addresses.is_empty() => {
            "no address of it is known: give one by sending to its multiaddr (…/p2p/PEER_ID) once, or give both nodes a relay \
             in bootstrap_peers"
                .to_owned()
        }
        Some(peer) => format!(
            "is its daemon running, and reachable at {}? Delivery goes on by itself once it is back",
            some_addresses(peer)
        ),
        None => "it goes on by itself once the peer is back".to_owned(),
    }
}

/// How the other node is reached now; empty: there is none, or it is away.
pub(crate) fn path_text(peer: Option<&PeerReach>) -> String {
    let Some(peer) = peer.filter(|peer| peer.connected) else {
        return String::new();
    };
    let at = |addresses: &[String]| match addresses.first() {
        Some(address) => format!(", at {address}"),
        None => String::new(),
    };
    let whom = name(peer.id.as_ref());
    match peer.via {
        PathKind::Direct => format!("{whom} is connected directly{}", at(&peer.addresses)),
        PathKind::Relay => format!(
            "{whom} is connected through the relay {}{}",
            name(peer.relay.as_ref()),
            at(&peer.relay_addresses)
        ),
        _ => String::new(),
    }
}
