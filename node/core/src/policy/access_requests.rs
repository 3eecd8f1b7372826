//! Peers that were refused since they may not use a private agent: what the owner of this node may let in by a word.
//!
//! PURE: no clock of its own. One entry for each peer and agent; the text of a task is not among it. At most
//! [`MAX_REQUESTS`]: the one that was heard of least lately goes. A stranger with many keys can make [`NEW_A_MINUTE`] new
//! ones a minute, no more.

use std::collections::HashMap;

use agentanycast_identity::PeerId;
use sha2::{Digest as _, Sha256};

/// Most of them.
pub const MAX_REQUESTS: usize = 256;

/// How long one is kept after its last task, in milliseconds.
pub const KEPT_MS: u64 = 7 * 24 * 3600 * 1000;

/// Most new ones in a minute.
pub const NEW_A_MINUTE: u32 = 10;

const MINUTE_MS: u64 = 60_000;

/// Characters of an id.
const ID_LENGTH: usize = 8;

/// A peer that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// Names it among all.
    pub id: String,
    /// Who.
    pub peer: PeerId,
    /// Which agent it may not use.
    pub agent: String,
    /// The skill that it asked for last; empty: none.
    pub skill: String,
    /// When it asked first, Unix milliseconds.
    pub first_at: u64,
    /// When it asked last.
    pub last_at: u64,
    /// How many tasks were refused.
    pub tasks: u32,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRequests {
    by_peer: HashMap<(PeerId, String), AccessRequest>,
    /// The minute that counts at the moment, and how many new ones it has.
    minute: (u64, u32),
}

/// What came of a refused task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestChange {
    /// As it is now.
    pub now: AccessRequest,
    /// It was not there before.
    pub is_new: bool,
    /// What had to go for it.
    pub gone: Vec<AccessRequest>,
}

/// The id of what a peer asks for: the same again after it was forgotten.
fn id_of(peer: PeerId, agent: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(peer.to_bytes());
    hash.update(agent);
    let hash = hash.finalize();
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    digits.take(ID_LENGTH).collect()
}

impl AccessRequests {
    /// Those that the store has.
    pub fn restore(&mut self, request: AccessRequest) {
        let key = (request.peer, request.agent.clone());
        self.by_peer.insert(key, request);
    }

    /// A task of a peer was refused. `None`: there were too many new ones within a minute.
    pub fn note(&mut self, now: u64, peer: PeerId, agent: &str, skill: &str) -> Option<RequestChange> {
        let key = (peer, agent.to_owned());
        if let Some(known) = self.by_peer.get_mut(&key).filter(|known| !known.is_old(now)) {
            skill.clone_into(&mut known.skill);
            known.last_at = known.last_at.max(now);
            known.tasks = known.tasks.saturating_add(1);
            return Some(RequestChange {
                now: known.clone(),
                is_new: false,
                gone: Vec::new(),
            });
        }
        let minute = now / MINUTE_MS;
        if self.minute.0 != minute {
            self.minute = (minute, 0);
        }
        if self.minute.1 >= NEW_A_MINUTE {
            return None;
        }
        self.minute.1 += 1;
        let mut gone = self.remove_old(now);
        gone.retain(|old| (old.peer, &old.agent) != (peer, &key.1));
        while self.by_peer.len() >= MAX_REQUESTS {
            let least = self
                .by_peer
                .values()
                .min_by_key(|one| (one.last_at, one.id.clone()));
            let Some(least) = least.cloned() else { break };
            gone.extend(self.by_peer.remove(&(least.peer, least.agent)));
        }
        let request = AccessRequest {
            id: id_of(peer, agent),
            peer,
            agent: agent.to_owned(),
            skill: skill.to_owned(),
            first_at: now,
            last_at: now,
            tasks: 1,
        };
        self.by_peer.insert(key, request.clone());
        Some(RequestChange {
            now: request,
            is_new: true,
            gone,
        })
    }

    /// Forgets those that were not heard of for long.
    pub fn remove_old(&mut self, now: u64) -> Vec<AccessRequest> {
        self.by_peer
            .extract_if(|_, request| request.is_old(now))
            .map(|(_, request)| request)
            .collect()
    }

