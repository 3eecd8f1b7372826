//! A second daemon for the same home: it waits for the first one, says where that is, and ends well.

use std::time::{Duration, Instant};

use agentanycast_tests::{Daemon, DaemonBuilder, daemon::Home, eventually, within};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};

/// The peer id that a daemon says, as soon as it does.
async fn peer_of(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let peer = within("the daemon announces itself", async {
        loop {
            let line = lines.next_line().await.unwrap().expect("a line with the peer id");
            if let Some(peer) = line.strip_prefix("PEER_ID=") {
                break peer.to_owned();
            }
        }
    })
    .await;
    // The pipe is kept empty.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    peer
}

#[tokio::test]
async fn a_second_daemon_of_a_home_that_is_served_ends_well() {
    let daemon = Daemon::builder().start().await;
    let began = Instant::now();
    let output = DaemonBuilder::new(daemon.home().clone()).run_to_end().await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(began.elapsed() >= Duration::from_secs(2), "it did not stay");
    assert_eq!(
        text.lines().next(),
        Some(&*format!("PEER_ID={}", daemon.peer_id())),
        "{text}"
    );
    let addresses = text.lines().skip(1);
    let end = format!("/p2p/{}", daemon.peer_id());
    assert!(
        addresses
            .clone()
            .all(|line| line.starts_with("LISTEN_ADDR=/") && line.ends_with(&end)),
        "{text}"
    );
    // The first one has not noticed, and its socket is its own.
    daemon.node().await.info().await.unwrap();
    assert!(daemon.home().socket().exists());
}

#[tokio::test]
async fn of_daemons_that_start_at_once_one_serves() {
    let home = Home::new();
    let mut children: Vec<Child> = (0..4)
        .map(|_| {
            let mut command = DaemonBuilder::new(home.clone()).command();
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut peers = Vec::new();
    for child in &mut children {
        peers.push(peer_of(child).await);
    }
    assert!(peers.iter().all(|peer| *peer == peers[0]), "{peers:?}");
    eventually("all but one end", || {
        let ended: Vec<_> = children
            .iter_mut()
            .filter_map(|child| child.try_wait().unwrap())
            .collect();
        async move {
            assert!(ended.iter().all(std::process::ExitStatus::success), "{ended:?}");
            (ended.len() == 3).then_some(())
        }
    })
    .await;
    let node = agentanycast::Node::connect(format!("unix://{}", home.socket().display()))
        .await
        .unwrap();
    assert_eq!(node.info().await.unwrap().peer_id.unwrap().as_str(), peers[0]);
}

/// The one that it waited for has died: then it serves itself.
#[tokio::test]
async fn a_guest_takes_over_from_a_daemon_that_died_before_it_answered() {
    let mut daemon = Daemon::builder().start().await;
    daemon.freeze();
    std::fs::remove_file(daemon.home().socket()).unwrap();
    let command = DaemonBuilder::new(daemon.home().clone()).command();
    let mut second = { command }.stdout(std::process::Stdio::piped()).spawn().unwrap();
    // It waits as long as the key is held by another process.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(second.try_wait().unwrap().is_none());
    daemon.kill().await;
    assert_eq!(peer_of(&mut second).await, daemon.peer_id().to_string());
    let node = agentanycast::Node::connect(daemon.grpc()).await.unwrap();
    assert_eq!(
        node.info().await.unwrap().peer_id.as_ref(),
        Some(daemon.peer_id())
    );
}

/// The socket of a home with another key is not this daemon's.
#[tokio::test]
async fn a_home_whose_key_was_changed_while_it_is_served_is_refused() {
    let daemon = Daemon::builder().start().await;
    let home = daemon.home().path();
    std::fs::rename(home.join("key"), home.join("key.moved")).unwrap();
    let output = DaemonBuilder::new(daemon.home().clone()).run_to_end().await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another daemon answers"), "{said}");
}
