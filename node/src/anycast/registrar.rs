//! Keeps the local agent registered at one registry, as long as the node runs; what is said when is decided in
//! `registration_state`.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, RegisterSkillsRequest, Skill, SkillInfo};
use tokio_util::sync::CancellationToken;

use super::{
    Anycast, UNREGISTER_WAIT, pause,
    registration_state::{RegistrationState, RegistryAnswer, RegistryRequest},
    registration_status::RegistrationStatus,
    registry_client::{RegistryClient, refusal_text},
};

/// Most skills that are registered, as registries have it; of the rest [`unregistered_parts`] tells.
const MAX_SKILLS: usize = 256;
/// Most tags of a skill, longest id, name, tag or value, and longest description in bytes, as registries have it.
const MAX_TAGS: usize = 32;
const MAX_TEXT: usize = 256;
const MAX_DESCRIPTION: usize = 4 << 10;
/// Most addresses that are registered, as registries have it.
const MAX_ADDRESSES: usize = 16;

/// Keeps the local agent registered at one registry until `stop`, then takes it back.
pub(super) async fn keep_registered(anycast: Anycast, place: usize, stop: CancellationToken) {
    let inner = &anycast.inner;
    let (registry, settled) = (&inner.registries[place], &inner.reported_versions[place]);
    let start = Instant::now();
    let mut registration = RegistrationState::default();
    let (mut card, mut is_there) = (inner.card.subscribe(), inner.is_there.subscribe());
    let mut reachable = inner.net.reachable();
    let mut log = RegistrationLog {
        is_guessed: inner.registries_are_guessed,
        last: String::new(),
    };
    let mut spoken = false;
    let status = &inner.registrations[place];
    loop {
        let addresses: Vec<String> = reachable.borrow_and_update().all().cloned().collect();
        let edition = card.borrow_and_update().clone();
        let is_there_now = *is_there.borrow_and_update();
        let wanted = edition.card.filter(|_| is_there_now).and_then(|card| {
            request_of(
                &card,
                inner.net.local_peer(),
                &addresses,
                &inner.net.own_identity().key_rotations,
            )
        });
        if wanted.is_none() {
            let why = "no agent listens for tasks, or its card has no skill";
            status.send_replace(RegistrationStatus::unregistered(why.to_owned()));
        }
        registration.want(wanted.map(Arc::new));
        if let Some(say) = registration.next(start.elapsed()) {
            spoken = true;
            let (answer, failure) = tokio::select! {
                answered = registry.send(&say) => answered,
                () = stop.cancelled() => break,
            };
            let failure =
                failure.map(|failure| refusal_text(registry.address(), &failure, SystemTime::now()));
            log.note(registry, answer, failure.clone());
            if say != RegistryRequest::Unregister {
                status.send_modify(|status| status.note(answer, failure));
            }
            registration.on_answer(start.elapsed(), answer);
            continue;
        }
        if registration.is_settled() {
            settled.send_if_modified(|told| std::mem::replace(told, edition.number) != edition.number);
        }
        let due = registration.due();
        let at_due = pause(due.map(|due| due.saturating_sub(start.elapsed())));
        tokio::select! {
            () = stop.cancelled() => break,
            changed = card.changed() => if changed.is_err() { break },
            changed = is_there.changed() => if changed.is_err() { break },
            changed = reachable.changed() => if changed.is_err() { break },
            () = at_due => {}
        }
    }
    if spoken {
        // Without it the registration expires by itself.
        let _ = tokio::time::timeout(UNREGISTER_WAIT, registry.send(&RegistryRequest::Unregister)).await;
    }
}

/// Tells each failure of a registry once.
struct RegistrationLog {
    is_guessed: bool,
    last: String,
}

impl RegistrationLog {
    fn note(&mut self, registry: &RegistryClient, answer: RegistryAnswer, failure: Option<String>) {
        let registry = registry.address();
        let Some(error) = failure.filter(|_| answer != RegistryAnswer::Unknown) else {
            if !self.last.is_empty() {
                tracing::info!(registry, "the registry answers again");
                self.last.clear();
            }
            return;
        };
        // How far two clocks are apart is another figure each time.
        let known: String = error.chars().filter(|c| !c.is_ascii_digit()).collect();
        if known == self.last {
            return;
        }
        if matches!(answer, RegistryAnswer::Done(_)) {
            tracing::warn!(
                registry,
                error,
                "the local agent is registered until the registry restarts"
            );
        } else if self.is_guessed {
            tracing::debug!(registry, error, "there is no registry beside this bootstrap peer");
        } else {
            tracing::warn!(
                registry,
                error,
                "the local agent is not registered; it is tried again"
            );
        }
        self.last = known;
    }
}

