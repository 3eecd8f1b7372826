//! `did:key` names of Ed25519 and P-256 keys, and the URLs by which a signature names them. Used by `jws`,
//! `trust` and the gateway's routing.
//!
//! Invariant: a text that is not exactly such a name gives no key. PURE.

use multibase::Base;

use crate::key::VerificationKey;

const SCHEME: &str = "did:key:";

/// The multicodecs of the two kinds of keys, as unsigned varints.
const ED25519_PUB: [u8; 2] = [0xED, 0x01];
const P256_PUB: [u8; 2] = [0x80, 0x24];

/// Longest Multikey that is decoded, in bytes: a P-256 key takes 49, and base58 decoding is quadratic in its
/// input.
const MAX_MULTIKEY: usize = 65;

/// The `did:key` of a key.
pub fn did_of_key(key: &VerificationKey) -> String {
    format!("{SCHEME}{}", multikey(key))
}

/// How a signature names the key of a `did:key`: the name and its last part again.
pub fn key_url(did: &str) -> Option<String> {
    let multikey = did.strip_prefix(SCHEME)?;
    Some(format!("{did}#{multikey}"))
}

/// The key that a `did:key` names.
pub fn key_of_did(did: &str) -> Option<VerificationKey> {
    let multikey = did.strip_prefix(SCHEME)?;
    if multikey.len() > MAX_MULTIKEY {
        return None;
    }
    let (Base::Base58Btc, named) = multibase::decode(multikey).ok()? else {
        return None;
    };
    let key = if let Some(key) = named.strip_prefix(&ED25519_PUB) {
        VerificationKey::from_ed25519(key.try_into().ok()?)
    } else {
        VerificationKey::from_p256(named.strip_prefix(&P256_PUB)?)
    }?;
    // One key has one name.
    (self::multikey(&key) == multikey).then_some(key)
}

fn multikey(key: &VerificationKey) -> String {
    let mut named = match key {
        VerificationKey::Ed25519(_) => ED25519_PUB,
        VerificationKey::P256(_) => P256_PUB,
    }
    .to_vec();
    named.extend(key.to_bytes());
    multibase::encode(Base::Base58Btc, named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_did_key_go_both_ways() {
        for did in [
            "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH",
            "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169",
        ] {
            let key = key_of_did(did).unwrap();
            assert_eq!(did_of_key(&key), did);
            let (_, multikey) = did.rsplit_once(':').unwrap();
            assert_eq!(key_url(did).unwrap(), format!("{did}#{multikey}"));
            assert!(key_of_did(&did[..did.len() - 1]).is_none());
            let (_, bytes) = multibase::decode(multikey).unwrap();
            let other = format!("did:key:{}", multibase::encode(Base::Base64Url, bytes));
            assert!(key_of_did(&other).is_none(), "did:key is base58btc only");
        }
        for text in ["", "did:key:", "did:key:z", "did:web:example.org"] {
            assert!(key_of_did(text).is_none(), "{text}");
        }
        assert!(key_of_did(&format!("did:key:z{}", "1".repeat(10_000))).is_none());
    }

    proptest::proptest! {
        #[test]
        fn random_text_never_panics(text in "(did:key:z)?.{0,80}") {
            let _ = key_of_did(&text);
        }
    }
}
