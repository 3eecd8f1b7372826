//! Which peer a person means by a text: its id, did:key or multiaddr, an alias, the name on its card, a piece of its id.
//! PURE: [`PeerNames`] holds all that is known, and every command asks it.
//!
//! The rules: an alias is the user's own word and goes before everything that peers say of themselves. A card's name and
//! a piece of an id are looked for together, so that nobody is taken for another peer by calling its agent as that
//! peer's id ends. Several that fit are an error that lists them.

use std::collections::BTreeMap;

use agentanycast::PeerId;

use crate::{did, hints, short_id};

/// What every id of an Ed25519 key begins with: it tells none apart.
const ID_HEAD: &str = "12D3KooW";

/// The same of a did:key.
const DID_HEAD: &str = "did:key:z6Mk";

/// Shortest piece of an id that names a peer, in characters after those that all ids begin with.
pub(crate) const MIN_PIECE: usize = 6;

/// Most peers that an error lists.
const LISTED: usize = 10;

/// A peer that a text may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPeer {
    pub(crate) peer: PeerId,
    /// As its card says; empty if it has shown none.
    pub(crate) card_name: String,
}

/// All that is known of peers and their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerNames {
    aliases: BTreeMap<String, PeerId>,
    known: Vec<NamedPeer>,
}

/// A text that needs nothing to be known: it holds the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerReference {
    /// A peer, and the address to dial if there is one.
    Peer(PeerId, Option<String>),
    /// A did:web, which its document on the web explains.
    DidWeb(String),
    /// A name, or a piece of an id.
    Name(String),
}

/// Why a text means no peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// It cannot mean any, whoever is known.
    Malformed(String),
    /// It means none that is known.
    Unknown(String),
    /// It means several.
    Ambiguous(String),
}

impl LookupError {
    pub(crate) fn message(&self) -> &str {
        let (Self::Malformed(text) | Self::Unknown(text) | Self::Ambiguous(text)) = self;
        text
    }
}

