//! What clients and their models are shown: results of tools, as text for the model and as JSON for programs. PURE.
//!
//! The one rule: what an agent sent is shown as it is or said to be left out, in a bounded answer; nothing is cut in
//! silence.

use agentanycast_daemon_kit::json_lines;
use agentanycast_gateway::{
    TaskListing, address_of, agent_address, is_reference, labels::is_auth_required, reachability, skills_of,
    time::write_time,
};
use agentanycast_proto::{
    parts,
    struct_json::{self, EXACT},
    v1::{self, Artifact, Part, Skill, SkillInfo, TaskStatus, part::Content},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Map, Value, json};

use super::{LABELS, call::STATES};

/// What one answer may have as JSON, in bytes: clients take 1 MiB at a time (the official SDKs, desktop applications), and
/// some of it is for the rest of the answer. More than most models read.
const ANSWER: usize = 900 << 10;

/// What a part has besides its content, in bytes: its place, and marks of JSON.
const BESIDES: usize = 512;

/// Most parts of a task in one answer.
const PARTS: usize = 256;

/// Most of what an agent calls something, and of what it says of itself, in characters.
const NAME: usize = 256;
const ABOUT: usize = 8000;

/// Agents that were found, as many as an answer holds.
pub(super) fn discovered(agents: &[v1::DiscoveredAgent]) -> CallToolResult {
    let of = |agent: &v1::DiscoveredAgent| {
        json!({"peer_id": agent.peer_id, "name": agent.agent_name, "description": agent.agent_description,
            "skills": agent.skills.iter().map(skill_found).collect::<Vec<_>>(), "verified": agent.verified})
    };
    let (shown, over) = as_many(agents.iter().map(of));
    let mut json = json!({ "agents": shown });
    if over > 0 {
        json["left_out"] = format!("{over} more agents are left out, since this answer is full").into();
    }
    as_json(&json)
}

/// Agents that are known, as many as an answer holds; so many more there are.
pub(super) fn agents(agents: &[v1::ListedAgent], more: usize) -> CallToolResult {
    let of = |agent: &v1::ListedAgent| {
        json!({"peer_id": agent.peer_id, "agent": address_of(agent), "name": short(&agent.name),
            "description": clipped(&agent.description, ABOUT),
            "skills": agent.skills.iter().map(skill_found).collect::<Vec<_>>(),
            "reached": reachability(agent), "verified": agent.verified})
    };
    let (shown, over) = as_many(agents.iter().map(of));
    let mut json = json!({ "agents": shown });
    if over + more > 0 {
        json["left_out"] = format!(
            "{} more agents are left out; ask for a skill, or for more",
            over + more
        )
        .into();
    }
    as_json(&json)
}

/// Skills of these agents, as many as an answer holds.
pub(super) fn skills(agents: &[v1::ListedAgent]) -> CallToolResult {
    let of = |(id, (description, agents)): (&str, (&str, Vec<&v1::ListedAgent>))| {
        let name = |agent: &&v1::ListedAgent| match agent.agent.as_str() {
            "" => short(&agent.name),
            _ => address_of(agent),
        };
        let agents: Vec<_> = agents.iter().map(name).collect();
        json!({"id": id, "description": clipped(description, ABOUT), "agents": agents})
    };
    let (shown, over) = as_many(skills_of(agents).into_iter().map(of));
    let mut json = json!({ "skills": shown });
    if over > 0 {
        json["left_out"] = format!("{over} more skills are left out, since this answer is full").into();
    }
    as_json(&json)
}

/// As many of these as an answer holds, and how many are left.
fn as_many(all: impl Iterator<Item = Value>) -> (Vec<Value>, usize) {
    as_many_within(ANSWER, all)
}

/// As many of these as so many bytes hold, and how many are left.
fn as_many_within(mut room: usize, all: impl Iterator<Item = Value>) -> (Vec<Value>, usize) {
    let (mut shown, mut over) = (Vec::new(), 0);
    for json in all {
        let text = json.to_string();
        // It is there as text and as JSON.
        let cost = json_lines::escape(&text).len() + escaped(&text);
        if over == 0 && cost <= room {
            room -= cost;
            shown.push(json);
        } else {
            over += 1;
        }
    }
    (shown, over)
}

