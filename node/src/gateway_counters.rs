//! What gateways in this process count.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_gateway::{
    metrics::{GatewayMetrics, MetricFamily},
    registration::RequestCounts,
};

/// The gateway whose requests have a figure of their own, as in deployed daemons.
const A2A: &str = "a2a";

/// How requests went at gateways, and the figures that they have of their own. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct GatewayCounters(Arc<Mutex<CounterTable>>);

#[derive(Default)]
struct CounterTable {
    requests: BTreeMap<&'static str, Arc<RequestCounts>>,
    own: Vec<Arc<dyn GatewayMetrics>>,
}

impl GatewayCounters {
    // Each change is one insertion.
    fn table(&self) -> MutexGuard<'_, CounterTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What counts the answers of the gateway of this name.
    pub(crate) fn of_gateway(&self, name: &'static str) -> Arc<RequestCounts> {
        Arc::clone(self.table().requests.entry(name).or_default())
    }

    /// With the figures that gateways have of their own.
    pub(crate) fn set_own(&self, own: Vec<Arc<dyn GatewayMetrics>>) {
        self.table().own = own;
    }

    /// Statuses of answers of A2A, and how many had each.
    pub(crate) fn a2a_requests(&self) -> Vec<(String, u64)> {
        let requests = self.table().requests.get(A2A).cloned();
        requests.map(|counts| counts.counts()).unwrap_or_default()
    }

    /// The other gateways, statuses of their answers, and how many had each.
    pub(crate) fn gateway_requests(&self) -> Vec<(&'static str, String, u64)> {
        let table = self.table();
        let others = table.requests.iter().filter(|(name, _)| **name != A2A);
        let each = others.flat_map(|(name, counts)| {
            let counts = counts.counts().into_iter();
            counts.map(|(status, count)| (*name, status, count))
        });
        each.collect()
    }

    /// Figures that gateways have of their own.
    pub(crate) fn own_figures(&self) -> Vec<MetricFamily> {
        let own = self.table().own.clone();
        own.iter().flat_map(|metrics| metrics.families()).collect()
    }
}
