//! Order and loss: a thousand updates of one task, while the link between the daemons is cut twenty times.
//! None is missing at the originator, none is there twice, and they are in order.
//!
//! Over TCP every cut breaks the connection. Over QUIC a cut breaks it only when it lasts longer than the
//! connection's patience (5 s): `AGENTANYCAST_ORDER_QUIC_BREAKS` (default 2, at most 20) says how many do;
//! the others lose packets.

use agentanycast::{Message, TaskHandle, TaskStatus};
use agentanycast_proto::v1;
use agentanycast_tests::{
    DaemonPair, TransportKind,
    daemon_pair::{wait_connected, wait_disconnected},
    network_lab::{NetworkLab, VethLink},
    rpc::{self, Rpc, next_task},
    task_assertions::completed,
    within,
};
use futures::StreamExt as _;
use tokio::sync::watch;

use crate::size;

/// Updates of the one task.
const UPDATES: usize = 1000;

/// Times that the link is cut.
const CUTS: usize = 20;

/// Updates from one cut to the next.
const PER_CUT: usize = UPDATES / CUTS;

/// Updates that are made while a cut lasts that is not to break the connection.
const LOST: usize = 10;

#[tokio::test]
async fn updates_arrive_in_order_over_a_breaking_tcp_link() {
    updates_over_a_breaking_link(TransportKind::Tcp, CUTS).await;
}

#[tokio::test]
async fn updates_arrive_in_order_over_a_breaking_quic_link() {
    let breaks = size("AGENTANYCAST_ORDER_QUIC_BREAKS", 2);
    updates_over_a_breaking_link(TransportKind::Quic, breaks).await;
}

/// `breaks`: of the cuts, how many last until both daemons have noticed.
async fn updates_over_a_breaking_link(transport: TransportKind, breaks: usize) {
    let Some(lab) = NetworkLab::open() else { return };
    let (pair, link) = DaemonPair::in_lab(&lab, transport).await;
    let (mut alice, mut bob) = (pair.alice.rpc().await, pair.bob.rpc().await);
    let mut incoming = rpc::listen(&mut bob).await;
    let id = rpc::send(&mut alice, pair.bob.peer_id(), "count").await.task_id;
    assert_eq!(next_task(&mut incoming).await.task_id, id);
    let handle = pair.alice.node().await.task_handle(&id);
    let (reported, seen) = (watch::channel(0).0, watch::channel(0).0);
    let done = watch::channel(0).0;
    tokio::join!(
        count(bob, &id, &reported, done.subscribe()),
        watch_it(&handle, &seen),
        cut_and_mend(
            &pair,
            &link,
            breaks,
            &done,
            reported.subscribe(),
            seen.subscribe()
        ),
    );
    let task = completed(&handle).await;
    assert_eq!(task.text_content(), "counted");
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    let counted = (1..=UPDATES).map(|number| number.to_string());
    let expected: Vec<String> = ["count".to_owned()].into_iter().chain(counted).collect();
    assert!(said == expected, "{said:?}");
}

/// The agent: counts, and never gets further ahead of the cuts than one cut's share.
async fn count(mut bob: Rpc, id: &str, reported: &watch::Sender<usize>, mut done: watch::Receiver<usize>) {
    for number in 1..=UPDATES {
        rpc::report(&mut bob, id, v1::TaskStatus::Working, &number.to_string())
            .await
            .unwrap();
        reported.send_replace(number);
        if number % PER_CUT == 0 {
            reaches("the cut is over", &mut done, number / PER_CUT).await;
        }
    }
    rpc::complete(&mut bob, id, "counted").await.unwrap();
}

/// The originator's subscriber: may miss what is overtaken, but what it gets is in order.
async fn watch_it(handle: &TaskHandle, seen: &watch::Sender<usize>) {
    let mut updates = handle.updates();
    while let Some(update) = within("an update comes", updates.next()).await {
        let update = update.unwrap();
        if update.status != TaskStatus::Working {
            continue;
        }
        let number: usize = update.message.unwrap().text_content().parse().unwrap();
        let before = seen.send_replace(number);
        assert!(number > before, "update {number} came after {before}");
    }
}

/// Cuts the link in the middle of each share, mends it, and lets something of what was made meanwhile come
/// through before the next.
async fn cut_and_mend(
    pair: &DaemonPair,
    link: &VethLink,
    breaks: usize,
    done: &watch::Sender<usize>,
    mut reported: watch::Receiver<usize>,
    mut seen: watch::Receiver<usize>,
) {
    let (here, there) = pair.nodes().await;
    for cut in 0..CUTS {
        let at = reaches("the agent counts", &mut reported, cut * PER_CUT + PER_CUT / 2).await;
        link.cut();
        // The ones that break are spread over all.
        if cut * breaks / CUTS == (cut + 1) * breaks / CUTS {
            let further = (at + LOST).min((cut + 1) * PER_CUT);
            reaches("the agent goes on", &mut reported, further).await;
        } else {
            wait_disconnected(&here).await;
            wait_disconnected(&there).await;
        }
        link.restore();
        wait_connected(&here, &pair.bob).await;
        reaches("an update comes through", &mut seen, at + 1).await;
        done.send_replace(cut + 1);
    }
}

/// Waits until the number is at least this; what it is then.
async fn reaches(what: &str, number: &mut watch::Receiver<usize>, least: usize) -> usize {
    let reached = within(what, number.wait_for(|number| *number >= least)).await;
    *reached.unwrap()
}
