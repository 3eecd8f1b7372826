//! Calls of tools as they are read from their arguments: what is to be done, in the terms of the mesh. PURE.
//!
//! The one rule: what cannot be done as it was asked is refused here, before anybody is troubled with it.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use agentanycast_gateway::{Target, base64_text};
use agentanycast_proto::{
    struct_json::{self, EXACT},
    v1::{self, DataPart, MessageRole, Part, RawPart, TaskStatus, TextPart, UrlPart, part::Content},
};
use serde_json::{Map, Value};

use super::{
    args::{ArgError, ToolArgs},
    tool_name::ToolName,
};

/// Longest names of agents, skills, tasks and conversations, in bytes: the node's own bound.
pub(super) const MAX_ID: usize = 256;

/// Longest URL, in bytes: the node's own bound.
pub(super) const MAX_URL: usize = 2048;

/// Longest names of files, media types and places in lists, in bytes.
pub(super) const MAX_NAME: usize = 512;

/// Longest text, in bytes: 16 MiB, the bound of a message, in base64.
pub(super) const MAX_TEXT: usize = 24 << 20;

/// Most files of a message.
pub(super) const MAX_FILES: usize = 64;

/// Most tags that a skill is looked for by.
pub(super) const MAX_TAGS: usize = 32;

/// How many agents are looked for.
pub(super) const AGENTS: RangeInclusive<u64> = 1..=100;
pub(super) const DEFAULT_AGENTS: u64 = 10;

/// How many tasks are listed.
pub(super) const LISTED: RangeInclusive<u64> = 1..=100;
pub(super) const DEFAULT_LISTED: u64 = 20;

/// How long a call may wait for its task, in seconds.
pub(super) const MAX_WAIT: u64 = 600;

/// How long a call waits that does not say how long, in seconds. The official TypeScript client gives a call
/// up after 60 seconds; the answer has to be there before.
pub(super) const DEFAULT_WAIT: u64 = 45;

/// The states of tasks, by their names here.
pub(super) const STATES: [(&str, TaskStatus); 7] = [
    ("submitted", TaskStatus::Submitted),
    ("working", TaskStatus::Working),
    ("input_required", TaskStatus::InputRequired),
    ("completed", TaskStatus::Completed),
    ("failed", TaskStatus::Failed),
    ("canceled", TaskStatus::Canceled),
    ("rejected", TaskStatus::Rejected),
];

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolCall {
    /// Find agents.
    Discover {
        /// With this skill,
        skill: String,
        /// and these tags of it,
        tags: BTreeMap<String, String>,
        /// at most so many.
        limit: usize,
    },
    /// List agents: with this skill, at most so many.
    Agents(Option<String>, usize),
    /// List skills.
    Skills,
    /// Show a card: of a node, or of one of its agents.
    Card(Target),
    /// Begin a task.
    Ask(Box<AskArgs>),
    /// Show a task, once it has come to a halt or this time is over.
    Get(String, Duration),
    /// Answer a task, and wait as above.
    Reply(String, Box<v1::Message>, Duration),
    /// End a task.
    Cancel(String),
    /// Show tasks.
    List {
        /// At most so many,
        limit: usize,
        /// in this state,
        status: Option<TaskStatus>,
        /// behind this place.
        after: String,
    },
}

/// A task that is to be begun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskArgs {
    /// Whom for.
    pub(super) target: Target,
    /// What is said.
    pub(super) message: v1::Message,
    /// The conversation; may be empty.
    pub(super) context_id: String,
    /// How long it is waited for.
    pub(super) wait: Duration,
}

