//! Bytes that are no frames: headers that lie, frames that stop, frames that never end.

use std::time::Duration;

use agentanycast_proto::v1::{Part, RawPart, SendTaskPayload, a2a_envelope::Payload, part::Content};
use agentanycast_tests::{
    raw_peer::{
        A2A, CARD, RawConnection, RawPeer, RawStream, encoded, envelope, frame, message, send_task, task_of,
    },
    within,
};
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use prost::Message as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::task::JoinSet;

use super::{AttackedDaemon, MIB, assert_accepted};

/// How slowly a slow frame comes: byte by byte with this pause, longer than a frame may take in all.
const TRICKLE: Duration = Duration::from_millis(500);

/// The longest frame that is taken.
const MAX_FRAME: usize = 16 << 20;

/// A header that claims 4 GiB, with bytes behind it: the stream is reset at once, on both protocols and both
/// transports, and nothing of what was claimed is allocated.
#[tokio::test]
async fn a_header_of_4_gib_is_refused() {
    let siege = AttackedDaemon::begin().await;
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let link = RawPeer::new().dial(address).await;
        for protocol in [A2A, CARD] {
            for _ in 0..50 {
                let stream = opened_with(&link, protocol, &[0xFF; 1024]).await;
                is_cut_off(stream).await;
            }
        }
        serves(&link).await;
    }
    siege.endured(16 * MIB).await;
}

/// A right envelope cut off at every one of its bytes, by the end of its stream: none is taken.
#[tokio::test]
async fn truncated_frames_have_no_effect() {
    let siege = AttackedDaemon::begin().await;
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let link = RawPeer::new().dial(address).await;
        let cut = envelope(send_task("cut off"));
        let whole = encoded(std::slice::from_ref(&cut));
        for length in 1..whole.len() {
            // It may be reset by the time that it ends.
            let _ = link.send_bytes(A2A, &whole[..length]).await;
        }
        serves(&link).await;
        assert!(!link.is_acked(&cut));
        let task = siege.task(&task_of(&cut)).await;
        assert_eq!(task.unwrap_err().code(), tonic::Code::NotFound);
    }
    siege.endured(16 * MIB).await;
}

/// Frames of random bytes, and right envelopes with one byte changed, on one stream with right ones behind them:
/// only those are acknowledged.
#[tokio::test]
async fn garbage_is_not_acknowledged() {
    const FRAMES: usize = 3000;
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let mut rng = StdRng::seed_from_u64(1);
    let mut bytes = Vec::new();
    for _ in 0..FRAMES {
        let mut junk = vec![0; rng.random_range(0..600)];
        rng.fill(&mut junk[..]);
        // A first byte that is no field of an envelope: chance must not make it a right one.
        if let Some(first) = junk.first_mut() {
            *first = 0x07;
        }
        bytes.extend(frame(&junk));
    }
    let right = envelope(send_task("behind the garbage"));
    bytes.extend(encoded(std::slice::from_ref(&right)));
    link.send_bytes(A2A, &bytes).await.unwrap();
    assert_accepted(&link.ack_of(&right).await, &right);
    let acks = link
        .heard()
        .iter()
        .filter(|heard| matches!(heard.payload, Some(Payload::Ack(_))))
        .count();
    assert_eq!(acks, 1, "only the right one is acknowledged");
    siege.endured(16 * MIB).await;
}

/// A frame of 16 MiB is taken, one of a byte more is not.
#[tokio::test]
async fn the_longest_frame_is_taken_and_no_longer_one() {
    let siege = AttackedDaemon::begin().await;
    let link = RawPeer::new().dial(siege.daemon.tcp()).await;
    let longest = sized(MAX_FRAME);
    link.send(std::slice::from_ref(&longest)).await;
    assert_accepted(&link.ack_of(&longest).await, &"16 MiB");
    let over = sized(MAX_FRAME + 1);
    let stream = opened_with(&link, A2A, &encoded(std::slice::from_ref(&over))).await;
    is_cut_off(stream).await;
    serves(&link).await;
    assert!(!link.is_acked(&over));
    // The frame as it came, decoded, in the cache, in its batch, in the journal's record and in its table, while the
    // one before it may still be on its way into the database: eight times.
    siege.endured(160 * MIB).await;
}

