//! Frames that cannot be read and answer something all the same. PURE. The connection makes the answer of them, so that
//! what waits for it ends at once, with the reason, and not when its time is over.
//!
//! Python writes `NaN`, a later version has other values: of such a frame only the type and the id are looked for, by
//! their names.

use agentanycast_readers::excerpt::excerpt;

use super::{ClientMessage, ClientMessageType, DecodeError, MessageStatus, ServerMessage, ServerMessageType};

/// Longest id that is looked for, in bytes.
const MAX_ID: usize = 256;

/// The answer to a COMMAND that a text was to be.
pub(crate) fn unreadable_results(text: &str, error: &DecodeError) -> Option<ClientMessage> {
    let is_kind = is_type(text, ClientMessageType::CommandResults.as_str());
    let id = strings(text, "prev_response_id").next().filter(|_| is_kind)?;
    Some(ClientMessage {
        prev_response_id: Some(id.to_owned()),
        error: Some(reason("its results", text, error)),
        ..ClientMessage::new(ClientMessageType::CommandResults, MessageStatus::Error)
    })
}

/// The end of a task, the COMMAND or the answer to a question that a text was to be.
pub(crate) fn unreadable_order(text: &str, error: &DecodeError) -> Option<ServerMessage> {
    let is = |kind: ServerMessageType| is_type(text, kind.as_str());
    let response_id = || strings(text, "response_id").next().map(str::to_owned);
    let failed = if is(ServerMessageType::TaskEnd) {
        ServerMessage {
            session_id: Some(strings(text, "session_id").next()?.to_owned()),
            ..ServerMessage::new(ServerMessageType::TaskEnd, MessageStatus::Failed)
        }
    } else if is(ServerMessageType::Command) {
        ServerMessage {
            response_id: Some(response_id()?),
            ..ServerMessage::new(ServerMessageType::Command, MessageStatus::Error)
        }
    } else if is(ServerMessageType::DeviceInfoResponse) {
        ServerMessage {
            response_id: Some(response_id()?),
            ..ServerMessage::new(ServerMessageType::Error, MessageStatus::Error)
        }
    } else {
        return None;
    };
    Some(ServerMessage {
        error: Some(reason("the frame", text, error)),
        ..failed
    })
}

fn is_type(text: &str, kind: &str) -> bool {
    strings(text, "type").any(|found| found == kind)
}

fn reason(what: &str, text: &str, error: &DecodeError) -> String {
    format!("{what} cannot be read: {error}: {}", excerpt(text.as_bytes()))
}

/// The strings that a text has behind this name, in their order. Ids and types have no escapes; strings with some are
/// left out.
fn strings<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let quoted = format!("\"{name}\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(&quoted)?;
            rest = &rest[at + quoted.len()..];
            let value = rest.trim_start().strip_prefix(':').map(str::trim_start);
            let Some(value) = value.and_then(|value| value.strip_prefix('"')) else {
                continue;
            };
            let end = value.find('"').filter(|end| *end <= MAX_ID);
            if let Some(found) = end.map(|end| &value[..end]).filter(|found| !found.contains('\\')) {
                return Some(found);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> DecodeError {
        DecodeError::Invalid {
            reason: "expected value".to_owned(),
        }
    }

    #[test]
    fn results_that_cannot_be_read_name_their_command() {
        let text =
            r#"{"type": "command_results", "status":"completed", "prev_response_id" : "c-1", "x": NaN}"#;
        let read = unreadable_results(text, &error()).unwrap();
        assert_eq!(read.prev_response_id.as_deref(), Some("c-1"));
        // The names of the protocol may be in a result, too.
        let nested =
            r#"{"action_results":[{"result":{"type":"x"}}],"prev_response_id":"c","type":"command_results"}"#;
        assert!(unreadable_results(nested, &error()).is_some());
        let said = read.error.unwrap();
        assert!(said.contains("expected value") && said.contains("NaN"), "{said}");
        for other in [
            r#"{"type": "heartbeat", "prev_response_id": "c-1", "x": NaN}"#,
            r#"{"type": "command_results", "x": NaN}"#,
            r#"{"type": "command_results", "prev_response_id": null, "x": NaN}"#,
            r#"{"type": "command_results", "prev_response_id": "a\"b"}"#,
            r#"{"type": "command_results", "prev_response_id": "half"#,
            "",
        ] {
            assert_eq!(unreadable_results(other, &error()), None, "{other}");
        }
    }

    #[test]
    fn orders_that_cannot_be_read_name_what_they_are_about() {
        let read = |text: &str| unreadable_order(text, &error());
        let command =
            read(r#"{"type":"command","response_id":"c","actions":[{"tool_type":"odd"}]}"#).unwrap();
        assert_eq!(
            (command.kind, command.response_id.as_deref(), command.actions),
            (ServerMessageType::Command, Some("c"), None)
        );
        let end = read(r#"{"type":"task_end","status":"odd","session_id":"t@1"}"#).unwrap();
        assert_eq!(
            (end.kind, end.status),
            (ServerMessageType::TaskEnd, MessageStatus::Failed)
        );
        assert_eq!(end.session_id.as_deref(), Some("t@1"));
        let info = read(r#"{"type":"device_info_response","response_id":"i","result":NaN}"#).unwrap();
        assert_eq!(
            (info.kind, info.response_id.as_deref()),
            (ServerMessageType::Error, Some("i"))
        );
        assert_eq!(read(r#"{"type":"heartbeat","x":NaN}"#), None);
        assert_eq!(read(r#"{"type":"odd"}"#), None);
    }
}
