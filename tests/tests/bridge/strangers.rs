//! Callers of the own node's gateways of whom nothing says who they are: they see and use its open agents alone. A caller with a
//! token, and a program of this host, count as the node.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use agentanycast_aip::{
    endpoints::{ConstellationClient, ConstellationSettings, DeviceEntry, TaskRequest},
    transport::WebSocketEndpoint,
};
use agentanycast_proto::v1::{AgentAccess, SetAgentAccessRequest, agent_service_client::AgentServiceClient};
use agentanycast_tests::{
    Bridge, Daemon, DaemonBuilder, DaemonPair, TestRelay, TransportKind, eventually_within,
    host_address::host_address, http::HttpClient, rpc, skip_unless_required, within,
};
use agentanycast_uamp::{
    body::EnvelopeBody,
    envelope::{EnvelopeDraft, Intent},
    jws::{SignatureForm, SigningIdentity},
};
use agentanycast_uamp_gateway::client::{UampClient, UampClientSettings};
use serde_json::{Value, json};

use crate::{
    mcp,
    setup::{BRIDGE_MODES, BridgeMode, send_params, texts},
};

/// What a stranger hears of an agent that it may not use.
const REFUSAL: &str = "ask its owner for an invite";

/// How long the programs may take to be served.
const SOON: Duration = Duration::from_secs(20);

/// A private agent, and one that is open.
const AGENTS: &str = r#"
[[agents.run]]
name = "hidden"
skills = ["hush=Keeps it secret"]
command = ["cat"]
[[agents.run]]
name = "shown"
open = true
skills = ["shout=Says it aloud"]
command = ["tr", "a-z", "A-Z"]
"#;

/// An address of this host that is not of the loopback; `None`: the test is skipped.
fn elsewhere() -> Option<IpAddr> {
    let address = host_address();
    if address.is_none() {
        skip_unless_required("this host is in no network");
    }
    address
}

/// With both agents, which take tasks.
async fn start(builder: DaemonBuilder) -> Daemon {
    let daemon = builder.listen([TransportKind::Tcp.listen()]).start().await;
    serving(&daemon).await;
    daemon
}

async fn serving(daemon: &Daemon) {
    let node = daemon.node().await;
    eventually_within(SOON, "both agents take tasks", || async {
        let agents = node.node_agents().await.ok()?;
        let listening: HashMap<_, _> = agents
            .into_iter()
            .map(|agent| (agent.name, agent.listeners))
            .collect();
        let takes = |name: &str| listening.get(name).is_some_and(|count| *count > 0);
        (takes("hidden") && takes("shown")).then_some(())
    })
    .await;
}

/// A client of a bridge at this address of the host.
fn client(bridge: &Bridge, host: impl Into<IpAddr>) -> HttpClient {
    HttpClient::new(format!("http://{}:{}", host.into(), bridge.address().port())).version("1.0")
}

/// What a task for an agent of a node is answered.
async fn answer(client: &HttpClient, daemon: &Daemon, agent: &str) -> Value {
    let path = format!("/agents/{}/{agent}", daemon.peer_id());
    client
        .clone()
        .at(&path)
        .rpc("SendMessage", send_params("quiet"))
        .await
}

/// Checks that a client sees and uses the open agent, and the private one as `is_own` says.
async fn check(client: &HttpClient, daemon: &Daemon, is_own: bool) {
    let me = daemon.peer_id();
    let card = client.get("/.well-known/agent-card.json").await;
    let node = client
        .get(&format!("/agents/{me}/.well-known/agent-card.json"))
        .await;
    let agents = client.get("/agents").await;
    let skills = client.get("/skills").await;
    for seen in [&card, &node, &agents, &skills] {
        let text = seen.body.to_string();
        assert!(text.contains("shout"), "{text}");
        assert_eq!(text.contains("hush"), is_own, "{text}");
        assert_eq!(text.contains("hidden"), is_own, "{text}");
    }
    let nobody = answer(client, daemon, "nobody").await.to_string();
    assert!(
        nobody.contains("there are: ") && nobody.contains("shown"),
        "{nobody}"
    );
    assert_eq!(nobody.contains("hidden"), is_own, "{nobody}");
    for (agent, is_seen) in [("shown", true), ("hidden", is_own), ("nobody", false)] {
        let path = format!("/agents/{me}/{agent}/.well-known/agent-card.json");
        let shown = client.get(&path).await;
        assert_eq!(shown.status.is_success(), is_seen, "{agent}: {}", shown.body);
        let names_others = shown.body.to_string().replace(agent, "").contains("hidden");
        assert!(is_own || !names_others, "{}", shown.body);
    }
    let shown = answer(client, daemon, "shown").await;
    assert_eq!(texts(&shown["result"]["task"]), ["QUIET"], "{shown}");
    let hidden = answer(client, daemon, "hidden").await;
    if is_own {
        assert_eq!(texts(&hidden["result"]["task"]), ["quiet"], "{hidden}");
    } else {
        assert!(hidden.to_string().contains(REFUSAL), "{hidden}");
    }
    let by_skill = client
        .clone()
        .at("/skills/hush")
        .rpc("SendMessage", send_params("by skill"))
        .await;
    assert_eq!(by_skill["result"].is_object(), is_own, "{by_skill}");
}

