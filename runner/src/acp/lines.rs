//! The lines of an agent before the library reads them: what is meant in one way only is mended, and a line that cannot
//! be read ends the calls that it may be about. The library itself leaves such lines out, and their calls wait for ever.
//! Used by `connection`. PURE.
//!
//! Invariant: each line is passed on, or it ends a call, or a warning tells of it.

use std::{collections::HashMap, num::NonZeroUsize};

use agent_client_protocol::v1::schema::{SessionNotification, StopReason};
use agentanycast_readers::{
    excerpt::excerpt,
    json,
    lines::{Piece, could_be, cut, has_key, spelled_out},
};
use lru::LruCache;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most calls that are known to be answered: a second answer is left out.
const MOST_ANSWERED: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// Most sessions that are told of one line.
const MOST_LATE: usize = 16;

/// One of these is in each message of JSON-RPC.
const KEYS: [&str; 4] = ["jsonrpc", "method", "result", "error"];

/// The code of the error that ends a call for a line of the agent, as JSON-RPC has it for JSON that is broken.
pub(super) const UNREADABLE: i32 = -32700;

/// What the log says of a line of a log.
const NO_MESSAGE: &str = "it is no message";

/// The method of a prompt.
const PROMPT: &str = "session/prompt";

/// What comes of a line of the agent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Received {
    /// What the library reads.
    pub(super) lines: Vec<String>,
    /// What the log says.
    pub(super) warning: Option<String>,
    /// Sessions that a line is about which cannot be read and ended no call, and what is wrong with it: their turns may
    /// go on behind the answers to their prompts.
    pub(super) late: Vec<(String, String)>,
}

impl Received {
    pub(super) fn add(&mut self, next: Self) {
        self.lines.extend(next.lines);
        self.warning = next.warning.or(self.warning.take());
        self.late.extend(next.late);
    }
}

/// The calls of the agent that have no answer yet.
pub(super) struct Calls {
    open: HashMap<String, Call>,
    answered: LruCache<String, ()>,
}

struct Call {
    method: String,
    session: Option<String>,
}

/// The part of an outgoing line that is looked at.
#[derive(Deserialize)]
struct Head {
    id: Option<String>,
    method: Option<String>,
    params: Option<HeadParams>,
}

#[derive(Deserialize)]
struct HeadParams {
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            answered: LruCache::new(MOST_ANSWERED),
        }
    }
}

impl Calls {
    /// Sees a line that goes to the agent.
    pub(super) fn sent(&mut self, line: &str) {
        // Ids of the library's requests are texts; those of its responses are not looked at.
        if let Ok(Head {
            id: Some(id),
            method: Some(method),
            params,
        }) = serde_json::from_str(line)
        {
            let session = params.and_then(|params| params.session_id);
            self.open.insert(id, Call { method, session });
        }
    }

    /// Takes a piece of what the agent writes.
    pub(super) fn received(&mut self, piece: &Piece) -> Received {
        let text = piece.text();
        if text.trim_ascii().is_empty() {
            return Received::default();
        }
        let mended = json::mended(piece.message());
        let value = match serde_json::from_slice::<Value>(&mended) {
            Ok(Value::Object(message)) if KEYS.iter().any(|key| message.contains_key(*key)) => message,
            Ok(Value::Array(_)) if has_key(text, "jsonrpc") => {
                return self.end_calls(
                    text,
                    "a list of messages, and each has to be on a line of its own",
                );
            }
            Ok(Value::String(inner)) => {
                let named = self.named(inner.as_bytes());
                return self.end_named(named, text, "a message within a text");
            }
            Ok(_) => return warning(NO_MESSAGE, text),
            Err(error) => {
                let reason = piece
                    .fault()
                    .map_or_else(|| format!("no JSON: {error}"), str::to_owned);
                if could_be(piece.message(), &KEYS) {
                    return self.end_calls(text, &reason);
                }
                return self.end_named(self.named(text), text, &reason);
            }
        };
        match (piece, piece.fault()) {
            (_, None) => {}
            // A log that shows what the agent was told, or messages of its own.
            (Piece::Prefixed { .. }, Some(fault)) if !self.is_of_a_call(&value) => {
                return late(NO_MESSAGE, text, fault);
            }
            (_, Some(fault)) => return self.end_calls(text, fault),
        }
        self.message(value, text, &mended)
    }

