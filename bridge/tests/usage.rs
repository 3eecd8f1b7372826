//! What can be tried without starting a bridge: help, version, usage errors, and the exit codes that scripts rely on.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::process::{Command, Output};

fn bridge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agentanycast-bridge"))
        .env_clear()
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn version_and_help_end_well() {
    let version = bridge(&["--version"]);
    assert!(version.status.success());
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("agentanycast-bridge {}\n", agentanycast_program::VERSION)
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
