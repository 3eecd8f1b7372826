//! The cards that this node shows: to itself with all its agents, to everybody with those that are open, and to a peer with
//! the private ones too that it may use.

use std::sync::{Arc, OnceLock};

use agentanycast_proto::v1::{AgentCard, AgentsPage};

use super::{
    Agents, RegisteredAgent,
    node_card::{self, CardOfAgent},
};
use crate::policy::grants::UsableSkills;

/// The cards as they were made last.
#[derive(Debug, Default)]
pub(super) struct ShownCards {
    /// With all agents.
    own: OnceLock<Option<Arc<AgentCard>>>,
    /// With those that are open.
    public: OnceLock<Option<Arc<AgentCard>>>,
}

impl ShownCards {
    /// They are made anew when they are wanted.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// An agent as somebody sees it.
struct SeenAgent<'a> {
    name: &'a Arc<str>,
    agent: &'a RegisteredAgent,
    card: Arc<AgentCard>,
}

impl SeenAgent<'_> {
    fn on_card(&self) -> CardOfAgent<'_> {
        CardOfAgent {
            name: self.name,
            card: &self.card,
        }
    }
}

impl Agents {
    /// The card of the node with all its agents; None: none is registered.
    pub(crate) fn node_card(&self, is_attached: impl Fn(Option<&str>) -> bool) -> Option<Arc<AgentCard>> {
        let made = || self.made_card(is_attached, |_, _| UsableSkills::All);
        self.shown.own.get_or_init(made).clone()
    }

    /// The card of the node with its open agents; None: there is none.
    pub(crate) fn public_card(&self, is_attached: impl Fn(Option<&str>) -> bool) -> Option<Arc<AgentCard>> {
        if !self.has_private() {
            return self.node_card(is_attached);
        }
        let made = || self.made_card(is_attached, |_, _| UsableSkills::None);
        self.shown.public.get_or_init(made).clone()
    }

    /// The card of the node for somebody who may use these skills of private agents; None: there is no agent for it.
    pub(crate) fn card_for(
        &self,
        is_attached: impl Fn(Option<&str>) -> bool,
        usable: impl FnMut(&str, &AgentCard) -> UsableSkills,
    ) -> Option<Arc<AgentCard>> {
        if !self.has_private() {
            return self.node_card(is_attached);
        }
        self.made_card(is_attached, usable)
    }

    /// Whole cards of the agents that are asked for, as many as one card holds, for somebody who may use these skills of private
    /// agents.
    pub(crate) fn page(
        &self,
        wanted: &AgentsPage,
        usable: impl FnMut(&str, &AgentCard) -> UsableSkills,
    ) -> AgentCard {
        let seen = self.seen(usable);
        let agents: Vec<CardOfAgent<'_>> = seen.iter().map(SeenAgent::on_card).collect();
        node_card::page_of_agents(&agents, wanted)
    }

    /// The agents, by name.
    fn seen(&self, mut usable: impl FnMut(&str, &AgentCard) -> UsableSkills) -> Vec<SeenAgent<'_>> {
        let all = self.by_name.iter();
        let seen = all.filter_map(|(name, agent)| {
            let usable = if agent.access.is_private() {
                usable(name, &agent.card)
            } else {
                UsableSkills::All
            };
            let card = match usable {
                UsableSkills::All => Arc::clone(&agent.card),
                UsableSkills::These(skills) => {
                    let mut card = (*agent.card).clone();
                    card.skills.retain(|skill| skills.contains(&skill.id));
                    Arc::new(card)
                }
                UsableSkills::None => return None,
            };
            Some(SeenAgent { name, agent, card })
        });
        seen.collect()
    }

    fn made_card(
        &self,
        is_attached: impl Fn(Option<&str>) -> bool,
        usable: impl FnMut(&str, &AgentCard) -> UsableSkills,
    ) -> Option<Arc<AgentCard>> {
        let mut seen = self.seen(usable);
        if seen.is_empty() {
            return None;
        }
        seen.sort_by_cached_key(|one| {
            (
                !is_attached(self.written_name(one.name).as_deref()),
                one.agent.number,
            )
        });
        let primary = seen.iter().find(|one| self.primary.as_ref() == Some(one.name));
        let cards: Vec<CardOfAgent<'_>> = seen.iter().map(SeenAgent::on_card).collect();
        let card = node_card::node_card(&cards, primary.map(|one| &*one.card), self.node_name.as_deref());
        Some(Arc::new(card))
    }
}
