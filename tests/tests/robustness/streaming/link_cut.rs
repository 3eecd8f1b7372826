//! The link is cut while an artifact is under way, again and again: it goes on where it stood.

use agentanycast_tests::{
    DaemonPair, TransportKind,
    daemon_pair::{wait_connected, wait_disconnected},
    network_lab::NetworkLab,
    task_assertions::completed,
};

use super::{ThrottledReader, ask, producer};
use crate::size;

/// Bytes from one cut to the next.
const PER_CUT: u64 = 16 << 20;

/// Bytes that the reader may take after a cut before the next: the cut falls into the flow, and the flow does not
/// run away from it.
const LEEWAY: u64 = 8 << 20;

async fn over_a_breaking_link(transport: TransportKind) {
    let Some(lab) = NetworkLab::open() else { return };
    let cuts = size("AGENTANYCAST_STREAM_CUTS", 4) as u64;
    let bytes = (cuts + 1) * PER_CUT;
    let (pair, link) = DaemonPair::in_lab(&lab, transport).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), bytes).await;
    let mut reading = ThrottledReader::start(&handle, PER_CUT + LEEWAY);
    for cut in 1..=cuts {
        reading.reaches(cut * PER_CUT).await;
        link.cut();
        // Every other one is over before QUIC has noticed.
        if cut % 2 == 1 || transport == TransportKind::Tcp {
            wait_disconnected(&alice).await;
            wait_disconnected(&bob).await;
        }
        link.restore();
        wait_connected(&alice, &pair.bob).await;
        reading.allow((cut + 1) * PER_CUT + LEEWAY);
    }
    reading.into_end().await.is_whole(bytes);
    completed(&handle).await;
}

#[tokio::test]
async fn an_artifact_arrives_whole_over_a_breaking_tcp_link() {
    over_a_breaking_link(TransportKind::Tcp).await;
}

#[tokio::test]
async fn an_artifact_arrives_whole_over_a_breaking_quic_link() {
    over_a_breaking_link(TransportKind::Quic).await;
}
