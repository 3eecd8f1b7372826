//! The outbox: its retry clock, its window and its oddities one by one; the network model is in
//! [`lossy_network`].

mod lossy_network;

use super::*;

pub(super) const DELAYS: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

pub(super) fn entry(sequence: u64, kind: EnvelopeKind, bytes: usize) -> OutboxEntry {
    OutboxEntry {
        sequence,
        id: format!("e{sequence}"),
        task_id: "t".into(),
        kind,
        bytes,
        expires_at: None,
    }
}

fn outbox_with(kinds: &[EnvelopeKind], bytes: usize) -> Outbox {
    let mut outbox = Outbox::new(7, DELAYS.to_vec());
    for kind in kinds {
        let sequence = outbox.next_sequence();
        outbox.push(entry(sequence, *kind, bytes));
    }
    outbox
}

fn open(outbox: &mut Outbox, now: Duration) -> Vec<OutboxAction> {
    assert_eq!(outbox.poll(now, true), [OutboxAction::OpenStream]);
    outbox.on_stream_open();
    outbox.poll(now, true)
}

fn sent(actions: &[OutboxAction]) -> Vec<u64> {
    let sequence = |action: &OutboxAction| match action {
        OutboxAction::Send(sequence) => Some(*sequence),
        _ => None,
    };
    actions.iter().filter_map(sequence).collect()
}

#[test]
fn nothing_is_done_for_a_peer_that_is_away_or_not_written_to() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable], 10);
    assert_eq!(outbox.poll(Duration::ZERO, false), []);
    assert!(outbox.needs_clock());
    assert_eq!(Outbox::new(7, DELAYS.to_vec()).poll(Duration::ZERO, true), []);
}

#[test]
fn how_far_an_envelope_is_can_be_told() {
    let mut outbox = outbox_with(
        &[
            EnvelopeKind::SendTask,
            EnvelopeKind::Durable,
            EnvelopeKind::Durable,
        ],
        WINDOW_BYTES / 2,
    );
    let told = |outbox: &Outbox| -> Vec<_> {
        let told = outbox.entries_of_task("t");
        told.map(|progress| (progress.stage, progress.ahead, progress.sent, progress.exposed))
            .collect()
    };
    assert_eq!(told(&outbox)[0], (DeliveryStage::Queued, 0, 0, false));
    open(&mut outbox, Duration::ZERO);
    assert_eq!(
        told(&outbox),
        [
            (DeliveryStage::Sent, 0, 1, true),
            (DeliveryStage::Sent, 1, 1, true),
            (DeliveryStage::Queued, 2, 0, false)
        ]
    );
    let mut now = Duration::ZERO;
    while outbox.depths().parked < 2 {
        now += Duration::from_secs(1);
        outbox.poll(now, true);
    }
    assert_eq!(told(&outbox)[0].0, DeliveryStage::Parked);
    outbox.on_stream_closed();
    assert_eq!(
        told(&outbox)[1],
        (DeliveryStage::Queued, 1, 0, true),
        "the peer may have it"
    );
    assert_eq!(outbox.entries_of_task("another").count(), 0);
}

/// Also over streams, and of one that another queue or an earlier run may have sent.
#[test]
fn how_often_it_was_sent_is_known_when_it_expires() {
    let mut outbox = outbox_with(&[EnvelopeKind::SendTask], 10);
    assert_eq!(outbox.attempts(1), SendAttempts::default());
    open(&mut outbox, Duration::ZERO);
    outbox.poll(Duration::from_secs(3), true);
    outbox.on_stream_closed();
    open(&mut outbox, Duration::from_secs(4));
    let thrice = SendAttempts {
        times: 3,
        earlier: false,
    };
    assert_eq!(outbox.attempts(1), thrice);
    let entry = OutboxEntry {
        expires_at: Some(1),
        ..entry(1, EnvelopeKind::SendTask, 10)
    };
    let mut again = Outbox::restore(7, 2, vec![entry.clone()], DELAYS.to_vec());
    assert!(again.attempts(1).earlier && again.attempts(1).is_exposed());
    again.set_attempts(1, thrice);
    let gone = again.expire(Duration::ZERO, 1, Duration::ZERO);
    assert_eq!(gone, [(entry, thrice)]);
}

