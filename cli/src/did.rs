//! `did:key` of a peer, both ways, in the SDK's terms.

use agentanycast::PeerId;
use agentanycast_identity as identity;

/// The did:key of a peer; `None` for a peer whose id does not hold an Ed25519 key.
pub(crate) fn did_of_peer(peer: &PeerId) -> Option<String> {
    identity::did_key_of(peer.as_str().parse().ok()?)
}

/// The peer that a did:key names; `None` for another kind of key or a malformed text.
pub(crate) fn peer_of_did(did: &str) -> Option<PeerId> {
    identity::peer_of_did_key(did)?.to_string().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_a_key() {
        // From the did:key specification's Ed25519 examples.
        let did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
        let peer = peer_of_did(did).unwrap();
        assert!(peer.as_str().starts_with("12D3KooW"));
        assert_eq!(did_of_peer(&peer).unwrap(), did);
        assert!(peer_of_did("did:key:z6Mk").is_none());
    }
}
