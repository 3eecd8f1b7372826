//! Whole cards of the agents of a node, by pages: the opener of an exchange asks for some in the place of its card.

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, AgentsPage};
use bytes::Bytes;
use futures::future::BoxFuture;
use prost::Message as _;
use tokio::time::timeout;

use super::{CardExchange, ENGINE_TIMEOUT, offer, unsupported};
use crate::streams::{OpenError, Protocol};

/// Gives whole cards of the agents of this node that a peer asks for and may use; `None`: they cannot be had.
pub type AgentPages = Box<dyn Fn(PeerId, AgentsPage) -> BoxFuture<'static, Option<AgentCard>> + Send + Sync>;

impl CardExchange {
    /// Whole cards of the agents of `peer` that are asked for: a card with `agents` and `agents_total` alone.
    pub(crate) async fn fetch_agents(
        &self,
        peer: PeerId,
        wanted: AgentsPage,
    ) -> Result<AgentCard, OpenError> {
        let mut opened = self.control.open(peer.into(), Protocol::Card).await?;
        let request = AgentCard {
            agents_page: Some(wanted),
            ..AgentCard::default()
        };
        let answered = offer(&mut opened.stream, Some(request.encode_to_vec().into())).await;
        let bytes = answered.map_err(unsupported)?.unwrap_or_default();
        let page = self.answered_card(peer, &bytes)?;
        Ok(AgentCard {
            agents: page.agents,
            agents_total: page.agents_total,
            ..AgentCard::default()
        })
    }

    /// From now on this gives the cards of this node's agents. The first one stays.
    pub(crate) fn show_agents(&self, pages: AgentPages) {
        let _ = self.agent_pages.set(pages);
    }

    /// The answer to a peer that asks for agents of this node.
    pub(super) async fn page_of(&self, peer: PeerId, wanted: AgentsPage) -> Option<Bytes> {
        let pages = self.agent_pages.get()?;
        let page = timeout(ENGINE_TIMEOUT, pages(peer, wanted)).await.ok()??;
        Some(page.encode_to_vec().into())
    }
}
