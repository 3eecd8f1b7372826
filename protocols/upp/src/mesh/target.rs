//! Whom a request is for, as the id of a model.

use std::str::FromStr;

use agentanycast::{Node, PeerId, Target};

use crate::error::{ErrorCode, UppError};

/// An agent of the mesh.
///
/// ```
/// use agentanycast_upp::mesh::MeshTarget;
///
/// let target: MeshTarget = "skill:translate".parse()?;
/// assert_eq!(target, MeshTarget::Skill("translate".into()));
/// assert!("translate".parse::<MeshTarget>().is_err());
/// # Ok::<(), agentanycast_upp::UppError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeshTarget {
    /// `peer:<id>` or `peer:<id>/<agent>`: this peer, or this agent of it.
    Peer {
        /// The peer.
        peer: PeerId,
        /// The agent of the peer's node.
        agent: Option<String>,
    },
    /// `skill:<id>`: any agent with this skill.
    Skill(String),
    /// A DID: a peer that it names.
    Did(String),
}

impl FromStr for MeshTarget {
    type Err = UppError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        let unknown = || {
            let shown: String = id.chars().take(80).collect();
            let message = format!("`{shown}` names no agent; use peer:<id>[/<agent>], skill:<id> or a DID");
            UppError::new(ErrorCode::ModelNotFound, message)
        };
        if id.starts_with("did:") {
            return Ok(Self::Did(id.to_owned()));
        }
        match id.split_once(':') {
            Some(("skill", skill)) if !skill.is_empty() => Ok(Self::Skill(skill.to_owned())),
            Some(("peer", rest)) => {
                let (peer, agent) = match rest.split_once('/') {
                    Some((_, "")) => return Err(unknown()),
                    Some((peer, agent)) => (peer, Some(agent.to_owned())),
                    None => (rest, None),
                };
                Ok(Self::Peer {
                    peer: peer.parse().map_err(|_| unknown())?,
                    agent,
                })
            }
            _ => Err(unknown()),
        }
    }
}

impl MeshTarget {
    /// The target of a task, and the agent of its node.
    pub(super) async fn resolve(&self, node: &Node) -> Result<(Target, Option<String>), UppError> {
        match self {
            Self::Peer { peer, agent } => Ok((Target::Peer(peer.clone()), agent.clone())),
            Self::Skill(skill) => Ok((Target::skill(skill), None)),
            Self::Did(did) => {
                let peers = node.peers_of_did(did).await.map_err(super::node_error)?;
                let peer = peers.into_iter().next();
                let unknown =
                    || UppError::new(ErrorCode::ModelNotFound, format!("no peer is known for `{did}`"));
                Ok((Target::Peer(peer.ok_or_else(unknown)?), None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_of_every_form() {
        let peer = "12D3KooWKnDdG3iXw9eTFijk3EWSunZcFi54Zka4wmtqtt6rPxc8";
        let parse = |id: &str| id.parse::<MeshTarget>();
        assert!(matches!(
            parse(&format!("peer:{peer}")),
            Ok(MeshTarget::Peer { agent: None, .. })
        ));
        let named = parse(&format!("peer:{peer}/cook")).unwrap();
        assert!(matches!(named, MeshTarget::Peer { agent: Some(name), .. } if name == "cook"));
        assert!(matches!(parse("did:web:example.com"), Ok(MeshTarget::Did(_))));
        for bad in [
            "",
            "gpt-5",
            "skill:",
            "peer:",
            "peer:x",
            &format!("peer:{peer}/"),
            "url:http://x",
        ] {
            assert_eq!(parse(bad).unwrap_err().code(), ErrorCode::ModelNotFound, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn hostile_ids_do_no_harm(id in ".{0,60}") {
            let _ = id.parse::<MeshTarget>();
        }
    }
}
