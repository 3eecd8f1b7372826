//! Standard error and output that no program reads, or that cannot be written: the daemons start, serve and stop, and
//! count the lines that they had to drop.

use std::{
    fs::File,
    net::SocketAddr,
    process::{ExitStatus, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use agentanycast::{Target, TaskError};
use agentanycast_proto::v1::DiscoverBySkillRequest;
use agentanycast_tests::{
    Bridge, Daemon, DaemonBuilder, TestRelay, daemon::Home, daemon_pair::wait_connected, eventually, rpc,
    unread_pipe::UnreadPipe, wait::LIMIT, within,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// How long a daemon may take to end; the contract's figure.
const END: Duration = Duration::from_secs(5);

async fn ended(child: &mut Child, limit: Duration) -> ExitStatus {
    let ended = tokio::time::timeout(limit, child.wait()).await;
    ended.expect("it ends in time").unwrap()
}

/// Sends SIGTERM, and waits for the end.
async fn terminated(child: &mut Child) -> ExitStatus {
    let id = child.id().expect("it runs");
    kill_process(Pid::from_raw(id as i32).unwrap(), Signal::TERM).unwrap();
    ended(child, END).await
}

#[tokio::test]
async fn a_daemon_whose_log_is_not_read_starts_refuses_strangers_and_stops() {
    let pipe = Arc::new(UnreadPipe::full());
    let asker = Daemon::builder().start().await;
    let rule = "[[policy.acl]]\nsource = \"*\"\nskill = \"*\"\nallow = false\n";
    let mut guarded = Daemon::builder()
        .bootstrap(asker.tcp())
        .metrics()
        .log_to(&pipe)
        .args(["--log-level=debug"])
        .config(rule)
        .start()
        .await;
    let node = asker.node().await;
    wait_connected(&node, &guarded).await;
    for _ in 0..3 {
        let target = Target::Peer(guarded.peer_id().clone());
        let task = node.send_task(target, "let me in").await.unwrap();
        let outcome = within("the task ends", task.wait()).await;
        assert!(matches!(outcome, Err(TaskError::Rejected { .. })), "{outcome:?}");
    }
    assert_eq!(
        guarded.metric("agentanycast_log_lines_dropped_total").await,
        Some(0.0)
    );
    guarded.stop().await;
}

#[tokio::test]
async fn a_relay_whose_log_is_not_read_starts_serves_and_stops() {
    let pipe = Arc::new(UnreadPipe::full());
    let mut relay = TestRelay::builder()
        .log_to(&pipe)
        .args(["--log-level=debug"])
        .start()
        .await;
    let daemon = Daemon::builder().bootstrap(&relay.addresses[0]).start().await;
    let node = daemon.node().await;
    eventually("the daemon is at the relay", || async {
        let peers = node.peers().await.unwrap();
        peers
            .iter()
            .any(|peer| peer.id.as_ref().is_some_and(|id| id.to_string() == relay.id()))
            .then_some(())
    })
    .await;
    kill_process(relay.pid(), Signal::HUP).unwrap();
    assert_eq!(relay.health().await["status"], "healthy");
    relay.stop().await;
}

#[tokio::test]
async fn a_bridge_whose_log_is_not_read_starts_serves_and_stops() {
    let pipe = UnreadPipe::full();
    let daemon = Daemon::builder().start().await;
    let bridge = Bridge::start_with_log_to(&daemon, &pipe).await;
    kill_process(bridge.pid(), Signal::HUP).unwrap();
    let (status, _) = bridge.client().text("/nowhere").await;
    assert!(status.is_client_error(), "{status}");
    bridge.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_were_dropped_are_counted_and_told_when_the_log_is_read_again() {
    let pipe = Arc::new(UnreadPipe::full());
    let mut relay = TestRelay::builder()
        .log_to(&pipe)
        .args(["--log-level=trace"])
        .start()
        .await;
    let dropped = eventually("lines are dropped", || async {
        for _ in 0..50 {
            // Each call of the registry is some lines of what carries it.
            let mut client = relay.client().await;
            let asked = client.discover_by_skill(DiscoverBySkillRequest::default());
            let _ = asked.await;
        }
        let dropped = relay.metric("log_lines_dropped_total").await;
        (dropped > 0.0).then_some(dropped)
    })
    .await;
    let read = pipe.read();
    let text = || String::from_utf8_lossy(&read.lock().unwrap()).into_owned();
    eventually("the log tells all of them", || async {
        let told: f64 = text()
            .lines()
            .filter(|line| line.contains("lines of the log were dropped here") && line.ends_with('}'))
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["level"], "ERROR");
                line["lines"].as_f64().unwrap()
            })
            .sum();
        (told >= dropped).then_some(())
    })
    .await;
    relay.stop().await;
    eventually("the last lines are there", || async {
        text().contains("stopping").then_some(())
    })
    .await;
}

/// The error that a program ends with is written in the same way.
#[tokio::test]
async fn a_failure_whose_reason_is_not_read_ends_the_program() {
    let relay = TestRelay::builder().start().await;
    let taken = TestRelay::builder().registry(relay.registry);
    let bad_flag = Daemon::builder().args(["--no-such-flag"]);
    let no_daemon = Bridge::command(
        "unix:///nowhere/daemon.sock",
        SocketAddr::from(([127, 0, 0, 1], 0)),
    );
    for (mut command, code) in [(taken.command(), 1), (bad_flag.command(), 2), (no_daemon, 1)] {
        let pipe = UnreadPipe::full();
        let mut child = command
            .stdout(Stdio::null())
            .stderr(pipe.stdio())
            .spawn()
            .unwrap();
        assert_eq!(ended(&mut child, LIMIT).await.code(), Some(code), "{command:?}");
    }
}

/// Runs a program to its end, with a standard output that takes nothing.
async fn on_a_full_disk(mut command: Command) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    within("it ends by itself", child.wait_with_output())
        .await
        .unwrap()
}

