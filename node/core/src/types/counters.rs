//! PURE: what the engine has done since it started, in figures. They only grow, and cost an addition each.

use std::time::Duration;

use agentanycast_proto::v1::EnvelopeType;

use crate::{
    policy::{Decision, DecisionReason, PolicyOutcome},
    task::{Role, Status},
};

/// Upper bounds of how long tasks take, in seconds: from an answer out of memory to a day's work.
const TASK_SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0, 3600.0, 86_400.0,
];

/// Upper bounds of how long a barrier takes, in seconds.
const BARRIER_SECONDS: [f64; 10] = [
    0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0,
];

/// Numbers of statuses and of types on the wire are below these.
const STATUSES: usize = 16;
const TYPES: usize = 128;

/// Which way something goes, as this node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From here to elsewhere: tasks that were sent here.
    Outbound,
    /// From elsewhere to here: tasks for the agent beside this node.
    Inbound,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Outbound, Self::Inbound];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
        }
    }
}

/// How measured values are spread.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketCounts {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl BucketCounts {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    fn add(&mut self, seconds: f64) {
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[place] += 1;
        self.sum += seconds;
    }

    /// Number of values up to each bound and above the bound before it; the last bound is infinity.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied())
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All values together, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// New tasks that were not let in, by what decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounts {
    /// Trust, or a rule.
    pub denied: u64,
    /// A limit of their source.
    pub limited: u64,
    /// The decision could not be written down.
    pub unaudited: u64,
}

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCounters {
    tasks: [[u64; STATUSES]; 2],
    external: [u64; STATUSES],
    seconds: [BucketCounts; 2],
    messages: [[u64; TYPES]; 2],
    barriers: BucketCounts,
    /// Envelopes that could not be read.
    pub malformed: u64,
    /// Envelopes seen before.
    pub duplicates: u64,
    /// Envelopes refused for what is in them.
    pub refused: u64,
    /// New tasks that were not let in, whoever sent them.
    pub turned_away: AdmissionCounts,
    /// Envelopes that expired undelivered.
    pub expired: u64,
    /// Ends of agents, counted once for each task that one had and had not reported on.
    pub agent_ends: u64,
    /// Tasks that failed since too many agents had ended while they had them.
    pub failed_by_ends: u64,
}

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            tasks: [[0; STATUSES]; 2],
            external: [0; STATUSES],
            seconds: [const { &TASK_SECONDS }; 2].map(|bounds| BucketCounts::new(bounds)),
            messages: [[0; TYPES]; 2],
            barriers: BucketCounts::new(&BARRIER_SECONDS),
            malformed: 0,
            duplicates: 0,
            refused: 0,
            turned_away: AdmissionCounts::default(),
            expired: 0,
            agent_ends: 0,
            failed_by_ends: 0,
        }
    }
}

impl EngineCounters {
    /// A task has come to a status. `took`: since it was sent.
    pub(crate) fn task(&mut self, role: Role, status: Status, took: Duration) {
        let direction = match role {
            Role::Assignee(_) => Direction::Inbound,
            Role::Originator(_) | Role::Both | Role::External => Direction::Outbound,
        } as usize;
        if let Some(count) = self.tasks[direction].get_mut(status.to_wire() as usize) {
            *count += 1;
        }
        if role == Role::External
            && status.is_terminal()
            && let Some(count) = self.external.get_mut(status.to_wire() as usize)
        {
            *count += 1;
        }
        if status.is_terminal() {
            self.seconds[direction].add(took.as_secs_f64());
        }
    }

    /// An envelope came, or was put into a queue.
    pub(crate) fn message(&mut self, direction: Direction, kind: EnvelopeType) {
        if let Some(count) = self.messages[direction as usize].get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// A new task was not let in.
    pub(crate) fn turned_away(&mut self, decision: &Decision) {
        let all = &mut self.turned_away;
        *match (decision.reason, decision.outcome) {
            (DecisionReason::Audit, _) => &mut all.unaudited,
            (_, PolicyOutcome::RateLimit) => &mut all.limited,
            _ => &mut all.denied,
        } += 1;
    }

    /// The store has passed a barrier.
    pub(crate) fn barrier(&mut self, took: Duration) {
        self.barriers.add(took.as_secs_f64());
    }

    /// How often tasks came to each status; each task counts once for each that it comes to.
    pub fn tasks(&self) -> impl Iterator<Item = (Direction, Status, u64)> + '_ {
        Direction::ALL.into_iter().flat_map(move |direction| {
            let counts = self.tasks[direction as usize].iter().enumerate();
            counts.filter_map(move |(number, count)| {
                let status = Status::from_wire(i32::try_from(number).ok()?)?;
                Some((direction, status, *count))
            })
        })
    }

    /// How tasks for agents outside the mesh ended.
    pub fn outside(&self) -> impl Iterator<Item = (Status, u64)> + '_ {
        let counts = self.external.iter().enumerate();
        counts.filter_map(|(number, count)| {
            let status = Status::from_wire(i32::try_from(number).ok()?)?;
            status.is_terminal().then_some((status, *count))
        })
    }

    /// How long ended tasks took, from being sent.
    pub fn task_seconds(&self, direction: Direction) -> &BucketCounts {
        &self.seconds[direction as usize]
    }

    /// Envelopes by type; those of artifacts' streams only as they come.
    pub fn messages(&self) -> impl Iterator<Item = (Direction, EnvelopeType, u64)> + '_ {
        Direction::ALL.into_iter().flat_map(move |direction| {
            let counts = self.messages[direction as usize].iter().enumerate();
            counts.filter_map(move |(number, count)| {
                let kind = EnvelopeType::try_from(i32::try_from(number).ok()?).ok()?;
                (*count > 0).then_some((direction, kind, *count))
            })
        })
    }

    /// How long barriers of the store took.
    pub fn barriers(&self) -> &BucketCounts {
        &self.barriers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spread_by_their_bounds() {
        let mut spread = BucketCounts::new(&BARRIER_SECONDS);
        for seconds in [0.000_1, 0.000_11, 2.0] {
            spread.add(seconds);
        }
        let filled: Vec<_> = spread.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.000_1, 1), (0.000_2, 1), (f64::INFINITY, 1)]);
        assert_eq!(spread.count(), 3);
        assert!((spread.sum() - 2.000_21).abs() < 1e-9);
    }

    #[test]
    fn every_status_and_type_of_the_wire_has_a_place() {
        let mut tally = EngineCounters::default();
        for status in (0..32).filter_map(Status::from_wire) {
            tally.task(Role::Both, status, Duration::ZERO);
        }
        let told = tally.tasks().filter(|(.., count)| *count == 1).count();
        assert_eq!(told, (0..32).filter_map(Status::from_wire).count());
        let kinds: Vec<_> = (0..128)
            .filter_map(|kind| EnvelopeType::try_from(kind).ok())
            .collect();
        for kind in &kinds {
            tally.message(Direction::Inbound, *kind);
        }
        assert_eq!(tally.messages().count(), kinds.len());
    }
}
