//! Whether another daemon runs with this node's key: peers and registries say so when they meet both.
//!
//! The one rule: what they say counts only where this key has signed the other run's [`Instance`], and for as long as they
//! go on saying it. `InstanceReports` is pure.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agentanycast_identity::{self as identity, Instance, Keypair, PeerId};

/// Most of those who are remembered to have said it.
const MAX_REPORTERS: usize = 32;
/// Most instances that are looked at of what one says at a time.
const MAX_INSTANCES: usize = 4;
/// Most of them who are named.
const MAX_NAMED: usize = 3;

/// See the module's text; cheap to clone.
#[derive(Clone, Debug)]
pub struct DuplicateKeyReports(Arc<ReportsInner>);

#[derive(Debug)]
struct ReportsInner {
    me: PeerId,
    own_instance: Option<Instance>,
    reports: Mutex<InstanceReports>,
}

impl DuplicateKeyReports {
    /// Of a node with this key that starts now.
    pub fn new(key: &Keypair) -> Self {
        Self(Arc::new(ReportsInner {
            me: identity::peer_id(key),
            own_instance: Instance::new(key),
            reports: Mutex::default(),
        }))
    }

    /// This run, as others are told of it; empty where the key cannot sign.
    pub fn own_instance(&self) -> Vec<u8> {
        let own = self.0.own_instance.as_ref();
        own.map(|own| own.as_bytes().to_vec()).unwrap_or_default()
    }

    /// `by` sees these runs with this node's key; it says so again within `holds` if it still does.
    pub fn report<'a>(&self, by: &str, runs: impl IntoIterator<Item = &'a [u8]>, holds: Duration) {
        let runs = runs.into_iter().take(MAX_INSTANCES);
        let mut others = runs
            .filter_map(|run| Instance::read(self.0.me, run))
            .filter(|run| Some(*run) != self.0.own_instance);
        let (other, now) = (others.next(), Instant::now());
        if self.reports().note(by, other, now, now + holds)
            && let Some(problem) = self.problem()
        {
            tracing::warn!("{problem}");
        }
    }

    /// What is wrong, in a sentence.
    pub fn problem(&self) -> Option<String> {
        let said = self.reports();
        let (other, by) = said.at(Instant::now())?;
        let named = by[..by.len().min(MAX_NAMED)].join(", ");
        let more = match by.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let own = self.0.own_instance.map(|own| own.to_string()).unwrap_or_default();
        Some(format!(
            "another daemon runs with this node's key (instance {other}; this one is {own}), and tasks go to either: seen by \
             {named}{more}; stop one of the two, or give it a key of its own (--key)"
        ))
    }

    fn reports(&self) -> MutexGuard<'_, InstanceReports> {
        self.0.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who says it, of which run, and until when it counts.
#[derive(Debug, Default)]
struct InstanceReports(BTreeMap<String, (Instance, Instant)>);

impl InstanceReports {
    /// What `by` says now; true when nobody said it before.
    fn note(&mut self, by: &str, other: Option<Instance>, now: Instant, until: Instant) -> bool {
        self.0.retain(|_, (_, until)| *until > now);
        let was_said = !self.0.is_empty();
        match other {
            Some(other) if self.0.len() < MAX_REPORTERS || self.0.contains_key(by) => {
                self.0.insert(by.to_owned(), (other, until));
            }
            Some(_) => {}
            None => {
                self.0.remove(by);
            }
        }
        !was_said && !self.0.is_empty()
    }

    /// One of the other runs, and all who see another one.
    fn at(&self, now: Instant) -> Option<(Instance, Vec<&str>)> {
        let mut live = self.0.iter().filter(|(_, (_, until))| *until > now);
        let (first, (other, _)) = live.next()?;
        let by = std::iter::once(first).chain(live.map(|(by, _)| by));
        Some((*other, by.map(String::as_str).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDS: Duration = Duration::from_mins(1);

    #[test]
    fn only_a_run_that_this_key_has_signed_counts() {
        let key = Keypair::generate_ed25519();
        let daemons = DuplicateKeyReports::new(&key);
        let own = daemons.own_instance();
        let strange = Instance::new(&Keypair::generate_ed25519()).unwrap();
        for runs in [
            vec![],
            vec![&own[..]],
            vec![&own[..], strange.as_bytes()],
            vec![&b"x"[..]],
        ] {
            daemons.report("relay:50052", runs, HOLDS);
            assert_eq!(daemons.problem(), None);
        }
        let other = Instance::new(&key).unwrap();
        daemons.report("relay:50052", [&own[..], other.as_bytes()], HOLDS);
        let problem = daemons.problem().unwrap();
        for part in [&other.to_string(), "relay:50052", "--key"] {
            assert!(problem.contains(part), "{problem}");
        }
        daemons.report("relay:50052", [&own[..]], HOLDS);
        assert_eq!(daemons.problem(), None, "it has said otherwise since");
        daemons.report("relay:50052", [other.as_bytes()], Duration::ZERO);
        assert_eq!(daemons.problem(), None, "its time is over");
    }

    #[test]
    fn it_is_news_once_and_ends_with_the_last_who_says_it() {
        let mut said = InstanceReports::default();
        let other = Instance::new(&Keypair::generate_ed25519()).unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(said.note("a", Some(other), at(0), at(60)));
        assert!(!said.note("b", Some(other), at(1), at(61)));
        assert!(!said.note("a", None, at(2), at(62)));
        assert_eq!(said.at(at(60)), Some((other, vec!["b"])));
        assert_eq!(said.at(at(61)), None);
        assert!(said.note("a", Some(other), at(70), at(130)), "it is news again");
        for number in 0..100 {
            said.note(&number.to_string(), Some(other), at(71), at(131));
        }
        assert_eq!(said.0.len(), MAX_REPORTERS);
    }
}
