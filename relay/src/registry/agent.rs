//! One registered agent: what it may say, and how it is answered.
//!
//! PURE. The answer is kept encoded: an encoded `SkillRegistration` whose last field is the expiry, so that a
//! heartbeat replaces a few bytes and discovery copies bytes without looking into them. The one rule: what is
//! encoded here has passed [`check`].

use agentanycast_proto::v1::{RegisterSkillsRequest, SkillInfo, SkillRegistration};
use bytes::Bytes;
use prost::{
    Message as _,
    encoding::{encode_varint, encoded_len_varint},
};

use super::{RegistryError, RegistryLimits, places_of};
use crate::clock::{Nanos, SECOND};

/// What an agent says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegisteredAgent {
    /// Its peer id. Deployed clients send texts that are none.
    pub peer: String,
    /// Its skills; each id once.
    pub skills: Vec<SkillInfo>,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Where it says it can be dialled.
    pub addresses: Vec<String>,
}

impl From<RegisterSkillsRequest> for RegisteredAgent {
    fn from(request: RegisterSkillsRequest) -> Self {
        Self {
            peer: request.peer_id,
            skills: dedup_skills(request.skills),
            name: request.agent_name,
            description: request.agent_description,
            addresses: request.addresses,
        }
    }
}

impl From<SkillRegistration> for RegisteredAgent {
    fn from(said: SkillRegistration) -> Self {
        Self {
            peer: said.peer_id,
            skills: said.skills,
            name: said.agent_name,
            description: said.agent_description,
            addresses: said.addresses,
        }
    }
}

impl RegisteredAgent {
    /// A number of the content, the same on every relay (FNV-1a by Fowler, Noll and Vo).
    pub(super) fn digest(&self) -> u64 {
        let said = RegisterSkillsRequest {
            peer_id: self.peer.clone(),
            skills: self.skills.clone(),
            agent_name: self.name.clone(),
            agent_description: self.description.clone(),
            addresses: self.addresses.clone(),
            key_rotations: Vec::new(),
            instance: Vec::new(),
        };
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        said.encode_to_vec().iter().fold(0xCBF2_9CE4_8422_2325, step)
    }
}

/// A skill that is listed twice counts as it is listed last.
pub(super) fn dedup_skills(mut skills: Vec<SkillInfo>) -> Vec<SkillInfo> {
    // Sorting keeps the order of alike ones, so the last of them is the last that was listed.
    skills.sort_by(|a, b| a.skill_id.cmp(&b.skill_id));
    let mut kept: Vec<SkillInfo> = Vec::with_capacity(skills.len());
    for skill in skills {
        match kept.last_mut() {
            Some(last) if last.skill_id == skill.skill_id => *last = skill,
            _ => kept.push(skill),
        }
    }
    kept
}

const SHORTEN: &str = "shorten it";

fn over(what: &'static str, most: usize, advice: &'static str) -> Result<(), RegistryError> {
    Err(RegistryError::Limit {
        what,
        most,
        setting: None,
        advice,
    })
}

/// Whether an agent is complete and within the limits.
pub(super) fn check(agent: &RegisteredAgent, limits: &RegistryLimits) -> Result<(), RegistryError> {
    check_peer(&agent.peer, limits)?;
    if agent.skills.is_empty() {
        return Err(RegistryError::Invalid(
            "skills is empty; an agent has at least one".into(),
        ));
    }
    if agent.skills.len() > limits.skills {
        return over("skills of one agent", limits.skills, "register fewer");
    }
    if places_of(&agent.skills) > limits.places {
        return over(
            "skills of one agent with their tags",
            limits.places,
            "register fewer, or set fewer tags",
        );
    }
    if agent.addresses.len() > limits.addresses {
        return over("addresses of one agent", limits.addresses, "name fewer");
    }
    let long = |text: &str| text.len() > limits.id_bytes;
    if long(&agent.name) {
        return over("bytes of an agent's name", limits.id_bytes, SHORTEN);
    }
    if agent.addresses.iter().any(|address| long(address)) {
        return over("bytes of an address", limits.id_bytes, SHORTEN);
    }
    if agent.description.len() > limits.description_bytes {
        return over(
            "bytes of an agent's description",
            limits.description_bytes,
            SHORTEN,
        );
    }
    agent
        .skills
        .iter()
        .try_for_each(|skill| check_skill(skill, limits))
}