impl PeerReference {
    /// What kind of name a text is.
    pub(crate) fn parse(text: &str) -> Result<Self, LookupError> {
        let malformed = |text: String| Err(LookupError::Malformed(text));
        if text.is_empty() {
            return malformed("the name of the peer is empty".to_owned());
        }
        if text.starts_with('/') {
            let peer = text.rsplit_once("/p2p/").and_then(|(_, peer)| peer.parse().ok());
            return match peer {
                Some(peer) => Ok(Self::Peer(peer, Some(text.to_owned()))),
                None => malformed(format!("{text:?}: a multiaddr must end in /p2p/<peer id>")),
            };
        }
        if text.starts_with("did:web:") {
            return Ok(Self::DidWeb(text.to_owned()));
        }
        if let Ok(peer) = text.parse() {
            return Ok(Self::Peer(peer, None));
        }
        if let Some(peer) = did::peer_of_did(text) {
            return Ok(Self::Peer(peer, None));
        }
        if let Some(rest) = text.strip_prefix("did:") {
            let is_piece = rest.strip_prefix("key:z6Mk").is_some_and(is_piece);
            if !is_piece {
                return malformed(format!(
                    "{text:?} is not a did:key of an Ed25519 key, nor {MIN_PIECE} characters or more of one after {DID_HEAD}"
                ));
            }
        }
        if text.contains("://") {
            return malformed(format!("{text:?} is a URL, not a peer; --url sends to one"));
        }
        if text.contains(char::is_control) {
            return malformed(format!("{text:?} has characters that no name has"));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl PeerNames {
    pub(crate) fn new(aliases: BTreeMap<String, PeerId>, known: Vec<NamedPeer>) -> Self {
        Self { aliases, known }
    }

    /// The peer that has this alias.
    pub(crate) fn aliased(&self, text: &str) -> Option<&PeerId> {
        self.aliases.get(text)
    }

    /// The peer that a name, or a piece of an id, means.
    pub(crate) fn find(&self, text: &str) -> Result<PeerId, LookupError> {
        if let Some(peer) = self.aliased(text) {
            // Lists show the ends of ids, and an alias may be one: of another peer it was perhaps read there.
            let known = self.known.iter().map(|known| &known.peer);
            let listed = known.filter(|other| short_id::peer(other.as_str()) == text && *other != peer);
            let several: Vec<&PeerId> = std::iter::once(peer).chain(listed).collect();
            return match several.as_slice() {
                [peer] => Ok((*peer).clone()),
                several => Err(LookupError::Ambiguous(self.ambiguous(text, several))),
            };
        }
        let mut fits: Vec<&PeerId> = Vec::new();
        let named = self.known.iter().filter(|known| known.card_name == text);
        let everybody = self
            .known
            .iter()
            .map(|known| &known.peer)
            .chain(self.aliases.values());
        let pieces = everybody.filter(|peer| has_piece(peer, text));
        for peer in named.map(|known| &known.peer).chain(pieces) {
            if !fits.contains(&peer) {
                fits.push(peer);
            }
        }
        match fits.as_slice() {
            [peer] => Ok((*peer).clone()),
            [] => Err(LookupError::Unknown(self.unknown(text))),
            several => Err(LookupError::Ambiguous(self.ambiguous(text, several))),
        }
    }

    /// Whether a text means this peer since it calls itself so: by the name on its card, and not by an alias. A key can be made whose id
    /// has a short word in it, so that this counts also where the id has the name.
    pub(crate) fn is_own_claim(&self, text: &str, peer: &PeerId) -> bool {
        let calls_itself = |known: &NamedPeer| known.peer == *peer && known.card_name == text;
        !self.aliases.contains_key(text) && (self.known.iter().any(calls_itself) || !has_piece(peer, text))
    }

    /// What a list calls a peer: its alias, else the name on its card if no other known peer has it; none: its id.
    pub(crate) fn name_of(&self, peer: &PeerId) -> Option<&str> {
        if let Some((alias, _)) = self.aliases.iter().find(|(_, other)| *other == peer) {
            return Some(alias);
        }
        let name = &self.known.iter().find(|known| known.peer == *peer)?.card_name;
        let is_other = |known: &&NamedPeer| known.peer != *peer && known.card_name == *name;
        let is_usable = !name.is_empty()
            && !self.aliases.contains_key(name)
            && PeerReference::parse(name) == Ok(PeerReference::Name(name.clone()))
            && !self.known.iter().any(|known| is_other(&known));
        is_usable.then_some(name.as_str())
    }

    fn unknown(&self, text: &str) -> String {
        let bare = text
            .strip_prefix(DID_HEAD)
            .or(text.strip_prefix(ID_HEAD))
            .unwrap_or(text);
        let near = self.aliases.keys().map(String::as_str);
        let near = near.chain(self.known.iter().map(|known| known.card_name.as_str()));
        let meant = agentanycast_daemon_kit::nearest::nearest(text, near)
            .map(|near| format!("; did you mean {near}?"));
        let short = if bare.chars().count() < MIN_PIECE && bare.chars().all(char::is_alphanumeric) {
            format!(" (a piece of an id has {MIN_PIECE} characters or more)")
        } else {
            String::new()
        };
        format!(
            "no peer {text:?} is known: no alias, no agent's card and no id of a known peer has it{short}{}",
            meant.unwrap_or_else(|| {
                format!(
                    "; `{}` lists who is known, `{}` names a peer",
                    hints::command("agents"),
                    hints::command("alias add NAME PEER")
                )
            })
        )
    }

    fn ambiguous(&self, text: &str, fits: &[&PeerId]) -> String {
        let shown = fits.iter().take(LISTED).map(|peer| {
            let name = self.known.iter().find(|known| known.peer == **peer);
            let name = name
                .map(|known| known.card_name.as_str())
                .filter(|name| !name.is_empty());
            match (self.aliases.iter().find(|(_, other)| other == peer), name) {
                (Some((alias, _)), _) => format!("{alias} {peer}"),
                (None, Some(name)) => format!("{name} {peer}"),
                (None, None) => peer.to_string(),
            }
        });
        let shown: Vec<_> = shown.collect();
        let more = match fits.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!(
            "{text:?} may be {} peers: {}{more}; give more of the id, or an alias",
            fits.len(),
            shown.join(", ")
        )
    }
}

/// Whether a text is long enough to be a piece of an id, which has letters and digits only.
fn is_piece(text: &str) -> bool {
    text.len() >= MIN_PIECE && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a text is a piece of this peer's id or did:key. One that says how all ids begin means the beginning of one.
fn has_piece(peer: &PeerId, text: &str) -> bool {
    let id = peer.as_str().strip_prefix(ID_HEAD).unwrap_or(peer.as_str());
    if let Some(begin) = text.strip_prefix(ID_HEAD) {
        return is_piece(begin) && peer.as_str().starts_with(ID_HEAD) && id.starts_with(begin);
    }
    let did = did::did_of_peer(peer);
    let did = did.as_deref().and_then(|did| did.strip_prefix(DID_HEAD));
    if let Some(begin) = text.strip_prefix(DID_HEAD) {
        return is_piece(begin) && did.is_some_and(|did| did.starts_with(begin));
    }
    is_piece(text) && (id.contains(text) || did.is_some_and(|did| did.contains(text)))
}

/// How a list shows a peer: its name if it has one, and its short id; whole on demand.
pub(crate) fn display_name(names: &PeerNames, peer: &PeerId, full: bool) -> String {
    let id = if full {
        peer.as_str()
    } else {
        short_id::peer(peer.as_str())
    };
    match names.name_of(peer) {
        Some(name) => format!("{} {id}", crate::output::brief(name)),
        None => id.to_owned(),
    }
}

/// How a list of rights shows a peer: by its alias, and what it calls itself as its own word, since anybody may call itself so.
pub(crate) fn display_by_right(names: &PeerNames, peer: &PeerId, full: bool) -> String {
    match names.name_of(peer) {
        Some(name) if !names.aliases.contains_key(name) => {
            let nobody = PeerNames::default();
            let id = display_name(&nobody, peer, full);
            format!("{id} (calls itself {})", crate::output::brief(name))
        }
        _ => display_name(names, peer, full),
    }
}

/// The same of an agent of the peer, as tasks are sent to it: `NAME/AGENT` and the id; of this node's own,
/// `self/AGENT`.
pub(crate) fn display_agent(
    names: &PeerNames,
    own: Option<&PeerId>,
    peer: &PeerId,
    agent: &str,
    full: bool,
) -> String {
    let of_peer = |name: &str| match agent {
        "" => name.to_owned(),
        agent => format!("{name}/{}", crate::output::brief(agent)),
    };
    if own == Some(peer) {
        return of_peer("self");
    }
    let shown = display_name(names, peer, full);
    match shown.rsplit_once(' ') {
        Some((name, id)) if !agent.is_empty() => format!("{} {id}", of_peer(name)),
        _ => of_peer(&shown),
    }
}

#[cfg(test)]
mod tests;
