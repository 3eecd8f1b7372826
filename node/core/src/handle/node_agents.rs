//! The commands about the agents of this node: their cards, who is registered, and who has a skill.

use std::sync::Arc;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, AgentsPage};
use tokio::sync::watch;

use super::Engine;
use crate::{
    coordinator::CardUse,
    transaction::EngineError,
    types::{CallerKey, NodeAgent, RegisteredName, RegistrationAccess},
};

impl Engine {
    /// SetAgentCard of this caller.
    pub async fn set_card(
        &self,
        caller: CallerKey,
        connection: u64,
        card: AgentCard,
    ) -> Result<CardUse, EngineError> {
        self.call(move |core, now| core.set_card_of(now, caller, connection, card))
            .await
    }

    /// Registers an agent of this name (empty: that of its card), or gives it another card. `keeps_skills`: the skills of its
    /// last card stay beside those of this one. As it is registered now.
    pub async fn register_agent(
        &self,
        name: String,
        card: AgentCard,
        keeps_skills: bool,
        access: RegistrationAccess,
    ) -> Result<RegisteredName, EngineError> {
        self.call(move |core, now| core.register_agent(now, &name, card, keeps_skills, access))
            .await
    }

    /// Removes an agent; its tasks that have not ended fail. How many did.
    pub async fn remove_agent(&self, name: String) -> Result<usize, EngineError> {
        self.call(move |core, now| core.remove_agent(now, &name)).await
    }

    /// The agents of this node, the earliest registered first.
    pub async fn list_agents(&self) -> Result<Vec<NodeAgent>, EngineError> {
        self.call(|core, _| Ok(core.list_agents())).await
    }

    /// Whole cards of the agents of this node that are asked for, as many as one card holds. `peer`: who asks, and sees what it may
    /// use; `None`: this node itself.
    pub async fn agents_page(
        &self,
        wanted: AgentsPage,
        peer: Option<PeerId>,
    ) -> Result<AgentCard, EngineError> {
        self.call(move |core, _| Ok(core.agents_page(&wanted, peer)))
            .await
    }

    /// Whole cards of open agents of this node that are asked for, as many as one card holds.
    pub async fn public_agents_page(&self, wanted: AgentsPage) -> Result<AgentCard, EngineError> {
        self.call(move |core, _| Ok(core.public_agents_page(&wanted)))
            .await
    }

    /// Which of this node's agents other than the one on this connection have a skill, or had it a short time ago: None: none;
    /// else whether one that has it listens. `is_stranger`: open agents only.
    pub async fn local_agents_with(
        &self,
        skill: String,
        sender: Option<u64>,
        is_stranger: bool,
    ) -> Result<Option<bool>, EngineError> {
        self.call(move |core, _| Ok(core.local_agents_with(&skill, sender, is_stranger)))
            .await
    }

    /// The card of this node, as it is and as it changes.
    pub fn node_card(&self) -> watch::Receiver<Option<Arc<AgentCard>>> {
        self.parts.node_card.clone()
    }
}
