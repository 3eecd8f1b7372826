//! Programs of `anycast run` that are away for a moment, or do not know their skills yet: a task for such a skill waits for its
//! agent, and another agent of the node does not get it.

use std::{path::Path, time::Duration};

use agentanycast_tests::{
    Daemon, TestRelay,
    bystander::Bystander,
    cli::{anycast_json, program},
    eventually,
    gateway_pair::until_found,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// An MCP server with the tool `greet`, which lists no tools until the file `warm` is there. It writes the file `listed`
/// whenever it has listed none, and ends when the file `leave` is there.
const MCP_SERVER: &str = r#"
import json, os, sys, threading, time
def leave():
    while not os.path.exists("leave"):
        time.sleep(0.02)
    os.remove("leave")
    os._exit(0)
threading.Thread(target=leave, daemon=True).start()
greet = {"name": "greet", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/list":
        if os.path.exists("warm"):
            return {"tools": [greet]}
        open("listed", "w").close()
        return {"tools": []}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "Hello, " + params["arguments"]["name"]}]}
    return {}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// A node with another agent, which is the primary one, and a node that sends.
struct Scene {
    _relay: TestRelay,
    host: Daemon,
    sender: Daemon,
    other: Bystander,
    folder: TempDir,
}

impl Scene {
    async fn start() -> Self {
        let relay = TestRelay::builder().start().await;
        let host = Daemon::builder().known_to(&relay).start().await;
        let other = Bystander::start(&host).await;
        Self {
            sender: Daemon::builder().known_to(&relay).start().await,
            _relay: relay,
            host,
            other,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// An agent of `anycast run`. Dropping it kills the runner.
    fn run(&self, args: &[&str]) -> Child {
        let mut command = Command::new(program());
        command
            .arg("--daemon")
            .arg(self.host.grpc())
            .args(["run", "--open"])
            .args(args);
        let command = command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .kill_on_drop(true);
        command.spawn().unwrap()
    }

    async fn post(&self, skill: &str, text: &str) -> String {
        let sent = anycast_json(&self.sender, &["send", "--skill", "--no-wait", skill, text]).await;
        sent["task_id"].as_str().unwrap().to_owned()
    }

    async fn status(&self, id: &str) -> Value {
        anycast_json(&self.sender, &["task", id]).await["status"].take()
    }

    /// The text of a task's result, once it has ended.
    async fn result(&self, id: &str) -> String {
        let task = eventually("the task ends", || async {
            let task = anycast_json(&self.sender, &["task", id]).await;
            (task["status"] != "submitted" && task["status"] != "working").then_some(task)
        })
        .await;
        assert_eq!(task["status"], "completed", "{task:#}");
        let text = task["artifacts"][0]["parts"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{task:#}")).to_owned()
    }
}

async fn appears(file: &Path) {
    eventually("the file is there", || async { file.exists().then_some(()) }).await;
}

async fn kill(mut runner: Child) {
    runner.kill().await.unwrap();
}

#[tokio::test]
async fn a_task_waits_for_a_runner_that_is_restarted() {
    let scene = Scene::start().await;
    let args = ["--name", "words", "--skill", "words", "--", "wc", "-w"];
    let runner = scene.run(&args);
    until_found(&scene.sender, "words").await;
    kill(runner).await;
    let task = scene.post("words", "one two three").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.status(&task).await, "submitted");
    let _runner = scene.run(&args);
    assert_eq!(scene.result(&task).await.trim(), "3");
    assert_eq!(scene.other.tasks(), 0);
}

/// The server ends under its runner, and the runner is killed.
#[tokio::test]
async fn a_task_waits_for_an_mcp_server_that_lists_its_tools_late() {
    let scene = Scene::start().await;
    let (server, warm, listed) = (scene.path("server.py"), scene.path("warm"), scene.path("listed"));
    std::fs::write(&server, MCP_SERVER).unwrap();
    std::fs::write(&warm, "").unwrap();
    let args = ["--name", "greeter", "--mcp", "--", "python3", "-u", "server.py"];
    let runner = scene.run(&args);
    until_found(&scene.sender, "greet").await;

    std::fs::remove_file(&warm).unwrap();
    std::fs::write(scene.path("leave"), "").unwrap();
    appears(&listed).await;
    let task = scene.post("greet", "Ada").await;
    std::fs::write(&warm, "").unwrap();
    assert_eq!(scene.result(&task).await, "Hello, Ada");

    std::fs::remove_file(&warm).unwrap();
    std::fs::remove_file(&listed).unwrap();
    kill(runner).await;
    let away = scene.post("greet", "Bea").await;
    let _runner = scene.run(&args);
    appears(&listed).await;
    let late = scene.post("greet", "Cyd").await;
    std::fs::write(&warm, "").unwrap();
    assert_eq!(scene.result(&away).await, "Hello, Bea");
    assert_eq!(scene.result(&late).await, "Hello, Cyd");
    assert_eq!(scene.other.tasks(), 0);
}
