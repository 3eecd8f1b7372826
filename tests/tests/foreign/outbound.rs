//! Tasks that are sent by URL to agents on the official A2A SDKs for Python (`a2a-sdk` 1.3.0 and 0.3.26) and JavaScript
//! (`@a2a-js/sdk` 1.3.0 and 0.3.13) over each binding, with streams and without, and to agents of agent frameworks.

use agentanycast::{
    Artifact, ArtifactEvent, Content, EndReason, Message, Node, Part, Target, Task, TaskHandle, TaskStatus,
};
use agentanycast_tests::{
    Daemon, eventually,
    task_assertions::{completed, not_completed},
    within,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    client_env::{ClientEnv, a2a_python, scripts},
    python::ask,
    script::ScriptProcess,
};

const CONFIG: &str = "[bridge.outbound]\nallow_private = true\npatience = \"15s\"\n";

/// An agent outside.
struct ExternalAgent {
    script: ScriptProcess,
    url: String,
    /// Its SDK loses metadata of parts and names of files, and cannot write null: that for JavaScript of 0.3 over
    /// REST and gRPC.
    is_lossy: bool,
}

impl ExternalAgent {
    /// Of version 1.0, over this binding.
    async fn new(stage: &ClientEnv, binding: &str, streaming: bool) -> Self {
        Self::start(stage, "1.0", "server.py", &[binding, word(streaming)]).await
    }

    /// Of version 0.3, over this binding.
    async fn old(stage: &ClientEnv, binding: &str, streaming: bool) -> Self {
        Self::start(stage, "0.3", "server_0_3.py", &[binding, word(streaming)]).await
    }

    /// On the SDK for JavaScript: of 1.0, or of 0.3.
    async fn javascript(stage: &ClientEnv, binding: &str, streaming: bool, is_old: bool) -> Self {
        let script = if is_old {
            "a2a_server_0_3.mjs"
        } else {
            "a2a_server.mjs"
        };
        let mut command = stage.node(script);
        command.args([binding, word(streaming)]);
        let mut remote = Self::ready(command).await;
        remote.is_lossy = is_old && binding != "JSONRPC";
        remote
    }

    /// On an agent framework.
    async fn on(stage: &ClientEnv, framework: &str) -> Self {
        Self::start(stage, "1.0", "framework_servers.py", &[framework]).await
    }

    async fn start(stage: &ClientEnv, version: &str, script: &str, args: &[&str]) -> Self {
        let mut command = stage.command(a2a_python(version));
        command.arg(scripts().join("a2a").join(script)).args(args);
        Self::ready(command).await
    }

    async fn ready(command: Command) -> Self {
        let mut script = ScriptProcess::start(command);
        let url = script.json().await["url"].as_str().unwrap().to_owned();
        Self {
            script,
            url,
            is_lossy: false,
        }
    }

    /// The next message that it got.
    async fn got(&mut self) -> Value {
        self.script
            .json_with(|line| line.get("got").map(|_| line.clone()))
            .await
    }
}

fn word(streaming: bool) -> &'static str {
    if streaming { "streaming" } else { "plain" }
}

async fn send(node: &Node, remote: &ExternalAgent, message: impl Into<Message>) -> TaskHandle {
    node.task(Target::url(&remote.url), message).send().await.unwrap()
}

/// The text of the first result, which came in pieces.
fn whole_text(task: &Task) -> String {
    let parts = task.artifacts[0].parts.iter();
    parts.filter_map(Part::as_text).collect()
}

/// Waits until the task says this, and gives its state then.
async fn until(handle: &TaskHandle, text: &str) -> TaskStatus {
    let mut updates = handle.updates();
    let said = async {
        while let Some(update) = updates.next().await {
            let update = update.unwrap();
            if update
                .message
                .is_some_and(|message| message.text_content() == text)
            {
                return update.status;
            }
        }
        panic!("the task ended without {text:?}")
    };
    within(&format!("the task says {text:?}"), said).await
}

/// What users do with any agent.
async fn everything(node: &Node, remote: &mut ExternalAgent, is_old: bool) {
    echo(node, remote).await;
    steps(node, remote).await;
    parts(node, remote, is_old).await;
    question(node, remote).await;
    cancel(node, remote).await;
    ends(node, remote, is_old).await;
}

