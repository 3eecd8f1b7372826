//! Readers that go and others that come: late, in the middle, after the end, several at once.

use agentanycast_proto::v1::{self, subscribe_task_stream_response::Event};
use agentanycast_tests::{DaemonPair, TransportKind, rpc::Rpc, task_assertions::completed, within};
use futures::future::join_all;
use sha2::{Digest as _, Sha256};

use super::{ThrottledReader, ask, digest, pieces, producer};

const BYTES: u64 = 40 << 20;

/// Far enough from the end that the producer, too, is in the middle.
const MIDDLE: u64 = 8 << 20;

#[tokio::test]
async fn a_reader_goes_and_another_comes() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    for stop in [1, MIDDLE, 2 * MIDDLE] {
        let mut reading = ThrottledReader::start(&handle, stop);
        reading.reaches(stop).await;
        reading.done.abort();
    }
    ThrottledReader::start(&handle, u64::MAX)
        .into_end()
        .await
        .is_whole(BYTES);
    completed(&handle).await;
    // After the end.
    ThrottledReader::start(&handle, u64::MAX)
        .into_end()
        .await
        .is_whole(BYTES);
}

/// The fast one sets the pace; the slow one reads the file, at its own.
#[tokio::test]
async fn readers_of_one_artifact_do_not_wait_for_each_other() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    let mut stopped = ThrottledReader::start(&handle, 1);
    stopped.reaches(1).await;
    let fast = (0..3).map(|_| ThrottledReader::start(&handle, u64::MAX).into_end());
    for arrived in join_all(fast).await {
        arrived.is_whole(BYTES);
    }
    completed(&handle).await;
    stopped.into_end().await.is_whole(BYTES);
}

/// With nobody there to read, the artifact goes into the file all the same, and the task completes; who comes
/// then reads from wherever it likes.
#[tokio::test]
async fn an_artifact_that_nobody_reads_waits_in_its_file() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    let task = completed(&handle).await;
    let artifact_id = task.artifacts[0].id.clone();
    let mut client = pair.alice.rpc().await;
    let whole = read_from(&mut client, handle.id(), &artifact_id, 0).await;
    let chunks = i32::try_from(whole.len()).unwrap();
    assert_eq!(
        chunks as usize,
        whole.iter().filter(|chunk| !chunk.is_empty()).count()
    );
    assert!(Sha256::digest(whole.concat())[..] == digest(BYTES));
    let last = read_from(&mut client, handle.id(), &artifact_id, chunks - 1).await;
    assert_eq!(last, whole[chunks as usize - 1..]);
    let none = read_from(&mut client, handle.id(), &artifact_id, chunks).await;
    assert!(none.is_empty());
    assert_eq!(pieces(BYTES).map(|piece| piece.len() as u64).sum::<u64>(), BYTES);
}

/// The chunks from this one on.
async fn read_from(client: &mut Rpc, task_id: &str, artifact_id: &str, from: i32) -> Vec<Vec<u8>> {
    let request = v1::SubscribeTaskStreamRequest {
        task_id: task_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
        from_sequence: from,
    };
    let mut events = client.subscribe_task_stream(request).await.unwrap().into_inner();
    let mut chunks = Vec::new();
    while let Some(event) = within("the artifact goes on", events.message()).await.unwrap() {
        match event.event.unwrap() {
            Event::StreamStart(start) => assert_eq!(start.artifact_id, artifact_id),
            Event::StreamChunk(chunk) => {
                assert_eq!(chunk.sequence, from + chunks.len() as i32);
                chunks.push(chunk.data.to_vec());
            }
            Event::StreamEnd(end) => assert_eq!(end.reason(), v1::StreamEndReason::Complete),
        }
    }
    chunks
}
