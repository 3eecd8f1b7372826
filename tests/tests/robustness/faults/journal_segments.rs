//! A crash while so much is written that large values stay in the segments of the journal that they were written to:
//! whatever was answered with OK is there afterwards, as it was sent.

use std::{fs, path::Path};

use agentanycast_tests::{Daemon, daemon::Home, eventually};
use futures::future::join_all;

use super::{AcceptedTasks, has_not_panicked, moved_aside};

/// Bytes of a task: so many that a daemon without optimisations fills segments soon enough.
const BYTES: usize = 1_000_000;

/// Connections, each with a task under way at a time.
const SENDERS: usize = 32;

/// At most so many segments are there that are not kept: one that is written to, one that is taken in, one to be used again.
const OTHERS: usize = 3;

/// After a start there are so many: none is taken in.
const OTHERS_AT_START: usize = 2;

fn segments(home: &Home) -> usize {
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "journal");
    let entries = fs::read_dir(home.path().join("data/journal")).unwrap();
    entries
        .filter(|entry| is_segment(&entry.as_ref().unwrap().path()))
        .count()
}

#[tokio::test]
async fn a_crash_while_segments_are_kept_loses_nothing() {
    let mut daemon = Daemon::builder().start().await;
    let (peer, home) = (daemon.peer_id().clone(), daemon.home().clone());
    let connections = join_all((0..SENDERS).map(|_| daemon.rpc())).await;
    let senders = connections.into_iter().map(async |mut rpc| {
        let mut ledger = AcceptedTasks::default();
        while ledger.send(&mut rpc, &peer, BYTES).await.is_ok() {}
        ledger
    });
    let crash = async {
        eventually("segments are kept", async || {
            (segments(&home) > OTHERS).then_some(())
        })
        .await;
        daemon.kill().await;
    };
    let (ledgers, ()) = tokio::join!(join_all(senders), crash);
    assert!(segments(&home) > OTHERS);
    // The second start is over what the first one made of it.
    for _ in 0..2 {
        daemon.restart().await;
        assert_eq!(
            moved_aside(&home.path().join("data")),
            Vec::<std::path::PathBuf>::new()
        );
        assert!(
            segments(&home) > OTHERS_AT_START,
            "what is read is in kept segments"
        );
        let mut ids = 0;
        for ledger in &ledgers {
            ledger.is_kept_by(&daemon).await;
            ids += ledger.0.len();
        }
        assert!(ids * BYTES > 8 << 20, "{ids} tasks");
        has_not_panicked(&daemon.log_tail());
        daemon.kill().await;
    }
}
