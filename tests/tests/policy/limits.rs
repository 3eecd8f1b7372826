//! Limits of each source, between daemons.

use agentanycast::{ErrorKind, Target};
use agentanycast_tests::{Daemon, daemon_pair::wait_connected};

use crate::setup::{PolicySetup, audited, lines, rejected, send, wait_ended};

/// Of many tasks at once, as many as the rate lets through; another peer has its own.
#[tokio::test]
async fn a_rate_is_kept_for_each_peer_by_itself() {
    let scene = PolicySetup::new(|_, home| {
        format!(
            "[policy]\n{}[policy.rate_limit]\ndefault_rps = 0.001\n",
            audited(home)
        )
    })
    .await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
    for _ in 0..3 {
        let reason = rejected(scene.ask().await);
        assert!(reason.contains("0.001 tasks a second"), "{reason}");
    }
    let other = Daemon::builder().bootstrap(scene.guarded.tcp()).start().await;
    let node = other.node().await;
    wait_connected(&node, &scene.guarded).await;
    assert_eq!(
        wait_ended(&send(&node, &scene.guarded).await).await.unwrap(),
        "echo: hello"
    );
    let decisions: Vec<String> = lines(&scene.guarded, 5)
        .await
        .iter()
        .map(|line| line["decision"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        decisions,
        ["allow", "rate_limit", "rate_limit", "rate_limit", "allow"]
    );
}

#[tokio::test]
async fn an_override_stands_for_its_source() {
    let scene = PolicySetup::new(|asker, _| {
        format!(
            "[policy.rate_limit]\ndefault_rps = 0.001\n[[policy.rate_limit.overrides]]\nsource = \"{}\"\nrps = 1000\n",
            asker.peer_id()
        )
    })
    .await;
    for _ in 0..5 {
        scene.ask().await.unwrap();
    }
    // Of its own agent there is one by default, and it is told at once.
    let own = scene.guarded.node().await;
    let target = Target::Peer(scene.asker.peer_id().clone());
    own.send_task(target.clone(), "x").await.unwrap();
    let refused = own.send_task(target, "x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
}

#[tokio::test]
async fn open_tasks_of_a_peer_are_bounded_and_room_comes_back() {
    let scene = PolicySetup::new(|_, _| "[policy.rate_limit]\nmax_in_flight = 2\n".to_owned()).await;
    let (_asker, node, guarded) = scene.end_agent();
    let (first, _second) = (send(&node, &guarded).await, send(&node, &guarded).await);
    let third = send(&node, &guarded).await;
    assert!(rejected(wait_ended(&third).await).contains("2 tasks of this source are open"));
    first.cancel().await.unwrap();
    // The cancel goes before the next task, so there is room for it.
    let fourth = send(&node, &guarded).await;
    let agent = agentanycast_tests::agent::TestAgent::echo(&guarded.node().await);
    assert_eq!(wait_ended(&fourth).await.unwrap(), "echo: hello");
    drop(agent);
}

/// A task counts for what it brings, before it is let in.
#[tokio::test]
async fn bytes_of_open_tasks_are_bounded_and_one_that_never_fits_is_told() {
    let scene = PolicySetup::new(|_, _| "[policy.rate_limit]\nmax_bytes = \"64KiB\"\n".to_owned()).await;
    let (_asker, node, guarded) = scene.end_agent();
    let target = || Target::Peer(guarded.peer_id().clone());
    let ask = async |kib: usize| {
        node.send_task(target(), "x".repeat(kib << 10).as_str())
            .await
            .unwrap()
    };
    let whole = ask(65).await;
    assert!(rejected(wait_ended(&whole).await).contains("alone takes more than 65536 bytes"));
    let first = ask(40).await;
    let second = ask(40).await;
    assert!(rejected(wait_ended(&second).await).contains("would take more than 65536 bytes"));
    first.cancel().await.unwrap();
    let third = ask(40).await;
    let _agent = agentanycast_tests::agent::TestAgent::echo(&guarded.node().await);
    wait_ended(&third).await.unwrap();
    // Of the node's own agent they are counted too.
    let own = guarded.node().await;
    let large = "x".repeat(65 << 10);
    let refused = own.send_task(target(), large.as_str()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
    assert!(refused.to_string().contains("alone takes"), "{refused}");
}
