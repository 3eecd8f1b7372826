//! The tools: their names, and what clients and their models are told of them. PURE.
//!
//! The one rule: a schema says what `call` takes and no more, with the same bounds; its tests check both against each
//! other.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::{
    call::{
        AGENTS, DEFAULT_AGENTS, DEFAULT_LISTED, DEFAULT_WAIT, LISTED, MAX_FILES, MAX_ID, MAX_NAME, MAX_TAGS,
        MAX_TEXT, MAX_URL, MAX_WAIT, STATES,
    },
    tool_name::ToolName,
};

impl ToolName {
    fn title(self) -> &'static str {
        match self {
            Self::DiscoverAgents => "Find agents by skill",
            Self::ListAgents => "List known agents",
            Self::ListSkills => "List known skills",
            Self::GetAgentCard => "Read an agent's card",
            Self::AskAgent => "Ask an agent",
            Self::GetTask => "Look at a task",
            Self::ReplyToTask => "Answer an agent's question",
            Self::CancelTask => "Cancel a task",
            Self::ListTasks => "List your tasks",
        }
    }

    fn description(self) -> String {
        match self {
            Self::DiscoverAgents => {
                "Finds agents of the network that have a skill. Returns each agent's peer_id, which \
                ask_agent and get_agent_card take as `agent`, with its name and skills."
                    .to_owned()
            }
            Self::ListAgents => {
                "Lists the agents that are known here: those beside this node, those of connected nodes, and those that \
                registries tell of, with their skills. ask_agent and get_agent_card take each one's `agent`. Use it to see \
                who is there at all."
                    .to_owned()
            }
            Self::ListSkills => {
                "Lists the skills of the agents that are known here, with the agents that have each: by name, or as \
                PEER/NAME where a node has several agents. ask_agent and discover_agents take the id as `skill`."
                    .to_owned()
            }
            Self::GetAgentCard => {
                "Reads what an agent says of itself: name, description, and its skills with what they \
                take. Use it before ask_agent when it is not clear how to ask."
                    .to_owned()
            }
            Self::AskAgent => format!(
                "Gives an agent a task and waits for its end, at most wait_seconds (default {DEFAULT_WAIT}). Say who is \
                 asked by exactly one of agent, skill and url. The result has the task's task_id and state. completed: \
                 the results are there. input_required: the agent asks something; answer with reply_to_task. working or \
                 submitted: it goes on; call get_task with the task_id. Each call begins a new task; do not call again \
                 to wait longer."
            ),
            Self::GetTask => {
                "Shows a task that ask_agent began: state, question, results. With wait_seconds it waits so \
                long for the task to end or to ask something."
                    .to_owned()
            }
            Self::ReplyToTask => {
                "Answers a task whose state is input_required, and waits as ask_agent does.".to_owned()
            }
            Self::CancelTask => {
                "Ends a task that has not ended. What its agent has done already stays done.".to_owned()
            }
            Self::ListTasks => {
                "Lists the tasks that you began, the newest change first, without their content. Give \
                `next` of a page as `after` to get the page behind it."
                    .to_owned()
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let (read_only, destructive, idempotent, open) = match self {
            Self::DiscoverAgents | Self::ListAgents | Self::ListSkills | Self::GetAgentCard => {
                (true, false, true, true)
            }
            // An agent may do anything with what it is told.
            Self::AskAgent | Self::ReplyToTask => (false, true, false, true),
            Self::GetTask | Self::ListTasks => (true, false, true, false),
            Self::CancelTask => (false, true, true, true),
        };
        ToolAnnotations::with_title(self.title())
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open)
    }

    fn input(self) -> Value {
        match self {
            Self::DiscoverAgents => object(
                json!({
                    "skill": text(MAX_ID, "The skill's id, such as translate"),
                    "tags": {"type": "object", "additionalProperties": text(MAX_ID, "The tag's value"),
                        "maxProperties": MAX_TAGS, "description": "Only agents whose skill has all of these tags"},
                    "limit": number(AGENTS, DEFAULT_AGENTS, "At most so many agents"),
                }),
                &["skill"],
            ),
            Self::ListAgents => object(
                json!({
                    "skill": text(MAX_ID, "Only agents that have this skill"),
                    "limit": number(AGENTS, DEFAULT_AGENTS, "At most so many agents"),
                }),
                &[],
            ),
            Self::ListSkills => object(json!({}), &[]),
            Self::GetAgentCard => object(
                json!({"agent": text(MAX_ID, "Peer id or did:key of the agent; PEER/NAME for one of several agents of a node, where \
                    self is this node; without it, the agent beside this node")}),
                &[],
            ),
            // Which of agent, skill and url are given is checked by the call: model providers refuse a schema
            // with `oneOf` at its top, or drop its tool.
            Self::AskAgent => object(
                with_message(json!({
                    "agent": text(MAX_ID, "Ask the agent with this peer id or did:key; PEER/NAME for one of several agents of a node, \
                        where self is this node; not with skill or url"),
                    "skill": text(MAX_ID, "Ask any agent that has this skill; not with agent or url"),
                    "url": text(MAX_URL, "Ask the A2A agent at this URL, outside the network; not with agent or skill"),
                    "context_id": text(MAX_ID, "The context_id of an earlier task, to go on with that conversation"),
                    "wait_seconds": wait(DEFAULT_WAIT),
                })),
                &["message"],
            ),
            Self::GetTask => object(
                json!({"task_id": task_id(), "wait_seconds": wait(0)}),
                &["task_id"],
            ),
            Self::ReplyToTask => object(
                with_message(json!({"task_id": task_id(), "wait_seconds": wait(DEFAULT_WAIT)})),
                &["task_id", "message"],
            ),
            Self::CancelTask => object(json!({"task_id": task_id()}), &["task_id"]),
            Self::ListTasks => object(
                json!({
                    "limit": number(LISTED, DEFAULT_LISTED, "At most so many tasks"),
                    "status": {"type": "string", "enum": states(), "description": "Only tasks in this state"},
                    "after": text(MAX_NAME, "The `next` of the page before"),
                }),
                &[],
            ),
        }
    }

    fn output(self) -> Value {
        match self {
            Self::DiscoverAgents => result(
                json!({"agents": list(&result(
                    json!({"peer_id": string(), "name": string(), "description": string(), "skills": list(&skill())}),
                    &["peer_id", "name", "skills"],
                )), "left_out": left_out()}),
                &["agents"],
            ),
            Self::ListAgents => result(
                json!({"agents": list(&result(
                    json!({"peer_id": string(), "agent": string(), "name": string(), "description": string(),
                        "skills": list(&skill()), "reached": {"enum": ["here", "lan", "direct", "relay", "registry"]}}),
                    &["peer_id", "name", "skills"],
                )), "left_out": left_out()}),
                &["agents"],
            ),
            Self::ListSkills => result(
                json!({"skills": list(&result(
                    json!({"id": string(), "description": string(), "agents": list(&string())}),
                    &["id", "agents"],
                )), "left_out": left_out()}),
                &["skills"],
            ),
            Self::GetAgentCard => result(
                json!({"peer_id": string(), "agent": string(), "name": string(), "description": string(),
                    "version": string(), "skills": list(&skill()), "agents": list(&result(
                        json!({"agent": string(), "name": string(), "description": string(), "skills": list(&string())}),
                        &["agent", "name", "skills"],
                    )), "left_out": left_out()}),
                &["name", "skills"],
            ),
            Self::AskAgent | Self::GetTask | Self::ReplyToTask | Self::CancelTask => result(
                json!({
                    "task_id": string(),
                    "state": state(),
                    "context_id": string(),
                    "agent": string(),
                    "message": {"type": "string", "description": "What the agent said with the state: a question, a reason"},
                    "results": list(&result(
                        json!({"name": string(), "parts": list(&result(
                            json!({
                                "type": {"enum": ["text", "data", "file", "link"]},
                                "text": string(),
                                "data": {},
                                "url": string(),
                                "name": string(),
                                "media_type": string(),
                                "size": {"type": "integer"},
                                "left_out": left_out(),
                            }),
                            &["type"],
                        ))}),
                        &["parts"],
                    )),
                    "left_out": left_out(),
                }),
                &["task_id", "state", "results"],
            ),
            Self::ListTasks => result(
                json!({
                    "tasks": list(&result(
                        json!({"task_id": string(), "state": state(), "context_id": string(), "agent": string(),
                            "updated_at": string()}),
                        &["task_id", "state"],
                    )),
                    "total": {"type": "integer"},
                    "next": {"type": "string", "description": "Give it as `after` for the next page; not there on the last"},
                }),
                &["tasks", "total"],
            ),
        }
    }

    fn described(self) -> Tool {
        Tool::new(self.name(), self.description(), schema(self.input()))
            .with_title(self.title())
            .with_raw_output_schema(schema(self.output()))
            .with_annotations(self.annotations())
    }
}

