//! The calls about the agents of the node and the programs that serve them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentanycast_proto::v1;

use super::{CallFailure, Session};
use crate::{
    agent_access::AgentAccess,
    error::{Error, Subject},
};

/// How the agents of this process were registered last, by name.
#[derive(Debug, Default)]
pub(super) struct Registrations(Mutex<HashMap<String, v1::RegisterAgentRequest>>);

/// No access is said.
const UNSAID: i32 = v1::AgentAccess::Unspecified as i32;

/// The first access, or the second one where that says nothing.
fn said_or(access: i32, otherwise: i32) -> i32 {
    if access == UNSAID { otherwise } else { access }
}

impl Registrations {
    /// A registration that says nothing of the access keeps that of the last one, as the daemon does.
    fn put(&self, name: &str, request: v1::RegisterAgentRequest) {
        let mut all = self.all();
        let before = all.get(name).map_or(UNSAID, |before| before.access);
        let request = v1::RegisterAgentRequest {
            name: name.to_owned(),
            access: said_or(request.access, before),
            ..request
        };
        all.insert(name.to_owned(), request);
    }

    fn get(&self, name: &str) -> Option<v1::RegisterAgentRequest> {
        self.all().get(name).cloned()
    }

    fn remove(&self, name: &str) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, v1::RegisterAgentRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        let asked = request.access;
        let answer = self.call_once(Subject::Agent, request, rpc).await?;
        AgentAccess::check_asked(asked, &answer).map_err(CallFailure::Answered)?;
        Ok(answer)
    }

    pub(crate) async fn register_agent(
        &self,
        request: v1::RegisterAgentRequest,
    ) -> Result<v1::RegisterAgentResponse, Error> {
        let once = || self.register_agent_once(request.clone());
        let answer = self.repeat(once).await.0?;
        self.registrations.put(&answer.name, request);
        Ok(answer)
    }

    /// As the agent of this registration is to be registered on a new connection: with the card that was set last, and the access
    /// that was said last.
    pub(crate) fn current_registration(&self, served: &v1::RegisterAgentRequest) -> v1::RegisterAgentRequest {
        let mut current = self
            .registrations
            .get(&served.name)
            .unwrap_or_else(|| served.clone());
        current.access = said_or(current.access, served.access);
        current
    }

    pub(crate) async fn unregister_agent(&self, name: &str) -> Result<v1::UnregisterAgentResponse, Error> {
        let rpc = |_, request: v1::UnregisterAgentRequest| {
            let mut client = self.agents.clone();
            async move { client.unregister_agent(request).await }
        };
        let request = v1::UnregisterAgentRequest {
            name: name.to_owned(),
        };
        self.registrations.remove(name);
        self.call(Subject::Agent, request, rpc).await
    }

    pub(crate) async fn list_node_agents(&self) -> Result<v1::ListNodeAgentsResponse, Error> {
        let rpc = |_, request: v1::ListNodeAgentsRequest| {
            let mut client = self.agents.clone();
            async move { client.list_node_agents(request).await }
        };
        self.call(Subject::Node, v1::ListNodeAgentsRequest {}, rpc).await
    }

    /// Says that a program takes no tasks, for as long as the answer is read.
    pub(crate) async fn report_unready_once(
        &self,
        request: v1::ReportUnreadyRequest,
    ) -> Result<tonic::Streaming<v1::ReportUnreadyResponse>, CallFailure> {
        let rpc = |_, request: v1::ReportUnreadyRequest| {
            let mut client = self.agents.clone();
            async move { client.report_unready(request).await }
        };
        self.call_once(Subject::Agent, request, rpc).await
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
