//! The official A2A SDK as client of our bridge, versions 1.0 (`a2a-sdk` 1.3.0) and 0.3 (0.3.26): the agent behind it is
//! a stock Python agent on another node.

use agentanycast::{Artifact, Content};
use agentanycast_tests::{Bridge, Daemon, DaemonPair, TransportKind, agent::TestAgent};
use tokio::{process::Command, sync::mpsc};

use crate::{
    client_env::{ClientEnv, a2a_python, go_program, rust_a2a, scripts},
    python::agent,
    script::ScriptProcess,
};

/// The flags of a bridge whose card has to list gRPC for this binding; the default card lists none.
fn card_grpc(binding: &str) -> &'static [&'static str] {
    if binding == "GRPC" {
        &["--card-grpc=authority"]
    } else {
        &[]
    }
}

/// Runs scenarios of a client before a bridge.
async fn ask(version: &str, binding: &str, scenarios: &[&str]) {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let key = format!("--key={}", pair.bob.home().path().join("key").display());
    let mut flags = vec![&*key, "--allow-private-webhooks"];
    flags.extend(card_grpc(binding));
    let bridge = Bridge::start_with(&pair.bob, &flags).await;
    let url = format!("{}/agents/{peer}", bridge.url());
    run(&stage, version, &url, binding, scenarios, &[]).await;
    agent.succeed().await;
}

/// Runs scenarios of a client that calls this URL, with this in its environment.
async fn run(
    stage: &ClientEnv,
    version: &str,
    url: &str,
    binding: &str,
    scenarios: &[&str],
    environment: &[(&str, &str)],
) {
    let script = if version == "0.3" {
        "client_0_3.py"
    } else {
        "client.py"
    };
    let mut command = stage.command(a2a_python(version));
    command
        .arg(scripts().join("a2a").join(script))
        .arg(url)
        .arg(binding)
        .args(scenarios)
        .envs(environment.iter().copied());
    let mut client = ScriptProcess::start(command);
    for scenario in scenarios {
        assert_eq!(client.line().await, *scenario);
    }
    client.succeed().await;
}

const SCENARIOS: [&str; 12] = [
    "card",
    "signature",
    "send",
    "fail",
    "stream",
    "get",
    "list",
    "cancel",
    "question",
    "resubscribe",
    "parts",
    "push",
];

#[tokio::test]
pub(crate) async fn version_1_0_over_json_rpc() {
    ask("1.0", "JSONRPC", &SCENARIOS).await;
}

#[tokio::test]
pub(crate) async fn version_1_0_over_rest() {
    ask("1.0", "HTTP+JSON", &SCENARIOS).await;
}

#[tokio::test]
pub(crate) async fn version_1_0_over_grpc() {
    ask("1.0", "GRPC", &SCENARIOS).await;
}

/// The client on the A2A project's Rust crate, over both of its bindings.
#[tokio::test]
async fn the_rust_client() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    for binding in ["JSONRPC", "HTTP+JSON"] {
        // Each before a bridge of its own, with tasks of its own.
        let bridge = Bridge::start(&pair.bob).await;
        let mut command = stage.command(rust_a2a());
        command
            .arg(format!("{}/agents/{peer}", bridge.url()))
            .arg(binding);
        let mut client = ScriptProcess::start(command);
        for scenario in ["card", "send", "stream", "question", "cancel", "list"] {
            assert_eq!(client.line().await, scenario, "over {binding}");
        }
        client.succeed().await;
    }
    agent.succeed().await;
}

pub(crate) const OLD_SCENARIOS: [&str; 9] = [
    "card",
    "send",
    "stream",
    "get",
    "question",
    "cancel",
    "resubscribe",
    "parts",
    "push",
];

#[tokio::test]
pub(crate) async fn version_0_3_over_json_rpc() {
    ask("0.3", "JSONRPC", &OLD_SCENARIOS).await;
}

#[tokio::test]
pub(crate) async fn version_0_3_over_rest() {
    ask("0.3", "HTTP+JSON", &OLD_SCENARIOS).await;
}

