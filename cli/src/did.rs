//! `did:key` of an Ed25519 peer, both ways: the same 32 bytes of public key in two wrappings
//! (libp2p peer id specification; W3C did:key method, multicodec `ed25519-pub`).

use agentanycast::PeerId;

/// What comes before the key in a did:key: the multicodec `ed25519-pub` as a varint.
const MULTICODEC: [u8; 2] = [0xed, 0x01];

/// What comes before the key in a peer id: identity multihash of 36 bytes, then the protobuf fields
/// `Type = Ed25519` and `Data` of 32 bytes.
const PEER_ID_HEAD: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// The prefix up to the multibase letter of base58btc.
const PREFIX: &str = "did:key:z";

/// Bytes of an Ed25519 public key.
const KEY_LENGTH: usize = 32;

/// The did:key of a peer; `None` for a peer whose id does not hold an Ed25519 key.
pub(crate) fn from_peer(peer: &PeerId) -> Option<String> {
    let bytes = bs58::decode(peer.as_str()).into_vec().ok()?;
    let key = bytes.strip_prefix(&PEER_ID_HEAD)?;
    let text = bs58::encode([&MULTICODEC, key].concat()).into_string();
    (key.len() == KEY_LENGTH).then(|| format!("{PREFIX}{text}"))
}

/// The peer that a did:key names; `None` for another kind of key or a malformed text.
pub(crate) fn to_peer(did: &str) -> Option<PeerId> {
    let bytes = bs58::decode(did.strip_prefix(PREFIX)?).into_vec().ok()?;
    let key = bytes.strip_prefix(&MULTICODEC)?;
    let text = bs58::encode([&PEER_ID_HEAD, key].concat()).into_string();
    if key.len() == KEY_LENGTH {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_a_key() {
        // From the did:key specification's Ed25519 examples.
        let did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
        let peer = to_peer(did).unwrap();
        assert!(peer.as_str().starts_with("12D3KooW"));
        assert_eq!(from_peer(&peer).unwrap(), did);
        assert!(to_peer("did:key:z6Mk").is_none());
        assert!(to_peer("did:web:example.org").is_none());
    }
}
