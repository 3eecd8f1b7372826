use proptest::prelude::*;
use serde_json::json;

use super::*;

fn payload(number: u64) -> Map<String, Value> {
    Map::from_iter([("n".to_owned(), json!(number))])
}

fn published(log: &mut StreamLog, from: u64) -> Vec<StreamFrame> {
    let mut frames = Vec::new();
    let mut seq = from;
    while let Ok(LogRead::Frame(frame)) = log.read(seq) {
        frames.push(frame.clone());
        seq += 1;
    }
    frames
}

fn flush(log: &mut StreamLog, now: i64) {
    if log.release(now) {
        log.publish();
    }
}

#[test]
fn the_frame_beyond_the_window_is_never_published() {
    for (window, sent) in [(1, 1), (2, 1), (64, 63)] {
        let mut log = StreamLog::new(window);
        let mut given = 0;
        while log.has_room() {
            log.push(0, DeltaType::Patch, payload(given));
            given += 1;
            flush(&mut log, 0);
        }
        assert_eq!(published(&mut log, 0).len(), sent, "window {window}");
        log.push_end(DeltaType::Done, payload(0));
        flush(&mut log, 0);
        assert_eq!(published(&mut log, 0).len(), sent, "the end is behind what waits");
        log.acknowledge(sent as u64 - 1, 0).unwrap();
        flush(&mut log, 0);
        assert!(log.next_seq() - log.acked() <= log.window());
    }
}

#[test]
fn without_an_acknowledgement_it_ends_in_the_slot_that_is_kept() {
    for (window, frames) in [(1, 1), (3, 3)] {
        let mut log = StreamLog::new(window);
        for number in 0..5 {
            log.push(0, DeltaType::Patch, payload(number));
        }
        flush(&mut log, 1000);
        assert_eq!(log.deadline(), None, "no consumer has read");
        let got = published(&mut log, 0);
        assert_eq!(log.deadline(), Some(1000 + ACK_WITHIN_MS));
        assert!(!log.expire(ACK_WITHIN_MS + 999) && log.expire(ACK_WITHIN_MS + 1000));
        log.publish();
        let all = published(&mut log, 0);
        assert_eq!(all.len(), frames);
        if window > 1 {
            let last = delta_of(&all[frames - 1], "s", None);
            assert_eq!(
                (last.kind, &last.payload["code"]),
                (DeltaType::Error, &json!("5.04"))
            );
        } else {
            assert_eq!(all, got);
            assert!(matches!(log.read(1), Ok(LogRead::End)) && !log.is_over());
            assert_eq!((log.deadline(), log.expire(i64::MAX)), (None, false));
            // The consumer that acknowledges the frame before it has it.
            log.acknowledge(0, 90_000).unwrap();
            assert!(matches!(log.read(1), Ok(LogRead::Wait)), "it is on its way");
            flush(&mut log, 90_000);
            let last = delta_of(&published(&mut log, 1)[0], "s", None);
            assert_eq!((last.seq, &last.payload["code"]), (1, &json!("5.04")));
        }
        assert!(log.is_over() && matches!(log.read(log.next_seq()), Ok(LogRead::End)));
    }
}

#[test]
fn chunks_that_wait_are_joined_up_to_a_bound() {
    let mut log = StreamLog::new(2);
    let piece = Bytes::from(vec![7; 100 << 10]);
    let mut offset = 0;
    let mut given = 0;
    while log.has_room() {
        log.push_chunk(0, "a", "text/plain", offset, piece.clone());
        offset += piece.len() as u64;
        given += 1;
        flush(&mut log, 0);
    }
    assert_eq!(given, 4, "one is sent, two are joined, one waits behind them");
    for seq in 0..2 {
        log.acknowledge(seq, 0).unwrap();
        flush(&mut log, 0);
    }
    let sizes: Vec<_> = published(&mut log, 0)
        .iter()
        .map(|frame| frame.content.bytes() >> 10)
        .collect();
    assert_eq!(sizes, [100, 200, 100]);
}

