//! The ends of tasks that listeners have no room to be told of yet, in `deliver = "one"`: which they are, oldest first, and how
//! many. PURE.

use std::collections::{BTreeMap, HashMap};

use super::super::offer::MAX_ENDED_OFFERS;
use crate::transaction::ListenerId;

/// See the module's text. There are [`MAX_ENDED_OFFERS`] at most.
#[derive(Debug, Default)]
pub(super) struct EndNotices {
    by_order: BTreeMap<u64, (ListenerId, String)>,
    by_task: HashMap<String, Vec<u64>>,
}

/// A notice that is not told: the listener for which it was, and its place among that one's follow-ups.
pub(super) type DroppedNotice = (ListenerId, u64);

impl EndNotices {
    /// A listener is to be told. The oldest notice is dropped where there are too many.
    pub(super) fn push(&mut self, order: u64, listener: ListenerId, task: &str) -> Option<DroppedNotice> {
        self.by_order.insert(order, (listener, task.to_owned()));
        self.by_task.entry(task.to_owned()).or_default().push(order);
        if self.by_order.len() <= MAX_ENDED_OFFERS {
            return None;
        }
        let (&oldest, &(listener, _)) = self.by_order.first_key_value()?;
        self.remove(oldest);
        Some((listener, oldest))
    }

    /// The notice is told, or its listener is gone.
    pub(super) fn remove(&mut self, order: u64) {
        let Some((_, task)) = self.by_order.remove(&order) else {
            return;
        };
        if let Some(orders) = self.by_task.get_mut(&task) {
            orders.retain(|other| *other != order);
            if orders.is_empty() {
                self.by_task.remove(&task);
            }
        }
    }

    /// The task goes on, or is forgotten: no listener is to be told that it has ended.
    pub(super) fn remove_task(&mut self, task: &str) -> Vec<DroppedNotice> {
        let orders = self.by_task.remove(task).unwrap_or_default();
        let removed = orders.into_iter().filter_map(|order| {
            let (listener, _) = self.by_order.remove(&order)?;
            Some((listener, order))
        });
        removed.collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_order.len()
    }
}