#[tokio::test]
async fn strangers_of_the_bridge_see_and_use_open_agents_alone() {
    let Some(elsewhere) = elsewhere() else { return };
    for mode in BRIDGE_MODES {
        eprintln!("the bridge by {mode:?}");
        let daemon = Daemon::builder().config(AGENTS);
        let (daemon, bridge) = match mode {
            BridgeMode::Grpc => {
                let daemon = start(daemon).await;
                let bridge = Bridge::start_for_the_network(&daemon, &[]).await;
                (daemon, bridge)
            }
            BridgeMode::Inside => {
                let daemon = start(daemon.bridge().open_to_the_network()).await;
                let bridge = Bridge::in_daemon(&daemon);
                (daemon, bridge)
            }
        };
        let here = client(&bridge, [127, 0, 0, 1]);
        check(&here, &daemon, true).await;
        let stranger = client(&bridge, elsewhere);
        check(&stranger, &daemon, false).await;
        // A proxy on this host passes on what comes from elsewhere.
        let by_proxy = here.clone().header("x-forwarded-for", "192.0.2.7");
        assert!(
            answer(&by_proxy, &daemon, "hidden")
                .await
                .to_string()
                .contains(REFUSAL)
        );
        // So does a page whose own name leads here.
        let by_name = here.clone().header("host", "evil.example:8090");
        let hidden = format!("/agents/{}/hidden/.well-known/agent-card.json", daemon.peer_id());
        assert!(!by_name.get(&hidden).await.status.is_success());
        let card = by_name.get("/.well-known/agent-card.json").await.body.to_string();
        assert!(card.contains("shout") && !card.contains("hush"), "{card}");
        // Neither sees the tasks of the other.
        let path = format!("/agents/{}/shown", daemon.peer_id());
        for (one, other) in [(&here, &stranger), (&stranger, &here)] {
            let (one, other) = (one.clone().at(&path), other.clone().at(&path));
            let tasks = one.call("ListTasks", json!({})).await;
            let id = &tasks["tasks"][0]["id"];
            assert!(id.is_string(), "{tasks}");
            assert_eq!(other.code("GetTask", json!({ "id": id })).await, -32001);
        }
    }
}

#[tokio::test]
async fn a_caller_with_a_token_counts_as_the_node() {
    let Some(elsewhere) = elsewhere() else { return };
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "alice 0123456789abcdef\n").unwrap();
    let tokens = format!("--tokens-file={}", tokens.display());
    let daemon = start(Daemon::builder().config(AGENTS)).await;
    let bridge = Bridge::start_for_the_network(&daemon, &[&tokens]).await;
    let alice = client(&bridge, elsewhere).token("0123456789abcdef");
    check(&alice, &daemon, true).await;
    let stranger = client(&bridge, elsewhere);
    let card = stranger
        .get("/.well-known/agent-card.json")
        .await
        .body
        .to_string();
    assert!(card.contains("shout") && !card.contains("hush"), "{card}");
    let refused = answer_status(&stranger, &daemon, "shown").await;
    assert_eq!(refused, 401);
}

async fn answer_status(client: &HttpClient, daemon: &Daemon, agent: &str) -> u16 {
    let path = format!("/agents/{}/{agent}", daemon.peer_id());
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("quiet")});
    client.clone().at(&path).post("/", &call).await.status.as_u16()
}

