//! Recorded frames of real programs go through the types and come out equal.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use agentanycast_aip::messages::{
    ClientMessage, ClientRole, CommandStatus, DecodeError, Limits, McpToolInfo, RegistrationMetadata,
    ServerMessage, decode, encode,
};
use serde_json::{Value, json};

const FRAMES: &str = include_str!("frames/aip.jsonl");

/// The recorded messages, each with whether a client sent it.
fn recorded() -> Vec<(bool, Value)> {
    let lines = FRAMES
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let messages = lines.filter(|line| line["dir"] != "path");
    messages
        .map(|line| (line["dir"] == "C>S", line["msg"].clone()))
        .collect()
}

/// A message without the fields that are null, and its results without theirs. What is inside a result stays.
fn without_nulls(mut message: Value) -> Value {
    let strip = |value: &mut Value| value.as_object_mut().unwrap().retain(|_, field| !field.is_null());
    strip(&mut message);
    let results = message.get_mut("action_results").and_then(Value::as_array_mut);
    for result in results.into_iter().flatten() {
        strip(result);
    }
    message
}

fn through_the_types(from_client: bool, text: &str) -> String {
    let limits = Limits::default();
    if from_client {
        encode(&decode::<ClientMessage>(text, &limits).unwrap(), &limits).unwrap()
    } else {
        encode(&decode::<ServerMessage>(text, &limits).unwrap(), &limits).unwrap()
    }
}

#[test]
fn recorded_frames_come_out_equal() {
    let messages = recorded();
    assert_eq!(messages.len(), 13);
    for (from_client, message) in messages {
        let again: Value =
            serde_json::from_str(&through_the_types(from_client, &message.to_string())).unwrap();
        assert_eq!(without_nulls(again), without_nulls(message.clone()));
        // A field that is absent and one that is null are the same.
        let bare = without_nulls(message);
        let again: Value = serde_json::from_str(&through_the_types(from_client, &bare.to_string())).unwrap();
        assert_eq!(again, bare);
    }
}

#[test]
fn recorded_metadata_and_tools_are_understood() {
    let messages = recorded();
    let decode_client =
        |at: usize| -> ClientMessage { serde_json::from_value(messages[at].1.clone()).unwrap() };
    let register = decode_client(0);
    let metadata: RegistrationMetadata =
        serde_json::from_value(Value::Object(register.metadata.clone().unwrap())).unwrap();
    let system = metadata.system_info.clone().unwrap();
    assert_eq!((system.device_id.as_str(), system.cpu_count), ("linux1", 2));
    assert_eq!(system.supported_features.len(), 6);
    assert_eq!(
        serde_json::to_value(metadata).unwrap(),
        Value::Object(register.metadata.unwrap())
    );

    let results = decode_client(3).action_results.unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(
        statuses,
        [
            CommandStatus::Success,
            CommandStatus::Success,
            CommandStatus::Failure,
            CommandStatus::Skipped
        ]
    );
    let tools: Vec<McpToolInfo> = serde_json::from_value(results[0].result.clone().unwrap()).unwrap();
    assert_eq!(tools[0].tool_key, "action::execute_command");
    assert_eq!(tools[1].namespace, "BashExecutor");
}

#[test]
fn unknown_fields_are_ignored_and_the_role_is_a_device_unless_said() {
    let text = r#"{"type":"heartbeat","status":"ok","later":{"a":[1]},"client_type":null}"#;
    let message: ClientMessage = decode(text, &Limits::default()).unwrap();
    assert_eq!(message.client_type, ClientRole::Device);
}

#[test]
fn unknown_values_are_errors_that_name_field_and_value() {
    let limits = Limits::default();
    let reason = |message: Value| match decode::<ClientMessage>(&message.to_string(), &limits) {
        Err(DecodeError::Invalid { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let found = reason(json!({ "type": "dance", "status": "ok" }));
    assert!(found.contains(r#"unknown type "dance""#), "{found}");
    let found = reason(json!({ "type": "heartbeat", "status": "fine" }));
    assert!(found.contains(r#"unknown status "fine""#), "{found}");
    let found = reason(json!({ "type": "heartbeat", "status": "ok", "client_type": "toaster" }));
    assert!(found.contains(r#"unknown client_type "toaster""#), "{found}");
    let results = json!([{ "status": "maybe" }]);
    let found = reason(json!({ "type": "command_results", "status": "ok", "action_results": results }));
    assert!(found.contains(r#"unknown status of a result "maybe""#), "{found}");
    let found = reason(json!({ "type": "heartbeat" }));
    assert!(found.contains("status"), "{found}");
    let long = "x".repeat(10_000);
    assert!(reason(json!({ "type": long, "status": "ok" })).len() < 400);

    let command = json!({
        "type": "command", "status": "continue", "actions": [{ "tool_name": "a", "tool_type": "wish" }],
    });
    let found = decode::<ServerMessage>(&command.to_string(), &limits)
        .unwrap_err()
        .to_string();
    assert!(found.contains(r#"unknown tool_type "wish""#), "{found}");
}

#[test]
fn messages_over_the_limits_are_refused() {
    let limits = Limits::default();
    let results = vec![json!({ "status": "none" }); 1001];
    let many = json!({ "type": "command_results", "status": "ok", "action_results": results }).to_string();
    let error = decode::<ClientMessage>(&many, &limits).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { max: 1000, .. }), "{error}");
    let deep = format!(
        r#"{{"type":"heartbeat","status":"ok","metadata":{{"a":{}{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let error = decode::<ClientMessage>(&deep, &limits).unwrap_err();
    assert_eq!(error, DecodeError::TooDeep { max: 64 });
    let large = " ".repeat(limits.bytes + 1);
    let error = decode::<ClientMessage>(&large, &limits).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { .. }), "{error}");
}
