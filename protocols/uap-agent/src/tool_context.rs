//! What tools learn of the agent that runs them, and how a sub-agent reports to its parent.
//!
//! A sub-agent hands its events to the stream of its parent, and leaves a trace that the parent puts into its
//! state.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use agentanycast_upp::{EventSender, Timestamp, TokenUsage, ToolContext, ToolExecution};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    event::{AgentEvent, AgentEventType, AgentStreamEvent},
    state::AgentState,
    trace::{SubagentExecutionTrace, ToolExecutionTrace},
};

/// What a tool learns of the agent that runs it ([`AgentToolContext::of`]).
#[derive(Clone)]
pub struct AgentToolContext {
    agent_id: Arc<str>,
    state_id: Arc<str>,
    step: u64,
    events: Option<EventSender<AgentStreamEvent>>,
    traces: Arc<Mutex<Vec<SubagentExecutionTrace>>>,
}

impl AgentToolContext {
    pub(crate) fn new(
        agent_id: Arc<str>,
        state: &AgentState,
        step: u64,
        events: Option<EventSender<AgentStreamEvent>>,
    ) -> Self {
        Self {
            agent_id,
            state_id: state.id().into(),
            step,
            events,
            traces: Arc::default(),
        }
    }

    /// The context of a tool that an agent runs; `None` for a tool that a bare `llm()` runs.
    pub fn of(context: &ToolContext) -> Option<&Self> {
        context.extension()
    }

    /// The id of the agent.
    pub fn agent_id(&self) -> &str {
        &self.agent_id
    }

    /// The id of the agent's state before the step.
    pub fn state_id(&self) -> &str {
        &self.state_id
    }

    /// Whether the agent is streamed, so that events of a sub-agent have a reader.
    pub fn is_streamed(&self) -> bool {
        self.events.is_some()
    }

    /// The traces so far, in the order of the calls.
    pub(crate) fn take_traces(&self, executions: &[ToolExecution]) -> Vec<SubagentExecutionTrace> {
        let mut traces = std::mem::take(&mut *self.traces.lock().unwrap_or_else(PoisonError::into_inner));
        let place = |trace: &SubagentExecutionTrace| {
            executions
                .iter()
                .position(|execution| execution.tool_call_id == trace.parent_tool_call_id)
        };
        traces.sort_by_key(place);
        traces
    }

    async fn emit(&self, kind: AgentEventType, data: Map<String, Value>) {
        if let Some(events) = &self.events {
            events.send(self.event(kind, data)).await;
        }
    }

    fn event(&self, kind: AgentEventType, data: Map<String, Value>) -> AgentStreamEvent {
        AgentStreamEvent::Agent(AgentEvent {
            kind,
            step: self.step,
            agent_id: self.agent_id.to_string(),
            data,
        })
    }
}

impl fmt::Debug for AgentToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentToolContext")
            .field("agent_id", &self.agent_id)
            .field("state_id", &self.state_id)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// A sub-agent that runs: it tells the parent that it began, what happens in it, and how it ended. Dropping
/// it, as at the time-out of its tool, ends it as failed.
///
/// Tools of other kinds use it to appear as sub-agents too, for example agents elsewhere.
#[derive(Debug)]
pub struct SubagentRun {
    parent: Option<AgentToolContext>,
    trace: SubagentExecutionTrace,
    has_ended: bool,
}

impl SubagentRun {
    /// Begins: the parent's stream gets `subagent_start`.
    pub async fn begin(context: &ToolContext, subagent_type: &str, prompt: &str) -> Self {
        let trace = SubagentExecutionTrace {
            subagent_id: Uuid::new_v4().to_string(),
            subagent_type: subagent_type.to_owned(),
            parent_tool_call_id: context.tool_call_id().to_owned(),
            prompt: prompt.to_owned(),
            start_time: Timestamp::now().as_millis(),
            end_time: 0,
            success: false,
            result: None,
            error: None,
            tool_executions: None,
            usage: None,
        };
        let run = Self {
            parent: AgentToolContext::of(context).cloned(),
            trace,
            has_ended: false,
        };
        let mut data = ids_of(&run.trace);
        data.insert("prompt".to_owned(), prompt.into());
        data.insert("timestamp".to_owned(), run.trace.start_time.into());
        run.emit(AgentEventType::SubagentStart, data).await;
        run
    }

    /// Whether events of the sub-agent have a reader.
    pub fn is_streamed(&self) -> bool {
        self.parent.as_ref().is_some_and(AgentToolContext::is_streamed)
    }

    /// Hands an event of the sub-agent to the parent's stream.
    pub async fn event(&self, inner: &AgentStreamEvent) {
        if self.is_streamed() {
            let mut data = ids_of(&self.trace);
            data.insert(
                "innerEvent".to_owned(),
                serde_json::to_value(inner).unwrap_or_default(),
            );
            self.emit(AgentEventType::SubagentEvent, data).await;
        }
    }

    /// Ends: the parent's stream gets `subagent_end`, and its state the trace.
    pub async fn end(
        mut self,
        outcome: &Result<String, String>,
        executions: &[ToolExecution],
        usage: Option<TokenUsage>,
    ) {
        self.finish(outcome, executions, usage);
        self.emit(AgentEventType::SubagentEnd, end_of(&self.trace)).await;
    }

    /// Puts the trace into the parent's state.
    fn finish(
        &mut self,
        outcome: &Result<String, String>,
        executions: &[ToolExecution],
        usage: Option<TokenUsage>,
    ) {
        let trace = &mut self.trace;
        trace.end_time = Timestamp::now().as_millis();
        trace.success = outcome.is_ok();
        trace.result = outcome.as_ref().ok().cloned();
        trace.error = outcome.as_ref().err().cloned();
        let executions: Vec<_> = executions.iter().map(ToolExecutionTrace::from).collect();
        trace.tool_executions = (!executions.is_empty()).then_some(executions);
        trace.usage = usage;
        self.has_ended = true;
        if let Some(parent) = &self.parent {
            parent
                .traces
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(self.trace.clone());
        }
    }

    async fn emit(&self, kind: AgentEventType, data: Map<String, Value>) {
        if let Some(parent) = &self.parent {
            parent.emit(kind, data).await;
        }
    }
}

impl Drop for SubagentRun {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.finish(
            &Err("the sub-agent was given up before its end".to_owned()),
            &[],
            None,
        );
        let data = end_of(&self.trace);
        if let Some(parent) = &self.parent
            && let Some(events) = &parent.events
        {
            events.send_detached(parent.event(AgentEventType::SubagentEnd, data));
        }
    }
}

fn ids_of(trace: &SubagentExecutionTrace) -> Map<String, Value> {
    let fields = [
        ("subagentId", &trace.subagent_id),
        ("subagentType", &trace.subagent_type),
        ("parentToolCallId", &trace.parent_tool_call_id),
    ];
    fields
        .map(|(key, value)| (key.to_owned(), value.as_str().into()))
        .into_iter()
        .collect()
}

/// The data of `subagent_end`.
fn end_of(trace: &SubagentExecutionTrace) -> Map<String, Value> {
    let mut data = ids_of(trace);
    data.insert("success".to_owned(), trace.success.into());
    data.insert("timestamp".to_owned(), trace.end_time.into());
    let optional = [
        ("result", json!(trace.result)),
        ("error", json!(trace.error)),
        ("toolExecutions", json!(trace.tool_executions)),
        ("usage", json!(trace.usage)),
    ];
    data.extend(
        optional
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_owned(), value)),
    );
    data
}
