//! The lines of the JSON-lines protocol, both ways (docs/run.schema.json). PURE.

use std::time::SystemTime;

use agentanycast_daemon_kit::json_lines;
use agentanycast_gateway::base64_text;
use agentanycast_proto::v1;
use agentanycast_readers::{
    json,
    lines::{Piece, could_be, cut, spelled_out},
};
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

/// The types of the lines that a program writes.
const TYPES: [&str; 5] = ["working", "question", "chunk", "result", "error"];

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
    Chunk(Chunk),
    /// The task is complete.
    Result {
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    },
    /// The task fails.
    Error(String),
}

/// See [`Said::Chunk`].
#[derive(Debug, PartialEq)]
pub(super) struct Chunk {
    pub(super) name: String,
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
    /// It ends the result.
    pub(super) last: bool,
}

/// A line that cannot be taken.
#[derive(Debug, PartialEq)]
pub(super) struct BadLine {
    /// The tasks that it names, as far as that could be read.
    pub(super) ids: Vec<String>,
    /// It may be about any task where it names none. Else it is about the named tasks alone, and a line of a log
    /// where it names none.
    pub(super) may_be_any: bool,
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

/// Reads a line. An empty one says nothing.
pub(super) fn parse(piece: &Piece) -> Result<Option<ProgramLine>, BadLine> {
    let text = piece.message();
    if text.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value = json::value(text).map_err(|error| {
        let reason = piece
            .fault()
            .map_or_else(|| format!("no JSON: {error}"), str::to_owned);
        unread(text, reason)
    })?;
    if let Value::String(inner) = &value {
        let reason = "the line is a text, and has to be an object".to_owned();
        return Err(BadLine {
            may_be_any: false,
            ..unread(inner.as_bytes(), reason)
        });
    }
    let is_typed = value["type"].as_str().is_some_and(|kind| TYPES.contains(&kind));
    let is_prefixed = matches!(piece, Piece::Prefixed { .. });
    let of_tasks = |ids: Vec<String>, reason: String| BadLine {
        ids,
        // Of a log that is about a task, only the task that it names is known.
        may_be_any: is_typed && !is_prefixed,
        reason,
    };
    let Some(id) = value["id"].as_str().map(str::to_owned) else {
        let ids = if value.is_array() {
            cut(text, "id")
        } else {
            Vec::new()
        };
        return Err(of_tasks(ids, "no \"id\" of a task".to_owned()));
    };
    let bad = |reason: String| of_tasks(vec![id.clone()], reason);
    if let Some(fault) = piece.fault() {
        let mut line = bad(fault.to_owned());
        if !is_typed && is_prefixed {
            // A log that shows what the program was told.
            line.ids.clear();
        }
        return Err(line);
    }
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
            Said::Chunk(Chunk {
                name,
                media_type,
                bytes: chunk.content.into_bytes().map_err(bad)?,
                last: chunk.last,
            })
        }
        RawLine::Result(result) => result_of(result).map_err(bad)?,
    };
    Ok(Some(ProgramLine { id, said }))
}

