//! The exchange of cards.

use agentanycast_proto::v1::Skill;
use libp2p::identity::Keypair;

use super::*;

fn card(peer_id: &str, did_key: &str) -> Vec<u8> {
    let p2p_extension = Some(P2pExtension {
        peer_id: peer_id.to_owned(),
        did_key: did_key.to_owned(),
        ..P2pExtension::default()
    });
    AgentCard {
        name: "echo".to_owned(),
        p2p_extension,
        ..AgentCard::default()
    }
    .encode_to_vec()
}

#[test]
fn claims_are_checked_against_the_connection() {
    let [peer, other] = [0, 1].map(|_| PeerId::from(Keypair::generate_ed25519().public().to_peer_id()));
    let (own, own_did) = (peer.to_string(), did_key_of(peer).unwrap());
    assert!(check(peer, &card("", "")).is_ok());
    assert!(check(peer, &card(&own, &own_did)).is_ok());
    assert!(check(peer, &AgentCard::default().encode_to_vec()).is_ok());
    let lies = [
        card(&other.to_string(), ""),
        card(&own, &did_key_of(other).unwrap()),
        card("nobody", ""),
        card("", "did:key:z"),
    ];
    for lie in lies {
        assert!(matches!(check(peer, &lie), Err(CardError::OtherPeer(_))));
    }
    for nonsense in [&b"\xFF\xFF\xFF"[..], b"\x0A\x01\xFF"] {
        assert!(matches!(
            check(peer, nonsense),
            Err(CardError::NoCard(_) | CardError::DecodesTooLarge(_))
        ));
    }
    let empty = AgentCard {
        skills: vec![Skill::default(); MAX_ELEMENTS + 1],
        ..AgentCard::default()
    };
    assert!(matches!(
        check(peer, &empty.encode_to_vec()),
        Err(CardError::DecodesTooLarge(_))
    ));
}
