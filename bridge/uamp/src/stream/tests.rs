use agentanycast_gateway::fake::FakeGateway;
use bytes::Bytes;
use tokio::sync::Semaphore;

use super::*;

/// A stream whose task makes pieces without end, for a consumer with this window.
fn endless(window: u64) -> Arc<UampStream> {
    let origin = StreamOrigin {
        id: EnvelopeId::random(),
        from: "did:web:client.example".to_owned(),
        to: vec!["did:web:worker.example".to_owned()],
        context: String::new(),
    };
    let stream = UampStream::new(
        "s".to_owned(),
        CallerIdentity::identified("alice"),
        origin,
        vec![None],
        StreamLog::new(window),
        vec![TaskPosition::default()],
    );
    let stream = Arc::new(stream);
    let events = futures::stream::unfold(0_u64, |offset| async move {
        tokio::task::yield_now().await;
        let bytes = Bytes::from_static(&[7; 1000]);
        let event = FollowEvent::Piece {
            artifact: "a".to_owned(),
            mime: String::new(),
            offset,
            bytes,
        };
        Some(((0, event), offset + 1000))
    });
    let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let node = Arc::new(FakeGateway::default());
    stream.start(node, Box::pin(events), CancellationToken::new(), slot);
    stream
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_never_acknowledges_is_told_5_04() {
    for (window, frames) in [(1, 1), (2, 2), (64, 64)] {
        let stream = endless(window);
        let begun = tokio::time::Instant::now();
        let mut deltas = Vec::new();
        while let Some(delta) = stream.next(deltas.len() as u64).await.unwrap() {
            deltas.push(delta);
        }
        assert_eq!(deltas.len(), frames, "window {window}");
        let waited = begun.elapsed().as_secs();
        assert!((59..62).contains(&waited), "{waited} s");
        // A window of one has no slot for the error: the consumer has it once it acknowledges what it has.
        if window == 1 {
            begin_reading(&stream, ReadFrom::at(1)).unwrap();
            deltas.extend(stream.next(1).await.unwrap());
        }
        assert_eq!(deltas.last().unwrap().payload["code"], "5.04");
        assert!(stream.next(deltas.len() as u64).await.unwrap().is_none());
        assert!(stream.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_keeps_it_going() {
    let stream = endless(4);
    let mut seq = 0;
    for _ in 0..10 {
        for _ in 0..3 {
            assert_eq!(stream.next(seq).await.unwrap().unwrap().kind, DeltaType::Chunk);
            seq += 1;
        }
        tokio::time::sleep(Duration::from_secs(50)).await;
        stream.acknowledge(seq - 1).unwrap();
    }
    assert!(stream.content().log.bytes() < 6 << 20, "what is kept is bounded");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_waits_without_growing() {
    let stream = endless(64);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!stream.is_over(), "its consumer may still come");
    assert!(stream.content().log.bytes() < 1 << 20);
    assert_eq!(stream.next(0).await.unwrap().unwrap().seq, 0);
}