/// Its gRPC has no word for an agent: the one beside the node is found by its card, and any other is named in metadata.
#[tokio::test]
pub(crate) async fn version_0_3_over_grpc() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let flags = ["--allow-private-webhooks", "--card-grpc=authority"];
    let beside = Bridge::start_with(&pair.alice, &flags).await;
    run(&stage, "0.3", &beside.url(), "GRPC", &OLD_SCENARIOS, &[]).await;
    let elsewhere = Bridge::start_with(&pair.bob, &["--allow-private-webhooks"]).await;
    let named = [("A2A_TENANT", &*format!("agents/{peer}"))];
    run(&stage, "0.3", &elsewhere.url(), "GRPC", &OLD_SCENARIOS, &named).await;
    agent.succeed().await;
}

/// The newer SDK in 0.3: over REST it writes fields as the protobuf names them.
#[tokio::test]
async fn version_0_3_by_the_newer_client() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, _) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let flags = ["--allow-private-webhooks", "--card-grpc=authority"];
    let bridge = Bridge::start_with(&pair.alice, &flags).await;
    let scenarios = [
        "card",
        "send",
        "fail",
        "stream",
        "get",
        "cancel",
        "question",
        "resubscribe",
        "parts",
    ];
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        eprintln!("over {binding}");
        run(
            &stage,
            "1.0",
            &bridge.url(),
            binding,
            &scenarios,
            &[("A2A_VERSION", "0.3")],
        )
        .await;
    }
    agent.succeed().await;
}

/// Whoever is known asks the bridge for the card of its own agent.
async fn see_more(version: &str, binding: &str) {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let _node = pair.bob.node_named("Bob").await;
    let home = pair.bob.home().path();
    let (card, tokens) = (home.join("card.json"), home.join("tokens"));
    let more =
        r#"{"skills": [{"id": "secret", "name": "Secret", "description": "For friends", "tags": ["x"]}]}"#;
    std::fs::write(&card, more).unwrap();
    std::fs::write(&tokens, "alice 0123456789abcdef\n").unwrap();
    let flags = [
        ("key", "key"),
        ("extended-card", "card.json"),
        ("tokens-file", "tokens"),
    ];
    let flags = flags.map(|(flag, file)| format!("--{flag}={}", home.join(file).display()));
    let flags = flags.iter().map(String::as_str);
    let flags: Vec<&str> = flags.chain(card_grpc(binding).iter().copied()).collect();
    let bridge = Bridge::start_with(&pair.bob, &flags).await;
    run(
        &stage,
        version,
        &bridge.url(),
        binding,
        &["extended"],
        &[("BRIDGE_TOKEN", "0123456789abcdef")],
    )
    .await;
}

#[tokio::test]
async fn the_extended_card() {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        see_more("1.0", binding).await;
    }
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        see_more("0.3", binding).await;
    }
}

#[tokio::test]
async fn a_required_extension() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let flags = ["--required-extensions=urn:must", "--card-grpc=authority"];
    let bridge = Bridge::start_with(&pair.bob, &flags).await;
    let url = format!("{}/agents/{peer}", bridge.url());
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        run(&stage, "1.0", &url, binding, &["extensions"], &[]).await;
    }
    agent.succeed().await;
}

/// The official Go SDK of 0.3, whose files are base64 in the bytes of gRPC: the agent gets the file, and the client reads
/// it.
#[tokio::test]
pub(crate) async fn files_of_the_go_sdk() {
    let Some(program) = go_program("foreign/a2a/go/a2a-go", "a2a-go").await else {
        return;
    };
    let daemon = Daemon::builder().start().await;
    let (files, mut received) = mpsc::unbounded_channel();
    let _agent = TestAgent::serve(&daemon.node_named("Echo").await, move |task| {
        let files = files.clone();
        async move {
            let parts = task.message().parts.clone();
            for part in &parts {
                if let Content::Raw { data, .. } = &part.content {
                    files.send(data.clone()).unwrap();
                }
            }
            task.complete([Artifact::new("echo", parts)]).await?;
            Ok(())
        }
    });
    let bridge = Bridge::start(&daemon).await;
    let mut command = Command::new(program);
    command.arg(bridge.url().trim_start_matches("http://"));
    let mut client = ScriptProcess::start(command);
    for (file, shown) in [
        (
            &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..],
            r#""\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR""#,
        ),
        (b"plain text", r#""plain text""#),
    ] {
        // The answer, the task when it is read again, and an event.
        for _ in 0..3 {
            assert_eq!(client.line().await, shown);
        }
        for _ in 0..2 {
            assert_eq!(received.recv().await.unwrap(), file);
        }
    }
    assert_eq!(client.line().await, "done");
    client.succeed().await;
}
