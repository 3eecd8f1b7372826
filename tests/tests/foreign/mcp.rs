//! The official MCP SDK (`mcp` 2.3.0) as client of our tools, over HTTP and on standard input and output, in the revision
//! of today and in those with a handshake: the agent behind them is a stock Python agent on another node.

use agentanycast_tests::{Daemon, DaemonPair, TransportKind, cli, within};

use crate::{
    client_env::{ClientEnv, mcp_python, scripts},
    python::agent,
    script::ScriptProcess,
};

/// What any application does.
const SCENARIOS: [&str; 8] = [
    "tools", "answer", "fail", "file", "progress", "question", "abandon", "unknown",
];

/// What only callers over HTTP meet.
const OVER_HTTP: [&str; 2] = ["other", "refusals"];

async fn run(stage: &ClientEnv, mode: &str, peer: &str, scenarios: &[&str], environment: &[(&str, String)]) {
    let mut command = stage.command(mcp_python());
    command
        .arg(scripts().join("mcp/client.py"))
        .args([mode, peer])
        .args(scenarios)
        .envs(environment.iter().map(|(name, value)| (name, value)));
    let mut client = ScriptProcess::start(command);
    for scenario in scenarios {
        assert_eq!(client.line().await, *scenario);
    }
    client.succeed().await;
}

async fn over_http(mode: &str) {
    let home = tempfile::tempdir().unwrap();
    let tokens = home.path().join("tokens");
    std::fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let tokens = format!("--bridge-tokens-file={}", tokens.display());
    let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
    let pair = DaemonPair::from_builders(daemon(), daemon().mcp().metrics().args([tokens])).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let environment = [
        ("MCP_URL", format!("http://{}/mcp", pair.bob.mcp())),
        ("MCP_TOKEN", "aaaaaaaaaaaaaaaa".to_owned()),
        ("MCP_OTHER_TOKEN", "bbbbbbbbbbbbbbbb".to_owned()),
    ];
    let scenarios = [&SCENARIOS[..], &OVER_HTTP].concat();
    run(&stage, mode, &peer, &scenarios, &environment).await;
    let series = r#"agentanycast_mcp_tool_calls_total{tool="unknown",status="refused"}"#;
    assert_eq!(pair.bob.metric(series).await, Some(1.0));
    agent.succeed().await;
}

async fn on_stdio(mode: &str) {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let stage = ClientEnv::new(TransportKind::Tcp);
    let (agent, peer) = agent(&stage, "daemon", pair.alice.grpc()).await;
    let program = cli::program();
    let command = format!("{} --daemon {} mcp", program.display(), pair.bob.grpc());
    let environment = [("MCP_COMMAND", command)];
    within(
        "the scenarios end",
        run(&stage, mode, &peer, &SCENARIOS, &environment),
    )
    .await;
    agent.succeed().await;
}

#[tokio::test]
pub(crate) async fn over_http_without_a_handshake() {
    over_http("2026-07-28").await;
}

#[tokio::test]
pub(crate) async fn over_http_with_a_handshake() {
    over_http("legacy").await;
}

#[tokio::test]
pub(crate) async fn on_stdio_without_a_handshake() {
    on_stdio("2026-07-28").await;
}

#[tokio::test]
pub(crate) async fn on_stdio_with_a_handshake() {
    on_stdio("legacy").await;
}
