//! Agents that the daemon itself serves: `[[agents.run]]`, `[[agents.mcp]]` and `--mcp-proxy`.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use agentanycast::{AgentProgram, Target, Task, TaskHandle, TaskStatus};

use super::{Host, all_gone, ended, fs, processes, until};
use crate::homes::{RunningCommand, document};

const MCP_SERVER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../runner/tests/backends/mcp_server.py"
);

const JSON_LINES: &str = r#"
import json, sys
for line in sys.stdin:
    task = json.loads(line)
    if task["type"] == "task":
        print(json.dumps({"type": "result", "id": task["id"], "text": task["text"].upper()}), flush=True)
"#;

fn write_settings(root: &Path, toml: &str) {
    fs::create_dir_all(root.join("home")).unwrap();
    fs::write(root.join("home/config.toml"), toml).unwrap();
}

impl Host {
    /// A host whose daemon has these settings, in which `{root}` is the directory of the test, and these flags.
    fn configured(toml: &str, flags: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let toml = toml.replace("{root}", &root.path().display().to_string());
        write_settings(root.path(), &toml);
        let mut arguments = vec!["daemon", "--listen=/ip4/127.0.0.1/tcp/0"];
        arguments.extend(flags);
        let daemon = RunningCommand::start(root.path(), &arguments);
        Self::with_daemon(root, daemon)
    }

    fn programs(&self) -> Vec<AgentProgram> {
        self.runtime.block_on(self.node.agent_programs()).unwrap()
    }

    /// The program of an agent, when it serves it.
    fn serving(&self, agent: &str) -> AgentProgram {
        let find = || {
            let mut programs = self.programs().into_iter();
            programs.find(|program| program.agent == agent && program.error.is_empty() && !program.starting)
        };
        until("the agent is served", || find().is_some());
        find().unwrap()
    }

    fn ask_agent(&self, agent: &str, message: &str) -> TaskHandle {
        self.runtime.block_on(async {
            let peer = self.node.info().await.unwrap().peer_id.unwrap();
            let task = self.node.task(Target::Peer(peer), message);
            task.agent(agent).send().await.unwrap()
        })
    }

    fn ask_skill(&self, skill: &str, message: &str) -> Task {
        let sent = async {
            let task = self.node.task(Target::Skill(skill.to_owned()), message);
            task.send().await.unwrap()
        };
        let handle = self.runtime.block_on(sent);
        self.halted(&handle)
    }
}

fn completed(text: &str) -> (TaskStatus, String) {
    (TaskStatus::Completed, text.to_owned())
}

#[test]
fn the_daemon_serves_the_agents_of_its_settings() {
    let settings = format!(
        r#"
[[agents.run]]
name = "count"
description = "Counts words"
skills = ["count=Counts the words of a text"]
command = ["sh", "-c", "wc -w; echo $COLOUR $PWD"]
env = {{ COLOUR = "red" }}
cwd = "/tmp"

[[agents.run]]
name = "upper"
protocol = "jsonl"
command = ["python3", "-c", '''{JSON_LINES}''']

[[agents.mcp]]
name = "tools"
command = ["python3", "-u", "{MCP_SERVER}"]
"#
    );
    let proxy = format!("--mcp-proxy=python3 -u '{MCP_SERVER}'");
    let host = Host::configured(&settings, &[&proxy]);
    for agent in ["count", "upper", "tools", "mcp-proxy"] {
        assert!(host.serving(agent).in_daemon);
    }
    let kinds: Vec<_> = host
        .programs()
        .iter()
        .map(|program| (program.agent.clone(), program.kind.clone()))
        .collect();
    let expected = [
        ("count", "program"),
        ("mcp-proxy", "mcp"),
        ("tools", "mcp"),
        ("upper", "jsonl"),
    ];
    assert_eq!(
        kinds,
        expected.map(|(agent, kind)| (agent.to_owned(), kind.to_owned()))
    );

    let counted = host.ask_skill("count", "one two three");
    assert_eq!(ended(&counted), completed("3\nred /tmp\n"));
    assert_eq!(
        ended(&host.halted(&host.ask_agent("upper", "quiet"))),
        completed("QUIET")
    );
    assert_eq!(ended(&host.ask_skill("greet", "Ada")), completed("Hello, Ada!"));
    let asked = host.ask_agent("mcp-proxy", "Ada");
    let (status, reason) = ended(&host.halted(&asked));
    assert!(
        status == TaskStatus::Failed && reason.contains("greet"),
        "{reason}"
    );

    let shown = document(host.root.path(), &["ps"]);
    let shown = &shown["programs"][0];
    assert_eq!(
        (&shown["agent"], &shown["in_daemon"], &shown["error"]),
        (&"count".into(), &true.into(), &"".into())
    );
    assert!(
        shown["command"].as_str().unwrap().starts_with("sh -c wc -w"),
        "{shown}"
    );
}

