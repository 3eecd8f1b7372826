//! Several agents on one node, each reached by its name from another node: by A2A, by MCP and by `anycast`.

use agentanycast_proto::{a2a, a2a::a2a_service_client::A2aServiceClient};
use agentanycast_tests::{
    Bridge, Daemon, DaemonPair, TransportKind, agent::TestAgent, cli, eventually, http::HttpClient,
};
use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    mcp,
    setup::{send_params, texts, v0_3_message},
};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Two connected daemons: the three agents are on the first, the gateways in the second.
struct NamedAgents {
    pair: DaemonPair,
    _agents: Vec<TestAgent>,
    peer: String,
}

impl NamedAgents {
    async fn new() -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(daemon(), daemon().bridge().mcp()).await;
        let node = pair.alice.node().await;
        let mut agents = Vec::new();
        for name in NAMES {
            agents.push(TestAgent::named(&node, name).await);
        }
        let scene = Self {
            peer: pair.alice.peer_id().to_string(),
            pair,
            _agents: agents,
        };
        let bob = scene.pair.bob.node().await;
        eventually("the other node knows all agents", || async {
            let card = bob.card_of(scene.pair.alice.peer_id()).await.ok()?;
            (card.agents.len() == NAMES.len()).then_some(())
        })
        .await;
        scene
    }

    /// The two bridges of the second daemon: the one in it, and a process of its own.
    async fn bridges(&self) -> [Bridge; 2] {
        [
            Bridge::in_daemon(&self.pair.bob),
            Bridge::start(&self.pair.bob).await,
        ]
    }

    fn client(&self, bridge: &Bridge, name: &str) -> HttpClient {
        let path = format!("/agents/{}/{name}", self.peer);
        bridge.client().at(&path).version("1.0")
    }
}

/// What an unknown agent is answered with says which there are.
fn names_all(text: &str) {
    assert!(text.contains("no agent \"four\""), "{text}");
    assert!(NAMES.iter().all(|name| text.contains(name)), "{text}");
}

#[tokio::test]
async fn a2a_clients_reach_each_agent_by_its_path() {
    let scene = NamedAgents::new().await;
    for (number, bridge) in scene.bridges().await.into_iter().enumerate() {
        let mut grpc = A2aServiceClient::connect(bridge.url()).await.unwrap();
        for name in NAMES {
            let client = scene.client(&bridge, name);
            let card = client.get("/.well-known/agent-card.json").await.body;
            assert_eq!(card["name"], format!("Agent {name}"), "{card}");
            assert_eq!(
                card["url"],
                format!("{}/agents/{}/{name}", bridge.url(), scene.peer)
            );
            let skills = card["skills"].as_array().unwrap();
            assert_eq!(
                (skills.len(), &skills[0]["id"]),
                (1, &json!(format!("skill-{name}")))
            );

            let by_rpc = client.call("SendMessage", send_params("x")).await["task"].take();
            let by_rest = client.post("/message:send", &send_params("x")).await.body["task"].take();
            let old = bridge.client().at(&format!("/agents/{}/{name}", scene.peer));
            let params = json!({"message": v0_3_message("x"), "configuration": {"blocking": true}});
            let by_old = old.call("message/send", params).await;
            for task in [&by_rpc, &by_rest, &by_old] {
                assert_eq!(texts(task), [name], "{task}");
            }
            let read = client.call("GetTask", json!({"id": by_rest["id"]})).await;
            assert_eq!(read["id"], by_rest["id"]);

            let message = a2a::Message {
                message_id: "m".to_owned(),
                role: a2a::Role::User.into(),
                parts: vec![a2a::Part {
                    content: Some(a2a::part::Content::Text("x".to_owned())),
                    ..a2a::Part::default()
                }],
                ..a2a::Message::default()
            };
            let mut request = tonic::Request::new(a2a::SendMessageRequest {
                tenant: format!("agents/{}/{name}", scene.peer),
                message: Some(message),
                ..a2a::SendMessageRequest::default()
            });
            request
                .metadata_mut()
                .insert("a2a-version", "1.0".parse().unwrap());
            let sent = grpc.send_message(request).await.unwrap().into_inner();
            let said = format!("{:?}", sent.payload);
            assert!(said.contains(&format!("Text(\"{name}\")")), "{said}");
        }
        // The primary agent is the one that was first.
        let primary = bridge
            .client()
            .at(&format!("/agents/{}", scene.peer))
            .version("1.0");
        let task = primary.call("SendMessage", send_params("x")).await["task"].take();
        assert_eq!(texts(&task), ["one"], "{task}");
        // It is another list of tasks than that of its name; both bridges have the same lists.
        let listed = primary.call("ListTasks", json!({})).await;
        assert_eq!(listed["totalSize"], number + 1, "{listed}");

        let unknown = scene.client(&bridge, "four");
        let card = unknown.get("/.well-known/agent-card.json").await;
        assert_eq!(card.status, StatusCode::NOT_FOUND);
        names_all(card.body["error"]["message"].as_str().unwrap());
        let task = unknown.call("SendMessage", send_params("x")).await["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_REJECTED", "{task}");
        names_all(task["status"]["message"]["parts"][0]["text"].as_str().unwrap());
    }
}

