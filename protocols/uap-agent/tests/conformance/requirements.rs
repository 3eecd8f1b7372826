//! Section 14.2: MUST and MUST NOT.

use std::path::Path;

use agentanycast_uap::{AgentState, SubagentExecutionTrace, ThreadTree, agent, plan, react};
use agentanycast_upp::{
    ErrorCode, ExponentialBackoff, ProviderConfig, Scripted, ScriptedReply, Tool, ToolUseStrategy,
    UserMessage,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    looping,
    support::{call, echo, plan_reply, rounds, state_structure},
};

#[tokio::test]
async fn must_use_upp_types_directly() {
    // Each binding names the type of UPP; nothing is converted.
    let agent = looping(1);
    let llm: &agentanycast_upp::Llm = agent.llm();
    let tool: &agentanycast_upp::Tool = &agent.tools()[0];
    assert_eq!((tool.name(), llm.model().id()), ("echo", "scripted"));
    let result = agent
        .generate(UserMessage::text("go"), &AgentState::initial())
        .await
        .unwrap();
    let turn: agentanycast_upp::Turn = result.turn;
    let messages: &[agentanycast_upp::Message] = result.state.messages();
    assert_eq!(turn.messages, messages);
    let error: agentanycast_upp::UppError = agent.query("again").await.unwrap_err().error;
    assert_eq!(error.code(), agentanycast_upp::ErrorCode::InvalidRequest);
}

fn sources(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            found.push((
                path.display().to_string(),
                std::fs::read_to_string(&path).unwrap(),
            ));
        }
    }
    found
}

#[test]
fn must_not_re_export_upp_types() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 20);
    for (path, text) in sources {
        // A declaration may go over several lines.
        for declaration in text.split(';') {
            let code = declaration
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect::<String>();
            let code = code.trim_start();
            let exports =
                code.starts_with("pub use") || code.contains("}pub use") || code.contains("pub extern crate");
            assert!(!(exports && code.contains("agentanycast_upp")), "{path}: {code}");
        }
    }
}

#[test]
fn must_implement_immutable_agent_state() {
    let state = AgentState::initial().with_message(UserMessage::text("a"));
    let json = state.to_json();
    let trace: SubagentExecutionTrace = serde_json::from_value(json!({
        "subagentId": "s", "subagentType": "x", "parentToolCallId": "t", "prompt": "p", "startTime": 1, "endTime": 2,
        "success": true,
    }))
    .unwrap();
    let changed = [
        state.with_message(UserMessage::text("b")),
        state.with_messages([UserMessage::text("b").into()]),
        state.with_context([]),
        state.with_step(9),
        state.with_metadata("k", 1),
        state.with_reasoning("r"),
        state.with_plan([]),
        state.with_subagent_trace(trace),
    ];
    for changed in changed {
        assert_ne!(changed.id(), state.id());
        assert_ne!(changed, state);
    }
    assert_eq!(state.to_json(), json);
}

#[tokio::test]
async fn must_default_to_infinity() {
    let mut rounds = 0;
    let script = Scripted::from_fn(move |_| {
        rounds += 1;
        if rounds > 200 {
            ScriptedReply::text("done")
        } else {
            call(rounds)
        }
    });
    let agent = agent(script.model()).tool(echo()).build().unwrap();
    assert_eq!(agent.query("go").await.unwrap().tool_executions.len(), 200);
}

#[test]
fn must_not_auto_generate_tool_schemas_from_agents() {
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let tool = agentanycast_uap::subagent_tool("sub", "A sub-agent", schema.clone(), looping(0), |_| {
        String::new()
    });
    assert_eq!(tool.schema().parameters, schema);
    assert_eq!(tool.schema().description, "A sub-agent");
}

#[tokio::test]
async fn must_use_uuid_v4_for_all_ids() {
    let is_v4 = |id: &str| Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 4);
    let dir = tempfile::tempdir().unwrap();
    let store = agentanycast_uap::FileCheckpoints::new(dir.path());
    let agent = agent(rounds(1).model())
        .tool(echo())
        .checkpoints(store.clone())
        .build()
        .unwrap();
    let result = agent.generate("go", &AgentState::initial()).await.unwrap();
    let session = result.state.metadata()["sessionId"].as_str().unwrap();
    let checkpoint = agentanycast_uap::CheckpointStore::load_metadata(&store, session)
        .await
        .unwrap()
        .unwrap();
    for id in [
        agent.id(),
        result.state.id(),
        session,
        &checkpoint.checkpoint_id,
        ThreadTree::new(result.state.clone()).root().id(),
    ] {
        assert!(is_v4(id), "{id}");
    }
    assert!(result.state.messages().iter().all(|message| is_v4(message.id())));
}

