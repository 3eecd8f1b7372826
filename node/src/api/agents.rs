//! The agents of this node: their cards, and AgentService, by which they are registered, listed and removed.

use std::time::Duration;

use agentanycast_core::{NodeAgent as EngineAgent, ShownCard};
use agentanycast_identity::PeerId;
use agentanycast_proto::{
    card_agents::page_of_card,
    v1::{
        AgentCard, AgentsPage, GetPeerCardResponse, ListAgentProgramsRequest, ListAgentProgramsResponse,
        ListNodeAgentsRequest, ListNodeAgentsResponse, NodeAgent, RegisterAgentRequest,
        RegisterAgentResponse, ReportUnreadyRequest, ReportUnreadyResponse, SetAgentAccessRequest,
        SetAgentAccessResponse, UnregisterAgentRequest, UnregisterAgentResponse,
        agent_service_server::AgentService,
    },
};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::{
    Api, MAX_CARD,
    access::{asked_access, set_access, told_access},
    listen::CallerInfo,
    node_service::{ResponseStream, told_program},
    status_for_asker,
};

#[tonic::async_trait]
impl AgentService for Api {
    async fn register_agent(
        &self,
        request: Request<RegisterAgentRequest>,
    ) -> Result<Response<RegisterAgentResponse>, Status> {
        let RegisterAgentRequest {
            name,
            card,
            keep_skills,
            access,
        } = request.into_inner();
        let access = asked_access(access, self.default_access())?;
        let card = self.complete_card(card)?;
        let registered = self
            .engine()
            .register_agent(name, card, keep_skills, access)
            .await
            .map_err(|error| status_for_asker(&error))?;
        self.publish_card().await?;
        Ok(Response::new(RegisterAgentResponse {
            name: registered.name.to_string(),
            warnings: self.anycast().unfindable(),
            access: told_access(registered.access).into(),
            access_is_set: registered.access_is_set,
        }))
    }

    async fn set_agent_access(
        &self,
        request: Request<SetAgentAccessRequest>,
    ) -> Result<Response<SetAgentAccessResponse>, Status> {
        let SetAgentAccessRequest { name, access } = request.into_inner();
        let access = set_access(access)?;
        let set = self.engine().set_agent_access(name, access).await;
        let ended = set.map_err(|error| status_for_asker(&error))?;
        self.publish_card().await?;
        Ok(Response::new(SetAgentAccessResponse {
            ended_tasks: u32::try_from(ended).unwrap_or(u32::MAX),
        }))
    }

    async fn unregister_agent(
        &self,
        request: Request<UnregisterAgentRequest>,
    ) -> Result<Response<UnregisterAgentResponse>, Status> {
        let removed = self.engine().remove_agent(request.into_inner().name).await;
        let failed = removed.map_err(|error| status_for_asker(&error))?;
        self.publish_card().await?;
        Ok(Response::new(UnregisterAgentResponse {
            failed_tasks: u32::try_from(failed).unwrap_or(u32::MAX),
        }))
    }

    async fn list_node_agents(
        &self,
        _: Request<ListNodeAgentsRequest>,
    ) -> Result<Response<ListNodeAgentsResponse>, Status> {
        let agents = self.engine().list_agents().await;
        let agents = agents.map_err(|error| status_for_asker(&error))?;
        Ok(Response::new(ListNodeAgentsResponse {
            agents: agents.iter().map(node_agent).collect(),
        }))
    }

    async fn list_agent_programs(
        &self,
        _: Request<ListAgentProgramsRequest>,
    ) -> Result<Response<ListAgentProgramsResponse>, Status> {
        Ok(Response::new(ListAgentProgramsResponse {
            programs: self.programs().list(),
        }))
    }

    type ReportUnreadyStream = ResponseStream<ReportUnreadyResponse>;

    async fn report_unready(
        &self,
        request: Request<ReportUnreadyRequest>,
    ) -> Result<Response<Self::ReportUnreadyStream>, Status> {
        let pid = request
            .extensions()
            .get::<CallerInfo>()
            .map_or(0, |caller| caller.pid);
        let ReportUnreadyRequest {
            agent,
            program,
            reason,
        } = request.into_inner();
        if agent.is_empty() || reason.is_empty() {
            return Err(Status::invalid_argument(
                "the request needs an agent and a reason",
            ));
        }
        let listed = self.programs().unready(agent, told_program(program, pid), reason);
        let mut engine_runs = self.engine().node_card();
        Ok(Response::new(Box::pin(async_stream::try_stream! {
            let _listed = listed;
            yield ReportUnreadyResponse {};
            while engine_runs.changed().await.is_ok() {}
            Err(Status::unavailable(agentanycast_proto::STOPPING))?;
        })))
    }
}

