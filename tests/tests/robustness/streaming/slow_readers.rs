//! Readers that are slow, or stop: the producer gets no further ahead than what windows and buffers hold,
//! memory included, and nobody else is held up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use agentanycast::{Artifact, Target};
use agentanycast_tests::{
    DaemonPair, TransportKind,
    agent::TestAgent,
    proc_stats::{peak_rss_bytes, reset_peak_rss, rss_bytes},
    task_assertions::completed,
    wait::eventually_within,
    within,
};

use super::{ThrottledReader, ask, pieces};

/// How far a producer may be ahead of its reader, in bytes: 4 MiB that a daemon takes ahead of the reader, 4 MiB
/// in the window between the daemons, and half a MiB in each of four buffers of HTTP/2 and the two ends, with
/// a piece of a MiB on both sides of the count.
const MAY_BE_AHEAD: u64 = 12 << 20;

/// A buffer of HTTP/2. One that was not full may fill later: other calls on its connection widen the window of them all.
const BUFFER: u64 = 512 << 10;

/// What a daemon may take for each such stream, in bytes: the same, and the allocator's share.
const MAY_GROW: u64 = 32 << 20;

/// An agent as `producer`, which counts the bytes that were taken from it.
fn counted_producer(node: &agentanycast::Node) -> (TestAgent, Arc<AtomicU64>) {
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let agent = TestAgent::serve(node, move |task| {
        let count = Arc::clone(&count);
        async move {
            let text = task.message().text_content();
            let Ok(bytes) = text.parse::<u64>() else {
                task.complete([Artifact::text(text)]).await?;
                return Ok(());
            };
            let mut artifact = task.stream_artifact("bulk", "").await?;
            for piece in pieces(bytes) {
                for chunk in piece.chunks(64 << 10) {
                    artifact.write(chunk).await?;
                    count.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                }
            }
            artifact.finish().await?;
            task.complete([]).await?;
            Ok(())
        }
    });
    (agent, taken)
}

/// The reader takes a hundredth of what the road could carry.
#[tokio::test]
async fn a_slow_reader_slows_the_producer() {
    const BYTES: u64 = 32 << 20;
    const SLOWLY: u64 = 4 << 20;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (_agent, taken) = counted_producer(&bob);
    let began = Instant::now();
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    ThrottledReader::start(&handle, u64::MAX)
        .into_end()
        .await
        .is_whole(BYTES);
    let per_byte = began.elapsed().as_secs_f64() / BYTES as f64;

    taken.store(0, Ordering::Relaxed);
    let daemons = [pair.alice.pid(), pair.bob.pid()];
    let before = daemons.map(rss_bytes);
    daemons.into_iter().for_each(reset_peak_rss);
    let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
    let mut reading = ThrottledReader::start(&handle, 0);
    // Ten steps of the second, so that the whole takes no longer than it must.
    let step = SLOWLY / 64;
    for at in (0..SLOWLY).step_by(step as usize) {
        reading.allow(at);
        reading.reaches(at.max(1)).await;
        tokio::time::sleep(Duration::from_secs_f64(100.0 * per_byte * step as f64)).await;
        let ahead = taken.load(Ordering::Relaxed).saturating_sub(reading.bytes());
        assert!(ahead <= MAY_BE_AHEAD, "{ahead} bytes ahead of the reader");
    }
    for (daemon, before) in daemons.into_iter().zip(before) {
        let grown = peak_rss_bytes(daemon).saturating_sub(before);
        assert!(grown <= MAY_GROW, "{grown} bytes more");
    }
    reading.into_end().await.is_whole(BYTES);
}

/// Longer than it takes a sender without an acknowledgement to open its stream anew (15 s): that must not let
/// it go on either.
const LONG: Duration = Duration::from_secs(20);

/// Readers that stop altogether stop their producers, for as long as it may be; the agents' tasks go on, on the
/// same connections.
#[tokio::test]
#[ignore = "long: waits 20 s beside readers that stopped"]
async fn readers_that_stop_stop_their_producers_and_nobody_else() {
    const STREAMS: u64 = 6;
    const BYTES: u64 = 24 << 20;
    const TASKS: usize = 50;
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let (_agent, taken) = counted_producer(&bob);
    let daemons = [pair.alice.pid(), pair.bob.pid()];
    let before = daemons.map(rss_bytes);
    let mut readings = Vec::new();
    for _ in 0..STREAMS {
        let handle = ask(&alice, pair.bob.peer_id(), BYTES).await;
        let mut reading = ThrottledReader::start(&handle, 1);
        reading.reaches(1).await;
        readings.push(reading);
    }
    let stopped_at = stands_still(&taken).await;
    assert!(
        stopped_at <= STREAMS * MAY_BE_AHEAD,
        "{stopped_at} bytes were taken of {STREAMS} producers"
    );
    let until = Instant::now() + LONG;
    let mut tasks = 0;
    while tasks < TASKS || Instant::now() < until {
        let target = Target::Peer(pair.bob.peer_id().clone());
        let handle = within("a task is taken", alice.send_task(target, "on we go")).await;
        completed(&handle.unwrap()).await;
        tasks += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let later = taken.load(Ordering::Relaxed) - stopped_at;
    assert!(later <= STREAMS * BUFFER, "producers went on by {later} bytes");
    assert!(stands_still(&taken).await <= STREAMS * MAY_BE_AHEAD);
    for (daemon, before) in daemons.into_iter().zip(before) {
        let grown = peak_rss_bytes(daemon).saturating_sub(before);
        assert!(grown <= STREAMS * MAY_GROW, "{grown} bytes more");
    }
    for reading in readings {
        reading.into_end().await.is_whole(BYTES);
    }
}

/// Waits until a count has been the same for five seconds, which a loaded machine does not take between two pieces; what it
/// is then.
async fn stands_still(count: &AtomicU64) -> u64 {
    let mut last = (count.load(Ordering::Relaxed), Instant::now());
    eventually_within(Duration::from_mins(2), "the producers stand still", || {
        let now = count.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        }
        let still = last.1.elapsed() >= Duration::from_secs(5);
        async move { still.then_some(now) }
    })
    .await
}
