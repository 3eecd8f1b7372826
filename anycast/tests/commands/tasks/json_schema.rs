//! What each command prints with `--json` is as docs/json.schema.json says: every name in it, and no other.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{
    ABSENT_PEER, RunningCommand,
    asking_agent::{self, AskingAgent},
    command,
};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/json.schema.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Checks documents, and remembers which definitions there was one for.
struct Checker {
    schema: Value,
    seen: BTreeSet<&'static str>,
}

impl Checker {
    fn new() -> Self {
        Self {
            schema: schema(),
            seen: BTreeSet::new(),
        }
    }

    fn validator(&self, definition: &str) -> Validator {
        let mut one = self.schema.clone();
        let fields = one.as_object_mut().unwrap();
        fields.remove("anyOf");
        fields.insert("$ref".to_owned(), format!("#/$defs/{definition}").into());
        jsonschema::validator_for(&one).unwrap()
    }

    /// Each line has to be as the definition says; there is at least one.
    fn lines(&mut self, definition: &'static str, text: &[u8]) -> Vec<Value> {
        let validator = self.validator(definition);
        let text = std::str::from_utf8(text).unwrap();
        let documents: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(!documents.is_empty(), "{definition}: nothing was printed");
        for document in &documents {
            let wrong: Vec<String> = validator
                .iter_errors(document)
                .map(|error| format!("{} at {}", error, error.instance_path()))
                .collect();
            assert!(wrong.is_empty(), "{definition}: {wrong:#?}\nin {document:#}");
        }
        self.seen.insert(definition);
        documents
    }

    /// Runs a command that does not fail, and checks what it prints; its last document.
    fn prints(&mut self, home: &Path, definition: &'static str, arguments: &[&str]) -> Value {
        let output = command(home)
            .arg("--json")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        self.lines(definition, &output.stdout).pop().unwrap()
    }

    /// Runs a command that fails: its error on standard error, and on standard output that too, or its answer.
    fn fails(&mut self, home: &Path, code: i32, answer: Option<&'static str>, arguments: &[&str]) -> Value {
        let output = command(home)
            .arg("--json")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        // Warnings may come before it.
        let said = std::str::from_utf8(&output.stderr).unwrap();
        let is_warning =
            |line: &&str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["warning"].is_string());
        let (warnings, errors): (Vec<&str>, Vec<&str>) = said.lines().partition(is_warning);
        if !warnings.is_empty() {
            self.lines("warning", warnings.join("\n").as_bytes());
        }
        let error = self.lines("error", errors.join("\n").as_bytes()).pop().unwrap();
        assert_eq!(error["error"]["exit_code"], code, "{arguments:?}: {error}");
        if let Some(answer) = answer {
            self.lines(answer, &output.stdout);
        }
        error
    }
}

