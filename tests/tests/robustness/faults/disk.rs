//! The disk is full, or fails while it is used.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast::{ArtifactEvent, BoxStream, EndReason, Part, Target, TaskError, TaskHandle};
use agentanycast_tests::{
    Daemon, DaemonBuilder, agent::TestAgent, cli::anycast_at, daemon::Home, daemon_pair::wait_connected,
    eventually, small_disk::SmallDisk, within,
};
use futures::StreamExt as _;
use tokio::{sync::Notify, time::timeout};

use super::{AcceptedTasks, has_not_panicked, is_clear, not_serving};

/// Size of the disk, in MiB: an empty store takes a few segments of 8 MiB.
const DISK: u64 = 96;

/// What is left on it when the test begins.
const LEFT: u64 = 3 << 20;

/// Bytes of each task.
const TASK: usize = 20_000;

/// Bytes of each chunk of an artifact.
const CHUNK: usize = 64 << 10;

/// A daemon whose store is on a small disk, with some tasks that it has taken.
async fn on_a_small_disk() -> Option<(SmallDisk, Daemon, AcceptedTasks)> {
    let home = Home::new();
    let disk = SmallDisk::mount(&home.path().join("data"), DISK)?;
    let daemon = DaemonBuilder::new(home).metrics().start().await;
    let mut ledger = AcceptedTasks::default();
    let mut rpc = daemon.rpc().await;
    for _ in 0..20 {
        ledger.send(&mut rpc, daemon.peer_id(), TASK).await.unwrap();
    }
    Some((disk, daemon, ledger))
}

