//! What a seed decides beforehand: how many hosts, which faults, which bounds. Each run has only some of
//! the faults, so that none hides what another would show.

use std::time::Duration;

use super::rng::SimRng;
use crate::{
    tests::harness::limits,
    transaction::{DeliverMode, EngineLimits},
};

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimEvent {
    Arrive,
    Report,
    Notice,
    Write,
    CloseTurn,
    Client,
    Agent,
    Read,
    Stream,
    Time,
    Open,
    AgentNotice,
    Deployed,
    Come,
    Go,
    Boot,
    Link,
    Unlink,
    Break,
    Renew,
    Crash,
    BreakDisk,
    Jump,
    Pause,
}

pub(super) struct RunPlan {
    pub(super) nodes: usize,
    pub(super) deployed: bool,
    pub(super) events: usize,
    pub(super) limits: EngineLimits,
    /// Bounds are low enough to be reached: what is refused for them is no surprise.
    pub(super) tight: bool,
    /// Ended tasks are collected early.
    pub(super) forgetful: bool,
    /// Inputs of 100 that share a turn with the next one.
    pub(super) grouping: usize,
    pub(super) cancels: usize,
    pub(super) deadlines: usize,
    pub(super) streams: usize,
    pub(super) impatience: usize,
    pub(super) agents: usize,
    pub(super) power_cuts: bool,
    /// Some node may forget what is only in memory.
    pub(super) restarts: bool,
    weights: Vec<(usize, SimEvent)>,
    total: usize,
}

impl RunPlan {
    /// For whoever reads a trace.
    pub(super) fn text(&self) -> String {
        let Self {
            tight,
            forgetful,
            deployed,
            agents,
            ..
        } = self;
        format!("tight {tight}, forgetful {forgetful}, deployed {deployed}, {agents} agents")
    }

    pub(super) fn new(dice: &mut SimRng, deliver: DeliverMode) -> Self {
        let mut sometimes = |percent: usize, value: usize| if dice.chance(percent) { value } else { 0 };
        let faults = [
            (sometimes(60, 8), SimEvent::Break),
            (sometimes(70, 8), SimEvent::Unlink),
            (sometimes(25, 6), SimEvent::Renew),
            (sometimes(60, 8), SimEvent::Crash),
            (sometimes(20, 4), SimEvent::BreakDisk),
            (sometimes(25, 5), SimEvent::Jump),
            (sometimes(50, 10), SimEvent::Go),
            (sometimes(30, 4), SimEvent::Pause),
        ];
        let (cancels, deadlines) = (sometimes(50, 20), sometimes(25, 30));
        let (streams, impatience) = (sometimes(40, 30), sometimes(20, 30));
        let tight = sometimes(15, 1) > 0;
        let forgetful = sometimes(10, 1) > 0;
        let deployed = sometimes(40, 1) > 0;
        let power_cuts = sometimes(20, 1) > 0;
        let grouping = sometimes(50, 60);
        let ttl = match dice.below(10) {
            0 => None,
            1..=6 => Some(Duration::from_mins(30)),
            _ => Some(Duration::from_secs(20 + dice.below(60) as u64)),
        };
        let mut limits = EngineLimits {
            offline_ttl: ttl,
            agent_grace: Duration::from_secs(20),
            max_open_tasks: if tight { 2 + dice.below(5) } else { 1000 },
            quota: if tight && dice.chance(30) { 4000 } else { 10 << 30 },
            retention_count: if forgetful { 1 + dice.below(3) } else { 100_000 },
            // A task that only has bad luck must not fail.
            max_agent_ends: 0,
            ..limits()
        };
        limits.hand_over.deliver = deliver;
        let mut weights = vec![
            (250, SimEvent::Arrive),
            (60, SimEvent::Report),
            (60, SimEvent::Notice),
            (140, SimEvent::Write),
            (80, SimEvent::Client),
            (110, SimEvent::Agent),
            (60, SimEvent::Read),
            (100, SimEvent::Time),
            (50, SimEvent::Open),
            (30, SimEvent::AgentNotice),
            (20, SimEvent::Come),
            (30, SimEvent::Boot),
            (30, SimEvent::Link),
        ];
        weights.extend((streams > 0).then_some((80, SimEvent::Stream)));
        weights.extend((deployed).then_some((80, SimEvent::Deployed)));
        weights.extend((grouping > 0).then_some((60, SimEvent::CloseTurn)));
        weights.extend(faults);
        Self {
            nodes: 2 + usize::from(dice.chance(30)),
            deployed,
            events: 200 + dice.below(600),
            limits,
            tight,
            forgetful,
            grouping,
            cancels,
            deadlines,
            streams,
            impatience,
            agents: 1 + usize::from(dice.chance(40)),
            power_cuts,
            restarts: faults[3].0 + faults[4].0 > 0,
            total: weights.iter().map(|(weight, _)| weight).sum(),
            weights,
        }
    }

    pub(super) fn next(&self, dice: &mut SimRng) -> SimEvent {
        let mut left = dice.below(self.total);
        for (weight, happening) in &self.weights {
            if left < *weight {
                return *happening;
            }
            left -= weight;
        }
        SimEvent::Time
    }
}
