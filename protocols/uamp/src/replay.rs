//! Envelopes that were taken lately: the same one again is answered again, another one with the same id is
//! refused. Used by the handler.
//!
//! Invariant: an entry is kept until its envelope is too old to be taken; at the bound new envelopes are
//! refused, and no entry is dropped. PURE: `now_ms` is an argument.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use crate::envelope::EnvelopeId;

/// How long an envelope is remembered besides twice the skew of clocks, in milliseconds.
const KEPT_MS: i64 = 600_000;

/// What is said of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// It was not taken before. It is remembered now.
    New,
    /// It was taken before, with the same content, of the same caller.
    Same,
    /// It was taken before, with the same content, of another caller.
    OtherCaller,
    /// Another content was taken under its id.
    Other,
    /// So many are remembered that no more are taken now.
    Full,
}

/// Sender and id, as a hash: senders choose how long they are called.
type ReplayKey = [u8; 16];

struct ReplayEntry {
    hash: [u8; 32],
    sender: ReplayKey,
    caller: ReplayKey,
}

/// The envelopes that were taken lately.
pub struct ReplayMap {
    entries: HashMap<ReplayKey, ReplayEntry>,
    /// In the order of their ends.
    ends: VecDeque<(i64, ReplayKey)>,
    /// Entries of each sender.
    senders: HashMap<ReplayKey, usize>,
    kept_ms: i64,
    most: usize,
    most_of_sender: usize,
}

impl ReplayMap {
    /// Of at most so many envelopes, of which one sender may have a quarter; clocks differ by at most
    /// `skew_ms`. One entry takes some 150 bytes.
    pub fn new(most: usize, skew_ms: i64) -> Self {
        Self {
            entries: HashMap::new(),
            ends: VecDeque::new(),
            senders: HashMap::new(),
            // One from the future is taken at `ts - skew` and again at `ts + skew`.
            kept_ms: KEPT_MS.max(skew_ms.saturating_mul(2)).saturating_add(skew_ms),
            most,
            most_of_sender: most.div_ceil(4),
        }
    }

    /// Says whether an envelope that a caller sends is new, and remembers it if so. Sender and id alone name it.
    pub fn check(
        &mut self,
        caller: &str,
        (from, id): (&str, EnvelopeId),
        hash: &[u8; 32],
        now_ms: i64,
    ) -> ReplayVerdict {
        self.forget_old(now_ms);
        let key = key_of(&[from, &id.to_string()]);
        let caller = key_of(&[caller]);
        if let Some(known) = self.entries.get(&key) {
            return match (known.hash == *hash, known.caller == caller) {
                (true, true) => ReplayVerdict::Same,
                (true, false) => ReplayVerdict::OtherCaller,
                (false, _) => ReplayVerdict::Other,
            };
        }
        let sender = key_of(&[from]);
        let count = self.senders.get(&sender).copied().unwrap_or(0);
        if self.entries.len() >= self.most || count >= self.most_of_sender {
            return ReplayVerdict::Full;
        }
        self.senders.insert(sender, count + 1);
        self.entries.insert(
            key,
            ReplayEntry {
                hash: *hash,
                sender,
                caller,
            },
        );
        self.ends.push_back((now_ms.saturating_add(self.kept_ms), key));
        ReplayVerdict::New
    }

    /// Forgets an envelope that was new and came to nothing, so that it may be sent again.
    pub fn forget(&mut self, from: &str, id: EnvelopeId) {
        let key = key_of(&[from, &id.to_string()]);
        if self.remove(&key) {
            // From the newest on, which it most likely is.
            if let Some(at) = self.ends.iter().rposition(|(_, known)| *known == key) {
                self.ends.remove(at);
            }
        }
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn forget_old(&mut self, now_ms: i64) {
        while let Some((end, key)) = self.ends.front().copied()
            && end <= now_ms
        {
            self.ends.pop_front();
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &ReplayKey) -> bool {
        let Some(entry) = self.entries.remove(key) else {
            return false;
        };
        if let Some(count) = self.senders.get_mut(&entry.sender) {
            *count -= 1;
            if *count == 0 {
                self.senders.remove(&entry.sender);
            }
        }
        true
    }
}

fn key_of(parts: &[&str]) -> ReplayKey {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    // Half of it is enough that two envelopes do not meet by chance or by search.
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Builder;

    use super::*;

    fn id(number: u8) -> EnvelopeId {
        EnvelopeId::from_uuid(Builder::from_random_bytes([number; 16]).into_uuid()).unwrap()
    }

    #[derive(Clone, Debug)]
    enum ReplayStep {
        Check(u8, u8, u8, u8),
        Forget(u8, u8),
        Wait(i64),
    }

    fn any_step() -> impl Strategy<Value = ReplayStep> {
        prop_oneof![
            8 => (0_u8..2, 0_u8..3, 0_u8..6, 0_u8..2)
                .prop_map(|(caller, from, id, hash)| ReplayStep::Check(caller, from, id, hash)),
            1 => (0_u8..3, 0_u8..6).prop_map(|(from, id)| ReplayStep::Forget(from, id)),
            2 => (0_i64..900_000).prop_map(ReplayStep::Wait),
        ]
    }

    proptest! {
        /// Against a list that is searched from end to end.
        #[test]
        fn it_does_as_a_list_does(steps in proptest::collection::vec(any_step(), 0..60)) {
            let mut map = ReplayMap::new(8, 300_000);
            let mut list: Vec<(u8, u8, u8, i64, u8)> = Vec::new();
            let mut now = 0;
            for step in steps {
                match step {
                    ReplayStep::Wait(ms) => now += ms,
                    ReplayStep::Forget(from, number) => {
                        map.forget(&from.to_string(), id(number));
                        list.retain(|known| (known.0, known.1) != (from, number));
                    }
                    ReplayStep::Check(caller, from, number, hash) => {
                        list.retain(|known| known.3 + 900_000 > now);
                        let known = list.iter().find(|known| (known.0, known.1) == (from, number));
                        let of_sender = list.iter().filter(|known| known.0 == from).count();
                        let wanted = match known {
                            Some(known) if known.2 == hash && known.4 == caller => ReplayVerdict::Same,
                            Some(known) if known.2 == hash => ReplayVerdict::OtherCaller,
                            Some(_) => ReplayVerdict::Other,
                            None if list.len() >= 8 || of_sender >= 2 => ReplayVerdict::Full,
                            None => {
                                list.push((from, number, hash, now, caller));
                                ReplayVerdict::New
                            }
                        };
                        let name = (&*from.to_string(), id(number));
                        let said = map.check(&caller.to_string(), name, &[hash; 32], now);
                        prop_assert_eq!(said, wanted);
                        prop_assert_eq!((map.len(), map.is_empty()), (list.len(), list.is_empty()));
                    }
                }
                prop_assert_eq!(map.ends.len(), map.entries.len());
                prop_assert_eq!(map.senders.values().sum::<usize>(), map.entries.len());
            }
        }
    }
}
