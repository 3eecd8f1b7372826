//! Who is still there. PURE: time is an argument.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How often a client says that it is there: the protocol's figure.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// When peers were heard last.
#[derive(Clone, Debug)]
pub struct HeartbeatTable {
    silence: Duration,
    heard: HashMap<String, Instant>,
}

impl HeartbeatTable {
    /// A table whose peers are gone after `silence`.
    pub fn new(silence: Duration) -> Self {
        Self {
            silence,
            heard: HashMap::new(),
        }
    }

    /// `peer` was heard at `now`.
    pub fn heard(&mut self, peer: &str, now: Instant) {
        match self.heard.get_mut(peer) {
            Some(last) => *last = now.max(*last),
            None => drop(self.heard.insert(peer.to_owned(), now)),
        }
    }

    /// When `peer` was heard last.
    pub fn last_heard(&self, peer: &str) -> Option<Instant> {
        self.heard.get(peer).copied()
    }

    /// `peer` has left.
    pub fn remove(&mut self, peer: &str) {
        self.heard.remove(peer);
    }

    /// Takes out the peers that are gone at `now`, in the order of their names.
    pub fn take_gone(&mut self, now: Instant) -> Vec<String> {
        let silence = self.silence;
        let gone = |last: Instant| now.saturating_duration_since(last) >= silence;
        let mut names: Vec<String> = self
            .heard
            .iter()
            .filter(|(_, last)| gone(**last))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            self.heard.remove(name);
        }
        names.sort();
        names
    }

    /// When the next peer is gone, unless it is heard.
    pub fn next_gone(&self) -> Option<Instant> {
        self.heard.values().min().map(|last| *last + self.silence)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SILENCE: Duration = Duration::from_secs(90);

    proptest! {
        #[test]
        fn a_peer_is_gone_exactly_after_its_silence(steps in prop::collection::vec((0_u8..4, 0_u64..60), 1..50)) {
            let begun = Instant::now();
            let mut now = begun;
            let mut table = HeartbeatTable::new(SILENCE);
            let mut model: HashMap<String, Instant> = HashMap::new();
            for (peer, seconds) in steps {
                now += Duration::from_secs(seconds);
                let mut expected: Vec<String> =
                    model.iter().filter(|(_, last)| now - **last >= SILENCE).map(|(name, _)| name.clone()).collect();
                expected.sort();
                if let Some(next) = table.next_gone() {
                    prop_assert_eq!(next <= now, !expected.is_empty());
                }
                prop_assert_eq!(table.take_gone(now), expected.clone());
                model.retain(|name, _| !expected.contains(name));
                let name = peer.to_string();
                table.heard(&name, now);
                model.insert(name.clone(), now);
                prop_assert_eq!(table.last_heard(&name), Some(now));
            }
        }
    }
}
