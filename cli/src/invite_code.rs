//! The string that `anycast invite` prints: which node invites, how it is reached, and maybe a right. PURE.
//!
//! Its form (docs/protocol.md, "Invites"): `b`, multibase's mark of base32, then in base32: five bytes that read
//! `anycastb`, where the last letter is the version; an [`InviteCode`] in protobuf; the first four bytes of the SHA-256
//! of all that. Letters may be small or capital, which a QR code takes less room for. The rule: what was changed, cut or
//! mistyped is refused, and what is read is written again as the same string.

use agentanycast_identity::PeerId;
use agentanycast_node::anycast::BootstrapRegistry;
use agentanycast_proto::v1::InviteCode;
use multiaddr::{Multiaddr, Protocol};
use multibase::Base;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

/// What every string begins with.
pub(crate) const HEAD: &str = "banycast";

/// The version that is written and read, as the letter behind [`HEAD`].
const VERSION: char = 'b';

/// Bytes that [`HEAD`] and the version are, and those of the checksum.
const HEAD_BYTES: usize = 5;
const CHECK_BYTES: usize = 4;

/// Longest string, in characters: the most that is carried by hand, and fits a QR code.
const MAX_STRING: usize = 2048;

/// Most relays, direct addresses and registries.
const MAX_RELAYS: usize = 4;
const MAX_ADDRESSES: usize = 4;
const MAX_REGISTRIES: usize = 4;

/// Longest name of an agent or skill, and of a registry, in bytes.
const MAX_TEXT: usize = 256;

/// Bytes of a right.
const SECRET: usize = 16;

/// What a string says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    /// The node that invites.
    pub(crate) peer: PeerId,
    /// Relays through which it is reached, each ending in /p2p/RELAY.
    pub(crate) relays: Vec<Multiaddr>,
    /// Where it is dialled, without /p2p.
    pub(crate) addresses: Vec<Multiaddr>,
    /// Registries that know it, but for those beside the relays.
    pub(crate) registries: Vec<String>,
    /// The right.
    pub(crate) secret: Option<[u8; SECRET]>,
    /// The agent's name; may be empty.
    pub(crate) agent: String,
    /// The skill that the right is for; empty: all.
    pub(crate) skill: String,
    /// Until when the right can be taken, Unix seconds.
    pub(crate) expires_at: Option<u64>,
}

/// Why a text is no invite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InviteCodeError {
    /// It does not begin as one.
    #[error("an invite begins with {HEAD}")]
    NoInvite,
    /// It is of a version that is not known here.
    #[error("the invite is of a newer version; update this program")]
    OtherVersion,
    /// It was changed on its way, or is not whole.
    #[error("the invite is incomplete or mistyped: its checksum does not agree; copy the whole string")]
    Damaged,
    /// What it says cannot be.
    #[error("the invite cannot be used: {0}")]
    Invalid(&'static str),
}

/// Whether a text is meant to be an invite.
pub(crate) fn is_invite_code(text: &str) -> bool {
    let head = text.get(..HEAD.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(HEAD))
}

impl Invitation {
    /// The string; an error says what of it does not fit.
    pub(crate) fn encode(&self) -> Result<String, InviteCodeError> {
        let bytes = |addresses: &[Multiaddr]| addresses.iter().map(Multiaddr::to_vec).collect();
        let code = InviteCode {
            peer: self.peer.to_bytes(),
            relays: bytes(&self.relays),
            addresses: bytes(&self.addresses),
            registries: self.registries.clone(),
            secret: self.secret.map(Vec::from).unwrap_or_default(),
            agent: self.agent.clone(),
            skill: self.skill.clone(),
            expires_at: self
                .expires_at
                .map_or(0, |at| i64::try_from(at).unwrap_or(i64::MAX)),
        };
        let mut content = head_bytes(VERSION);
        content.extend(code.encode_to_vec());
        content.extend(checksum(&content));
        let text = multibase::encode(Base::Base32Lower, content);
        if text.len() > MAX_STRING {
            return Err(InviteCodeError::Invalid(
                "it is too long; leave names or registries out",
            ));
        }
        Ok(text)
    }

    /// Reads a string.
    pub(crate) fn decode(text: &str) -> Result<Self, InviteCodeError> {
        let text = text.trim();
        if !is_invite_code(text) {
            return Err(InviteCodeError::NoInvite);
        }
        if text.len() > MAX_STRING || !text.is_ascii() {
            return Err(InviteCodeError::Damaged);
        }
        let small = text.to_ascii_lowercase();
        let (_, content) = multibase::decode(&small).map_err(|_| InviteCodeError::Damaged)?;
        // Bits behind the last byte must be none, or one invite would have several strings.
        if multibase::encode(Base::Base32Lower, &content) != small {
            return Err(InviteCodeError::Damaged);
        }
        let Some((content, check)) = content.split_last_chunk::<CHECK_BYTES>() else {
            return Err(InviteCodeError::Damaged);
        };
        if checksum(content) != *check {
            return Err(InviteCodeError::Damaged);
        }
        let Some((head, code)) = content.split_at_checked(HEAD_BYTES) else {
            return Err(InviteCodeError::Damaged);
        };
        if head != head_bytes(VERSION) {
            return Err(InviteCodeError::OtherVersion);
        }
        let code = InviteCode::decode(code).map_err(|_| InviteCodeError::Invalid("it holds no message"))?;
        Self::read(code)
    }

