//! The calls about who is known: peers, agents and DIDs.

use agentanycast_proto::v1;

use super::Session;
use crate::error::{Error, Subject};

impl Session {
    pub(crate) async fn known_peers(&self) -> Result<v1::ListKnownPeersResponse, Error> {
        let rpc = |_, request: v1::ListKnownPeersRequest| {
            let mut client = self.directory.clone();
            async move { client.list_known_peers(request).await }
        };
        self.call(Subject::Node, v1::ListKnownPeersRequest {}, rpc).await
    }

    pub(crate) async fn list_agents(
        &self,
        request: v1::ListAgentsRequest,
    ) -> Result<v1::ListAgentsResponse, Error> {
        let rpc = |_, request: v1::ListAgentsRequest| {
            let mut client = self.directory.clone();
            async move { client.list_agents(request).await }
        };
        self.call(Subject::Node, request, rpc).await
    }

    pub(crate) async fn resolve_did(&self, did: &str) -> Result<v1::ResolveDidResponse, Error> {
        let rpc = |_, request: v1::ResolveDidRequest| {
            let mut client = self.directory.clone();
            async move { client.resolve_did(request).await }
        };
        let request = v1::ResolveDidRequest { did: did.to_owned() };
        self.call(Subject::Peer, request, rpc).await
    }
}
