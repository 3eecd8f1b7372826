//! Invites that this node gives out, and those that it shows to others.

use std::time::Duration;

use agentanycast_core::{
    EngineError, NewInvite,
    policy::invites::{Invite, SECRET},
    wire::timestamp,
};
use agentanycast_proto::v1::{
    self, AcceptInviteRequest, AcceptInviteResponse, CreateInviteRequest, CreateInviteResponse,
    ListInvitesRequest, ListInvitesResponse, RevokeInviteRequest, RevokeInviteResponse,
};

use super::{Service, ServiceError, ServiceResult, peer_of};

/// Longest time that an invite is good for: a hundred years.
const MAX_VALIDITY: Duration = Duration::from_hours(876_600);

/// What ids of invites are made of: no letter that is taken for another one.
const ID_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Characters of an id, 40 bits.
const ID_LENGTH: usize = 8;

impl Service {
    pub(crate) async fn create_invite(
        &self,
        request: CreateInviteRequest,
    ) -> ServiceResult<CreateInviteResponse> {
        let valid_for = request.valid_for.map(Duration::try_from).transpose();
        let valid_for = valid_for
            .ok()
            .filter(|time| time.is_none_or(|time| time <= MAX_VALIDITY));
        let Some(valid_for) = valid_for else {
            return Err(ServiceError::invalid("valid_for is a time of 0 to 100 years"));
        };
        let secret: [u8; SECRET] = rand::random();
        let id: [u8; ID_LENGTH] = rand::random();
        let id = id
            .iter()
            .map(|byte| char::from(ID_ALPHABET[usize::from(byte % 32)]));
        let new = NewInvite {
            id: id.collect(),
            label: request.label,
            agent: request.agent,
            skill: request.skill,
            uses: request.uses.max(1),
            expires_at: None,
            secret,
        };
        let invite = self.engine().create_invite(new, valid_for).await?;
        Ok(CreateInviteResponse {
            invite: Some(to_proto(invite)),
            secret: secret.to_vec(),
        })
    }

    pub(crate) async fn list_invites(&self, _: ListInvitesRequest) -> ServiceResult<ListInvitesResponse> {
        let invites = self.engine().invites().await?;
        Ok(ListInvitesResponse {
            invites: invites.into_iter().map(to_proto).collect(),
        })
    }

    pub(crate) async fn revoke_invite(
        &self,
        request: RevokeInviteRequest,
    ) -> ServiceResult<RevokeInviteResponse> {
        let revoked = self.engine().revoke_invite(request.name).await;
        let (invites, ended) = revoked.map_err(|error| match error {
            EngineError::Precondition(text) => ServiceError::not_found(text),
            error => error.into(),
        })?;
        Ok(RevokeInviteResponse {
            invites: invites.into_iter().map(to_proto).collect(),
            ended_tasks: u32::try_from(ended).unwrap_or(u32::MAX),
        })
    }

    pub(crate) async fn accept_invite(
        &self,
        request: AcceptInviteRequest,
    ) -> ServiceResult<AcceptInviteResponse> {
        let peer = peer_of(&request.peer_id)?;
        if peer == self.net().local_peer() {
            return Err(ServiceError::invalid("the invite is of this node itself"));
        }
        let secret: Option<[u8; SECRET]> = match request.secret.as_slice() {
            [] => None,
            secret => Some(secret.try_into().map_err(|_| {
                ServiceError::invalid(format!("the secret has {} bytes; it has {SECRET}", secret.len()))
            })?),
        };
        self.engine().accept_invite(peer, secret).await?;
        let refused = self.net().show_invite(peer, secret).await;
        Ok(AcceptInviteResponse { refused })
    }
}

/// An invite as it is told, without the hash.
fn to_proto(invite: Invite) -> v1::Invite {
    v1::Invite {
        id: invite.id,
        label: invite.label,
        agent: invite.agent,
        skill: invite.skill,
        uses: invite.uses,
        created_at: Some(timestamp(invite.created_at)),
        expires_at: invite.expires_at.map(timestamp),
        peer_ids: invite.peers.iter().map(ToString::to_string).collect(),
        agents: invite.agents,
    }
}
