//! Which devices are agents, and which agents still are registered though their devices are gone. PURE.
//!
//! Invariant: at most so many names are taken, of connected devices and of such that are gone together.

use std::collections::{HashMap, VecDeque};

/// The devices, by what is kept of each.
pub(super) struct DeviceTable<D> {
    most: usize,
    /// By client id; `None`: it is being attached.
    present: HashMap<String, (String, Option<D>)>,
    /// Names of agents whose devices are gone, with numbers of their departures, oldest first.
    departed: VecDeque<(String, u64)>,
    departures: u64,
}

impl<D: Clone> DeviceTable<D> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            present: HashMap::new(),
            departed: VecDeque::new(),
            departures: 0,
        }
    }

    /// Takes a place for a device. The name of an agent that has to be forgotten for it, if one has.
    ///
    /// # Errors
    /// When there is no place.
    pub(super) fn enter(&mut self, client_id: &str, name: &str) -> Result<Option<String>, String> {
        if self.present.values().any(|(taken, _)| taken == name) {
            return Err(format!(
                "the agent {name} is another device; choose another client_id"
            ));
        }
        let mut forgotten = None;
        if let Some(at) = self.departed.iter().position(|(departed, _)| departed == name) {
            self.departed.remove(at);
        } else if self.present.len() >= self.most {
            return Err(format!(
                "{} devices are agents already, the most; raise gateways.aip.max_agents or disconnect one",
                self.most
            ));
        } else if self.present.len() + self.departed.len() >= self.most {
            forgotten = self.departed.pop_front().map(|(name, _)| name);
        }
        self.present.insert(client_id.to_owned(), (name.to_owned(), None));
        Ok(forgotten)
    }

    /// The device is attached.
    pub(super) fn attached(&mut self, client_id: &str, device: D) {
        if let Some((_, place)) = self.present.get_mut(client_id) {
            *place = Some(device);
        }
    }

    /// The device was not attached.
    pub(super) fn give_up(&mut self, client_id: &str) {
        self.present.remove(client_id);
    }

    /// The device is gone: what was kept, and the number of this departure.
    pub(super) fn leave(&mut self, client_id: &str) -> Option<(D, u64)> {
        let (name, device) = self.present.remove(client_id)?;
        let device = device?;
        self.departures += 1;
        self.departed.push_back((name, self.departures));
        Some((device, self.departures))
    }

    /// Whether the agent is to be forgotten: it has not come back since this departure.
    pub(super) fn forget(&mut self, departure: u64) -> bool {
        let at = self.departed.iter().position(|(_, number)| *number == departure);
        at.is_some_and(|at| self.departed.remove(at).is_some())
    }

    /// A connected device.
    pub(super) fn get(&self, client_id: &str) -> Option<D> {
        self.present.get(client_id)?.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_place_is_kept_for_a_while_and_given_up_when_it_is_needed() {
        let mut table = DeviceTable::new(2);
        for id in ["a", "b"] {
            assert_eq!(table.enter(id, id), Ok(None));
            table.attached(id, 0);
        }
        assert!(table.enter("c", "c").unwrap_err().contains("max_agents"));
        let (_, first) = table.leave("a").unwrap();
        assert_eq!(table.enter("a", "a"), Ok(None));
        table.attached("a", 0);
        assert!(!table.forget(first), "it came back");
        table.leave("a").unwrap();
        assert_eq!(table.enter("c", "c"), Ok(Some("a".to_owned())));
        assert!(table.enter("d", "c").unwrap_err().contains("another device"));
    }

    proptest! {
        #[test]
        fn there_are_never_too_many(steps in prop::collection::vec((0_u8..6, any::<bool>()), 0..60)) {
            let mut table = DeviceTable::new(3);
            for (device, enters) in steps {
                let id = device.to_string();
                if enters {
                    if table.enter(&id, &id).is_ok() {
                        table.attached(&id, device);
                    }
                } else {
                    table.leave(&id);
                }
                prop_assert!(table.present.len() + table.departed.len() <= 3);
            }
        }
    }
}