#[test]
fn the_schema_is_sound() {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&json!({"schema_version": 1, "task_id": "x"})));
    for wrong in [
        json!({"task_id": "x"}),
        json!({"schema_version": 2, "task_id": "x"}),
        json!("x"),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn each_command_prints_what_the_schema_says() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path();
    let other = tempfile::tempdir().unwrap();
    let mut checker = Checker::new();
    // Without a daemon.
    checker.fails(home, 3, Some("error"), &["status"]);
    checker.fails(home, 1, Some("doctor"), &["doctor"]);
    let report = home.join("report.tar.gz");
    checker.prints(home, "bugreport", &["bugreport", "-o", report.to_str().unwrap()]);

    let _daemon = RunningCommand::daemon(home);
    let agent = AskingAgent::asking(home);
    let peer = agent.peer.as_str();
    let _other = RunningCommand::start(other.path(), &["demo"]);
    let status = checker.prints(other.path(), "status", &["status"]);
    let there = status["peer_id"].as_str().unwrap().to_owned();
    let at = format!("{}/p2p/{there}", status["addresses"][0].as_str().unwrap());

    for arguments in [
        &["send", at.as_str(), "hello"][..],
        &["send", &at, "hello", "--stream"],
    ] {
        let output = command(home).arg("--json").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let definition = if arguments.contains(&"--stream") {
            "event"
        } else {
            "task"
        };
        checker.lines(definition, &output.stdout);
    }
    checker.prints(home, "status", &["status"]);
    checker.prints(home, "id", &["id"]);
    checker.prints(home, "peers", &["peers"]);
    checker.prints(home, "network", &["relays"]);
    checker.prints(home, "card", &["card"]);
    checker.prints(home, "card", &["card", &there]);
    checker.prints(home, "ping", &["ping", &there, "-c", "1"]);
    checker.prints(home, "doctor", &["doctor"]);
    let tasks = checker.prints(home, "tasks", &["tasks"]);
    let done = tasks[0]["task_id"].as_str().unwrap();
    checker.prints(home, "task", &["task", done]);
    checker.prints(home, "trace", &["trace", done]);
    checker.prints(home, "task", &["retry", done]);
    let sent = checker.prints(home, "sent", &["send", ABSENT_PEER, "hello", "--no-wait"]);
    let waits = sent["task_id"].as_str().unwrap();
    checker.prints(home, "trace", &["trace", waits]);
    checker.prints(home, "top", &["top", "--once", "--interval", "100ms"]);
    let canceled = checker.prints(home, "task_summary", &["cancel", waits]);
    assert_eq!(canceled["task_id"], waits);

    let error = checker.fails(home, 7, Some("task"), &["send", peer, "ask"]);
    let asking = error["error"]["task_id"].as_str().unwrap();
    checker.prints(home, "task", &["reply", asking, "blue"]);
    checker.fails(
        home,
        5,
        Some("error"),
        &["send", ABSENT_PEER, "hello", "--timeout", "200ms"],
    );
    checker.fails(home, 4, Some("error"), &["task", "no-such-task"]);
    checker.fails(home, 4, Some("error"), &["send", "nobody", "hello"]);
    // Before anything is known of what is wanted.
    for arguments in [
        &["send"][..],
        &["no-such-command"],
        &["tasks", "--limit", "x"],
        &[],
    ] {
        let error = checker.fails(home, 2, None, arguments);
        assert_eq!(error["error"]["kind"], "Usage", "{error}");
    }
    // A connected peer has it, and no registry is needed.
    checker.prints(home, "discover", &["discover", "echo"]);
    checker.fails(home, 4, Some("discover"), &["discover", "no-such-skill"]);

    // Names, and who is known.
    agents_and_access(&mut checker, home, other.path());
    checker.prints(home, "skills", &["skills"]);
    checker.prints(home, "alias", &["alias", "add", "there", &there]);
    checker.prints(home, "aliases", &["alias", "ls"]);
    checker.prints(home, "task", &["send", "there", "hello"]);
    checker.prints(home, "aliases", &["alias", "rm", "there"]);
    let invite = checker.prints(other.path(), "invite", &["invite"]);
    checker.prints(other.path(), "invites", &["invite", "ls"]);
    checker.prints(home, "join", &["join", invite["invite"].as_str().unwrap()]);
    let id = invite["id"].as_str().unwrap();
    checker.prints(other.path(), "invites", &["invite", "revoke", id]);
}

