//! The example `shell_device`.

use std::time::Duration;

use agentanycast_aip::{
    endpoints::CommandError,
    messages::{CommandResult, CommandStatus},
    protocol::SKIPPED,
};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::{
    program::{Program, processes_with, soon, wait_for},
    service::{TOKEN, TestService, stdout},
};

/// A device of this id at a service, when the service knows its tools.
pub(crate) async fn device(service: &TestService, id: &str) -> Program {
    let (url, token) = (service.url(), service.token_file(TOKEN));
    let mut flags = vec!["--service", &url, "--id", id, "--token-file", &token];
    flags.extend(["--allow", "echo,sleep,cat"]);
    let ca_file = service.ca_file.as_ref().map(|file| file.to_str().unwrap());
    flags.extend(ca_file.iter().flat_map(|file| ["--ca-file", file]));
    let mut program = Program::start("shell_device", &flags);
    program.prints(&format!("{id} is registered at {url}")).await;
    service.ready(id).await;
    program
}

fn outcomes(results: &[CommandResult]) -> Vec<(&str, CommandStatus)> {
    let outcome = |result: &'_ CommandResult| result.status;
    let ids = results.iter().map(|result| result.call_id.as_deref().unwrap());
    ids.zip(results.iter().map(outcome)).collect()
}

#[tokio::test]
async fn a_batch_runs_in_order_and_stops_at_the_first_failure() {
    let service = TestService::plain().await;
    let _device = device(&service, "one").await;
    let lines = ["echo a", "echo b", "rm c", "echo d", "echo e"];
    let results = soon(service.command("one", &lines)).await.unwrap();
    use CommandStatus::{Failure, Skipped, Success};
    assert_eq!(
        outcomes(&results),
        [
            ("0", Success),
            ("1", Success),
            ("2", Failure),
            ("3", Skipped),
            ("4", Skipped)
        ]
    );
    assert_eq!((stdout(&results[0]), stdout(&results[1])), ("a\n", "b\n"));
    let error = results[2].error.as_deref().unwrap();
    assert_eq!(error, "'rm' is not allowed; allowed are cat, echo, sleep");
    assert_eq!(results[4].error.as_deref(), Some(SKIPPED));
    assert_eq!(results[0].namespace.as_deref(), Some("BashExecutor"));
}

#[tokio::test]
async fn a_device_works_over_tls_and_says_that_its_token_is_wrong() {
    let service = TestService::with_tls().await;
    let _device = device(&service, "one").await;
    let results = soon(service.command("one", &["echo over tls"])).await.unwrap();
    assert_eq!(stdout(&results[0]), "over tls\n");
    let (url, token) = (service.url(), service.token_file("wrong"));
    let ca_file = service.ca_file.as_ref().unwrap().to_str().unwrap();
    let flags = [
        "--service",
        &url,
        "--id",
        "two",
        "--token-file",
        &token,
        "--ca-file",
        ca_file,
    ];
    let mut refused = Program::start("shell_device", &flags);
    refused
        .says("refused the connection with HTTP 403; check the token")
        .await;
    let flags = ["--service", &url, "--id", "two", "--token-file", &token];
    let mut untrusting = Program::start("shell_device", &flags);
    untrusting.says("invalid peer certificate").await;
}

#[tokio::test]
async fn a_device_that_is_killed_leaves_nothing_behind_and_may_come_again() {
    let service = TestService::plain().await;
    let killed = device(&service, "one").await;
    let line = "sleep 987.125";
    let lines = ["echo a", line, "echo b"];
    let command = service.command("one", &lines);
    let kill = async {
        wait_for(|| processes_with(line).first().copied()).await;
        killed.signal(Signal::KILL);
    };
    let ended = async { tokio::join!(command, kill).0 };
    let error = timeout(Duration::from_secs(10), ended)
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, CommandError::DeviceGone { .. }), "{error}");
    wait_for(|| processes_with(line).is_empty().then_some(())).await;
    let _again = device(&service, "one").await;
    let results = soon(service.command("one", &["echo again"])).await.unwrap();
    assert_eq!(stdout(&results[0]), "again\n");
}

#[tokio::test]
async fn a_lost_connection_ends_the_command_and_is_made_again() {
    let service = TestService::plain().await;
    let mut program = device(&service, "one").await;
    let line = "sleep 987.25";
    let lines = [line];
    let command = service.command("one", &lines);
    let restart = async {
        wait_for(|| processes_with(line).first().copied()).await;
        service.restart().await;
    };
    assert!(soon(async { tokio::join!(command, restart).0 }).await.is_err());
    wait_for(|| processes_with(line).is_empty().then_some(())).await;
    program
        .prints(&format!("one is registered at {}", service.url()))
        .await;
    service.ready("one").await;
    let results = soon(service.command("one", &["echo again"])).await.unwrap();
    assert_eq!(stdout(&results[0]), "again\n");
}

#[tokio::test]
async fn a_device_ends_with_its_tools_when_it_is_told_to() {
    let service = TestService::plain().await;
    let folder = tempfile::tempdir().unwrap();
    let (url, token, folder) = (
        service.url(),
        service.token_file(TOKEN),
        folder.path().to_str().unwrap(),
    );
    let flags = [
        "--service",
        &url,
        "--id",
        "one",
        "--token-file",
        &token,
        "--folder",
        folder,
    ];
    let device = Program::start("shell_device", &flags);
    service.ready("one").await;
    // The device, and its MCP server.
    assert_eq!(processes_with(folder).len(), 2);
    device.signal(Signal::TERM);
    let (status, printed, _) = device.end().await;
    assert!(status.success(), "{status}");
    assert_eq!(printed, [format!("one is registered at {url}")]);
    assert!(processes_with(folder).is_empty());
}

#[tokio::test]
async fn flags_are_explained_and_wrong_ones_refused() {
    for (flags, why) in [
        (&[] as &[&str], "--service and --id are needed"),
        (&["--service"], "--service needs a value"),
        (&["--no", "x"], "there is no flag --no"),
    ] {
        let (status, _, said) = Program::start("shell_device", flags).end().await;
        assert_eq!(status.code(), Some(2), "{flags:?}");
        assert_eq!(said, [format!("shell_device: {why}; --help lists the flags")]);
    }
    let (status, printed, _) = Program::start("shell_device", &["--help"]).end().await;
    assert!(status.success() && printed.iter().any(|line| line.contains("--token-file FILE")));
    let (status, _, said) = Program::start("shell_device", &["--service", "http://x", "--id", "y"])
        .end()
        .await;
    assert_eq!(status.code(), Some(1));
    assert!(said[0].contains("its scheme is neither ws nor wss"), "{said:?}");
}
