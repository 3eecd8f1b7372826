//! Cards that lie, that are too large, that unfold, and that are too many.

use std::time::Instant;

use agentanycast::PeerId;
use agentanycast_proto::v1::{AgentCard, GetPeerCardRequest, Skill};
use agentanycast_tests::{
    eventually,
    raw_peer::{CARD, RawConnection, RawPeer, card, frame},
};
use prost::Message as _;
use tonic::Code;

use super::{AttackedDaemon, MIB, size};

/// The largest card.
const MAX_CARD: usize = 256 << 10;

/// A card in another peer's name, by peer id or by did:key, is dropped: the liar has no card, the other keeps
/// its own, and so does a liar that has shown a true one before.
#[tokio::test]
async fn a_card_in_another_name_is_dropped() {
    let siege = AttackedDaemon::begin().await;
    let (victim, liar) = (RawPeer::new(), RawPeer::new());
    let honest = victim.dial(siege.daemon.tcp()).await;
    let lying = liar.dial(siege.daemon.quic()).await;
    let own = |name: &str, peer: &PeerId| card(name, peer.as_str(), &did_key(peer));
    show(&honest, &own("victim", victim.id())).await;
    known_as(&siege, victim.id(), "victim").await;
    let lies = [
        card("liar", victim.id().as_str(), &did_key(victim.id())),
        card("liar", victim.id().as_str(), ""),
        card("liar", "", &did_key(victim.id())),
        card("liar", liar.id().as_str(), &did_key(victim.id())),
        card("liar", victim.id().as_str(), &did_key(liar.id())),
        card("liar", siege.id().as_str(), &did_key(siege.id())),
        card("liar", "not a peer id", ""),
        card("liar", "", "did:key:z"),
        card("liar", "", "did:web:example.org"),
    ];
    for lie in &lies {
        // The exchange goes on: an answer in order, with or without a card.
        show(&lying, lie).await;
    }
    assert_eq!(stored(&siege, liar.id()).await.unwrap_err(), Code::NotFound);
    show(&lying, &own("true", liar.id())).await;
    known_as(&siege, liar.id(), "true").await;
    for lie in &lies {
        show(&lying, lie).await;
    }
    // Cards are taken in order, so that a last true one shows that the lies were dealt with.
    show(&lying, &own("last", liar.id())).await;
    known_as(&siege, liar.id(), "last").await;
    assert_eq!(stored(&siege, victim.id()).await.unwrap().name, "victim");
    siege.endured(16 * MIB).await;
}

/// A card whose peer id is 250 KiB of base58, which takes minutes to decode: it is dropped at once.
#[tokio::test]
async fn a_card_whose_peer_id_is_long_costs_no_time() {
    let siege = AttackedDaemon::begin().await;
    let stranger = RawPeer::new();
    let link = stranger.dial(siege.daemon.tcp()).await;
    let long = "z".repeat(250 << 10);
    for claim in [
        card("long", &long, ""),
        card("long", "", &format!("did:key:z{long}")),
    ] {
        show(&link, &claim).await;
    }
    siege.honest_work(20).await;
    assert_eq!(stored(&siege, stranger.id()).await.unwrap_err(), Code::NotFound);
    siege.endured(16 * MIB).await;
}

/// 256 KiB are a card, a byte more is none; nor are random bytes.
#[tokio::test]
async fn a_card_has_at_most_256_kib() {
    let siege = AttackedDaemon::begin().await;
    let stranger = RawPeer::new();
    let link = stranger.dial(siege.daemon.tcp()).await;
    for wrong in [
        padded("over", MAX_CARD + 1).encode_to_vec(),
        vec![0xFF; 100],
        vec![0xFF; MAX_CARD],
    ] {
        // Reset, or answered without a card; never taken.
        let _ = link.send_card(&wrong).await;
    }
    assert_eq!(stored(&siege, stranger.id()).await.unwrap_err(), Code::NotFound);
    show(&link, &padded("largest", MAX_CARD)).await;
    known_as(&siege, stranger.id(), "largest").await;
    siege.endured(16 * MIB).await;
}

/// Cards that take 256 KiB on the wire and a hundred times that in memory, from many peers: what is kept of
/// them is what came over the wire.
#[tokio::test]
async fn cards_that_unfold_are_kept_folded() {
    const PEERS: usize = 40;
    let siege = AttackedDaemon::begin().await;
    let skills = vec![Skill::default(); (MAX_CARD - 64) / 2];
    let unfolds = AgentCard {
        name: "unfolds".to_owned(),
        skills,
        ..AgentCard::default()
    };
    let bytes = unfolds.encode_to_vec();
    assert!(bytes.len() <= MAX_CARD);
    let mut links = Vec::new();
    for _ in 0..PEERS {
        let stranger = RawPeer::new();
        let link = stranger.dial(siege.daemon.tcp()).await;
        let _ = link.send_card(&bytes).await;
        links.push((stranger, link));
    }
    siege.honest_work(20).await;
    // One at a time is unfolded, to be checked: 131 000 skills of 120 bytes, and as much while they grow. Each is
    // kept at its length on the wire.
    siege.endured(100 * MIB).await;
}

