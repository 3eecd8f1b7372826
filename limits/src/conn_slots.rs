//! A number of places of which each network may take a share only.
//!
//! PURE but for a lock. The rules: a place is free again when its [`Slot`] is dropped, and nobody keeps one by silence
//! alone: when all are taken, whoever has asked nothing for longest gives way. Who never says that it waits keeps its
//! place.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio_util::sync::CancellationToken;

use crate::Network;

/// How many seats are looked at for one that gives way, from the one that was taken first: what it costs an attacker to
/// come again is more than that.
const LOOKS: usize = 256;

/// All places; clones share them.
#[derive(Clone, Debug)]
pub struct ConnSlots(Arc<SlotTable>);

#[derive(Debug)]
struct SlotTable {
    all: usize,
    of_one: usize,
    taken: Mutex<SlotUse>,
}

#[derive(Debug, Default)]
struct SlotUse {
    next: u64,
    all: BTreeMap<u64, SlotHolder>,
    networks: HashMap<Network, BTreeSet<u64>>,
}

/// A place that is taken.
#[derive(Debug)]
pub struct Slot {
    seats: Arc<SlotTable>,
    id: u64,
    holder: SlotHolder,
}

/// Who has a place, as far as it matters for giving way.
#[derive(Clone, Debug)]
pub struct SlotHolder(Arc<HolderState>);

#[derive(Debug)]
struct HolderState {
    network: Network,
    /// None while it is served, or when it does not say.
    waits_since: Mutex<Option<Instant>>,
    gone: CancellationToken,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// All are taken.
    All,
    /// The network has its share.
    Source,
}

impl ConnSlots {
    /// So many, and so many of one network.
    pub fn new(all: usize, of_one: usize) -> Self {
        Self(Arc::new(SlotTable {
            all,
            of_one,
            taken: Mutex::default(),
        }))
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        lock(&self.0.taken).all.len()
    }

    /// A place for somebody from `network`.
    ///
    /// # Errors
    /// There is none, and of those who have one nobody waits.
    pub fn take(&self, network: Network) -> Result<Slot, NoSlot> {
        let mut taken = lock(&self.0.taken);
        let mine = taken.networks.get(&network);
        let has_share = mine.is_some_and(|mine| mine.len() >= self.0.of_one);
        let full = if taken.all.len() >= self.0.all {
            Some(NoSlot::All)
        } else {
            has_share.then_some(NoSlot::Source)
        };
        if let Some(full) = full {
            let id = match mine {
                Some(mine) if has_share => {
                    longest_waiting(mine.iter().filter_map(|id| Some((*id, taken.all.get(id)?))))
                }
                _ => longest_waiting(taken.all.iter().map(|(id, sitter)| (*id, sitter))),
            };
            let sitter = id.and_then(|id| taken.leave(id)).ok_or(full)?;
            sitter.0.gone.cancel();
        }
        Ok(taken.sit(&self.0, network))
    }
}

/// Who of them has waited longest.
fn longest_waiting<'a>(sitters: impl Iterator<Item = (u64, &'a SlotHolder)>) -> Option<u64> {
    let waiting = sitters
        .take(LOOKS)
        .filter_map(|(id, sitter)| Some(((*lock(&sitter.0.waits_since))?, id)));
    waiting.min().map(|(_, id)| id)
}

impl SlotUse {
    fn sit(&mut self, seats: &Arc<SlotTable>, network: Network) -> Slot {
        let id = self.next;
        self.next += 1;
        let sitter = SlotHolder(Arc::new(HolderState {
            network,
            waits_since: Mutex::default(),
            gone: CancellationToken::new(),
        }));
        self.all.insert(id, sitter.clone());
        self.networks.entry(network).or_default().insert(id);
        Slot {
            seats: Arc::clone(seats),
            id,
            holder: sitter,
        }
    }

