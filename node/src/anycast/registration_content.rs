//! What one registry is told of the local node, and what of the node's card does not fit into that.
//!
//! PURE. The rules: skills keep the order of the card, which has those of attached agents first; where not all bytes fit,
//! descriptions are shortened before a skill is left out; a skill that no registry takes takes no other's place.

use agentanycast_identity::PeerId;
use agentanycast_proto::{
    card_agents::agents_by_skill,
    v1::{AgentCard, RegisterSkillsRequest, Skill, SkillInfo},
};
use prost::{Message as _, encoding::encoded_len_varint};

use super::registry_capacity::RegistryCapacity;

/// Most tags of a skill, longest id, name, tag or value, and longest description in bytes, as registries have it.
const MAX_TAGS: usize = 32;
const MAX_TEXT: usize = 256;
const MAX_DESCRIPTION: usize = 4 << 10;
/// Descriptions that are tried, in bytes, where not all skills have room with those of the card.
const DESCRIPTIONS: [usize; 3] = [MAX_DESCRIPTION, 256, 0];
/// Most addresses that are registered, as registries have it.
const MAX_ADDRESSES: usize = 16;
/// Most places in a registry's index, as registries of ours have it: one for a skill, one for each of its tags, one more for
/// several tags.
const MAX_PLACES: usize = 16_384;
/// Bytes that are kept free for what signing adds and the registry adds: proof, times, its own id.
const MARGIN_BYTES: usize = 1 << 10;

/// What is registered at one registry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegistrationContent {
    /// The request. None: the card has no skill that registries take.
    pub(super) request: Option<RegisterSkillsRequest>,
    /// What of the card is not in it.
    pub(super) left_out: LeftOut,
}

/// What of the card a registry is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Skills that are left out, of so many.
    skills: usize,
    of_skills: usize,
    /// Tags of the skills that are registered.
    tags: usize,
    capacity: RegistryCapacity,
}

impl RegistrationContent {
    /// What of `card` a registry with this capacity is told.
    pub(super) fn new(
        card: &AgentCard,
        me: PeerId,
        addresses: &[String],
        key_rotations: &[Vec<u8>],
        capacity: RegistryCapacity,
    ) -> Self {
        let mut request = RegisterSkillsRequest {
            peer_id: me.to_string(),
            skills: Vec::new(),
            agent_name: truncate(&card.name, MAX_TEXT),
            agent_description: truncate(&card.description, MAX_DESCRIPTION),
            addresses: addresses.iter().take(MAX_ADDRESSES).cloned().collect(),
            key_rotations: key_rotations.to_vec(),
            instance: Vec::new(),
        };
        let room = capacity
            .bytes
            .saturating_sub(request.encoded_len() + MARGIN_BYTES);
        let skills = registrable_skills(card, capacity.skills);
        for description in DESCRIPTIONS {
            request.skills = that_fit(&skills, description, room);
            if request.skills.len() == skills.len() {
                break;
            }
        }
        let taken = request.skills.len();
        let tags = skills[..taken].iter().zip(&request.skills);
        let left_out = LeftOut {
            skills: card.skills.len() - taken,
            of_skills: card.skills.len(),
            tags: tags
                .map(|((skill, _), told)| skill.tags.len() - told.tags.len())
                .sum(),
            capacity,
        };
        Self {
            request: (taken > 0).then_some(request),
            left_out,
        }
    }
}

impl LeftOut {
    /// Whether all of the card is registered.
    pub(super) fn is_nothing(&self) -> bool {
        self.skills == 0 && self.tags == 0
    }