/// 10 000 different cards from one peer: the last one stands.
#[tokio::test]
async fn ten_thousand_cards_from_one_peer() {
    let siege = AttackedDaemon::begin().await;
    let cards: usize = size("AGENTANYCAST_PROOF_CARDS", 10_000);
    let stranger = RawPeer::new();
    let link = stranger.dial(siege.daemon.tcp()).await;
    let began = Instant::now();
    let meanwhile = siege.honest_work(100);
    let flood = async {
        for number in 0..cards {
            // Every fiftieth is as large as cards get.
            let bytes = if number % 50 == 0 { MAX_CARD } else { 2 << 10 };
            show(&link, &padded(&format!("card {number}"), bytes)).await;
        }
    };
    futures::future::join(flood, meanwhile).await;
    eprintln!("{cards} cards in {:?}", began.elapsed());
    known_as(&siege, stranger.id(), &format!("card {}", cards - 1)).await;
    // A card in the making, the newest, and what the store's writer has not written yet.
    siege.endured(96 * MIB).await;
}

/// A card each from many identities, one connection after the other: the newest are all known, and an identity
/// that has gone leaves no more behind than its card and a line in an index.
#[tokio::test]
async fn cards_from_many_identities() {
    const KNOWN: usize = 10_000;
    let siege = AttackedDaemon::begin().await;
    let identities: usize = size("AGENTANYCAST_PROOF_IDENTITIES", 500);
    let began = Instant::now();
    let mut ids = Vec::new();
    for number in 0..identities {
        let stranger = RawPeer::new();
        let link = stranger.dial(siege.daemon.tcp()).await;
        show(&link, &padded(&format!("card {number}"), 4 << 10)).await;
        ids.push(stranger.id().clone());
    }
    eprintln!("{identities} identities in {:?}", began.elapsed());
    for (number, id) in ids.iter().enumerate().rev().take(KNOWN).step_by(7) {
        known_as(&siege, id, &format!("card {number}")).await;
    }
    for id in ids.iter().rev().skip(KNOWN) {
        assert_eq!(stored(&siege, id).await.unwrap_err(), Code::NotFound);
    }
    // 8 KiB for each identity that is remembered (its card in the store's cache, its place in the indexes),
    // above what the connections themselves leave to the allocator.
    siege
        .endured(48 * MIB + 8 * 1024 * identities.min(KNOWN) as u64)
        .await;
}

/// Hundreds of card exchanges opened at once by one peer, none of which goes on: they end, the peer's own later
/// card is taken all the same, and they cost no more than a share.
#[tokio::test]
async fn card_exchanges_that_stop_half_way() {
    use futures::AsyncWriteExt as _;
    const STREAMS: usize = 600;
    let siege = AttackedDaemon::begin().await;
    let stranger = RawPeer::new();
    let link = stranger.dial(siege.daemon.tcp()).await;
    let half = frame(&padded("half", MAX_CARD).encode_to_vec());
    let mut held = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = link.open(CARD).await.unwrap();
        let write = async {
            stream.write_all(&half[..half.len() - 1]).await?;
            stream.flush().await
        };
        // What is beyond the share is reset.
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), write).await;
        held.push(stream);
    }
    siege.honest_work(20).await;
    drop(held);
    eventually("a card is taken again", || async {
        let _ = link.send_card(&card("later", "", "").encode_to_vec()).await;
        (stored(&siege, stranger.id()).await.ok()?.name == "later").then_some(())
    })
    .await;
    siege.endured(64 * MIB).await;
}

/// Shows a card, and waits for the end of the exchange.
async fn show(link: &RawConnection, card: &AgentCard) {
    let shown = link.send_card(&card.encode_to_vec()).await;
    shown.unwrap_or_else(|error| panic!("{}: {error}", card.name));
}

fn did_key(peer: &PeerId) -> String {
    let peer: agentanycast_identity::PeerId = peer.as_str().parse().unwrap();
    agentanycast_identity::did_key_of(peer).unwrap()
}

/// A card of exactly so many bytes, or the smallest that is larger.
fn padded(name: &str, bytes: usize) -> AgentCard {
    let mut card = AgentCard {
        name: name.to_owned(),
        description: "x".repeat(bytes.saturating_sub(64)),
        ..AgentCard::default()
    };
    let missing = bytes.saturating_sub(card.encoded_len());
    card.description.push_str(&"x".repeat(missing));
    card
}

/// The card of a peer, as the daemon under attack tells its agents.
async fn stored(siege: &AttackedDaemon, peer: &PeerId) -> Result<AgentCard, Code> {
    let request = GetPeerCardRequest {
        peer_id: peer.to_string(),
        ..Default::default()
    };
    match siege.rpc.clone().get_peer_card(request).await {
        Ok(answer) => Ok(answer.into_inner().card.expect("a card")),
        Err(status) => Err(status.code()),
    }
}

/// Waits until the newest card of a peer has this name.
async fn known_as(siege: &AttackedDaemon, peer: &PeerId, name: &str) {
    eventually(&format!("{name} is known"), || async {
        (stored(siege, peer).await.ok()?.name == name).then_some(())
    })
    .await;
}