#[test]
fn retries_come_after_2_4_and_8_seconds_then_reminders() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable; 20], 10);
    let mut last = [Duration::ZERO; 21];
    let mut gaps = vec![Vec::new(); 21];
    assert_eq!(sent(&open(&mut outbox, Duration::ZERO)).len(), 20);
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(500) {
        now += Duration::from_millis(10);
        for sequence in sent(&outbox.poll(now, true)) {
            gaps[sequence as usize].push(now.saturating_sub(last[sequence as usize]));
            last[sequence as usize] = now;
        }
    }
    let expected = [DELAYS[0], DELAYS[1], DELAYS[2], PARKED_RETRY];
    for (sequence, gaps) in gaps.iter().enumerate().skip(1) {
        assert!(gaps.len() >= expected.len(), "{sequence}: {gaps:?}");
        for (gap, expected) in gaps.iter().zip(expected) {
            let slack = Duration::from_millis(10);
            assert!(
                *gap >= expected * 8 / 10 && *gap <= expected * 12 / 10 + slack,
                "{sequence}: {gaps:?}"
            );
        }
    }
    let first: std::collections::BTreeSet<Duration> = gaps.iter().skip(1).map(|gaps| gaps[0]).collect();
    assert!(first.len() > 5, "retries are spread: {first:?}");
}

#[test]
fn at_most_a_window_is_in_flight() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable; WINDOW + 10], 10);
    assert_eq!(
        sent(&open(&mut outbox, Duration::ZERO)),
        (1..=WINDOW as u64).collect::<Vec<_>>()
    );
    assert_eq!(sent(&outbox.poll(Duration::ZERO, true)), Vec::<u64>::new());
    assert!(outbox.on_ack("e5").is_some());
    assert_eq!(sent(&outbox.poll(Duration::ZERO, true)), [WINDOW as u64 + 1]);
}

#[test]
fn at_most_a_window_of_bytes_is_in_flight_but_always_one_envelope() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable; 4], WINDOW_BYTES / 2);
    assert_eq!(sent(&open(&mut outbox, Duration::ZERO)), [1, 2]);
    outbox.on_ack("e1").unwrap();
    assert_eq!(sent(&outbox.poll(Duration::ZERO, true)), [3]);

    let mut outbox = outbox_with(&[EnvelopeKind::Durable; 2], WINDOW_BYTES * 3);
    assert_eq!(sent(&open(&mut outbox, Duration::ZERO)), [1]);
    outbox.on_ack("e1").unwrap();
    assert_eq!(sent(&outbox.poll(Duration::ZERO, true)), [2]);
}

#[test]
fn an_acknowledgement_of_an_unknown_id_changes_nothing() {
    let mut outbox = outbox_with(&[EnvelopeKind::SendTask, EnvelopeKind::Durable], 10);
    open(&mut outbox, Duration::ZERO);
    let before = format!("{outbox:?}");
    for id in ["", "e3", "another", "e1 "] {
        assert_eq!(outbox.on_ack(id), None);
        assert_eq!(format!("{outbox:?}"), before);
    }
    assert!(outbox.on_ack("e1").is_some());
    assert_eq!(
        outbox.on_ack("e1"),
        None,
        "the second acknowledgement of the same envelope"
    );
}

#[test]
fn a_new_stream_starts_from_the_lowest_unacknowledged() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable; 5], 10);
    open(&mut outbox, Duration::ZERO);
    outbox.on_ack("e1").unwrap();
    outbox.on_ack("e3").unwrap();
    assert_eq!(outbox.on_stream_closed(), []);
    assert_eq!(sent(&open(&mut outbox, Duration::from_secs(1))), [2, 4, 5]);
}

#[test]
fn questions_that_nobody_answers_never_block_the_rest() {
    let kinds: Vec<EnvelopeKind> = (0..WINDOW * 4)
        .map(|at| {
            if at % 2 == 0 {
                EnvelopeKind::Ephemeral
            } else {
                EnvelopeKind::Durable
            }
        })
        .collect();
    let mut outbox = outbox_with(&kinds, 10);
    let (mut now, mut given_up) = (Duration::ZERO, 0);
    let mut actions = open(&mut outbox, now);
    while !outbox.is_empty() {
        assert!(
            now < Duration::from_secs(200),
            "{} entries are stuck",
            outbox.len()
        );
        for action in actions {
            match action {
                // This peer acknowledges what it knows, and questions it does not know.
                OutboxAction::Send(sequence) if sequence % 2 == 0 => {
                    outbox.on_ack(&format!("e{sequence}"));
                }
                OutboxAction::GiveUp(entry) => {
                    assert_eq!(entry.kind, EnvelopeKind::Ephemeral);
                    given_up += 1;
                }
                _ => {}
            }
        }
        now += Duration::from_millis(100);
        actions = outbox.poll(now, true);
    }
    assert_eq!(
        given_up + actions.len(),
        WINDOW * 2,
        "all questions were given up"
    );
}

