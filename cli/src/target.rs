//! Whom a command is about: a peer id, a did:key, or a multiaddr that ends in a peer id.

use agentanycast::{Node, PeerId};

use crate::{did, failure::Failure};

/// A peer, with an address to dial if one was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerTarget {
    pub(crate) peer: PeerId,
    address: Option<String>,
}

impl PeerTarget {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        if text.starts_with('/') {
            let peer = text.rsplit_once("/p2p/").and_then(|(_, peer)| peer.parse().ok());
            let wrong = || Failure::usage(format!("{text:?}: a multiaddr must end in /p2p/<peer id>"));
            return Ok(Self {
                peer: peer.ok_or_else(wrong)?,
                address: Some(text.to_owned()),
            });
        }
        if text.starts_with("did:") {
            let wrong = || Failure::usage(format!("{text:?} is not a did:key of an Ed25519 key"));
            return Ok(Self {
                peer: did::to_peer(text).ok_or_else(wrong)?,
                address: None,
            });
        }
        let hint = "or a did:key, or a multiaddr; use --skill for a skill and --url for a URL";
        let peer = text
            .parse()
            .map_err(|error| Failure::usage(format!("{error}, {hint}")))?;
        Ok(Self { peer, address: None })
    }

    /// The value of an option that names a peer.
    pub(crate) fn of_option(option: &str, value: &str) -> Result<Self, Failure> {
        Self::parse(value).map_err(|_| {
            Failure::usage(format!(
                "{option} {value:?} is no peer: give a peer id (12D3KooW…) or a did:key (did:key:z6Mk…), as `anycast id` prints \
                 them at that node"
            ))
        })
    }

    /// Connects to the peer if an address was given for it.
    pub(crate) async fn reach(&self, node: &Node) -> Result<(), Failure> {
        if let Some(address) = &self.address {
            node.connect_peer(&self.peer, [address]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRONG: [&str; 4] = ["", "nobody", "/ip4/192.0.2.1/tcp/4001", "did:key:zzz"];

    const PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

    #[test]
    fn targets_are_read() {
        let peer: PeerId = PEER.parse().unwrap();
        assert_eq!(
            PeerTarget::parse(PEER).unwrap(),
            PeerTarget {
                peer: peer.clone(),
                address: None
            }
        );
        let address = format!("/ip4/192.0.2.1/tcp/4001/p2p/{PEER}");
        let target = PeerTarget::parse(&address).unwrap();
        assert_eq!(
            target,
            PeerTarget {
                peer: peer.clone(),
                address: Some(address)
            }
        );
        assert_eq!(
            PeerTarget::parse(&did::from_peer(&peer).unwrap()).unwrap().peer,
            peer
        );
        for wrong in WRONG {
            assert!(PeerTarget::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_option_is_told_by_its_name() {
        let target = PeerTarget::of_option("--for", PEER).unwrap();
        assert_eq!(target, PeerTarget::parse(PEER).unwrap());
        for wrong in WRONG {
            let said = PeerTarget::of_option("--seal-for", wrong).unwrap_err();
            let said = format!("{said:?}");
            for part in ["--seal-for", wrong, "12D3KooW", "did:key:z6Mk"] {
                assert!(said.contains(part), "{said}");
            }
            assert!(!said.contains("--url"), "{said}");
        }
    }
}
