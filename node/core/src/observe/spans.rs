//! What this node did for a task, as spans of a distributed trace (W3C Trace Context, OpenTelemetry).
//!
//! A node that traces takes a task in as a child of the context that came with it, and puts its own context into the
//! task's metadata instead: whatever acts next, the other node, the agent, the way back, is a child of that. A context
//! that is not sampled is passed on as it came, and nothing is recorded. Pure: the spans are effects.

use std::collections::BTreeMap;

use agentanycast_daemon_kit::spans::{Context, Span, SpanKind};
use rand::RngExt as _;

use super::Observe;
use crate::{
    clock::Now,
    task::{Role, Status, Task, TraceRecording},
    trace_context::TraceContext,
    transaction::{Effect, Transaction},
    wire,
};

impl Observe {
    /// Makes this node part of the trace of a task that is new here. None: it is not recorded.
    pub(crate) fn enter_trace(
        &self,
        transaction: &mut Transaction,
        metadata: &mut BTreeMap<String, String>,
    ) -> Option<TraceRecording> {
        let share = self.trace_share?;
        let came = Context::parse(TraceContext::from_metadata(metadata).parent);
        let own = match came {
            Some(came) if !came.sampled => return None,
            Some(came) => Context {
                span_id: random_span(transaction),
                ..came
            },
            None => Context {
                trace_id: transaction.rng().random_range(1..=u128::MAX),
                span_id: random_span(transaction),
                sampled: transaction.rng().random_bool(share),
            },
        };
        TraceContext::set_parent(metadata, &own.text(), came.is_none());
        own.sampled.then_some(TraceRecording {
            parent: came.map_or(0, |came| came.span_id),
        })
    }

    /// An envelope about this task was acknowledged, or refused for this reason.
    pub(crate) fn trace_ack(transaction: &mut Transaction, now: Now, task: &Task, refused: Option<&str>) {
        if task.traced.is_none() {
            return;
        }
        let Some(own) = Context::parse(TraceContext::from_metadata(&task.metadata).parent) else {
            return;
        };
        let span = Span {
            trace_id: own.trace_id,
            span_id: random_span(transaction),
            parent: own.span_id,
            name: "deliver",
            kind: SpanKind::Producer,
            start: nanos(task.updated_at.min(now.unix)),
            end: nanos(now.unix),
            error: refused.map(str::to_owned),
            attributes: attributes_of(task),
        };
        transaction.effect(Effect::Traced(Box::new(span)));
    }
}

fn random_span(transaction: &mut Transaction) -> u64 {
    transaction.new_epoch()
}

/// The task has ended: all that was done for it here is one span.
pub(super) fn trace_end(transaction: &mut Transaction, task: &Task) {
    let (Some(traced), Some(own)) = (
        task.traced,
        Context::parse(TraceContext::from_metadata(&task.metadata).parent),
    ) else {
        return;
    };
    let (name, kind) = match task.role {
        Role::Assignee(_) => ("handle_task", SpanKind::Server),
        Role::Originator(_) | Role::Both | Role::External => ("send_task", SpanKind::Client),
    };
    let mut attributes = attributes_of(task);
    attributes.push(("agentanycast.task.status", task.status.to_string()));
    let failed = !matches!(task.status, Status::Completed | Status::Canceled);
    let reason = || {
        let said = task.status_message.as_deref().map(wire::text_of);
        said.unwrap_or_default().chars().take(MAX_REASON).collect()
    };
    let span = Span {
        trace_id: own.trace_id,
        span_id: own.span_id,
        parent: traced.parent,
        name,
        kind,
        start: nanos(task.created_at),
        end: nanos(task.updated_at),
        error: failed.then(reason),
        attributes,
    };
    transaction.effect(Effect::Traced(Box::new(span)));
}

/// Longest reason in a span, in characters.
const MAX_REASON: usize = 256;

/// Of milliseconds, which tasks are dated in.
fn nanos(millis: u64) -> u64 {
    millis.saturating_mul(1_000_000)
}

fn attributes_of(task: &Task) -> Vec<(&'static str, String)> {
    let mut attributes = vec![("agentanycast.task.id", task.id.clone())];
    if let Some(peer) = task.role.peer() {
        attributes.push(("network.peer.id", peer.to_string()));
    }
    if !task.skill.is_empty() {
        attributes.push(("agentanycast.skill", task.skill.clone()));
    }
    if let Some(agent) = &task.agent {
        attributes.push(("agentanycast.agent", agent.to_string()));
    }
    attributes
}
