//! The calls about the agents of the node and the programs that serve them.

use agentanycast_proto::v1;

use super::{CallFailure, Session};
use crate::error::{Error, Subject};

impl Session {
    /// Registers an agent, once: how long a lost daemon is waited for is not this call's to say.
    pub(crate) async fn register_agent_once(
        &self,
        request: v1::RegisterAgentRequest,
    ) -> Result<v1::RegisterAgentResponse, CallFailure> {
        let rpc = |_, request: v1::RegisterAgentRequest| {
            let mut client = self.agents.clone();
            async move { client.register_agent(request).await }
        };
        self.call_once(Subject::Agent, request, rpc).await
    }

    pub(crate) async fn register_agent(
        &self,
        request: v1::RegisterAgentRequest,
    ) -> Result<v1::RegisterAgentResponse, Error> {
        let once = || self.register_agent_once(request.clone());
        self.repeat(once).await.0
    }

    pub(crate) async fn unregister_agent(&self, name: &str) -> Result<v1::UnregisterAgentResponse, Error> {
        let rpc = |_, request: v1::UnregisterAgentRequest| {
            let mut client = self.agents.clone();
            async move { client.unregister_agent(request).await }
        };
        let request = v1::UnregisterAgentRequest {
            name: name.to_owned(),
        };
        self.call(Subject::Agent, request, rpc).await
    }

    pub(crate) async fn list_node_agents(&self) -> Result<v1::ListNodeAgentsResponse, Error> {
        let rpc = |_, request: v1::ListNodeAgentsRequest| {
            let mut client = self.agents.clone();
            async move { client.list_node_agents(request).await }
        };
        self.call(Subject::Node, v1::ListNodeAgentsRequest {}, rpc).await
    }

    pub(crate) async fn list_agent_programs(&self) -> Result<v1::ListAgentProgramsResponse, Error> {
        let rpc = |_, request: v1::ListAgentProgramsRequest| {
            let mut client = self.agents.clone();
            async move { client.list_agent_programs(request).await }
        };
        self.call(Subject::Node, v1::ListAgentProgramsRequest {}, rpc)
            .await
    }
}
