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
        for wrong in ["", "nobody", "/ip4/192.0.2.1/tcp/4001", "did:key:zzz"] {
            assert!(PeerTarget::parse(wrong).is_err(), "{wrong}");
        }
    }
}
