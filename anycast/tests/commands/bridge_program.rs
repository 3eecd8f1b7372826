//! What can be tried without starting a bridge: help, version, usage errors, and the exit codes that scripts rely on.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Command, Output, Stdio},
};

/// The program under the name of the bridge.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anycast"));
    command.arg0("agentanycast-bridge").env_clear();
    command
}

fn bridge(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

#[test]
fn version_and_help_end_well() {
    let version = bridge(&["--version"]);
    assert!(version.status.success());
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("agentanycast-bridge {}\n", agentanycast_daemon_kit::VERSION)
    );
    let help = String::from_utf8_lossy(&bridge(&["--help"]).stdout).into_owned();
    for flag in ["--listen", "--daemon"] {
        assert!(help.contains(flag), "{flag} is not in {help}");
    }
}

#[test]
fn a_wrong_word_is_one_line_and_exit_code_2() {
    let output = bridge(&["--nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("agentanycast-bridge: ") && said.lines().count() == 1,
        "{said}"
    );
}

/// It is told at once, also while no daemon is there.
#[test]
fn a_variable_that_is_no_setting_is_warned_of() {
    let mut bridge = program()
        .env("AGENTANYCAST_BRIDGE_IMAGE", "x")
        .args(["--daemon", "unix:///nowhere/daemon.sock"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(bridge.stderr.take().unwrap()).lines();
    let said: Vec<String> = lines.map_while(Result::ok).take(1).collect();
    bridge.kill().unwrap();
    bridge.wait().unwrap();
    let named = said[0].contains("AGENTANYCAST_BRIDGE_IMAGE") && said[0].contains("no setting");
    assert!(named, "{said:?}");
}
