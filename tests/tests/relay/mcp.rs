//! The relay's directory as tools of MCP, as a client over HTTP sees it.

use agentanycast_tests::{TestRelay, http::HttpClient};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::registry_requests::registration;

/// A relay that serves MCP, and a client of it.
async fn relay(args: &[&str]) -> (TestRelay, HttpClient) {
    let relay = TestRelay::builder()
        .args(["--mcp-listen=127.0.0.1:0"])
        .args(args.iter().copied())
        .start()
        .await;
    let line = relay.said.iter().find_map(|line| line.strip_prefix("MCP_ADDR="));
    let client = HttpClient::new(format!("http://{}", line.unwrap()));
    let client = client.header("mcp-protocol-version", "2025-06-18");
    (relay, client)
}

async fn ask(client: &HttpClient, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = client.post("/mcp", &message).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.body["id"], 7, "{}", answer.body);
    answer.body["result"].clone()
}

async fn called(client: &HttpClient, tool: &str, arguments: Value) -> Value {
    ask(
        client,
        "tools/call",
        json!({"name": tool, "arguments": arguments}),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_is_tools() {
    let (relay, client) = relay(&[]).await;
    assert_eq!(relay.health().await["status"], "healthy");
    let me = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me});
    let begun = ask(&client, "initialize", hello).await;
    assert_eq!(begun["serverInfo"]["name"], "agentanycast-relay", "{begun}");
    let tools = ask(&client, "tools/list", json!({})).await;
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["list_agents", "describe_agent", "list_skills"]);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }

    // What was registered is seen, as soon as that was answered.
    let mut registry = relay.client().await;
    for number in 0..5 {
        let peer = format!("agent-{number}");
        let skill = if number < 3 { "translate" } else { "dance" };
        registry
            .register_skills(registration(&peer, skill))
            .await
            .unwrap();
        let one = called(&client, "describe_agent", json!({ "peer_id": peer })).await;
        assert_eq!(one["structuredContent"]["skills"][0]["id"], skill, "{one}");
        let all = called(&client, "list_agents", json!({})).await;
        assert_eq!(all["structuredContent"]["total"], number + 1, "{all}");
    }
    let first = json!({"skill": "translate", "tags": {"lang": "de"}, "limit": 2});
    let page = called(&client, "list_agents", first).await;
    let page = &page["structuredContent"];
    assert_eq!(
        (&page["count"], &page["total"], &page["next_offset"]),
        (&json!(2), &json!(3), &json!(2))
    );
    let rest = called(&client, "list_agents", json!({"skill": "translate", "offset": 2})).await;
    let rest = &rest["structuredContent"];
    assert_eq!((&rest["count"], &rest["next_offset"]), (&json!(1), &Value::Null));
    assert_eq!(rest["agents"][0]["peer_id"], "agent-2");
    let skills = called(&client, "list_skills", json!({})).await;
    let most = json!({"id": "translate", "agent_count": 3});
    assert_eq!(skills["structuredContent"]["skills"][0], most, "{skills}");

    let none = called(&client, "describe_agent", json!({"peer_id": "nobody"})).await;
    assert_eq!(none["isError"], true, "{none}");
    let wrong = called(&client, "list_agents", json!({"limit": 5000})).await;
    let said = wrong["content"][0]["text"].as_str().unwrap();
    assert!(
        wrong["isError"] == true && said.contains("from 1 to 1000"),
        "{wrong}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_of_these_tools_is_refused() {
    let (_relay, client) = relay(&[
        "--requests-per-ip=5",
        "--api-cors-origins=https://allowed.example",
    ])
    .await;
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}});
    let large = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "list_agents", "arguments": {"query": "x".repeat(100 << 10)}}});
    let json = "application/json";
    let answer = client.begin(Method::POST, "/mcp", json, large.to_string()).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(client.get("/mcp").await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(client.get("/else").await.status, StatusCode::NOT_FOUND);
    for (origin, status) in [
        ("https://allowed.example", StatusCode::OK),
        ("https://other.example", StatusCode::FORBIDDEN),
    ] {
        let page = client.clone().header("origin", origin);
        assert_eq!(page.post("/mcp/", &list).await.status, status, "{origin}");
    }
    // The burst of ten seconds is used up.
    let mut last = StatusCode::OK;
    for _ in 0..200 {
        last = client.post("/mcp", &list).await.status;
        if last != StatusCode::OK {
            break;
        }
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
}