/// What a registry is told of an agent. None: it has no skill to be found by.
fn request_of(
    card: &AgentCard,
    me: PeerId,
    addresses: &[String],
    key_rotations: &[Vec<u8>],
) -> Option<RegisterSkillsRequest> {
    let skills: Vec<SkillInfo> = registrable_skills(card)
        .map(|skill| SkillInfo {
            skill_id: skill.id.clone(),
            description: truncate(&skill.description, MAX_DESCRIPTION),
            tags: registrable_tags(skill)
                .map(|(tag, value)| (tag.clone(), value.clone()))
                .collect(),
        })
        .collect();
    (!skills.is_empty()).then(|| RegisterSkillsRequest {
        peer_id: me.to_string(),
        skills,
        agent_name: truncate(&card.name, MAX_TEXT),
        agent_description: truncate(&card.description, MAX_DESCRIPTION),
        addresses: addresses.iter().take(MAX_ADDRESSES).cloned().collect(),
        key_rotations: key_rotations.to_vec(),
        instance: Vec::new(),
    })
}

/// The skills of a card that registries take.
fn registrable_skills(card: &AgentCard) -> impl Iterator<Item = &Skill> {
    let fits = |skill: &&Skill| (1..=MAX_TEXT).contains(&skill.id.len());
    card.skills.iter().filter(fits).take(MAX_SKILLS)
}

/// The tags of a skill that registries take.
fn registrable_tags(skill: &Skill) -> impl Iterator<Item = (&String, &String)> {
    let fits = |(tag, value): &(&String, &String)| tag.len() <= MAX_TEXT && value.len() <= MAX_TEXT;
    skill.tags.iter().filter(fits).take(MAX_TAGS)
}

/// PURE: what of a card registries do not take, so that other nodes cannot find the agent by it; a sentence
/// each.
pub(super) fn unregistered_parts(card: &AgentCard) -> Vec<String> {
    let mut told = Vec::new();
    let (all, taken) = (card.skills.len(), registrable_skills(card).count());
    if taken < all {
        told.push(format!(
            "{left} of the card's {all} skills are not registered, and other nodes cannot find the agent by them: registries \
             take {MAX_SKILLS} skills of a node, with ids of 1 to {MAX_TEXT} bytes",
            left = all - taken
        ));
    }
    let tags: usize = registrable_skills(card)
        .map(|skill| skill.tags.len() - registrable_tags(skill).count())
        .sum();
    if tags > 0 {
        told.push(format!(
            "{tags} tags of the card's skills are not registered, and other nodes cannot find the agent by them: registries \
             take {MAX_TAGS} tags of a skill, with names and values of at most {MAX_TEXT} bytes"
        ));
    }
    told
}

/// A text that may be shown cut.
fn truncate(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_registries_do_not_take_is_told() {
        assert_eq!(unregistered_parts(&card([])), Vec::<String>::new());
        let full = card((0..MAX_SKILLS).map(|at| skill(&at.to_string(), MAX_TAGS)));
        assert_eq!(unregistered_parts(&full), Vec::<String>::new());
        let many = card((0..1000).map(|at| skill(&at.to_string(), 0)));
        let told = unregistered_parts(&many);
        assert!(
            told.len() == 1 && told[0].starts_with("744 of the card's 1000 skills"),
            "{told:?}"
        );
        assert!(told[0].contains("256 skills"), "{told:?}");
        // A skill that cannot be registered takes no other's place.
        let nameless = card((0..=MAX_SKILLS).map(|at| skill(&at.to_string().replace('0', ""), 0)));
        assert_eq!(registrable_skills(&nameless).count(), MAX_SKILLS);
        let long = card([skill("a", 0), skill(&"x".repeat(MAX_TEXT + 1), 0)]);
        assert!(unregistered_parts(&long)[0].starts_with("1 of the card's 2 skills"));
        let tagged = card([skill("a", MAX_TAGS + 3), skill("b", MAX_TAGS)]);
        assert!(
            unregistered_parts(&tagged)[0].starts_with("3 tags"),
            "{:?}",
            unregistered_parts(&tagged)
        );
    }
}
