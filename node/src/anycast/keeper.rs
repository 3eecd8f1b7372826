//! Keeps the local agent registered at one registry, as long as the node runs; what is said when is decided in
//! `registration`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentCard, RegisterSkillsRequest, SkillInfo};
use tokio_util::sync::CancellationToken;

use super::{
    Anycast,
    registration::{Answer, Registration, Say},
    registry::Registry,
};

/// How long stopping waits for registries to be told that the agent is gone.
const GOODBYE: Duration = Duration::from_secs(1);
/// Most skills that are registered, as registries have it; more are left out and logged.
const MAX_SKILLS: usize = 256;
/// Most addresses that are registered, as registries have it.
const MAX_ADDRESSES: usize = 16;

/// Keeps the local agent registered at one registry until `stop`, then takes it back.
pub(super) async fn keep_registered(anycast: Anycast, place: usize, stop: CancellationToken) {
    let inner = &anycast.inner;
    let (registry, settled) = (&inner.registries[place], &inner.settled[place]);
    let start = Instant::now();
    let mut registration = Registration::default();
    let mut card = inner.card.subscribe();
    let mut reachable = inner.net.reachable();
    let mut log = Log {
        is_guessed: inner.guessed,
        last: String::new(),
    };
    let mut spoken = false;
    loop {
        let addresses: Vec<String> = reachable.borrow_and_update().all().cloned().collect();
        let edition = card.borrow_and_update().clone();
        let wanted = edition
            .card
            .and_then(|card| request_of(&card, inner.net.local_peer(), &addresses));
        registration.want(wanted.map(Arc::new));
        if let Some(say) = registration.next(start.elapsed()) {
            spoken = true;
            let (answer, failure) = tokio::select! {
                answered = registry.say(&say) => answered,
                () = stop.cancelled() => break,
            };
            log.note(registry, answer, failure.as_ref());
            registration.answered(start.elapsed(), answer);
            continue;
        }
        if registration.is_settled() {
            settled.send_if_modified(|told| std::mem::replace(told, edition.number) != edition.number);
        }
        let due = registration.due();
        let at_due = async {
            match due {
                Some(due) => tokio::time::sleep(due.saturating_sub(start.elapsed())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => break,
            changed = card.changed() => if changed.is_err() { break },
            changed = reachable.changed() => if changed.is_err() { break },
            () = at_due => {}
        }
    }
    if spoken {
        // Without it the registration expires by itself.
        let _ = tokio::time::timeout(GOODBYE, registry.say(&Say::Unregister)).await;
    }
}

/// Tells each failure of a registry once.
struct Log {
    is_guessed: bool,
    last: String,
}

impl Log {
    fn note(&mut self, registry: &Registry, answer: Answer, failure: Option<&tonic::Status>) {
        let registry = registry.address();
        let Some(status) = failure.filter(|_| answer != Answer::Unknown) else {
            if !self.last.is_empty() {
                tracing::info!(registry, "the registry answers again");
                self.last.clear();
            }
            return;
        };
        let error = format!("{:?}: {}", status.code(), status.message());
        if error == self.last {
            return;
        }
        if self.is_guessed {
            tracing::debug!(registry, error, "there is no registry beside this bootstrap peer");
        } else {
            tracing::warn!(
                registry,
                error,
                "the local agent is not registered; it is tried again"
            );
        }
        self.last = error;
    }
}

/// What a registry is told of an agent. None: it has no skill to be found by.
fn request_of(card: &AgentCard, me: PeerId, addresses: &[String]) -> Option<RegisterSkillsRequest> {
    let skills: Vec<SkillInfo> = card
        .skills
        .iter()
        .filter(|skill| !skill.id.is_empty())
        .map(|skill| SkillInfo {
            skill_id: skill.id.clone(),
            description: skill.description.clone(),
            tags: skill.tags.clone(),
        })
        .take(MAX_SKILLS)
        .collect();
    if card.skills.len() > MAX_SKILLS {
        tracing::warn!(
            skills = card.skills.len(),
            most = MAX_SKILLS,
            "the card has more skills than are registered"
        );
    }
    (!skills.is_empty()).then(|| RegisterSkillsRequest {
        peer_id: me.to_string(),
        skills,
        agent_name: card.name.clone(),
        agent_description: card.description.clone(),
        addresses: addresses.iter().take(MAX_ADDRESSES).cloned().collect(),
    })
}
