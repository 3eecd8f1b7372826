//! A task looked at, waited for and canceled from the command line, with real daemons.

mod access;
mod asking_agent;
mod bugreport;
mod colours;
mod doctor;
mod files;
mod hints;
mod job_control;
mod json_schema;
mod own_agents;
mod ping;
mod run;
mod send_and_reply;
mod terminal;
mod terminal_and_pipe;
mod terminal_waits;
mod typing;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::homes::{RunningCommand, command, document, run};

/// A peer that nobody is.
const ABSENT_PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

#[test]
fn a_task_that_waits_for_its_peer_is_seen_and_canceled() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let (text, code) = run(home, &["send", ABSENT_PEER, "hello", "--timeout", "300ms"]);
    assert_eq!(code, Some(5), "{text}");
    let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    assert!(text.contains(&id), "{text}");

    let (text, code) = run(home, &["task", &id]);
    assert_eq!(code, Some(0), "{text}");
    for word in [id.as_str(), "submitted", ABSENT_PEER, "hello"] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    let (text, code) = run(home, &["task", &id, "--wait", "--timeout", "200ms"]);
    assert_eq!(code, Some(5), "{text}");

    let (text, code) = run(home, &["cancel", &id]);
    assert_eq!(
        (text.trim(), code),
        (format!("task {id} canceled").as_str(), Some(0))
    );
    assert_eq!(document(home, &["task", &id])["status"], "canceled");
    let (text, code) = run(home, &["task", &id, "--wait"]);
    assert!(code == Some(1) && text.contains("canceled"), "{code:?}: {text}");
    assert_eq!(run(home, &["task", "no-such-task"]).1, Some(4));
    assert_eq!(run(home, &["cancel", "no-such-task"]).1, Some(4));
}

#[test]
fn what_came_out_is_shown_again() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _daemon = RunningCommand::daemon(here.path());
    let _agent = RunningCommand::start(there.path(), &["demo"]);
    let status = document(there.path(), &["status"]);
    let address = status["addresses"][0].as_str().unwrap();
    let peer = status["peer_id"].as_str().unwrap();
    let target = if address.contains("/p2p/") {
        address.to_owned()
    } else {
        format!("{address}/p2p/{peer}")
    };
    let (text, code) = run(here.path(), &["send", &target, "good morning"]);
    assert_eq!(code, Some(0), "{text}");
    let id = document(here.path(), &["tasks"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let (text, code) = run(here.path(), &["task", &id, "--wait"]);
    assert_eq!(code, Some(0), "{text}");
    for word in ["completed", "user", peer] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    assert_eq!(
        text.matches("good morning").count(),
        2,
        "what was said and what came out:\n{text}"
    );
    // Too late.
    let (text, code) = run(here.path(), &["cancel", &id]);
    assert!(code == Some(1) && text.contains("COMPLETED"), "{code:?}: {text}");
}

/// As `anycast card | head` with a `head` that has read enough: the code of SIGPIPE, and not a word.
#[test]
fn a_closed_standard_output_ends_commands_with_a_daemon_alike() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _agent = RunningCommand::start(home, &["demo"]);
    let status = document(home, &["status"]);
    let peer = status["peer_id"].as_str().unwrap();
    let (text, code) = run(home, &["send", peer, "hello"]);
    assert_eq!(code, Some(0), "{text}");
    let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
    let closed = |arguments: &[&str], input: &str| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = command(home)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may have ended by now.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for arguments in [
        &["card"][..],
        &["--json", "card"],
        &["id"],
        &["status"],
        &["tasks"],
        &["task", &id],
        &["trace", &id],
        &["relays"],
        &["send", peer, "hello"],
        &["top", "--once", "--interval=100ms"],
        &["--json", "top", "--interval=100ms"],
    ] {
        assert_eq!(closed(arguments, ""), (Some(141), String::new()), "{arguments:?}");
    }
    // A task's URL may have no user; the refusal does not repeat the password.
    let (text, code) = run(home, &["--json", "send", "--url", "http://u:secret@h/", "hello"]);
    assert!(
        code == Some(2) && text.contains("http://***@h/"),
        "{code:?}: {text}"
    );
    // A server whose client has ended has done what it was there for.
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    assert_eq!(
        closed(&["mcp"], &format!("{initialize}\n")),
        (Some(0), String::new())
    );
}

/// An agent over HTTP that answers every message by a message, without a task; its URL.
fn messenger() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shown = url.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream, &shown);
        }
    });
    url
}

/// Answers one request for its card, or one message.
fn answer(mut stream: TcpStream, url: &str) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = match serde_json::from_slice::<Value>(&body) {
        Err(_) => json!({
            "name": "Messenger", "description": "", "version": "1", "capabilities": {}, "skills": [],
            "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        }),
        Ok(call) => json!({"jsonrpc": "2.0", "id": call["id"], "result": {"message": {
            "messageId": "said", "role": "ROLE_AGENT",
            "parts": [{"text": "no task"}, {"raw": "aGk=", "filename": "hi.bin", "mediaType": "a/b"}],
        }}}),
    };
    let body = body.to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    write!(
        stream,
        "HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n{body}"
    )
    .ok()
}

#[test]
fn an_agent_that_answers_by_a_message_alone_is_heard() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "[bridge.outbound]\nallow_private = true\n").unwrap();
    let config = config.to_str().unwrap();
    let _daemon = RunningCommand::start(
        home.path(),
        &["daemon", "--listen=/ip4/127.0.0.1/tcp/0", "--config", config],
    );
    let url = messenger();
    let (text, code) = run(home.path(), &["send", "--url", &url, "hello"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("no task\n[message: a/b, 2 bytes"), "{text}");
    let output = home.path().join("out");
    let output = output.to_str().unwrap();
    let (text, _) = run(home.path(), &["send", "--url", &url, "hello", "--output", output]);
    assert!(text.contains("hi.bin"), "{text}");
    assert_eq!(std::fs::read(home.path().join("out/hi.bin")).unwrap(), b"hi");
}

/// The rules in a home are those of the daemon that is started with it, however that is done, and those that are asked about.
#[test]
fn a_home_has_the_settings_of_its_daemon() {
    const RULES: &str = "[[policy.acl]]\nsource = 'local'\nallow = false\n";
    let (own, shared) = ("home/config.toml", ".agentanycast/config.toml");
    for (file, start) in [(own, "daemon"), (own, "demo"), (shared, "daemon")] {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let rules = root.join(file);
        std::fs::create_dir_all(rules.parent().unwrap()).unwrap();
        std::fs::write(&rules, RULES).unwrap();
        // What a home says for itself wins.
        if file == own {
            std::fs::create_dir_all(root.join(".agentanycast")).unwrap();
            std::fs::write(root.join(shared), "").unwrap();
        }
        let _running = match start {
            "daemon" => RunningCommand::daemon(root),
            demo => RunningCommand::start(root, &[demo]),
        };
        let (text, code) = run(root, &["send", ABSENT_PEER, "hello", "--timeout", "5s"]);
        assert_eq!(code, Some(1), "{start} {file}: {text}");
        assert!(text.contains("acl 1"), "{start} {file}: {text}");
        let check = ["policy", "check", "--source", "local"];
        let answer = document(root, &check);
        assert_eq!(answer["decision"], "deny", "{answer}");
        assert_eq!(answer["settings"], rules.to_str().unwrap(), "{answer}");
    }
}
