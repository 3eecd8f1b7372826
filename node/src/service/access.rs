//! Peers that the owner of this node lets in by name, and peers that were refused and may be let in.

use agentanycast_core::{
    AgentAccess, EngineError, RegistrationAccess, TrustScope,
    policy::{access_requests::AccessRequest, trusted_peers::PeerTrust},
    wire::timestamp,
};
use agentanycast_proto::v1::{
    self, ListAccessRequestsRequest, ListAccessRequestsResponse, ListTrustRequest, ListTrustResponse,
    TrustPeerRequest, TrustPeerResponse, UntrustPeerRequest, UntrustPeerResponse,
};

use super::{Service, ServiceError, ServiceResult, peer_of};

impl Service {
    pub(crate) async fn trust_peer(&self, request: TrustPeerRequest) -> ServiceResult<TrustPeerResponse> {
        let (agent, skill) = (request.agent, request.skill);
        let scope = TrustScope { agent, skill };
        let trusted = if request.request_id.is_empty() {
            self.engine().trust_peer(peer_of(&request.peer_id)?, scope).await
        } else if request.peer_id.is_empty() {
            self.engine().trust_request(request.request_id, scope).await
        } else {
            return Err(ServiceError::invalid(
                "the request names a peer and an access request; give one of them",
            ));
        };
        let trust = trusted.map_err(|error| match error {
            EngineError::NotFound(what) => ServiceError::not_found(format!("there is no {what}")),
            error => error.into(),
        })?;
        Ok(TrustPeerResponse {
            trust: Some(to_trust(trust)),
        })
    }

    pub(crate) async fn untrust_peer(
        &self,
        request: UntrustPeerRequest,
    ) -> ServiceResult<UntrustPeerResponse> {
        let (agent, skill) = (request.agent, request.skill);
        let scope = TrustScope { agent, skill };
        let removed = self
            .engine()
            .untrust_peer(peer_of(&request.peer_id)?, scope)
            .await;
        let (removed, ended) = removed.map_err(|error| match error {
            EngineError::Precondition(text) => ServiceError::not_found(text),
            error => error.into(),
        })?;
        Ok(UntrustPeerResponse {
            trust: removed.into_iter().map(to_trust).collect(),
            ended_tasks: u32::try_from(ended).unwrap_or(u32::MAX),
        })
    }

    pub(crate) async fn list_trust(&self, _: ListTrustRequest) -> ServiceResult<ListTrustResponse> {
        let trusted = self.engine().trusted_peers().await?;
        Ok(ListTrustResponse {
            trust: trusted.into_iter().map(to_trust).collect(),
        })
    }

    pub(crate) async fn list_access_requests(
        &self,
        _: ListAccessRequestsRequest,
    ) -> ServiceResult<ListAccessRequestsResponse> {
        let requests = self.engine().access_requests().await?;
        Ok(ListAccessRequestsResponse {
            requests: requests.into_iter().map(to_request).collect(),
        })
    }
}

fn to_trust(trust: PeerTrust) -> v1::PeerTrust {
    v1::PeerTrust {
        peer_id: trust.peer.to_string(),
        agent: trust.agent,
        skill: trust.skill,
        created_at: Some(timestamp(trust.created_at)),
    }
}

fn to_request(request: AccessRequest) -> v1::AccessRequest {
    v1::AccessRequest {
        id: request.id,
        peer_id: request.peer.to_string(),
        agent: request.agent,
        skill: request.skill,
        first_at: Some(timestamp(request.first_at)),
        last_at: Some(timestamp(request.last_at)),
        tasks: request.tasks,
    }
}

/// An access as it is told.
pub(super) fn told_access(access: Option<AgentAccess>) -> v1::AgentAccess {
    match access {
        None => v1::AgentAccess::Unspecified,
        Some(AgentAccess::Open) => v1::AgentAccess::Open,
        Some(AgentAccess::Private) => v1::AgentAccess::Private,
    }
}

/// What a registration says of access. `by_default`: what the operator has set.
///
/// # Errors
/// The number is none of ours: who may use the agent is not guessed.
pub(super) fn asked_access(asked: i32, by_default: AgentAccess) -> ServiceResult<RegistrationAccess> {
    match v1::AgentAccess::try_from(asked) {
        Ok(v1::AgentAccess::Unspecified) => Ok(RegistrationAccess::AsBefore),
        Ok(v1::AgentAccess::Open) => Ok(RegistrationAccess::Is(AgentAccess::Open)),
        Ok(v1::AgentAccess::Private) => Ok(RegistrationAccess::Is(AgentAccess::Private)),
        Ok(v1::AgentAccess::Default) => Ok(RegistrationAccess::Default(by_default)),
        Err(_) => Err(ServiceError::invalid(format!(
            "access {asked} is not known; it is 1 (open), 2 (private) or 3 (as the daemon's settings say)"
        ))),
    }
}

/// The access that SetAgentAccess says.
pub(super) fn set_access(asked: i32) -> ServiceResult<AgentAccess> {
    match v1::AgentAccess::try_from(asked) {
        Ok(v1::AgentAccess::Open) => Ok(AgentAccess::Open),
        Ok(v1::AgentAccess::Private) => Ok(AgentAccess::Private),
        _ => Err(ServiceError::invalid(format!(
            "access {asked} cannot be set; it is 1 (open) or 2 (private)"
        ))),
    }
}
