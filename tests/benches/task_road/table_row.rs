//! A line of a table, with the slices it was made from: figures are medians over the slices, and a ratio is
//! shown with the smallest and the largest that any one round gave.

use serde_json::{Value, json};

use crate::{
    barrier::BarrierTimes,
    case::BenchCase,
    load::{LoadSlice, median},
    usage::{Cpu, CpuTimes, NodeMemory},
};

/// The targets (docs/design.md): at most so much longer than the bare parts, at least such a share of their
/// rates.
const P50_TARGET: f64 = 1.5;
const RATE_TARGET: f64 = 0.5;
const STREAM_TARGET: f64 = 0.6;

/// Barriers of a task's road that its end waits for.
pub(crate) const BARRIERS: f64 = 4.0;

/// A ratio with its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    /// Of the medians.
    pub(crate) value: f64,
    /// Of single rounds.
    pub(crate) least: f64,
    pub(crate) most: f64,
    target: f64,
    at_most: bool,
}

impl Ratio {
    fn new(value: f64, rounds: impl Iterator<Item = f64>, target: f64, at_most: bool) -> Self {
        let rounds: Vec<f64> = rounds.collect();
        Self {
            value,
            least: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            most: rounds.iter().copied().fold(0.0, f64::max),
            target,
            at_most,
        }
    }

    pub(crate) fn is_met(self) -> bool {
        if self.at_most {
            self.value <= self.target
        } else {
            self.value >= self.target
        }
    }

    pub(crate) fn target(self) -> String {
        format!("{}{}", if self.at_most { '≤' } else { '≥' }, self.target)
    }

    fn json(self) -> Value {
        json!({
            "value": self.value, "least": self.least, "most": self.most,
            "target": self.target(), "met": self.is_met(),
        })
    }
}

/// One road in one cell.
#[derive(Debug, Default)]
pub(crate) struct PathResult {
    slices: Vec<LoadSlice>,
    times: CpuTimes,
}

impl PathResult {
    pub(crate) fn add(&mut self, slice: LoadSlice, times: CpuTimes) {
        self.slices.push(slice);
        self.times.add(times);
    }

    fn over(&self, figure: impl Fn(&LoadSlice) -> f64) -> f64 {
        median(self.slices.iter().map(figure))
    }

    /// Tasks per second.
    pub(crate) fn rate(&self) -> f64 {
        self.over(|slice| slice.rate)
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.over(LoadSlice::p50_ms)
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.over(LoadSlice::p99_ms)
    }

    /// Microseconds of processor time per task: of both nodes, for themselves and in the kernel.
    pub(crate) fn nodes_us(&self) -> (f64, f64) {
        let Cpu { user, system } = self.times.nodes;
        (self.per_task_us(user), self.per_task_us(system))
    }

    /// Of sender and agent together.
    pub(crate) fn ends_us(&self) -> f64 {
        self.per_task_us(self.times.ends.total())
    }

    fn per_task_us(&self, time: std::time::Duration) -> f64 {
        let tasks: usize = self.slices.iter().map(|slice| slice.all).sum();
        time.as_secs_f64() * 1e6 / tasks.max(1) as f64
    }

    fn json(&self) -> Value {
        let (user, system) = self.nodes_us();
        let each = |figure: &dyn Fn(&LoadSlice) -> f64| self.slices.iter().map(figure).collect::<Vec<_>>();
        json!({
            "rate": self.rate(), "p50_ms": self.p50_ms(), "p99_ms": self.p99_ms(),
            "nodes_user_us": user, "nodes_system_us": system, "ends_us": self.ends_us(),
            "slices": {"rate": each(&|slice| slice.rate), "p50_ms": each(&LoadSlice::p50_ms), "p99_ms": each(&LoadSlice::p99_ms)},
        })
    }
}

/// A line of the tasks' table.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) cell: BenchCase,
    pub(crate) in_flight: usize,
    pub(crate) bare: PathResult,
    pub(crate) ours: PathResult,
    pub(crate) barriers: Vec<BarrierTimes>,
    pub(crate) memory: NodeMemory,
}

impl TaskRow {
    /// One bare barrier, in microseconds.
    pub(crate) fn barrier_us(&self) -> f64 {
        median(self.barriers.iter().map(|one| one.single_us()))
    }

    /// Records per second in batches of 64.
    pub(crate) fn batched_rate(&self) -> f64 {
        median(self.barriers.iter().map(|one| one.batched_rate()))
    }

    /// At one in flight the latency to that of the bare parts, else the rate to the bare one.
    pub(crate) fn ratio(&self) -> Ratio {
        let rounds = self.ours.slices.iter().zip(&self.bare.slices).zip(&self.barriers);
        if self.in_flight == 1 {
            let ratio = |ours: f64, bare: f64, barrier_us: f64| ours / (bare + BARRIERS * barrier_us / 1e3);
            let each = rounds
                .map(|((ours, bare), barrier)| ratio(ours.p50_ms(), bare.p50_ms(), barrier.single_us()));
            let value = ratio(self.ours.p50_ms(), self.bare.p50_ms(), self.barrier_us());
            Ratio::new(value, each, P50_TARGET, true)
        } else {
            let each = rounds.map(|((ours, bare), _)| ours.rate / bare.rate);
            Ratio::new(self.ours.rate() / self.bare.rate(), each, RATE_TARGET, false)
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "cell": self.cell.to_string(), "bare": self.bare.json(), "ours": self.ours.json(),
            "barrier_us": self.barrier_us(), "batched_rate": self.batched_rate(),
            "ratio": self.ratio().json(), "memory": self.memory.json(),
        })
    }
}

/// A line of the streams' table.
#[derive(Debug)]
pub(crate) struct StreamRow {
    pub(crate) cell: BenchCase,
    /// Size of the artifact, in MiB.
    pub(crate) mib: usize,
    pub(crate) bare: StreamPathResult,
    pub(crate) ours: StreamPathResult,
    /// Before the first one, and after the last.
    pub(crate) before: NodeMemory,
    pub(crate) after: NodeMemory,
}

/// One road in the streams' table.
#[derive(Debug, Default)]
pub(crate) struct StreamPathResult {
    /// MiB per second, of each artifact.
    pub(crate) rates: Vec<f64>,
    pub(crate) times: CpuTimes,
}

impl StreamPathResult {
    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.iter().copied())
    }
}

impl StreamRow {
    pub(crate) fn ratio(&self) -> Ratio {
        let each = self.ours.rates.iter().zip(&self.bare.rates);
        let each = each.map(|(ours, bare)| ours / bare);
        Ratio::new(self.ours.rate() / self.bare.rate(), each, STREAM_TARGET, false)
    }

    /// Microseconds of processor time of both nodes per MiB.
    pub(crate) fn nodes_us(&self, road: &StreamPathResult) -> f64 {
        road.times.nodes.total().as_secs_f64() * 1e6 / (self.mib * road.rates.len()) as f64
    }

    pub(crate) fn json(&self) -> Value {
        let road = |road: &StreamPathResult| json!({"rate": road.rate(), "rates": road.rates, "nodes_us": self.nodes_us(road)});
        json!({
            "cell": self.cell.to_string(), "mib": self.mib, "bare": road(&self.bare), "ours": road(&self.ours),
            "ratio": self.ratio().json(), "before": self.before.json(), "after": self.after.json(),
        })
    }
}
