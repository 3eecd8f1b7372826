//! `did:key` names of nodes (W3C did:key, Ed25519 keys only): `did:key:z` + base58btc(0xED 0x01 ‖
//! public key). A peer id of an Ed25519 key holds the key itself, so both directions are pure
//! computation. The one rule: a text that is not exactly such a name gives nothing, never a guess.

use multibase::Base;

use crate::PeerId;

/// What every did:key starts with.
const SCHEME: &str = "did:key:";
/// The multicodec of an Ed25519 public key, as an unsigned varint.
const ED25519_PUB: [u8; 2] = [0xED, 0x01];
/// Head of an Ed25519 peer id: identity multihash of 36 bytes, protobuf key type 1, key of 32 bytes.
const PEER_ID_HEAD: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
/// Longest Multikey that is decoded, in bytes: 34 bytes take 48, and base58 decoding is quadratic in its input.
const MAX_MULTIKEY: usize = 65;

/// The `did:key` of a peer, `None` when the peer's key is not Ed25519.
pub fn did_key_of(peer: PeerId) -> Option<String> {
    Some(format!("{SCHEME}{}", multikey_of(peer)?))
}

/// The peer that a `did:key` names, `None` for any text that is not the did:key of an Ed25519 key.
pub fn peer_of_did_key(did: &str) -> Option<PeerId> {
    peer_of_multikey(did.strip_prefix(SCHEME)?)
}

/// The Ed25519 public key that a `did:key` is, `None` for any text that is not the did:key of such a key.
pub fn public_key_of_did_key(did: &str) -> Option<[u8; 32]> {
    raw_key_of(peer_of_did_key(did)?)
}

/// How a `did:key` names its only key: the name and its last part again.
pub(crate) fn key_url_of(peer: PeerId) -> Option<String> {
    let key = multikey_of(peer)?;
    Some(format!("{SCHEME}{key}#{key}"))
}

/// The key of a peer as a Multikey (`z6Mk…`).
pub(crate) fn multikey_of(peer: PeerId) -> Option<String> {
    let mut named = ED25519_PUB.to_vec();
    named.extend_from_slice(&raw_key_of(peer)?);
    Some(multibase::encode(Base::Base58Btc, named))
}

/// The peer whose key is this Multikey.
pub(crate) fn peer_of_multikey(key: &str) -> Option<PeerId> {
    if key.len() > MAX_MULTIKEY {
        return None;
    }
    let (Base::Base58Btc, named) = multibase::decode(key).ok()? else {
        return None;
    };
    peer_of_raw_key(named.strip_prefix(&ED25519_PUB)?)
}

/// The public key of a peer.
pub(crate) fn raw_key_of(peer: PeerId) -> Option<[u8; 32]> {
    peer.to_bytes().strip_prefix(&PEER_ID_HEAD)?.try_into().ok()
}

/// The peer with this public key.
pub(crate) fn peer_of_raw_key(key: &[u8]) -> Option<PeerId> {
    let mut bytes = PEER_ID_HEAD.to_vec();
    bytes.extend_from_slice(<&[u8; 32]>::try_from(key).ok()?);
    PeerId::from_bytes(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector of the W3C did:key specification (Ed25519, "z6MkpTHR8…").
    const DID: &str = "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH";

    #[test]
    fn goes_both_ways() {
        let peer = peer_of_did_key(DID).unwrap();
        assert!(peer.to_string().starts_with("12D3KooW"));
        assert_eq!(did_key_of(peer).as_deref(), Some(DID));
        let fresh = PeerId::from(libp2p_identity::Keypair::generate_ed25519().public().to_peer_id());
        assert_eq!(peer_of_did_key(&did_key_of(fresh).unwrap()), Some(fresh));
    }

    #[test]
    fn other_texts_name_nobody() {
        let long = format!("did:key:z{}", "1".repeat(10_000));
        for text in [
            "",
            "did:key:z",
            "did:web:example.org",
            &DID[..DID.len() - 1],
            &long,
        ] {
            assert_eq!(peer_of_did_key(text), None, "{text:.40}");
        }
        // The same bytes in another base: did:key is base58btc only.
        let (_, bytes) = multibase::decode(&DID[SCHEME.len()..]).unwrap();
        let other = format!("{SCHEME}{}", multibase::encode(Base::Base64Url, bytes));
        assert_eq!(peer_of_did_key(&other), None);
        // P-256 key from the did:key test vectors: a valid did:key, but no Ed25519 key.
        assert_eq!(
            peer_of_did_key("did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169"),
            None
        );
    }

    proptest::proptest! {
        #[test]
        fn random_text_never_panics(text in "(did:key:z)?.{0,80}") {
            let _ = peer_of_did_key(&text);
        }
    }
}