/// A peer that sends its frames byte by byte, on as many streams as it may have: it uses up its own share
/// and nobody else's, and each frame is cut off after 30 s.
#[tokio::test]
#[ignore = "long: waits 30 s until a slow frame is cut off"]
async fn slow_frames_hold_up_nobody_else_and_are_cut_off() {
    const STREAMS: usize = 200;
    // As many frames may one peer have in the making; the others wait, and then have 30 s of their own.
    const AT_ONCE: usize = 64;
    let siege = AttackedDaemon::begin().await;
    let slow = RawPeer::new().dial(siege.daemon.tcp()).await;
    let other = RawPeer::new().dial(siege.daemon.tcp()).await;
    let whole = encoded(&[envelope(send_task("slowly"))]);
    let mut trickles = JoinSet::new();
    for _ in 0..STREAMS {
        let stream = opened_with(&slow, A2A, &whole[..5]).await;
        trickles.spawn(trickle(stream, whole[5..whole.len() - 1].to_vec()));
    }
    let cut_off = async {
        for _ in 0..AT_ONCE {
            trickles.join_next().await;
        }
    };
    let cut_off = tokio::time::timeout(Duration::from_secs(90), cut_off);
    let meanwhile = async {
        siege.honest_work(100).await;
        serves(&other).await;
    };
    let (cut_off, ()) = futures::future::join(cut_off, meanwhile).await;
    cut_off.expect("slow frames are cut off");
    siege.endured(32 * MIB).await;
}

/// Two thousand frames that claim 16 MiB each and bring one byte: memory grows with what comes.
#[tokio::test]
async fn what_is_claimed_costs_nothing() {
    const STREAMS: usize = 500;
    let siege = AttackedDaemon::begin().await;
    let stranger = RawPeer::new();
    let mut held = Vec::new();
    for address in [siege.daemon.tcp(), siege.daemon.quic()] {
        let link = stranger.dial(address).await;
        for (protocol, header) in [(A2A, [1, 0, 0, 0, 7]), (CARD, [0, 4, 0, 0, 7])] {
            for _ in 0..STREAMS {
                held.push(opened_with(&link, protocol, &header).await);
            }
        }
        siege.honest_work(20).await;
        drop(link);
    }
    // 64 KiB are offered to each of the reads under way.
    siege.endured(160 * MIB).await;
}

/// A stream on which these bytes went out.
async fn opened_with(link: &RawConnection, protocol: &'static str, bytes: &[u8]) -> RawStream {
    let mut stream = within("a stream opens", link.open(protocol)).await.unwrap();
    // Writing may fail already: a reset does not wait for us.
    if stream.write_all(bytes).await.is_ok() {
        let _ = stream.flush().await;
    }
    stream
}

/// Writes a byte now and then, and begins again before the frame is whole, until nothing more is taken.
async fn trickle(mut stream: RawStream, bytes: Vec<u8>) {
    for byte in bytes.iter().cycle() {
        let went = async {
            stream.write_all(&[*byte]).await?;
            stream.flush().await
        };
        if went.await.is_err() {
            return;
        }
        tokio::time::sleep(TRICKLE).await;
    }
}

/// Asserts that the other side says nothing on this stream and does not take anything any more.
async fn is_cut_off(mut stream: RawStream) {
    let mut answer = Vec::new();
    let _ = within("the stream is reset", stream.read_to_end(&mut answer)).await;
    assert!(answer.is_empty(), "{} bytes of an answer", answer.len());
    let refused = async {
        while stream.write_all(&[0; 1024]).await.is_ok() && stream.flush().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within("nothing more is taken", refused).await;
}

/// Asserts that this peer is served.
async fn serves(link: &RawConnection) {
    let right = envelope(send_task("a right one"));
    link.send(std::slice::from_ref(&right)).await;
    assert_accepted(&link.ack_of(&right).await, &right);
}

/// A SEND_TASK of exactly so many bytes.
fn sized(bytes: usize) -> agentanycast_proto::v1::A2aEnvelope {
    let of = |content: usize| {
        let mut message = message("");
        message.parts = vec![Part {
            content: Some(Content::RawPart(RawPart {
                data: vec![7; content],
                ..RawPart::default()
            })),
            ..Part::default()
        }];
        envelope(Payload::SendTask(SendTaskPayload {
            task_id: uuid::Uuid::new_v4().to_string(),
            message: Some(message),
            ..SendTaskPayload::default()
        }))
    };
    let around = of(bytes).encoded_len() - bytes;
    let envelope = of(bytes - around);
    assert_eq!(envelope.encoded_len(), bytes);
    envelope
}
