//! The name of a peer, as text. The SDK passes it on and compares it; what the key inside means is
//! the daemon's business, so only the outer form is checked here.

use std::{fmt, str::FromStr};

/// Longest text taken for a peer id, in bytes. An Ed25519 id has 52; the longest kind in use has 62.
const MAX_PEER_ID: usize = 128;

/// The base58 alphabet of Bitcoin, in which peer ids are written.
const BASE58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A peer: base58 text such as `12D3KooW…`.
///
/// ```
/// use agentanycast::PeerId;
///
/// let peer: PeerId = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK".parse()?;
/// assert_eq!(peer.as_str().len(), 52);
/// assert!("not a peer".parse::<PeerId>().is_err());
/// # Ok::<(), agentanycast::InvalidPeerId>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(String);

/// A text that is no peer id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a peer id: expected base58 text such as 12D3KooW…")]
pub struct InvalidPeerId {
    given: String,
}

impl PeerId {
    /// The base58 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes what the daemon says; the empty text means that it does not know.
    pub(crate) fn from_daemon(text: String) -> Option<Self> {
        (!text.is_empty()).then_some(Self(text))
    }
}

impl FromStr for PeerId {
    type Err = InvalidPeerId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The shortest multihash of 32 bytes has 43 base58 digits.
        let fits = (43..=MAX_PEER_ID).contains(&text.len());
        if fits && text.chars().all(|digit| BASE58.contains(digit)) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPeerId {
                given: text.chars().take(80).collect(),
            })
        }
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerId({})", self.0)
    }
}

impl AsRef<str> for PeerId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
