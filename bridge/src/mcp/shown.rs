//! What clients and their models are shown: results of tools, as text for the model and as JSON for programs. PURE.
//!
//! The one rule: what an agent sent is shown as it is or said to be left out, in a bounded answer; nothing is cut in
//! silence.

use agentanycast_proto::v1::{self, Artifact, Part, Skill, SkillInfo, TaskStatus, part::Content};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

use super::call::STATES;
use crate::{
    data::{self, EXACT},
    gateway::{Listed, is_reference},
    time::write_time,
};

/// What texts and data of a task may have in one answer, in bytes. More than any model reads.
const TEXT: usize = 1 << 20;

/// What its files may have, in bytes.
const FILES: usize = 8 << 20;

/// Most parts of a task in one answer.
const PARTS: usize = 256;

/// Most of what an agent calls something, in characters.
const NAME: usize = 256;

/// Agents that were found, as many as an answer holds.
pub(super) fn found(agents: &[v1::DiscoveredAgent]) -> CallToolResult {
    let mut bytes = 0;
    let mut shown = Vec::new();
    for agent in agents {
        let json = json!({"peer_id": agent.peer_id, "name": agent.agent_name,
            "description": agent.agent_description,
            "skills": agent.skills.iter().map(skill_found).collect::<Vec<_>>()});
        bytes += json.to_string().len();
        if bytes > TEXT {
            break;
        }
        shown.push(json);
    }
    let over = agents.len() - shown.len();
    let mut json = json!({ "agents": shown });
    if over > 0 {
        json["left_out"] = format!("{over} more agents are left out, which say too much of themselves").into();
    }
    as_json(&json)
}

fn skill_found(skill: &SkillInfo) -> Value {
    json!({"id": skill.skill_id, "description": skill.description, "tags": skill.tags})
}

/// What an agent says of itself.
pub(super) fn card(card: &v1::AgentCard) -> CallToolResult {
    let mut json = json!({"name": card.name, "description": card.description, "version": card.version,
        "skills": card.skills.iter().map(skill).collect::<Vec<_>>()});
    if let Some(reached) = &card.p2p_extension {
        json["peer_id"] = reached.peer_id.as_str().into();
    }
    as_json(&json)
}

fn skill(skill: &Skill) -> Value {
    let mut json = json!({"id": skill.id, "description": skill.description, "tags": skill.tags});
    for (name, schema) in [
        ("input_schema", &skill.input_schema),
        ("output_schema", &skill.output_schema),
    ] {
        if !schema.is_empty() {
            json[name] = schema.as_str().into();
        }
    }
    json
}

/// A page of tasks.
pub(super) fn list(listed: &Listed) -> CallToolResult {
    let tasks: Vec<Value> = listed
        .tasks
        .iter()
        .map(|task| {
            let mut json = head(task);
            if let Some(time) = task.updated_at.as_ref().and_then(write_time) {
                json.insert("updated_at".to_owned(), time.into());
            }
            Value::Object(json)
        })
        .collect();
    let mut json = json!({"tasks": tasks, "total": listed.total});
    if !listed.next.is_empty() {
        json["next"] = listed.next.as_str().into();
    }
    as_json(&json)
}

/// Why nothing came of a call.
pub(super) fn refused(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn as_json(json: &Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(json.to_string())]);
    result.structured_content = Some(json.clone());
    result
}

/// The name of a state.
pub(super) fn state(status: TaskStatus) -> &'static str {
    let found = STATES.iter().find(|(_, known)| *known == status);
    // What has no state yet was not acknowledged.
    found.map_or(STATES[0].0, |(word, _)| word)
}

fn head(task: &v1::Task) -> Map<String, Value> {
    let agent = if task.assignee_peer_id.is_empty() {
        None
    } else {
        Some(("agent".to_owned(), task.assignee_peer_id.as_str().into()))
    };
    [
        ("task_id".to_owned(), Value::from(task.task_id.as_str())),
        ("state".to_owned(), state(task.status()).into()),
        ("context_id".to_owned(), task.context_id.as_str().into()),
    ]
    .into_iter()
    .chain(agent)
    .collect()
}

/// Whether nothing came of a task.
pub(super) fn is_failure(task: &v1::Task) -> bool {
    matches!(task.status(), TaskStatus::Failed | TaskStatus::Rejected)
}