/// A label that a client sends says nothing.
#[tokio::test]
async fn a_client_neither_sets_nor_takes_off_the_label_of_strangers() {
    let daemon = start(Daemon::builder().config(AGENTS).bridge()).await;
    let bridge = Bridge::in_daemon(&daemon);
    let here = client(&bridge, [127, 0, 0, 1]);
    let by_proxy = here.clone().header("x-forwarded-for", "192.0.2.7");
    for (client, label, is_own) in [
        (&here, "true", true),
        (&by_proxy, "false", false),
        (&by_proxy, "", false),
    ] {
        let path = format!("/agents/{}/hidden", daemon.peer_id());
        let mut params = send_params(&format!("labelled {label} {is_own}"));
        params["metadata"] = json!({ "gateway.stranger": label, "gateway.caller": "a2a:alice" });
        params["message"]["metadata"] = params["metadata"].clone();
        let answered = client.clone().at(&path).rpc("SendMessage", params).await;
        assert_eq!(answered["result"].is_object(), is_own, "{answered}");
        assert_eq!(answered.to_string().contains(REFUSAL), !is_own, "{answered}");
    }
}

/// Who mistypes a skill hears of a near one only if it may know the agents that have it.
#[tokio::test]
async fn a_stranger_hears_of_no_skill_near_the_one_that_it_mistyped() {
    let relay = TestRelay::builder().start().await;
    let daemon = start(Daemon::builder().known_to(&relay).config(AGENTS).bridge()).await;
    let here = client(&Bridge::in_daemon(&daemon), [127, 0, 0, 1]);
    let by_proxy = here.clone().header("x-forwarded-for", "192.0.2.7");
    for (client, is_own) in [(here, true), (by_proxy, false)] {
        let params = send_params("mistyped");
        let answered = client.at("/skills/hushh").rpc("SendMessage", params).await;
        let answered = answered.to_string();
        assert!(
            answered.contains("no agent with skill \\\"hushh\\\" is known"),
            "{answered}"
        );
        assert_eq!(answered.contains("did you mean hush?"), is_own, "{answered}");
    }
}

#[tokio::test]
async fn through_the_bridge_of_another_node_a_caller_is_that_node() {
    let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
    let pair = DaemonPair::from_builders(daemon().config(AGENTS), daemon().bridge()).await;
    serving(&pair.alice).await;
    let client = client(&Bridge::in_daemon(&pair.bob), [127, 0, 0, 1]);
    let shown = answer(&client, &pair.alice, "shown").await;
    assert_eq!(texts(&shown["result"]["task"]), ["QUIET"], "{shown}");
    let hidden = answer(&client, &pair.alice, "hidden").await;
    assert!(hidden.to_string().contains(REFUSAL), "{hidden}");
    let channel = rpc::channel(pair.alice.grpc()).await.unwrap();
    let open = SetAgentAccessRequest {
        name: "hidden".to_owned(),
        access: AgentAccess::Open.into(),
    };
    AgentServiceClient::new(channel)
        .set_agent_access(open)
        .await
        .unwrap();
    let params = send_params("again");
    let path = format!("/agents/{}/hidden", pair.alice.peer_id());
    let hidden = client.at(&path).rpc("SendMessage", params).await;
    assert_eq!(texts(&hidden["result"]["task"]), ["again"], "{hidden}");
}

#[tokio::test]
async fn strangers_of_mcp_see_and_use_open_agents_alone() {
    let daemon = start(Daemon::builder().config(AGENTS).mcp()).await;
    let here = mcp::client(&daemon);
    let stranger = mcp::client(&daemon).header("x-forwarded-for", "192.0.2.7");
    for (client, is_own) in [(&here, true), (&stranger, false)] {
        for tool in ["list_agents", "list_skills"] {
            let shown = mcp::called(client, tool, json!({})).await.to_string();
            assert!(shown.contains("shout"), "{shown}");
            assert_eq!(shown.contains("hush"), is_own, "{shown}");
        }
        let card = json!({ "agent": "self/hidden" });
        let card = mcp::called(client, "get_agent_card", card).await;
        assert_eq!(card["isError"] == json!(true), !is_own, "{card}");
        let ask = |agent: &str| json!({ "agent": format!("self/{agent}"), "message": "quiet" });
        let shown = mcp::called(client, "ask_agent", ask("shown")).await.to_string();
        assert!(shown.contains("QUIET"), "{shown}");
        let hidden = mcp::called(client, "ask_agent", ask("hidden")).await.to_string();
        assert_eq!(hidden.contains(REFUSAL), !is_own, "{hidden}");
    }
}

