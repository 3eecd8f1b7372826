//! The sending side against ACKs, false ACKs and reconnects.

use super::*;

fn outgoing() -> SendWindow {
    let mut outgoing = SendWindow::start(StreamStart::default(), "start".into());
    outgoing.on_stream_opened();
    outgoing
}

fn push(outgoing: &mut SendWindow, count: u32) {
    for _ in 0..count {
        let id = format!("c{}", outgoing.next_sequence());
        outgoing.push_chunk(id, Bytes::from_static(b"x"), false).unwrap();
    }
}

fn pull(outgoing: &mut SendWindow) -> Vec<String> {
    std::iter::from_fn(|| outgoing.next_frame())
        .map(|frame| match frame {
            StreamFrame::Start { id } | StreamFrame::Chunk { id, .. } | StreamFrame::End { id, .. } => id,
        })
        .collect()
}

fn ack(id: &str, next_sequence: Option<i32>) -> AckPayload {
    AckPayload {
        acknowledged_envelope_id: id.into(),
        next_sequence,
        ..AckPayload::default()
    }
}

fn is_violation(effect: &AckEffect) -> bool {
    matches!(effect, AckEffect::Refused(StreamRefusal::Violation(_)))
}

#[test]
fn the_first_stream_starts_without_waiting() {
    let mut outgoing = outgoing();
    push(&mut outgoing, 2);
    outgoing.end("end".into(), StreamEndReason::Complete, "").unwrap();
    assert_eq!(pull(&mut outgoing), ["start", "c0", "c1", "end"]);
    assert_eq!(outgoing.on_ack(&ack("start", Some(0))), AckEffect::Ignored);
    assert_eq!(
        outgoing.on_ack(&ack("c1", Some(2))),
        AckEffect::Progress { acknowledged: 2 }
    );
    assert_eq!(outgoing.on_ack(&ack("end", Some(2))), AckEffect::Finished);
    assert!(outgoing.is_over());
}

#[test]
fn a_full_window_takes_no_more_until_an_ack() {
    let mut outgoing = outgoing();
    push(&mut outgoing, WINDOW);
    assert!(!outgoing.has_room());
    assert_eq!(
        outgoing.push_chunk("c".into(), Bytes::new(), false),
        Err(PushError::NoRoom)
    );
    pull(&mut outgoing);
    assert_eq!(
        outgoing.on_ack(&ack("c15", None)),
        AckEffect::Progress { acknowledged: 16 }
    );
    push(&mut outgoing, 16);
    assert!(!outgoing.has_room());
}

#[test]
fn nothing_is_taken_after_the_last_chunk_or_above_the_size() {
    let mut outgoing = outgoing();
    let large = Bytes::from(vec![0; MAX_CHUNK + 1]);
    assert_eq!(
        outgoing.push_chunk("c".into(), large, false),
        Err(PushError::ChunkTooLarge(MAX_CHUNK + 1))
    );
    outgoing.push_chunk("c0".into(), Bytes::new(), true).unwrap();
    assert_eq!(
        outgoing.push_chunk("c1".into(), Bytes::new(), false),
        Err(PushError::Ended)
    );
    outgoing.end("end".into(), StreamEndReason::Complete, "").unwrap();
    assert_eq!(
        outgoing.end("end".into(), StreamEndReason::Error, ""),
        Err(PushError::Ended)
    );
}

#[test]
fn after_a_reconnect_start_asks_where_to_go_on() {
    let mut outgoing = outgoing();
    push(&mut outgoing, 5);
    pull(&mut outgoing);
    outgoing.on_ack(&ack("c1", Some(2)));
    outgoing.on_stream_closed();
    assert_eq!(outgoing.next_frame(), None);
    outgoing.end("end".into(), StreamEndReason::Complete, "").unwrap();
    outgoing.on_stream_opened();
    assert_eq!(pull(&mut outgoing), ["start"]);
    assert_eq!(
        outgoing.on_ack(&ack("start", Some(4))),
        AckEffect::Progress { acknowledged: 4 }
    );
    assert_eq!(pull(&mut outgoing), ["c4", "end"]);
}

#[test]
fn a_receiver_without_next_sequence_gets_all_unacked_chunks_again() {
    let mut outgoing = outgoing();
    push(&mut outgoing, 3);
    pull(&mut outgoing);
    outgoing.on_ack(&ack("c0", None));
    outgoing.on_stream_opened();
    pull(&mut outgoing);
    outgoing.on_ack(&ack("start", None));
    assert_eq!(pull(&mut outgoing), ["c1", "c2"]);
}

#[test]
fn acks_of_what_was_not_sent_are_ignored() {
    let mut outgoing = SendWindow::start(StreamStart::default(), "start".into());
    push(&mut outgoing, 2);
    outgoing.end("end".into(), StreamEndReason::Complete, "").unwrap();
    for id in ["start", "c0", "c1", "end", "other", ""] {
        assert_eq!(outgoing.on_ack(&ack(id, Some(2))), AckEffect::Ignored, "{id}");
    }
    outgoing.on_stream_opened();
    pull(&mut outgoing);
    outgoing.on_ack(&ack("c0", None));
    assert_eq!(outgoing.on_ack(&ack("c0", Some(1))), AckEffect::Ignored);
}

#[test]
fn a_lying_receiver_ends_the_artifact() {
    let lies: [(&str, Option<i32>); 6] = [
        ("start", Some(4)),
        ("start", Some(-1)),
        ("c2", Some(4)),
        ("c2", Some(2)),
        ("c2", Some(0)),
        ("end", Some(2)),
    ];
    for (id, next) in lies {
        let mut outgoing = outgoing();
        push(&mut outgoing, 3);
        outgoing.end("end".into(), StreamEndReason::Complete, "").unwrap();
        pull(&mut outgoing);
        assert!(is_violation(&outgoing.on_ack(&ack(id, next))), "{id} {next:?}");
        assert_eq!(outgoing.next_frame(), None);
        assert_eq!(outgoing.on_ack(&ack("c2", None)), AckEffect::Ignored);
    }
}

#[test]
fn a_receiver_cannot_take_an_ack_back() {
    let mut outgoing = outgoing();
    push(&mut outgoing, 3);
    pull(&mut outgoing);
    outgoing.on_ack(&ack("c1", Some(2)));
    outgoing.on_stream_opened();
    pull(&mut outgoing);
    assert!(is_violation(&outgoing.on_ack(&ack("start", Some(1)))));
}

#[test]
fn a_refusal_carries_its_bounded_reason() {
    let mut outgoing = outgoing();
    pull(&mut outgoing);
    let reason = "é".repeat(4096);
    let refused = AckPayload {
        outcome: AckOutcome::Rejected as i32,
        reason,
        ..ack("start", None)
    };
    let AckEffect::Refused(StreamRefusal::ByPeer(reason)) = outgoing.on_ack(&refused) else {
        panic!("not refused")
    };
    assert_eq!(reason.len(), MAX_REASON);
    assert_eq!(
        outgoing.push_chunk("c".into(), Bytes::new(), false),
        Err(PushError::Ended)
    );
}