/// A task as it stands.
pub(super) fn task(task: &v1::Task) -> CallToolResult {
    let mut page = Page::new(&task.task_id);
    let said = page.cut(&text_of(task.status_message.as_ref()));
    let first = match &said.left_out {
        None => summary(task, &said.text),
        Some(note) => format!("{} [{note}]", summary(task, &said.text)),
    };
    page.content.push(ContentBlock::text(first));
    let results: Vec<Value> = task
        .artifacts
        .iter()
        .enumerate()
        .map(|(at, artifact)| page.artifact(at, artifact))
        .collect();
    let mut json = head(task);
    if !said.text.is_empty() {
        json.insert("message".to_owned(), said.text.into());
    }
    json.insert("results".to_owned(), results.into());
    if page.over > 0 {
        let note = format!(
            "{} more parts are left out: {PARTS} are shown at most; {}",
            page.over,
            page.elsewhere()
        );
        page.content.push(ContentBlock::text(format!("[{note}]")));
        json.insert("left_out".to_owned(), note.into());
    }
    let mut result = CallToolResult::success(page.content);
    result.is_error = Some(is_failure(task));
    result.structured_content = Some(Value::Object(json));
    result
}

/// What a model has to know first.
fn summary(task: &v1::Task, said: &str) -> String {
    let id = &task.task_id;
    let behind = |words: &str| if said.is_empty() { String::new() } else { format!("{words}{said}") };
    match task.status() {
        TaskStatus::Completed => format!("Task {id} is completed.{}", behind(" The agent says: ")),
        TaskStatus::Failed => format!("Task {id} failed{}", behind(": ")),
        TaskStatus::Rejected => format!("Task {id} was rejected{}", behind(": ")),
        TaskStatus::Canceled => format!("Task {id} was canceled{}", behind(": ")),
        TaskStatus::InputRequired => format!(
            "Task {id} asks for input{}\nAnswer with reply_to_task, or end it with cancel_task.",
            behind(": ")
        ),
        other => format!(
            "Task {id} is {} and goes on.{} Call get_task with this task_id and wait_seconds to wait for it, or \
             cancel_task to end it.",
            state(other),
            behind(" The agent says: ")
        ),
    }
}

