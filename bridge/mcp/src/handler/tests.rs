use agentanycast_gateway::fake::FakeGateway;
use serde_json::{Value, json};

use super::*;
use crate::{call, tool_name::ToolName};

fn tools() -> ToolHandler {
    ToolHandler::new(Arc::new(FakeGateway::default()), Arc::default())
}

fn caller(name: &str) -> McpCaller {
    McpCaller {
        identity: CallerIdentity::identified(name),
        trace: Vec::new(),
    }
}

async fn made(
    tools: &ToolHandler,
    caller: &McpCaller,
    tool: ToolName,
    arguments: Value,
) -> (CallOutcome, Value) {
    let call = call::read(tool, arguments.as_object().cloned().unwrap()).unwrap();
    let done = tools.carry_out(caller, call, CallOptions::default()).await;
    (done.outcome, serde_json::to_value(&done.content).unwrap())
}

#[tokio::test]
async fn a_question_is_answered() {
    let (tools, alice) = (tools(), caller("alice"));
    let ask = json!({"message": "ask", "skill": "echo"});
    let (outcome, asked) = made(&tools, &alice, ToolName::AskAgent, ask).await;
    let asked = &asked["structuredContent"];
    assert_eq!(
        (outcome, &asked["state"]),
        (CallOutcome::Ok, &json!("input_required"))
    );
    let id = &asked["task_id"];
    let reply = json!({"task_id": id, "message": "this"});
    let (outcome, replied) = made(&tools, &alice, ToolName::ReplyToTask, reply.clone()).await;
    assert_eq!(outcome, CallOutcome::Ok);
    assert_eq!(
        replied["structuredContent"]["results"][0]["parts"][0]["text"],
        "this"
    );
    let (outcome, again) = made(&tools, &alice, ToolName::ReplyToTask, reply).await;
    assert_eq!((outcome, &again["isError"]), (CallOutcome::Refused, &json!(true)));
    let (outcome, canceled) = made(&tools, &alice, ToolName::CancelTask, json!({ "task_id": id })).await;
    assert_eq!(outcome, CallOutcome::Refused, "{canceled}");
}

#[tokio::test]
async fn a_caller_sees_its_own_tasks_alone() {
    let tools = tools();
    let callers = [caller("alice"), caller("bob"), McpCaller::local()];
    let mut ids = Vec::new();
    for caller in &callers {
        let ask = json!({"message": "hi", "skill": "echo"});
        let (_, asked) = made(&tools, caller, ToolName::AskAgent, ask).await;
        ids.push(asked["structuredContent"]["task_id"].clone());
    }
    for (at, caller) in callers.iter().enumerate() {
        let (_, listed) = made(&tools, caller, ToolName::ListTasks, json!({})).await;
        let listed = listed["structuredContent"]["tasks"].as_array().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0]["task_id"], ids[at]);
        for (other, id) in ids.iter().enumerate() {
            for tool in [ToolName::GetTask, ToolName::CancelTask] {
                let (outcome, shown) = made(&tools, caller, tool, json!({ "task_id": id })).await;
                let is_hidden = shown["content"][0]["text"].as_str().unwrap().contains("no task");
                assert_eq!(is_hidden, at != other, "{shown}");
                assert!(at == other || outcome == CallOutcome::Refused);
            }
        }
    }
}

#[tokio::test]
async fn the_nodes_credentials_are_not_for_nobody() {
    let tools = tools();
    let anonymous = caller("anonymous");
    let ask = json!({"message": "hi", "url": "https://agent.example"});
    let (outcome, shown) = made(&tools, &anonymous, ToolName::AskAgent, ask.clone()).await;
    assert_eq!(outcome, CallOutcome::Refused, "{shown}");
    for known in [caller("alice"), McpCaller::local()] {
        let (outcome, shown) = made(&tools, &known, ToolName::AskAgent, ask.clone()).await;
        assert_eq!(outcome, CallOutcome::Ok, "{shown}");
    }
}