    fn message(&mut self, mut message: Map<String, Value>, text: &[u8], mended: &[u8]) -> Received {
        let mut is_changed = message.get("jsonrpc").is_none_or(|version| version != "2.0");
        if message.contains_key("method") {
            if message["method"] == "session/update" {
                match update(&mut message) {
                    Update::Right => {}
                    Update::Mended => is_changed = true,
                    Update::Unknown(reason) => return warning(&reason, text),
                    Update::Broken(reason) => return self.end_calls(text, &reason),
                }
            }
        } else {
            let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
            if self.answered.contains(id) {
                return warning("the call is over", text);
            }
            let Some(call) = self.open.remove(id) else {
                return self.end_calls(text, "its id is not that of a call");
            };
            self.answered.put(id.to_owned(), ());
            is_changed |= mend_response(&mut message);
            is_changed |= call.method == PROMPT && refuse_unknown_end(&mut message);
        }
        let line = if is_changed {
            message.insert("jsonrpc".to_owned(), "2.0".into());
            Value::Object(message).to_string()
        } else {
            // It is JSON, and so UTF-8.
            String::from_utf8_lossy(mended).trim().to_owned()
        };
        Received {
            lines: vec![line],
            ..Received::default()
        }
    }

    /// Whether a message is the answer to a call, or what an agent sends while it does one.
    fn is_of_a_call(&self, message: &Map<String, Value>) -> bool {
        if message.contains_key("method") {
            let mut sessions = self.open.values().filter_map(|call| call.session.as_deref());
            return sessions.any(|session| is_of_session(message, session));
        }
        let id = message.get("id").and_then(Value::as_str);
        id.is_some_and(|id| self.open.contains_key(id))
    }

    /// The session of the prompt that this piece answers.
    pub(super) fn answered_session(&self, piece: &Piece) -> Option<String> {
        let Piece::Line(line) = piece else {
            return None;
        };
        let message = json::value(line).ok()?;
        let is_answer = message.get("method").is_none();
        let call = self.open.get(message["id"].as_str().filter(|_| is_answer)?)?;
        call.session.clone().filter(|_| call.method == PROMPT)
    }

    /// Ends the calls that a line may be about, with the line.
    fn end_calls(&mut self, text: &[u8], reason: &str) -> Received {
        self.end(self.concerned(text), text, reason)
    }

    /// As [`Self::end_calls`], for a line which is one of a log where it names no calls.
    fn end_named(&mut self, named: Vec<String>, text: &[u8], reason: &str) -> Received {
        if named.is_empty() {
            return late(NO_MESSAGE, text, reason);
        }
        self.end(named, text, reason)
    }

    fn end(&mut self, ids: Vec<String>, text: &[u8], reason: &str) -> Received {
        if ids.is_empty() {
            return late(reason, text, reason);
        }
        let mut received = warning(reason, text);
        for id in ids {
            self.open.remove(&id);
            self.answered.put(id.clone(), ());
            let message = not_understood(reason, text);
            let error = json!({"code": UNREADABLE, "message": message});
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            received.lines.push(answer.to_string());
        }
        received
    }

    /// The calls that a text names which does not begin as a message: as an answer to them, or as what an agent sends of
    /// their sessions. A log may show what the agent was told.
    fn named(&self, text: &[u8]) -> Vec<String> {
        let text = &*spelled_out(text);
        let (methods, ids, sessions) = (cut(text, "method"), cut(text, "id"), sessions(text));
        let has_outcome = || {
            ["result", "error", "stopReason"]
                .iter()
                .any(|key| has_key(text, key))
        };
        let is_answer = methods.is_empty() && has_outcome();
        let is_named = |id: &String, call: &Call| {
            let is_of_session = call.session.as_ref().is_some_and(|one| sessions.contains(one));
            is_answer && ids.contains(id) || call.method == PROMPT && is_of_session
        };
        let named = self.open.iter().filter(|(id, call)| is_named(id, call));
        named.map(|(id, _)| id.clone()).collect()
    }

