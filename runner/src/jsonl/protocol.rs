//! The lines of the JSON-lines protocol, both ways (docs/run.schema.json). PURE.

use std::time::SystemTime;

use agentanycast_daemon_kit::json_lines;
use agentanycast_gateway::base64_text;
use agentanycast_proto::v1;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Attempt,
    parts::{artifact, data_part, message_json, newest_message, raw_part, text_of, text_part},
    program::seconds,
};

/// Longest line that is read, in bytes, without its end.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// Most artifacts of one result.
const MOST_ARTIFACTS: usize = 1000;

/// A task, for the program.
pub(super) fn task_line(task: &v1::Task, attempt: Attempt) -> String {
    let messages = task
        .messages
        .iter()
        .map(|message| message_json(message, |_| None));
    let mut line = json!({
        "type": "task",
        "id": task.task_id,
        "context_id": task.context_id,
        "skill": task.target_skill_id,
        "sender": task.originator_peer_id,
        "attempt": attempt.number,
        "text": newest_message(task).map(text_of).unwrap_or_default(),
        "messages": messages.collect::<Vec<_>>(),
    });
    let deadline = attempt.deadline.map(|deadline: SystemTime| seconds(deadline));
    if let Some(deadline) = deadline.and_then(|deadline| deadline.parse::<u64>().ok()) {
        line["deadline"] = deadline.into();
    }
    ended(&line)
}

/// An answer to a question, for the program.
pub(super) fn answer_line(id: &str, answer: &v1::Message) -> String {
    let message = message_json(answer, |_| None);
    ended(&json!({"type": "answer", "id": id, "text": text_of(answer), "message": message}))
}

/// That a task has ended otherwise, for the program.
pub(super) fn cancel_line(id: &str) -> String {
    ended(&json!({"type": "cancel", "id": id}))
}

fn ended(line: &Value) -> String {
    // Some readers of lines end one at characters that JSON allows raw.
    let mut text = json_lines::to_line(line);
    text.push('\n');
    text
}

/// What a program says of a task.
#[derive(Debug, PartialEq)]
pub(super) struct ProgramLine {
    /// The task.
    pub(super) id: String,
    pub(super) said: Said,
}

/// See [`ProgramLine`].
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// How far it is.
    Working(v1::Message),
    /// It asks the sender.
    Question(v1::Message),
    /// A piece of a result that is sent piece by piece.
    Chunk {
        name: String,
        media_type: String,
        bytes: Vec<u8>,
        last: bool,
    },
    /// The task is complete.
    Result {
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    },
    /// The task fails.
    Error(String),
}

/// A line that cannot be taken.
#[derive(Debug, PartialEq)]
pub(super) struct BadLine {
    /// The task that it is about, as far as that could be read.
    pub(super) id: Option<String>,
    /// What is wrong with it.
    pub(super) reason: String,
}

/// A line as it is read: what there is besides is ignored.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum RawLine {
    Working(RawContent),
    Question(RawContent),
    Chunk(RawChunk),
    Result(RawResult),
    Error { text: String },
}

/// One of `text`, `data` and `raw`.
#[derive(Deserialize, Default)]
struct RawContent {
    text: Option<String>,
    data: Option<Value>,
    raw: Option<String>,
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    filename: String,
}

#[derive(Deserialize)]
struct RawChunk {
    #[serde(default)]
    name: String,
    #[serde(default)]
    last: bool,
    #[serde(flatten)]
    content: RawContent,
}

#[derive(Deserialize)]
struct RawResult {
    #[serde(default)]
    artifacts: Vec<RawArtifact>,
    message: Option<String>,
    #[serde(flatten)]
    content: RawContent,
}

#[derive(Deserialize)]
struct RawArtifact {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    content: RawContent,
}

impl RawContent {
    fn is_empty(&self) -> bool {
        self.text.is_none() && self.data.is_none() && self.raw.is_none()
    }