#[test]
fn a_question_is_given_up_once_the_retries_are_used_up() {
    let mut outbox = outbox_with(&[EnvelopeKind::Ephemeral], 10);
    open(&mut outbox, Duration::ZERO);
    let (mut now, mut times) = (Duration::ZERO, 1);
    while !outbox.is_empty() {
        now += Duration::from_millis(100);
        assert!(
            now < Duration::from_secs(30),
            "it waits longer than the retries take"
        );
        times += sent(&outbox.poll(now, true)).len();
    }
    assert_eq!(times, 4, "sent once and retried three times");
    assert!(now > Duration::from_secs(12));
}

#[test]
fn questions_go_with_the_stream_they_were_asked_on() {
    let mut outbox = outbox_with(
        &[
            EnvelopeKind::Ephemeral,
            EnvelopeKind::Durable,
            EnvelopeKind::Ephemeral,
        ],
        10,
    );
    assert_eq!(outbox.on_stream_closed(), [], "not asked yet");
    open(&mut outbox, Duration::ZERO);
    let lost: Vec<u64> = outbox
        .on_stream_closed()
        .iter()
        .map(|entry| entry.sequence)
        .collect();
    assert_eq!(lost, [1, 3]);
    assert_eq!(
        outbox.entries().map(|entry| entry.sequence).collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn an_entry_expires_in_its_millisecond_and_not_before() {
    let mut outbox = Outbox::new(7, DELAYS.to_vec());
    outbox.push(OutboxEntry {
        expires_at: Some(100),
        ..entry(1, EnvelopeKind::SendTask, 10)
    });
    outbox.push(entry(2, EnvelopeKind::Durable, 10));
    let mut expire = |now, unix| outbox.expire(Duration::from_secs(now), unix, EXPIRY_GRACE).len();
    assert_eq!(expire(0, 99), 0);
    assert_eq!(expire(1, 100), 0, "it has a last chance");
    assert_eq!(expire(20, 99), 0, "the calendar went back");
    assert_eq!(expire(40, 100), 0);
    assert_eq!(expire(70, 100), 1);
    assert_eq!(expire(80, u64::MAX), 0, "an entry without an expiry stays");
    assert_eq!(expire(200, u64::MAX), 0, "an entry without an expiry stays");
    assert_eq!(outbox.on_ack("e1"), None);
}

/// A deployed peer refuses COMPLETED of a task that it never saw WORKING.
#[test]
fn the_envelopes_of_a_task_expire_together() {
    let mut outbox = Outbox::new(7, DELAYS.to_vec());
    for (sequence, task, at) in [
        (1, "a", 100),
        (2, "b", 100),
        (3, "a", 200),
        (4, "", 100),
        (5, "", 200),
    ] {
        outbox.push(OutboxEntry {
            task_id: task.into(),
            expires_at: Some(at),
            ..entry(sequence, EnvelopeKind::Durable, 10)
        });
    }
    let mut expire = |now, unix| {
        let gone = outbox.expire(Duration::from_secs(now), unix, EXPIRY_GRACE);
        gone.iter().map(|(entry, _)| entry.sequence).collect::<Vec<_>>()
    };
    assert_eq!(expire(0, 150), [0; 0]);
    assert_eq!(expire(40, 150), [2, 4], "the first of task a waits for its last");
    assert_eq!(expire(50, 200), [0; 0]);
    assert_eq!(expire(90, 200), [1, 3, 5]);
}

#[test]
fn a_stream_wanted_for_something_else_is_opened_once() {
    let mut outbox = Outbox::new(7, DELAYS.to_vec());
    assert!(outbox.want_stream());
    assert!(!outbox.want_stream(), "it is opening");
    outbox.on_stream_open();
    assert!(!outbox.want_stream(), "it is open");
    outbox.on_stream_closed();
    assert!(outbox.want_stream());
}

#[test]
fn envelopes_that_nobody_acknowledged_in_time_hold_no_place_in_the_window() {
    let mut outbox = outbox_with(&[EnvelopeKind::Durable; WINDOW + 3], 10);
    assert_eq!(sent(&open(&mut outbox, Duration::ZERO)).len(), WINDOW);
    // 2 + 4 + 8 s, 20 % late at most: every retry is used up, and the last ones get their turn.
    let mut now = Duration::ZERO;
    let mut all = Vec::new();
    while now < Duration::from_secs(18) {
        now += Duration::from_millis(100);
        all.extend(sent(&outbox.poll(now, true)));
    }
    for sequence in WINDOW as u64 + 1..=WINDOW as u64 + 3 {
        assert!(
            all.contains(&sequence),
            "{sequence} waits behind envelopes without an answer"
        );
    }
    // They are not lost: each still waits for its acknowledgement, and goes first on a new stream.
    assert_eq!(outbox.len(), WINDOW + 3);
    outbox.on_stream_closed();
    assert_eq!(
        sent(&open(&mut outbox, now)),
        (1..=WINDOW as u64).collect::<Vec<_>>()
    );
}
