use proptest::prelude::*;
use serde_json::json;

use super::*;

fn asked(arguments: &Value) -> Result<ToolCall, ArgError> {
    read(ToolName::AskAgent, arguments.as_object().cloned().unwrap())
}

fn ask(arguments: &Value) -> AskArgs {
    match asked(arguments).unwrap() {
        ToolCall::Ask(ask) => *ask,
        other => panic!("{other:?}"),
    }
}

#[test]
fn exactly_one_is_asked() {
    for (name, target) in [
        ("agent", Target::Peer("12D3KooWx".to_owned())),
        ("skill", Target::Skill("12D3KooWx".to_owned())),
        ("url", Target::Url("12D3KooWx".to_owned())),
    ] {
        let ask = ask(&json!({"message": "hi", name: "12D3KooWx"}));
        assert_eq!(ask.target, target);
        assert_eq!(ask.wait.as_secs(), DEFAULT_WAIT);
        // The TypeScript client's limit, less what the way there and back may take.
        const { assert!(DEFAULT_WAIT <= 60 - 10) };
    }
    for (agent, target) in [
        ("12D3KooWx/one", Target::from_peer_and_agent("12D3KooWx", "one")),
        ("self/one", Target::from_peer_and_agent("self", "one")),
        ("self", Target::Own),
    ] {
        assert_eq!(ask(&json!({"message": "hi", "agent": agent})).target, target);
        let card = read(
            ToolName::GetAgentCard,
            json!({ "agent": agent }).as_object().cloned().unwrap(),
        );
        assert_eq!(card, Ok(ToolCall::Card(target)));
    }
    for wrong in [
        json!({"message": "hi"}),
        json!({"message": "hi", "agent": ""}),
        json!({"message": "hi", "agent": "a", "skill": "b"}),
    ] {
        let error = asked(&wrong).unwrap_err();
        assert!(error.contains("exactly one of agent, skill and url"), "{error}");
    }
}

/// Refused in one short line that names this.
fn is_refused(tool: ToolName, arguments: &Value, named: &str) {
    let error = read(tool, arguments.as_object().cloned().unwrap()).unwrap_err();
    assert!(error.contains(named), "{error}: {named}");
    assert!(!error.contains('\n') && error.len() < 300, "{error}");
}

#[test]
fn what_is_wrong_with_a_message_is_named() {
    let deep = (0..31).fold(json!(1), |inner, _| json!({ "x": inner }));
    let files = |files: Value| json!({ "files": files });
    for (more, named) in [
        (json!({"message": 7}), "message is 7"),
        (json!({"message": ""}), "message is missing"),
        (json!({"wait_seconds": 601}), "from 0 to 600"),
        (json!({"wait_seconds": -1}), "wait_seconds is -1"),
        (json!({"wait_seconds": 1.5}), "1.5"),
        (json!({"data": [1]}), "data is [1]; give an object"),
        (json!({ "data": deep }), "data is nested"),
        (json!({"context_id": "x".repeat(257)}), "257 bytes"),
        (json!({"contxt_id": "x"}), "\"contxt_id\""),
        (files(json!(1)), "files is 1"),
        (files(json!([1])), "files[0] is 1"),
        (files(json!([{}])), "files[0] has not exactly one"),
        (
            files(json!([{"text": "a", "url": "b"}])),
            "one of text, base64 and url",
        ),
        (
            files(json!([{"text": "a"}, {"base64": "%"}])),
            "files[1].base64 is not base64",
        ),
        (
            files(json!([{"text": "a", "nmae": "b"}])),
            "no argument \"files[0].nmae\"",
        ),
        (files(json!(vec![json!({"text": "a"}); 65])), "65 files"),
    ] {
        let mut arguments = json!({"message": "hi", "skill": "s"});
        let more = more.as_object().cloned().unwrap();
        arguments.as_object_mut().unwrap().extend(more);
        is_refused(ToolName::AskAgent, &arguments, named);
    }
}

#[test]
fn what_is_wrong_otherwise_is_named() {
    for (tool, arguments, named) in [
        (ToolName::GetTask, json!({}), "task_id is missing"),
        (
            ToolName::GetTask,
            json!({"task_id": "t", "line\nbreak": 1}),
            "line\\nbreak",
        ),
        (
            ToolName::DiscoverAgents,
            json!({"skill": "s", "limit": 0}),
            "from 1 to 100",
        ),
        (
            ToolName::DiscoverAgents,
            json!({"skill": "s", "tags": {"a": 1}}),
            "tags is 1",
        ),
        (
            ToolName::ListTasks,
            json!({"status": "busy"}),
            "submitted, working",
        ),
        (
            ToolName::ListTasks,
            json!({"after": "x:y"}),
            "the `next` of a page",
        ),
    ] {
        is_refused(tool, &arguments, named);
    }
}