#[test]
fn a_consumer_that_acknowledges_each_half_of_its_window_is_never_stuck() {
    let piece = Bytes::from(vec![7; 32 << 10]);
    let artifact = "5f0c7d3e-93f5-4c9e-8a53-1c2d3e4f5a6b";
    for window in 2..=MOST_WINDOW {
        let mut log = StreamLog::new(window);
        let mut offset = 0;
        let mut read = 0;
        while offset < 16 << 20 {
            // The source is faster than the consumer: what waits is joined.
            loop {
                while log.has_room() {
                    log.push_chunk(0, artifact, "text/plain", offset, piece.clone());
                    offset += piece.len() as u64;
                }
                let before = log.next_seq();
                flush(&mut log, 0);
                if log.next_seq() == before {
                    break;
                }
            }
            read += published(&mut log, read).len() as u64;
            assert!(
                read - log.acked() >= window / 2,
                "{read} frames are read of a window of {window}"
            );
            log.acknowledge(read - 1, 0).unwrap();
        }
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut log = StreamLog::new(64);
    let piece = Bytes::from(vec![7; MOST_CHUNK]);
    for number in 0..3000_u64 {
        if number % 3 == 0 {
            log.push_chunk(0, "a", "", number, piece.clone());
        } else {
            log.push(0, DeltaType::Patch, payload(number));
        }
        flush(&mut log, 0);
        if log.next_seq() > log.acked() + 10 {
            log.acknowledge(log.next_seq() - 1, 0).unwrap();
        }
        assert!(log.bytes() <= KEPT_BYTES + MOST_UNACKED_BYTES + MOST_PENDING * MOST_CHUNK);
        assert!(log.frames.len() <= KEPT_FRAMES + 64);
    }
    let gap = log.read(0).unwrap_err();
    assert_eq!(gap.code(), Some(UampCode::MissingDelta));
    let ahead = log.acknowledge(10_000, 0).unwrap_err();
    assert_eq!(ahead.code(), Some(UampCode::MissingDelta));
}

#[derive(Clone, Debug)]
enum LogStep {
    Chunk(u8, u16),
    Progress,
    Patch,
    End,
    Ack(u64),
    Wait(i64),
}

fn any_step() -> impl Strategy<Value = LogStep> {
    prop_oneof![
        6 => (0_u8..2, 1_u16..2000).prop_map(|(artifact, length)| LogStep::Chunk(artifact, length)),
        2 => Just(LogStep::Progress),
        2 => Just(LogStep::Patch),
        1 => Just(LogStep::End),
        4 => (0_u64..6).prop_map(LogStep::Ack),
        1 => (0_i64..40_000).prop_map(LogStep::Wait),
    ]
}

proptest! {
    /// A consumer that reads all at once gets each byte once and in order, no more than the window, and
    /// nothing behind the end.
    #[test]
    fn a_consumer_gets_all_in_order(
        window in 1_u64..6,
        steps in proptest::collection::vec(any_step(), 0..80),
    ) {
        let mut log = StreamLog::new(window);
        let mut pushed = [0_u64; 2];
        let mut patches = 0;
        let (mut got, mut got_bytes, mut got_patches) = (0_u64, [0_u64; 2], 0);
        let (mut now, mut ended) = (0, false);
        for step in steps {
            match step {
                LogStep::Chunk(artifact, length) if log.has_room() => {
                    let at = usize::from(artifact);
                    log.push_chunk(0, ["a", "b"][at], "", pushed[at], vec![0; length.into()].into());
                    pushed[at] += u64::from(length);
                }
                LogStep::Progress if log.has_room() => log.push(0, DeltaType::Progress, payload(0)),
                LogStep::Patch if log.has_room() => {
                    log.push(0, DeltaType::Patch, payload(patches));
                    patches += 1;
                }
                LogStep::End => log.push_end(DeltaType::Done, payload(0)),
                LogStep::Ack(back) if got > back => log.acknowledge(got - 1 - back, now).unwrap(),
                LogStep::Wait(ms) => {
                    now += ms;
                    if log.expire(now) {
                        log.publish();
                    }
                }
                _ => {}
            }
            flush(&mut log, now);
            for frame in published(&mut log, got) {
                prop_assert!(!ended, "nothing comes behind the end");
                prop_assert_eq!(frame.seq, got);
                got += 1;
                prop_assert!(got - log.acked() <= window);
                match &frame.content {
                    FrameContent::Chunk { artifact, offset, bytes, .. } => {
                        let at = usize::from(artifact == "b");
                        prop_assert_eq!(*offset, got_bytes[at]);
                        got_bytes[at] += bytes.len() as u64;
                    }
                    FrameContent::Other { kind: DeltaType::Patch, payload: said, .. } => {
                        prop_assert_eq!(said, &payload(got_patches));
                        got_patches += 1;
                    }
                    FrameContent::Other { kind, .. } => ended = kind.is_terminal(),
                }
            }
            prop_assert_eq!(log.unacked().count() as u64, log.next_seq() - log.acked());
            if ended && !log.is_cut {
                let last = published(&mut log, got - 1).remove(0);
                let is_done = matches!(last.content, FrameContent::Other { kind: DeltaType::Done, .. });
                prop_assert!(!is_done || (got_bytes == pushed && got_patches == patches));
            }
        }
    }
}
