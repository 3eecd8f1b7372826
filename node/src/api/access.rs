//! AccessService: peers that the owner of this node lets in by name, and peers that were refused and may be let in.

use std::time::{Duration, UNIX_EPOCH};

use agentanycast_core::{
    AgentAccess, EngineError, RegistrationAccess, TrustScope,
    policy::{access_requests::AccessRequest, trusted_peers::PeerTrust},
};
use agentanycast_proto::v1::{
    self, ListAccessRequestsRequest, ListAccessRequestsResponse, ListTrustRequest, ListTrustResponse,
    TrustPeerRequest, TrustPeerResponse, UntrustPeerRequest, UntrustPeerResponse,
    access_service_server::AccessService,
};
use tonic::{Request, Response, Status};

use super::{Api, peer_of, status_for_asker};

#[tonic::async_trait]
impl AccessService for Api {
    async fn trust_peer(
        &self,
        request: Request<TrustPeerRequest>,
    ) -> Result<Response<TrustPeerResponse>, Status> {
        let TrustPeerRequest {
            peer_id,
            agent,
            skill,
            request_id,
        } = request.into_inner();
        let scope = TrustScope { agent, skill };
        let trusted = if request_id.is_empty() {
            self.engine().trust_peer(peer_of(&peer_id)?, scope).await
        } else if peer_id.is_empty() {
            self.engine().trust_request(request_id, scope).await
        } else {
            return Err(Status::invalid_argument(
                "the request names a peer and an access request; give one of them",
            ));
        };
        let trust = trusted.map_err(|error| match error {
            EngineError::NotFound(what) => Status::not_found(format!("there is no {what}")),
            error => status_for_asker(&error),
        })?;
        Ok(Response::new(TrustPeerResponse {
            trust: Some(to_trust(trust)),
        }))
    }

    async fn untrust_peer(
        &self,
        request: Request<UntrustPeerRequest>,
    ) -> Result<Response<UntrustPeerResponse>, Status> {
        let UntrustPeerRequest {
            peer_id,
            agent,
            skill,
        } = request.into_inner();
        let peer = peer_of(&peer_id)?;
        let removed = self
            .engine()
            .untrust_peer(peer, TrustScope { agent, skill })
            .await;
        let (removed, ended) = removed.map_err(|error| match error {
            EngineError::Precondition(text) => Status::not_found(text),
            error => status_for_asker(&error),
        })?;
        Ok(Response::new(UntrustPeerResponse {
            trust: removed.into_iter().map(to_trust).collect(),
            ended_tasks: u32::try_from(ended).unwrap_or(u32::MAX),
        }))
    }

    async fn list_trust(&self, _: Request<ListTrustRequest>) -> Result<Response<ListTrustResponse>, Status> {
        let trusted = self.engine().trusted_peers().await;
        let trusted = trusted.map_err(|error| status_for_asker(&error))?;
        Ok(Response::new(ListTrustResponse {
            trust: trusted.into_iter().map(to_trust).collect(),
        }))
    }

    async fn list_access_requests(
        &self,
        _: Request<ListAccessRequestsRequest>,
    ) -> Result<Response<ListAccessRequestsResponse>, Status> {
        let requests = self.engine().access_requests().await;
        let requests = requests.map_err(|error| status_for_asker(&error))?;
        Ok(Response::new(ListAccessRequestsResponse {
            requests: requests.into_iter().map(to_request).collect(),
        }))
    }
}

fn time(millis: u64) -> prost_types::Timestamp {
    prost_types::Timestamp::from(UNIX_EPOCH + Duration::from_millis(millis))
}

fn to_trust(trust: PeerTrust) -> v1::PeerTrust {
    v1::PeerTrust {
        peer_id: trust.peer.to_string(),
        agent: trust.agent,
        skill: trust.skill,
        created_at: Some(time(trust.created_at)),
    }
}

fn to_request(request: AccessRequest) -> v1::AccessRequest {
    v1::AccessRequest {
        id: request.id,
        peer_id: request.peer.to_string(),
        agent: request.agent,
        skill: request.skill,
        first_at: Some(time(request.first_at)),
        last_at: Some(time(request.last_at)),
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
pub(super) fn asked_access(asked: i32, by_default: AgentAccess) -> Result<RegistrationAccess, Status> {
    match v1::AgentAccess::try_from(asked) {
        Ok(v1::AgentAccess::Unspecified) => Ok(RegistrationAccess::AsBefore),
        Ok(v1::AgentAccess::Open) => Ok(RegistrationAccess::Is(AgentAccess::Open)),
        Ok(v1::AgentAccess::Private) => Ok(RegistrationAccess::Is(AgentAccess::Private)),
        Ok(v1::AgentAccess::Default) => Ok(RegistrationAccess::Default(by_default)),
        Err(_) => Err(Status::invalid_argument(format!(
            "access {asked} is not known; it is 1 (open), 2 (private) or 3 (as the daemon's settings say)"
        ))),
    }
}

/// The access that SetAgentAccess says.
pub(super) fn set_access(asked: i32) -> Result<AgentAccess, Status> {
    match v1::AgentAccess::try_from(asked) {
        Ok(v1::AgentAccess::Open) => Ok(AgentAccess::Open),
        Ok(v1::AgentAccess::Private) => Ok(AgentAccess::Private),
        _ => Err(Status::invalid_argument(format!(
            "access {asked} cannot be set; it is 1 (open) or 2 (private)"
        ))),
    }
}
