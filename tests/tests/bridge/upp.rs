//! Programs of UPP at the gateway of the bridge: agents of the mesh, beyond another node, are their models.

use std::{path::Path, process::Stdio, sync::Arc};

use agentanycast::{AgentCard, Artifact, Skill};
use agentanycast_tests::{
    DaemonPair, TransportKind, agent::TestAgent, bridge::Bridge, http::HttpClient, within,
};
use agentanycast_uap::{AgentOptions, agent, mesh::AgentServer};
use agentanycast_upp::{
    ErrorCode, Message, Scripted, ScriptedReply, StreamEventType, Tool, llm,
    providers::proxy,
    wire::sse::{Data, parse},
};
use futures::StreamExt as _;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{process::Command, sync::Semaphore};

/// Requests that a client of UPP was recorded to send: each with its `Accept`.
const RECORDED: &str = include_str!("../../../bridge/upp/tests/fixtures/requests.jsonl");

/// A bridge with the gateway before one of two nodes; an agent that knows UPP at the other one.
struct UppScene {
    nodes: DaemonPair,
    bridge: Bridge,
    /// Where an agent's URL begins.
    url: String,
}

impl UppScene {
    async fn start(far: AgentOptions) -> Self {
        let nodes = DaemonPair::start(TransportKind::Tcp).await;
        let card = AgentCard::new("helper", "Helps");
        let server = AgentServer::new(nodes.bob.node().await, far.build().unwrap(), card);
        tokio::spawn(server.serve().await.unwrap().into_future());
        let bridge = Bridge::start_with(&nodes.alice, &["--upp-listen=127.0.0.1:0"]).await;
        let url = format!("http://{}/upp/", bridge.gateway("upp").await);
        Self { nodes, bridge, url }
    }

    /// The URL of the agent at the other node.
    fn far(&self) -> String {
        format!("{}{}", self.url, self.nodes.bob.peer_id())
    }
}