async fn echo(node: &Node, remote: &mut ExternalAgent) {
    let handle = send(node, remote, "echo hello").await;
    let task = completed(&handle).await;
    assert_eq!(task.artifacts[0].text_content(), "hello");
    assert_eq!(
        (task.artifacts[0].id.as_str(), task.artifacts[0].name.as_str()),
        ("answer", "Answer")
    );
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    assert_eq!(said, ["echo hello", "begun", "done"]);
    let got = remote.got().await;
    assert_eq!(got["got"], task.messages[0].id);
    assert_eq!(got["context"], task.context_id);
    let answer = send(node, remote, "message").await;
    let task = completed(&answer).await;
    assert_eq!(task.messages.last().unwrap().text_content(), "no task");
    // It names a task which the agent has none of.
    let answer = send(node, remote, "named").await;
    let task = completed(&answer).await;
    assert_eq!(task.messages.last().unwrap().text_content(), "no task");
}

async fn steps(node: &Node, remote: &mut ExternalAgent) {
    let handle = send(node, remote, "steps 20").await;
    let task = completed(&handle).await;
    let whole: Vec<String> = (0..20).map(|step| format!("{step};")).collect();
    let whole = whole.concat();
    assert_eq!(task.artifacts.len(), 1);
    assert_eq!(whole_text(&task), whole);
    let said: Vec<String> = task.messages[1..].iter().map(Message::text_content).collect();
    let expected: Vec<String> = (0..20).map(|step| format!("step {step}")).collect();
    assert_eq!(said, expected);
}

async fn parts(node: &Node, remote: &mut ExternalAgent, is_old: bool) {
    let bytes: Vec<u8> = (0..=255).collect();
    let nothing = if remote.is_lossy { json!("") } else { json!(null) };
    let data = json!({"n": 42, "f": 1.5, "deep": {"l": [1, nothing, "ü"]}});
    let sent = [
        Part::text("parts"),
        Part::text("plain").with_metadata("k", "v"),
        Part::raw(bytes.clone(), "application/x-test").with_filename("a.bin"),
        Part::url("https://example.org/a.png")
            .with_filename("a.png")
            .with_media_type("image/png"),
        Part::data(data.clone()).unwrap(),
    ];
    let handle = send(node, remote, Message::new(sent.clone())).await;
    let task = completed(&handle).await;
    let [text, raw, url, object] = &task.artifacts[0].parts[..] else {
        panic!("{:?}", task.artifacts)
    };
    assert_eq!(text.as_text(), Some("plain"));
    if !remote.is_lossy {
        assert_eq!(text.metadata["k"], "v");
    }
    if !remote.is_lossy {
        assert_eq!(raw.content, sent[2].content);
        assert_eq!(url.content, sent[3].content);
    }
    assert_eq!(
        (raw.as_raw(), raw.media_type.as_str()),
        (Some(&bytes[..]), "application/x-test")
    );
    let Content::Url { url: address, .. } = &url.content else {
        panic!("{url:?}")
    };
    assert_eq!(
        (address.as_str(), url.media_type.as_str()),
        ("https://example.org/a.png", "image/png")
    );
    // As the agent gave it: over JSON its SDK writes 42.0, since it keeps data as protobuf does.
    let given = Value::Object(object.as_data().unwrap().clone());
    assert_eq!(by_value(&given), by_value(&data));
    let annex: Value = serde_json::from_str(&text.metadata["a2a.artifact"]).unwrap();
    assert_eq!(annex["metadata"], json!({"n": 1.5, "l": [true]}));
    if is_old {
        return;
    }
    let labelled = node
        .task(Target::url(&remote.url), "metadata")
        .metadata("priority", "low")
        .send()
        .await
        .unwrap();
    let task = completed(&labelled).await;
    let seen: Value = serde_json::from_str(&task.artifacts[0].text_content()).unwrap();
    assert_eq!(seen["priority"], "low");
}