#[tokio::test]
async fn start_lines_that_cannot_be_written_are_named_with_what_to_do() {
    let daemon = Daemon::builder().start().await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let (node, relay) = (Daemon::builder(), TestRelay::builder());
    let programs = [
        (node.command(), "PEER_ID="),
        (relay.command(), "RELAY_ADDR="),
        (Bridge::command(daemon.grpc(), nowhere), "BRIDGE_ADDR="),
    ];
    for (command, first) in programs {
        let output = on_a_full_disk(command).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        for word in [first, "standard output", "/dev/null"] {
            assert!(last.contains(word), "{word}: {said}");
        }
    }
    let output = on_a_full_disk(node.args(["--help"]).command()).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("cannot write to standard output"), "{said}");
}

#[tokio::test]
async fn start_lines_that_are_not_read_hold_up_no_daemon() {
    let pipe = UnreadPipe::full();
    let home = Home::new();
    // One pipe for both, as `2>&1 | collector` makes it.
    let mut command = DaemonBuilder::new(home.clone()).command();
    let mut child = command.stdout(pipe.stdio()).stderr(pipe.stdio()).spawn().unwrap();
    let address = format!("unix://{}", home.socket().display());
    eventually("the daemon serves", || async {
        rpc::try_connect(&address).await.ok()
    })
    .await;
    assert!(terminated(&mut child).await.success());

    let relay = TestRelay::builder();
    let mut command = relay.command();
    let mut child = command.stdout(pipe.stdio()).stderr(pipe.stdio()).spawn().unwrap();
    // It handles the signal from its first step on.
    eventually("the relay runs", || async {
        let id = child.id().expect("it runs");
        let name = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let caught = name.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & (1 << 14) != 0).then_some(())
    })
    .await;
    assert!(terminated(&mut child).await.success());
}