/// Sends until it is refused; the refusal is clear, and so is every one after it.
async fn send_until_refused(daemon: &Daemon, ledger: &mut AcceptedTasks) {
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
    // Who asks is told why, and is not left to think that no daemon is there.
    let peer = daemon.peer_id().to_string();
    for args in [
        &["tasks"][..],
        &["task", "some-task"],
        &["trace", "some-task"],
        &["send", &peer, "?"],
        &["card"],
        &["card", &peer],
        &["demo"],
    ] {
        let said = anycast_at(&daemon, args).await;
        assert_eq!(said.status.code(), Some(1), "{}", said.all_output);
        assert!(
            said.all_output.contains("the store failed: "),
            "{}",
            said.all_output
        );
    }
    // Who looks after it sees it too, once.
    let status = anycast_at(&daemon, &["status"]).await;
    assert_eq!(status.status.code(), Some(1), "{}", status.all_output);
    assert!(
        status.all_output.contains("failed     the store failed: "),
        "{}",
        status.all_output
    );
    let top = anycast_at(&daemon, &["top", "--once"]).await;
    assert_eq!(top.status.code(), Some(1), "{}", top.all_output);
    let status = anycast_at(&daemon, &["--json", "status"]).await;
    assert_eq!(status.status.code(), Some(1), "{}", status.all_output);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let failure = status["store_failure"].clone();
    let health = daemon.metrics().get("/health").await;
    assert_eq!(health.body["problems"], serde_json::json!([failure]));
    let text = failure.as_str().unwrap();
    assert_eq!(text.matches("the store failed").count(), 1, "{text}");
    assert_eq!(text.matches("restart the daemon").count(), 1, "{text}");
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

/// An artifact that waits, in its middle, for the disk of its receiver to fill up.
struct StreamOntoFullDisk {
    disk: SmallDisk,
    alice: Daemon,
    bob: Daemon,
    ledger: AcceptedTasks,
    handle: TaskHandle,
    events: BoxStream<Result<ArtifactEvent, agentanycast::Error>>,
    /// What the agent that streams was told in the end.
    told: Arc<Mutex<Option<Result<(), String>>>>,
    _agent: TestAgent,
}

impl StreamOntoFullDisk {
    /// An artifact of so many chunks of 64 KiB, of which one has come. Then the disk is full.
    async fn start(chunks: usize) -> Option<Self> {
        let (disk, alice, ledger) = on_a_small_disk().await?;
        let bob = Daemon::builder().bootstrap(alice.tcp()).start().await;
        let (here, there) = (alice.node().await, bob.node().await);
        wait_connected(&here, &bob).await;
        let (full, told) = (Arc::new(Notify::new()), Arc::new(Mutex::new(None)));
        let (go_on, tell) = (Arc::clone(&full), Arc::clone(&told));
        let agent = TestAgent::serve(&there, move |task| {
            let (go_on, tell) = (Arc::clone(&go_on), Arc::clone(&tell));
            async move {
                let mut artifact = task.stream_artifact("large", "application/octet-stream").await?;
                artifact.write(chunk(0)).await?;
                go_on.notified().await;
                let written = async {
                    for number in 1..chunks {
                        artifact.write(chunk(number)).await?;
                    }
                    artifact.finish().await
                };
                let outcome = written.await.map_err(|error| error.to_string());
                *tell.lock().unwrap() = Some(outcome.clone());
                match outcome {
                    Ok(()) => task.complete([]).await?,
                    Err(_) => task.fail("it could not be sent").await?,
                }
                Ok(())
            }
        });
        let target = Target::Peer(bob.peer_id().clone());
        let handle = here.send_task(target, "x").await.unwrap();
        let mut events = handle.artifacts();
        for _ in 0..2 {
            let event = within("the artifact begins", events.next()).await;
            assert!(matches!(
                event,
                Some(Ok(ArtifactEvent::Start { .. } | ArtifactEvent::Chunk { .. }))
            ));
        }
        disk.fill(LEFT);
        full.notify_one();
        Some(Self {
            disk,
            alice,
            bob,
            ledger,
            handle,
            events,
            told,
            _agent: agent,
        })
    }

    async fn no_room(&self) {
        eventually("there is no room for more", || async {
            self.alice
                .log_tail()
                .contains("no room for an artifact")
                .then_some(())
        })
        .await;
    }
}

fn chunk(number: usize) -> Vec<u8> {
    vec![number as u8; CHUNK]
}

/// The receiver's disk fills up in the middle of an artifact: it waits, and goes on when there is room.
#[tokio::test]
async fn an_artifact_waits_for_room() {
    const CHUNKS: usize = 200;
    let Some(mut streamed) = StreamOntoFullDisk::start(CHUNKS).await else {
        return;
    };
    streamed.no_room().await;
    assert!(
        streamed.told.lock().unwrap().is_none(),
        "the agent is told too early"
    );
    streamed.disk.make_room();
    let mut bytes = 0;
    loop {
        match within("the artifact goes on", streamed.events.next()).await {
            Some(Ok(ArtifactEvent::Chunk { data, .. })) => bytes += data.len(),
            Some(Ok(ArtifactEvent::End { reason, .. })) => {
                assert_eq!(reason, EndReason::Complete);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes <= CHUNKS * CHUNK);
    let task = within("the task ends", streamed.handle.wait()).await.unwrap();
    let whole = task.artifacts.first().and_then(|artifact| artifact.parts.first());
    let expected: Vec<u8> = (0..CHUNKS).flat_map(chunk).collect();
    assert!(
        whole.and_then(Part::as_raw) == Some(&expected[..]),
        "other bytes than were sent"
    );
    streamed.alice.kill().await;
    streamed.alice.restart().await;
    streamed.ledger.is_kept_by(&streamed.alice).await;
    has_not_panicked(&streamed.alice.log_tail());
}

/// The receiver's disk stays full: after a minute both sides are told why the artifact ended, and what was
/// accepted before is there when there is room again.
#[tokio::test]
#[ignore = "long: waits 60 s for room on the disk"]
async fn an_artifact_that_finds_no_room_ends() {
    /// Beyond the minute in which the daemon waits for room.
    const PATIENCE: Duration = Duration::from_mins(3);
    let Some(mut streamed) = StreamOntoFullDisk::start(20 * DISK as usize).await else {
        return;
    };
    let end = loop {
        let event = timeout(PATIENCE, streamed.events.next())
            .await
            .expect("the artifact ends");
        match event.expect("the stream does not end without a reason") {
            Ok(ArtifactEvent::End { reason, error, .. }) => break Some((reason, error)),
            Ok(_) => {}
            // The daemon, which cannot write down the end either, refuses the stream.
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break None;
            }
        }
    };
    if let Some((reason, error)) = &end {
        assert!(
            *reason != EndReason::Complete && !error.is_empty(),
            "{reason:?}: {error}"
        );
    }
    has_not_panicked(&streamed.alice.log_tail());
    let told = eventually("its sender is told", || async {
        streamed.told.lock().unwrap().clone()
    })
    .await;
    assert!(told.is_err(), "an artifact larger than the disk was taken");
    streamed.disk.make_room();
    streamed.alice.kill().await;
    streamed.alice.restart().await;
    let end = within("the task ends", streamed.handle.wait()).await;
    assert!(matches!(end, Err(TaskError::Failed { .. })), "{end:?}");
    streamed.ledger.is_kept_by(&streamed.alice).await;
    for daemon in [&streamed.alice, &streamed.bob] {
        has_not_panicked(&daemon.log_tail());
    }
}
