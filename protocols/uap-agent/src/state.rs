//! The immutable state of an agent: everything that it knows between two calls, and nothing hidden.
//!
//! Each operation returns a new state with a new id and leaves the old one alone. The parts are shared, so
//! that an operation copies the changed part only, and a clone copies nothing.

mod error;
mod field_path;
mod json;
pub(crate) mod nesting;
mod v1_0;

use std::sync::Arc;

use agentanycast_upp::Message;
use serde_json::{Map, Value};
use uuid::Uuid;

pub use self::{error::StateError, json::STATE_VERSION};
use crate::{plan_step::PlanStep, trace::SubagentExecutionTrace};

/// A snapshot of an agent's state.
///
/// ```
/// use agentanycast_uap::AgentState;
/// use agentanycast_upp::UserMessage;
///
/// let empty = AgentState::initial();
/// let asked = empty.with_message(UserMessage::text("hi"));
/// assert_eq!((empty.messages().len(), asked.messages().len()), (0, 1));
/// assert_ne!(empty.id(), asked.id());
/// assert_eq!(AgentState::from_json(&asked.to_json())?, asked);
/// # Ok::<(), agentanycast_uap::StateError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState(Arc<StateFields>);

#[derive(Clone, Debug, PartialEq)]
struct StateFields {
    id: String,
    messages: Arc<Vec<Message>>,
    step: u64,
    metadata: Arc<Map<String, Value>>,
    reasoning: Arc<Vec<String>>,
    plan: Option<Arc<Vec<PlanStep>>>,
    subagent_traces: Option<Arc<Vec<SubagentExecutionTrace>>>,
}

/// The key under which an agent counts the tokens of all runs from this state.
const TOTAL_TOKENS: &str = "totalTokens";

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

impl AgentState {
    /// An empty state at step 0.
    pub fn initial() -> Self {
        Self(Arc::new(StateFields {
            id: new_id(),
            messages: Arc::default(),
            step: 0,
            metadata: Arc::default(),
            reasoning: Arc::default(),
            plan: None,
            subagent_traces: None,
        }))
    }

    fn changed(&self, change: impl FnOnce(&mut StateFields)) -> Self {
        let mut fields = StateFields {
            id: new_id(),
            ..(*self.0).clone()
        };
        change(&mut fields);
        Self(Arc::new(fields))
    }

    /// The id of this snapshot.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The conversation, oldest message first.
    pub fn messages(&self) -> &[Message] {
        &self.0.messages
    }

    /// The number of the last step, 0 before the first.
    pub fn step(&self) -> u64 {
        self.0.step
    }

    /// Values of the developer, and `agentId`, `sessionId` and `totalTokens` of the agent.
    pub fn metadata(&self) -> &Map<String, Value> {
        &self.0.metadata
    }

    /// Traces of reasoning, oldest first.
    pub fn reasoning(&self) -> &[String] {
        &self.0.reasoning
    }

    /// The plan, if there is one.
    pub fn plan(&self) -> Option<&[PlanStep]> {
        self.0.plan.as_deref().map(Vec::as_slice)
    }

    /// What sub-agents did, oldest first.
    pub fn subagent_traces(&self) -> &[SubagentExecutionTrace] {
        self.0.subagent_traces.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Adds a message.
    #[must_use]
    pub fn with_message(&self, message: impl Into<Message>) -> Self {
        self.with_messages([message.into()])
    }

    /// Adds messages.
    #[must_use]
    pub fn with_messages(&self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.changed(|fields| Arc::make_mut(&mut fields.messages).extend(messages))
    }

    /// Replaces all messages, for example by fewer ones that fit the context of the model.
    ///
    /// ```
    /// # use agentanycast_uap::AgentState;
    /// # use agentanycast_upp::UserMessage;
    /// let messages = (0..9).map(|n| UserMessage::text(n.to_string()).into());
    /// let long = AgentState::initial().with_messages(messages);
    /// let short = long.with_context(long.messages()[6..].to_vec());
    /// assert_eq!(short.messages().len(), 3);
    /// ```
    #[must_use]
    pub fn with_context(&self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.changed(|fields| fields.messages = Arc::new(messages.into_iter().collect()))
    }

    /// Sets the number of the step.
    #[must_use]
    pub fn with_step(&self, step: u64) -> Self {
        self.changed(|fields| fields.step = step)
    }

    /// Sets a value.
    #[must_use]
    pub fn with_metadata(&self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.changed(|fields| {
            Arc::make_mut(&mut fields.metadata).insert(key.into(), value.into());
        })
    }

    /// Adds a trace of reasoning.
    #[must_use]
    pub fn with_reasoning(&self, reasoning: impl Into<String>) -> Self {
        self.changed(|fields| Arc::make_mut(&mut fields.reasoning).push(reasoning.into()))
    }

    /// Sets the plan.
    #[must_use]
    pub fn with_plan(&self, plan: impl IntoIterator<Item = PlanStep>) -> Self {
        self.changed(|fields| fields.plan = Some(Arc::new(plan.into_iter().collect())))
    }

    /// The state after a step, in one operation. The tokens are added to `totalTokens` of the metadata.
    pub(crate) fn after_step(
        &self,
        step: u64,
        messages: impl IntoIterator<Item = Message>,
        traces: Vec<SubagentExecutionTrace>,
        tokens: u64,
    ) -> Self {
        let so_far = self
            .metadata()
            .get(TOTAL_TOKENS)
            .and_then(Value::as_u64)
            .unwrap_or(0);
        self.changed(|fields| {
            fields.step = step;
            Arc::make_mut(&mut fields.messages).extend(messages);
            let metadata = Arc::make_mut(&mut fields.metadata);
            metadata.insert(TOTAL_TOKENS.to_owned(), so_far.saturating_add(tokens).into());
            if !traces.is_empty() {
                Arc::make_mut(fields.subagent_traces.get_or_insert_default()).extend(traces);
            }
        })
    }

    /// Sets a value, unless it is there already.
    pub(crate) fn ensure_metadata(&self, key: &str, value: &str) -> Self {
        if self.metadata().get(key).and_then(Value::as_str) == Some(value) {
            return self.clone();
        }
        self.with_metadata(key, value)
    }

    /// Adds what a sub-agent did.
    #[must_use]
    pub fn with_subagent_trace(&self, trace: SubagentExecutionTrace) -> Self {
        self.with_subagent_traces([trace])
    }

    /// Adds what sub-agents did.
    #[must_use]
    pub fn with_subagent_traces(&self, traces: impl IntoIterator<Item = SubagentExecutionTrace>) -> Self {
        self.changed(|fields| Arc::make_mut(fields.subagent_traces.get_or_insert_default()).extend(traces))
    }
}

impl Default for AgentState {
    fn default() -> Self {
        Self::initial()
    }
}
