//! The calls about invites.

use agentanycast_proto::v1;

use super::Session;
use crate::error::{Error, Subject};

impl Session {
    pub(crate) async fn create_invite(
        &self,
        request: v1::CreateInviteRequest,
    ) -> Result<v1::CreateInviteResponse, Error> {
        let rpc = |_, request: v1::CreateInviteRequest| {
            let mut client = self.invites.clone();
            async move { client.create_invite(request).await }
        };
        // Nobody would know the secret of the first one.
        self.call_at_most_once(Subject::Node, request, rpc).await
    }

    pub(crate) async fn accept_invite(
        &self,
        request: v1::AcceptInviteRequest,
    ) -> Result<v1::AcceptInviteResponse, Error> {
        let rpc = |_, request: v1::AcceptInviteRequest| {
            let mut client = self.invites.clone();
            async move { client.accept_invite(request).await }
        };
        self.call(Subject::Node, request, rpc).await
    }

    pub(crate) async fn list_invites(&self) -> Result<v1::ListInvitesResponse, Error> {
        let rpc = |_, request: v1::ListInvitesRequest| {
            let mut client = self.invites.clone();
            async move { client.list_invites(request).await }
        };
        self.call(Subject::Node, v1::ListInvitesRequest {}, rpc).await
    }

    pub(crate) async fn revoke_invite(&self, name: &str) -> Result<v1::RevokeInviteResponse, Error> {
        let rpc = |_, request: v1::RevokeInviteRequest| {
            let mut client = self.invites.clone();
            async move { client.revoke_invite(request).await }
        };
        let request = v1::RevokeInviteRequest {
            name: name.to_owned(),
        };
        // What was revoked the first time would not be found the second time.
        self.call_at_most_once(Subject::Invite, request, rpc).await
    }
}