#[tokio::test]
async fn agents_are_listed_with_their_urls() {
    let scene = NamedAgents::new().await;
    for bridge in scene.bridges().await {
        let listed = bridge.client().get("/agents").await.body;
        let listed = listed["agents"].as_array().unwrap();
        let (_, page) = bridge.client().text("/").await;
        for name in NAMES {
            let url = format!("/agents/{}/{name}", scene.peer);
            let agent = listed.iter().find(|agent| agent["url"] == url).unwrap();
            assert_eq!(
                (&agent["agent"], &agent["name"]),
                (&json!(name), &json!(format!("Agent {name}")))
            );
            assert!(page.contains(&url), "{page}");
        }
    }
}

#[tokio::test]
async fn own_agents_are_behind_self() {
    let scene = NamedAgents::new().await;
    let node = scene.pair.bob.node().await;
    let _first = TestAgent::named(&node, "first").await;
    let _second = TestAgent::named(&node, "second").await;
    for bridge in scene.bridges().await {
        for name in ["first", "second"] {
            let client = bridge.client().at(&format!("/agents/self/{name}")).version("1.0");
            let card = client.get("/.well-known/agent-card.json").await.body;
            assert_eq!(card["name"], format!("Agent {name}"), "{card}");
            let keyed = client.header("idempotency-key", &format!("{}-{name}", bridge.url()));
            let task = keyed.call("SendMessage", send_params("x")).await["task"].take();
            assert_eq!(texts(&task), [name], "{task}");
            // The same key is the same task, also where the node writes no name with it.
            let again = keyed.call("SendMessage", send_params("x")).await["task"].take();
            assert_eq!(again["id"], task["id"]);
        }
        let unknown = bridge.client().at("/agents/self/four").version("1.0");
        let refused = unknown.post("/message:send", &send_params("x")).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{}", refused.body);
        let said = refused.body["error"]["message"].as_str().unwrap();
        assert!(
            said.contains("no agent \"four\"") && said.contains("first, second"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn mcp_clients_reach_each_agent() {
    let scene = NamedAgents::new().await;
    let client = mcp::client(&scene.pair.bob);
    let listed = mcp::called(&client, "list_agents", json!({"limit": 100})).await;
    let listed = listed["structuredContent"]["agents"].as_array().unwrap().clone();
    for name in NAMES {
        let agent = format!("{}/{name}", scene.peer);
        assert!(listed.iter().any(|listed| listed["agent"] == agent), "{listed:?}");
        let card = mcp::called(&client, "get_agent_card", json!({ "agent": agent })).await;
        assert_eq!(
            card["structuredContent"]["name"],
            format!("Agent {name}"),
            "{card}"
        );
        let done = mcp::called(&client, "ask_agent", json!({"agent": agent, "message": "x"})).await;
        let shown = &done["structuredContent"];
        assert_eq!(
            (&shown["agent"], &shown["results"][0]["parts"][0]["text"]),
            (&json!(agent), &json!(name)),
            "{done}"
        );
    }
    let all = mcp::called(&client, "get_agent_card", json!({"agent": scene.peer})).await;
    assert_eq!(
        all["structuredContent"]["agents"][1]["agent"],
        format!("{}/two", scene.peer),
        "{all}"
    );
    let four = format!("{}/four", scene.peer);
    let unknown = mcp::called(&client, "ask_agent", json!({"agent": four, "message": "x"})).await;
    assert_eq!(unknown["isError"], true, "{unknown}");
    names_all(unknown["content"][0]["text"].as_str().unwrap());
}

#[tokio::test]
async fn commands_reach_each_agent() {
    let scene = NamedAgents::new().await;
    let bob = &scene.pair.bob;
    for name in NAMES {
        let agent = format!("{}/{name}", scene.peer);
        let sent = cli::anycast_at(bob, &["send", &agent, "x"]).await;
        assert!(
            sent.status.success() && sent.stdout.trim() == name,
            "{}",
            sent.all_output
        );
        let card = cli::anycast_json(bob, &["card", &agent]).await;
        assert_eq!(card["name"], format!("Agent {name}"), "{card}");
        assert_eq!(card["agent"], name);
        assert_eq!(card["peer_id"], scene.peer);
        assert_eq!(card["skills"].as_array().unwrap().len(), 1);
        let own = cli::anycast_json(&scene.pair.alice, &["card", &format!("self/{name}")]).await;
        assert_eq!(own["name"], format!("Agent {name}"), "{own}");
    }
    let node = cli::anycast_json(bob, &["card", &scene.peer]).await;
    assert_eq!(node["agents"], json!(NAMES), "{node}");
    let unknown = cli::anycast_at(bob, &["card", &format!("{}/four", scene.peer)]).await;
    assert!(!unknown.status.success());
    names_all(&unknown.all_output);

    let status = cli::anycast_json(&scene.pair.alice, &["status"]).await;
    assert_eq!(status["agents"], json!(NAMES), "{status}");
    let shown = cli::anycast_at(&scene.pair.alice, &["status"]).await.stdout;
    let expected = "3: one (open), two (open), three (open)";
    assert!(shown.contains(expected), "{shown}");
    let other = cli::anycast_at(bob, &["status"]).await.stdout;
    assert!(!other.contains("agents"), "{other}");
    assert_eq!(
        cli::anycast_json(bob, &["status"]).await["agents"],
        Value::Array(Vec::new())
    );
}