    /// None: it has left before.
    fn leave(&mut self, id: u64) -> Option<SlotHolder> {
        let sitter = self.all.remove(&id)?;
        let network = sitter.0.network;
        if let Some(mine) = self.networks.get_mut(&network) {
            mine.remove(&id);
            if mine.is_empty() {
                self.networks.remove(&network);
            }
        }
        Some(sitter)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// Who sits here.
    pub fn sitter(&self) -> &SlotHolder {
        &self.holder
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.seats.taken).leave(self.id);
    }
}

impl SlotHolder {
    /// It waits for somebody to ask something, since then: its place may be given away.
    pub fn waits(&self, since: Instant) {
        *lock(&self.0.waits_since) = Some(since);
    }

    /// It is served.
    pub fn is_served(&self) {
        *lock(&self.0.waits_since) = None;
    }

    /// Until its place was given to somebody else.
    pub async fn gone(&self) {
        self.0.gone.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, time::Duration};

    use proptest::prelude::*;

    use super::*;

    fn network(last: u8) -> Network {
        IpAddr::from([192, 0, 2, last]).into()
    }

    #[test]
    fn a_network_takes_its_share_and_no_more() {
        let seats = ConnSlots::new(3, 2);
        let (_one, two) = (seats.take(network(1)), seats.take(network(1)));
        assert_eq!(seats.take(network(1)).unwrap_err(), NoSlot::Source);
        let _other = seats.take(network(2)).unwrap();
        assert_eq!(seats.take(network(3)).unwrap_err(), NoSlot::All);
        drop(two);
        assert!(seats.take(network(1)).is_ok());
    }

    /// As the model has it: who sits, from where, and since when it waits.
    struct Sitting {
        who: u8,
        waits: Option<Instant>,
        seat: Slot,
    }

    proptest! {
        /// Against a list of who sits where.
        #[test]
        fn places_are_counted_and_the_silent_give_way(
            steps in prop::collection::vec((0..4_u8, 0..4_u8, 0..6_usize), 0..200),
        ) {
            const ALL: usize = 6;
            const SHARE: usize = 3;
            let seats = ConnSlots::new(ALL, SHARE);
            let began = Instant::now();
            let mut sitting: Vec<Sitting> = Vec::new();
            for (time, (step, who, at)) in steps.into_iter().enumerate() {
                prop_assert_eq!(seats.taken(), sitting.len());
                let now = began + Duration::from_secs(time as u64);
                match (step, sitting.get_mut(at)) {
                    (0, Some(_)) => drop(sitting.remove(at)),
                    (1, Some(one)) => {
                        one.waits = Some(now);
                        one.seat.sitter().waits(now);
                    }
                    (2, Some(one)) => {
                        one.waits = None;
                        one.seat.sitter().is_served();
                    }
                    _ => {
                        let mine = sitting.iter().filter(|one| one.who == who).count();
                        let full = match (sitting.len() >= ALL, mine >= SHARE) {
                            (true, _) => Some(NoSlot::All),
                            (false, true) => Some(NoSlot::Source),
                            (false, false) => None,
                        };
                        let goes = full.and_then(|_| {
                            let candidates = sitting.iter().enumerate();
                            let candidates = candidates.filter(|(_, one)| mine < SHARE || one.who == who);
                            candidates.filter_map(|(at, one)| Some((one.waits?, at))).min()
                        });
                        match seats.take(network(who)) {
                            Ok(seat) => {
                                prop_assert_eq!(full.is_some(), goes.is_some());
                                if let Some((_, at)) = goes {
                                    prop_assert!(sitting.remove(at).seat.holder.0.gone.is_cancelled());
                                }
                                sitting.push(Sitting { who, waits: None, seat });
                            }
                            Err(refused) => prop_assert_eq!((Some(refused), None), (full, goes)),
                        }
                    }
                }
                prop_assert!(sitting.iter().all(|one| !one.seat.holder.0.gone.is_cancelled()));
            }
            sitting.clear();
            let taken = lock(&seats.0.taken);
            prop_assert!(taken.all.is_empty() && taken.networks.is_empty());
        }
    }
}