#[tokio::test]
async fn must_fully_serialize_state() {
    let script = Scripted::new([
        plan_reply(&json!([{"id": "a", "description": "first", "dependsOn": []}])),
        call(1),
        ScriptedReply::text("done"),
    ]);
    let agent = agent(script.model())
        .tool(echo())
        .execution(plan())
        .build()
        .unwrap();
    let start = AgentState::initial()
        .with_metadata("mine", json!({"deep": [1, 2.5, null]}))
        .with_reasoning("r");
    let state = agent.generate("go", &start).await.unwrap().state;
    let text = state.to_json().to_string();
    assert_eq!(AgentState::from_json_text(&text).unwrap(), state);
}

#[tokio::test]
async fn must_extend_llm_options() {
    let script = rounds(2);
    let config = ProviderConfig::new()
        .api_key("k")
        .retry(ExponentialBackoff::default());
    let agent = agent(script.model())
        .param("temperature", 0.5)
        .config(config)
        .tools([
            echo(),
            Tool::new("other", "", json!({}), |_, _| async { Ok("x") }),
        ])
        .system("sys")
        .structure(json!({"type": "object"}))
        .tool_strategy(ToolUseStrategy::new().max_iterations(1))
        .build()
        .unwrap();
    let error = agent.query("go").await.unwrap_err();
    assert_eq!(
        error.code(),
        ErrorCode::InvalidRequest,
        "the explicit limit holds"
    );
    let request = &script.requests()[0];
    assert_eq!(request.params["temperature"], 0.5);
    assert_eq!(request.api_key.as_ref().unwrap().expose(), "k");
    assert_eq!(
        (request.tools.len(), request.system.as_ref().unwrap().text()),
        (2, "sys".to_owned())
    );
    assert_eq!(request.structure, Some(json!({"type": "object"})));
}

#[tokio::test]
async fn must_not_impose_limits_by_default() {
    // The same loop that a bare model ends after ten rounds.
    let bare = agentanycast_upp::llm(rounds(11).model())
        .tool(echo())
        .build()
        .unwrap();
    assert_eq!(
        bare.generate("go").await.unwrap_err().code(),
        ErrorCode::InvalidRequest
    );
    assert_eq!(looping(11).query("go").await.unwrap().tool_executions.len(), 11);
}

#[tokio::test]
async fn must_not_mutate_state() {
    let state = AgentState::initial().with_message(UserMessage::text("before"));
    let json = state.to_json();
    for execution in [true, false] {
        let options = agent(rounds(2).model()).tool(echo());
        let agent = if execution {
            options.build()
        } else {
            options.execution(react()).build()
        }
        .unwrap();
        let _ = agent.generate("go", &state).await;
        let _ = agent.stream("go", &state).result().await;
        assert_eq!(state.to_json(), json);
    }
}

#[test]
fn must_not_auto_generate_sub_agent_tool_schemas() {
    // No function makes a tool from an agent alone: what takes an agent takes the parameters too.
    let source = include_str!("../../src/subagent.rs");
    let signature = source
        .split("pub fn subagent_tool(")
        .nth(1)
        .unwrap()
        .split(')')
        .next()
        .unwrap();
    assert!(signature.contains("parameters: Value"));
    assert_eq!(source.matches("-> Tool").count(), 1);
    let agent = include_str!("../../src/agent.rs");
    assert!(!agent.contains("-> Tool"));
}

#[tokio::test]
async fn must_not_hide_history_in_implicit_state() {
    let script = Scripted::from_fn(|_| ScriptedReply::text("hello"));
    let agent = agent(script.model()).build().unwrap();
    let first = agent.generate("one", &AgentState::initial()).await.unwrap();
    agent.generate("two", &AgentState::initial()).await.unwrap();
    assert_eq!(script.requests()[1].messages.len(), 1, "nothing of the first run");
    // The same state gives the same run, however often.
    let twice: Vec<Value> = [
        agent.generate("three", &first.state).await.unwrap(),
        agent.generate("three", &first.state).await.unwrap(),
    ]
    .iter()
    .map(|result| state_structure(&result.state))
    .collect();
    assert_eq!(twice[0], twice[1]);
}
