//! `anycast top`: what it shows of a real daemon, as JSON, as text, and on a terminal.

use agentanycast::Target;
use agentanycast_tests::{
    DaemonPair, TransportKind,
    agent::TestAgent,
    cli::{anycast, anycast_json, program},
    eventually, within,
};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

#[tokio::test]
async fn once_as_json_and_as_text() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let agent = TestAgent::echo(&bob);
    let peer = pair.bob.peer_id().clone();
    let target = || Target::Peer(peer.clone());
    for number in 0..5 {
        let handle = alice
            .send_task(target(), format!("{number}").as_str())
            .await
            .unwrap();
        within("the task ends", handle.wait()).await.unwrap();
    }
    let top = eventually("the peer has been pinged", || async {
        let top = anycast_json(&pair.alice, &["top", "--once", "--interval", "100ms"]).await;
        top["peers"][0]["round_trip_ms"].is_number().then_some(top)
    })
    .await;
    let completed = of_status(&top, "completed");
    assert_eq!(
        (&completed["now"], &completed["total"]),
        (&5.into(), &5.into()),
        "{top}"
    );
    assert!(completed["sent_per_second"].is_number(), "{top}");
    assert_eq!(top["peers"][0]["peer_id"], pair.bob.peer_id().to_string());
    assert_eq!(top["peers"][0]["via"], "direct");
    assert_eq!(top["agent_listens"], false);
    assert!(!top["log"].as_array().unwrap().is_empty(), "{top}");
    let there = anycast_json(&pair.bob, &["top", "--once", "--interval", "100ms"]).await;
    assert_eq!(there["agent_listens"], true);

    drop((agent, bob));
    pair.bob.stop().await;
    agentanycast_tests::daemon_pair::wait_disconnected(&alice).await;
    alice.send_task(target(), "waits").await.unwrap();
    let top = anycast_json(&pair.alice, &["top", "--once", "--interval", "100ms"]).await;
    assert_eq!(top["queue"]["queued"], 1, "{top}");
    assert_eq!(
        (&top["peers"][0]["waiting"], &top["peers"][0]["via"]),
        (&1.into(), &Value::Null),
        "{top}"
    );
    let address = pair.alice.grpc().to_owned();
    let said = tokio::task::spawn_blocking(move || anycast(["--daemon", &address, "top", "--once"]))
        .await
        .unwrap();
    assert!(said.status.success(), "{}", said.all_output);
    assert_eq!(said.all_output.lines().count(), 24, "{}", said.all_output);
    for part in ["completed", "1 waiting", "away", "refusals", "log"] {
        assert!(
            said.all_output.contains(part),
            "{part} is missing in\n{}",
            said.all_output
        );
    }
    let address = pair.alice.grpc().to_owned();
    let piped = tokio::task::spawn_blocking(move || anycast(["--daemon", &address, "top"]))
        .await
        .unwrap();
    assert_eq!(piped.status.code(), Some(2), "no terminal: {}", piped.all_output);
}

fn of_status<'a>(top: &'a Value, status: &str) -> &'a Value {
    let tasks = top["tasks"].as_array().unwrap();
    tasks.iter().find(|row| row["status"] == status).unwrap()
}

/// On a pseudo-terminal of 80×24, by util-linux's `script`, as over SSH; `q` ends it.
#[tokio::test]
async fn on_a_terminal() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let command = format!(
        "stty rows 24 cols 80; exec {} --daemon {} top",
        program().display(),
        pair.alice.grpc()
    );
    let mut script = tokio::process::Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &command,
            "/dev/null",
        ])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("script, of util-linux, is installed");
    let mut output = script.stdout.take().unwrap();
    let mut seen = Vec::new();
    let end = pair.bob.peer_id().to_string();
    let end = end[end.len() - 13..].to_owned();
    within("the screen shows the peer", async {
        while !String::from_utf8_lossy(&seen).contains(&end) {
            let mut some = [0; 4096];
            let read = output.read(&mut some).await.unwrap();
            assert!(read > 0, "it ended: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&some[..read]);
        }
    })
    .await;
    let mut stdin = script.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"q")
        .await
        .unwrap();
    within("the rest is read", output.read_to_end(&mut seen))
        .await
        .unwrap();
    let status = within("q ends it", script.wait()).await.unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&seen));
    let text = String::from_utf8_lossy(&seen);
    assert!(
        text.contains("\u{1b}[?1049h") && text.contains("\u{1b}[?1049l"),
        "the terminal is as before: {text:?}"
    );
}