    /// The calls that a line may be about: those that it names by their ids, else those of its session, else those
    /// that have such answers, else all.
    fn concerned(&self, text: &[u8]) -> Vec<String> {
        let ids = cut(text, "id");
        if !has_key(text, "method") && ids.iter().any(|id| self.answered.contains(id)) {
            return Vec::new();
        }
        let of = |is_meant: &dyn Fn(&str, &Call) -> bool| -> Vec<String> {
            let calls = self.open.iter().filter(|(id, call)| is_meant(id, call));
            calls.map(|(id, _)| id.clone()).collect()
        };
        let named = of(&|id, _| ids.iter().any(|named| named == id));
        if !named.is_empty() {
            return named;
        }
        let is_prompt = |call: &Call| call.method == PROMPT;
        let sessions = cut(text, "sessionId");
        if has_key(text, "method") && !sessions.is_empty() {
            return of(&|_, call| {
                is_prompt(call) && call.session.as_ref().is_some_and(|one| sessions.contains(one))
            });
        }
        let prompts = of(&|_, call| is_prompt(call));
        if !prompts.is_empty() && (has_key(text, "method") || has_key(text, "stopReason")) {
            return prompts;
        }
        of(&|_, _| true)
    }
}

/// Whether agents send this method.
fn is_of_agent(method: &str) -> bool {
    let of_agent = ["session/update", "session/request_permission", "fs/", "terminal/"];
    of_agent.iter().any(|begin| method.starts_with(begin))
}

/// Whether a message is what an agent sends of this session.
pub(super) fn is_of_session(message: &Map<String, Value>, session: &str) -> bool {
    let method = message.get("method").and_then(Value::as_str);
    let params = message.get("params");
    method.is_some_and(is_of_agent) && params.is_some_and(|params| params["sessionId"] == session)
}

/// The sessions that broken text is about, as what an agent sends of them.
fn sessions(text: &[u8]) -> Vec<String> {
    let mut methods = cut(text, "method").into_iter();
    if has_key(text, "sessionUpdate") || methods.any(|method| is_of_agent(&method)) {
        cut(text, "sessionId")
    } else {
        Vec::new()
    }
}

fn not_understood(reason: &str, text: &[u8]) -> String {
    let shown = excerpt(text);
    format!("a line that it sent is not understood ({reason}): {shown}")
}

fn warning(reason: &str, text: &[u8]) -> Received {
    Received {
        warning: Some(format!("{reason}: {}", excerpt(text))),
        ..Received::default()
    }
}

/// Of a line that ends no call, and cannot be read for this reason.
fn late(logged: &str, text: &[u8], reason: &str) -> Received {
    let sessions = sessions(&spelled_out(text)).into_iter().take(MOST_LATE);
    Received {
        late: sessions
            .map(|session| (session, not_understood(reason, text)))
            .collect(),
        ..warning(logged, text)
    }
}

/// Makes a response one that the library reads; whether it was changed.
fn mend_response(message: &mut Map<String, Value>) -> bool {
    let is_there =
        |message: &Map<String, Value>, key: &str| message.get(key).is_some_and(|value| !value.is_null());
    if is_there(message, "error") {
        let is_result_out = message.remove("result").is_some();
        let error = &message["error"];
        let is_right = error["code"]
            .as_i64()
            .is_some_and(|code| i32::try_from(code).is_ok())
            && error["message"].is_string();
        if is_right {
            return is_result_out;
        }
        let text = match error["message"].as_str().or_else(|| error.as_str()) {
            Some(text) => text.to_owned(),
            None => error.to_string(),
        };
        message.insert("error".to_owned(), json!({"code": -32603, "message": text}));
        return true;
    }
    let is_error_out = message.remove("error").is_some();
    let is_result_in = !message.contains_key("result");
    if is_result_in {
        // JavaScript leaves out what is undefined.
        message.insert("result".to_owned(), Value::Null);
    }
    is_error_out || is_result_in
}

