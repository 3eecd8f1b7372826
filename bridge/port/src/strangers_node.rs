//! The node as a stranger may see it: of its own agents the open ones alone. Cards of other nodes, and tasks, are as for all.
//!
//! Invariant: what the node itself does not show as public is in no card, list or answer of a search.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_proto::{
    card_agents::{agent_names, agents_by_skill},
    v1,
};
use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::{ErrorKind, Gateway, GatewayError, NewTask, TaskHandle, TaskListing, TaskQuery};

/// A node before a stranger.
pub struct StrangersNode(Arc<dyn Gateway>);

impl StrangersNode {
    /// Of this node.
    pub fn new(node: Arc<dyn Gateway>) -> Self {
        Self(node)
    }

    /// What the node shows of itself; `None`: it has no open agent.
    async fn own(&self) -> Result<Option<PublicNode>, GatewayError> {
        let me = self.0.peer_id().await?;
        match self.0.public_card(&me, None).await {
            Ok(card) => Ok(Some(PublicNode(card))),
            Err(error) if error.kind() == ErrorKind::AgentNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The node's own card with its open agents.
struct PublicNode(v1::AgentCard);

impl PublicNode {
    fn has_skill(&self, id: &str) -> bool {
        self.0.skills.iter().any(|skill| skill.id == id)
    }

    fn has_agent(&self, name: &str) -> bool {
        agent_names(&self.0).iter().any(|known| known == name)
    }

    /// The agent that has a skill, as lists of the whole node name it: by its name.
    fn agent_with(&self, skill: &str) -> Option<String> {
        if self.0.agents.is_empty() {
            return agent_names(&self.0).pop();
        }
        agents_by_skill(&self.0).get(skill).map(|name| (*name).to_owned())
    }

    /// An agent of the node, as far as it is public.
    fn listed(&self, mut agent: v1::ListedAgent) -> Option<v1::ListedAgent> {
        if agent.agent.is_empty() {
            // It stands for the whole node.
            agent.name.clone_from(&self.0.name);
            agent.description.clone_from(&self.0.description);
            agent.skills.retain(|skill| self.has_skill(&skill.skill_id));
            return Some(agent);
        }
        self.has_agent(&agent.agent).then_some(agent)
    }

    /// A find of a search for this skill, as far as it is public.
    fn discovered(&self, skill: &str, mut found: v1::DiscoveredAgent) -> Option<v1::DiscoveredAgent> {
        if !self.has_skill(skill) {
            return None;
        }
        found.agent_name.clone_from(&self.0.name);
        found.agent_description.clone_from(&self.0.description);
        found.skills.retain(|known| self.has_skill(&known.skill_id));
        for known in found.skills.iter_mut().filter(|known| !known.agent.is_empty()) {
            known.agent = self.agent_with(&known.skill_id).unwrap_or_default();
        }
        if !found.agent.is_empty() {
            found.agent = self.agent_with(skill).unwrap_or_default();
        }
        Some(found)
    }
}

#[async_trait]
impl Gateway for StrangersNode {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        self.0.peer_id().await
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        self.0.did_web().await
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        self.0.send(outgoing).await
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        self.0.task(id)
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        self.0.list(listing).await
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        self.0.public_card(peer, None).await
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.0.public_card(peer, Some(wanted)).await
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.0.public_card(peer, wanted).await
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        self.0.has_listener().await
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError> {
        self.0.put_note(task, note, if_version).await
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.0.delete_note(task, name).await
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        self.0.notes(task).await
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        self.0.watch_notes()
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        let listed = self.0.agents(skill).await?;
        if !listed.iter().any(|agent| agent.own) {
            return Ok(listed);
        }
        let own = self.own().await?;
        let is_wanted = |agent: &v1::ListedAgent| {
            skill.is_none_or(|skill| agent.skills.iter().any(|known| known.skill_id == skill))
        };
        let shown = listed.into_iter().filter_map(|agent| {
            if !agent.own {
                return Some(agent);
            }
            own.as_ref()?.listed(agent).filter(is_wanted)
        });
        Ok(shown.collect())
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        let me = self.0.peer_id().await?;
        let found = self.0.discover(skill, tags, limit).await?;
        if !found.iter().any(|agent| agent.peer_id == me) {
            return Ok(found);
        }
        let own = self.own().await?;
        let shown = found.into_iter().filter_map(|agent| {
            if agent.peer_id != me {
                return Some(agent);
            }
            own.as_ref()?.discovered(skill, agent)
        });
        Ok(shown.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(agent: &str, skills: &[&str]) -> v1::AgentCard {
        let skill = |id: &&str| v1::Skill {
            id: (*id).to_owned(),
            ..v1::Skill::default()
        };
        v1::AgentCard {
            name: agent.to_owned(),
            agent: agent.to_owned(),
            skills: skills.iter().map(skill).collect(),
            ..v1::AgentCard::default()
        }
    }

    fn infos(skills: &[(&str, &str)]) -> Vec<v1::SkillInfo> {
        let info = |(id, agent): &(&str, &str)| v1::SkillInfo {
            skill_id: (*id).to_owned(),
            agent: (*agent).to_owned(),
            ..v1::SkillInfo::default()
        };
        skills.iter().map(info).collect()
    }

    fn listed(agent: &str, skills: &[(&str, &str)]) -> v1::ListedAgent {
        v1::ListedAgent {
            name: format!("Name of {agent}"),
            agent: agent.to_owned(),
            skills: infos(skills),
            own: true,
            ..v1::ListedAgent::default()
        }
    }

    #[test]
    fn a_list_has_the_open_agents_alone() {
        let one = PublicNode(card("open", &["a"]));
        let two = PublicNode(v1::AgentCard {
            agents: vec![card("open", &["a"]), card("wide", &["b"])],
            ..card("open", &["a", "b"])
        });
        for node in [&one, &two] {
            assert!(node.listed(listed("open", &[("a", "open")])).is_some());
            assert!(node.listed(listed("secret", &[("c", "secret")])).is_none());
        }
        assert!(one.listed(listed("wide", &[])).is_none());
        let whole = one.listed(listed("", &[("a", ""), ("c", "")])).unwrap();
        assert_eq!((whole.name.as_str(), whole.skills), ("open", infos(&[("a", "")])));
    }

    #[test]
    fn a_search_finds_the_open_agent_of_a_skill() {
        let found = || v1::DiscoveredAgent {
            agent_name: "Secret".to_owned(),
            agent: "secret".to_owned(),
            skills: infos(&[("a", "secret"), ("c", "secret")]),
            ..v1::DiscoveredAgent::default()
        };
        let one = PublicNode(card("open", &["a"]));
        let two = PublicNode(v1::AgentCard {
            agents: vec![card("wide", &["b"]), card("open", &["a"])],
            ..card("wide", &["b", "a"])
        });
        for node in [&one, &two] {
            let shown = node.discovered("a", found()).unwrap();
            assert_eq!((shown.agent.as_str(), &shown.agent_name), ("open", &node.0.name));
            assert_eq!(shown.skills, infos(&[("a", "open")]));
            assert_eq!(node.discovered("c", found()), None);
        }
    }
}