#[tokio::test]
async fn agents_are_found_and_shown() {
    let (tools, alice) = (tools(), caller("alice"));
    let (_, found) = made(&tools, &alice, ToolName::DiscoverAgents, json!({"skill": "echo"})).await;
    assert_eq!(found["structuredContent"]["agents"][0]["skills"][0]["id"], "echo");
    let (_, all) = made(&tools, &alice, ToolName::ListAgents, json!({})).await;
    let first = &all["structuredContent"]["agents"][0];
    assert_eq!(
        (&first["name"], &first["reached"]),
        (&json!("Fake <b>"), &json!("here"))
    );
    let (_, none) = made(&tools, &alice, ToolName::ListAgents, json!({"skill": "x"})).await;
    assert_eq!(none["structuredContent"]["agents"], json!([]));
    let (_, skills) = made(&tools, &alice, ToolName::ListSkills, json!({})).await;
    let first = &skills["structuredContent"]["skills"][0];
    assert_eq!(
        (&first["id"], &first["agents"]),
        (&json!("echo/all"), &json!(["Fake <b>"]))
    );
    let (_, own) = made(&tools, &alice, ToolName::GetAgentCard, json!({})).await;
    assert_eq!(own["structuredContent"]["name"], "Fake");
    let (outcome, shown) = made(&tools, &alice, ToolName::GetAgentCard, json!({"agent": "x"})).await;
    assert_eq!(outcome, CallOutcome::Refused);
    assert_eq!(shown["content"][0]["text"], "no such peer");
}

#[tokio::test]
async fn the_trace_goes_with_the_task() {
    let gateway = FakeGateway::default();
    let tools = ToolHandler::new(Arc::new(gateway.clone()), Arc::default());
    let alice = McpCaller {
        trace: vec![("traceparent", "00-x".to_owned())],
        ..caller("alice")
    };
    let ask = json!({"message": "hi", "skill": "echo"});
    let (_, asked) = made(&tools, &alice, ToolName::AskAgent, ask).await;
    let id = asked["structuredContent"]["task_id"].as_str().unwrap();
    let task = gateway.task(id).snapshot().await.unwrap();
    assert_eq!(task.metadata["traceparent"], "00-x");
    assert_eq!(task.metadata[agentanycast_gateway::labels::CALLER], "mcp:alice");
}

#[tokio::test]
async fn whoever_gives_up_is_not_answered() {
    let tools = tools();
    let waiting = CallOptions::default();
    waiting.cancelled.cancel();
    let arguments = json!({"message": "hi", "skill": "echo"});
    let call = call::read(ToolName::AskAgent, arguments.as_object().cloned().unwrap()).unwrap();
    let done = tools.carry_out(&caller("alice"), call, waiting).await;
    assert_eq!(done.outcome, CallOutcome::Cancelled);
    let (_, listed) = made(&tools, &caller("alice"), ToolName::ListTasks, json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 1, "the task goes on");
}

#[tokio::test]
async fn a_callers_conversations_are_its_own() {
    let tools = tools();
    let mut known = Vec::new();
    for caller in [
        caller("alice"),
        caller("bob"),
        caller("alice"),
        McpCaller::local(),
        McpCaller::local(),
    ] {
        let ask = json!({"message": "hi", "skill": "echo", "context_id": "main"});
        let (_, asked) = made(&tools, &caller, ToolName::AskAgent, ask).await;
        let shown = &asked["structuredContent"];
        assert_eq!(shown["context_id"], "main", "the caller's own name stays");
        let id = shown["task_id"].as_str().unwrap();
        known.push(tools.tasks.node().task(id).snapshot().await.unwrap().context_id);
    }
    assert_eq!(known[0], known[2]);
    assert!(known[0] != known[1] && known[1] != "main" && known[0] != "main");
    assert_eq!(
        known[3..],
        ["main", "main"],
        "who uses the daemon itself has its names"
    );
}