/// How many bytes a text has within JSON, at most.
fn escaped(text: &str) -> usize {
    text.chars().map(escaped_letter).sum()
}

fn escaped_letter(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        letter if letter.is_control() => 6,
        // Ends of lines for some readers, which are escaped too (`json_lines`).
        '\u{2028}' | '\u{2029}' => 6,
        letter => letter.len_utf8(),
    }
}

fn skill_found(skill: &SkillInfo) -> Value {
    json!({"id": skill.skill_id, "description": skill.description, "tags": skill.tags})
}

/// What an agent says of itself; of a node with several agents, what it says of each.
pub(super) fn card(card: &v1::AgentCard) -> CallToolResult {
    let reached = card.p2p_extension.as_ref();
    let peer = reached.map(|reached| reached.peer_id.as_str());
    let of = |agent: &v1::AgentCard| {
        json!({"agent": agent_address(peer.unwrap_or_default(), &agent.agent), "name": short(&agent.name),
            "description": clipped(&agent.description, ABOUT),
            "skills": agent.skills.iter().map(|skill| skill.id.as_str()).collect::<Vec<_>>()})
    };
    // Half of the answer is for the agents, where there are several.
    let (agents, agents_over) = as_many_within(ANSWER / 2, card.agents.iter().map(of));
    let room = if agents.is_empty() { ANSWER } else { ANSWER / 2 };
    let (skills, over) = as_many_within(room, card.skills.iter().map(skill));
    let mut json = json!({"name": short(&card.name), "description": clipped(&card.description, ABOUT),
        "version": short(&card.version), "skills": skills});
    if let Some(peer) = peer {
        json["peer_id"] = peer.into();
        if !card.agent.is_empty() {
            json["agent"] = agent_address(peer, &card.agent).into();
        }
    }
    let total = (card.agents_total as usize).max(agents.len() + agents_over);
    let agents_over = total - agents.len();
    if total > 0 {
        json["agents"] = agents.into();
    }
    let mut left_out = Vec::new();
    if over > 0 {
        left_out.push(format!(
            "{over} more skills are left out, since this answer is full"
        ));
    }
    if agents_over > 0 {
        left_out.push(format!(
            "{agents_over} more agents are left out, since the card or this answer is full"
        ));
    }
    if !left_out.is_empty() {
        json["left_out"] = left_out.join("; ").into();
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
pub(super) fn list(listed: &TaskListing) -> CallToolResult {
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
        let agent = agent_address(&task.assignee_peer_id, &task.agent);
        Some(("agent".to_owned(), agent.into()))
    };
    [
        ("task_id".to_owned(), Value::from(task.task_id.as_str())),
        ("state".to_owned(), state(task.status()).into()),
        ("context_id".to_owned(), LABELS.context_of(task).into()),
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
    let mut page = ResultBuilder::new(&task.task_id);
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
    let behind = |words: &str| {
        if said.is_empty() {
            String::new()
        } else {
            format!("{words}{said}")
        }
    };
    match task.status() {
        TaskStatus::Completed => format!("Task {id} is completed.{}", behind(" The agent says: ")),
        TaskStatus::Failed => format!("Task {id} failed{}", behind(": ")),
        TaskStatus::Rejected => format!("Task {id} was rejected{}", behind(": ")),
        TaskStatus::Canceled => format!("Task {id} was canceled{}", behind(": ")),
        status if is_auth_required(status, task.status_message.as_ref()) => format!(
            "Task {id} waits for credentials{}\nThey reach the agent by another way than reply_to_task. Look again with \
             get_task, or end the task with cancel_task.",
            behind(": ")
        ),
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
    parts::text_of(message.into_iter().flat_map(|message| &message.parts))
}

/// A text as it is shown.
struct CutText {
    text: String,
    left_out: Option<String>,
}

/// An answer that is being made.
struct ResultBuilder<'a> {
    id: &'a str,
    content: Vec<ContentBlock>,
    /// Bytes that there may still be, and parts.
    room: usize,
    parts: usize,
    /// Parts beyond those.
    over: usize,
}

impl<'a> ResultBuilder<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            id,
            content: Vec::new(),
            room: ANSWER,
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
            let besides = BESIDES + 2 * (escaped(&short(&part.media_type)) + escaped(&short(filename(part))));
            self.room = self.room.saturating_sub(besides);
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
                let CutText { text, left_out } = self.cut(&text.text);
                let mut json = json!({"type": "text", "text": text});
                self.content.push(ContentBlock::text(text));
                self.leave_out(&mut json, left_out);
                json
            }
            Content::DataPart(data) => {
                let exact = part.metadata.get(EXACT).map(String::as_str);
                let data = struct_json::restore(&data.data.clone().unwrap_or_default(), exact);
                let text = data.to_string();
                if self.take(json_lines::escape(&text).len() + escaped(&text)) {
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
                let (file, cost) = match raw.data.len() {
                    bytes if bytes <= self.room => file(&raw.data, &part.media_type, place),
                    bytes => (ContentBlock::text(""), bytes),
                };
                if self.take(cost) {
                    self.content.push(file);
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
                let CutText { text: url, left_out } = self.cut(&link.url);
                let named = if link.filename.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", short(&link.filename))
                };
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

    /// As much of a text as there is room for, which is there as text and as JSON.
    fn cut(&mut self, text: &str) -> CutText {
        let mut shown = 0;
        for letter in text.chars() {
            let cost = 2 * escaped_letter(letter);
            if cost > self.room {
                break;
            }
            self.room -= cost;
            shown += letter.len_utf8();
        }
        let left_out = (shown < text.len()).then(|| {
            format!(
                "cut: these are the first {shown} of {} bytes; {}",
                text.len(),
                self.elsewhere()
            )
        });
        CutText {
            text: text[..shown].to_owned(),
            left_out,
        }
    }

    /// Takes so much room, if there is that.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room;
        if fits {
            self.room -= bytes;
        }
        fits
    }

    fn too_large(&self, what: &str, bytes: usize) -> String {
        format!(
            "left out: {what} of {bytes} bytes, more than one answer holds; {}",
            self.elsewhere()
        )
    }

    /// Says that something is not here, if it is not.
    fn leave_out(&mut self, json: &mut Value, note: Option<String>) {
        if let Some(note) = note {
            self.content.push(ContentBlock::text(format!("[{note}]")));
            json["left_out"] = note.into();
        }
    }
}

/// A file, as what its media type says it is, and how many bytes that has.
fn file(bytes: &[u8], media_type: &str, place: String) -> (ContentBlock, usize) {
    let media_type = short(media_type);
    let is_text = media_type.starts_with("text/") || media_type == "application/json";
    if let Ok(text) = std::str::from_utf8(bytes)
        && is_text
    {
        let content = ResourceContents::text(text, place).with_mime_type(media_type);
        return (ContentBlock::resource(content), escaped(text));
    }
    let base64 = STANDARD.encode(bytes);
    let cost = base64.len();
    let block = if media_type.starts_with("image/") {
        ContentBlock::image(base64, media_type)
    } else if media_type.starts_with("audio/") {
        ContentBlock::audio(base64, media_type)
    } else {
        let usual = if media_type.is_empty() {
            "application/octet-stream".to_owned()
        } else {
            media_type
        };
        ContentBlock::resource(ResourceContents::blob(base64, place).with_mime_type(usual))
    };
    (block, cost)
}

/// What a file is called.
fn filename(part: &Part) -> &str {
    match &part.content {
        Some(Content::RawPart(raw)) => &raw.filename,
        Some(Content::UrlPart(link)) => &link.filename,
        _ => "",
    }
}

/// A field that is left out when it says nothing.
fn put(json: &mut Value, name: &str, text: &str) {
    if !text.is_empty() {
        json[name] = short(text).into();
    }
}

/// What an agent calls something, and not more.
fn short(text: &str) -> String {
    clipped(text, NAME)
}

/// At most so many characters; an ellipsis stands for more.
fn clipped(text: &str, most: usize) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(most).collect();
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