fn check_skill(skill: &SkillInfo, limits: &RegistryLimits) -> Result<(), RegistryError> {
    let long = |text: &str| text.len() > limits.id_bytes;
    if skill.skill_id.is_empty() {
        return Err(RegistryError::empty("skill_id"));
    }
    if long(&skill.skill_id) {
        return over("bytes of a skill id", limits.id_bytes, SHORTEN);
    }
    if skill.agent.len() > limits.agent_name_bytes {
        return over(
            "bytes of the name of a skill's agent",
            limits.agent_name_bytes,
            SHORTEN,
        );
    }
    if skill.description.len() > limits.description_bytes {
        return over(
            "bytes of a skill's description",
            limits.description_bytes,
            SHORTEN,
        );
    }
    if skill.tags.len() > limits.tags {
        return over("tags of one skill", limits.tags, "set fewer");
    }
    if skill.tags.iter().any(|(tag, value)| long(tag) || long(value)) {
        return over("bytes of a tag or its value", limits.id_bytes, SHORTEN);
    }
    Ok(())
}

pub(super) fn check_peer(peer: &str, limits: &RegistryLimits) -> Result<(), RegistryError> {
    if peer.is_empty() {
        return Err(RegistryError::empty("peer_id"));
    }
    if peer.len() > limits.id_bytes {
        return over("bytes of a peer id", limits.id_bytes, SHORTEN);
    }
    Ok(())
}

/// An agent as it is answered.
#[derive(Clone, Debug)]
pub(super) struct EncodedAgent {
    bytes: Bytes,
    /// How many of the bytes stay as they are when the expiry moves.
    fixed: usize,
}

impl EncodedAgent {
    pub(super) fn new(
        agent: RegisteredAgent,
        registered: Nanos,
        verified: bool,
        origin: &str,
        expires: Nanos,
    ) -> Self {
        let fixed = SkillRegistration {
            peer_id: agent.peer,
            skills: agent.skills,
            agent_name: agent.name,
            agent_description: agent.description,
            registered_at: Some(timestamp(registered)),
            expires_at: None,
            addresses: agent.addresses,
            verified,
            origin_relay_id: origin.to_owned(),
        };
        let mut bytes = fixed.encode_to_vec();
        let fixed = bytes.len();
        append_expiry(&mut bytes, expires);
        Self {
            bytes: bytes.into(),
            fixed,
        }
    }

    /// The same with another expiry.
    pub(super) fn with_expiry(&self, expires: Nanos) -> Self {
        let mut bytes = Vec::with_capacity(self.fixed + EXPIRY_BYTES);
        bytes.extend_from_slice(&self.bytes[..self.fixed]);
        append_expiry(&mut bytes, expires);
        Self {
            bytes: bytes.into(),
            fixed: self.fixed,
        }
    }

    /// Bytes that it takes in the answer to a discovery.
    pub(super) fn listed_len(&self) -> usize {
        1 + encoded_len_varint(self.bytes.len() as u64) + self.bytes.len()
    }

    /// Appends it to an encoded `DiscoverBySkillResponse`.
    pub(super) fn append_to(&self, response: &mut Vec<u8>) {
        response.push(AGENTS_FIELD_KEY);
        encode_varint(self.bytes.len() as u64, response);
        response.extend_from_slice(&self.bytes);
    }

    /// What it says. Only what was encoded above is decoded, so it is what was said.
    pub(super) fn decode(&self) -> SkillRegistration {
        SkillRegistration::decode(self.bytes.clone()).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// What precedes each of `DiscoverBySkillResponse.agents`: field 1, with its length.
const AGENTS_FIELD_KEY: u8 = 1 << 3 | 2;

/// Room that an encoded expiry takes at most.
const EXPIRY_BYTES: usize = 24;

fn append_expiry(bytes: &mut Vec<u8>, expires: Nanos) {
    let only = SkillRegistration {
        expires_at: Some(timestamp(expires)),
        ..SkillRegistration::default()
    };
    bytes.reserve_exact(EXPIRY_BYTES);
    // A Vec grows as needed, so this cannot fail.
    let _ = only.encode(bytes);
}

/// A time as the contract writes it.
pub fn timestamp(time: Nanos) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: (time / SECOND).cast_signed(),
        nanos: (time % SECOND) as i32,
    }
}

