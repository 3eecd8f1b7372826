//! Events of an agent's stream: those of the agent, and those of the model within.

use agentanycast_upp::{EventStream, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::result::{AgentError, GenerateResult};

/// What happened in an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEventType {
    /// A step begins.
    StepStart,
    /// A step ended.
    StepEnd,
    /// The agent reasoned.
    Reasoning,
    /// The agent calls tools.
    Action,
    /// The tools returned.
    Observation,
    /// A sub-agent begins.
    SubagentStart,
    /// A sub-agent had an event.
    SubagentEvent,
    /// A sub-agent ended.
    SubagentEnd,
}

/// An event of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: AgentEventType,
    /// The step in which it happened.
    pub step: u64,
    /// The agent.
    pub agent_id: String,
    /// More about it; the keys depend on the type.
    #[serde(default)]
    pub data: Map<String, Value>,
}

/// An event of an agent's stream.
///
/// ```
/// use agentanycast_uap::AgentStreamEvent;
/// use agentanycast_upp::StreamEvent;
///
/// let event = AgentStreamEvent::Upp(StreamEvent::text(0, "hi"));
/// let json = serde_json::to_value(&event)?;
/// assert_eq!((&json["source"], &json["upp"]["delta"]["text"]), (&"upp".into(), &"hi".into()));
/// assert_eq!(serde_json::from_value::<AgentStreamEvent>(json)?, event);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EventJson", into = "EventJson")]
pub enum AgentStreamEvent {
    /// Of the agent.
    Agent(AgentEvent),
    /// Of the model.
    Upp(StreamEvent),
}

impl AgentStreamEvent {
    /// The agent's event, if it is one.
    pub fn as_agent(&self) -> Option<&AgentEvent> {
        match self {
            Self::Agent(event) => Some(event),
            Self::Upp(_) => None,
        }
    }

    /// The model's event, if it is one.
    pub fn as_upp(&self) -> Option<&StreamEvent> {
        match self {
            Self::Upp(event) => Some(event),
            Self::Agent(_) => None,
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct EventJson {
    source: Source,
    #[serde(default, rename = "uap", skip_serializing_if = "Option::is_none")]
    agent: Option<AgentEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upp: Option<StreamEvent>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Source {
    #[serde(rename = "uap")]
    Agent,
    #[serde(rename = "upp")]
    Upp,
}

impl From<AgentStreamEvent> for EventJson {
    fn from(event: AgentStreamEvent) -> Self {
        match event {
            AgentStreamEvent::Agent(event) => Self {
                source: Source::Agent,
                agent: Some(event),
                upp: None,
            },
            AgentStreamEvent::Upp(event) => Self {
                source: Source::Upp,
                agent: None,
                upp: Some(event),
            },
        }
    }
}

impl TryFrom<EventJson> for AgentStreamEvent {
    type Error = &'static str;

    fn try_from(json: EventJson) -> Result<Self, Self::Error> {
        match json {
            EventJson {
                source: Source::Agent,
                agent: Some(event),
                ..
            } => Ok(Self::Agent(event)),
            EventJson {
                source: Source::Upp,
                upp: Some(event),
                ..
            } => Ok(Self::Upp(event)),
            _ => Err("the event has no field of the name that `source` holds"),
        }
    }
}

/// The stream of an agent: events, and the result at their end.
pub type AgentStreamResult = EventStream<AgentStreamEvent, GenerateResult, AgentError>;
