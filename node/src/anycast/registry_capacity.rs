//! What a registry takes of one node, as far as it has said so.
//!
//! PURE: times come in as arguments. The rule: a registry that does not say what it takes is told what deployed ones take.

use std::time::{Duration, Instant};

use agentanycast_proto::v1::RegisterSkillsResponse;

/// How long no more is registered than deployed registries take, at a registry that has refused more although it had said
/// that it takes it: it may be full.
const CAUTION: Duration = Duration::from_mins(5);

/// What a registry takes of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegistryCapacity {
    /// Skills.
    pub(super) skills: usize,
    /// Bytes of the registration.
    pub(super) bytes: usize,
}

impl Default for RegistryCapacity {
    /// Of a registry that does not say: as deployed ones have it.
    fn default() -> Self {
        Self {
            skills: 256,
            bytes: 1 << 20,
        }
    }
}

impl RegistryCapacity {
    /// What a registry says, within reason.
    fn from_answer(answer: &RegisterSkillsResponse) -> Self {
        let known = Self::default();
        let skills = usize::try_from(answer.max_skills).unwrap_or(usize::MAX);
        let bytes = usize::try_from(answer.max_bytes).unwrap_or(usize::MAX);
        Self {
            skills: if skills == 0 { known.skills } else { skills },
            bytes: if bytes == 0 {
                known.bytes
            } else {
                bytes.clamp(64 << 10, 4 << 20)
            },
        }
    }
}

/// What a registry takes, as far as is known.
#[derive(Debug, Default)]
pub(super) struct KnownCapacity {
    /// As it said last.
    said: RegistryCapacity,
    /// It has refused so much, and is not asked for it again until then.
    cautious_until: Option<Instant>,
}

impl KnownCapacity {
    /// The registry has taken a registration.
    pub(super) fn note_answer(&mut self, answer: &RegisterSkillsResponse) {
        self.said = RegistryCapacity::from_answer(answer);
    }

    /// What it is told now.
    pub(super) fn at(&self, now: Instant) -> RegistryCapacity {
        match self.cautious_until {
            Some(until) if now < until => RegistryCapacity::default(),
            _ => self.said,
        }
    }

    /// A registration of so many skills was refused because it, or the registry, is too large.
    pub(super) fn note_exhausted(&mut self, now: Instant, skills: usize) {
        if skills > RegistryCapacity::default().skills {
            self.cautious_until = Some(now + CAUTION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_of_itself_counts_within_reason() {
        let said = |max_skills, max_bytes| {
            let answer = RegisterSkillsResponse {
                max_skills,
                max_bytes,
                ..RegisterSkillsResponse::default()
            };
            let capacity = RegistryCapacity::from_answer(&answer);
            (capacity.skills, capacity.bytes)
        };
        assert_eq!(said(0, 0), (256, 1 << 20));
        assert_eq!(said(4096, 1 << 20), (4096, 1 << 20));
        assert_eq!(said(7, 1), (7, 64 << 10));
        assert_eq!(said(u32::MAX, u64::MAX), (u32::MAX as usize, 4 << 20));
    }

    #[test]
    fn a_registry_that_refuses_what_it_said_it_takes_is_told_less_for_a_while() {
        let now = Instant::now();
        let large = RegistryCapacity {
            skills: 4096,
            bytes: 1 << 20,
        };
        let mut known = KnownCapacity::default();
        assert_eq!(known.at(now), RegistryCapacity::default());
        known.said = large;
        assert_eq!(known.at(now), large);
        // What deployed registries take is refused for another reason.
        known.note_exhausted(now, 256);
        assert_eq!(known.at(now), large);
        known.note_exhausted(now, 257);
        assert_eq!(known.at(now), RegistryCapacity::default());
        assert_eq!(known.at(now + CAUTION), large);
    }
}