/// A line that is no JSON document. A log may show what the program was told.
fn unread(text: &[u8], reason: String) -> BadLine {
    let text = &*spelled_out(text);
    let types = cut(text, "type");
    let is_typed = types.iter().any(|kind| TYPES.contains(&kind.as_str()));
    let is_object = json::without_bom(text).trim_ascii_start().starts_with(b"{");
    let is_of_program = is_typed || is_object && types.is_empty();
    BadLine {
        ids: if is_of_program {
            cut(text, "id")
        } else {
            Vec::new()
        },
        may_be_any: is_of_program && could_be(text, &["type", "id"]),
        reason,
    }
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

    fn line(text: &[u8]) -> Piece {
        Piece::Line(text.to_vec())
    }

    fn read(text: &str) -> ProgramLine {
        assert!(is_in_schema("from_program", text), "{text}");
        parse(&line(text.as_bytes())).unwrap().unwrap()
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
        let said = |text: &str| read(text).said;
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
            Said::Chunk(Chunk {
                name: "result".to_owned(),
                media_type: "application/octet-stream".to_owned(),
                bytes: b"hi".to_vec(),
                last: true,
            })
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
        assert_eq!(parse(&line(b"  \r")).unwrap(), None);
        for (text, ids, may_be_any) in [
            ("hello", &[][..], false),
            ("[]", &[], false),
            (r#"[{"type":"result","id":"t"}]"#, &["t"], false),
            (r#"{"level":"info","id":"t"}"#, &["t"], false),
            (r#"{"level":"info"}"#, &[], false),
            (r#"{"type":"working","text":"x"}"#, &[], true),
            (r#"{"type":"working","id":7}"#, &[], true),
            (r#"{"type":"unheard","id":"t"}"#, &["t"], false),
            (r#"{"type":"working","id":"t"}"#, &["t"], true),
            (r#"{"type":"error","id":"t"}"#, &["t"], true),
            (r#"{"type":"chunk","id":"t","data":{}}"#, &["t"], true),
            (r#"{"type":"result","id":"t","text":"a","data":1}"#, &["t"], true),
            (
                r#"{"type":"result","id":"t","artifacts":[{"raw":"*"}]}"#,
                &["t"],
                true,
            ),
        ] {
            let bad = parse(&line(text.as_bytes())).unwrap_err();
            assert_eq!(
                (&bad.ids[..], bad.may_be_any),
                (
                    &ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()[..],
                    may_be_any
                ),
                "{text}: {bad:?}"
            );
            // The schema cannot tell base64.
            let is_refused = text == "hello" || text.contains('*') || !is_in_schema("from_program", text);
            assert!(is_refused, "{text}");
            assert!(!bad.reason.is_empty());
        }
    }

    #[test]
    fn text_that_is_no_json_is_about_a_task_where_it_could_be() {
        for (text, ids, may_be_any) in [
            (&br#"{"type":"result","id":"t","data":NaN}"#[..], &["t"][..], true),
            (
                b"{\"type\":\"result\",\"id\":\"t\",\"text\":\"caf\xe9\"}",
                &["t"],
                true,
            ),
            (
                br#"{"type":"chunk","id":"t","text":"a"}{"type":"result","id":"u"}"#,
                &["t", "u"],
                true,
            ),
            (b"{'type': 'result', 'id': 't'}", &["t"], true),
            (br#"{"type":"task","id":"t","n":NaN}"#, &[], false),
            (br#"{"type":"res"#, &[], true),
            (br#"{"a":NaN}"#, &[], false),
            (br#"got {"type":"result","id":"t","n":NaN}"#, &["t"], false),
            (br#"got {"type":"task","id":"t","n":NaN}"#, &[], false),
            (br#"got {"id":"t","text":"x"#, &[], false),
            (b"sends {'type': 'result', 'id': 't'}", &[], false),
            (b"task t is done", &[], false),
            (br#"{ type": "chunk", "id": "t", "text": "x"}"#, &["t"], false),
            (br#"{ "type": "result", id: "t" "id": "t"}"#, &["t"], true),
            (br#"{\"type\":\"result\",\"id\":\"t\"}"#, &["t"], true),
            (
                br#"[{"type":"result","id":"t"},{"type":"result","id":"u",}]"#,
                &["t", "u"],
                false,
            ),
            // Encoded twice.
            (
                br#""{\"type\":\"chunk\",\"id\":\"t\",\"text\":\"x\"}""#,
                &["t"],
                false,
            ),
            (br#""{\"type\":\"chunk\",\"id\":\"t\",\"te"#, &["t"], false),
            (br#""{\"type\":\"task\",\"id\":\"t\"}""#, &[], false),
            (br#""t is done""#, &[], false),
        ] {
            let bad = parse(&line(text)).unwrap_err();
            assert_eq!(bad.ids, ids, "{bad:?}");
            assert_eq!(bad.may_be_any, may_be_any, "{bad:?}");
        }
        let told = br#"INFO: {"type":"result","id":"t"}"#.to_vec();
        let task = br#"got {"type":"task","id":"t"}"#.to_vec();
        for (piece, ids, may_be_any) in [
            (
                Piece::Spread(b"{\n\"type\": \"result\",\n\"id\": \"t\"\n}".to_vec()),
                &["t"][..],
                true,
            ),
            (
                Piece::Utf16(br#"{"type":"result","id":"t"}"#.to_vec()),
                &["t"],
                true,
            ),
            (
                Piece::Utf32(br#"{"type":"result","id":"t"}"#.to_vec()),
                &["t"],
                true,
            ),
            (
                Piece::Prefixed {
                    at: 6..told.len(),
                    text: told,
                },
                &["t"],
                false,
            ),
            (
                Piece::Prefixed {
                    at: 4..task.len(),
                    text: task,
                },
                &[],
                false,
            ),
        ] {
            let bad = parse(&piece).unwrap_err();
            assert_eq!(
                (&bad.ids[..], bad.may_be_any),
                (
                    &ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()[..],
                    may_be_any
                )
            );
            assert_eq!(bad.reason, piece.fault().unwrap());
        }
    }

    #[test]
    fn half_a_character_is_replaced_and_a_mark_of_byte_order_is_left_out() {
        let text = b"\xef\xbb\xbf{\"type\":\"error\",\"id\":\"t\",\"text\":\"a\\ud83d\"}";
        let said = parse(&line(text)).unwrap().unwrap().said;
        assert_eq!(said, Said::Error("a\u{fffd}".to_owned()));
        assert_eq!(
            ended(&json!({"a": "x\u{2028}\u{2029}"})),
            "{\"a\":\"x\\u2028\\u2029\"}\n"
        );
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&Piece::Line(line.clone()));
            let _ = parse(&Piece::Spread(line));
        }
    }
}
