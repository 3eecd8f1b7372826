//! The agents of this node: they are registered, listed and removed.

use agentanycast_core::NodeAgent as EngineAgent;
use agentanycast_proto::v1::{
    ListNodeAgentsRequest, ListNodeAgentsResponse, NodeAgent, RegisterAgentRequest, RegisterAgentResponse,
    ReportUnreadyRequest, ReportUnreadyResponse, SetAgentAccessRequest, SetAgentAccessResponse,
    UnregisterAgentRequest, UnregisterAgentResponse,
};
use futures::Stream;

use super::{
    Caller, Service, ServiceError, ServiceResult,
    access::{asked_access, set_access, told_access},
};

impl Service {
    pub(crate) async fn register_agent(
        &self,
        request: RegisterAgentRequest,
    ) -> ServiceResult<RegisterAgentResponse> {
        let access = asked_access(request.access, self.node.limits.default_access)?;
        let card = self.complete_card(request.card)?;
        let registered = self
            .engine()
            .register_agent(request.name, card, request.keep_skills, access)
            .await?;
        self.publish_card().await?;
        Ok(RegisterAgentResponse {
            name: registered.name.to_string(),
            warnings: self.anycast().unfindable(),
            access: told_access(registered.access).into(),
            access_is_set: registered.access_is_set,
        })
    }

    pub(crate) async fn set_agent_access(
        &self,
        request: SetAgentAccessRequest,
    ) -> ServiceResult<SetAgentAccessResponse> {
        let SetAgentAccessRequest { name, access } = request;
        let access = set_access(access)?;
        let ended = self.engine().set_agent_access(name, access).await?;
        self.publish_card().await?;
        Ok(SetAgentAccessResponse {
            ended_tasks: u32::try_from(ended).unwrap_or(u32::MAX),
        })
    }

    pub(crate) async fn unregister_agent(
        &self,
        request: UnregisterAgentRequest,
    ) -> ServiceResult<UnregisterAgentResponse> {
        let failed = self.engine().remove_agent(request.name).await?;
        self.publish_card().await?;
        Ok(UnregisterAgentResponse {
            failed_tasks: u32::try_from(failed).unwrap_or(u32::MAX),
        })
    }

    pub(crate) async fn list_node_agents(
        &self,
        _: ListNodeAgentsRequest,
    ) -> ServiceResult<ListNodeAgentsResponse> {
        let agents = self.engine().list_agents().await?;
        Ok(ListNodeAgentsResponse {
            agents: agents.iter().map(node_agent).collect(),
        })
    }

    /// Lists the program that serves an agent as not ready, until the stream is dropped.
    pub(crate) fn report_unready(
        &self,
        request: ReportUnreadyRequest,
        caller: &Caller,
    ) -> ServiceResult<impl Stream<Item = ServiceResult<ReportUnreadyResponse>> + Send + use<>> {
        let (agent, reason) = (request.agent, request.reason);
        if agent.is_empty() || reason.is_empty() {
            return Err(ServiceError::invalid("the request needs an agent and a reason"));
        }
        let listed = self
            .programs()
            .unready(agent, caller.program(request.program), reason);
        let mut engine_runs = self.engine().node_card();
        Ok(async_stream::try_stream! {
            let _listed = listed;
            yield ReportUnreadyResponse {};
            while engine_runs.changed().await.is_ok() {}
            Err(ServiceError::stopping())?;
        })
    }
}

fn node_agent(agent: &EngineAgent) -> NodeAgent {
    NodeAgent {
        name: agent.name.to_string(),
        card: Some((*agent.card).clone()),
        primary: agent.is_primary,
        listeners: u32::try_from(agent.listeners).unwrap_or(u32::MAX),
        open_tasks: u32::try_from(agent.open_tasks).unwrap_or(u32::MAX),
        last_attached_at: (agent.last_attached > 0)
            .then(|| agentanycast_core::wire::timestamp(agent.last_attached)),
        by_card: agent.origin == agentanycast_core::AgentOrigin::Card,
        access: told_access(agent.access).into(),
        access_is_set: agent.access_is_set,
    }
}
