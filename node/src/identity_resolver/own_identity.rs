//! What this node says of itself besides its key: names and credentials from its settings, and the changes of its keys
//! that are kept beside the key.
//!
//! The one rule: what would not convince others is told at the start, by a line that says why, and not found out by them.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use agentanycast_identity::{
    self as identity, PeerId,
    credential::{Credential, CredentialError, MAX_CREDENTIAL, issuer_keys},
    did_key_of,
    rotation::Rotation,
};
use agentanycast_net::OwnIdentity;
use anyhow::{Context as _, ensure};

use crate::config::IdentityConfig;

/// What the node of this key shows.
///
/// # Errors
/// When a file cannot be read, or holds what this node cannot show: one line, which says so.
pub fn load(config: &IdentityConfig, key: &Path, me: PeerId) -> anyhow::Result<OwnIdentity> {
    let key_rotations = rotations(key)?;
    let mut called: Vec<String> = did_key_of(me).into_iter().collect();
    called.push(config.did_web.clone());
    called.extend(
        key_rotations
            .iter()
            .filter_map(|rotation| did_key_of(rotation.old())),
    );
    let credentials = config.credentials.iter().map(|path| credential(path, &called));
    Ok(OwnIdentity {
        did_web: config.did_web.clone(),
        did_dns: config.did_dns_domain.clone(),
        credentials: credentials.collect::<anyhow::Result<_>>()?,
        key_rotations: key_rotations.iter().map(Rotation::to_bytes).collect(),
    })
}

/// The changes that led to this key and count now, the latest first. A key that another one has replaced is refused: to
/// whoever knows the other one, this node would be nobody.
fn rotations(key: &Path) -> anyhow::Result<Vec<Rotation>> {
    let now = now();
    let said = identity::rotations(key, now)?;
    if said.are_of_another {
        tracing::warn!(
            file = %identity::rotations_path(key).display(),
            "no statement in it leads to this node's key, so none is shown; move it away, or put the key back that it belongs to"
        );
    }
    let led = said.led.into_iter();
    Ok(led.filter(|rotation| rotation.counts(now)).collect())
}

/// The text of a credential of this node, which is called so.
fn credential(path: &Path, called: &[String]) -> anyhow::Result<String> {
    let shown = path.display();
    let bytes = read(path, MAX_CREDENTIAL).with_context(|| format!("credential {shown}"))?;
    let credential = Credential::read(&bytes).with_context(|| format!("credential {shown}"))?;
    let subject = &credential.grant().subject;
    ensure!(
        called.contains(subject),
        "credential {shown} is about {subject}, not about this node ({})",
        called.first().map_or("", String::as_str)
    );
    if let Err(error) = convinces(&credential) {
        tracing::warn!(
            credential = %shown, %error,
            "a credential of this node convinces nobody now; take it out of the settings, or ask its issuer for another one"
        );
    }
    String::from_utf8(bytes).with_context(|| format!("credential {shown}"))
}

/// Whether others could believe it now, as far as that can be said without asking anybody: the keys of an issuer that is no
/// did:key are elsewhere.
fn convinces(credential: &Credential) -> Result<(), CredentialError> {
    let keys = issuer_keys(&credential.grant().issuer, None);
    if keys.is_empty() {
        credential.check_time(now())
    } else {
        credential.check(&keys, now())
    }
}

/// The time, in milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// A file of at most so many bytes.
fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let text = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}
