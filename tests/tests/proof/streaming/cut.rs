//! The link is cut while an artifact is under way, again and again: it goes on where it stood.

use agentanycast_tests::{
    Pair, Transport,
    ending::completed,
    lab::Lab,
    pair::{alone, connected},
};

use super::{Reading, ask, producer};
use crate::size;

/// Bytes from one cut to the next.
const PER_CUT: u64 = 16 << 20;

/// Bytes that the reader may take after a cut before the next: the cut falls into the flow, and the flow does not
/// run away from it.
const LEEWAY: u64 = 8 << 20;

async fn over_a_breaking_link(transport: Transport) {
    let Some(lab) = Lab::open() else { return };
    let cuts = size("AGENTANYCAST_STREAM_CUTS", 4) as u64;
    let bytes = (cuts + 1) * PER_CUT;
    let (pair, link) = Pair::apart(&lab, transport).await;
    let (alice, bob) = pair.nodes().await;
    let _agent = producer(&bob);
    let handle = ask(&alice, pair.bob.peer_id(), bytes).await;
    let mut reading = Reading::start(&handle, PER_CUT + LEEWAY);
    for cut in 1..=cuts {
        reading.reaches(cut * PER_CUT).await;
        link.cut();
        // Every other one is over before QUIC has noticed.
        if cut % 2 == 1 || transport == Transport::Tcp {
            alone(&alice).await;
            alone(&bob).await;
        }
        link.mend();
        connected(&alice, &pair.bob).await;
        reading.allow((cut + 1) * PER_CUT + LEEWAY);
    }
    reading.into_end().await.is_whole(bytes);
    completed(&handle).await;
}

#[tokio::test]
async fn an_artifact_arrives_whole_over_a_breaking_tcp_link() {
    over_a_breaking_link(Transport::Tcp).await;
}

#[tokio::test]
async fn an_artifact_arrives_whole_over_a_breaking_quic_link() {
    over_a_breaking_link(Transport::Quic).await;
}
