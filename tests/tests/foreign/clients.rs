//! The clients that `docs/bridge.md` and `docs/mcp.md` name in their tables of clients. Each row of a table is an entry
//! of [`CLIENTS`], which names the pinned packages and the tests that run them.

use std::{fs, path::Path};

use agentanycast_tests::{Bridge, Daemon, DaemonPair, TransportKind, cli};
use tokio::process::Command;

use crate::{
    a2a::{self, OLD_SCENARIOS},
    circuit_relay,
    client_env::{ClientEnv, a2a_python, langchain_python, scripts},
    mcp, outbound, python,
    script::ScriptProcess,
    typescript,
};

/// A row of a table of clients.
struct ClientRow {
    /// The page below `docs` whose table has the row.
    page: &'static str,
    /// The first cell of the row.
    row: &'static str,
    /// Where the release that the row names is pinned: a file below `tests`, and a text that it contains.
    pin: (&'static str, &'static str),
    /// The tests that run the client.
    tests: &'static [fn()],
}

const BRIDGE: &str = "bridge.md";
const MCP: &str = "mcp.md";

const CLIENTS: &[ClientRow] = &[
    ClientRow {
        page: BRIDGE,
        row: "`a2a-sdk` 0.3.10 (Python)",
        pin: ("foreign/a2a/0.3.10/requirements.txt", "a2a-sdk==0.3.10"),
        tests: &[
            a2a_sdk_0_3_10_over_json_rpc,
            a2a_sdk_0_3_10_over_rest,
            a2a_sdk_0_3_10_over_grpc,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`a2a-sdk` 0.3.26 (Python)",
        pin: ("foreign/a2a/0.3/requirements.txt", "a2a-sdk==0.3.26"),
        tests: &[
            a2a::version_0_3_over_json_rpc,
            a2a::version_0_3_over_rest,
            a2a::version_0_3_over_grpc,
            outbound::an_agent_of_0_3,
            outbound::an_agent_of_0_3_over_rest,
            outbound::an_agent_of_0_3_over_grpc,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`a2a-sdk` 1.3.0 (Python)",
        pin: ("foreign/a2a/1.0/requirements.txt", "a2a-sdk==1.3.0"),
        tests: &[
            a2a::version_1_0_over_json_rpc,
            a2a::version_1_0_over_rest,
            a2a::version_1_0_over_grpc,
            outbound::an_agent_of_1_0_over_json_rpc,
            outbound::an_agent_of_1_0_over_rest,
            outbound::an_agent_of_1_0_over_grpc,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`@a2a-js/sdk` 0.3.13",
        pin: ("foreign/node/package.json", r#""npm:@a2a-js/sdk@0.3.13""#),
        tests: &[
            a2a_js_0_3_over_json_rpc,
            a2a_js_0_3_over_rest,
            a2a_js_0_3_over_grpc,
            outbound::an_agent_of_javascript_0_3_over_json_rpc,
            outbound::an_agent_of_javascript_0_3_over_rest,
            outbound::an_agent_of_javascript_0_3_over_grpc,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`@a2a-js/sdk` 1.3.0",
        pin: ("foreign/node/package.json", r#""@a2a-js/sdk": "1.3.0""#),
        tests: &[
            a2a_js_1_0_over_json_rpc,
            a2a_js_1_0_over_rest,
            a2a_js_1_0_over_grpc,
            outbound::an_agent_of_javascript_1_0_over_json_rpc,
            outbound::an_agent_of_javascript_1_0_over_rest,
            outbound::an_agent_of_javascript_1_0_over_grpc,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`a2a-go` 0.3.3",
        pin: ("foreign/a2a/go/go.mod", "github.com/a2aproject/a2a-go v0.3.3"),
        tests: &[a2a::files_of_the_go_sdk],
    },
    ClientRow {
        page: BRIDGE,
        row: "`google-adk` 2.13.0",
        pin: ("foreign/a2a/1.0/requirements.txt", "google-adk==2.13.0"),
        tests: &[google_adk, outbound::an_agent_of_google_adk],
    },
    ClientRow {
        page: BRIDGE,
        row: "`agent-framework-a2a` 1.0.0b261022",
        pin: (
            "foreign/a2a/1.0/requirements.txt",
            "agent-framework-a2a==1.0.0b261022",
        ),
        tests: &[agent_framework, outbound::an_agent_of_agent_framework],
    },
    ClientRow {
        page: BRIDGE,
        row: "A2A Inspector",
        // Its package on PyPI is empty. The SDK that it fetches cards with is what is pinned.
        pin: ("foreign/a2a/1.0/requirements.txt", "a2a-sdk==1.3.0"),
        tests: &[the_inspector],
    },
    ClientRow {
        page: BRIDGE,
        row: "`agentanycast` 0.7.3 (PyPI)",
        pin: ("foreign/requirements.txt", "agentanycast==0.7.3"),
        tests: &[
            python::the_command_line_over_quic,
            outbound::the_published_python_sdk_sends_by_url,
        ],
    },
    ClientRow {
        page: BRIDGE,
        row: "`agentanycast` 0.8.1 (npm)",
        pin: ("foreign/node/package.json", r#""agentanycast": "0.8.1""#),
        tests: &[typescript::asks, an_agent_on_the_typescript_sdk],
    },
    ClientRow {
        page: BRIDGE,
        row: "`go-libp2p` 0.51.0",
        pin: ("interop/go.mod", "github.com/libp2p/go-libp2p v0.51.0"),
        tests: &[
            circuit_relay::go_reserves_on_our_relay_and_is_dialled_through_it,
            circuit_relay::our_node_reserves_on_a_go_relay,
        ],
    },
    ClientRow {
        page: MCP,
        row: "`@modelcontextprotocol/sdk` 1.32.2",
        pin: (
            "foreign/node/package.json",
            r#""@modelcontextprotocol/sdk": "1.32.2""#,
        ),
        tests: &[
            mcp_sdk_for_typescript_1_over_http,
            mcp_sdk_for_typescript_1_on_stdio,
        ],
    },
    ClientRow {
        page: MCP,
        row: "`@modelcontextprotocol/client` 2.3.1",
        pin: (
            "foreign/node/package.json",
            r#""@modelcontextprotocol/client": "2.3.1""#,
        ),
        tests: &[
            mcp_sdk_for_typescript_2_over_http,
            mcp_sdk_for_typescript_2_on_stdio,
        ],
    },
    ClientRow {
        page: MCP,
        row: "`mcp` 2.3.0 (Python)",
        pin: ("foreign/mcp/requirements.txt", "mcp==2.3.0"),
        tests: &[
            mcp::over_http_without_a_handshake,
            mcp::over_http_with_a_handshake,
            mcp::on_stdio_without_a_handshake,
            mcp::on_stdio_with_a_handshake,
        ],
    },
    ClientRow {
        page: MCP,
        row: "`langchain-mcp-adapters` 0.3.2",
        pin: ("foreign/mcp/1/requirements.txt", "langchain-mcp-adapters==0.3.2"),
        tests: &[langchain_over_http, langchain_on_stdio],
    },
];

/// The heading of a table of clients.
const HEADING: &str = "| client | works | what it needs |";

/// The first cells of the rows of a page's table of clients.
fn rows(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    let mut tables = text.split(HEADING);
    let table = tables
        .nth(1)
        .unwrap_or_else(|| panic!("{page} has no {HEADING:?}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('|').nth(1).unwrap().trim().to_owned())
        .collect()
}

#[test]
fn each_row_of_the_tables_of_clients_is_run_by_a_test() {
    for page in [BRIDGE, MCP] {
        let of_page = CLIENTS.iter().filter(|client| client.page == page);
        let tested: Vec<&str> = of_page.map(|client| client.row).collect();
        assert_eq!(rows(page), tested, "the table of docs/{page} and CLIENTS differ");
    }
    for ClientRow { row, pin, tests, .. } in CLIENTS {
        assert!(!tests.is_empty(), "{row} has no test");
        let (file, text) = pin;
        let pinned = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(pinned.contains(text), "{row}: {file} does not contain {text:?}");
    }
}

/// A stock Python agent on a daemon, and a bridge before another daemon, or before the same.
struct PythonAgentBridge {
    pair: DaemonPair,
    stage: ClientEnv,
    agent: ScriptProcess,
    peer: String,
    bridge: Bridge,
}

impl PythonAgentBridge {
    /// The bridge is before the other daemon.
    async fn new(flags: &[&str]) -> Self {
        Self::start(flags, false).await
    }

    /// The bridge is before the agent's own daemon.
    async fn beside(flags: &[&str]) -> Self {
        Self::start(flags, true).await
    }

    async fn start(flags: &[&str], beside: bool) -> Self {
        let pair = DaemonPair::start(TransportKind::Tcp).await;
        let stage = ClientEnv::new(TransportKind::Tcp);
        let (agent, peer) = python::agent(&stage, "daemon", pair.alice.grpc()).await;
        let daemon = if beside { &pair.alice } else { &pair.bob };
        let bridge = Bridge::start_with(daemon, flags).await;
        Self {
            pair,
            stage,
            agent,
            peer,
            bridge,
        }
    }

    /// The agent's URL.
    fn url(&self) -> String {
        format!("{}/agents/{}", self.bridge.url(), self.peer)
    }

    /// The URL of the agent beside the bridge's daemon.
    fn root(&self) -> String {
        self.bridge.url()
    }

    /// A script for Python with the A2A SDK of this version.
    fn python(&self, version: &str, script: &str) -> Command {
        let mut command = self.stage.command(a2a_python(version));
        command.arg(scripts().join("a2a").join(script));
        command
    }

    async fn end(self) {
        self.agent.succeed().await;
        drop(self.pair);
    }
}

/// Runs scenarios of a client: it prints the name of each that succeeds.
async fn play(mut command: Command, scenarios: &[&str]) {
    command.args(scenarios);
    let mut client = ScriptProcess::start(command);
    for scenario in scenarios {
        assert_eq!(client.line().await, *scenario);
    }
    client.succeed().await;
}

/// Flags of a bridge whose webhooks may be on this host.
const HOOKS: &str = "--allow-private-webhooks";

/// The flag of a bridge whose cards list gRPC.
const LISTS_GRPC: &str = "--card-grpc=authority";

async fn a2a_sdk_0_3_10(binding: &str) {
    let scene = PythonAgentBridge::new(&[HOOKS]).await;
    let mut client = scene.python("0.3.10", "client_0_3.py");
    client.args([&scene.url(), binding]);
    play(client, &OLD_SCENARIOS).await;
    scene.end().await;
}

#[tokio::test]
async fn a2a_sdk_0_3_10_over_json_rpc() {
    a2a_sdk_0_3_10("JSONRPC").await;
}

#[tokio::test]
async fn a2a_sdk_0_3_10_over_rest() {
    a2a_sdk_0_3_10("HTTP+JSON").await;
}

#[tokio::test]
async fn a2a_sdk_0_3_10_over_grpc() {
    // gRPC of 0.3 has no field that names another agent than the one beside the bridge's daemon.
    let scene = PythonAgentBridge::beside(&[HOOKS, LISTS_GRPC]).await;
    let mut client = scene.python("0.3.10", "client_0_3.py");
    client.args([&scene.root(), "GRPC"]);
    play(client, &OLD_SCENARIOS).await;
    scene.end().await;
}

const OF_A2A_JS: [&str; 10] = [
    "card",
    "send",
    "fail",
    "stream",
    "question",
    "question_in_stream",
    "resubscribe",
    "files",
    "cancel",
    "errors",
];

async fn a2a_js_1_0(binding: &str) {
    let scene = PythonAgentBridge::new(&[LISTS_GRPC]).await;
    let mut client = scene.stage.node("a2a_client.mjs");
    client.args([&scene.url(), binding]);
    play(client, &OF_A2A_JS).await;
    scene.end().await;
}

/// The bridge is before the agent's own daemon: gRPC of 0.3 has no field that names another agent.
async fn a2a_js_0_3(binding: &str) {
    let scene = PythonAgentBridge::beside(&[LISTS_GRPC]).await;
    let mut client = scene.stage.node("a2a_client_0_3.mjs");
    client.args([&scene.root(), binding]);
    play(client, &[&OF_A2A_JS[..], &["answered_at_once"]].concat()).await;
    scene.end().await;
}

#[tokio::test]
async fn a2a_js_1_0_over_json_rpc() {
    a2a_js_1_0("JSONRPC").await;
}

#[tokio::test]
async fn a2a_js_1_0_over_rest() {
    a2a_js_1_0("HTTP+JSON").await;
}

#[tokio::test]
async fn a2a_js_1_0_over_grpc() {
    a2a_js_1_0("GRPC").await;
}

#[tokio::test]
async fn a2a_js_0_3_over_json_rpc() {
    a2a_js_0_3("JSONRPC").await;
}

#[tokio::test]
async fn a2a_js_0_3_over_rest() {
    a2a_js_0_3("HTTP+JSON").await;
}

#[tokio::test]
async fn a2a_js_0_3_over_grpc() {
    a2a_js_0_3("GRPC").await;
}

#[tokio::test]
async fn google_adk() {
    let scene = PythonAgentBridge::new(&[]).await;
    let mut client = scene.python("1.0", "adk_client.py");
    client.arg(scene.url());
    play(client, &["card", "send", "fail", "files"]).await;
    scene.end().await;
    // ADK shows its user the agent's words, and the SDK for Python sends none with a question.
    let scene = TypeScriptAgentBridge::new().await;
    let mut client = scene.stage.command(a2a_python("1.0"));
    client.arg(scripts().join("a2a/adk_client.py")).arg(&scene.url);
    play(client, &["question"]).await;
    scene.agent.succeed().await;
}

#[tokio::test]
async fn agent_framework() {
    let scene = PythonAgentBridge::new(&[]).await;
    let mut client = scene.python("1.0", "agent_framework_client.py");
    client.arg(scene.url());
    let scenarios = [
        "card",
        "send",
        "by_url",
        "over_rest",
        "stream",
        "fail",
        "question",
        "background",
        "files",
    ];
    play(client, &scenarios).await;
    scene.end().await;
}

#[tokio::test]
async fn the_inspector() {
    let scene = PythonAgentBridge::new(&[]).await;
    let mut client = scene.python("1.0", "inspector.py");
    client.arg(scene.url());
    play(client, &["card", "messages"]).await;
    scene.end().await;
}

/// A stock TypeScript agent on a daemon, and a bridge before another daemon.
struct TypeScriptAgentBridge {
    _pair: DaemonPair,
    stage: ClientEnv,
    agent: ScriptProcess,
    _bridge: Bridge,
    url: String,
}

impl TypeScriptAgentBridge {
    async fn new() -> Self {
        let pair = DaemonPair::start(TransportKind::Tcp).await;
        let stage = ClientEnv::new(TransportKind::Tcp);
        let mut command = stage.node("agent.mjs");
        command.args(["daemon", pair.alice.grpc()]);
        let mut agent = ScriptProcess::start(command);
        let peer = agent.json().await["peer_id"].as_str().unwrap().to_owned();
        let bridge = Bridge::start(&pair.bob).await;
        Self {
            _pair: pair,
            stage,
            agent,
            url: format!("{}/agents/{peer}", bridge.url()),
            _bridge: bridge,
        }
    }
}

/// An agent on the TypeScript SDK is asked through the bridge.
#[tokio::test]
async fn an_agent_on_the_typescript_sdk() {
    let scene = TypeScriptAgentBridge::new().await;
    let mut client = scene.stage.command(a2a_python("1.0"));
    client.arg(scripts().join("a2a/client.py"));
    client.args([&scene.url, "JSONRPC"]);
    play(client, &["send", "fail", "stream", "get", "question"]).await;
    scene.agent.succeed().await;
}

/// What any application does with tools.
const OF_MCP: [&str; 7] = [
    "tools", "answer", "fail", "file", "progress", "question", "mistake",
];

/// A stock Python agent on a daemon, and another daemon, whose tools are called over HTTP or by `anycast mcp`.
struct McpToolsSetup {
    pair: DaemonPair,
    stage: ClientEnv,
    agent: ScriptProcess,
    peer: String,
}

impl McpToolsSetup {
    async fn new() -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(daemon(), daemon().mcp()).await;
        let stage = ClientEnv::new(TransportKind::Tcp);
        let (agent, peer) = python::agent(&stage, "daemon", pair.alice.grpc()).await;
        Self {
            pair,
            stage,
            agent,
            peer,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.pair.bob.mcp())
    }

    fn command(&self) -> String {
        let program = cli::program();
        format!("{} --daemon {} mcp", program.display(), self.pair.bob.grpc())
    }

    /// Plays what any application does with the tools at this server, as this release of the SDK for TypeScript.
    async fn typescript(self, release: &str, server: &str) {
        let mut client = self.stage.node("mcp_client.mjs");
        client.args([release, server, &self.peer]);
        play(client, &OF_MCP).await;
        self.agent.succeed().await;
    }

    async fn langchain(self, variable: &str, server: &str) {
        let mut client = self.stage.command(langchain_python());
        client
            .arg(scripts().join("mcp/langchain_client.py"))
            .arg(&self.peer)
            .env(variable, server);
        play(client, &OF_MCP).await;
        self.agent.succeed().await;
    }
}

#[tokio::test]
async fn mcp_sdk_for_typescript_1_over_http() {
    let tools = McpToolsSetup::new().await;
    let url = tools.url();
    tools.typescript("1", &url).await;
}

#[tokio::test]
async fn mcp_sdk_for_typescript_1_on_stdio() {
    let tools = McpToolsSetup::new().await;
    let command = tools.command();
    tools.typescript("1", &command).await;
}

#[tokio::test]
async fn mcp_sdk_for_typescript_2_over_http() {
    let tools = McpToolsSetup::new().await;
    let url = tools.url();
    tools.typescript("2", &url).await;
}

#[tokio::test]
async fn mcp_sdk_for_typescript_2_on_stdio() {
    let tools = McpToolsSetup::new().await;
    let command = tools.command();
    tools.typescript("2", &command).await;
}

#[tokio::test]
async fn langchain_over_http() {
    let tools = McpToolsSetup::new().await;
    let url = tools.url();
    tools.langchain("MCP_URL", &url).await;
}

#[tokio::test]
async fn langchain_on_stdio() {
    let tools = McpToolsSetup::new().await;
    let command = tools.command();
    tools.langchain("MCP_COMMAND", &command).await;
}
