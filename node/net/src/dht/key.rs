//! PURE keys of the DHT: where the providers of a skill are listed, and where the record of an agent lies.
//! The one rule: they are those of the wire contract, byte by byte, since strangers compute them too.

use libp2p::{PeerId, kad};
use sha2::{Digest as _, Sha256};

/// What the key of a skill is the hash of begins with.
const SKILL: &str = "agentanycast/skill/";
/// What the key of an agent's record begins with; the bytes of its peer id follow.
const AGENT: &[u8] = b"/agentanycast/agent/";
/// A SHA-256 multihash: its code and its length.
const SHA2_256: [u8; 2] = [0x12, 32];

/// Where the providers of `skill` are listed: the multihash of its CID (version 1, raw), which is what go-libp2p
/// looks providers up by.
pub(super) fn of_skill(skill: &str) -> kad::RecordKey {
    let mut hash = Sha256::new();
    hash.update(SKILL);
    hash.update(skill);
    let mut key = SHA2_256.to_vec();
    key.extend_from_slice(&hash.finalize());
    key.into()
}

/// Whether `key` can be that of a skill, or of anything else that a SHA-256 stands for.
pub(super) fn is_sha256(key: &kad::RecordKey) -> bool {
    let key = key.as_ref();
    key.len() == 34 && key.starts_with(&SHA2_256)
}

/// Where the record of `peer` lies.
pub(super) fn of_agent(peer: PeerId) -> kad::RecordKey {
    [AGENT, &peer.to_bytes()].concat().into()
}

/// The peer whose record lies at `key`.
pub(super) fn agent(key: &kad::RecordKey) -> Option<PeerId> {
    let peer = key.as_ref().strip_prefix(AGENT)?;
    // One peer, one key: a longer encoding of the same id would be another place.
    PeerId::from_bytes(peer).ok().filter(|id| id.to_bytes() == peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CID (version 1, raw, base32) whose multihash the key is.
    fn cid(key: &kad::RecordKey) -> String {
        let mut text = String::from("b");
        let (mut bits, mut count) = (0u32, 0);
        for byte in [0x01, 0x55].iter().chain(key.as_ref()) {
            bits = bits << 8 | u32::from(*byte);
            count += 8;
            while count >= 5 {
                count -= 5;
                text.push(char::from(
                    b"abcdefghijklmnopqrstuvwxyz234567"[(bits >> count & 31) as usize],
                ));
            }
        }
        if count > 0 {
            text.push(char::from(
                b"abcdefghijklmnopqrstuvwxyz234567"[(bits << (5 - count) & 31) as usize],
            ));
        }
        text
    }

    #[test]
    fn the_keys_of_skills_are_those_of_the_contract() {
        let vectors = [
            (
                "echo",
                "bafkreicozq6bc3cq3mmhgecqyaafwwc3f2dgo5v4kzuanqvb4mf7x64i74",
            ),
            (
                "translate",
                "bafkreiahz7ih6adg6duuu3tdlxh3el26m466ky3n5cpzx2eab24ie5qvda",
            ),
        ];
        for (skill, expected) in vectors {
            assert_eq!(cid(&of_skill(skill)), expected);
            assert!(is_sha256(&of_skill(skill)));
        }
    }

    #[test]
    fn an_agents_key_names_its_peer_and_nobody_else() {
        let peer = PeerId::random();
        assert_eq!(agent(&of_agent(peer)), Some(peer));
        assert_eq!(agent(&of_skill("echo")), None);
        let mut longer = of_agent(peer).to_vec();
        longer.push(0);
        assert_eq!(agent(&longer.into()), None);
        assert!(!is_sha256(&of_agent(peer)));
    }
}
