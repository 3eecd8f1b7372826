//! `anycast trace`: why a task is where it is, from the daemon's store, its queues and its audit log.

mod explanation;
mod external;
mod sealed_box;
mod steps;
#[cfg(test)]
pub(super) mod tests;

use clap::{Args, builder::NonEmptyStringValueParser};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it, or the id that its sender knows
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
}
mod trace_step;
pub(super) mod verdict;
pub(super) mod wording;

use agentanycast::{
    ExternalAction, ExternalFailure, ExternalStep, Hop, Message, PeerReach, QueueState, QueuedEnvelope,
    Refusal, SendRecord, Task, TaskSide, Trace,
};
use serde_json::{Value, json};

use self::{explanation::Explanation, trace_step::TraceStep};
use crate::{
    context::Context,
    failure::CommandFailure,
    hints, json,
    output::{self, Paint},
    tasks_by_id::whole_id,
};

/// Most of a reason that is shown, in bytes: an external agent may send megabytes.
const MAX_REASON: usize = 2000;

pub(crate) async fn run(context: &Context, args: TraceArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let asked = whole_id(&node, &args.task).await?;
    let mut trace = node.trace(&asked).await?;
    if let Some(task) = &mut trace.task {
        shorten(task);
    }
    let answer = verdict::explain(&trace);
    let steps = steps::steps(&trace);
    if context.json {
        return Ok(output::json(&document(&asked, &trace, &answer, &steps))?);
    }
    show(&asked, &trace, &answer, &steps)
}

/// Leaves so much of a task's reason as is shown.
fn shorten(task: &mut Task) {
    let reason = task.reason();
    if reason.len() > MAX_REASON {
        let begin = &reason[..reason.floor_char_boundary(MAX_REASON)];
        let whole = hints::command(&format!("task {}", task.id));
        let text = format!("{begin}… ({} bytes; `{whole}` shows them all)", reason.len());
        task.status_message = Some(Message::agent_text(text));
    }
}

fn show(id: &str, trace: &Trace, answer: &Explanation, steps: &[TraceStep]) -> Result<(), CommandFailure> {
    let state = trace.task.as_ref().map(|task| task.status.to_string());
    output::fields(&[
        ("task", own_id(id, trace)),
        ("sealed", sealed(trace)),
        ("remote", output::flat(&trace.remote_task)),
        ("state", state.unwrap_or_default()),
        ("why", output::flat(&answer.says)),
        (
            "next",
            answer.advice.as_deref().map(output::flat).unwrap_or_default(),
        ),
        ("via", output::flat(&verdict::path_text(trace.peer.as_ref()))),
    ])?;
    output::line("")?;
    for step in steps {
        let at = step.at.map(|at| (json::time(Some(at)), output::ago(Some(at))));
        let at = match &at {
            Some((Value::String(at), ago)) => format!("{at:<30}  {ago:>4} ago"),
            _ => "now".to_owned(),
        };
        output::pieces(&[
            (&format!("{at:<40}"), Paint::Faint),
            ("  ", Paint::Plain),
            (&output::flat(&step.what), Paint::Plain),
        ])?;
    }
    if let Some(audit) = trace
        .audit
        .as_ref()
        .filter(|audit| !audit.whole || !audit.error.is_empty())
    {
        let why = if audit.error.is_empty() {
            "only the end of it was searched".to_owned()
        } else {
            output::flat(&audit.error)
        };
        output::warn(&format!("the audit log {}: {why}", audit.path));
    }
    Ok(())
}

/// The id that the task has here: a sealed one is found by the one where it was sealed too.
fn own_id(asked: &str, trace: &Trace) -> String {
    trace.task.as_ref().map_or(asked, |task| &task.id).to_owned()
}

/// Between whom it is sealed; empty: it is not.
fn sealed(trace: &Trace) -> String {
    let task = trace.task.as_ref();
    let by = task.and_then(agentanycast::Task::sealed_by);
    match (by, task.and_then(agentanycast::Task::sealed_for)) {
        (Some(by), _) => format!("by {by}, as its task {}", output::flat(&trace.sealed_task)),
        (None, Some(to)) => format!("for {to}"),
        (None, None) => String::new(),
    }
}