/// All tools, as clients are told of them.
pub(super) fn all() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> =
        LazyLock::new(|| ToolName::ALL.into_iter().map(ToolName::described).collect());
    &TOOLS
}

fn schema(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

/// Arguments, and nothing else.
fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = result(properties, required);
    schema["additionalProperties"] = false.into();
    schema
}

/// What comes back: there may come to be more in it.
fn result(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "required": required});
    schema["properties"] = properties;
    schema
}

fn with_message(mut properties: Value) -> Value {
    let file = object(
        json!({
            "name": text(MAX_NAME, "The file's name"),
            "media_type": text(MAX_NAME, "Such as image/png"),
            "text": text(MAX_TEXT, "Its content, if it is text"),
            "base64": text(MAX_TEXT, "Its content in base64"),
            "url": text(MAX_URL, "Where the agent gets it"),
        }),
        &[],
    );
    properties["message"] = text(
        MAX_TEXT,
        "What to tell the agent. A message has at most 16 MiB in all",
    );
    properties["data"] =
        json!({"type": "object", "description": "JSON for the agent, as its skill wants it"});
    properties["files"] = json!({"type": "array", "items": file, "maxItems": MAX_FILES,
        "description": "Files for the agent, each with exactly one of text, base64 and url"});
    properties
}