    fn into_part(self) -> Result<v1::Part, String> {
        let media_type = self.media_type;
        match (self.text, self.data, self.raw) {
            (Some(text), None, None) => Ok(v1::Part {
                media_type,
                ..text_part(text)
            }),
            (None, Some(data), None) => Ok(data_part(&data)),
            (None, None, Some(raw)) => {
                let bytes =
                    base64_text::decode(&raw).map_err(|error| format!("raw is not base64: {error}"))?;
                let media_type = if media_type.is_empty() {
                    "application/octet-stream"
                } else {
                    &media_type
                };
                Ok(raw_part(bytes, &self.filename, media_type))
            }
            _ => Err("exactly one of text, data and raw is expected".to_owned()),
        }
    }

    fn into_message(self) -> Result<v1::Message, String> {
        Ok(v1::Message {
            parts: vec![self.into_part()?],
            ..v1::Message::default()
        })
    }

    fn into_bytes(self) -> Result<Vec<u8>, String> {
        match (self.text, self.data, self.raw) {
            (Some(text), None, None) => Ok(text.into_bytes()),
            (None, None, Some(raw)) => {
                base64_text::decode(&raw).map_err(|error| format!("raw is not base64: {error}"))
            }
            (None, None, None) => Ok(Vec::new()),
            _ => Err("a chunk has either text or raw".to_owned()),
        }
    }
}

/// Reads a line, without its end. An empty one says nothing.
pub(super) fn parse(line: &[u8]) -> Result<Option<ProgramLine>, BadLine> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let of_no_task = |reason: String| BadLine { id: None, reason };
    let value: Value =
        serde_json::from_slice(line).map_err(|error| of_no_task(format!("no JSON: {error}")))?;
    let id = match value.get("id").and_then(Value::as_str) {
        Some(id) => id.to_owned(),
        None => return Err(of_no_task("no \"id\" of a task".to_owned())),
    };
    let bad = |reason: String| BadLine {
        id: Some(id.clone()),
        reason,
    };
    let raw: RawLine = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
    let said = match raw {
        RawLine::Working(content) => Said::Working(content.into_message().map_err(bad)?),
        RawLine::Question(content) => Said::Question(content.into_message().map_err(bad)?),
        RawLine::Error { text } => Said::Error(text),
        RawLine::Chunk(chunk) => {
            let name = if chunk.name.is_empty() {
                "result".to_owned()
            } else {
                chunk.name
            };
            let media_type = match chunk.content.media_type.as_str() {
                "" if chunk.content.raw.is_some() => "application/octet-stream".to_owned(),
                "" => "text/plain".to_owned(),
                given => given.to_owned(),
            };
            Said::Chunk {
                name,
                media_type,
                bytes: chunk.content.into_bytes().map_err(bad)?,
                last: chunk.last,
            }
        }
        RawLine::Result(result) => result_of(result).map_err(bad)?,
    };
    Ok(Some(ProgramLine { id, said }))
}

