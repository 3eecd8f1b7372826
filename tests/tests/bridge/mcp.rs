//! MCP over HTTP in a daemon, and on standard input and output before one: agents of another node as tools.

use std::fs;

use agentanycast::TaskFilter;
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TransportKind, agent::TestAgent, cli, daemon::Home, eventually,
    http::HttpClient, stdio_mcp::StdioMcp,
};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::setup::talk;

/// Two connected daemons: the agent is on the first, MCP in the second.
struct McpPair {
    pair: DaemonPair,
    _agent: TestAgent,
}

impl McpPair {
    async fn new(args: &[&str]) -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(daemon(), daemon().mcp().metrics().args(args)).await;
        let agent = TestAgent::serve(&pair.alice.node_named("Alice").await, talk);
        Self { pair, _agent: agent }
    }

    fn client(&self) -> HttpClient {
        client(&self.pair.bob)
    }

    /// MCP on standard input and output before the second daemon.
    fn command(&self) -> Command {
        let mut command = Command::new(cli::program());
        command
            .args(["--daemon", self.pair.bob.grpc(), "mcp"])
            .env_clear();
        command
    }

    /// Arguments that tell the agent something.
    fn tell(&self, message: &str) -> Value {
        json!({"agent": self.pair.alice.peer_id().to_string(), "message": message})
    }

    /// How many calls of a tool ended so.
    async fn counted(&self, tool: &str, status: &str) -> u64 {
        let series = format!("agentanycast_mcp_tool_calls_total{{tool=\"{tool}\",status=\"{status}\"}}");
        self.pair.bob.metric(&series).await.unwrap_or_default() as u64
    }
}

