//! Which agents have a skill. PURE.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// The names of agents, by skill.
#[derive(Debug, Default)]
pub(super) struct SkillIndex(HashMap<String, BTreeSet<Arc<str>>>);

impl SkillIndex {
    /// The agents with this skill, by name.
    pub(super) fn agents(&self, skill: &str) -> impl Iterator<Item = &Arc<str>> + use<'_> {
        self.0.get(skill).into_iter().flatten()
    }

    /// Every agent that has a skill.
    pub(super) fn all_agents(&self) -> BTreeSet<Arc<str>> {
        self.0.values().flatten().cloned().collect()
    }

    pub(super) fn insert(&mut self, skill: &str, agent: &Arc<str>) {
        let agents = self.0.entry(skill.to_owned()).or_default();
        agents.insert(Arc::clone(agent));
    }

    pub(super) fn remove(&mut self, skill: &str, agent: &Arc<str>) {
        if let Some(agents) = self.0.get_mut(skill) {
            agents.remove(agent);
            if agents.is_empty() {
                self.0.remove(skill);
            }
        }
    }
}
