//! The JSON of a state: both versions are read, malformed ones are refused with the name of the field.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use agentanycast_uap::{AgentState, PlanStep, StateError, ThreadTree, ThreadTreeError};
use agentanycast_upp::{
    AssistantMessage, ContentBlock, Message, ToolCall, ToolResult, ToolResultMessage, UserMessage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn full() -> AgentState {
    let results = ToolResultMessage::new([ToolResult {
        tool_call_id: "t".into(),
        result: json!([1]),
        is_error: true,
    }]);
    let calls = [ToolCall::new("t", "tool", json!({"a": 1}))];
    AgentState::initial()
        .with_message(UserMessage::new([
            ContentBlock::text("hi"),
            ContentBlock::image(&b"png"[..], "image/png"),
        ]))
        .with_message(AssistantMessage::new([ContentBlock::reasoning("hm")]).with_tool_calls(calls))
        .with_message(results)
        .with_step(7)
        .with_metadata("k", json!({"deep": [1.5, null]}))
        .with_reasoning("because")
        .with_plan([PlanStep::new("1", "look")])
        .with_subagent_trace(
            serde_json::from_value(json!({
                "subagentId": "s", "subagentType": "x", "parentToolCallId": "t", "prompt": "p",
                "startTime": 1, "endTime": 2, "success": false, "error": "down",
            }))
            .unwrap(),
        )
}

#[test]
fn version_1_1_keeps_everything() {
    let state = full();
    let json = state.to_json();
    assert_eq!(json["version"], "1.1.0");
    assert_eq!(json["messages"][0]["id"], state.messages()[0].id());
    assert_eq!(AgentState::from_json_text(&json.to_string()).unwrap(), state);
    // Absent optional fields are not written.
    let bare = AgentState::initial().to_json();
    // Their order is that of a feature of serde_json, which other crates may turn on.
    let mut keys: Vec<_> = bare.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["id", "messages", "metadata", "step", "version"]);
}

#[test]
fn version_1_0_is_written_on_request_and_read() {
    let json = full().to_json_v1_0();
    assert_eq!(json["version"], "1.0.0");
    assert_eq!(json["messages"][1]["content"]["toolCalls"][0]["toolName"], "tool");
    assert_eq!(json["messages"][2]["role"], "tool_result");
    assert!(json["messages"][0].get("id").is_none());
    let read = AgentState::from_json(&json).unwrap();
    // All is kept but the ids and times of messages.
    assert_eq!(read.to_json_v1_0(), json);
    assert_eq!((read.id(), read.step()), (full_id(&json), 7));
    let ids: std::collections::HashSet<_> = read.messages().iter().map(Message::id).collect();
    assert_eq!(ids.len(), 3, "each message gets an id");
}

fn full_id(json: &Value) -> &str {
    json["id"].as_str().unwrap()
}

#[test]
fn versions_that_are_not_known_are_refused() {
    let with = |version: Value| {
        let mut json = full().to_json();
        json["version"] = version;
        AgentState::from_json(&json)
    };
    for known in ["1.0.0", "1.0.9", "1.1.0", "1.1.42"] {
        assert!(with(json!(known)).is_ok(), "{known}");
    }
    for unknown in [
        "1.2.0",
        "2.0.0",
        "0.9.0",
        "1.1",
        "1.1.0-beta",
        "",
        "x",
        "1.1.0.0",
        "1.+1.0",
    ] {
        assert!(
            matches!(with(json!(unknown)), Err(StateError::Version(_))),
            "{unknown}"
        );
    }
    assert!(matches!(with(json!(1.1)), Err(StateError::Field { field, .. }) if field == "version"));
}

#[test]
fn malformed_states_name_the_field() {
    let cases = [
        ("id", json!(3), "id"),
        ("step", json!(-1), "step"),
        ("step", json!("3"), "step"),
        ("metadata", json!([]), "metadata"),
        ("messages", json!({}), "messages"),
        ("messages", json!([3]), "messages[0]"),
        ("messages", json!([{"type": "user"}]), "messages[0]"),
        (
            "messages",
            json!([{"role": "robot", "content": []}]),
            "messages[0].role",
        ),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "text"}]}]),
            "messages[0].content[0]",
        ),
        (
            "messages",
            json!([{"role": "assistant", "content": {"content": [], "toolCalls": 3}}]),
            "messages[0].content.toolCalls",
        ),
        ("messages", json!([{"content": []}]), "messages[0]"),
        ("reasoning", json!(["a", 3]), "reasoning[1]"),
        ("reasoning", json!("a"), "reasoning"),
        (
            "plan",
            json!([{"id": "1", "description": "x", "status": "lost"}]),
            "plan[0].status",
        ),
        ("subagentTraces", json!([{}]), "subagentTraces[0]"),
    ];
    for (key, value, expected) in cases {
        let mut json = full().to_json();
        json[key] = value;
        match AgentState::from_json(&json) {
            Err(StateError::Field { field, problem }) => assert_eq!(field, expected, "{problem}"),
            other => panic!("{key}: {other:?}"),
        }
    }
    for key in ["version", "id", "messages", "step", "metadata"] {
        let mut json = full().to_json();
        json.as_object_mut().unwrap().remove(key);
        assert!(matches!(AgentState::from_json(&json), Err(StateError::Field { field, .. }) if field == key));
    }
    assert!(matches!(
        AgentState::from_json_text("{"),
        Err(StateError::NotJson(_))
    ));
    let deep = "[".repeat(100_000);
    assert!(matches!(
        AgentState::from_json_text(&deep),
        Err(StateError::NotJson(_))
    ));
}

