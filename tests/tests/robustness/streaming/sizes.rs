//! Artifacts of every size, from nothing at all to what does not fit into memory, over both transports, and
//! the memory of both daemons while a large one passes.

use agentanycast_proto::v1;
use agentanycast_tests::{
    DaemonPair, TransportKind,
    proc_stats::{peak_rss_bytes, reset_peak_rss, rss_bytes},
    rpc,
    task_assertions::completed,
};

use super::{ThrottledReader, ask, largest, producer};

/// What a message carries at most, and what a chunk holds.
const CHUNK: u64 = 64 << 10;

/// Up to this many bytes a streamed artifact is part of its task (`max_artifact_bytes`); the SDK takes that
/// much in one message only up to 16 MiB.
const PART_OF_TASK: u64 = 16 << 20;

async fn every_size(transport: TransportKind) {
    let pair = DaemonPair::start(transport).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let mut raw = pair.alice.rpc().await;
    for bytes in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, largest()] {
        let handle = ask(&alice, pair.bob.peer_id(), bytes).await;
        ThrottledReader::start(&handle, u64::MAX)
            .into_end()
            .await
            .is_whole(bytes);
        completed(&handle).await;
        let task = rpc::get(&mut raw, handle.id()).await.unwrap();
        assert_eq!(task.artifacts.len(), 1);
        is_in_its_task(&task, bytes);
    }
}

/// The task holds what it has room for, and says where the rest is and how much.
fn is_in_its_task(task: &v1::Task, bytes: u64) {
    let artifact = &task.artifacts[0];
    match &artifact.parts[0].content {
        Some(v1::part::Content::RawPart(part)) => assert_eq!(part.data.len() as u64, bytes),
        Some(v1::part::Content::UrlPart(part)) => {
            assert!(bytes >= PART_OF_TASK / 8, "{bytes} bytes are by reference");
            let url = format!("agentanycast-stream:{}/{}", task.task_id, artifact.artifact_id);
            assert_eq!((&part.url, artifact.size_bytes), (&url, bytes));
        }
        other => panic!("{bytes} bytes are listed as {other:?}"),
    }
}

#[tokio::test]
async fn artifacts_of_every_size_arrive_as_they_were_over_tcp() {
    every_size(TransportKind::Tcp).await;
}

#[tokio::test]
async fn artifacts_of_every_size_arrive_as_they_were_over_quic() {
    every_size(TransportKind::Quic).await;
}

/// What a daemon may take beyond what it had, in bytes, while one artifact passes at full speed. In its window
/// are 4 MiB, in the muxer's and HTTP/2's buffers up to 2 MiB each, a block of the file 1 MiB; the rest is the
/// allocator's.
const MAY_GROW: u64 = 32 << 20;

#[tokio::test]
async fn memory_stays_flat_while_a_large_artifact_passes() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let daemons = [pair.alice.pid(), pair.bob.pid()];
    // Everything that is loaded or grown once is there after a first one.
    let first = ask(&alice, pair.bob.peer_id(), 1 << 20).await;
    ThrottledReader::start(&first, u64::MAX)
        .into_end()
        .await
        .is_whole(1 << 20);
    let before = daemons.map(rss_bytes);
    daemons.into_iter().for_each(reset_peak_rss);
    let handle = ask(&alice, pair.bob.peer_id(), largest()).await;
    ThrottledReader::start(&handle, u64::MAX)
        .into_end()
        .await
        .is_whole(largest());
    for (daemon, before) in daemons.into_iter().zip(before) {
        let peak = peak_rss_bytes(daemon);
        let grown = peak.saturating_sub(before);
        assert!(grown <= MAY_GROW, "from {before} to {peak} bytes of memory");
    }
}
