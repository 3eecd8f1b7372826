//! Who the gateway is: the key that signs, read from its file.
//!
//! Invariant: a gateway without a key does not start, since nothing that it says could be verified.

use std::{fs::File, io::Read as _, path::Path};

use agentanycast_identity::Keypair;
use agentanycast_uamp::jws::SigningIdentity;
use anyhow::{Context as _, bail};

/// Largest file with a key in PEM, in bytes.
const MAX_PEM: u64 = 16 << 10;

/// The key of the setting `key`, or that of the node.
///
/// # Errors
/// As [`read`]; without both there is none.
pub(super) fn of(path: Option<&Path>, node: Option<&Keypair>) -> anyhow::Result<SigningIdentity> {
    match (path, node) {
        (None, Some(node)) => SigningIdentity::from_node_key(node).context(
            "the gateway uamp signs with the node's key, which is not an Ed25519 key: set gateways.uamp.key",
        ),
        _ => read(path),
    }
}

/// Reads the key of the setting `key`.
///
/// # Errors
/// When it is not set, or the file has no key of a kind that signs.
pub(super) fn read(path: Option<&Path>) -> anyhow::Result<SigningIdentity> {
    let Some(path) = path else {
        bail!(
            "the gateway uamp needs a key that signs what it says: set gateways.uamp.key (--uamp-key) to a node's key \
             or to an Ed25519 or P-256 key in PEM"
        );
    };
    read_file(path).with_context(|| format!("the key {} of the gateway uamp", path.display()))
}

fn read_file(path: &Path) -> anyhow::Result<SigningIdentity> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_PEM).read_to_end(&mut text))
        .context("it cannot be read")?;
    if text.starts_with(b"-----BEGIN") {
        return Ok(SigningIdentity::from_pem(&String::from_utf8_lossy(&text))?);
    }
    let key = agentanycast_identity::load(path)?.context("there is none")?;
    SigningIdentity::from_node_key(&key).context("it is not an Ed25519 key")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_kinds_of_keys_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let refused = read(None).unwrap_err().to_string();
        assert!(refused.contains("gateways.uamp.key"), "{refused}");
        assert!(read(Some(&path)).is_err());
        let made = agentanycast_identity::load_or_create(&path).unwrap();
        let did = agentanycast_identity::did_key_of(agentanycast_identity::peer_id(&made)).unwrap();
        assert_eq!(read(Some(&path)).unwrap().did(), did);
        assert_eq!(of(None, Some(&made)).unwrap().did(), did);
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        fs::write(&path, pem).unwrap();
        assert!(
            of(Some(&path), Some(&made))
                .unwrap()
                .did()
                .starts_with("did:key:zDn")
        );
    }
}
