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
        "up",
        "down",
        "restart",
        "logs",
        "config",
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
fn the_schema_of_the_settings_is_printed_for_people_and_on_one_line() {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let [lines, one] = [&["config", "schema"][..], &["config", "schema", "--json"]]
        .map(|args| stdout(&anycast(args).success()));
    assert!(lines.lines().count() > 100 && one.lines().count() == 1);
    assert_eq!(read(&lines), read(&one));
    let level = &read(&one)["properties"]["log_level"];
    assert_eq!(level["default"], "info", "{level}");
    assert!(jsonschema::draft202012::meta::is_valid(&read(&one)));
}

#[test]
fn a_wrong_target_is_named_before_a_daemon_is_started() {
    let failed = anycast(&["send", "nobody", "hello"]).code(4);
    assert!(stderr(&failed).contains("\"nobody\""), "{}", stderr(&failed));
    anycast(&["send", "http://192.0.2.1/", "hello"]).code(2);
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
    assert!(stderr(&failed).contains("`anycast up`"), "{}", stderr(&failed));
    let failed = anycast(&["status", "--home", "/nowhere"]).code(3);
    assert!(
        stderr(&failed).contains("anycast --home /nowhere up"),
        "{}",
        stderr(&failed)
    );
    let failed = anycast(&["--json", "status"]).code(3);
    let document: serde_json::Value = serde_json::from_str(&stdout(&failed)).expect("JSON");
    assert_eq!(document["error"]["kind"], "DaemonUnavailable");
}

#[test]
fn completions_and_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&anycast(&["completions", shell]).success()).contains("bugreport"),
            "{shell}"
        );
    }
    assert!(stdout(&anycast(&["man"]).success()).contains(".TH"));
    assert!(stdout(&anycast(&["man", "policy", "check"]).success()).contains("vouched"));
    anycast(&["man", "no-such-command"]).code(2);
    anycast(&["completions", "no-such-shell"]).code(2);
    anycast(&["completions"]).code(2);
}

/// As packages carry them, of all programs that this one is.
#[test]
fn completions_and_pages_of_all_programs_are_written() {
    let root = tempfile::tempdir().unwrap();
    let place = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    for (command, files) in [
        (
            "man",
            &[
                "anycast.1",
                "anycast-policy-check.1",
                "agentanycastd.1",
                "agentanycast-relay.1",
                "agentanycast-bridge.1",
            ][..],
        ),
        (
            "completions",
            &[
                "anycast.bash",
                "_agentanycastd",
                "agentanycast-relay.fish",
                "agentanycast-bridge.bash",
            ],
        ),
    ] {
        anycast(&[command, "--output", &place(command)]).success();
        for file in files {
            let text = std::fs::read_to_string(root.path().join(command).join(file)).unwrap();
            assert!(text.len() > 500, "{file}: {text}");
        }
    }
    // Settings of gateways are on the page of the daemon.
    let page = std::fs::read_to_string(root.path().join("man/agentanycastd.1")).unwrap();
    assert!(page.contains(r"uap\-hub\-listen"), "{page}");
}

