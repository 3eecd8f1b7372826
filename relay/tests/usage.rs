//! What can be tried without starting a relay: help, version, usage errors, and the exit codes that scripts rely on.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::process::{Command, Output};

fn relay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agentanycast-relay"))
        .env_clear()
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn version_and_help_end_well() {
    let version = relay(&["-version"]);
    assert!(version.status.success());
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("agentanycast-relay {}\n", agentanycast_daemon_kit::VERSION)
    );
    let help = String::from_utf8_lossy(&relay(&["--help"]).stdout).into_owned();
    for flag in [
        "--listen",
        "--announce",
        "--registry-listen",
        "--federation-peers",
        "--store",
        "--registry-auth",
    ] {
        assert!(help.contains(flag), "{flag} is not in {help}");
    }
}

#[test]
fn a_wrong_word_is_one_line_and_exit_code_2() {
    for argument in ["--nonsense", "--registry-ttl=never", "--circuit-duration=0"] {
        let output = relay(&[argument]);
        assert_eq!(output.status.code(), Some(2), "{argument}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.starts_with("agentanycast-relay: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn a_variable_that_is_called_almost_like_a_setting_is_told() {
    let with = |name: &str| {
        let relay = env!("CARGO_BIN_EXE_agentanycast-relay");
        let mut command = Command::new(relay);
        command
            .env_clear()
            .env(name, "x")
            .arg("--print-config")
            .output()
            .unwrap()
    };
    let wrong = with("AGENTANYCAST_RELAY_ANOUNCE");
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&wrong.stderr),
        "agentanycast-relay: environment AGENTANYCAST_RELAY_ANOUNCE is not known; did you mean \
         AGENTANYCAST_RELAY_ANNOUNCE?\n"
    );
    // Somebody else's.
    assert!(with("AGENTANYCAST_RELAY_IMAGE").status.success());
}

/// It starts, and fails at its key.
#[test]
fn a_variable_that_is_no_setting_is_warned_of() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentanycast-relay"));
    command.env_clear().env("AGENTANYCAST_RELAY_IMAGE", "x");
    let output = command.args(["--key", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let warned = |line: &&str| line.contains("AGENTANYCAST_RELAY_IMAGE") && line.contains("no setting");
    assert_eq!(said.lines().filter(warned).count(), 1, "{said}");
}

#[test]
fn a_negative_number_is_a_value() {
    let output = relay(&["--max-reservations", "-1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("max_reservations: \"-1\"") && said.contains("from 0"),
        "{said}"
    );
}
