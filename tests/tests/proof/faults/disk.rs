//! The disk is full, or fails while it is used.

use std::{sync::Arc, time::Duration};

use agentanycast::{ArtifactEvent, EndReason, Target};
use agentanycast_tests::{
    Builder, Daemon, LIMIT, agent::Agent, daemon::Home, disk::SmallDisk, eventually, pair::connected, within,
};
use futures::StreamExt as _;
use tokio::{sync::Notify, time::timeout};

use super::{Ledger, has_not_panicked, is_clear, not_serving};

/// Size of the disk, in MiB: an empty store takes a few segments of 8 MiB.
const DISK: u64 = 96;

/// What is left on it when the test begins.
const LEFT: u64 = 3 << 20;

/// Bytes of each task.
const TASK: usize = 20_000;

/// A daemon whose store is on a small disk, with some tasks that it has taken.
async fn on_a_small_disk() -> Option<(SmallDisk, Daemon, Ledger)> {
    let home = Home::new();
    let disk = SmallDisk::mount(&home.path().join("data"), DISK)?;
    let daemon = Builder::new(home).start().await;
    let mut ledger = Ledger::default();
    let mut rpc = daemon.rpc().await;
    for _ in 0..20 {
        ledger.send(&mut rpc, daemon.peer_id(), TASK).await.unwrap();
    }
    Some((disk, daemon, ledger))
}

/// Sends until it is refused; the refusal is clear, and so is every one after it.
async fn send_until_refused(daemon: &Daemon, ledger: &mut Ledger) {
    let mut rpc = daemon.rpc().await;
    let refusal = loop {
        let sent = within(
            "the task is answered",
            ledger.send(&mut rpc, daemon.peer_id(), TASK),
        )
        .await;
        if let Err(status) = sent {
            break status;
        }
        assert!(ledger.0.len() < 20_000, "the disk never fills");
    };
    assert!(is_clear(&refusal), "{refusal}");
    for _ in 0..20 {
        let again = ledger.send(&mut rpc, daemon.peer_id(), 100).await;
        assert!(again.as_ref().is_err_and(is_clear), "{again:?}");
    }
    not_serving(daemon).await;
    has_not_panicked(&daemon.log_tail());
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some((disk, mut daemon, mut ledger)) = on_a_small_disk().await else {
        return;
    };
    let id = daemon.peer_id().clone();
    for killed in [true, false] {
        disk.fill(LEFT);
        send_until_refused(&daemon, &mut ledger).await;
        if killed {
            daemon.kill().await;
        } else {
            daemon.stop().await;
        }
        disk.make_room();
        daemon.restart().await;
        assert_eq!(daemon.peer_id(), &id);
        ledger.is_kept_by(&daemon).await;
        let mut rpc = daemon.rpc().await;
        ledger
            .send(&mut rpc, daemon.peer_id(), TASK)
            .await
            .expect("there is room again");
    }
    has_not_panicked(&daemon.log_tail());
}

/// Started while the disk is still full it may refuse, in one line; what it has is not touched.
#[tokio::test]
async fn a_daemon_is_started_on_a_full_disk() {
    let Some((disk, mut daemon, mut ledger)) = on_a_small_disk().await else {
        return;
    };
    disk.fill(LEFT);
    send_until_refused(&daemon, &mut ledger).await;
    daemon.kill().await;
    disk.fill(0);
    for _ in 0..3 {
        let mut process = daemon.stopped().command();
        let output = timeout(Duration::from_secs(3), process.output()).await;
        // None: it runs, and is killed when it is dropped here.
        if let Ok(output) = output {
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            has_not_panicked(&said);
            assert_eq!(output.status.code(), Some(1), "{said}");
            let last = said.lines().last().unwrap_or_default();
            assert!(
                last.starts_with("agentanycastd: ") && last.contains("data"),
                "{said}"
            );
        }
    }
    disk.make_room();
    daemon.restart().await;
    assert_eq!(
        super::moved_aside(&daemon.home().path().join("data")),
        Vec::<std::path::PathBuf>::new()
    );
    ledger.is_kept_by(&daemon).await;
}

/// The kernel lets nobody write any more, as it does when it finds an error on a disk.
#[tokio::test]
async fn a_disk_that_fails_is_noticed() {
    let Some((disk, mut daemon, mut ledger)) = on_a_small_disk().await else {
        return;
    };
    disk.fail();
    send_until_refused(&daemon, &mut ledger).await;
    daemon.stop().await;
    let output = daemon.stopped().run_to_end().await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    has_not_panicked(&said);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("agentanycastd: ") && last.contains("data"),
        "{said}"
    );
    disk.repair();
    daemon.restart().await;
    ledger.is_kept_by(&daemon).await;
}

/// The receiver's disk fills up in the middle of an artifact: both sides are told why it ended, and what was
/// accepted before is there when there is room again.
#[tokio::test]
async fn the_disk_is_full_in_the_middle_of_an_artifact() {
    let Some((disk, mut alice, ledger)) = on_a_small_disk().await else {
        return;
    };
    let bob = Daemon::builder().bootstrap(alice.tcp()).start().await;
    let (here, there) = (alice.node().await, bob.node().await);
    connected(&here, &bob).await;
    let (full, told) = (Arc::new(Notify::new()), Arc::new(std::sync::Mutex::new(None)));
    let (go_on, tell) = (Arc::clone(&full), Arc::clone(&told));
    let agent = Agent::serve(&there, move |task| {
        let (go_on, tell) = (Arc::clone(&go_on), Arc::clone(&tell));
        async move {
            let mut artifact = task.stream_artifact("large", "application/octet-stream").await?;
            artifact.write(vec![1; 64 << 10]).await?;
            go_on.notified().await;
            let written = async {
                for _ in 0..20 * DISK {
                    artifact.write(vec![2; 64 << 10]).await?;
                }
                artifact.finish().await
            };
            let outcome = written.await.map_err(|error| error.to_string());
            *tell.lock().unwrap() = Some(outcome);
            task.fail("it could not be sent").await?;
            Ok(())
        }
    });
    let handle = here
        .send_task(Target::Peer(bob.peer_id().clone()), "x")
        .await
        .unwrap();
    let mut events = handle.artifacts();
    let begun = within("the artifact begins", events.next()).await;
    assert!(
        matches!(begun, Some(Ok(ArtifactEvent::Start { .. }))),
        "{begun:?}"
    );
    disk.fill(LEFT);
    full.notify_one();
    let end = loop {
        match within("the artifact ends", events.next()).await {
            Some(Ok(ArtifactEvent::End { reason, error, .. })) => break Some((reason, error)),
            Some(Ok(_)) => {}
            // The daemon, which cannot write down the end either, refuses the stream.
            Some(Err(error)) => {
                assert!(!error.to_string().is_empty());
                break None;
            }
            None => panic!("the stream ends without a reason"),
        }
    };
    if let Some((reason, error)) = end {
        assert!(
            reason != EndReason::Complete && !error.is_empty(),
            "{reason:?}: {error}"
        );
    }
    drop(events);
    has_not_panicked(&alice.log_tail());
    disk.make_room();
    alice.kill().await;
    alice.restart().await;
    eventually("the sender of the artifact is told", || async {
        told.lock().unwrap().clone()
    })
    .await;
    let outcome = told.lock().unwrap().clone().expect("it was told");
    assert!(outcome.is_err(), "an artifact larger than the disk was taken");
    let end = timeout(LIMIT, handle.wait()).await.expect("the task ends");
    assert!(end.is_err(), "{end:?}");
    ledger.is_kept_by(&alice).await;
    drop(agent);
    has_not_panicked(&bob.log_tail());
}
