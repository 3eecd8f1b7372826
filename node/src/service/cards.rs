//! Cards: that of this node, as it is set and published, and those of peers.

use std::{
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use agentanycast_core::ShownCard;
use agentanycast_identity::PeerId;
use agentanycast_proto::{
    card_agents::page_of_card,
    v1::{
        AgentCard, AgentsPage, GetPeerCardRequest, GetPeerCardResponse, P2pExtension, SetAgentCardRequest,
        SetAgentCardResponse,
    },
};
use prost::Message as _;

use super::{Caller, Service, ServiceError, ServiceResult, peer_of};

/// Largest card, in bytes (docs/protocol.md, "Agent cards").
const MAX_CARD: usize = 256 << 10;

/// How long GetPeerCard waits for a card that it has to fetch.
const FETCH_WAIT: Duration = Duration::from_secs(5);

/// How long a peer may take to show the cards of its agents.
const AGENTS_WAIT: Duration = Duration::from_secs(10);

impl Service {
    /// The card of the agent that is not registered.
    pub(crate) async fn set_agent_card(
        &self,
        request: SetAgentCardRequest,
        caller: &Caller,
    ) -> ServiceResult<SetAgentCardResponse> {
        let card = self.complete_card(request.card)?;
        let key = caller.key.clone();
        self.engine().set_card(key, caller.connection, card).await?;
        self.publish_card().await?;
        Ok(SetAgentCardResponse {
            warnings: self.anycast().unfindable(),
        })
    }

    pub(crate) async fn get_peer_card(
        &self,
        request: GetPeerCardRequest,
    ) -> ServiceResult<GetPeerCardResponse> {
        let (peer, public) = (peer_of(&request.peer_id)?, request.public);
        if let Some(wanted) = request.agents_page {
            return self.agents_page(peer, wanted, public).await;
        }
        let own = peer == self.engine().me();
        let (known, successor) = self.engine().card_of(peer).await?;
        let mut card = known;
        if own && public {
            let shown = self.engine().shown_card().await?;
            card = shown.public.as_deref().cloned();
        }
        if card.is_none()
            && self.net().is_connected(peer)
            && let Ok(Ok(Some(fetched))) = tokio::time::timeout(FETCH_WAIT, self.net().fetch_card(peer)).await
        {
            self.keep_card(peer, fetched.clone()).await?;
            card = Some(fetched);
        }
        let successor = (successor != peer).then(|| successor.to_string());
        let mut card = card.ok_or_else(|| {
            let since = successor
                .as_ref()
                .map(|successor| format!("; it has another key since, and is {successor}"));
            ServiceError::not_found(format!("no card of {peer} is known{}", since.unwrap_or_default()))
        })?;
        if own && let Some(extension) = &mut card.p2p_extension {
            // Where we are reached has changed since it was kept.
            let now = self.p2p_extension();
            extension.relay_addresses = now.relay_addresses;
            extension.supported_transports = now.supported_transports;
        }
        Ok(GetPeerCardResponse {
            card: Some(card),
            successor_peer_id: successor.unwrap_or_default(),
            warnings: if own {
                self.anycast().unfindable()
            } else {
                self.warnings_of(peer)
            },
        })
    }

    /// GetPeerCard of some agents of a node.
    async fn agents_page(
        &self,
        peer: PeerId,
        wanted: AgentsPage,
        public: bool,
    ) -> ServiceResult<GetPeerCardResponse> {
        let page = if peer == self.engine().me() {
            let page = if public {
                self.engine().public_agents_page(wanted).await
            } else {
                self.engine().agents_page(wanted, None).await
            };
            page?
        } else {
            let (card, _) = self.engine().card_of(peer).await?;
            let whole = |card: AgentCard| page_of_card(&card, &wanted);
            // A node that has said all on its card need not know the question.
            match card.filter(|card| card.agents_total == 0).map(whole) {
                Some(page) => page,
                None => self.fetch_agents(peer, wanted.clone()).await?,
            }
        };
        Ok(GetPeerCardResponse {
            card: Some(page),
            ..GetPeerCardResponse::default()
        })
    }

    /// What a sender of tasks to this peer should know.
    fn warnings_of(&self, peer: PeerId) -> Vec<String> {
        let doubles = self.net().duplicate_count(peer);
        let several =
            format!("{doubles} daemons run with the key of this peer, and its tasks go to any of them");
        if doubles > 1 { vec![several] } else { Vec::new() }
    }

    async fn fetch_agents(&self, peer: PeerId, wanted: AgentsPage) -> ServiceResult<AgentCard> {
        let fetched = tokio::time::timeout(AGENTS_WAIT, self.net().fetch_agents(peer, wanted)).await;
        match fetched {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) => Err(ServiceError::unavailable(format!(
                "{peer} cannot be asked for the cards of its agents: {error}"
            ))),
            Err(_) => Err(ServiceError::unavailable(format!(
                "{peer} did not show the cards of its agents within {} s",
                AGENTS_WAIT.as_secs()
            ))),
        }
    }

    /// A card that a caller gives, with what this node says of itself.
    pub(super) fn complete_card(&self, card: Option<AgentCard>) -> ServiceResult<AgentCard> {
        let mut card = card.ok_or_else(|| ServiceError::invalid("the request has no card"))?;
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
            return Err(ServiceError::invalid(format!(
                "the card has {} bytes, a card may have {MAX_CARD}; shorten its descriptions or schemas",
                card.encoded_len()
            )));
        }
        Ok(card)
    }

    pub(super) async fn keep_card(&self, peer: PeerId, card: AgentCard) -> ServiceResult<()> {
        Ok(self.engine().put_peer_card(peer, card).await?)
    }

    /// What this node says of itself in the local agent's card.
    fn p2p_extension(&self) -> P2pExtension {
        let reachable = self.net().reachable().borrow().clone();
        let addresses = &reachable.direct;
        let mut transports: Vec<String> = Vec::new();
        for (part, name) in [("/tcp/", "tcp"), ("/quic-v1", "quic-v1")] {
            if addresses.iter().any(|address| address.contains(part)) {
                transports.push(name.to_owned());
            }
        }
        let me = self.net().local_peer();
        let mut extension = P2pExtension {
            peer_id: me.to_string(),
            supported_transports: transports,
            relay_addresses: reachable
                .relayed
                .iter()
                .map(|circuit| format!("{circuit}/p2p/{me}"))
                .collect(),
            did_key: agentanycast_identity::did_key_of(me).unwrap_or_default(),
            ..P2pExtension::default()
        };
        self.net().own_identity().write(&mut extension);
        extension
    }

    /// Shows peers and registries the card of this node as it is now. Returns when the registries that can be reached know,
    /// after 2 s at the latest.
    pub(super) async fn publish_card(&self) -> ServiceResult<()> {
        let shown = self.engine().shown_card().await?;
        let public = shown.public.as_deref().cloned();
        let has_private = shown.has_private;
        self.anycast().set_own_card(shown.own.clone());
        *self.published_card() = Some(shown);
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
        const SETTLE: Duration = Duration::from_millis(200);
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
            // Everybody has seen what they may see.
            Ok(shown) if self.published_card().as_ref() == Some(&shown) => return,
            Ok(_) => self.publish_card().await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = published {
            tracing::warn!(%error, "the card of this node could not be published");
        }
    }

    fn published_card(&self) -> MutexGuard<'_, Option<ShownCard>> {
        self.node
            .published_card
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