/// Reads a call of this tool.
pub(crate) fn read(tool: ToolName, arguments: Map<String, Value>) -> Result<ToolCall, ArgError> {
    let mut given = ToolArgs::new(arguments);
    let (call, known): (ToolCall, &[&str]) = match tool {
        ToolName::DiscoverAgents => {
            let call = ToolCall::Discover {
                skill: given.required("skill", MAX_ID)?,
                tags: tags(&mut given)?,
                limit: given.number("limit", AGENTS, DEFAULT_AGENTS)? as usize,
            };
            (call, &["skill", "tags", "limit"])
        }
        ToolName::ListAgents => {
            let skill = given.text("skill", MAX_ID)?.filter(|skill| !skill.is_empty());
            let limit = given.number("limit", AGENTS, DEFAULT_AGENTS)? as usize;
            (ToolCall::Agents(skill, limit), &["skill", "limit"])
        }
        ToolName::ListSkills => (ToolCall::Skills, &[]),
        ToolName::GetAgentCard => {
            let agent = given.text("agent", MAX_ID)?.filter(|name| !name.is_empty());
            let agent = agent.map_or(Target::Own, |name| Target::parse_agent(&name));
            (ToolCall::Card(agent), &["agent"])
        }
        ToolName::AskAgent => {
            let ask = AskArgs {
                target: target(&mut given)?,
                message: message(&mut given)?,
                context_id: given.text("context_id", MAX_ID)?.unwrap_or_default(),
                wait: wait(&mut given, DEFAULT_WAIT)?,
            };
            let known = &[
                "message",
                "agent",
                "skill",
                "url",
                "context_id",
                "data",
                "files",
                "wait_seconds",
            ];
            (ToolCall::Ask(Box::new(ask)), known)
        }
        ToolName::GetTask => {
            let task = given.required("task_id", MAX_ID)?;
            (
                ToolCall::Get(task, wait(&mut given, 0)?),
                &["task_id", "wait_seconds"],
            )
        }
        ToolName::ReplyToTask => {
            let task = given.required("task_id", MAX_ID)?;
            let message = Box::new(message(&mut given)?);
            let call = ToolCall::Reply(task, message, wait(&mut given, DEFAULT_WAIT)?);
            (call, &["task_id", "message", "data", "files", "wait_seconds"])
        }
        ToolName::CancelTask => (ToolCall::Cancel(given.required("task_id", MAX_ID)?), &["task_id"]),
        ToolName::ListTasks => {
            let call = ToolCall::List {
                limit: given.number("limit", LISTED, DEFAULT_LISTED)? as usize,
                status: status(&mut given)?,
                after: after(&mut given)?,
            };
            (call, &["limit", "status", "after"])
        }
    };
    given.finish(known)?;
    Ok(call)
}

/// Whom a task is for.
fn target(given: &mut ToolArgs) -> Result<Target, ArgError> {
    let named = [("agent", MAX_ID), ("skill", MAX_ID), ("url", MAX_URL)];
    let mut there = Vec::new();
    for (name, most) in named {
        let text = given.text(name, most)?.filter(|text| !text.is_empty());
        there.extend(text.map(|text| (name, text)));
    }
    let one = "give exactly one of agent, skill and url";
    match there.as_slice() {
        [] => Err(format!("the call names no agent; {one}")),
        [(name, text)] => Ok(match *name {
            "agent" => Target::parse_agent(text),
            "skill" => Target::Skill(text.clone()),
            _ => Target::Url(text.clone()),
        }),
        [(first, _), (second, _), ..] => Err(format!("{first} and {second} are both given; {one}")),
    }
}

fn message(given: &mut ToolArgs) -> Result<v1::Message, ArgError> {
    let text = given.required("message", MAX_TEXT)?;
    let mut parts = vec![part(Content::TextPart(TextPart { text }), String::new())];
    match given.any("data") {
        None => {}
        Some(value @ Value::Object(_)) => {
            let (data, text) =
                struct_json::carry(&value).map_err(|deep| format!("data {deep}; give less deep JSON"))?;
            let mut data = part(Content::DataPart(DataPart { data: Some(data) }), String::new());
            data.metadata.extend(text.map(|text| (EXACT.to_owned(), text)));
            parts.push(data);
        }
        Some(other) => return Err(given.error("data", &other, "an object")),
    }
    match given.any("files") {
        None => {}
        Some(Value::Array(files)) if files.len() <= MAX_FILES => {
            for (at, value) in files.into_iter().enumerate() {
                parts.push(file(ToolArgs::from_value(value, &format!("files[{at}]"))?)?);
            }
        }
        Some(Value::Array(files)) => {
            return Err(format!(
                "there are {} files; give at most {MAX_FILES}",
                files.len()
            ));
        }
        Some(other) => return Err(given.error("files", &other, "a list")),
    }
    Ok(v1::Message {
        role: MessageRole::User.into(),
        parts,
        ..v1::Message::default()
    })
}