#[test]
fn demo_pair_shows_a_task_answered() {
    let text = stdout(&anycast(&["demo", "--pair"]).success());
    for word in ["daemon A", "daemon B", "direct", "completed", "echo: Hello"] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

/// Where another home was meant: what was tried, why, and where one runs.
#[test]
fn a_daemon_that_runs_elsewhere_is_named() {
    use std::os::unix::net::UnixListener;
    let user = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"))
            .env_clear()
            .env("HOME", user.path())
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let home = user.path().join(".agentanycast");
    let address = |home: &std::path::Path| format!("unix://{}/daemon.sock", home.display());
    let nowhere = user.path().join("nowhere");
    let nowhere = ["--home", nowhere.to_str().unwrap(), "status"];
    let alone = said(&["status"]);
    for part in [
        address(&home).as_str(),
        "the default home ~/.agentanycast",
        "`anycast up`",
    ] {
        assert!(alone.contains(part), "{part}: {alone}");
    }
    assert!(!alone.contains("runs at"), "{alone}");
    assert!(said(&nowhere).contains("from --home"));

    // Something listens in the default home. It never answers, so it is named where another place was asked
    // about.
    std::fs::create_dir_all(&home).unwrap();
    let _running = UnixListener::bind(home.join("daemon.sock")).unwrap();
    let there = format!(
        "use the daemon that runs at {0} with `--daemon {0}`",
        address(&home)
    );
    let other = said(&nowhere);
    assert!(other.contains(&there), "{other}");
    let other = said(&["--daemon", "unix:///nowhere.sock", "status"]);
    assert!(
        other.contains("unix:///nowhere.sock (from --daemon)") && other.contains(&there),
        "{other}"
    );

    // Where the settings have it.
    let set = user.path().join("set.sock");
    let _set = UnixListener::bind(&set).unwrap();
    let settings = format!("grpc_listen = 'unix://{}'\n", set.display());
    std::fs::write(home.join("config.toml"), settings).unwrap();
    let other = said(&nowhere);
    assert!(
        other.contains(&format!("runs at unix://{}", set.display())),
        "{other}"
    );
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

/// A pipe that nobody reads any more, as standard output or error of a command.
#[expect(clippy::unwrap_used, reason = "a test without a pipe has nothing to test")]
fn closed_pipe() -> std::process::Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// The reader of the pipe has ended, as `head` does: the command ends in silence, with the code of SIGPIPE.
#[test]
fn a_closed_standard_output_ends_every_command_alike() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("audit.jsonl");
    std::fs::write(&log, "").unwrap();
    let log = log.to_str().unwrap();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["send", "--help"],
        &["policy", "show"],
        &["--json", "policy", "show"],
        &["policy", "check", "--source", "local"],
        &["audit", "verify", log],
        &["key", "rotate", "--help"],
        &["daemon", "--help"],
        &["daemon", "--version"],
        &["daemon", "--print-config"],
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"))
            .env_clear()
            .env("HOME", home.path())
            .args(arguments)
            .stdout(closed_pipe())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(141), ""), "{arguments:?}");
    }
}

/// What cannot be said does not change how a command ends.
#[test]
fn a_closed_standard_error_changes_no_exit_code() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, code) in [
        (&["status"][..], 3),
        (&["task"], 2),
        (&["send", "nobody", "hello"], 4),
        (&["policy", "show"], 0),
    ] {
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"))
            .env_clear()
            .env("HOME", home.path())
            .args(arguments)
            .stdout(std::process::Stdio::null())
            .stderr(closed_pipe())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_full_standard_output_is_named() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"))
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .args(["policy", "show"])
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("anycast: cannot write to standard output: "),
        "{said}"
    );
}

/// Values that are refused, and settings that are shown.
#[test]
fn no_error_repeats_a_password_or_drives_the_terminal() {
    const URL: &str = "https://u:secret@h/\u{1b}[2J\nanycast: all is well \u{202e}";
    let flag = format!("--log-level={URL}");
    let unknown = format!("--{URL}");
    for (arguments, code) in [
        (&[URL][..], 2),
        (&["task", "x", "--timeout", URL], 2),
        (&["card", URL], 2),
        (&["send", URL, "hello"], 2),
        (&["send", "--url", "http://h", "hello", "--seal-for", URL], 2),
        (&["--daemon", URL, "status"], 2),
        (&["--json", "--daemon", URL, "status"], 2),
        (&["--daemon", "https://u:secret@h", "status"], 2),
        (&["policy", "check", "--source", URL], 2),
        (&["credential", "verify", URL], 2),
        (&["daemon", URL], 2),
        (&["daemon", &flag], 2),
        (&["daemon", &unknown], 2),
        (&["daemon", "--config", URL], 2),
        (&["daemon", "--bootstrap-peers", URL], 2),
        (&["daemon", "--grpc-listen", URL], 2),
    ] {
        let failed = anycast(arguments).code(code);
        let said = stderr(&failed) + &stdout(&failed);
        for removed in ["secret", "\u{1b}", "\u{202e}", "\nanycast: all"] {
            assert!(!said.contains(removed), "{arguments:?}: {removed:?} in {said:?}");
        }
    }
}

/// The bridge is beside the daemon that the options of all commands name.
#[cfg(feature = "bridge")]
#[test]
fn the_bridge_takes_the_daemon_that_is_named() {
    for before in [
        &["bridge", "--daemon", "unix:///nowhere/daemon.sock"][..],
        &["--home", "/nowhere", "bridge"],
    ] {
        let version = stdout(&anycast(&[before, &["--version"]].concat()).success());
        assert!(version.contains("bridge"), "{version}");
    }
    anycast(&["relay", "--daemon", "unix:///nowhere/daemon.sock"]).code(2);
}