    /// Why agents cannot be found by some of their skills at these registries, a sentence each.
    pub(super) fn sentences(&self, registries: &str) -> Vec<String> {
        let mut told = Vec::new();
        if self.skills > 0 {
            told.push(format!(
                "{left} of the card's {all} skills are not registered at {registries}, and other nodes cannot find the agent by \
                 them there: it takes {skills} skills of a node, with ids of 1 to {MAX_TEXT} bytes, and {bytes} bytes",
                left = self.skills,
                all = self.of_skills,
                skills = self.capacity.skills,
                bytes = self.capacity.bytes,
            ));
        }
        if self.tags > 0 {
            told.push(format!(
                "{tags} tags of the card's skills are not registered at {registries}, and other nodes cannot find the agent by \
                 them there: registries take {MAX_TAGS} tags of a skill, with names and values of at most {MAX_TEXT} bytes",
                tags = self.tags
            ));
        }
        told
    }
}

/// The skills of a card that registries take, each with the agent that has it; at most so many.
fn registrable_skills(card: &AgentCard, most: usize) -> Vec<(&Skill, &str)> {
    let owners = agents_by_skill(card);
    let fits = |skill: &&Skill| (1..=MAX_TEXT).contains(&skill.id.len());
    let mut places = 0;
    let has_place = |skill: &&Skill| {
        let tags = registrable_tags(skill).count();
        places += 1 + tags + usize::from(tags > 1);
        places <= MAX_PLACES
    };
    let owner = |skill: &Skill| owners.get(skill.id.as_str()).copied().unwrap_or_default();
    let taken = card.skills.iter().filter(fits).take(most).take_while(has_place);
    taken.map(|skill| (skill, owner(skill))).collect()
}

/// The first of these skills that take at most `room` bytes together, with descriptions of at most `description` bytes.
fn that_fit(skills: &[(&Skill, &str)], description: usize, room: usize) -> Vec<SkillInfo> {
    let mut left = room;
    let told = skills.iter().map(|(skill, agent)| SkillInfo {
        skill_id: skill.id.clone(),
        description: truncate(&skill.description, description),
        tags: registrable_tags(skill)
            .map(|(tag, value)| (tag.clone(), value.clone()))
            .collect(),
        agent: (*agent).to_owned(),
    });
    let fits = |told: &SkillInfo| {
        let bytes = told.encoded_len();
        let after = left.checked_sub(1 + encoded_len_varint(bytes as u64) + bytes);
        left = after.unwrap_or_default();
        after.is_some()
    };
    told.take_while(fits).collect()
}

/// The tags of a skill that registries take.
fn registrable_tags(skill: &Skill) -> impl Iterator<Item = (&String, &String)> {
    let fits = |(tag, value): &(&String, &String)| tag.len() <= MAX_TEXT && value.len() <= MAX_TEXT;
    skill.tags.iter().filter(fits).take(MAX_TAGS)
}