/// The same the other way; 0 for what is before 1970.
pub fn nanos_of(time: prost_types::Timestamp) -> Nanos {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = u64::try_from(time.nanos).unwrap_or(0).min(SECOND - 1);
    seconds.saturating_mul(SECOND).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(id: &str, description: &str) -> SkillInfo {
        SkillInfo {
            skill_id: id.into(),
            description: description.into(),
            tags: [("lang".to_owned(), "de".to_owned())].into(),
            agent: String::new(),
        }
    }

    fn agent() -> RegisteredAgent {
        RegisteredAgent {
            peer: "p".into(),
            skills: vec![skill("a", "first")],
            name: "n".into(),
            description: "d".into(),
            addresses: vec!["/ip4/192.0.2.1/tcp/1".into()],
        }
    }

    #[test]
    fn what_is_answered_is_what_was_said() {
        let answer = EncodedAgent::new(agent(), 5 * SECOND, true, "o", 7 * SECOND + 3);
        for (answer, expires) in [(answer.clone(), 7 * SECOND + 3), (answer.with_expiry(99), 99)] {
            let said = answer.decode();
            assert_eq!(said.skills, agent().skills);
            assert_eq!((said.peer_id.as_str(), said.agent_name.as_str()), ("p", "n"));
            assert_eq!(said.registered_at, Some(timestamp(5 * SECOND)));
            assert_eq!(said.expires_at.map(nanos_of), Some(expires));
            assert!(said.verified && said.origin_relay_id == "o" && said.addresses == agent().addresses);
        }
    }

    #[test]
    fn a_skill_listed_twice_counts_as_listed_last() {
        let kept = dedup_skills(vec![skill("b", "1"), skill("a", "2"), skill("b", "3")]);
        assert_eq!(kept, [skill("a", "2"), skill("b", "3")]);
    }

    #[test]
    fn each_limit_is_named() {
        let limits = RegistryLimits::default();
        assert_eq!(check(&agent(), &limits), Ok(()));
        let long = "x".repeat(257);
        let endless = "x".repeat(4097);
        let many_tags = (0..33).map(|n| (n.to_string(), String::new())).collect();
        let cases: [(&str, RegisteredAgent); 11] = [
            (
                "peer_id is empty",
                RegisteredAgent {
                    peer: String::new(),
                    ..agent()
                },
            ),
            (
                "skills is empty",
                RegisteredAgent {
                    skills: vec![],
                    ..agent()
                },
            ),
            (
                "name of a skill's agent: 64",
                RegisteredAgent {
                    skills: vec![SkillInfo {
                        agent: "x".repeat(65),
                        ..skill("a", "")
                    }],
                    ..agent()
                },
            ),
            (
                "skill_id is empty",
                RegisteredAgent {
                    skills: vec![skill("", "")],
                    ..agent()
                },
            ),
            (
                "peer id: 256",
                RegisteredAgent {
                    peer: long.clone(),
                    ..agent()
                },
            ),
            (
                "skill id: 256",
                RegisteredAgent {
                    skills: vec![skill(&long, "")],
                    ..agent()
                },
            ),
            (
                "skill's description: 4096",
                RegisteredAgent {
                    skills: vec![skill("a", &endless)],
                    ..agent()
                },
            ),
            (
                "agent's description: 4096",
                RegisteredAgent {
                    description: endless,
                    ..agent()
                },
            ),
            (
                "name: 256",
                RegisteredAgent {
                    name: long.clone(),
                    ..agent()
                },
            ),
            (
                "addresses of one agent: 16",
                RegisteredAgent {
                    addresses: vec![String::new(); 17],
                    ..agent()
                },
            ),
            (
                "tags of one skill: 32",
                RegisteredAgent {
                    skills: vec![SkillInfo {
                        tags: many_tags,
                        ..skill("a", "")
                    }],
                    ..agent()
                },
            ),
        ];
        for (expected, agent) in cases {
            let error = check(&agent, &limits).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn skills_and_their_tags_are_bounded() {
        let limits = RegistryLimits::default();
        let many = (0..4097).map(|n| skill(&n.to_string(), "")).collect();
        let error = check(
            &RegisteredAgent {
                skills: many,
                ..agent()
            },
            &limits,
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("skills of one agent: 4096"), "{error}");
        // With two tags each as many fit, with a third one of them too many.
        let tags = |count: usize| (0..count).map(|tag| (tag.to_string(), String::new())).collect();
        let tagged = |count: usize, more: usize| RegisteredAgent {
            skills: (0..4096)
                .map(|n| SkillInfo {
                    tags: tags(if n == 0 { count + more } else { count }),
                    ..skill(&n.to_string(), "")
                })
                .collect(),
            ..agent()
        };
        assert_eq!(check(&tagged(2, 0), &limits), Ok(()));
        let error = check(&tagged(2, 1), &limits).unwrap_err().to_string();
        assert!(
            error.contains("skills of one agent with their tags: 16384"),
            "{error}"
        );
    }
}
