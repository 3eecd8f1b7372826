//! What this node did for a task, as spans of a distributed trace (W3C Trace Context, OpenTelemetry).
//!
//! A node that traces takes a task in as a child of the context that came with it, and puts its own context into the
//! task's metadata instead: whatever acts next, the other node, the agent, the way back, is a child of that. A context
//! that is not sampled is passed on as it came, and nothing is recorded. Pure: the spans are effects.

use std::collections::BTreeMap;

use rand::RngExt as _;

use super::{
    core::Core,
    trace::Trace,
    turn::{Effect, Now},
};
use crate::{
    store::StoreError,
    task::{Role, Status, Task, Traced},
};

/// What kind of work a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A task sent from here, to its end.
    Client,
    /// A task for the local agent, to its end.
    Server,
    /// An envelope, until it is acknowledged.
    Producer,
}

/// One piece of work that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// All spans of one trace have it.
    pub trace_id: u128,
    /// Its own.
    pub span_id: u64,
    /// That of the work it is part of; 0: none.
    pub parent: u64,
    /// What is done.
    pub name: &'static str,
    /// See there.
    pub kind: SpanKind,
    /// Unix milliseconds.
    pub start: u64,
    /// Unix milliseconds.
    pub end: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Names and values, by OpenTelemetry's conventions where there are some.
    pub attributes: Vec<(&'static str, String)>,
}

/// A context that is there and well formed: `00-TRACE-SPAN-FLAGS`, and longer ones of later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Context {
    trace_id: u128,
    span_id: u64,
    sampled: bool,
}

impl Context {
    fn parse(text: &str) -> Option<Self> {
        let hex = |text: &str, len: usize| {
            let clean = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            (text.len() == len && text.bytes().all(clean))
                .then(|| u128::from_str_radix(text, 16).ok())
                .flatten()
        };
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let ends = parts.next().is_none();
        let sound = version != 0xff && (version != 0 || ends) && trace_id != 0 && span_id != 0;
        sound.then_some(Self {
            trace_id,
            span_id,
            sampled: flags & 1 == 1,
        })
    }

    fn text(self) -> String {
        let flags = u8::from(self.sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.trace_id, self.span_id)
    }
}

impl Core {
    /// Makes this node part of the trace of a task that is new here. None: it is not recorded.
    pub(super) fn enter_trace(&mut self, metadata: &mut BTreeMap<String, String>) -> Option<Traced> {
        let share = self.limits.trace_share?;
        let came = Context::parse(Trace::of(metadata).parent);
        let own = match came {
            Some(came) if !came.sampled => return None,
            Some(came) => Context {
                span_id: self.random_span(),
                ..came
            },
            None => Context {
                trace_id: self.rng().random_range(1..=u128::MAX),
                span_id: self.random_span(),
                sampled: self.rng().random_bool(share),
            },
        };
        Trace::put(metadata, &own.text(), came.is_none());
        own.sampled.then_some(Traced {
            parent: came.map_or(0, |came| came.span_id),
        })
    }

    fn random_span(&mut self) -> u64 {
        self.rng().random_range(1..=u64::MAX)
    }

    /// The task has ended: all that was done for it here is one span.
    pub(super) fn trace_end(&mut self, task: &Task) {
        let (Some(traced), Some(own)) = (task.traced, Context::parse(Trace::of(&task.metadata).parent))
        else {
            return;
        };
        let (name, kind) = match task.role {
            Role::Assignee(_) => ("handle_task", SpanKind::Server),
            Role::Originator(_) | Role::Both | Role::Outside => ("send_task", SpanKind::Client),
        };
        let mut attributes = attributes_of(task);
        attributes.push(("agentanycast.task.status", task.status.to_string()));
        let failed = !matches!(task.status, Status::Completed | Status::Canceled);
        let reason = || {
            let said = task.status_message.as_deref().map(super::wire::text_of);
            said.unwrap_or_default().chars().take(MAX_REASON).collect()
        };
        let span = Span {
            trace_id: own.trace_id,
            span_id: own.span_id,
            parent: traced.parent,
            name,
            kind,
            start: task.created_at,
            end: task.updated_at,
            error: failed.then(reason),
            attributes,
        };
        self.effect(Effect::Traced(Box::new(span)));
    }

    /// An envelope about a task was acknowledged, or refused for this reason.
    pub(super) fn trace_ack(&mut self, now: Now, id: &str, refused: Option<&str>) -> Result<(), StoreError> {
        if self.limits.trace_share.is_none() {
            return Ok(());
        }
        let Some(task) = self.tasks.read(id)?.filter(|task| task.traced.is_some()) else {
            return Ok(());
        };
        let Some(own) = Context::parse(Trace::of(&task.metadata).parent) else {
            return Ok(());
        };
        let span = Span {
            trace_id: own.trace_id,
            span_id: self.random_span(),
            parent: own.span_id,
            name: "deliver",
            kind: SpanKind::Producer,
            start: task.updated_at.min(now.unix),
            end: now.unix,
            error: refused.map(str::to_owned),
            attributes: attributes_of(&task),
        };
        self.effect(Effect::Traced(Box::new(span)));
        Ok(())
    }
}

/// Longest reason in a span, in characters.
const MAX_REASON: usize = 256;

fn attributes_of(task: &Task) -> Vec<(&'static str, String)> {
    let mut attributes = vec![("agentanycast.task.id", task.id.clone())];
    if let Some(peer) = task.role.peer() {
        attributes.push(("network.peer.id", peer.to_string()));
    }
    if !task.skill.is_empty() {
        attributes.push(("agentanycast.skill", task.skill.clone()));
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_the_standard_says() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = Context::parse(text).unwrap();
        assert_eq!((read.span_id, read.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(read.text(), text);
        // A later version may have more, and its other flags mean nothing here.
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02-what-comes";
        assert!(!Context::parse(later).unwrap().sampled);
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Context::parse(wrong), None, "{wrong}");
        }
    }
}
