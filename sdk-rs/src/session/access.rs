//! The calls about who may use the agents of the node.

use agentanycast_proto::v1;

use super::Session;
use crate::error::{Error, Subject};

impl Session {
    pub(crate) async fn set_agent_access(
        &self,
        name: &str,
        access: v1::AgentAccess,
    ) -> Result<v1::SetAgentAccessResponse, Error> {
        let rpc = |_, request: v1::SetAgentAccessRequest| {
            let mut client = self.agents.clone();
            async move { client.set_agent_access(request).await }
        };
        let request = v1::SetAgentAccessRequest {
            name: name.to_owned(),
            access: access.into(),
        };
        self.call(Subject::Agent, request, rpc).await
    }

    pub(crate) async fn trust_peer(
        &self,
        request: v1::TrustPeerRequest,
    ) -> Result<v1::TrustPeerResponse, Error> {
        let rpc = |_, request: v1::TrustPeerRequest| {
            let mut client = self.access.clone();
            async move { client.trust_peer(request).await }
        };
        if request.request_id.is_empty() {
            return self.call(Subject::Trust, request, rpc).await;
        }
        // A request that ended the first time would not be found the second time.
        self.call_at_most_once(Subject::Trust, request, rpc).await
    }

    pub(crate) async fn untrust_peer(
        &self,
        request: v1::UntrustPeerRequest,
    ) -> Result<v1::UntrustPeerResponse, Error> {
        let rpc = |_, request: v1::UntrustPeerRequest| {
            let mut client = self.access.clone();
            async move { client.untrust_peer(request).await }
        };
        // What was taken back the first time would not be found the second time.
        self.call_at_most_once(Subject::Trust, request, rpc).await
    }

    pub(crate) async fn list_trust(&self) -> Result<v1::ListTrustResponse, Error> {
        let rpc = |_, request: v1::ListTrustRequest| {
            let mut client = self.access.clone();
            async move { client.list_trust(request).await }
        };
        self.call(Subject::Node, v1::ListTrustRequest {}, rpc).await
    }

    pub(crate) async fn list_access_requests(&self) -> Result<v1::ListAccessRequestsResponse, Error> {
        let rpc = |_, request: v1::ListAccessRequestsRequest| {
            let mut client = self.access.clone();
            async move { client.list_access_requests(request).await }
        };
        self.call(Subject::Node, v1::ListAccessRequestsRequest {}, rpc)
            .await
    }
}
