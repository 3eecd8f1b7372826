//! What can be tried without a daemon: help, usage errors, the exit codes that scripts rely on; and the
//! README's first command, which brings its own daemons.

use assert_cmd::Command;

fn anycast(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    // A home without a daemon: cargo makes this directory, nothing else is in it.
    command
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(arguments)
        .assert()
}

fn stdout(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    let help = stdout(&anycast(&["--help"]).success());
    for word in [
        "demo",
        "send",
        "status",
        "peers",
        "relays",
        "card",
        "tasks",
        "task",
        "cancel",
        "id",
        "daemon",
        "Exit codes",
        "time-out",
    ] {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(stdout(&anycast(&["send", "--help"]).success()).contains("Exit codes"));
}

#[test]
fn usage_errors_end_with_2() {
    anycast(&[]).code(2);
    anycast(&["send"]).code(2);
    anycast(&["send", "x", "y", "--skill", "--url"]).code(2);
    anycast(&["send", "x", "y", "--timeout", "soon"]).code(2);
    anycast(&["demo", "--pair", "--home", "/nowhere"]).code(2);
    // Whose rules they are would not be known.
    anycast(&["policy", "show", "--daemon", "unix:///nowhere"]).code(2);
    anycast(&["task"]).code(2);
    anycast(&["task", "x", "--timeout", "5s"]).code(2);
    anycast(&["cancel", ""]).code(2);
}

#[test]
fn a_wrong_target_is_named_before_a_daemon_is_started() {
    let failed = anycast(&["send", "nobody", "hello"]).code(2);
    assert!(stderr(&failed).contains("\"nobody\""), "{}", stderr(&failed));
    anycast(&["send", "/ip4/192.0.2.1/tcp/1", "hello"]).code(2);
    anycast(&["card", "did:key:zzz"]).code(2);
}

#[test]
fn a_missing_file_is_named() {
    let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    let failed = anycast(&["send", peer, "@/nowhere/file"]).code(2);
    assert!(stderr(&failed).contains("/nowhere/file"), "{}", stderr(&failed));
}

#[test]
fn without_a_daemon_status_says_how_to_start_one() {
    let failed = anycast(&["status"]).code(3);
    assert!(stderr(&failed).contains("anycast daemon"), "{}", stderr(&failed));
    let failed = anycast(&["status", "--home", "/nowhere"]).code(3);
    assert!(
        stderr(&failed).contains("anycast --home /nowhere daemon"),
        "{}",
        stderr(&failed)
    );
    let failed = anycast(&["--json", "status"]).code(3);
    let document: serde_json::Value = serde_json::from_str(&stdout(&failed)).expect("JSON");
    assert_eq!(document["error"]["kind"], "DaemonUnavailable");
}

#[test]
fn demo_pair_shows_a_task_answered() {
    let text = stdout(&anycast(&["demo", "--pair"]).success());
    for word in ["daemon A", "daemon B", "direct", "completed", "echo: Hello"] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

/// As whoever types a command as root beside a daemon that has a user of its own.
#[test]
fn a_daemon_of_another_user_is_said_to_be_one() {
    use std::os::unix::{fs::chown, net::UnixListener};
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("daemon.sock");
    drop(UnixListener::bind(&socket).unwrap());
    if chown(&socket, Some(65_534), None).is_err() {
        println!("NOT CHECKED: only root can give a socket to another user");
        return;
    }
    let address = format!("unix://{}", socket.display());
    for args in [
        ["--daemon", &address, "status"],
        ["--home", home.path().to_str().unwrap(), "status"],
    ] {
        let said = stderr(&anycast(&args).code(3));
        assert!(said.contains("sudo -u '#65534'"), "{said}");
    }
}

#[test]
fn a_pipe_is_no_audit_log_and_a_hash_has_64_digits() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let refused = anycast(&["audit", "verify", pipe.to_str().unwrap()]).code(1);
    assert!(
        stderr(&refused).contains("is no regular file"),
        "{}",
        stderr(&refused)
    );
    let log = home.path().join("audit.jsonl");
    std::fs::write(&log, "").unwrap();
    for hash in ["zz", &"g".repeat(64), &"0".repeat(63)] {
        let refused = anycast(&["audit", "verify", "--before", hash, log.to_str().unwrap()]).code(2);
        assert!(stderr(&refused).contains("64 hex digits"), "{}", stderr(&refused));
    }
    anycast(&[
        "audit",
        "verify",
        "--before",
        &"0".repeat(64),
        log.to_str().unwrap(),
    ])
    .code(1);
}
