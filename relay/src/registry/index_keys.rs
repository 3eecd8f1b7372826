//! The index: which set of places belongs to a skill, which to a tag of a skill, and which to all the tags of one.
//!
//! PURE. A set has a number, so that an entry keeps the numbers of its sets and a heartbeat moves it in each
//! of them without looking any name up. A set without entries is gone, with its name.
//!
//! Who has several tags is in none of their sets alone, and two large sets may have nobody in common. But agents that
//! do the same mostly say the same of it: so those with all the same tags of a skill, a kind, have a set of their own,
//! and whoever asks for several tags is shown the kinds that have them all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use agentanycast_proto::v1::SkillInfo;

use super::index::{IndexPosition, PositionSet};

/// Number of a set.
pub(super) type SetId = u32;

/// Most kinds of a skill that are gone through for a question: more are no kinds, but agents that say each something
/// else.
pub(super) const MAX_KINDS: usize = 256;

/// Most kinds whose agents are put in one order for a question.
pub(super) const MAX_MERGED_KINDS: usize = 16;

/// Sets that an entry stands in for a skill with so many tags.
pub(super) fn sets_of_skill(tags: usize) -> usize {
    1 + tags + usize::from(tags > 1)
}

/// All sets.
#[derive(Debug, Default)]
pub(super) struct SkillIndex {
    skills: HashMap<Box<str>, SkillSets>,
    sets: Vec<KeyedSet>,
    free: Vec<SetId>,
    local_skills: usize,
    federated_skills: usize,
}

#[derive(Debug)]
struct SkillSets {
    all: SetId,
    /// By tag, then by its value.
    tags: HashMap<Box<str>, HashMap<Box<str>, SetId>>,
    /// Of those with two tags at least: by the sets of their tags, in ascending order.
    kinds: BTreeMap<Box<[SetId]>, SetId>,
}

#[derive(Debug, Default)]
struct KeyedSet {
    positions: PositionSet,
    skill: Box<str>,
    key: SetKey,
    local: u32,
    federated: u32,
}

/// Whom of a skill a set has.
#[derive(Debug, Default)]
enum SetKey {
    #[default]
    All,
    Tag(Box<str>, Box<str>),
    Kind(Box<[SetId]>),
}

/// Where those stand who are asked for; nowhere by default.
#[derive(Debug, Default)]
pub(super) struct SearchCandidates<'a> {
    /// Everybody who matches is in one of these.
    pub(super) sets: Vec<&'a PositionSet>,
    /// Who is in each of these matches.
    pub(super) matching: Vec<SetId>,
    /// Whoever is among them matches.
    pub(super) exact: bool,
}

impl SkillIndex {
    /// The sets that an agent with these skills stands in, made where they are not there yet.
    pub(super) fn sets_of(&mut self, skills: &[SkillInfo]) -> Box<[SetId]> {
        let mut sets = BTreeSet::new();
        for skill in skills {
            sets.insert(self.skill_set(&skill.skill_id));
            let tags: BTreeSet<SetId> = skill
                .tags
                .iter()
                .map(|(tag, value)| self.tag_set(&skill.skill_id, tag, value))
                .collect();
            if tags.len() > 1 {
                sets.insert(self.kind_set(&skill.skill_id, tags.iter().copied().collect()));
            }
            sets.extend(tags);
        }
        sets.into_iter().collect()
    }