#[test]
fn errors_name_the_field_inside_of_a_part() {
    let image = json!({"type": "image", "source": {"type": "url", "url": "u"}, "mimeType": "image/png"});
    let mut json = full().to_json();
    json["messages"][0]["content"] = json!([
        {"type": "text", "text": "t"},
        image,
        {"type": "document", "source": {"type": "text", "data": "d"}, "mimeType": "text/plain"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/ogg"},
    ]);
    AgentState::from_json(&json).unwrap();
    let mut old = full().to_json_v1_0();
    old["messages"][0]["metadata"] = json!({});
    let cases = [
        (&json, "/messages/0/id", "messages[0].id"),
        (&json, "/messages/0/type", "messages[0].type"),
        (&json, "/messages/1/timestamp", "messages[1].timestamp"),
        (
            &json,
            "/messages/1/toolCalls/0/toolCallId",
            "messages[1].toolCalls[0].toolCallId",
        ),
        (
            &json,
            "/messages/2/results/0/toolCallId",
            "messages[2].results[0].toolCallId",
        ),
        (
            &json,
            "/messages/2/results/0/isError",
            "messages[2].results[0].isError",
        ),
        (&json, "/messages/0/content", "messages[0].content"),
        (&json, "/messages/0/content/0", "messages[0].content[0]"),
        (&json, "/messages/0/content/0/type", "messages[0].content[0].type"),
        (&json, "/messages/0/content/0/text", "messages[0].content[0].text"),
        (
            &json,
            "/messages/0/content/1/mimeType",
            "messages[0].content[1].mimeType",
        ),
        (
            &json,
            "/messages/0/content/1/source",
            "messages[0].content[1].source",
        ),
        (
            &json,
            "/messages/0/content/2/mimeType",
            "messages[0].content[2].mimeType",
        ),
        (&json, "/messages/0/content/3/data", "messages[0].content[3].data"),
        (&json, "/messages/1/content/0/text", "messages[1].content[0].text"),
        (&json, "/plan/0/description", "plan[0].description"),
        (
            &json,
            "/subagentTraces/0/subagentId",
            "subagentTraces[0].subagentId",
        ),
        (&old, "/messages/0/content/0/text", "messages[0].content[0].text"),
        (&old, "/messages/0/metadata", "messages[0].metadata"),
        (
            &old,
            "/messages/1/content/content/0/text",
            "messages[1].content.content[0].text",
        ),
        (
            &old,
            "/messages/1/content/toolCalls/0/toolName",
            "messages[1].content.toolCalls[0].toolName",
        ),
        (
            &old,
            "/messages/2/content/0/toolCallId",
            "messages[2].content[0].toolCallId",
        ),
    ];
    for (json, pointer, expected) in cases {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap() = json!(3.5);
        match AgentState::from_json(&json) {
            Err(StateError::Field { field, problem }) => {
                assert_eq!(field, expected, "{problem}");
                assert!(problem.len() > 10, "{problem}");
            }
            other => panic!("{pointer}: {other:?}"),
        }
    }
}

#[test]
fn malformed_trees_are_refused() {
    let mut tree = ThreadTree::new(full());
    let root = tree.root().id().to_owned();
    let branch = tree.branch(&root, Some("b")).unwrap();
    let json = tree.to_json();
    let change = |change: &dyn Fn(&mut Value)| {
        let mut json = json.clone();
        change(&mut json);
        ThreadTree::from_json(&json).unwrap_err()
    };
    let malformed = |error: ThreadTreeError, expected: &str| match error {
        ThreadTreeError::Malformed { field, .. } => assert_eq!(field, expected),
        other => panic!("{expected}: {other:?}"),
    };
    malformed(change(&|json| json["nodes"] = json!(3)), "nodes");
    malformed(
        change(&|json| json["nodes"][1]["state"]["step"] = json!("x")),
        "nodes[1].state",
    );
    malformed(
        change(&|json| json["nodes"][0]["parentId"] = json!(branch.clone())),
        "rootId",
    );
    malformed(
        change(&|json| json["nodes"][1]["parentId"] = json!("else")),
        "nodes",
    );
    malformed(
        change(&|json| json["nodes"][1]["children"] = json!([branch.clone()])),
        "nodes",
    );
    malformed(change(&|json| json["nodes"][0]["children"] = json!([])), "nodes");
    malformed(
        change(&|json| json["nodes"][1]["id"] = json!(root.clone())),
        "nodes[1].id",
    );
    assert_eq!(
        change(&|json| json["currentId"] = json!("gone")),
        ThreadTreeError::UnknownNode("gone".into())
    );
    assert_eq!(
        change(&|json| json["rootId"] = json!("gone")),
        ThreadTreeError::UnknownNode("gone".into())
    );
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_metadata_survives(value in json_value(), texts in prop::collection::vec(".{0,10}", 0..4)) {
        let messages = texts.into_iter().map(|text| UserMessage::text(text).into());
        let state = AgentState::initial().with_metadata("k", value).with_messages(messages);
        prop_assert_eq!(AgentState::from_json_text(&state.to_json().to_string()).unwrap(), state);
    }

    #[test]
    fn hostile_json_does_no_harm(value in json_value(), key in "id|version|messages|step|metadata|plan|reasoning|subagentTraces") {
        let _ = AgentState::from_json(&value);
        let _ = ThreadTree::from_json(&value);
        let mut json = full().to_json();
        json[key] = value;
        let _ = AgentState::from_json(&json);
    }
}
