//! Whether the local agent is there: only then others should find it.
//!
//! PURE. The rules: it is there while it listens for tasks, for [`RELISTEN_GRACE`] after it stopped (it may be starting anew), and
//! for [`FIRST_LISTEN_GRACE`] after it set its card, which agents do before they listen.

use std::time::Duration;

/// How long an agent may be away without being taken back: a restart of its process.
const RELISTEN_GRACE: Duration = Duration::from_secs(15);
/// How long an agent has from its card to its first listening.
const FIRST_LISTEN_GRACE: Duration = Duration::from_mins(1);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct AgentPresence {
    is_listening: bool,
    /// There until then, listening or not.
    until: Duration,
}

impl AgentPresence {
    /// Somebody listens for tasks, or nobody any more.
    pub(super) fn set_listening(&mut self, now: Duration, is_listening: bool) {
        if self.is_listening && !is_listening {
            self.until = now + RELISTEN_GRACE;
        }
        self.is_listening = is_listening;
    }

    /// The agent has set its card.
    pub(super) fn card_set(&mut self, now: Duration) {
        self.until = self.until.max(now + FIRST_LISTEN_GRACE);
    }

    /// Whether it is there.
    pub(super) fn is_present(&self, now: Duration) -> bool {
        self.is_listening || now < self.until
    }

    /// When it is no longer there if nothing happens.
    pub(super) fn ends_at(&self, now: Duration) -> Option<Duration> {
        (!self.is_listening && now < self.until).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_while_it_listens_and_a_little_longer() {
        let at = Duration::from_secs;
        let mut presence = AgentPresence::default();
        assert!(!presence.is_present(at(0)), "a card of the last run is nobody");
        presence.card_set(at(0));
        assert!(presence.is_present(at(59)) && !presence.is_present(at(60)));
        assert_eq!(presence.ends_at(at(1)), Some(at(60)));
        presence.set_listening(at(70), true);
        assert!(presence.is_present(at(1000)) && presence.ends_at(at(1000)).is_none());
        presence.set_listening(at(1000), false);
        assert!(presence.is_present(at(1014)) && !presence.is_present(at(1015)));
        presence.card_set(at(2000));
        presence.set_listening(at(2001), true);
        presence.set_listening(at(2002), false);
        assert!(!presence.is_present(at(2017)), "it has begun, and ended");
    }
}
