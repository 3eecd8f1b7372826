//! The index: which set of places belongs to a skill, and which to a tag of a skill.
//!
//! PURE. A set has a number, so that an entry keeps the numbers of its sets and a heartbeat moves it in each
//! of them without looking any name up. A set without entries is gone, with its name.

use std::collections::{BTreeSet, HashMap};

use agentanycast_proto::v1::SkillInfo;

use super::places::{Place, Places};

/// Number of a set.
pub(super) type SetId = u32;

/// All sets.
#[derive(Debug, Default)]
pub(super) struct Names {
    skills: HashMap<Box<str>, Skill>,
    sets: Vec<Set>,
    free: Vec<SetId>,
    local_skills: usize,
    federated_skills: usize,
}

#[derive(Debug)]
struct Skill {
    all: SetId,
    /// By tag, then by its value.
    tags: HashMap<Box<str>, HashMap<Box<str>, SetId>>,
}

#[derive(Debug, Default)]
struct Set {
    places: Places,
    skill: Box<str>,
    tag: Option<(Box<str>, Box<str>)>,
    local: u32,
    federated: u32,
}

impl Names {
    /// The sets that an agent with these skills stands in, made where they are not there yet.
    pub(super) fn sets_of(&mut self, skills: &[SkillInfo]) -> Box<[SetId]> {
        let mut sets = BTreeSet::new();
        for skill in skills {
            sets.insert(self.skill_set(&skill.skill_id));
            for (tag, value) in &skill.tags {
                sets.insert(self.tag_set(&skill.skill_id, tag, value));
            }
        }
        sets.into_iter().collect()
    }

    /// Moves an entry from its old sets and place to its new ones; none where it comes or goes. What stands
    /// in both is never empty meanwhile, so that no set is forgotten that is still needed.
    pub(super) fn replace(&mut self, old: Option<(&[SetId], Place)>, new: Option<(&[SetId], Place)>) {
        let (old_sets, new_sets) = (old.map_or(&[][..], |old| old.0), new.map_or(&[][..], |new| new.0));
        if let Some((_, to)) = new {
            for id in new_sets {
                match old {
                    Some((sets, from)) if sets.binary_search(id).is_ok() => {
                        if from != to {
                            let places = &mut self.sets[*id as usize].places;
                            places.remove(from);
                            places.insert(to);
                        }
                    }
                    _ => self.insert(*id, to),
                }
            }
        }
        if let Some((_, from)) = old {
            let gone = old_sets.iter().filter(|id| new_sets.binary_search(id).is_err());
            for id in gone.clone() {
                self.remove(*id, from);
            }
            for id in gone {
                if self.sets[*id as usize].places.is_empty() {
                    self.forget(*id);
                }
            }
        }
    }

    fn insert(&mut self, id: SetId, place: Place) {
        self.sets[id as usize].places.insert(place);
        self.count(id, place, |count| *count += 1);
    }

    fn remove(&mut self, id: SetId, place: Place) {
        self.sets[id as usize].places.remove(place);
        self.count(id, place, |count| *count = count.saturating_sub(1));
    }

    /// Counts the entries of a set, and with the first or last one the skill.
    fn count(&mut self, id: SetId, place: Place, step: impl FnOnce(&mut u32)) {
        let set = &mut self.sets[id as usize];
        let (entries, skills) = if place.class.is_federated() {
            (&mut set.federated, &mut self.federated_skills)
        } else {
            (&mut set.local, &mut self.local_skills)
        };
        let before = *entries;
        step(entries);
        if set.tag.is_none() {
            *skills = (*skills + usize::from(*entries > 0)) - usize::from(before > 0);
        }
    }

    /// The smallest set that holds all agents with the skill and tags, and the other sets that they are in.
    pub(super) fn find<'a>(
        &'a self,
        skill: &str,
        tags: impl Iterator<Item = (&'a String, &'a String)>,
    ) -> Option<(&'a Places, Vec<SetId>)> {
        let skill = self.skills.get(skill)?;
        let mut sets = Vec::new();
        for (tag, value) in tags {
            sets.push(*skill.tags.get(tag.as_str())?.get(value.as_str())?);
        }
        let smallest = sets
            .iter()
            .copied()
            .min_by_key(|id| self.sets[*id as usize].places.len());
        let smallest = smallest.unwrap_or(skill.all);
        sets.retain(|id| *id != smallest);
        Some((&self.sets[smallest as usize].places, sets))
    }

    /// Number of skills that entries registered here have, and that entries of other relays have.
    pub(super) fn skill_counts(&self) -> (usize, usize) {
        (self.local_skills, self.federated_skills)
    }

    fn skill_set(&mut self, skill: &str) -> SetId {
        if let Some(known) = self.skills.get(skill) {
            return known.all;
        }
        let all = self.new_set(skill, None);
        let tags = HashMap::new();
        self.skills.insert(skill.into(), Skill { all, tags });
        all
    }

    fn tag_set(&mut self, skill: &str, tag: &str, value: &str) -> SetId {
        let known = self
            .skills
            .get(skill)
            .and_then(|skill| skill.tags.get(tag)?.get(value));
        if let Some(known) = known {
            return *known;
        }
        let id = self.new_set(skill, Some((tag.into(), value.into())));
        if let Some(skill) = self.skills.get_mut(skill) {
            skill.tags.entry(tag.into()).or_default().insert(value.into(), id);
        }
        id
    }

    fn new_set(&mut self, skill: &str, tag: Option<(Box<str>, Box<str>)>) -> SetId {
        let set = Set {
            skill: skill.into(),
            tag,
            ..Set::default()
        };
        if let Some(id) = self.free.pop() {
            self.sets[id as usize] = set;
            return id;
        }
        self.sets.push(set);
        (self.sets.len() - 1) as SetId
    }

    /// Forgets an empty set. A skill's own set holds all agents that the sets of its tags hold, so these are
    /// empty before it is, and forgotten in the same go.
    fn forget(&mut self, id: SetId) {
        let set = std::mem::take(&mut self.sets[id as usize]);
        self.free.push(id);
        let Some((tag, value)) = set.tag else {
            self.skills.remove(&set.skill);
            return;
        };
        let Some(skill) = self.skills.get_mut(&set.skill) else {
            return;
        };
        if let Some(values) = skill.tags.get_mut(&tag) {
            values.remove(&value);
            if values.is_empty() {
                skill.tags.remove(&tag);
            }
        }
    }
}