#[test]
fn a_message_has_all_that_was_given() {
    let ask = ask(
        &json!({"message": "hi", "agent": "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH",
        "data": {"n": 9_007_199_254_740_993_u64}, "context_id": "c", "wait_seconds": 0.0, "files": [
            {"name": "a.txt", "text": "ä"},
            {"name": "b.png", "base64": "AAE\nC", "media_type": "image/png"},
            {"url": "https://example.org/c"},
        ]}),
    );
    assert!(matches!(&ask.target, Target::Peer(peer) if peer.starts_with("12D3KooW")));
    assert_eq!((ask.context_id.as_str(), ask.wait), ("c", Duration::ZERO));
    let [text, data, letter, picture, link] = ask.message.parts.as_slice() else {
        panic!("{:?}", ask.message);
    };
    assert_eq!(ask.message.role(), MessageRole::User);
    assert!(matches!(&text.content, Some(Content::TextPart(part)) if part.text == "hi"));
    let Some(Content::DataPart(part)) = &data.content else {
        panic!("{data:?}")
    };
    let text = data.metadata.get(EXACT).map(String::as_str);
    let back = struct_json::restore(part.data.as_ref().unwrap(), text);
    assert_eq!(
        back,
        json!({"n": 9_007_199_254_740_993_u64}),
        "no integer is rounded"
    );
    assert_eq!(letter.media_type, "text/plain");
    assert!(matches!(&letter.content, Some(Content::RawPart(part)) if part.data == "ä".as_bytes()));
    assert!(matches!(&picture.content, Some(Content::RawPart(part)) if part.data == [0, 1, 2]));
    assert!(matches!(&link.content, Some(Content::UrlPart(part)) if part.filename.is_empty()));
}

/// What a schema says of one property.
fn property(tool: ToolName, name: &str) -> Value {
    let tools = super::super::tools::all();
    let tool = tools.iter().find(|known| known.name == tool.name()).unwrap();
    tool.input_schema["properties"][name].clone()
}

#[test]
fn schemas_and_calls_have_the_same_bounds() {
    for (tool, name, arguments) in [
        (
            ToolName::AskAgent,
            "wait_seconds",
            json!({"message": "m", "skill": "s"}),
        ),
        (
            ToolName::ReplyToTask,
            "wait_seconds",
            json!({"message": "m", "task_id": "t"}),
        ),
        (ToolName::GetTask, "wait_seconds", json!({"task_id": "t"})),
        (ToolName::DiscoverAgents, "limit", json!({"skill": "s"})),
        (ToolName::ListAgents, "limit", json!({})),
        (ToolName::ListTasks, "limit", json!({})),
    ] {
        let schema = property(tool, name);
        let with = |value: Value| {
            let mut arguments = arguments.as_object().cloned().unwrap();
            arguments.insert(name.to_owned(), value);
            read(tool, arguments)
        };
        let plain = read(tool, arguments.as_object().cloned().unwrap()).unwrap();
        assert_eq!(plain, with(schema["default"].clone()).unwrap(), "{tool:?}");
        let most = schema["maximum"].as_u64().unwrap();
        let least = schema["minimum"].as_u64().unwrap();
        assert!(with(json!(most)).is_ok() && with(json!(most + 1)).is_err());
        assert!(with(json!(least)).is_ok() && (least == 0 || with(json!(least - 1)).is_err()));
    }
}

#[test]
fn every_argument_of_a_schema_is_known() {
    for tool in super::super::tools::all() {
        let name = ToolName::named(&tool.name).unwrap();
        let properties = tool.input_schema["properties"].as_object().unwrap();
        for property in properties.keys() {
            let arguments = [(property.clone(), Value::Null)].into_iter().collect();
            if let Err(error) = read(name, arguments) {
                assert!(!error.contains("there is no argument"), "{}: {error}", tool.name);
            }
        }
        let required = tool.input_schema["required"].as_array().unwrap();
        assert!(
            required
                .iter()
                .all(|name| properties.contains_key(name.as_str().unwrap()))
        );
        assert_eq!(tool.input_schema["additionalProperties"], json!(false));
        assert!(tool.title.is_some() && tool.output_schema.is_some());
        let hints = tool.annotations.as_ref().unwrap();
        let changes = matches!(
            name,
            ToolName::AskAgent | ToolName::ReplyToTask | ToolName::CancelTask
        );
        assert_eq!(hints.read_only_hint, Some(!changes), "{}", tool.name);
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[A-Za-z0-9+/=]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 17] = [
        "message",
        "agent",
        "skill",
        "url",
        "context_id",
        "data",
        "files",
        "wait_seconds",
        "task_id",
        "tags",
        "limit",
        "status",
        "after",
        "name",
        "media_type",
        "text",
        "base64",
    ];
    prop_oneof![9 => proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned), 1 => "\\PC{0,6}"]
}

proptest! {
    /// Whatever a client sends is read or refused in one line; what is read is within its bounds.
    #[test]
    fn hostile_arguments(
        tool in proptest::sample::select(&ToolName::ALL[..]),
        fields in proptest::collection::vec((name(), anything()), 0..8),
    ) {
        match read(tool, fields.into_iter().collect()) {
            Err(error) => prop_assert!(!error.is_empty() && !error.contains('\n'), "{}", error),
            Ok(ToolCall::Ask(ask)) => {
                prop_assert!(ask.wait.as_secs() <= MAX_WAIT && ask.context_id.len() <= MAX_ID);
                prop_assert!(ask.message.parts.iter().all(|part| part.content.is_some()));
            }
            Ok(ToolCall::Get(id, wait) | ToolCall::Reply(id, _, wait)) => {
                prop_assert!((1..=MAX_ID).contains(&id.len()) && wait.as_secs() <= MAX_WAIT);
            }
            Ok(ToolCall::Discover { limit, tags, .. }) => prop_assert!(limit <= 100 && tags.len() <= MAX_TAGS),
            Ok(ToolCall::List { limit, .. }) => prop_assert!((1..=100).contains(&limit)),
            Ok(ToolCall::Agents(_, limit)) => prop_assert!((1..=100).contains(&limit)),
            Ok(ToolCall::Card(_) | ToolCall::Cancel(_) | ToolCall::Skills) => {}
        }
    }
}
