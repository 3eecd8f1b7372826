//! What is seen of two looks at a daemon, on ratatui's terminal for tests.

#![allow(
    clippy::unnecessary_wraps,
    reason = "what is made may be missing in what is shown"
)]

use std::time::{Duration, Instant, SystemTime};

use agentanycast::{Activity, Nat, PeerQueue, Refusal, StatusCount, TaskStatus};
use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::cmd::top::view_model::{Snapshot, TopView};

const OTHER: &str = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
const AWAY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

fn at(seconds: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds))
}

fn count(status: TaskStatus, now: u64, outbound_total: u64) -> StatusCount {
    StatusCount {
        status,
        now,
        outbound_total,
        inbound_total: 2 * outbound_total,
    }
}

fn snapshot(begin: Instant, seconds: u64, completed: u64) -> Snapshot {
    let activity = Activity {
        node: Some(OTHER.parse().unwrap()),
        version: "1.2.3".to_owned(),
        started_at: at(0),
        now: at(7_200 + seconds),
        store_failure: String::new(),
        problems: Vec::new(),
        agent_listens: true,
        tasks: vec![
            count(TaskStatus::Submitted, 3, 3),
            count(TaskStatus::Completed, 40, completed),
        ],
        queued: 5,
        sent: 2,
        parked: 1,
        queues: vec![PeerQueue {
            peer: Some(AWAY.parse().unwrap()),
            waiting: 5,
            connected: false,
        }],
        refusals: vec![Refusal {
            at: at(7_170),
            peer: Some(OTHER.parse().unwrap()),
            by_peer: false,
            task_id: "t".to_owned(),
            reason: "not allowed by this node's policy (acl 2)".to_owned(),
            count: 7,
            unproven: Vec::new(),
        }],
        log: (0..30).map(|line| format!("line\u{1b}[2J {line}")).collect(),
    };
    Snapshot {
        at: begin + Duration::from_secs(seconds),
        activity,
        network: network(),
    }
}

fn network() -> agentanycast::Network {
    agentanycast::Network {
        nat: Nat::Private,
        direct_addresses: Vec::new(),
        relayed_addresses: Vec::new(),
        relays: Vec::new(),
        peers: vec![agentanycast::PeerPath {
            id: Some(OTHER.parse().unwrap()),
            via: agentanycast::PathKind::Relay,
            addresses: vec!["/ip4/192.0.2.7/tcp/4001".to_owned()],
            connected_at: at(0),
            round_trip: Some(Duration::from_micros(12_340)),
        }],
        registries: Vec::new(),
    }
}

fn shown(view: &TopView, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(view, frame.area(), frame.buffer_mut()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    (0..height)
        .map(|y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
        })
        .collect()
}

#[test]
fn all_of_it_is_on_a_small_terminal() {
    let begin = Instant::now();
    let view = TopView::new(Some(&snapshot(begin, 0, 100)), &snapshot(begin, 2, 125));
    let rows = shown(&view, 80, 24);
    let text = rows.join("\n");
    for part in [
        "…YbU1Nft9HyQ6X",
        "up 2h",
        "nat private",
        "agent listens",
        "submitted",
        " completed            40     12.5     25.0       375",
        " queued                5",
        " parked                1",
        "peers (2)",
        "away",
        "5 waiting",
        "12.3 ms",
        "/ip4/192.0.2.7/tcp/4001",
        "32s refused",
        "×7: not allowed by this node's policy (acl 2)",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(
        rows.last().unwrap().ends_with(" 29"),
        "the newest line is the last one:\n{text}"
    );
    assert!(!text.contains('\u{1b}'), "nothing drives the terminal");
}

#[test]
fn what_does_not_work_as_it_should_stands_at_the_top() {
    let mut degraded = snapshot(Instant::now(), 0, 0);
    degraded.activity.problems = vec!["the audit log cannot be opened again".to_owned(), "x".repeat(400)];
    let view = TopView::new(None, &degraded);
    let rows = shown(&view, 80, 24);
    assert_eq!(
        rows[1].trim_end(),
        "degraded: the audit log cannot be opened again"
    );
    assert!(rows[2].starts_with("degraded:"), "{}", rows[2]);
    assert!(
        rows[5].starts_with(" tasks"),
        "what is said is bounded: {}",
        rows[5]
    );
    assert_eq!(
        view.document()["problems"][0],
        "the audit log cannot be opened again"
    );
}

#[test]
fn a_store_that_has_failed_stands_at_the_top() {
    let mut failed = snapshot(Instant::now(), 0, 0);
    let why = format!(
        "the store failed: cannot write /{}: No space left on device (os error 28); check the disk, then restart the daemon",
        "d".repeat(90)
    );
    failed.activity.store_failure.clone_from(&why);
    failed.activity.agent_listens = false;
    let rows = shown(&TopView::new(None, &failed), 80, 24);
    assert!(rows[0].contains("no agent"), "{}", rows[0]);
    let letters = |text: &str| text.replace(' ', "");
    let top = rows[1..5].join("");
    assert!(
        letters(&top).contains(&letters(&why)),
        "all of it is there: {top}"
    );
    assert!(
        rows[1].starts_with("the store failed: cannot write"),
        "{}",
        rows[1]
    );
    assert!(
        rows.iter()
            .any(|row| row.starts_with(" completed") && row.contains('-')),
        "no rate of one look"
    );
}

#[test]
fn there_is_no_rate_over_a_restart() {
    let begin = Instant::now();
    let mut restarted = snapshot(begin, 2, 5);
    restarted.activity.started_at = at(7_000);
    let view = TopView::new(Some(&snapshot(begin, 0, 100)), &restarted);
    assert!(view.tasks.iter().all(|row| row.rate.is_none()));
    let document = view.document();
    assert_eq!(document["tasks"][1]["total"], 15);
    assert_eq!(document["peers"][0]["peer_id"], AWAY);
    assert!(document["tasks"][1]["sent_per_second"].is_null());
}

proptest! {
    /// Whatever size a terminal has, down to none: it is drawn.
    #[test]
    fn any_size_is_drawn(width in 0..200_u16, height in 0..60_u16) {
        let view = TopView::new(None, &snapshot(Instant::now(), 0, 1));
        let area = Rect::new(0, 0, width, height);
        draw(&view, area, &mut Buffer::empty(area));
    }
}