#[tokio::test]
async fn strangers_of_aip_see_and_use_open_agents_alone() {
    let Some(elsewhere) = elsewhere() else { return };
    let daemon = start(
        Daemon::builder()
            .config(AGENTS)
            .gateway("aip")
            .open_to_the_network(),
    )
    .await;
    let port = daemon.gateway("aip").port();
    for (host, is_own) in [(IpAddr::from([127, 0, 0, 1]), true), (elsewhere, false)] {
        let endpoint = WebSocketEndpoint::new(&format!("ws://{host}:{port}/ws")).unwrap();
        let client =
            ConstellationClient::new(ConstellationSettings::new(if is_own { "own" } else { "other" }));
        for agent in ["self/shown", "self/hidden"] {
            client.add_device(DeviceEntry::new(agent), endpoint.clone());
            client.wait_connected(agent, SOON).await.unwrap();
            let assigned = client.assign(agent, TaskRequest::new(&agent.replace('/', "-"), "quiet"));
            let reply = within("the task ends", assigned).await.unwrap();
            let may_use = is_own || agent == "self/shown";
            assert_eq!(reply.completed, may_use, "{reply:?}");
            let error = format!("{reply:?}");
            assert_eq!(error.contains(REFUSAL), !may_use, "{error}");
        }
    }
}

#[tokio::test]
async fn strangers_of_uamp_see_and_use_open_agents_alone() {
    let Some(elsewhere) = elsewhere() else { return };
    let files = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    let names = ["localhost".to_owned(), elsewhere.to_string()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.key_pair.serialize_pem()).unwrap();
    let settings = format!(
        "{AGENTS}\n[gateways.uamp]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n",
        cert.display(),
        key.display()
    );
    let daemon = start(
        Daemon::builder()
            .config(&settings)
            .gateway("uamp")
            .open_to_the_network(),
    )
    .await;
    let port = daemon.gateway("uamp").port();
    for (host, is_own) in [("localhost".to_owned(), true), (elsewhere.to_string(), false)] {
        let settings = UampClientSettings {
            allow_private: true,
            ca: Some(cert.clone()),
            ..UampClientSettings::default()
        };
        let client = UampClient::new(&format!("https://{host}:{port}"), &settings).unwrap();
        for (skill, may_use) in [("shout", true), ("hush", is_own)] {
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap();
            let to = vec![format!("urn:agentanycast:skill:{skill}")];
            let body = EnvelopeBody::text("text/plain", "quiet");
            let draft = EnvelopeDraft::new(Intent::Ask, to, body, now.as_millis() as i64);
            // Each has a new key, which says nothing of who it is.
            let identity = SigningIdentity::from_ed25519(&rand::random());
            let signed = draft.sign_to_bytes(&identity, SignatureForm::Detached).unwrap();
            let sent = within("the envelope is answered", client.send(signed)).await;
            assert_eq!(sent.is_ok(), may_use, "{host} {skill}: {sent:?}");
        }
    }
}

/// The agent of a hub is private to other nodes unless `open` says otherwise.
#[tokio::test]
async fn the_agent_of_a_hub_is_open_if_the_settings_say_so() {
    for (args, is_open) in [(&[][..], false), (&["--uap-hub-open"][..], true)] {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let hub = daemon().gateway("uap-hub").args(args);
        let pair = DaemonPair::from_builders(hub, daemon()).await;
        let (_, asker) = pair.nodes().await;
        let hub = pair.alice.peer_id();
        let card = asker.card_of(hub).await;
        let is_shown = card
            .as_ref()
            .is_ok_and(|card| format!("{card:?}").contains("uap-hub"));
        assert_eq!(is_shown, is_open, "{card:?}");
        let task = asker
            .task(agentanycast::Target::Peer(hub.clone()), "quiet")
            .agent("uap-hub");
        let handle = task.send().await.unwrap();
        if !is_open {
            let ended = within("the task is refused", handle.wait()).await;
            let refusal = format!("{ended:?}");
            assert!(refusal.contains(REFUSAL), "{refusal}");
        }
    }
}