fn text(most: usize, description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most, "description": description})
}

fn number(range: std::ops::RangeInclusive<u64>, default: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": range.start(), "maximum": range.end(), "default": default,
        "description": description})
}

fn wait(default: u64) -> Value {
    number(
        0..=MAX_WAIT,
        default,
        "Wait so long at most, then show the task as it stands; it goes on",
    )
}

fn task_id() -> Value {
    text(MAX_ID, "The task_id that ask_agent returned")
}

fn left_out() -> Value {
    json!({"type": "string", "description": "What is not here, and why"})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn skill() -> Value {
    result(
        json!({"id": string(), "description": string(),
            "tags": {"type": "object", "additionalProperties": string()},
            "input_schema": string(), "output_schema": string()}),
        &["id"],
    )
}

fn states() -> Vec<&'static str> {
    STATES.into_iter().map(|(word, _)| word).collect()
}

fn state() -> Value {
    json!({"enum": states()})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What model providers refuse at the top of an input schema.
    const REFUSED: [&str; 6] = ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"];

    #[test]
    fn model_providers_take_every_tool() {
        for tool in all() {
            let name = &tool.name;
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
            assert!(
                (1..=64).contains(&name.len()) && name.chars().all(is_plain),
                "{name}"
            );
            assert_eq!(tool.input_schema["type"], "object", "{name}");
            for keyword in REFUSED {
                assert!(!tool.input_schema.contains_key(keyword), "{name}: {keyword}");
            }
        }
    }

    #[test]
    fn the_description_says_what_the_schema_cannot() {
        let said = ToolName::AskAgent.description();
        assert!(said.contains("exactly one of agent, skill and url"), "{said}");
    }
}