/// Calls a tool of the request if there is one, and says what it was told.
fn model() -> Scripted {
    Scripted::from_fn(|request| match request.messages.last() {
        Some(Message::ToolResult(told)) => ScriptedReply::text(format!("told {}", told.results[0].result)),
        Some(message) => ScriptedReply::text(format!("heard {}", message.text())),
        None => ScriptedReply::text("nothing"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_requests_are_answered_by_an_agent_of_another_node() {
    let scene = UppScene::start(agent(model().model())).await;
    let mut texts = Vec::new();
    for line in RECORDED.lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let (accept, body) = (recorded["accept"].as_str().unwrap(), recorded["body"].to_string());
        let client = HttpClient::new(scene.far()).header("accept", accept);
        let response = client.begin(Method::POST, "", "application/json", body).await;
        assert_eq!(response.status(), 200, "{line}");
        let answer = within("the answer ends", response.into_body().collect()).await;
        let answer = String::from_utf8(answer.unwrap().to_bytes().to_vec()).unwrap();
        let turn = if accept == "text/event-stream" {
            let data: Vec<&str> = answer
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .collect();
            assert_eq!(data.last(), Some(&"[DONE]"), "{answer}");
            let Ok(Data::Turn(_)) = parse(data[data.len() - 2]) else {
                panic!("no turn before the end: {answer}");
            };
            data[data.len() - 2].to_owned()
        } else {
            answer
        };
        let turn: Value = serde_json::from_str(&turn).unwrap();
        assert_eq!(turn["cycles"], 1);
        texts.push(
            turn["messages"][0]["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(texts[..3], ["heard hi", "heard hi", "heard weather?"]);
    assert!(texts[3].starts_with("told "), "{texts:?}");
}

/// Whole and streamed, with a tool that the program runs; the agent asks for it by its schema.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_upp_has_an_agent_as_its_model() {
    let scene = UppScene::start(agent(model().model())).await;
    let asked = llm(proxy(scene.far(), "default")).build().unwrap();
    let turn = within("the agent answers", asked.generate("hello"))
        .await
        .unwrap();
    assert_eq!(turn.text(), "heard hello");
    let streamed = within("the agent answers", asked.stream("hello").result()).await;
    assert_eq!(streamed.unwrap().text(), "heard hello");

    // An agent that knows no UPP answers by its text, and fails with the code of its reason.
    let plain = AgentCard::new("plain", "Knows no UPP").with_skill(Skill::new("plain", "Anything"));
    let alice = scene.nodes.alice.node().await;
    alice.set_card(plain).await.unwrap();
    let _plain = TestAgent::serve(&alice, |task| async move {
        match task.message().text_content().as_str() {
            "fail" => task.fail("CONTENT_FILTERED: not this").await?,
            text => task.complete([Artifact::text(text.to_uppercase())]).await?,
        }
        Ok(())
    });
    for target in ["self", "skill:plain"] {
        let url = format!("{}{target}", scene.url);
        let tool = Tool::new(
            "unused",
            "Is not called",
            json!({"type": "object"}),
            |_, _| async { Ok(1) },
        );
        let asked = llm(proxy(url, "default")).tool(tool).build().unwrap();
        assert_eq!(
            within("it answers", asked.generate("hello"))
                .await
                .unwrap()
                .text(),
            "HELLO"
        );
        let error = within("it fails", asked.generate("fail")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (ErrorCode::ContentFiltered, "not this")
        );
    }
    scene.bridge.stop().await;
}

/// Also those of a stream that begins while the gateway follows the task already.
#[tokio::test(flavor = "multi_thread")]
async fn events_come_while_the_agent_works() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let wait = Tool::new("wait", "Waits", json!({"type": "object"}), move |_, _| {
        let waits = Arc::clone(&waits);
        async move {
            waits.acquire().await.map_err(|error| error.to_string())?.forget();
            Ok("waited")
        }
    });
    let calls = Scripted::from_fn(|request| match request.messages.last() {
        Some(Message::ToolResult(_)) => ScriptedReply::text("done"),
        _ => ScriptedReply::call("w1", "wait", json!({})),
    });
    let scene = UppScene::start(agent(calls.model()).tool(wait)).await;
    let asked = llm(proxy(scene.far(), "default")).build().unwrap();
    for _ in 0..5 {
        let mut stream = asked.stream("hello");
        loop {
            let event = within("an event comes", stream.next()).await.unwrap().unwrap();
            if event.kind == StreamEventType::ToolCallDelta {
                break;
            }
        }
        gate.add_permits(1);
        assert_eq!(
            within("the agent answers", stream.result()).await.unwrap().text(),
            "done"
        );
    }
}

/// The request that docs/agents.md shows.
#[tokio::test(flavor = "multi_thread")]
async fn the_request_of_the_documentation_works() {
    let scene = UppScene::start(agent(model().model())).await;
    let alice = scene.nodes.alice.node().await;
    let card = AgentCard::new("translator", "Translates").with_skill(Skill::new("translate", "Into German"));
    alice.set_card(card).await.unwrap();
    let _translator = TestAgent::serve(&alice, |task| async move {
        assert_eq!(task.message().text_content(), "Good morning");
        task.complete([Artifact::text("Guten Morgen")]).await?;
        Ok(())
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agents.md");
    let text = std::fs::read_to_string(path).unwrap();
    let shown = text
        .split("```sh\n")
        .find(|block| block.starts_with("curl "))
        .unwrap();
    let (command, _) = shown.split_once("```").unwrap();
    let command = command.replace("http://127.0.0.1:8095/upp/", &scene.url);
    let ran = Command::new("sh")
        .args(["-c", &command])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = within("the request is answered", ran).await.unwrap();
    let turn: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        turn["messages"][0]["content"][0]["text"], "Guten Morgen",
        "{turn}"
    );
}