#[test]
fn an_agent_that_cannot_be_served_is_shown_and_tried_again() {
    let host = Host::configured(
        r#"
[[agents.mcp]]
name = "late"
command = ["{root}/late.sh"]

[[agents.run]]
name = "there"
command = ["cat"]
"#,
        &[],
    );
    host.serving("there");
    let failed = || {
        host.programs()
            .into_iter()
            .find(|program| program.agent == "late" && !program.error.is_empty())
    };
    until("the failure is told", || failed().is_some());
    let failed = failed().unwrap();
    assert!(
        failed.error.contains("late.sh") && failed.next_start.is_some() && failed.in_daemon,
        "{failed:?}"
    );

    let status = document(host.root.path(), &["status"]);
    assert!(
        status["problems"]
            .to_string()
            .contains("the agent late of the settings cannot be served"),
        "{status}"
    );
    let script = host.path("late.sh");
    fs::write(&script, format!("#!/bin/sh\nexec python3 -u {MCP_SERVER}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    host.serving("late");
    assert_eq!(ended(&host.ask_skill("greet", "Bob")), completed("Hello, Bob!"));
}

/// A program that runs ends with its daemon, and its task is failed by the next one, or given again where `retry` says so.
#[test]
fn kill_9_of_the_daemon_ends_its_programs_and_tells_what_became_of_the_tasks() {
    let settings = r#"
[[agents.run]]
name = "once"
command = ["sh", "-c", "echo $$ >> {root}/pids; sleep 600"]

[[agents.run]]
name = "again"
retry = 1
command = ["sh", "-c", "echo $$ >> {root}/pids; test $ANYCAST_ATTEMPT = 2 || sleep 600; echo attempt $ANYCAST_ATTEMPT"]
"#;
    let mut host = Host::configured(settings, &[]);
    host.serving("once");
    host.serving("again");
    let (once, again) = (host.ask_agent("once", "x"), host.ask_agent("again", "x"));
    let started = processes(&host.path("pids"), 2);
    let mut daemon = host.daemon.take().unwrap();
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    until("the programs are gone", || all_gone(&started));

    host.daemon = Some(RunningCommand::daemon(host.root.path()));
    let (status, reason) = ended(&host.halted(&once));
    assert!(
        status == TaskStatus::Failed && reason.contains("the runner ended while the program ran"),
        "{reason}"
    );
    assert_eq!(ended(&host.halted(&again)), completed("attempt 2\n"));
}

/// On SIGTERM what runs may end within the drain time.
#[test]
fn a_daemon_that_is_told_to_end_lets_its_programs_finish() {
    let settings = r#"
[[agents.run]]
name = "slow"
drain = "8s"
command = ["sh", "-c", "echo $$ >> {root}/pids; sleep 1; echo done"]
"#;
    let mut host = Host::configured(settings, &[]);
    host.serving("slow");
    let task = host.ask_agent("slow", "x");
    processes(&host.path("pids"), 1);
    let mut daemon = host.daemon.take().unwrap();
    let id = daemon.process.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .arg(id)
            .status()
            .unwrap()
            .success()
    );
    daemon.process.wait().unwrap();
    host.daemon = Some(RunningCommand::daemon(host.root.path()));
    assert_eq!(ended(&host.halted(&task)), completed("done\n"));
}