    /// Those that are answered: of a peer that may use these agents now, or that ask for an agent that is not there any more.
    pub fn remove_answered(
        &mut self,
        mut is_answered: impl FnMut(&AccessRequest) -> bool,
    ) -> Vec<AccessRequest> {
        self.by_peer
            .extract_if(|_, request| is_answered(request))
            .map(|(_, request)| request)
            .collect()
    }

    /// The one with this id.
    pub fn by_id(&self, now: u64, id: &str) -> Option<&AccessRequest> {
        let mut all = self.by_peer.values();
        all.find(|request| request.id == id && !request.is_old(now))
    }

    /// All of them, the latest first.
    pub fn list(&self, now: u64) -> Vec<AccessRequest> {
        let mut all: Vec<AccessRequest> = self
            .by_peer
            .values()
            .filter(|request| !request.is_old(now))
            .cloned()
            .collect();
        all.sort_by(|one, other| (other.last_at, &one.id).cmp(&(one.last_at, &other.id)));
        all
    }
}

impl AccessRequest {
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.last_at) > KEPT_MS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn peer(number: u16) -> PeerId {
        let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
        bytes.extend(number.to_be_bytes());
        bytes.extend([7; 30]);
        PeerId::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn the_least_lately_heard_of_goes_where_there_are_too_many() {
        let mut requests = AccessRequests::default();
        let all = u16::try_from(MAX_REQUESTS).unwrap();
        for number in 0..=all {
            let now = u64::from(number) * MINUTE_MS;
            let change = requests.note(now, peer(number), "a", "").unwrap();
            assert!(change.is_new);
            let gone: Vec<PeerId> = change.gone.iter().map(|one| one.peer).collect();
            assert_eq!(gone, if number == all { vec![peer(0)] } else { Vec::new() });
        }
        assert_eq!(requests.list(0).len(), MAX_REQUESTS);
        let id = requests.list(0)[3].id.clone();
        assert_eq!(requests.by_id(0, &id).unwrap().peer, peer(all - 3));
        assert_eq!(requests.by_id(KEPT_MS + 300 * MINUTE_MS, &id), None);
    }

    proptest! {
        /// Against a list that is asked in plain words.
        #[test]
        fn as_a_list(steps in prop::collection::vec((0..40u16, "[ab]", 0..40u64), 0..200)) {
            let mut requests = AccessRequests::default();
            let mut model: Vec<(u16, String, u64, u64, u32)> = Vec::new();
            let (mut now, mut minute, mut new) = (0u64, 0u64, 0u32);
            for (number, agent, minutes) in steps {
                // Mostly the same minute, now and then days later.
                now += match minutes { 0..30 => 1000, 30..38 => MINUTE_MS, _ => 3 * 24 * 60 * MINUTE_MS };
                model.retain(|one| now - one.3 <= KEPT_MS);
                let noted = requests.note(now, peer(number), &agent, "s");
                let known = model.iter_mut().find(|one| one.0 == number && one.1 == agent);
                if let Some(known) = known {
                    known.3 = now;
                    known.4 += 1;
                    prop_assert!(!noted.unwrap().is_new);
                } else {
                    if minute != now / MINUTE_MS {
                        (minute, new) = (now / MINUTE_MS, 0);
                    }
                    prop_assert_eq!(noted.is_some(), new < NEW_A_MINUTE);
                    if noted.is_some() {
                        new += 1;
                        model.push((number, agent, now, now, 1));
                    }
                }
                let mut listed: Vec<_> = requests
                    .list(now)
                    .into_iter()
                    .map(|one| (one.peer.to_bytes(), one.agent, one.first_at, one.last_at, one.tasks))
                    .collect();
                let mut expected: Vec<_> = model
                    .iter()
                    .map(|(number, agent, first, last, tasks)| (peer(*number).to_bytes(), agent.clone(), *first, *last, *tasks))
                    .collect();
                listed.sort();
                expected.sort();
                prop_assert_eq!(listed, expected);
            }
        }
    }
}
