//! A system that gives few file descriptors: who comes when there are none left waits or is let go, what is served goes
//! on, and when there are some again everybody is served.

use std::os::unix::fs::PermissionsExt as _;

use agentanycast::Target;
use agentanycast_tests::{
    Daemon, agent::TestAgent, daemon::program, daemon_pair::wait_connected, eventually,
    proc_stats::open_files, within,
};
use tokio::net::{TcpStream, UnixStream};

/// What the daemon may have open.
const LIMIT: u64 = 1_000;

/// More than that, from each side.
const KNOCKING: usize = 800;

#[tokio::test]
async fn a_thousand_descriptors_are_enough_to_go_on() {
    let home = agentanycast_tests::daemon::Home::new();
    let limited = home.path().join("limited");
    let script = format!(
        "#!/bin/sh\nulimit -n {LIMIT} && exec '{}' \"$@\"\n",
        program().display()
    );
    std::fs::write(&limited, script).unwrap();
    std::fs::set_permissions(&limited, std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = agentanycast_tests::DaemonBuilder::new(home)
        .program(&limited)
        .start()
        .await;
    let ally = Daemon::builder().bootstrap(daemon.tcp()).start().await;
    let (node, sender) = (daemon.node().await, ally.node().await);
    let _agent = TestAgent::echo(&node);
    wait_connected(&sender, &daemon).await;
    let honest = async |text: &str| {
        let handle = sender
            .send_task(Target::Peer(daemon.peer_id().clone()), text)
            .await
            .unwrap();
        within("the task ends", handle.wait()).await.unwrap()
    };
    honest("before").await;

    let parts: Vec<&str> = daemon.tcp().split('/').collect();
    let place = format!("{}:{}", parts[2], parts[4]);
    let socket = daemon.grpc().trim_start_matches("unix://").to_owned();
    let (mut strangers, mut agents) = (Vec::new(), Vec::new());
    for _ in 0..KNOCKING {
        // Whether they are taken is the daemon's matter.
        strangers.extend(TcpStream::connect(&place).await.ok());
        agents.extend(UnixStream::connect(&socket).await.ok());
    }
    assert!(open_files(daemon.pid()) <= LIMIT);
    // What stands goes on.
    assert_eq!(honest("meanwhile").await.text_content(), "echo: meanwhile");
    drop((strangers, agents));
    // And who comes after is served: calls, and peers.
    let late = Daemon::builder().bootstrap(daemon.tcp()).start().await;
    let asker = late.node().await;
    wait_connected(&asker, &daemon).await;
    let handle = asker
        .send_task(Target::Peer(daemon.peer_id().clone()), "after")
        .await
        .unwrap();
    within("the task ends", handle.wait()).await.unwrap();
    eventually("a new agent is answered", || async {
        daemon.node().await.info().await.ok()
    })
    .await;
    super::has_not_panicked(&daemon.log_tail());
}
