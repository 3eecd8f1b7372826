//! What the daemons tell the service manager that started them.

use std::{os::unix::net::UnixDatagram, path::Path, time::Duration};

use agentanycast_tests::{Daemon, TestRelay};
use rustix::process::{Signal, kill_process};

/// The socket of a service manager.
struct NotifySocket(UnixDatagram);

impl NotifySocket {
    fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(socket)
    }

    /// The next message that is not about the watchdog, and how often that was spoken of before.
    fn next(&self) -> (String, usize) {
        let mut alive = 0;
        loop {
            let mut buffer = [0; 512];
            let length = self.0.recv(&mut buffer).expect("the daemon says something");
            let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if said.trim() != "WATCHDOG=1" {
                return (said, alive);
            }
            alive += 1;
        }
    }

    fn expect(&self, word: &str) -> String {
        let (said, _) = self.next();
        assert!(said.lines().any(|line| line == word), "{word} is not {said:?}");
        said
    }

    fn expect_life(&self) {
        for _ in 0..3 {
            let mut buffer = [0; 512];
            let length = self.0.recv(&mut buffer).expect("the daemon says that it lives");
            assert_eq!(buffer[..length].trim_ascii(), b"WATCHDOG=1");
        }
    }
}

#[tokio::test]
async fn the_node_says_that_it_is_ready_lives_reloads_and_stops() {
    let builder = Daemon::builder();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = NotifySocket::listen(&socket);
    let daemon = builder
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "200000")
        .start()
        .await;
    manager.expect("READY=1");
    manager.expect_life();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    let reloading = manager.expect("RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading:?}");
    manager.expect("READY=1");
    daemon.terminate();
    manager.expect("STOPPING=1");
}

#[tokio::test]
async fn the_relay_says_so_too() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = NotifySocket::listen(&socket);
    let relay = TestRelay::builder()
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "200000")
        .start()
        .await;
    manager.expect("READY=1");
    manager.expect_life();
    kill_process(relay.pid(), Signal::HUP).unwrap();
    manager.expect("RELOADING=1");
    manager.expect("READY=1");
    kill_process(relay.pid(), Signal::TERM).unwrap();
    manager.expect("STOPPING=1");
}
