//! Keeps the local agent registered at one registry, as long as the node runs; what is said when is decided in
//! `registration_state`.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{
    Anycast, UNREGISTER_WAIT, pause,
    registration_content::LeftOut,
    registration_state::{RegistrationState, RegistryAnswer, RegistryRequest},
    registration_status::RegistrationStatus,
    registry_client::{RegistryClient, refusal_text},
};

/// Keeps the local agent registered at one registry until `stop`, then takes it back.
pub(super) async fn keep_registered(anycast: Anycast, place: usize, stop: CancellationToken) {
    let inner = &anycast.inner;
    let (slot, settled) = (&inner.registries[place], &inner.reported_versions[place]);
    let mut client = slot.subscribe();
    let mut registry = slot.client();
    let start = Instant::now();
    let mut registration = RegistrationState::default();
    let (mut card, mut is_there) = (inner.card.subscribe(), inner.is_there.subscribe());
    let mut reachable = inner.net.reachable();
    let mut log = RegistrationLog {
        last: String::new(),
        left_out: None,
    };
    let mut spoken = false;
    let status = &inner.registrations[place];
    loop {
        reachable.mark_unchanged();
        let current = Arc::clone(&client.borrow_and_update());
        if !Arc::ptr_eq(&current, &registry) {
            // The relay has said where its registry is: what stands at the place before is taken back.
            if registration.is_registered() {
                unregister(&registry).await;
            }
            registry = current;
            registration = RegistrationState::default();
        }
        let edition = card.borrow_and_update().clone();
        let is_there_now = *is_there.borrow_and_update();
        let content = edition
            .card
            .filter(|_| is_there_now)
            .map(|card| inner.registration_content(&card, &registry));
        let (wanted, left_out) = match content {
            Some(content) => (content.request, Some(content.left_out)),
            None => (None, None),
        };
        if let Some(left_out) = &left_out {
            inner.note_left_out(place, left_out);
        }
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
            let is_guess = slot.is_guess() && !slot.is_beside_relay(&inner.net);
            log.note(&registry, is_guess, answer, failure.clone());
            if say != RegistryRequest::Unregister {
                let left_out = left_out.iter().flat_map(|left| left.sentences("this registry"));
                let left_out: Vec<String> = left_out.collect();
                status.send_modify(|status| status.note(answer, failure, &left_out));
            }
            registration.on_answer(start.elapsed(), answer);
            continue;
        }
        if registration.is_settled() {
            log.note_left_out(&registry, left_out.filter(|_| registration.is_registered()));
            settled.send_if_modified(|told| std::mem::replace(told, edition.number) != edition.number);
        }
        let due = registration.due();
        let at_due = pause(due.map(|due| due.saturating_sub(start.elapsed())));
        tokio::select! {
            () = stop.cancelled() => break,
            changed = client.changed() => if changed.is_err() { break },
            changed = card.changed() => if changed.is_err() { break },
            changed = is_there.changed() => if changed.is_err() { break },
            changed = reachable.changed() => if changed.is_err() { break },
            () = at_due => {}
        }
    }
    if spoken {
        // Without it the registration expires by itself.
        unregister(&registry).await;
    }
}

async fn unregister(registry: &RegistryClient) {
    let _ = tokio::time::timeout(UNREGISTER_WAIT, registry.send(&RegistryRequest::Unregister)).await;
}

/// Tells each failure of a registry once.
struct RegistrationLog {
    last: String,
    /// What of the card was not registered when that was told last.
    left_out: Option<LeftOut>,
}

impl RegistrationLog {
    /// Tells what of the card the registry does not have, once for each card.
    fn note_left_out(&mut self, registry: &RegistryClient, left_out: Option<LeftOut>) {
        let Some(left_out) = left_out.filter(|left_out| self.left_out.as_ref() != Some(left_out)) else {
            return;
        };
        for warning in left_out.sentences(registry.address()) {
            tracing::warn!("{warning}");
        }
        self.left_out = Some(left_out);
    }

    /// `is_guess`: no one says that a registry is there.
    fn note(
        &mut self,
        registry: &RegistryClient,
        is_guess: bool,
        answer: RegistryAnswer,
        failure: Option<String>,
    ) {
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
        } else if is_guess {
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