fn file(mut given: ToolArgs) -> Result<Part, ArgError> {
    let filename = given.text("name", MAX_NAME)?.unwrap_or_default();
    let media_type = given.text("media_type", MAX_NAME)?.unwrap_or_default();
    let contents = [
        given.text("text", MAX_TEXT)?,
        given.text("base64", MAX_TEXT)?,
        given.text("url", MAX_URL)?,
    ];
    let (content, usual) = match contents {
        [Some(text), None, None] => {
            let data = text.into_bytes();
            (Content::RawPart(RawPart { data, filename }), "text/plain")
        }
        [None, Some(base64), None] => {
            let data = base64_text::decode(&base64)
                .map_err(|error| format!("{} is not base64: {error}", given.name("base64")))?;
            (
                Content::RawPart(RawPart { data, filename }),
                "application/octet-stream",
            )
        }
        [None, None, Some(url)] => (Content::UrlPart(UrlPart { url, filename }), ""),
        _ => {
            return Err(format!(
                "{} has not exactly one of text, base64 and url; give one",
                given.name("").trim_end_matches('.')
            ));
        }
    };
    given.finish(&["name", "media_type", "text", "base64", "url"])?;
    let media_type = if media_type.is_empty() {
        usual.to_owned()
    } else {
        media_type
    };
    Ok(part(content, media_type))
}

fn part(content: Content, media_type: String) -> Part {
    Part {
        content: Some(content),
        media_type,
        ..Part::default()
    }
}

fn tags(given: &mut ToolArgs) -> Result<BTreeMap<String, String>, ArgError> {
    match given.any("tags") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(tags)) if tags.len() <= MAX_TAGS => tags
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) if name.len() <= MAX_ID && text.len() <= MAX_ID => Ok((name, text)),
                other => Err(given.error("tags", &other, &format!("texts of at most {MAX_ID} bytes"))),
            })
            .collect(),
        Some(other) => Err(given.error("tags", &other, &format!("an object of at most {MAX_TAGS} texts"))),
    }
}

fn wait(given: &mut ToolArgs, otherwise: u64) -> Result<Duration, ArgError> {
    let seconds = given.number("wait_seconds", 0..=MAX_WAIT, otherwise)?;
    Ok(Duration::from_secs(seconds))
}

fn status(given: &mut ToolArgs) -> Result<Option<TaskStatus>, ArgError> {
    let Some(word) = given.text("status", MAX_ID)?.filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    let found = STATES.iter().find(|(known, _)| *known == word);
    found.map(|(_, status)| Some(*status)).ok_or_else(|| {
        let words: Vec<&str> = STATES.iter().map(|(word, _)| *word).collect();
        given.error("status", &word.into(), &format!("one of {}", words.join(", ")))
    })
}

/// A place in the list of tasks, as the node gives it: `MILLISECONDS:ID`.
fn after(given: &mut ToolArgs) -> Result<String, ArgError> {
    let place = given.text("after", MAX_NAME)?.unwrap_or_default();
    let is_place = |place: &str| {
        let split = place.split_once(':');
        split.is_some_and(|(at, id)| at.parse::<u64>().is_ok() && !id.is_empty())
    };
    if place.is_empty() || is_place(&place) {
        return Ok(place);
    }
    Err(given.error("after", &place.into(), "the `next` of a page of list_tasks"))
}

#[cfg(test)]
mod tests;
