//! A hundred streams at once beside small tasks: all end well. How long the tasks take meanwhile is a matter of
//! `cargo bench -p agentanycast-tests --bench streams_beside_tasks`.

use std::time::Duration;

use agentanycast::Target;
use agentanycast_tests::{DaemonPair, TransportKind, proc_stats::peak_rss_bytes, task_assertions::completed};
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::{ThrottledReader, ask, producer};
use crate::size;

const STREAMS: u64 = 100;

/// Of each stream. Not all the same, so that they end at different times.
fn bytes_of(stream: u64) -> u64 {
    (1 << 20) + stream * 10_007
}

/// What each stream may take in a daemon, in bytes: its share of the 64 MiB that all may have un-acknowledged, half
/// a MiB that HTTP/2 lets the agent send ahead or the reader leave unread, and as much in the muxer's window.
const MAY_TAKE_EACH: u64 = 3 << 20;

/// A daemon without any stream, generously.
const BASE: u64 = 64 << 20;

async fn streams_beside_tasks(transport: TransportKind) {
    let tasks = size("AGENTANYCAST_STREAM_TASKS", 500);
    let pair = DaemonPair::start(transport).await;
    let (alice, bob) = pair.nodes().await;
    let agents = [producer(&bob), producer(&alice)];
    let mut streams = JoinSet::new();
    for stream in 0..STREAMS {
        let (alice, peer) = (alice.clone(), pair.bob.peer_id().clone());
        streams.spawn(async move {
            let handle = ask(&alice, &peer, bytes_of(stream)).await;
            ThrottledReader::start(&handle, u64::MAX)
                .into_end()
                .await
                .is_whole(bytes_of(stream));
            completed(&handle).await;
        });
    }
    let mut pace = tokio::time::interval(Duration::from_millis(2));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = JoinSet::new();
    for number in 0..tasks {
        pace.tick().await;
        let (bob, target) = (bob.clone(), Target::Peer(pair.alice.peer_id().clone()));
        running.spawn(async move {
            let text = format!("task {number}");
            let handle = bob.send_task(target, text.clone()).await.unwrap();
            assert_eq!(completed(&handle).await.text_content(), text);
        });
    }
    running.join_all().await;
    streams.join_all().await;
    let peaks = [&pair.alice, &pair.bob].map(|daemon| peak_rss_bytes(daemon.pid()));
    let most = BASE + STREAMS * MAY_TAKE_EACH;
    assert!(
        peaks.iter().all(|peak| *peak <= most),
        "{peaks:?} bytes of memory"
    );
    drop(agents);
}

#[tokio::test]
async fn a_hundred_streams_and_many_tasks_end_well_over_tcp() {
    streams_beside_tasks(TransportKind::Tcp).await;
}

#[tokio::test]
async fn a_hundred_streams_and_many_tasks_end_well_over_quic() {
    streams_beside_tasks(TransportKind::Quic).await;
}