    /// Moves an entry from its old sets and place to its new ones; none where it comes or goes. What stands
    /// in both is never empty meanwhile, so that no set is forgotten that is still needed.
    pub(super) fn replace(
        &mut self,
        old: Option<(&[SetId], IndexPosition)>,
        new: Option<(&[SetId], IndexPosition)>,
    ) {
        let (old_sets, new_sets) = (old.map_or(&[][..], |old| old.0), new.map_or(&[][..], |new| new.0));
        if let Some((_, to)) = new {
            for id in new_sets {
                match old {
                    Some((sets, from)) if sets.binary_search(id).is_ok() => {
                        if from != to {
                            let places = &mut self.sets[*id as usize].positions;
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
                if self.sets[*id as usize].positions.is_empty() {
                    self.forget(*id);
                }
            }
        }
    }

    fn insert(&mut self, id: SetId, place: IndexPosition) {
        self.sets[id as usize].positions.insert(place);
        self.count(id, place, |count| *count += 1);
    }

    fn remove(&mut self, id: SetId, place: IndexPosition) {
        self.sets[id as usize].positions.remove(place);
        self.count(id, place, |count| *count = count.saturating_sub(1));
    }

    /// Counts the entries of a set, and with the first or last one the skill.
    fn count(&mut self, id: SetId, place: IndexPosition, step: impl FnOnce(&mut u32)) {
        let set = &mut self.sets[id as usize];
        let (entries, skills) = if place.class.is_federated() {
            (&mut set.federated, &mut self.federated_skills)
        } else {
            (&mut set.local, &mut self.local_skills)
        };
        let before = *entries;
        step(entries);
        if matches!(set.key, SetKey::All) {
            *skills = (*skills + usize::from(*entries > 0)) - usize::from(before > 0);
        }
    }

    /// Where those stand who have the skill and these tags; None where nobody does.
    pub(super) fn find<'a>(
        &'a self,
        skill: &str,
        tags: impl Iterator<Item = (&'a String, &'a String)>,
    ) -> Option<SearchCandidates<'a>> {
        let skill = self.skills.get(skill)?;
        let mut matching = Vec::new();
        for (tag, value) in tags {
            matching.push(*skill.tags.get(tag.as_str())?.get(value.as_str())?);
        }
        if matching.is_empty() {
            matching.push(skill.all);
        }
        if matching.len() == 1 {
            return Some(self.candidates(&[matching[0]], matching, true));
        }
        if let Some(kinds) = skill.kinds_with(&matching) {
            return (!kinds.is_empty()).then(|| self.candidates(&kinds, matching, true));
        }
        // Whoever lacks one of them lacks a rare one more likely than a frequent one.
        matching.sort_by_key(|id| self.sets[*id as usize].positions.len());
        let smallest = matching[0];
        Some(self.candidates(&[smallest], matching, false))
    }

    fn candidates(&self, among: &[SetId], matching: Vec<SetId>, exact: bool) -> SearchCandidates<'_> {
        let among = among.iter().map(|id| &self.sets[*id as usize].positions);
        SearchCandidates {
            sets: among.collect(),
            matching,
            exact,
        }
    }

    /// Number of skills that entries registered here have, and that entries of other relays have.
    pub(super) fn skill_counts(&self) -> (usize, usize) {
        (self.local_skills, self.federated_skills)
    }

    fn skill_set(&mut self, skill: &str) -> SetId {
        if let Some(known) = self.skills.get(skill) {
            return known.all;
        }
        let all = self.new_set(skill, SetKey::All);
        let new = SkillSets {
            all,
            tags: HashMap::new(),
            kinds: BTreeMap::new(),
        };
        self.skills.insert(skill.into(), new);
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
        let id = self.new_set(skill, SetKey::Tag(tag.into(), value.into()));
        if let Some(skill) = self.skills.get_mut(skill) {
            skill.tags.entry(tag.into()).or_default().insert(value.into(), id);
        }
        id
    }

    fn kind_set(&mut self, skill: &str, tags: Box<[SetId]>) -> SetId {
        let known = self.skills.get(skill).and_then(|skill| skill.kinds.get(&tags));
        if let Some(known) = known {
            return *known;
        }
        let id = self.new_set(skill, SetKey::Kind(tags.clone()));
        if let Some(skill) = self.skills.get_mut(skill) {
            skill.kinds.insert(tags, id);
        }
        id
    }

    fn new_set(&mut self, skill: &str, of: SetKey) -> SetId {
        let set = KeyedSet {
            skill: skill.into(),
            key: of,
            ..KeyedSet::default()
        };
        if let Some(id) = self.free.pop() {
            self.sets[id as usize] = set;
            return id;
        }
        self.sets.push(set);
        (self.sets.len() - 1) as SetId
    }

    /// Forgets an empty set. A skill's own set holds all agents that the sets of its tags and kinds hold, so these are
    /// empty before it is, and forgotten in the same go; and a kind, in the same way, with the first of its tags.
    fn forget(&mut self, id: SetId) {
        let set = std::mem::take(&mut self.sets[id as usize]);
        self.free.push(id);
        if matches!(set.key, SetKey::All) {
            self.skills.remove(&set.skill);
            return;
        }
        let Some(skill) = self.skills.get_mut(&set.skill) else {
            return;
        };
        match set.key {
            SetKey::All => {}
            SetKey::Tag(tag, value) => {
                if let Some(values) = skill.tags.get_mut(&tag) {
                    values.remove(&value);
                    if values.is_empty() {
                        skill.tags.remove(&tag);
                    }
                }
            }
            SetKey::Kind(tags) => {
                skill.kinds.remove(&tags);
            }
        }
    }
}

impl SkillSets {
    /// The kinds that have all of these tags; None where there are too many kinds to go through, or to put in order.
    fn kinds_with(&self, tags: &[SetId]) -> Option<Vec<SetId>> {
        if self.kinds.len() > MAX_KINDS {
            return None;
        }
        let has_all = |kind: &[SetId]| tags.iter().all(|tag| kind.binary_search(tag).is_ok());
        let with = self.kinds.iter().filter(|(kind, _)| has_all(kind));
        let with: Vec<SetId> = with.map(|(_, id)| *id).collect();
        (with.len() <= MAX_MERGED_KINDS).then_some(with)
    }
}