/// A text that may be shown cut.
fn truncate(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn me() -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[1; 32]].concat()).unwrap()
    }

    fn skill(id: &str, tags: usize) -> Skill {
        Skill {
            id: id.to_owned(),
            tags: (0..tags).map(|tag| (format!("t{tag}"), "v".to_owned())).collect(),
            ..Skill::default()
        }
    }

    fn card(skills: impl IntoIterator<Item = Skill>) -> AgentCard {
        AgentCard {
            skills: skills.into_iter().collect(),
            ..AgentCard::default()
        }
    }

    fn content(card: &AgentCard, capacity: RegistryCapacity) -> RegistrationContent {
        RegistrationContent::new(card, me(), &[], &[], capacity)
    }

    fn told(card: &AgentCard) -> Vec<String> {
        content(card, RegistryCapacity::default())
            .left_out
            .sentences("r:1")
    }

    fn registered(card: &AgentCard, capacity: RegistryCapacity) -> Vec<SkillInfo> {
        content(card, capacity)
            .request
            .map_or_else(Vec::new, |request| request.skills)
    }

    const LARGE: RegistryCapacity = RegistryCapacity {
        skills: 4096,
        bytes: 1 << 20,
    };

    #[test]
    fn what_registries_do_not_take_is_told() {
        let deployed = RegistryCapacity::default().skills;
        assert_eq!(told(&card([])), Vec::<String>::new());
        let full = card((0..deployed).map(|at| skill(&at.to_string(), MAX_TAGS)));
        assert_eq!(told(&full), Vec::<String>::new());
        let many = card((0..1000).map(|at| skill(&at.to_string(), 0)));
        let said = told(&many);
        assert!(
            said.len() == 1 && said[0].starts_with("744 of the card's 1000 skills are not registered at r:1"),
            "{said:?}"
        );
        assert!(said[0].contains("256 skills"), "{said:?}");
        assert!(content(&many, LARGE).left_out.is_nothing());
        // A skill that cannot be registered takes no other's place.
        let nameless = card((0..=deployed).map(|at| skill(&at.to_string().replace('0', ""), 0)));
        assert_eq!(registered(&nameless, RegistryCapacity::default()).len(), deployed);
        let long = card([skill("a", 0), skill(&"x".repeat(MAX_TEXT + 1), 0)]);
        assert!(told(&long)[0].starts_with("1 of the card's 2 skills"));
        let tagged = card([skill("a", MAX_TAGS + 3), skill("b", MAX_TAGS)]);
        assert!(told(&tagged)[0].starts_with("3 tags"), "{:?}", told(&tagged));
    }

    #[test]
    fn descriptions_are_shortened_before_a_skill_is_left_out() {
        let described = |skills: usize, bytes: usize| {
            card((0..skills).map(|at| Skill {
                description: "d".repeat(bytes),
                ..skill(&at.to_string(), 0)
            }))
        };
        let longest = |card: &AgentCard| {
            let skills = registered(card, LARGE);
            (
                skills.len(),
                skills.iter().map(|skill| skill.description.len()).max(),
            )
        };
        assert_eq!(longest(&described(200, 5000)), (200, Some(MAX_DESCRIPTION)));
        assert_eq!(longest(&described(1000, 5000)), (1000, Some(256)));
        assert_eq!(longest(&described(4096, 5000)), (4096, Some(0)));
    }

    #[test]
    fn skills_name_their_agents() {
        let agent = |name: &str, skills: &[&str]| AgentCard {
            agent: name.to_owned(),
            ..card(skills.iter().map(|id| skill(id, 0)))
        };
        let node = AgentCard {
            agents: vec![agent("one", &["a"]), agent("two", &["a", "b"])],
            ..card([skill("a", 0), skill("b", 0), skill("c", 0)])
        };
        let agents: Vec<String> = registered(&node, LARGE)
            .into_iter()
            .map(|skill| skill.agent)
            .collect();
        assert_eq!(agents, ["one", "two", ""]);
    }

    proptest! {
        /// Whatever a card has, a registry is told no more than it takes, the first skills first, and the rest is counted.
        #[test]
        fn no_registration_is_larger_than_its_registry_takes(
            skills in prop::collection::vec((0..300_usize, 0..600_usize, 0..40_usize), 0..400),
            most in 1..500_usize,
            bytes in (64_usize << 10)..(256 << 10),
        ) {
            let card = card(skills.iter().enumerate().map(|(at, (id, description, tags))| Skill {
                id: if *id == 0 { String::new() } else { format!("{at}-{}", "x".repeat(*id)) },
                description: "ä".repeat(*description),
                ..skill("", *tags)
            }));
            let capacity = RegistryCapacity { skills: most, bytes };
            let content = content(&card, capacity);
            let told = content.request.as_ref().map_or(&[][..], |request| &request.skills);
            prop_assert!(told.len() <= most);
            prop_assert!(content.request.as_ref().is_none_or(|request| request.encoded_len() + MARGIN_BYTES <= bytes));
            prop_assert_eq!(content.left_out.skills, card.skills.len() - told.len());
            let usable = card.skills.iter().filter(|skill| (1..=MAX_TEXT).contains(&skill.id.len()));
            let expected: Vec<&String> = usable.map(|skill| &skill.id).take(told.len()).collect();
            prop_assert_eq!(told.iter().map(|skill| &skill.skill_id).collect::<Vec<_>>(), expected);
            prop_assert!(told.iter().all(|skill| skill.tags.len() <= MAX_TAGS));
        }
    }
}