fn document(id: &str, trace: &Trace, answer: &Explanation, steps: &[TraceStep]) -> Value {
    let side = match trace.side {
        TaskSide::Originator => "originator",
        TaskSide::Assignee => "assignee",
        TaskSide::Both => "both",
        TaskSide::External => "external",
        _ => "none",
    };
    let steps: Vec<Value> = steps
        .iter()
        .map(|step| json!({"at": json::time(step.at), "kind": step.kind, "what": step.what}))
        .collect();
    let document = json!({
        "task_id": own_id(id, trace),
        "node_peer_id": trace.node.as_ref().map(ToString::to_string),
        "now": json::time(trace.now),
        "side": side,
        "status": trace.task.as_ref().map(|task| task.status.as_str()),
        "verdict": answer.verdict,
        "why": answer.says,
        "next": answer.advice,
        "steps": steps,
        "arrived_at": json::time(trace.arrived_at),
        "sent": trace.sent.as_ref().map(sent),
        "attempts_sent": trace.attempts_sent.iter().map(|one| one.as_ref().map(sent)).collect::<Vec<_>>(),
        "came_over": trace.came_over.as_ref().map(hop),
        "given_at": json::time(trace.given_at),
        "claimed_at": json::time(trace.claimed_at),
        "agent_ends": trace.agent_ends,
        "deadline": json::time(trace.deadline),
        "candidates": trace.candidates.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "held": trace.held,
        "claimed": trace.claimed,
        "agent_listens": trace.agent_listens,
        "peer": trace.peer.as_ref().map(peer),
        "peer_before": trace.peer_before.iter().map(|key| json!({
            "peer_id": key.id.to_string(),
            "until": json::time(key.until),
        })).collect::<Vec<_>>(),
        "queued": trace.queued.iter().map(envelope).collect::<Vec<_>>(),
        "external": matches!(trace.side, TaskSide::External).then(|| json!({
            "url": trace.url,
            "remote_task_id": trace.remote_task,
            "steps": trace.external_steps.iter().map(external_step).collect::<Vec<_>>(),
            "left_out": trace.external_steps_left_out,
        })),
        "sealed": (!trace.sealed_task.is_empty()).then(|| json!({
            "task_id": trace.sealed_task,
            "by": trace.task.as_ref().and_then(|task| Some(task.sealed_by()?.to_string())),
            "for": trace.task.as_ref().and_then(|task| Some(task.sealed_for()?.to_string())),
        })),
        "refusals": trace.refusals.iter().map(refusal).collect::<Vec<_>>(),
        "audit": trace.audit.as_ref().map(|audit| json!({
            "path": audit.path,
            "whole": audit.whole,
            "error": audit.error,
            "lines": audit.lines.iter().map(|line| serde_json::from_str(line).unwrap_or(Value::Null)).collect::<Vec<Value>>(),
        })),
    });
    json::with_old_names(document, &[("node_peer_id", "node")])
}

fn peer(peer: &PeerReach) -> Value {
    let document = json!({
        "peer_id": peer.id.as_ref().map(ToString::to_string),
        "connected": peer.connected,
        "via": peer.connected.then(|| peer.via.to_string()),
        "connected_at": json::time(peer.connected_at),
        "round_trip_ms": peer.round_trip.map(|rtt| rtt.as_secs_f64() * 1000.0),
        "addresses": peer.addresses,
        "failures": peer.failures,
        "next_attempt_in_s": peer.next_attempt_in.map(|wait| wait.as_secs_f64()),
        "last_error": peer.last_error,
        "relay": peer.relay.as_ref().map(|relay| json!({
            "peer_id": relay.to_string(),
            "addresses": peer.relay_addresses,
        })),
    });
    json::with_old_names(document, &[("via", "road")])
}

fn refusal(refusal: &Refusal) -> Value {
    json!({
        "at": json::time(refusal.at),
        "peer_id": refusal.peer.as_ref().map(ToString::to_string),
        "task_id": refusal.task_id,
        "reason": refusal.reason,
        "count": refusal.count,
        "unproven": refusal.unproven,
    })
}

fn hop(hop: &Hop) -> Value {
    let document =
        json!({"via": hop.via.to_string(), "relay_peer_id": hop.relay.as_ref().map(ToString::to_string)});
    json::with_old_names(document, &[("via", "road"), ("relay_peer_id", "relay")])
}

fn sent(sent: &SendRecord) -> Value {
    json!({"at": json::time(sent.at), "over": hop(&sent.over)})
}

fn external_step(step: &ExternalStep) -> Value {
    let action = match step.action {
        ExternalAction::CardRead => "card-read",
        ExternalAction::Accepted => "accepted",
        ExternalAction::Failed => "failed",
        ExternalAction::InDoubt => "in-doubt",
        ExternalAction::Withdrawn => "withdrawn",
        ExternalAction::NotWithdrawn => "not-withdrawn",
        ExternalAction::ProtocolBreach => "protocol-breach",
        _ => "unknown",
    };
    let failure = step.failure.map(|failure| match failure {
        ExternalFailure::Unreached => "unreached",
        ExternalFailure::Busy => "busy",
        ExternalFailure::Broken => "broken",
        ExternalFailure::TaskGone => "task-gone",
        ExternalFailure::Unsupported => "unsupported",
        ExternalFailure::Unauthorized => "unauthorized",
        ExternalFailure::Final => "final",
        ExternalFailure::Refused => "refused",
        _ => "unknown",
    });
    json!({
        "at": json::time(step.at),
        "last_at": json::time(step.last_at),
        "count": step.count,
        "action": action,
        "url": step.url,
        "binding": step.binding,
        "detail": step.detail,
        "failure": failure,
        "next_at": json::time(step.next_at),
    })
}

fn envelope(envelope: &QueuedEnvelope) -> Value {
    let state = match envelope.state {
        QueueState::Queued => "queued",
        QueueState::Sent => "sent",
        QueueState::Parked => "parked",
        _ => "unknown",
    };
    json!({
        "envelope_id": envelope.id,
        "peer_id": envelope.peer.as_ref().map(ToString::to_string),
        "carries_task": envelope.carries_task,
        "state": state,
        "sent": envelope.sent,
        "exposed": envelope.exposed,
        "ahead": envelope.ahead,
        "expires_at": json::time(envelope.expires_at),
    })
}
