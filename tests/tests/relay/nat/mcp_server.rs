//! A tool of an MCP server behind one NAT, called by an MCP client behind another.

use std::process::Stdio;

use agentanycast_tests::{cli, stdio_mcp::StdioMcp, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::*;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/relay/nat/mcp_server.py");

/// What a schema may have: references, compositions, numbers that no double has, texts that need escapes.
const SCHEMA: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["name", "guests"],
    "additionalProperties": false,
    "properties": {
        "name": {"type": "string", "description": "\"Wer?\"\nZoë \u2028 日本 \ud83c\udf7d", "pattern": "^[^\\s]+$"},
        "guests": {"$ref": "#/$defs/count"},
        "deposit": {"type": "number", "exclusiveMinimum": 0.1, "maximum": 9007199254740993, "default": null},
        "seats": {"type": "array", "items": {"enum": ["window", 7, true, null, 1.5, []]}, "examples": [[], [7]]},
        "until": {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer", "minimum": -1}]},
        "note": {}
    },
    "$defs": {"count": {"type": "integer", "minimum": 1, "maximum": 18446744073709551615}}
}"##;

/// A command of a user, on the daemon's socket: that is a file, which no NAT is in front of.
fn command(daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = Command::new(cli::program());
    command
        .args(["--daemon", daemon.grpc()])
        .args(args)
        .env_clear()
        .env("HOME", daemon.home().path())
        .env("PATH", "/usr/bin:/bin");
    command
}

async fn called(client: &mut StdioMcp, tool: &str, arguments: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let mut answer = client.asked(&call).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    answer["result"]["structuredContent"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_behind_two_nats() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    // Between these no direct way is found.
    let sites = [0; 2].map(|_| internet.site(NatKind::Symmetric));
    let (a, b) = (sites[0].daemon().start().await, sites[1].daemon().start().await);
    let (alice, bob) = (a.node().await, b.node().await);
    circuits(&alice).await;
    circuits(&bob).await;

    let schema = b.home().path().join("schema.json");
    std::fs::write(&schema, SCHEMA).unwrap();
    let mut run = command(
        &b,
        &["run", "--name", "restaurant", "--mcp", "--", "python3", SERVER],
    );
    let mut run = run
        .arg(&schema)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
    let line = within("the agent takes tasks", said.next_line()).await.unwrap();
    assert!(line.unwrap().contains("restaurant"));

    let mut client = StdioMcp::start(command(&a, &["mcp"])).await;
    let agent = format!("{}/restaurant", b.peer_id());
    // Whoever knows nothing but a peer's id meets it at the relay, and may use nothing of it until its owner says so.
    alice.connect_peer(b.peer_id(), [""; 0]).await.unwrap();
    let asked = alice
        .task(Target::Peer(b.peer_id().clone()), "{}")
        .agent("restaurant");
    let refused = within("it is refused", asked.send().await.unwrap().wait()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("agent restaurant is private"), "{refused}");
    assert!(
        alice.known_card_of(b.peer_id()).await.is_err(),
        "no agent is shown"
    );
    bob.trust_peer(a.peer_id(), "restaurant", "").await.unwrap();
    eventually("its card is shown", || async {
        alice.known_card_of(b.peer_id()).await.ok()
    })
    .await;
    let card = called(&mut client, "get_agent_card", json!({ "agent": agent })).await;
    assert_eq!(card["skills"][0]["id"], "book", "{card}");
    let shown = card["skills"][0]["input_schema"].as_str().unwrap();
    let [shown, given]: [Value; 2] = [shown, SCHEMA].map(|text| serde_json::from_str(text).unwrap());
    assert_eq!(shown, given);

    let arguments = json!({"name": "Zoë", "guests": 4, "seats": ["window", 7, null], "deposit": 0.25});
    for target in [json!({ "agent": agent }), json!({"skill": "book"})] {
        let mut question = target;
        question["message"] = arguments.to_string().into();
        let done = called(&mut client, "ask_agent", question).await;
        assert_eq!(done["state"], "completed", "{done}");
        let text = done["results"][0]["parts"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), arguments);
    }
    client.end().await;

    let peers = alice.peers().await.unwrap();
    let peer = peers
        .iter()
        .find(|peer| peer.id.as_ref() == Some(b.peer_id()))
        .unwrap();
    let addresses = &peer.addresses;
    assert!(
        !addresses.is_empty() && addresses.iter().all(|address| is_relayed(address)),
        "{addresses:?}"
    );
}