/// The agents of a home, and who may use them: the other home is connected, and asks.
fn agents_and_access(checker: &mut Checker, home: &Path, other: &Path) {
    let [here, there] = [home, other].map(|home| checker.prints(home, "id", &["id"])["peer_id"].clone());
    let (here, there) = (here.as_str().unwrap(), there.as_str().unwrap());
    asking_agent::register(home, &["gone"]);
    checker.prints(home, "agents", &["agents"]);
    let removed = checker.prints(home, "agent_removed", &["agents", "rm", "self/gone"]);
    assert_eq!(removed["removed"], "gone");
    checker.fails(home, 4, Some("error"), &["agents", "rm", "gone"]);
    let programs = checker.prints(home, "programs", &["ps"]);
    assert_eq!(programs["programs"][0]["kind"], "sdk");
    asking_agent::register(home, &["kept"]);
    checker.prints(home, "agent_access", &["agents", "set", "kept", "--private"]);
    let refused = command(other)
        .args(["send", &format!("{here}/kept"), "hello"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let requests = checker.prints(home, "requests", &["requests"]);
    let request = requests[0]["id"].as_str().unwrap();
    checker.prints(home, "trust", &["trust", "--request", request]);
    checker.prints(home, "trusts", &["trust", "ls"]);
    checker.prints(home, "policy_show", &["policy", "show"]);
    checker.prints(home, "untrust", &["untrust", there]);
}

#[test]
fn what_is_said_of_files_is_as_the_schema_says() {
    let root = home_with_rules();
    let home = root.path();
    let mut checker = Checker::new();
    let pages = home.join("man");
    checker.prints(home, "manual", &["man", "--output", pages.to_str().unwrap()]);
    assert!(pages.join("anycast-policy-check.1").is_file());
    checker.prints(
        home,
        "manual",
        &["completions", "--output", pages.to_str().unwrap()],
    );
    checker.prints(home, "policy_show", &["policy", "show"]);
    checker.prints(home, "policy_check", &["policy", "check", "--source", "local"]);
    checker.fails(
        home,
        1,
        Some("policy_check"),
        &["policy", "check", "--source", ABSENT_PEER],
    );
    let log = home.join("audit.jsonl");
    fs::write(&log, "").unwrap();
    checker.prints(home, "audit_verify", &["audit", "verify", log.to_str().unwrap()]);
    drop(RunningCommand::daemon(home));
    checker.prints(home, "key_rotate", &["key", "rotate"]);
    let id = checker.prints(home, "id", &["id"]);
    let subject = id["did_key"].as_str().unwrap();
    let issued = command(home)
        .args([
            "credential",
            "issue",
            "--subject",
            subject,
            "--capability",
            "echo",
        ])
        .output()
        .unwrap();
    assert!(issued.status.success(), "{issued:?}");
    let credential: Value = serde_json::from_slice(&issued.stdout).unwrap();
    assert!(
        credential.get("schema_version").is_none(),
        "it is signed as it is: {credential}"
    );
    let file = home.join("credential.json");
    fs::write(&file, &issued.stdout).unwrap();
    checker.prints(
        home,
        "credential_verify",
        &["credential", "verify", file.to_str().unwrap()],
    );
}

fn home_with_rules() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("home")).unwrap();
    let rules = "[[policy.acl]]\nsource = 'local'\nallow = true\n";
    fs::write(root.path().join("home/config.toml"), rules).unwrap();
    root
}

#[test]
fn what_is_said_of_a_daemon_in_the_background_is_as_the_schema_says() {
    let root = home_with_rules();
    let home = root.path();
    let mut checker = Checker::new();
    checker.prints(home, "config_get", &["config", "get", "log_level"]);
    checker.prints(home, "config_change", &["config", "set", "log_level", "debug"]);
    checker.prints(home, "config_change", &["config", "unset", "log_level"]);
    checker.prints(home, "up", &["up", "--listen", "/ip4/127.0.0.1/tcp/0"]);
    checker.prints(home, "up", &["restart"]);
    checker.prints(home, "log_line", &["logs", "-n", "20"]);
    checker.prints(home, "down", &["down"]);
    checker.fails(home, 3, Some("error"), &["down"]);
}

#[test]
fn the_runner_prints_what_the_schema_says() {
    let root = tempfile::tempdir().unwrap();
    let _daemon = RunningCommand::daemon(root.path());
    let mut process = command(root.path())
        .args(["--json", "run", "--name", "worker", "--", "true"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let id = process.id().to_string();
    std::process::Command::new("kill").arg(id).status().unwrap();
    assert!(process.wait().unwrap().success());
    Checker::new().lines("run_start", line.as_bytes());
}

#[test]
fn the_demo_prints_what_the_schema_says() {
    let root = tempfile::tempdir().unwrap();
    let mut checker = Checker::new();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"))
        .env_clear()
        .env("HOME", root.path())
        .args(["--json", "demo", "--pair"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    checker.lines("demo_pair", &output.stdout);
}