/// Data with all its numbers written alike.
fn by_value(data: &Value) -> Value {
    match data {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(values) => values.iter().map(by_value).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), by_value(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

async fn question(node: &Node, remote: &mut ExternalAgent) {
    let handle = send(node, remote, "question").await;
    assert_eq!(until(&handle, "which one?").await, TaskStatus::InputRequired);
    handle.reply("the red one").await.unwrap();
    let task = completed(&handle).await;
    assert_eq!(task.artifacts[0].text_content(), "answered the red one");
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    assert_eq!(said, ["question", "which one?", "the red one", "done"]);
}

async fn cancel(node: &Node, remote: &mut ExternalAgent) {
    let handle = send(node, remote, "wait").await;
    eventually("the agent works", || async {
        (handle.snapshot().await.unwrap().status == TaskStatus::Working).then_some(())
    })
    .await;
    let task = handle.cancel().await.unwrap();
    assert_eq!(task.status, TaskStatus::Canceled);
    remote.script.line_with("canceled").await;
}

async fn ends(node: &Node, remote: &mut ExternalAgent, is_old: bool) {
    let failed = send(node, remote, "fail").await;
    let error = not_completed(&failed).await;
    let task = error.task().unwrap();
    assert_eq!(
        (task.status, task.reason().as_str()),
        (TaskStatus::Failed, "it broke")
    );
    if is_old {
        return;
    }
    let rejected = send(node, remote, "reject").await;
    let error = not_completed(&rejected).await;
    let task = error.task().unwrap();
    // What was worked on cannot be rejected any more, as the mesh sees it.
    assert!(
        matches!(task.status, TaskStatus::Rejected | TaskStatus::Failed),
        "{task:?}"
    );
    assert_eq!(task.reason(), "not mine");
    let login = send(node, remote, "login").await;
    assert_eq!(until(&login, "log in").await, TaskStatus::InputRequired);
    login.cancel().await.unwrap();
}

async fn daemon() -> Daemon {
    Daemon::builder().config(CONFIG).start().await
}

async fn of_1_0(binding: &str, streaming: bool) {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (daemon, mut remote) = tokio::join!(daemon(), ExternalAgent::new(&stage, binding, streaming));
    everything(&daemon.node().await, &mut remote, false).await;
    remote.script.succeed().await;
}

async fn of_0_3(binding: &str, streaming: bool) {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (daemon, mut remote) = tokio::join!(daemon(), ExternalAgent::old(&stage, binding, streaming));
    everything(&daemon.node().await, &mut remote, true).await;
    remote.script.succeed().await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_1_0_over_json_rpc() {
    of_1_0("JSONRPC", true).await;
}

#[tokio::test]
async fn an_agent_of_1_0_over_json_rpc_without_streams() {
    of_1_0("JSONRPC", false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_1_0_over_rest() {
    of_1_0("HTTP+JSON", true).await;
}

#[tokio::test]
async fn an_agent_of_1_0_over_rest_without_streams() {
    of_1_0("HTTP+JSON", false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_1_0_over_grpc() {
    of_1_0("GRPC", true).await;
}

#[tokio::test]
async fn an_agent_of_1_0_over_grpc_without_streams() {
    of_1_0("GRPC", false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_0_3() {
    of_0_3("JSONRPC", true).await;
}

#[tokio::test]
async fn an_agent_of_0_3_without_streams() {
    of_0_3("JSONRPC", false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_0_3_over_grpc() {
    of_0_3("GRPC", true).await;
}

#[tokio::test]
async fn an_agent_of_0_3_over_grpc_without_streams() {
    of_0_3("GRPC", false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_0_3_over_rest() {
    of_0_3("HTTP+JSON", true).await;
}

#[tokio::test]
async fn an_agent_of_0_3_over_rest_without_streams() {
    of_0_3("HTTP+JSON", false).await;
}

async fn of_javascript(binding: &str, streaming: bool, is_old: bool) {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let remote = ExternalAgent::javascript(&stage, binding, streaming, is_old);
    let (daemon, mut remote) = tokio::join!(daemon(), remote);
    everything(&daemon.node().await, &mut remote, is_old).await;
    remote.script.succeed().await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_1_0_over_json_rpc() {
    of_javascript("JSONRPC", true, false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_1_0_over_rest() {
    of_javascript("HTTP+JSON", true, false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_1_0_over_grpc() {
    of_javascript("GRPC", true, false).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_0_3_over_json_rpc() {
    of_javascript("JSONRPC", true, true).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_0_3_over_rest() {
    of_javascript("HTTP+JSON", true, true).await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_javascript_0_3_over_grpc() {
    of_javascript("GRPC", true, true).await;
}

#[tokio::test]
async fn agents_of_javascript_without_streams() {
    of_javascript("JSONRPC", false, false).await;
    of_javascript("JSONRPC", false, true).await;
}

/// What an agent of a framework answers, whose code is a function of what it is told.
async fn of_framework(framework: &str) {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (daemon, remote) = tokio::join!(daemon(), ExternalAgent::on(&stage, framework));
    let node = daemon.node().await;
    let handle = send(&node, &remote, "echo hello").await;
    let task = completed(&handle).await;
    // One framework answers by a result, the other by a message.
    let answers = task.artifacts.iter().map(Artifact::text_content);
    let mut answers = answers.chain(task.messages[1..].iter().map(Message::text_content));
    assert!(answers.any(|answer| answer == "hello"), "{task:?}");
    let failed = send(&node, &remote, "fail it broke").await;
    let error = not_completed(&failed).await;
    let task = error.task().unwrap();
    assert_eq!(task.status, TaskStatus::Failed);
    assert!(task.reason().contains("it broke"), "{}", task.reason());
    remote.script.succeed().await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_google_adk() {
    of_framework("adk").await;
}

#[tokio::test]
pub(crate) async fn an_agent_of_agent_framework() {
    of_framework("agent-framework").await;
}

/// From a stock Python agent of the mesh to a Python agent outside.
#[tokio::test]
pub(crate) async fn the_published_python_sdk_sends_by_url() {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (daemon, remote) = tokio::join!(daemon(), ExternalAgent::new(&stage, "JSONRPC", true));
    ask(&stage, "daemon", daemon.grpc(), &remote.url, &["url"]).await;
    remote.script.succeed().await;
}

/// Each piece is read when it comes, and the artifact is complete when the agent says so.
#[tokio::test]
pub(crate) async fn an_artifact_is_read_piece_by_piece() {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let daemon = daemon().await;
    let node = daemon.node().await;
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        for is_old in [false, true] {
            let remote = if is_old {
                ExternalAgent::old(&stage, binding, true).await
            } else {
                ExternalAgent::new(&stage, binding, true).await
            };
            pieces(&node, remote).await;
        }
    }
}

async fn pieces(node: &Node, mut remote: ExternalAgent) {
    let handle = send(node, &remote, "held 4").await;
    let mut read = handle.artifacts();
    let mut all = Vec::new();
    loop {
        match within("the next piece", read.next()).await.unwrap().unwrap() {
            ArtifactEvent::Chunk { data, .. } => {
                all.extend_from_slice(&data);
                let count = String::from_utf8_lossy(&all).matches(';').count();
                until(&handle, &format!("held {}", count - 1)).await;
                remote.script.tell(&json!({})).await;
            }
            ArtifactEvent::End { reason, .. } => {
                assert_eq!(reason, EndReason::Complete);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(all, b"0;1;2;3;");
    let task = completed(&handle).await;
    assert_eq!(task.artifacts[0].parts.len(), 1, "{:?}", task.artifacts);
    remote.script.succeed().await;
}

/// The daemon is killed in the middle of a stream: the task goes on, nothing is sent twice or missing.
async fn daemon_killed(remote: impl AsyncFn(&ClientEnv) -> ExternalAgent) {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (mut daemon, mut remote) = tokio::join!(daemon(), remote(&stage));
    let id = {
        let node = daemon.node().await;
        let handle = send(&node, &remote, "held 4").await;
        until(&handle, "held 0").await;
        remote.script.tell(&json!({})).await;
        until(&handle, "held 1").await;
        handle.id().to_owned()
    };
    daemon.kill().await;
    // What happens meanwhile is heard of afterwards.
    remote.script.tell(&json!({})).await;
    daemon.restart().await;
    let node = daemon.node().await;
    let handle = node.task_handle(&id);
    until(&handle, "held 2").await;
    remote.script.tell(&json!({})).await;
    until(&handle, "held 3").await;
    remote.script.tell(&json!({})).await;
    let task = completed(&handle).await;
    assert_eq!(whole_text(&task), "0;1;2;3;");
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    assert_eq!(said, ["held 4", "held 0", "held 1", "held 2", "held 3"]);
    let got = remote.script.succeed().await;
    let got = got.iter().filter(|line| line.contains("got")).count();
    assert!(got <= 1, "it was given the message {got} times");
}

#[tokio::test]
async fn a_killed_daemon_goes_on_with_an_agent_of_1_0() {
    daemon_killed(async |stage| ExternalAgent::new(stage, "JSONRPC", true).await).await;
}

#[tokio::test]
async fn a_killed_daemon_goes_on_over_grpc() {
    daemon_killed(async |stage| ExternalAgent::new(stage, "GRPC", true).await).await;
}

#[tokio::test]
async fn a_killed_daemon_goes_on_with_an_agent_of_0_3() {
    daemon_killed(async |stage| ExternalAgent::old(stage, "JSONRPC", true).await).await;
}

#[tokio::test]
async fn a_killed_daemon_goes_on_with_an_agent_of_0_3_over_rest() {
    daemon_killed(async |stage| ExternalAgent::old(stage, "HTTP+JSON", true).await).await;
}

#[tokio::test]
async fn a_killed_daemon_goes_on_without_streams() {
    daemon_killed(async |stage| ExternalAgent::new(stage, "HTTP+JSON", false).await).await;
}

/// A task that was canceled while the daemon was about to fall is canceled there when it is back.
#[tokio::test]
async fn a_cancel_outlives_the_daemon() {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (mut daemon, mut remote) = tokio::join!(daemon(), ExternalAgent::new(&stage, "JSONRPC", true));
    let node = daemon.node().await;
    let handle = send(&node, &remote, "question").await;
    until(&handle, "which one?").await;
    let id = handle.id().to_owned();
    drop((handle, node));
    daemon.stop().await;
    daemon.restart().await;
    let node = daemon.node().await;
    node.task_handle(&id).cancel().await.unwrap();
    remote.script.line_with("canceled").await;
}

/// An agent that is killed and comes back without the task: it fails, with the reason.
#[tokio::test]
async fn an_agent_that_forgets_its_tasks_fails_them() {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let (daemon, mut remote) = tokio::join!(daemon(), ExternalAgent::new(&stage, "JSONRPC", true));
    let node = daemon.node().await;
    let handle = send(&node, &remote, "held 2").await;
    until(&handle, "held 0").await;
    remote.got().await;
    let port = remote.url.rsplit_once(':').unwrap().1.to_owned();
    drop(remote);
    let again = ["JSONRPC", "streaming", &port];
    let mut again = ExternalAgent::start(&stage, "1.0", "server.py", &again).await;
    let error = not_completed(&handle).await;
    let task = error.task().unwrap();
    assert_eq!(task.status, TaskStatus::Failed);
    assert!(
        task.reason().contains("no longer knows the task"),
        "{}",
        task.reason()
    );
    // It is as good as before for the next one.
    let handle = send(&node, &again, "echo again").await;
    assert_eq!(completed(&handle).await.artifacts[0].text_content(), "again");
    assert_eq!(again.got().await["text"], "echo again");
}

/// One that does not come back: the task fails when patience is over.
#[tokio::test]
async fn an_agent_that_stays_away_fails_its_tasks() {
    let stage = ClientEnv::new(agentanycast_tests::TransportKind::Tcp);
    let config = "[bridge.outbound]\nallow_private = true\npatience = \"2s\"\n";
    let daemon = Daemon::builder().config(config).start();
    let (daemon, remote) = tokio::join!(daemon, ExternalAgent::new(&stage, "JSONRPC", true));
    let node = daemon.node().await;
    let handle = send(&node, &remote, "held 2").await;
    until(&handle, "held 0").await;
    drop(remote);
    let error = not_completed(&handle).await;
    let reason = error.task().unwrap().reason();
    assert!(reason.contains("it was not reached for 2s"), "{reason}");
}
