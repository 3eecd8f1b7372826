//! Which peers may use the agents of the daemon's node: the access of each agent, the peers that the node trusts, and those
//! that were refused and may be let in.

use std::time::SystemTime;

use agentanycast_proto::v1;

use super::{Node, missing};
use crate::{
    agent_access::{AgentAccess, too_old},
    error::{Error, ErrorKind},
    message::to_system_time,
    peer_id::PeerId,
};

/// A peer that may use private agents of the daemon's node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerTrust {
    /// The peer.
    pub peer: PeerId,
    /// The agent that it may use; empty: all, also one that is registered later.
    pub agent: String,
    /// The skill that it may ask for; empty: all.
    pub skill: String,
    /// Since when.
    pub created_at: Option<SystemTime>,
}

/// What [`Node::untrust_peer`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedTrust {
    /// The trust that was taken back.
    pub trust: Vec<PeerTrust>,
    /// How many tasks of the peer were ended: those that no agent had begun and that the peer may not send any more.
    pub ended_tasks: u32,
}

/// A peer that was refused since it may not use a private agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessRequest {
    /// Names it among all.
    pub id: String,
    /// The peer.
    pub peer: PeerId,
    /// The agent that it may not use.
    pub agent: String,
    /// The skill that it asked for last; empty: none.
    pub skill: String,
    /// When it was refused first.
    pub first_at: Option<SystemTime>,
    /// When it was refused last.
    pub last_at: Option<SystemTime>,
    /// How many of its tasks were refused.
    pub tasks: u32,
}

impl Node {
    /// Says who may use an agent of this node: [`AgentAccess::Open`] or [`AgentAccess::Private`]. No program that registers the
    /// agent changes that. How many tasks ended by it: those that no program has begun, of peers that may not use the agent any more.
    ///
    /// # Errors
    /// [`ErrorKind::PeerNotFound`](crate::ErrorKind::PeerNotFound): this node has no agent of that name.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the daemon is too old to have private agents.
    pub async fn set_agent_access(&self, name: &str, access: AgentAccess) -> Result<u32, Error> {
        let answer = self.session().set_agent_access(name, access.to_daemon()).await;
        answer.map(|set| set.ended_tasks).map_err(unsupported)
    }

    /// Lets a peer use private agents of this node, until [`Node::untrust_peer`]: `agent` alone, or with an empty one all of them,
    /// also those that are registered later; for `skill` alone, or with an empty one for all. It is kept by peer id, and the same
    /// again changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): this node has no agent of that name.
    /// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded): there are 4096.
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the daemon is too old to have private agents.
    pub async fn trust_peer(&self, peer: &PeerId, agent: &str, skill: &str) -> Result<PeerTrust, Error> {
        let request = v1::TrustPeerRequest {
            peer_id: peer.to_string(),
            agent: agent.to_owned(),
            skill: skill.to_owned(),
            request_id: String::new(),
        };
        self.trust(request).await
    }

    /// The same of the peer and the agent of an access request, which ends by it.
    ///
    /// # Errors
    /// [`ErrorKind::TrustNotFound`](crate::ErrorKind::TrustNotFound): there is no such request.
    pub async fn trust_request(&self, id: &str, skill: &str) -> Result<PeerTrust, Error> {
        let request = v1::TrustPeerRequest {
            request_id: id.to_owned(),
            skill: skill.to_owned(),
            ..v1::TrustPeerRequest::default()
        };
        self.trust(request).await
    }

    async fn trust(&self, request: v1::TrustPeerRequest) -> Result<PeerTrust, Error> {
        let answer = self.session().trust_peer(request).await.map_err(unsupported)?;
        let trust = answer.trust.and_then(PeerTrust::from_daemon);
        trust.ok_or_else(|| missing("trust"))
    }

    /// Takes trust in a peer back: that for this agent and this skill, where they are not empty.
    ///
    /// # Errors
    /// [`ErrorKind::TrustNotFound`](crate::ErrorKind::TrustNotFound): the peer is not trusted so.
    pub async fn untrust_peer(&self, peer: &PeerId, agent: &str, skill: &str) -> Result<EndedTrust, Error> {
        let request = v1::UntrustPeerRequest {
            peer_id: peer.to_string(),
            agent: agent.to_owned(),
            skill: skill.to_owned(),
        };
        let answer = self.session().untrust_peer(request).await.map_err(unsupported)?;
        Ok(EndedTrust {
            trust: answer
                .trust
                .into_iter()
                .filter_map(PeerTrust::from_daemon)
                .collect(),
            ended_tasks: answer.ended_tasks,
        })
    }

    /// The peers that this node trusts, the earliest first.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the daemon is too old to have private agents.
    pub async fn trusted_peers(&self) -> Result<Vec<PeerTrust>, Error> {
        let answer = self.session().list_trust().await.map_err(unsupported)?;
        Ok(answer
            .trust
            .into_iter()
            .filter_map(PeerTrust::from_daemon)
            .collect())
    }

    /// The peers that were refused since they may not use a private agent, the latest first: one for each peer and agent, for 7
    /// days since the last time.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the daemon is too old to have private agents.
    pub async fn access_requests(&self) -> Result<Vec<AccessRequest>, Error> {
        let answer = self.session().list_access_requests().await;
        let requests = answer.map_err(unsupported)?.requests.into_iter();
        Ok(requests.filter_map(AccessRequest::from_daemon).collect())
    }
}

impl PeerTrust {
    fn from_daemon(trust: v1::PeerTrust) -> Option<Self> {
        Some(Self {
            peer: PeerId::from_daemon(trust.peer_id)?,
            agent: trust.agent,
            skill: trust.skill,
            created_at: to_system_time(trust.created_at),
        })
    }
}

impl AccessRequest {
    fn from_daemon(request: v1::AccessRequest) -> Option<Self> {
        Some(Self {
            id: request.id,
            peer: PeerId::from_daemon(request.peer_id)?,
            agent: request.agent,
            skill: request.skill,
            first_at: to_system_time(request.first_at),
            last_at: to_system_time(request.last_at),
            tasks: request.tasks,
        })
    }
}

/// A daemon that lacks the call lacks private agents.
fn unsupported(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported => too_old("the daemon has no private agents and no trust in peers"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_daemon::{CallMode, FakeDaemon};

    #[tokio::test]
    async fn a_daemon_of_before_says_that_it_is_too_old() {
        let fake = FakeDaemon::start(CallMode::Unary);
        let node = fake.node().await;
        let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"
            .parse()
            .unwrap();
        let errors = [
            node.set_agent_access("echo", AgentAccess::Private).await.err(),
            node.trust_peer(&peer, "", "").await.err(),
            node.trust_request("id", "").await.err(),
            node.untrust_peer(&peer, "", "").await.err(),
            node.trusted_peers().await.err(),
            node.access_requests().await.err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(
                error.to_string().contains("restart it with this version"),
                "{error}"
            );
        }
    }
}
