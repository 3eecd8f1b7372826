//! MCP servers, agents of the Agent Client Protocol and HTTP services as agents, by stand-ins of them in Python.

use std::io::{BufRead as _, BufReader};

use agentanycast::{Message, Target, Task, TaskHandle, TaskStatus};
use serde_json::json;

use super::{AgentRun, Command, Host, Stdio, all_gone, ended, fs, processes, until};
use crate::homes::command;

const MCP_SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../runner/tests/backends/mcp_server.py"
);
const ACP_AGENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../runner/tests/backends/acp_agent.py"
);

/// A service that is posted to, and a model, on a port of its own.
const SERVICE: &str = r#"
import http.server, json

class Service(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/v1/chat/completions":
            request = json.loads(body)
            count = len(request["messages"])
            texts = [f"{request['model']} heard ", f"{count} messages with {self.headers['authorization']}"]
            events = [{"choices": [{"delta": {"content": text}}]} for text in texts]
            events.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            text, kind = "".join(f"data: {json.dumps(event)}\n\n" for event in events), "text/event-stream"
        else:
            text, kind = f"{self.headers['x-anycast-skill']} of {body}", "text/plain"
        self.send_response(418 if body == "teapot" else 200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

impl Host {
    /// A task in a conversation, for a skill of this node.
    fn ask(&self, skill: &str, context: &str, message: &str) -> TaskHandle {
        self.runtime.block_on(async {
            let task = self.node.task(Target::Skill(skill.to_owned()), message);
            task.context_id(context).send().await.unwrap()
        })
    }

    fn answered(&self, skill: &str, context: &str, message: &str) -> Task {
        self.halted(&self.ask(skill, context, message))
    }
}

fn completed(text: &str) -> (TaskStatus, String) {
    (TaskStatus::Completed, text.to_owned())
}

#[test]
fn the_tools_of_an_mcp_server_are_skills() {
    let host = Host::start();
    let _run = host.run(&["--mcp"], &["python3", "-u", MCP_SERVER]);
    let agents = command(host.root.path())
        .args(["--json", "agents"])
        .output()
        .unwrap();
    let agents = String::from_utf8(agents.stdout).unwrap();
    assert!(
        agents.contains("\"greet\"") && agents.contains("does picture"),
        "{agents}"
    );

    assert_eq!(
        ended(&host.answered("greet", "c", "Ada")),
        completed("Hello, Ada!")
    );
    let sum = host.answered("add", "c", r#"{"a": 1, "b": 2}"#);
    assert_eq!(sum.artifacts[0].parts[0].as_data().unwrap()["sum"], 3);
    let (status, reason) = ended(&host.answered("add", "c", "one and two"));
    assert!(
        status == TaskStatus::Failed && reason.contains("input schema"),
        "{reason}"
    );
    assert_eq!(
        ended(&host.answered("fail", "c", "")).1,
        "it is closed on Sundays"
    );

    host.answered("change", "c", "");
    until("the new tool is a skill", || {
        let agents = command(host.root.path()).args(["agents"]).output().unwrap();
        String::from_utf8(agents.stdout).unwrap().contains(" new")
    });
    assert_eq!(ended(&host.answered("new", "c", "")), completed("I am new"));

    let canceled = host.path("canceled");
    let slow = host.ask("slow", "c", &json!({ "file": canceled }).to_string());
    until("the tool runs", || host.now(&slow).status_message.is_some());
    host.cancel(&slow);
    until("the tool is cancelled", || {
        fs::read(&canceled).is_ok_and(|text| text == b"cancelled")
    });
}

#[test]
fn an_acp_agent_asks_the_sender_and_knows_its_sessions_after_a_restart() {
    let host = Host::start();
    let (memory, pids) = (host.path("memory.json"), host.path("pids"));
    let pids_variable = format!("PIDS={}", pids.display());
    let options = ["--skill", "code", "--env", &pids_variable, "--acp"];
    let program = ["python3", "-u", ACP_AGENT, "load", memory.to_str().unwrap()];
    let run = host.run(&options, &program);

    let asking = host.ask("code", "talk", "permit edit");
    let question = host.halted(&asking);
    assert_eq!(question.status, TaskStatus::InputRequired);
    let asked = question.status_message.unwrap();
    let options_of = asked.parts.iter().find_map(|part| part.as_data()).unwrap();
    assert_eq!(
        options_of["permission"]["options"][1]["optionId"],
        "the-allow_once"
    );
    host.answer(&asking, Message::from("yes"));
    assert_eq!(ended(&host.halted(&asking)), completed("the-allow_once"));

    // The agent ends with its runner, whatever ends that.
    let agent = processes(&pids, 1);
    run.kill();
    until("the agent is gone", || all_gone(&agent));

    let _run = host.run(&options, &program);
    let history = host.answered("code", "talk", "history");
    assert_eq!(ended(&history), completed("permit edit|history"));
    assert_eq!(
        ended(&host.answered("code", "other", "history")),
        completed("history")
    );
    let (status, reason) = ended(&host.answered("code", "other", "run ls"));
    assert!(
        status == TaskStatus::Completed && reason.contains("--terminal"),
        "{reason}"
    );
}

#[test]
fn an_http_service_and_a_model_are_agents() {
    let host = Host::start();
    let mut service = Command::new("python3")
        .args(["-u", "-c", SERVICE])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let mut said = BufReader::new(service.stdout.take().unwrap());
    said.read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}", port.trim());

    let run = AgentRun::start(host.root.path(), &["--skill", "sum", "--http", &url], &[]);
    assert_eq!(
        ended(&host.answered("sum", "c", "1 and 2")),
        completed("sum of 1 and 2")
    );
    let (status, reason) = ended(&host.answered("sum", "c", "teapot"));
    assert!(status == TaskStatus::Failed && reason.contains("418"), "{reason}");
    run.end();

    let url = format!("{url}/v1");
    let model = [
        "--skill",
        "chat",
        "--http",
        &url,
        "--style",
        "openai",
        "--model",
        "small",
        "--api-key-env",
        "PATH",
    ];
    let _run = AgentRun::start(host.root.path(), &model, &[]);
    for count in [1, 3] {
        let (status, answer) = ended(&host.answered("chat", "c", "hello"));
        assert_eq!(status, TaskStatus::Completed, "{answer}");
        assert!(
            answer.starts_with(&format!("small heard {count} messages with Bearer ")),
            "{answer}"
        );
    }
    service.kill().unwrap();
    service.wait().unwrap();
}

/// A service that is started at the same time as its runner, and is slower.
#[test]
fn a_service_that_comes_late_is_waited_for() {
    let host = Host::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut agent = command(host.root.path())
        .args([
            "--no-start",
            "run",
            "--name",
            "late",
            "--http",
            &format!("http://{address}/"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut warned = String::new();
    std::io::BufReader::new(agent.stderr.take().unwrap())
        .read_line(&mut warned)
        .unwrap();
    assert!(
        warned.contains("waiting") && warned.contains(&address.to_string()),
        "{warned}"
    );
    let service = std::net::TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for connection in service.incoming() {
            use std::io::{Read as _, Write as _};
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let mut said = std::io::BufReader::new(agent.stdout.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("late"));
    assert_eq!(
        said.next().unwrap().unwrap(),
        format!(
            "Try it: anycast --home {} send self/late \"hello\"",
            host.root.path().join("home").display()
        )
    );
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let home = tempfile::tempdir().unwrap();
    for (options, reason) in [
        (&["--mcp", "--acp", "--", "x"][..], "cannot be used with"),
        (
            &["--acp", "--protocol", "jsonl", "--", "x"],
            "cannot be used with",
        ),
        (&["--permit", "all", "--", "x"], "--acp"),
        (&["--style", "post", "--", "x"], "--http"),
    ] {
        let refused = command(home.path())
            .args(["--no-start", "run", "--name", "x"])
            .args(options)
            .output()
            .unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.status.code() == Some(2) && said.contains(reason),
            "{options:?}: {said}"
        );
    }
}
