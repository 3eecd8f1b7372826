//! The echo gateway in a real daemon, with a real agent behind it.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use agentanycast::{AgentCard, Artifact, Node};
use futures::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

const ALICE: &str = "0123456789abcdef";
const BOB: &str = "fedcba9876543210";

struct EchoDaemon {
    process: Child,
    address: String,
    metrics: String,
    home: tempfile::TempDir,
}

impl Drop for EchoDaemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_echo-gateway-node"));
    command.env_clear().env("HOME", home);
    command
}

impl EchoDaemon {
    fn start(rules: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".agentanycast");
        fs::create_dir(&state).unwrap();
        fs::write(home.path().join("tokens"), format!("alice {ALICE}\nbob {BOB}\n")).unwrap();
        let file = format!(
            "listen_addrs = ['/ip4/127.0.0.1/tcp/0']\nenable_mdns = false\n[gateways.echo]\ntokens_file = '~/tokens'\n{rules}"
        );
        fs::write(state.join("config.toml"), file).unwrap();
        let mut process = command(home.path())
            .args(["--echo-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
            .env("AGENTANYCAST_GATEWAYS_ECHO_WAIT", "20s")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut address = |name| {
            lines
                .find_map(|line| Some(line.unwrap().strip_prefix(name)?.to_owned()))
                .unwrap()
        };
        let (metrics, address) = (address("METRICS_ADDR="), address("ECHO_ADDR="));
        Self {
            process,
            address,
            metrics,
            home,
        }
    }

    fn metrics(&self) -> String {
        let mut connection = std::net::TcpStream::connect(&self.metrics).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        connection.read_to_string(&mut page).unwrap();
        page
    }

    async fn node(&self) -> Node {
        let socket = self.home.path().join(".agentanycast/daemon.sock");
        Node::connect(format!("unix://{}", socket.display()))
            .await
            .unwrap()
    }

    async fn open(&self, token: &str) -> Result<Talk, u16> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let mut request = format!("ws://{}/", self.address).into_client_request().unwrap();
        let authorization = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("Authorization", authorization);
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Talk(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

struct Talk(WebSocketStream<TcpStream>);

impl Talk {
    async fn say(&mut self, text: &str) -> String {
        self.0.send(Message::text(text)).await.unwrap();
        loop {
            if let Message::Text(answer) = self.0.next().await.unwrap().unwrap() {
                return answer.as_str().to_owned();
            }
        }
    }
}

/// An agent that says what it hears twice.
async fn serve(node: &Node) -> tokio::task::JoinHandle<()> {
    let card = AgentCard::new("Twice", "says it twice");
    node.set_card(card).await.unwrap();
    let served = node.serve(|task| async move {
        let text = task.message().text_content();
        task.complete([Artifact::text(format!("{text} {text}"))]).await?;
        Ok(())
    });
    tokio::spawn(async move { served.await.unwrap() })
}

#[tokio::test]
async fn a_text_goes_to_an_agent_and_its_answer_comes_back() {
    let daemon = EchoDaemon::start("");
    let node = daemon.node().await;
    let agent = serve(&node).await;
    let mut alice = daemon.open(ALICE).await.ok().unwrap();
    let answer = alice.say("hello").await;
    let (id, said) = answer.split_once(' ').unwrap();
    assert_eq!(said, "hello hello");
    // A task is its caller's, over any socket, and nobody else's.
    let mut again = daemon.open(ALICE).await.ok().unwrap();
    assert_eq!(again.say(&format!("/show {id}")).await, answer);
    let mut bob = daemon.open(BOB).await.ok().unwrap();
    assert_eq!(
        bob.say(&format!("/show {id}")).await,
        format!("! there is no task {id}")
    );
    assert_eq!(bob.say("one").await.split_once(' ').unwrap().1, "one one");
    // The node knows who asked.
    let task = node.task_handle(id).snapshot().await.unwrap();
    assert_eq!(task.metadata["gateway.caller"], "echo:alice");
    assert_eq!(daemon.open("wrong-wrong-wrong").await.err(), Some(401));
    let refused = "agentanycast_gateway_requests_total{gateway=\"echo\",status=\"401\"} 1";
    assert!(daemon.metrics().contains(refused));
    agent.abort();
}

#[tokio::test]
async fn rules_know_its_callers_by_its_name() {
    let rules = "[[policy.acl]]\nsource = 'echo:alice'\nallow = true\n[[policy.acl]]\nsource = 'local'\nallow = true\n";
    let daemon = EchoDaemon::start(rules);
    let node = daemon.node().await;
    let agent = serve(&node).await;
    let mut alice = daemon.open(ALICE).await.ok().unwrap();
    assert!(alice.say("hi").await.ends_with(" hi hi"));
    let mut bob = daemon.open(BOB).await.ok().unwrap();
    let refused = bob.say("hi").await;
    assert!(refused.starts_with("! ") && refused.contains("rule"), "{refused}");
    agent.abort();
}

#[test]
fn its_settings_are_derived() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = command(home.path()).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, help) = run(&["--help"]);
    assert_eq!(code, Some(0));
    for flag in ["--echo-tokens-file", "--echo-agent", "--bridge-listen"] {
        assert!(help.contains(flag), "{flag} is not in {help}");
    }
    let (code, shown) = run(&["--print-config", "--echo-listen=127.0.0.1:9"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("gateways.echo.wait") && shown.contains("127.0.0.1:9"),
        "{shown}"
    );
    for (arguments, told) in [
        (["--echo-listen=0.0.0.0:9"], "--echo-allow-remote"),
        (["--echo-wait=soon"], "gateways.echo.wait"),
    ] {
        let (code, said) = run(&arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(told), "{said}");
    }
}