/// A client of MCP over HTTP in this daemon.
pub(crate) fn client(daemon: &Daemon) -> HttpClient {
    HttpClient::new(format!("http://{}", daemon.mcp()))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A call of a tool: what came of it.
pub(crate) async fn called(client: &HttpClient, tool: &str, arguments: Value) -> Value {
    let mut events = client.events(Method::POST, "/mcp", &call(tool, &arguments)).await;
    let mut answer = events.event().await;
    assert_eq!(answer["id"], 7, "{answer}");
    answer["result"].take()
}

#[tokio::test]
async fn agents_are_tools() {
    let scene = McpPair::new(&[]).await;
    let client = scene.client();
    let me = scene.pair.alice.peer_id().to_string();
    let card = called(&client, "get_agent_card", json!({ "agent": me })).await;
    assert_eq!(card["structuredContent"]["name"], "Alice", "{card}");

    let done = called(&client, "ask_agent", scene.tell("echo hello")).await;
    let shown = &done["structuredContent"];
    assert_eq!(
        (&shown["state"], &shown["agent"]),
        (&json!("completed"), &json!(me)),
        "{done}"
    );
    assert_eq!(shown["results"][1]["parts"][0]["text"], "hello");

    let failed = called(&client, "ask_agent", scene.tell("fail no such thing")).await;
    assert_eq!(failed["isError"], true);
    assert!(
        failed["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("no such thing"),
        "{failed}"
    );

    let asked = called(&client, "ask_agent", scene.tell("ask me")).await;
    let asked = &asked["structuredContent"];
    assert_eq!(
        (&asked["state"], &asked["message"]),
        (&json!("input_required"), &json!("Which one?"))
    );
    let answer = json!({"task_id": asked["task_id"], "message": "this one"});
    let answered = called(&client, "reply_to_task", answer).await;
    let answered = &answered["structuredContent"];
    assert_eq!(
        answered["results"][0]["parts"][0]["text"], "You said this one",
        "{answered}"
    );

    let mut tell = scene.tell("wait");
    tell["wait_seconds"] = 0.into();
    let begun = called(&client, "ask_agent", tell).await;
    let id = &begun["structuredContent"]["task_id"];
    eventually("the agent has begun", || async {
        let task = called(&client, "get_task", json!({"task_id": id, "wait_seconds": 0})).await;
        (task["structuredContent"]["state"] == "working").then_some(())
    })
    .await;
    let soon = called(&client, "get_task", json!({"task_id": id, "wait_seconds": 1})).await;
    assert_eq!(soon["structuredContent"]["state"], "working", "it goes on");
    let ended = called(&client, "cancel_task", json!({ "task_id": id })).await;
    assert_eq!(ended["structuredContent"]["state"], "canceled", "{ended}");

    let page = called(&client, "list_tasks", json!({"limit": 3})).await;
    let page = &page["structuredContent"];
    assert_eq!(
        (page["tasks"].as_array().unwrap().len(), &page["total"]),
        (3, &json!(4))
    );
    assert_eq!(&page["tasks"][0]["task_id"], id);
    let rest = called(&client, "list_tasks", json!({"after": page["next"]})).await;
    assert_eq!(rest["structuredContent"]["tasks"].as_array().unwrap().len(), 1);

    for (status, count) in [("ok", 3), ("task_failed", 1)] {
        assert_eq!(scene.counted("ask_agent", status).await, count, "{status}");
    }
}

/// The same with an idempotency key.
async fn keyed(client: &HttpClient, key: &str, arguments: Value) -> Value {
    let mut message = call("ask_agent", &arguments);
    message["params"]["_meta"] = json!({"agentanycast/idempotency-key": key});
    let mut events = client.events(Method::POST, "/mcp", &message).await;
    events.event().await["result"].take()
}

#[tokio::test]
async fn a_call_with_its_key_is_one_task_over_a_restart() {
    let mut scene = McpPair::new(&[]).await;
    let tell = scene.tell("echo hello");
    let first = keyed(&scene.client(), "k", tell.clone()).await;
    let id = &first["structuredContent"]["task_id"];
    assert!(id.is_string(), "{first}");
    scene.pair.bob.stop().await;
    scene.pair.bob.restart().await;
    let again = keyed(&scene.client(), "k", tell).await;
    assert_eq!(&again["structuredContent"]["task_id"], id, "{again}");
    let refused = keyed(&scene.client(), "k", scene.tell("echo other")).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("was used with another message"), "{said}");
}

#[tokio::test]
async fn progress_is_told_before_the_result() {
    let scene = McpPair::new(&[]).await;
    let mut message = call("ask_agent", &scene.tell("steps"));
    message["params"]["_meta"] = json!({"progressToken": "p"});
    let mut events = scene.client().events(Method::POST, "/mcp", &message).await;
    let (mut told, mut last) = (Vec::new(), 0.0);
    let result = loop {
        let event = events.event().await;
        if event["method"] != "notifications/progress" {
            break event["result"].clone();
        }
        let params = &event["params"];
        assert_eq!(params["progressToken"], "p");
        assert!(params["progress"].as_f64().unwrap() > last, "it grows: {event}");
        last = params["progress"].as_f64().unwrap();
        told.push(params["message"].as_str().unwrap().to_owned());
    };
    assert!(
        told.iter().any(|said| said.starts_with("working: step")),
        "{told:?}"
    );
    assert_eq!(result["structuredContent"]["message"], "That was all.");
}

#[tokio::test]
async fn an_answer_is_one_line_for_every_reader() {
    let scene = McpPair::new(&[]).await;
    let text = "a\u{85}b\u{2028}c\u{2029}d";
    let tell = scene.tell(&format!("echo {text}"));
    let done = called(&scene.client(), "ask_agent", tell.clone()).await;
    assert_eq!(done["structuredContent"]["results"][1]["parts"][0]["text"], text);
    let mut client = StdioMcp::start(scene.command()).await;
    let done = client.asked(&call("ask_agent", &tell)).await;
    let shown = &done["result"]["structuredContent"];
    assert_eq!(shown["results"][1]["parts"][0]["text"], text, "{done}");
    client.end().await;
}

#[tokio::test]
async fn whoever_goes_away_stops_waiting_and_the_task_goes_on() {
    let scene = McpPair::new(&[]).await;
    let client = scene.client();
    let mut message = call("ask_agent", &scene.tell("wait"));
    message["params"]["_meta"] = json!({"progressToken": 1});
    let mut events = client.events(Method::POST, "/mcp", &message).await;
    events.event().await;
    drop(events);
    eventually("the wait is over", || async {
        (scene.counted("ask_agent", "cancelled").await == 1).then_some(())
    })
    .await;
    let listed = called(&client, "list_tasks", json!({})).await;
    let task = &listed["structuredContent"]["tasks"][0];
    assert!(
        ["submitted", "working"].contains(&task["state"].as_str().unwrap()),
        "{task}"
    );
}

#[tokio::test]
async fn callers_are_told_apart_and_others_kept_out() {
    let home = tempfile::tempdir().unwrap();
    let tokens = home.path().join("tokens");
    fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let tokens = format!("--bridge-tokens-file={}", tokens.display());
    let scene = McpPair::new(&[&tokens]).await;
    let [alice, bob] = ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"].map(|token| scene.client().token(token));
    let begun = called(&alice, "ask_agent", scene.tell("echo hello")).await;
    let id = &begun["structuredContent"]["task_id"];
    for tool in ["get_task", "cancel_task"] {
        let refused = called(&bob, tool, json!({ "task_id": id })).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(
            refused["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("there is no task")
        );
    }
    let refused = called(&bob, "reply_to_task", json!({"task_id": id, "message": "x"})).await;
    assert_eq!(refused["isError"], true);
    let listed = called(&bob, "list_tasks", json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 0);
    assert_eq!(
        called(&alice, "list_tasks", json!({})).await["structuredContent"]["total"],
        1
    );

    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for client in [scene.client(), scene.client().token("cccccccccccccccc")] {
        let answer = client.post("/mcp", &ping).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert!(
            answer.headers["www-authenticate"]
                .to_str()
                .unwrap()
                .starts_with("Bearer")
        );
        assert!(answer.body["error"]["message"].is_string(), "{}", answer.body);
    }
    let page = alice.clone().header("origin", "https://evil.example");
    assert_eq!(page.post("/mcp", &ping).await.status, StatusCode::FORBIDDEN);

    // The policy knows the caller; the agent's node does not.
    let node = scene.pair.bob.node().await;
    let tasks = node.tasks(&TaskFilter::default()).await.unwrap();
    assert_eq!(tasks[0].metadata["gateway.caller"], "mcp:alice");
    let theirs = scene.pair.alice.node().await;
    let theirs = theirs.tasks(&TaskFilter::default()).await.unwrap();
    assert!(
        !theirs[0].metadata.contains_key("gateway.caller"),
        "{:?}",
        theirs[0].metadata
    );
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_kept() {
    let scene = McpPair::new(&["--bridge-max-body=1MiB"]).await;
    let client = scene.client();
    let large = call("ask_agent", &scene.tell(&"x".repeat(1 << 20)));
    let answer = client.post("/mcp", &large).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(
        answer.body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("1048576"),
        "{}",
        answer.body
    );
    let control = call("get_task", &json!({"task_id": "x".repeat(100_000)}));
    assert_eq!(
        client.post("/mcp", &control).await.status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    let unknown = call("format_disk", &json!({}));
    let mut events = client.events(Method::POST, "/mcp", &unknown).await;
    assert_eq!(events.event().await["error"]["code"], -32602);
    assert_eq!(scene.counted("unknown", "refused").await, 1);
}

/// A request of the revision without a handshake, by a client that takes handles of calls.
async fn with_tasks(scene: &McpPair, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let client = HttpClient::new(format!("http://{}", scene.pair.bob.mcp()))
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", name);
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    client.events(Method::POST, "/mcp", &request).await.event().await
}

/// A call of a tool by such a client.
async fn handed_out(scene: &McpPair, tool: &str, arguments: Value) -> Value {
    let answer = with_tasks(
        scene,
        "tools/call",
        tool,
        json!({"name": tool, "arguments": arguments}),
    )
    .await;
    answer["result"].clone()
}

/// How a call stands that goes on.
async fn stands(scene: &McpPair, id: &str) -> Value {
    let answer = with_tasks(scene, "tasks/get", id, json!({ "taskId": id })).await;
    answer["result"].clone()
}

/// Such a call once it is over.
async fn over(scene: &McpPair, id: &str) -> Value {
    eventually("the call is over", || async {
        let call = stands(scene, id).await;
        (call["status"] != "working").then_some(call)
    })
    .await
}

/// What came of a call; the agent may be quicker than the handle.
async fn result_of(scene: &McpPair, answer: Value) -> Value {
    if answer["resultType"] != "task" {
        return answer;
    }
    let mut call = over(scene, answer["taskId"].as_str().unwrap()).await;
    assert_eq!(call["status"], "completed", "{call}");
    call["result"].take()
}

#[tokio::test]
async fn a_client_that_takes_handles_asks_how_its_call_stands() {
    let scene = McpPair::new(&[]).await;
    let asked = handed_out(&scene, "ask_agent", scene.tell("ask me")).await;
    let question = result_of(&scene, asked).await["structuredContent"].clone();
    assert_eq!(question["state"], "input_required", "{question}");
    let answer = json!({"task_id": question["task_id"], "message": "this one"});
    let replied = handed_out(&scene, "reply_to_task", answer).await;
    let result = result_of(&scene, replied).await;
    let parts = &result["structuredContent"]["results"][0]["parts"];
    assert_eq!(parts[0]["text"], "You said this one", "{result}");

    let waits = handed_out(&scene, "ask_agent", scene.tell("wait")).await;
    assert_eq!(
        (&waits["resultType"], &waits["status"]),
        (&json!("task"), &json!("working")),
        "{waits}"
    );
    let id = waits["taskId"].as_str().unwrap();
    assert_eq!(stands(&scene, id).await["status"], "working");
    let ended = with_tasks(&scene, "tasks/cancel", id, json!({ "taskId": id })).await;
    assert!(ended.get("error").is_none(), "{ended}");
    assert_eq!(over(&scene, id).await["status"], "cancelled");

    let unknown = with_tasks(&scene, "tasks/get", "1.x", json!({"taskId": "1.x"})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    // A call that does not want to wait is answered at once.
    let mut tell = scene.tell("wait");
    tell["wait_seconds"] = 0.into();
    let shown = handed_out(&scene, "ask_agent", tell).await;
    assert_eq!(shown["resultType"], "complete", "{shown}");
}

#[tokio::test]
async fn the_command_serves_a_desktop_client() {
    let scene = McpPair::new(&[]).await;
    let mut client = StdioMcp::start(scene.command()).await;
    let done = client.asked(&call("ask_agent", &scene.tell("echo hello"))).await;
    let shown = &done["result"]["structuredContent"];
    assert_eq!(shown["results"][1]["parts"][0]["text"], "hello", "{done}");
    // Who uses the daemon itself is no caller of a bridge.
    let node = scene.pair.bob.node().await;
    let tasks = node.tasks(&TaskFilter::default()).await.unwrap();
    assert!(!tasks[0].metadata.contains_key("gateway.caller"));
    let over_http = called(&scene.client(), "list_tasks", json!({})).await;
    assert_eq!(
        over_http["structuredContent"]["total"], 0,
        "callers over HTTP do not see it"
    );

    // A call that is cancelled is not answered, and its task goes on.
    client.say(&call("ask_agent", &scene.tell("wait"))).await;
    eventually("the task has begun", || async {
        (node.tasks(&TaskFilter::default()).await.unwrap().len() == 2).then_some(())
    })
    .await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    client.say(&cancelled).await;
    let mut list = call("list_tasks", &json!({}));
    list["id"] = 8.into();
    let listed = client.asked(&list).await;
    assert_eq!(
        (&listed["id"], &listed["result"]["structuredContent"]["total"]),
        (&json!(8), &json!(2))
    );
    client.end().await;
}

/// A desktop client starts its server once: before the daemon, and through its restarts.
#[tokio::test]
async fn the_command_serves_without_a_daemon_until_there_is_one() {
    let home = Home::new();
    let mut command = Command::new(cli::program());
    command
        .arg("--home")
        .arg(home.path())
        .args(["mcp", "--no-start"])
        .env_clear();
    let mut client = StdioMcp::start(command).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let tools = client.asked(&list).await;
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 9, "{tools}");
    for (tool, arguments) in [
        ("list_tasks", json!({})),
        ("get_task", json!({"task_id": "t"})),
        ("ask_agent", json!({"message": "hi", "skill": "s"})),
    ] {
        let failed = client.asked(&call(tool, &arguments)).await;
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let said = failed["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("no daemon is running at"), "{said}");
        assert!(said.contains("start one with"), "{said}");
    }

    let mut daemon = DaemonBuilder::new(home).start().await;
    let listed = call("list_tasks", &json!({}));
    let found = client.asked(&listed).await;
    assert_eq!(found["result"]["structuredContent"]["total"], 0, "{found}");
    for crash in [false, true] {
        if crash {
            daemon.kill().await;
        } else {
            daemon.stop().await;
        }
        daemon.restart().await;
        let again = client.asked(&listed).await;
        assert_eq!(again["result"]["structuredContent"]["total"], 0, "{again}");
    }
    client.end().await;
}

#[tokio::test]
async fn an_address_that_cannot_be_is_refused_at_the_start() {
    let said = tokio::task::spawn_blocking(|| cli::anycast(["--daemon", "http://x", "mcp"]))
        .await
        .unwrap();
    assert_eq!(said.status.code(), Some(2), "{}", said.all_output);
}

#[tokio::test]
async fn a_daemon_serves_who_started_it_and_ends_with_it() {
    let command = Daemon::builder()
        .listen([TransportKind::Tcp.listen()])
        .args(["--mcp"])
        .command();
    let mut client = StdioMcp::start(command).await;
    let listed = client.asked(&call("list_tasks", &json!({}))).await;
    assert_eq!(listed["result"]["structuredContent"]["total"], 0, "{listed}");
    client.end().await;
}