/// Makes an error of the end of a turn whose reason is not known, which the library says as it sees it; whether it was
/// one.
fn refuse_unknown_end(message: &mut Map<String, Value>) -> bool {
    let Some(result) = message.get("result") else {
        return false;
    };
    let reason = &result["stopReason"];
    if StopReason::deserialize(reason).is_ok() {
        return false;
    }
    let text = match reason {
        Value::Null => "it ended its turn without a stopReason".to_owned(),
        Value::String(reason) => {
            format!(
                "it ended its turn for a reason that is not known: {}",
                excerpt(reason.as_bytes())
            )
        }
        other => format!(
            "it ended its turn with a stopReason that is no text: {}",
            excerpt(other.to_string().as_bytes())
        ),
    };
    message.remove("result");
    message.insert("error".to_owned(), json!({"code": -32603, "message": text}));
    true
}

/// What is to be done with an update.
enum Update {
    Right,
    Mended,
    /// It is no part of an answer, and is left out.
    Unknown(String),
    /// It may be a part of an answer.
    Broken(String),
}

/// Looks at an update, and mends a part of an answer that is of an unknown kind: it stays JSON.
fn update(message: &mut Map<String, Value>) -> Update {
    let Some(params) = message.get_mut("params") else {
        return Update::Broken("an update without params".to_owned());
    };
    let Err(error) = SessionNotification::deserialize(&*params) else {
        return Update::Right;
    };
    let kind = params["update"]["sessionUpdate"].as_str();
    match kind {
        None => Update::Broken(format!("an update cannot be read: {error}")),
        Some("agent_message_chunk") => {
            let content = &mut params["update"]["content"];
            // Text that cannot be read is not shown as JSON.
            if content["type"].as_str().is_some_and(|kind| kind != "text") {
                let resource =
                    json!({"uri": "", "mimeType": "application/json", "text": content.to_string()});
                *content = json!({"type": "resource", "resource": resource});
                if SessionNotification::deserialize(&*params).is_ok() {
                    return Update::Mended;
                }
            }
            Update::Broken(format!("a part of its answer cannot be read: {error}"))
        }
        Some(_) => Update::Unknown(format!("an update cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two prompts `p1` in session `s1`, `p2` in `s2`, and a session that is made.
    fn calls() -> Calls {
        let mut calls = Calls::default();
        for (id, method, session) in [
            ("p1", PROMPT, "s1"),
            ("p2", PROMPT, "s2"),
            ("n", "session/new", ""),
        ] {
            let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]});
            calls.sent(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        }
        calls.answered.put("old".to_owned(), ());
        calls
    }

    fn piece(text: &[u8]) -> Piece {
        Piece::Line(text.to_vec())
    }

    /// The calls that end by this text, each with its excerpt.
    fn ended(text: &Piece) -> Vec<String> {
        let received = calls().received(text);
        let mut ids: Vec<String> = received
            .lines
            .iter()
            .map(|line| {
                let answer: Value = serde_json::from_str(line).unwrap();
                let message = answer["error"]["message"].as_str().unwrap();
                assert!(message.contains(&excerpt(text.text())), "{message}");
                assert_eq!(answer["error"]["code"], UNREADABLE);
                answer["id"].as_str().unwrap().to_owned()
            })
            .collect();
        ids.sort();
        assert!(received.warning.is_some());
        ids
    }

    #[test]
    fn a_line_that_cannot_be_read_ends_the_calls_that_it_may_be_about() {
        for (text, ids) in [
            (&br#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn","x":NaN}}"#[..], &["p1"][..]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":\"p2\",\"result\":{\"a\":\"caf\xe9\"}}", &["p2"]),
            (br#"{"jsonrpc":"2.0","id":"p1","result":{}}{"jsonrpc":"2.0","id":"p2","result":{}}"#, &["p1", "p2"]),
            (br#"[{"jsonrpc":"2.0","id":"p1","result":{}}]"#, &["p1"]),
            (br#"{"jsonrpc":"2.0","id":"wrong","result":{"stopReason":"end_turn"}}"#, &["p1", "p2"]),
            (br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}"#, &["n", "p1", "p2"]),
            (b"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s2\",\"update\":{\"content\":\"caf\xe9\"}}}", &["p2"]),
            (b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"caf\xe9\":1}}", &["p1", "p2"]),
            (br#"{"jsonrpc":"2.0","id":4,"method":"session/request_permission","params":{"sessionId":"s1","x":NaN}}"#, &["p1"]),
            (br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk"}}}"#, &["p1"]),
            (br#"{"jsonr"#, &["n", "p1", "p2"]),
            // These are about no call that waits.
            (br#"{"jsonrpc":"2.0","id":"old","result":{"x":NaN}}"#, &[]),
            (br#"{"jsonrpc":"2.0","id":"old","result":{}}"#, &[]),
            (br#"{"level":"info"}"#, &[]),
            (b"Listening on {1}", &[]),
            (br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"of_tomorrow"}}}"#, &[]),
        ] {
            assert_eq!(ended(&piece(text)), ids, "{}", String::from_utf8_lossy(text));
        }
        let spread = Piece::Spread(b"{\n\"id\": \"p1\",\n\"result\": {}\n}".to_vec());
        assert_eq!(ended(&spread), ["p1"]);
        let answer = br#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}"#;
        assert_eq!(ended(&Piece::Utf16(answer.to_vec())), ["p1"]);
        let prefixed = |message: &[u8]| Piece::Prefixed {
            text: [b"DEBUG ", message].concat(),
            at: 6..6 + message.len(),
        };
        assert_eq!(ended(&prefixed(answer)), ["p1"]);
        let update = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2"}}"#;
        assert_eq!(ended(&prefixed(update)), ["p2"]);
        let prompt = br#"{"jsonrpc":"2.0","id":"p1","method":"session/prompt","params":{"sessionId":"s1"}}"#;
        assert!(ended(&prefixed(prompt)).is_empty());
        for of_others in [
            &br#"{"jsonrpc":"2.0","id":3,"result":{}}"#[..],
            br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s9"}}"#,
            br#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}"#,
        ] {
            assert!(ended(&prefixed(of_others)).is_empty());
        }
    }

    #[test]
    fn a_line_that_does_not_begin_as_a_message_ends_the_calls_that_it_names() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"agent_message_chunk"}}}"#;
        let answer = r#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}"#;
        let wide = |text: &str| String::from_utf8(text.bytes().flat_map(|byte| [byte, 0]).collect()).unwrap();
        for (text, id) in [(update, "p2"), (answer, "p1")] {
            for text in [
                text.replacen("{\"", "{ ", 1),
                Value::from(text).to_string(),
                format!("INFO: {}", &text[..text.len() - 1]),
                wide(&format!("got {text}")),
            ] {
                assert_eq!(ended(&piece(text.as_bytes())), [id], "{text}");
            }
            assert_eq!(ended(&Piece::Utf32(text.into())), [id]);
        }
        let prompt = r#"{"jsonrpc":"2.0","id":"p1","method":"session/prompt","params":{"sessionId":"s1"}}"#;
        for text in [
            &format!("got {}", prompt.replace("2.0", "2.0\",")),
            &Value::from(prompt).to_string(),
            &answer.replacen("{\"", "{ ", 1).replace("p1", "of others"),
            &update.replacen("{\"", "{ ", 1).replace("s2", "s9"),
            "p1 of s1 has its result",
            "sends {'id': 'p1', 'result': {}}",
            "\"p1\"",
        ] {
            assert!(ended(&piece(text.as_bytes())).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_line_behind_the_end_of_a_turn_is_told_to_it() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s2","update":{"sessionUpdate":"agent_message_chunk","content":NaN}}}"#;
        let whole = update.replace("NaN", "1");
        let prefixed = Piece::Prefixed {
            text: format!("INFO: {whole}").into(),
            at: 6..6 + whole.len(),
        };
        let told =
            r#"got {"jsonrpc":"2.0","id":"p2","method":"session/prompt","params":{"sessionId":"s2"},}"#;
        for (piece, is_late) in [
            (piece(update.as_bytes()), true),
            (piece(format!("INFO: {update}").as_bytes()), true),
            (piece(Value::from(update).to_string().as_bytes()), true),
            (prefixed, true),
            (piece(told.as_bytes()), false),
            (piece(b"s2 is over"), false),
        ] {
            let mut calls = calls();
            let end = r#"{"jsonrpc":"2.0","id":"p2","result":{"stopReason":"end_turn"}}"#;
            assert_eq!(calls.received(&self::piece(end.as_bytes())).lines, [end]);
            let received = calls.received(&piece);
            assert!(received.lines.is_empty() && received.warning.is_some());
            let late = received.late.iter().map(|(session, reason)| {
                assert!(reason.contains(&excerpt(piece.text())), "{reason}");
                session.as_str()
            });
            let expected: &[&str] = if is_late { &["s2"] } else { &[] };
            assert_eq!(late.collect::<Vec<_>>(), expected, "{piece:?}");
        }
    }

    #[test]
    fn the_session_of_the_prompt_is_known_that_a_line_answers() {
        let calls = calls();
        for (text, session) in [
            (
                r#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}"#,
                Some("s1"),
            ),
            (r#"{"jsonrpc":"2.0","id":"p2","error":{}}"#, Some("s2")),
            (
                r#"{"jsonrpc":"2.0","id":"p1","method":"fs/read_text_file"}"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":"n","result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":"old","result":{}}"#, None),
            ("Starting...", None),
        ] {
            let answered = calls.answered_session(&piece(text.as_bytes()));
            assert_eq!(answered.as_deref(), session, "{text}");
        }
    }

    #[test]
    fn what_is_meant_in_one_way_is_mended() {
        for (text, line) in [
            (
                r#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}"#,
                r#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"end_turn"}}"#,
            ),
            (
                r#"{"id":"p1","result":{"stopReason":"end_turn"}}"#,
                r#"{"id":"p1","jsonrpc":"2.0","result":{"stopReason":"end_turn"}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"n","result":{},"error":null}"#,
                r#"{"id":"n","jsonrpc":"2.0","result":{}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"p1","result":null,"error":{"code":1,"message":"no"}}"#,
                r#"{"error":{"code":1,"message":"no"},"id":"p1","jsonrpc":"2.0"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"p1","error":"no"}"#,
                r#"{"error":{"code":-32603,"message":"no"},"id":"p1","jsonrpc":"2.0"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"p1","result":{"stopReason":"of_tomorrow"}}"#,
                r#"{"error":{"code":-32603,"message":"it ended its turn for a reason that is not known: of_tomorrow"},"id":"p1","jsonrpc":"2.0"}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"n"}"#,
                r#"{"id":"n","jsonrpc":"2.0","result":null}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"x","params":{"a":"\ud83d"}}"#,
                "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":\"\u{fffd}\"}}",
            ),
        ] {
            let received = calls().received(&piece(text.as_bytes()));
            assert_eq!(received.lines.len(), 1, "{received:?}");
            let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            assert_eq!(read(&received.lines[0]), read(line));
            assert_eq!(received.warning, None);
        }
    }

    #[test]
    fn content_of_an_unknown_kind_stays_json() {
        let content = json!({"type": "video", "seconds": 3});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        let text = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}});
        let received = calls().received(&piece(text.to_string().as_bytes()));
        let line: Value = serde_json::from_str(&received.lines[0]).unwrap();
        let kept = line["params"]["update"]["content"]["resource"]["text"]
            .as_str()
            .unwrap();
        assert_eq!(serde_json::from_str::<Value>(kept).unwrap(), content);
    }

    proptest! {
        #[test]
        fn a_line_is_passed_on_or_told(text in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..60),
            "[{}\\[\\]\":,ps12]{1,40}".prop_map(String::into_bytes),
        ]) {
            prop_assume!(!text.trim_ascii().is_empty());
            let mut calls = calls();
            let received = calls.received(&piece(&text));
            prop_assert!(!received.lines.is_empty() || received.warning.is_some());
        }
    }
}