/// How long a peer may take to show the cards of its agents.
const AGENTS_WAIT: Duration = Duration::from_secs(10);

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

impl Api {
    /// GetPeerCard of some agents of a node.
    pub(super) async fn agents_page(
        &self,
        peer: PeerId,
        wanted: AgentsPage,
        public: bool,
    ) -> Result<Response<GetPeerCardResponse>, Status> {
        let page = if peer == self.engine().me() {
            let page = if public {
                self.engine().public_agents_page(wanted).await
            } else {
                self.engine().agents_page(wanted, None).await
            };
            page.map_err(|error| status_for_asker(&error))?
        } else {
            let (card, _) = self
                .engine()
                .card_of(peer)
                .await
                .map_err(|error| status_for_asker(&error))?;
            let whole = |card: AgentCard| page_of_card(&card, &wanted);
            // A node that has said all on its card need not know the question.
            match card.filter(|card| card.agents_total == 0).map(whole) {
                Some(page) => page,
                None => self.fetch_agents(peer, wanted.clone()).await?,
            }
        };
        Ok(Response::new(GetPeerCardResponse {
            card: Some(page),
            ..GetPeerCardResponse::default()
        }))
    }

    async fn fetch_agents(&self, peer: PeerId, wanted: AgentsPage) -> Result<AgentCard, Status> {
        let fetched = tokio::time::timeout(AGENTS_WAIT, self.net().fetch_agents(peer, wanted)).await;
        match fetched {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => Err(Status::unavailable(format!(
                "{peer} cannot be asked for the cards of its agents: {error}"
            ))),
            Err(_) => Err(Status::unavailable(format!(
                "{peer} did not show the cards of its agents within {} s",
                AGENTS_WAIT.as_secs()
            ))),
        }
    }

    /// A card that a caller gives, with what this node says of itself.
    pub(super) fn complete_card(&self, card: Option<AgentCard>) -> Result<AgentCard, Status> {
        let mut card = card.ok_or_else(|| Status::invalid_argument("the request has no card"))?;
        let given = card.p2p_extension.take().unwrap_or_default();
        let mut ours = self.p2p_extension();
        for credential in given.verifiable_credentials {
            if !ours.verifiable_credentials.contains(&credential) {
                ours.verifiable_credentials.push(credential);
            }
        }
        card.p2p_extension = Some(ours);
        // Those of a node with several agents are its own to say.
        (card.agents, card.agents_total) = (Vec::new(), 0);
        card.agent.clear();
        if card.encoded_len() > MAX_CARD {
            return Err(Status::invalid_argument(format!(
                "the card has {} bytes, a card may have {MAX_CARD}; shorten its descriptions or schemas",
                card.encoded_len()
            )));
        }
        Ok(card)
    }

    /// Shows peers and registries the card of this node as it is now. Returns when the registries that can be reached know,
    /// after 2 s at the latest.
    pub(super) async fn publish_card(&self) -> Result<(), Status> {
        let shown = self.engine().shown_card().await;
        let shown = shown.map_err(|error| status_for_asker(&error))?;
        let public = shown.public.as_deref().cloned();
        let has_private = shown.has_private;
        self.anycast().set_own_card(shown.own.clone());
        self.set_published(shown);
        tokio::join!(
            self.net().set_cards(public.clone(), has_private),
            self.anycast().set_card(public)
        );
        Ok(())
    }

    /// Publishes the card whenever it is another without a call: an agent came or went, or was forgotten. Ends with the
    /// engine.
    pub(crate) async fn publish_changes(self) {
        /// Agents that come and go together are one change.
        const SETTLE: std::time::Duration = std::time::Duration::from_millis(200);
        let mut changes = self.engine().node_card();
        while changes.changed().await.is_ok() {
            tokio::time::sleep(SETTLE).await;
            changes.mark_unchanged();
            self.publish_if_changed().await;
        }
    }

    /// Publishes the card if it is another than the one that was published.
    pub(super) async fn publish_if_changed(&self) {
        let shown = self.engine().shown_card().await;
        let published = match shown {
            Ok(shown) if self.is_published(&shown) => return,
            Ok(_) => self.publish_card().await,
            Err(error) => Err(status_for_asker(&error)),
        };
        if let Err(error) = published {
            tracing::warn!(%error, "the card of this node could not be published");
        }
    }

    fn set_published(&self, shown: ShownCard) {
        *self.published_card() = Some(shown);
    }

    /// Whether everybody has seen what they may see.
    fn is_published(&self, shown: &ShownCard) -> bool {
        self.published_card().as_ref() == Some(shown)
    }
}