fn result_of(result: RawResult) -> Result<Said, String> {
    if result.artifacts.len() > MOST_ARTIFACTS {
        return Err(format!("a result has at most {MOST_ARTIFACTS} artifacts"));
    }
    let mut artifacts = Vec::new();
    if !result.content.is_empty() {
        artifacts.push(artifact("result", result.content.into_part()?));
    }
    for (number, given) in result.artifacts.into_iter().enumerate() {
        let part = given.content.into_part();
        let part = part.map_err(|reason| format!("artifacts[{number}]: {reason}"))?;
        artifacts.push(artifact(&given.name, part));
    }
    Ok(Said::Result {
        artifacts,
        message: result.message.map(crate::parts::text_message),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;
    use crate::parts::text_message;

    /// Whether docs/run.schema.json takes the line as one of this direction.
    fn is_in_schema(direction: &str, line: &str) -> bool {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/run.schema.json");
        let mut schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let fields = schema.as_object_mut().unwrap();
        fields.remove("oneOf");
        fields.insert("$ref".to_owned(), format!("#/$defs/{direction}").into());
        let line = serde_json::from_str(line).unwrap();
        jsonschema::validator_for(&schema).unwrap().is_valid(&line)
    }

    fn read(line: &str) -> ProgramLine {
        assert!(is_in_schema("from_program", line), "{line}");
        parse(line.as_bytes()).unwrap().unwrap()
    }

    fn bad(line: &str) -> (Option<String>, String) {
        let bad = parse(line.as_bytes()).unwrap_err();
        (bad.id, bad.reason)
    }

    #[test]
    fn a_task_says_all_that_a_program_needs() {
        let task = v1::Task {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            target_skill_id: "s".to_owned(),
            originator_peer_id: "p".to_owned(),
            messages: vec![text_message("hello")],
            ..v1::Task::default()
        };
        let attempt = Attempt {
            number: 2,
            deadline: Some(UNIX_EPOCH + Duration::from_secs(7)),
        };
        let line = task_line(&task, attempt);
        assert!(line.ends_with('\n') && !line.trim_end().contains('\n'));
        let answer = answer_line("t", &text_message("blue"));
        for line in [&line, &answer, &cancel_line("t")] {
            assert!(is_in_schema("to_program", line), "{line}");
        }
        let line: Value = serde_json::from_str(&line).unwrap();
        let expected = json!({"type": "task", "id": "t", "context_id": "c", "skill": "s", "sender": "p", "attempt": 2,
            "deadline": 7, "text": "hello",
            "messages": [{"role": "user", "message_id": "", "parts": [{"text": "hello"}]}]});
        assert_eq!(line, expected);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            (answer["type"].as_str(), answer["text"].as_str()),
            (Some("answer"), Some("blue"))
        );
        let cancel: Value = serde_json::from_str(&cancel_line("t")).unwrap();
        assert_eq!(cancel, json!({"type": "cancel", "id": "t"}));
    }

    #[test]
    fn what_a_program_says_is_read() {
        let said = |line: &str| read(line).said;
        assert_eq!(
            said(r#"{"type":"working","id":"t","text":"half"}"#),
            Said::Working(text_message("half"))
        );
        assert_eq!(
            said(r#"{"type":"question","id":"t","text":"which?"}"#),
            Said::Question(text_message("which?"))
        );
        assert_eq!(
            said(r#"{"type":"error","id":"t","text":"no"}"#),
            Said::Error("no".to_owned())
        );
        assert_eq!(
            said(r#"{"type":"chunk","id":"t","raw":"aGk=","last":true}"#),
            Said::Chunk {
                name: "result".to_owned(),
                media_type: "application/octet-stream".to_owned(),
                bytes: b"hi".to_vec(),
                last: true,
            }
        );
        let line = r#"{"type":"result","id":"t","text":"done","message":"bye","unknown":1,
            "artifacts":[{"name":"a","data":{"n":1}},{"name":"b.png","raw":"aGk=","filename":"b.png","media_type":"image/png"}]}"#;
        let Said::Result { artifacts, message } = said(line) else {
            panic!("no result")
        };
        let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
        assert_eq!(
            (names, message),
            (vec!["result", "a", "b.png"], Some(text_message("bye")))
        );
        assert_eq!(artifacts[2].parts[0].media_type, "image/png");
        assert_eq!(
            said(r#"{"type":"result","id":"t"}"#),
            Said::Result {
                artifacts: Vec::new(),
                message: None
            }
        );
    }

    #[test]
    fn a_bad_line_names_its_task_where_it_can() {
        assert_eq!(parse(b"  \r").unwrap(), None);
        for (line, id) in [
            ("hello", None),
            ("[]", None),
            (r#"{"type":"working","text":"x"}"#, None),
            (r#"{"type":"working","id":7}"#, None),
            (r#"{"type":"unheard","id":"t"}"#, Some("t")),
            (r#"{"type":"working","id":"t"}"#, Some("t")),
            (r#"{"type":"error","id":"t"}"#, Some("t")),
            (r#"{"type":"chunk","id":"t","data":{}}"#, Some("t")),
            (r#"{"type":"result","id":"t","text":"a","data":1}"#, Some("t")),
            (
                r#"{"type":"result","id":"t","artifacts":[{"raw":"*"}]}"#,
                Some("t"),
            ),
        ] {
            let (named, reason) = bad(line);
            assert_eq!(named.as_deref(), id, "{line}: {reason}");
            // The schema cannot tell base64.
            let is_refused = line == "hello" || line.contains('*') || !is_in_schema("from_program", line);
            assert!(is_refused, "{line}");
            assert!(!reason.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