    fn read(code: InviteCode) -> Result<Self, InviteCodeError> {
        let invalid = |what| move |_| InviteCodeError::Invalid(what);
        let too_many = code.relays.len() > MAX_RELAYS
            || code.addresses.len() > MAX_ADDRESSES
            || code.registries.len() > MAX_REGISTRIES;
        if too_many {
            return Err(InviteCodeError::Invalid("it names too many addresses"));
        }
        let texts = code.registries.iter().chain([&code.agent, &code.skill]);
        for text in texts {
            if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(InviteCodeError::Invalid(
                    "a name in it is too long, or is no text",
                ));
            }
        }
        let address = |bytes: Vec<u8>| {
            Multiaddr::try_from(bytes).map_err(|_| InviteCodeError::Invalid("it names no address"))
        };
        let relays = code
            .relays
            .into_iter()
            .map(address)
            .collect::<Result<Vec<_>, _>>()?;
        if !relays.iter().all(is_relay) {
            return Err(InviteCodeError::Invalid("a relay in it has no peer id"));
        }
        let addresses = code
            .addresses
            .into_iter()
            .map(address)
            .collect::<Result<Vec<_>, _>>()?;
        let names_peer = |address: &Multiaddr| address.iter().any(|part| matches!(part, Protocol::P2p(_)));
        if addresses.iter().any(names_peer) {
            return Err(InviteCodeError::Invalid("an address in it is of another peer"));
        }
        let secret = match code.secret.as_slice() {
            [] => None,
            secret => Some(
                secret
                    .try_into()
                    .map_err(invalid("its right has another length than 16 bytes"))?,
            ),
        };
        Ok(Self {
            peer: PeerId::from_bytes(&code.peer).map_err(|_| InviteCodeError::Invalid("it names no peer"))?,
            relays,
            addresses,
            registries: code.registries,
            secret,
            agent: code.agent,
            skill: code.skill,
            expires_at: u64::try_from(code.expires_at).ok().filter(|at| *at > 0),
        })
    }

    /// Where the node is dialled: its own addresses, then circuits through its relays; each ends in its id.
    pub(crate) fn dialled(&self) -> Vec<String> {
        let peer = &self.peer;
        let direct = self
            .addresses
            .iter()
            .map(|address| format!("{address}/p2p/{peer}"));
        let circuits = self
            .relays
            .iter()
            .map(|relay| format!("{relay}/p2p-circuit/p2p/{peer}"));
        direct.chain(circuits).collect()
    }
}

/// Whether an address ends in the id of a relay, and names no circuit.
fn is_relay(address: &Multiaddr) -> bool {
    let is_circuit = address.iter().any(|part| matches!(part, Protocol::P2pCircuit));
    !is_circuit && matches!(address.iter().last(), Some(Protocol::P2p(_)))
}

/// Those of these registries that a string has to name: the one beside a relay is known by the relay.
pub(crate) fn registries_to_name(registries: &[String], relays: &[Multiaddr]) -> Vec<String> {
    let beside = relays.iter().filter_map(BootstrapRegistry::beside);
    let beside: Vec<String> = beside.map(|registry| registry.guess()).collect();
    let others = registries.iter().filter(|registry| !beside.contains(registry));
    others.take(MAX_REGISTRIES).cloned().collect()
}

/// The relays of these circuits, and the addresses, that a string has room for: one address of each relay, and those of
/// this host only if there are no others.
pub(crate) fn reachable(direct: &[String], circuits: &[String]) -> (Vec<Multiaddr>, Vec<Multiaddr>) {
    let mut relays: Vec<Multiaddr> = Vec::new();
    for circuit in circuits {
        let relay: Option<Multiaddr> = circuit
            .split("/p2p-circuit")
            .next()
            .and_then(|relay| relay.parse().ok());
        let Some(relay) = relay.filter(is_relay) else {
            continue;
        };
        if relays.len() < MAX_RELAYS
            && !relays
                .iter()
                .any(|known| known.iter().last() == relay.iter().last())
        {
            relays.push(relay);
        }
    }
    let direct: Vec<Multiaddr> = direct.iter().filter_map(|address| address.parse().ok()).collect();
    let is_here = |address: &Multiaddr| match address.iter().next() {
        Some(Protocol::Ip4(ip)) => ip.is_loopback(),
        Some(Protocol::Ip6(ip)) => ip.is_loopback(),
        _ => false,
    };
    let names_peer = |address: &Multiaddr| address.iter().any(|part| matches!(part, Protocol::P2p(_)));
    let usable = || direct.iter().filter(|address| !names_peer(address));
    let mut addresses: Vec<Multiaddr> = usable().filter(|address| !is_here(address)).cloned().collect();
    if addresses.is_empty() && relays.is_empty() {
        addresses = usable().cloned().collect();
    }
    addresses.truncate(MAX_ADDRESSES);
    (relays, addresses)
}

/// The bytes that [`HEAD`], without the mark of the base, and a version are in base32.
fn head_bytes(version: char) -> Vec<u8> {
    let text = format!("{HEAD}{version}");
    multibase::decode(text)
        .map(|(_, bytes)| bytes)
        .unwrap_or_default()
}

fn checksum(content: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::digest(content);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&digest[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests;