/// A call with an idempotency key.
async fn keyed(
    tools: &ToolHandler,
    caller: &McpCaller,
    tool: ToolName,
    key: &str,
    arguments: Value,
) -> (CallOutcome, Value) {
    let call = call::read(tool, arguments.as_object().cloned().unwrap()).unwrap();
    let waiting = CallOptions {
        key: Some(key.to_owned()),
        ..CallOptions::default()
    };
    let done = tools.carry_out(caller, call, waiting).await;
    (done.outcome, serde_json::to_value(&done.content).unwrap())
}

#[tokio::test]
async fn a_call_that_comes_again_with_its_key_is_one_task() {
    let (tools, alice, bob) = (tools(), caller("alice"), caller("bob"));
    let ask = json!({"message": "ask", "skill": "echo"});
    let mut ids = Vec::new();
    for caller in [&alice, &alice, &bob] {
        let (outcome, asked) = keyed(&tools, caller, ToolName::AskAgent, "k", ask.clone()).await;
        assert_eq!(outcome, CallOutcome::Ok, "{asked}");
        ids.push(asked["structuredContent"]["task_id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2], "a key is its caller's");
    for other in [
        json!({"message": "hi", "skill": "echo"}),
        json!({"message": "ask", "skill": "other"}),
        json!({"message": "ask", "skill": "echo", "data": {"n": 1}}),
        json!({"message": "ask", "skill": "echo", "context_id": "c"}),
    ] {
        let (outcome, refused) = keyed(&tools, &alice, ToolName::AskAgent, "k", other).await;
        assert_eq!(outcome, CallOutcome::Refused, "{refused}");
        let said = refused["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("was used with another message"), "{said}");
    }
    let (_, listed) = made(&tools, &alice, ToolName::ListTasks, json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 1);
    for odd in ["", "\n"] {
        let (outcome, refused) = keyed(&tools, &alice, ToolName::AskAgent, odd, ask.clone()).await;
        assert_eq!(outcome, CallOutcome::Refused, "{refused}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_again_with_its_key_is_one_message() {
    let (tools, alice) = (tools(), caller("alice"));
    let ask = json!({"message": "ask", "skill": "echo"});
    let (_, asked) = made(&tools, &alice, ToolName::AskAgent, ask).await;
    let id = &asked["structuredContent"]["task_id"];
    let reply = json!({"task_id": id, "message": "this"});
    for _ in 0..2 {
        let (outcome, replied) = keyed(&tools, &alice, ToolName::ReplyToTask, "k", reply.clone()).await;
        assert_eq!(outcome, CallOutcome::Ok, "{replied}");
        assert_eq!(replied["structuredContent"]["state"], "completed");
    }
    let other = json!({"task_id": id, "message": "that"});
    let (outcome, refused) = keyed(&tools, &alice, ToolName::ReplyToTask, "k", other.clone()).await;
    assert_eq!(outcome, CallOutcome::Refused, "{refused}");
    let (outcome, refused) = keyed(&tools, &alice, ToolName::ReplyToTask, "l", other).await;
    assert_eq!(outcome, CallOutcome::Refused, "{refused}");
    assert!(
        refused["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("has ended")
    );
}

#[tokio::test]
async fn a_stranger_is_not_shown_private_agents() {
    let private = FakeGateway::default().with_private_agent();
    let tools = ToolHandler::new(Arc::new(private), Arc::default());
    let stranger = McpCaller {
        identity: CallerIdentity::stranger("anonymous"),
        ..McpCaller::local()
    };
    for (tool, arguments) in [
        (ToolName::ListAgents, json!({})),
        (ToolName::ListSkills, json!({})),
        (ToolName::GetAgentCard, json!({"agent": "self"})),
    ] {
        let (_, own) = made(&tools, &caller("alice"), tool, arguments.clone()).await;
        let (_, shown) = made(&tools, &stranger, tool, arguments).await;
        let names =
            |shown: &Value| shown.to_string().contains("Fake") || shown.to_string().contains("echo/all");
        assert!(names(&own) && !names(&shown), "{tool:?}: {shown}");
    }
}
