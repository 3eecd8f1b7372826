//! The program under the name `agentanycastd`.

use std::os::unix::process::CommandExt as _;

use assert_cmd::Command;

fn agentanycastd() -> Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_anycast"));
    command.arg0("agentanycastd");
    command.into()
}

#[test]
fn version_and_help_go_to_standard_output() {
    let version = agentanycastd().arg("--version").assert().success();
    let text = String::from_utf8_lossy(&version.get_output().stdout).into_owned();
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    let help = agentanycastd().arg("-help").assert().success();
    let text = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
    assert!(text.contains("--bootstrap-peers"), "{text}");
}

#[test]
fn a_bad_setting_is_one_line_and_exit_code_2() {
    let ended = agentanycastd().args(["--log-level", "loud"]).assert().code(2);
    let text = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("loud") && text.contains("--log-level"), "{text}");
}