/// The texts of a message.
pub(super) fn text_of(message: Option<&v1::Message>) -> String {
    let texts = message.into_iter().flat_map(|message| &message.parts);
    let texts: Vec<&str> = texts
        .filter_map(|part| match &part.content {
            Some(Content::TextPart(part)) => Some(part.text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// A text as it is shown.
struct Cut {
    text: String,
    left_out: Option<String>,
}

/// An answer that is being made.
struct Page<'a> {
    id: &'a str,
    content: Vec<ContentBlock>,
    /// Bytes that texts and files may still have, and how many parts there may be.
    text: usize,
    files: usize,
    parts: usize,
    /// Parts beyond those.
    over: usize,
}

impl<'a> Page<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            id,
            content: Vec::new(),
            text: TEXT,
            files: FILES,
            parts: PARTS,
            over: 0,
        }
    }

    /// Where more is to be had.
    fn elsewhere(&self) -> String {
        format!(
            "ask the agent for less at a time, or read all of it with `anycast task {}` on the host of this node",
            self.id
        )
    }

    fn artifact(&mut self, at: usize, artifact: &Artifact) -> Value {
        let mut parts = Vec::new();
        for (number, part) in artifact.parts.iter().enumerate() {
            if self.parts == 0 {
                self.over += 1;
                continue;
            }
            self.parts -= 1;
            let place = format!("agentanycast://tasks/{}/results/{at}/{number}", uri_safe(self.id));
            parts.extend(self.part(artifact, part, place));
        }
        let mut json = json!({ "parts": parts });
        put(&mut json, "name", &artifact.name);
        json
    }

    fn part(&mut self, artifact: &Artifact, part: &Part, place: String) -> Option<Value> {
        let mut json = match part.content.as_ref()? {
            Content::TextPart(text) => {
                let Cut { text, left_out } = self.cut(&text.text);
                let mut json = json!({"type": "text", "text": text});
                self.content.push(ContentBlock::text(text));
                self.leave_out(&mut json, left_out);
                json
            }
            Content::DataPart(data) => {
                let exact = part.metadata.get(EXACT).map(String::as_str);
                let data = data::restore(&data.data.clone().unwrap_or_default(), exact);
                let text = data.to_string();
                if self.take(text.len()) {
                    self.content.push(ContentBlock::text(text));
                    json!({"type": "data", "data": data})
                } else {
                    let mut json = json!({"type": "data", "size": text.len()});
                    let note = self.too_large("data", text.len());
                    self.leave_out(&mut json, Some(note));
                    json
                }
            }
            Content::RawPart(raw) => {
                let mut json = json!({"type": "file", "size": raw.data.len()});
                put(&mut json, "name", &raw.filename);
                if raw.data.len() <= self.files {
                    self.files -= raw.data.len();
                    self.content.push(file(&raw.data, &part.media_type, place));
                } else {
                    let what = format!("file {:?}", short(&raw.filename));
                    let note = self.too_large(&what, raw.data.len());
                    self.leave_out(&mut json, Some(note));
                }
                json
            }
            Content::UrlPart(_) if is_reference(artifact) => {
                let mut json = json!({"type": "file"});
                let note = if artifact.size_bytes == 0 {
                    "the result is still being written; look again when the task has ended".to_owned()
                } else {
                    json["size"] = artifact.size_bytes.into();
                    self.too_large("a streamed result", artifact.size_bytes as usize)
                };
                self.leave_out(&mut json, Some(note));
                json
            }
            Content::UrlPart(link) => {
                let Cut { text: url, left_out } = self.cut(&link.url);
                let named = if link.filename.is_empty() { String::new() } else { format!(" ({})", short(&link.filename)) };
                self.content
                    .push(ContentBlock::text(format!("Link{named}: {url}")));
                let mut json = json!({"type": "link", "url": url});
                put(&mut json, "name", &link.filename);
                self.leave_out(&mut json, left_out);
                json
            }
        };
        put(&mut json, "media_type", &part.media_type);
        Some(json)
    }

    /// As much of a text as there is room for.
    fn cut(&mut self, text: &str) -> Cut {
        let shown = text.floor_char_boundary(self.text);
        self.text -= shown;
        let left_out = (shown < text.len()).then(|| {
            format!(
                "cut: these are the first {shown} of {} bytes; {}",
                text.len(),
                self.elsewhere()
            )
        });
        Cut {
            text: text[..shown].to_owned(),
            left_out,
        }
    }

    /// Whether there is room for so much text.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.text;
        if fits {
            self.text -= bytes;
        }
        fits
    }

    fn too_large(&self, what: &str, bytes: usize) -> String {
        format!("left out: {what} of {bytes} bytes, more than one answer holds; {}", self.elsewhere())
    }

    /// Says that something is not here, if it is not.
    fn leave_out(&mut self, json: &mut Value, note: Option<String>) {
        if let Some(note) = note {
            self.content.push(ContentBlock::text(format!("[{note}]")));
            json["left_out"] = note.into();
        }
    }
}

/// A file, as what its media type says it is.
fn file(bytes: &[u8], media_type: &str, place: String) -> ContentBlock {
    let media_type = short(media_type);
    if media_type.starts_with("image/") {
        return ContentBlock::image(STANDARD.encode(bytes), media_type);
    }
    if media_type.starts_with("audio/") {
        return ContentBlock::audio(STANDARD.encode(bytes), media_type);
    }
    let is_text = media_type.starts_with("text/") || media_type == "application/json";
    let content = match std::str::from_utf8(bytes) {
        Ok(text) if is_text => ResourceContents::text(text, place),
        _ => ResourceContents::blob(STANDARD.encode(bytes), place),
    };
    let usual = if media_type.is_empty() {
        "application/octet-stream".to_owned()
    } else {
        media_type
    };
    ContentBlock::resource(content.with_mime_type(usual))
}

/// A field that is left out when it says nothing.
fn put(json: &mut Value, name: &str, text: &str) {
    if !text.is_empty() {
        json[name] = short(text).into();
    }
}

/// What an agent calls something, and not more.
fn short(text: &str) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(NAME).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}

/// Of an id, what can stand in a URI.
fn uri_safe(id: &str) -> String {
    id.chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter))
        .collect()
}

#[cfg(test)]
mod tests;
