//! The commands about who may use which agents of this node: access, invites, trust and requests.

use std::{sync::Arc, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::AgentCard;

use super::Engine;
use crate::{
    coordinator::TrustScope,
    policy::{
        access_requests::AccessRequest,
        invites::{Invite, SECRET},
        trusted_peers::PeerTrust,
    },
    transaction::EngineError,
    types::{AgentAccess, NewInvite, ShownCard},
};

impl Engine {
    /// Who may use an agent, until this says otherwise; how many tasks ended by it.
    pub async fn set_agent_access(&self, name: String, access: AgentAccess) -> Result<usize, EngineError> {
        self.call(move |core, now| core.set_agent_access(now, &name, access))
            .await
    }

    /// What of this node's agents others see.
    pub async fn shown_card(&self) -> Result<ShownCard, EngineError> {
        self.call(|core, _| Ok(core.shown_card())).await
    }

    /// The card of this node with the agents that a peer may use; `None`: there is none.
    pub async fn card_for(&self, peer: PeerId) -> Result<Option<Arc<AgentCard>>, EngineError> {
        self.call(move |core, _| Ok(core.card_for(peer))).await
    }

    /// Makes an invite that lets peers in for this time from now on; None: for ever.
    pub async fn create_invite(
        &self,
        mut new: NewInvite,
        valid_for: Option<Duration>,
    ) -> Result<Invite, EngineError> {
        self.call(move |core, now| {
            new.expires_at = valid_for.map(|time| now.unix.saturating_add(time.as_millis() as u64));
            core.create_invite(now, new)
        })
        .await
    }

    /// The invites that were given out, those first that were made first.
    pub async fn invites(&self) -> Result<Vec<Invite>, EngineError> {
        self.call(|core, _| Ok(core.admission().invites())).await
    }

    /// Takes back the invites with this id or label, and how many tasks ended by it.
    pub async fn revoke_invite(&self, name: String) -> Result<(Vec<Invite>, usize), EngineError> {
        self.call(move |core, now| core.revoke_invite(now, &name)).await
    }

    /// Shows this secret to a node from now on; `None`: nothing.
    pub async fn accept_invite(&self, peer: PeerId, secret: Option<[u8; SECRET]>) -> Result<(), EngineError> {
        self.call(move |core, _| core.accept_invite(peer, secret)).await
    }

    /// Why the invite that a peer shows does not let it in; `None`: it shows none, or it does.
    pub async fn why_not_invited(
        &self,
        peer: PeerId,
        secret: Vec<u8>,
    ) -> Result<Option<&'static str>, EngineError> {
        self.call(move |core, now| Ok(core.admission().why_not_invited(now, peer, &secret)))
            .await
    }

    /// Lets a peer use agents of this node.
    pub async fn trust_peer(&self, peer: PeerId, scope: TrustScope) -> Result<PeerTrust, EngineError> {
        self.call(move |core, now| core.trust_peer(now, peer, scope))
            .await
    }

    /// Lets the peer of an access request use the agent that it asked for.
    pub async fn trust_request(&self, id: String, scope: TrustScope) -> Result<PeerTrust, EngineError> {
        self.call(move |core, now| core.trust_request(now, &id, scope))
            .await
    }

    /// Takes trust in a peer back; what that was, and how many tasks ended by it.
    pub async fn untrust_peer(
        &self,
        peer: PeerId,
        scope: TrustScope,
    ) -> Result<(Vec<PeerTrust>, usize), EngineError> {
        self.call(move |core, now| core.untrust_peer(now, peer, &scope))
            .await
    }

    /// All trusted peers, the earliest first.
    pub async fn trusted_peers(&self) -> Result<Vec<PeerTrust>, EngineError> {
        self.call(|core, _| Ok(core.admission().trusted_peers())).await
    }

    /// Peers that were refused since an agent is private, the latest first.
    pub async fn access_requests(&self) -> Result<Vec<AccessRequest>, EngineError> {
        self.call(|core, now| Ok(core.admission().access_requests(now)))
            .await
    }
}
