//! What a strategy works with, and the parts of a step that all strategies share.

use std::sync::Arc;

use agentanycast_upp::{
    Call, CancellationToken, EventSender, Input, Llm, Message, StreamEvent, Tool, ToolCall, ToolExecution,
    Turn, TurnRun,
};
use serde_json::{Map, Value, json};

use crate::{
    checkpoint::save_queue::SaveQueue,
    event::{AgentEvent, AgentEventType, AgentStreamEvent},
    hooks::AgentStrategy,
    result::GenerateResult,
    state::AgentState,
    tool_context::AgentToolContext,
    tool_order::DependencyOrder,
};

/// What a strategy works with.
#[non_exhaustive]
pub struct ExecutionContext {
    /// The id of the agent.
    pub agent_id: Arc<str>,
    /// The model with the tools of the agent.
    pub llm: Llm,
    /// The new messages. Empty if a run is resumed from its state.
    pub input: Vec<Message>,
    /// The state before the run.
    pub state: AgentState,
    /// The hooks at the boundaries of steps.
    pub strategy: Option<Arc<dyn AgentStrategy>>,
    /// Is cancelled when the caller cancels the run.
    pub cancel: CancellationToken,
    /// The session, if there is one.
    pub session_id: Option<String>,
    saves: Option<Arc<SaveQueue>>,
    events: Option<EventSender<AgentStreamEvent>>,
}

impl ExecutionContext {
    /// A context without session, hooks, checkpoints and events, for a strategy that runs outside of an
    /// agent.
    pub fn new(llm: Llm, input: impl Into<Input>, state: &AgentState) -> Self {
        Self {
            agent_id: uuid::Uuid::new_v4().to_string().into(),
            llm,
            input: input.into().into_messages(),
            state: state.clone(),
            strategy: None,
            cancel: CancellationToken::new(),
            session_id: None,
            saves: None,
            events: None,
        }
    }

    pub(crate) fn set_saves(&mut self, saves: Option<Arc<SaveQueue>>) {
        self.saves = saves;
    }

    pub(crate) fn set_events(&mut self, events: EventSender<AgentStreamEvent>) {
        self.events = Some(events);
    }

    /// The tools of the agent.
    pub fn tools(&self) -> &[Tool] {
        self.llm.tools()
    }

    /// Whether the run goes on from its state instead of beginning with new messages.
    pub fn is_resumed(&self) -> bool {
        self.input.is_empty()
    }

    /// The number of the last step before this run: a resumed run goes on counting, any other counts from 1.
    pub fn last_step(&self) -> u64 {
        if self.is_resumed() { self.state.step() } else { 0 }
    }

    /// The result of a resumed run that has nothing left to do: its last message is an answer without calls
    /// of tools. The turn holds that message.
    pub fn finished(&self) -> Option<GenerateResult> {
        let last = self.state.messages().last().filter(|_| self.is_resumed())?;
        let answer = last.as_assistant().filter(|answer| answer.tool_calls.is_empty());
        answer.map(|_| GenerateResult {
            turn: Turn {
                messages: vec![last.clone()],
                ..Turn::default()
            },
            state: self.state.clone(),
        })
    }

    /// Begins a loop of the model: with the cancellation of the run, the order of tools, and events to its
    /// stream.
    pub fn start(&self, llm: &Llm, input: impl Into<Input>, history: &[Message]) -> TurnRun {
        let call = Call::new(input)
            .history(history)
            .cancel(self.cancel.clone())
            .extension(self.tool_context(self.state.step(), &self.state))
            .tool_order(Arc::new(DependencyOrder));
        let run = llm.start(call);
        let Some(events) = self.events.clone() else {
            return run;
        };
        run.with_events(EventSender::from_fn(move |event: StreamEvent| {
            let events = events.clone();
            async move { events.send(AgentStreamEvent::Upp(event)).await }
        }))
    }

    /// What the tools of a step learn; the strategy sets it with [`TurnRun::set_extension`].
    pub fn tool_context(&self, step: u64, state: &AgentState) -> AgentToolContext {
        AgentToolContext::new(self.agent_id.clone(), state, step, self.events.clone())
    }

    /// A step begins: event `step_start`, hook `on_step_start`.
    pub async fn begin_step(&self, step: u64, state: &AgentState) {
        self.begin_step_with(step, state, Map::new).await;
    }

    /// As [`ExecutionContext::begin_step`], with data for the event. The data is made only if there is a
    /// reader.
    pub async fn begin_step_with(
        &self,
        step: u64,
        state: &AgentState,
        data: impl FnOnce() -> Map<String, Value>,
    ) {
        self.emit(AgentEventType::StepStart, step, data).await;
        if let Some(strategy) = &self.strategy {
            strategy.on_step_start(step, state).await;
        }
    }

    /// The agent reasoned: event `reasoning`, hook `on_reason`.
    pub async fn reason(&self, step: u64, reasoning: &str) {
        self.emit(AgentEventType::Reasoning, step, || {
            object("reasoning", reasoning.into())
        })
        .await;
        if let Some(strategy) = &self.strategy {
            strategy.on_reason(step, reasoning).await;
        }
    }

    /// The agent is about to call tools: event `action`, hook `on_act`.
    pub async fn act(&self, step: u64, calls: &[ToolCall]) {
        self.emit(AgentEventType::Action, step, || object("toolCalls", json!(calls)))
            .await;
        if let Some(strategy) = &self.strategy {
            strategy.on_act(step, calls).await;
        }
    }

    /// The tools returned: event `observation`, hook `on_observe`.
    pub async fn observe(&self, step: u64, executions: &[ToolExecution]) {
        self.emit(AgentEventType::Observation, step, || {
            object("observations", json!(executions))
        })
        .await;
        if let Some(strategy) = &self.strategy {
            strategy.on_observe(step, executions).await;
        }
    }

    /// A step ended: event `step_end`, hook `on_step_end`, and a checkpoint. Returns whether the run has to
    /// end.
    pub async fn end_step(&self, step: u64, result: &GenerateResult) -> bool {
        self.end_step_with(step, result, Map::new).await
    }

    /// As [`ExecutionContext::end_step`], with data for the event.
    pub async fn end_step_with(
        &self,
        step: u64,
        result: &GenerateResult,
        data: impl FnOnce() -> Map<String, Value>,
    ) -> bool {
        self.emit(AgentEventType::StepEnd, step, data).await;
        if let Some(saves) = &self.saves {
            saves.save(&result.state);
        }
        let Some(strategy) = &self.strategy else {
            return false;
        };
        strategy.on_step_end(step, result).await;
        strategy.stop_condition(&result.state).await
    }

    async fn emit(&self, kind: AgentEventType, step: u64, data: impl FnOnce() -> Map<String, Value>) {
        if let Some(events) = &self.events {
            let event = AgentEvent {
                kind,
                step,
                agent_id: self.agent_id.to_string(),
                data: data(),
            };
            events.send(AgentStreamEvent::Agent(event)).await;
        }
    }
}

/// An object of one field.
pub(super) fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}
