//! How much each source may have here: tasks a second, tasks at once, and the bytes of those.
//!
//! PURE. The first override that matches a source stands for it; what that leaves out, and every other source, has the
//! default. A source that is named by several names is still one source.

use std::{num::NonZeroUsize, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_limits::rate::{Rate, Rates};

use super::glob::Glob;

/// Sources whose rates are remembered, some 200 bytes each.
const MAX_SOURCES: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// How much of its rate a source may use at once.
const BURST: Duration = Duration::from_secs(1);

/// Who sends, as limits are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// Another node.
    Peer(PeerId),
    /// A caller of a bridge.
    Bridge(String),
    /// The agent beside this node.
    Local,
}

/// The bounds of one source; 0 is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceBounds {
    /// New tasks a second, those of one second at once.
    pub rps: f64,
    /// Tasks that have not ended.
    pub in_flight: u64,
    /// Bytes of messages and results of those.
    pub bytes: u64,
}

/// Bounds of some sources: what is None is as by default.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundsOverride {
    /// Whose.
    pub source: Glob,
    /// See [`SourceBounds::rps`].
    pub rps: Option<f64>,
    /// See [`SourceBounds::in_flight`].
    pub in_flight: Option<u64>,
    /// See [`SourceBounds::bytes`].
    pub bytes: Option<u64>,
}

/// All bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyLimits {
    /// Of a source that no override matches.
    pub default: SourceBounds,
    /// First match wins.
    pub overrides: Vec<BoundsOverride>,
}

/// What a source has here now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceUsage {
    /// Tasks that have not ended.
    pub tasks: u64,
    /// Bytes of their messages and results.
    pub bytes: u64,
}

/// A bound that is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReachedBound {
    /// New tasks a second.
    Rate(f64),
    /// Tasks that have not ended.
    InFlight(u64),
    /// Their bytes.
    Bytes(u64),
    /// The bytes of a single task.
    TaskBytes(u64),
}

impl PolicyLimits {
    /// Whether there is any.
    pub fn is_none(&self) -> bool {
        self.default == SourceBounds::default() && self.overrides.is_empty()
    }

    /// Whether open tasks have to be counted for it.
    pub fn count_tasks(&self) -> bool {
        let counts = |in_flight, bytes| in_flight > 0 || bytes > 0;
        counts(self.default.in_flight, self.default.bytes)
            || self
                .overrides
                .iter()
                .any(|one| counts(one.in_flight.unwrap_or(0), one.bytes.unwrap_or(0)))
    }

    /// The source of the override for these names.
    pub fn override_pattern(&self, names: &[&str]) -> Option<&Glob> {
        self.override_of(names).map(|one| &one.source)
    }

    fn override_of(&self, names: &[&str]) -> Option<&BoundsOverride> {
        let is_meant = |one: &&BoundsOverride| names.iter().any(|name| one.source.matches(name));
        self.overrides.iter().find(is_meant)
    }

    /// Those of a source with these names.
    pub fn bounds_of(&self, names: &[&str]) -> SourceBounds {
        let Some(found) = self.override_of(names) else {
            return self.default;
        };
        SourceBounds {
            rps: found.rps.unwrap_or(self.default.rps),
            in_flight: found.in_flight.unwrap_or(self.default.in_flight),
            bytes: found.bytes.unwrap_or(self.default.bytes),
        }
    }
}

/// What all sources have used of their rates.
#[derive(Debug)]
pub struct RateMeter(Rates<LimitKey>);

impl Default for RateMeter {
    fn default() -> Self {
        Self(Rates::new(MAX_SOURCES))
    }
}

impl RateMeter {
    /// Whether a source with these bounds, which has so much here, may send one more task, whose message has `bytes`; it is
    /// counted then.
    ///
    /// # Errors
    /// The first bound that is reached: of tasks, of bytes, of the rate. Nothing is counted.
    pub fn take(
        &mut self,
        now: Duration,
        source: LimitKey,
        bounds: &SourceBounds,
        has: SourceUsage,
        bytes: u64,
    ) -> Result<(), ReachedBound> {
        if bounds.in_flight > 0 && has.tasks >= bounds.in_flight {
            return Err(ReachedBound::InFlight(bounds.in_flight));
        }
        if bounds.bytes > 0 && bytes > bounds.bytes {
            return Err(ReachedBound::TaskBytes(bounds.bytes));
        }
        if bounds.bytes > 0 && has.bytes.saturating_add(bytes) > bounds.bytes {
            return Err(ReachedBound::Bytes(bounds.bytes));
        }
        let Some(rate) = Rate::new(bounds.rps, BURST) else {
            return Ok(());
        };
        if self.0.take(now.as_nanos() as u64, source, rate, 1) {
            Ok(())
        } else {
            Err(ReachedBound::Rate(bounds.rps))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits() -> PolicyLimits {
        PolicyLimits {
            default: SourceBounds {
                rps: 5.0,
                in_flight: 10,
                bytes: 0,
            },
            overrides: vec![
                BoundsOverride {
                    source: Glob::new("local").unwrap(),
                    rps: Some(0.0),
                    in_flight: Some(0),
                    bytes: None,
                },
                BoundsOverride {
                    source: Glob::new("http:*").unwrap(),
                    rps: None,
                    in_flight: Some(2),
                    bytes: Some(100),
                },
            ],
        }
    }

    #[test]
    fn the_first_override_stands_and_leaves_the_rest_as_it_is() {
        let limits = limits();
        assert_eq!(limits.bounds_of(&["local"]), SourceBounds::default());
        let http = limits.bounds_of(&["http:a"]);
        assert_eq!((http.rps, http.in_flight, http.bytes), (5.0, 2, 100));
        assert_eq!(limits.bounds_of(&["12D3"]), limits.default);
        assert!(limits.count_tasks() && !limits.is_none() && PolicyLimits::default().is_none());
    }

    #[test]
    fn a_full_quota_costs_no_rate() {
        let (mut meter, bounds) = (
            RateMeter::default(),
            SourceBounds {
                rps: 1.0,
                in_flight: 1,
                bytes: 0,
            },
        );
        let full = SourceUsage { tasks: 1, bytes: 9 };
        let now = Duration::from_secs(9);
        let mut take =
            |bounds: &SourceBounds, has, bytes| meter.take(now, LimitKey::Local, bounds, has, bytes);
        assert_eq!(take(&bounds, full, 0), Err(ReachedBound::InFlight(1)));
        assert_eq!(take(&bounds, SourceUsage::default(), 0), Ok(()));
        assert_eq!(
            take(&bounds, SourceUsage::default(), 0),
            Err(ReachedBound::Rate(1.0))
        );
        let bytes = SourceBounds {
            rps: 1.0,
            bytes: 12,
            in_flight: 0,
        };
        assert_eq!(take(&bytes, full, 4), Err(ReachedBound::Bytes(12)));
        // No number of ended tasks makes room for it.
        assert_eq!(
            take(&bytes, SourceUsage::default(), 13),
            Err(ReachedBound::TaskBytes(12))
        );
        assert_eq!(
            take(&bytes, full, 3),
            Err(ReachedBound::Rate(1.0)),
            "it would fit"
        );
    }

    proptest! {
        /// Open tasks and their bytes never pass their bounds, and one source's use takes nothing from another.
        #[test]
        fn quotas_hold(
            bound in 1..5_u64,
            most in 0..30_u64,
            steps in prop::collection::vec((0..3_u8, prop::option::of(0..20_u64)), 1..60),
        ) {
            let mut meter = RateMeter::default();
            let bounds = SourceBounds { rps: 0.0, in_flight: bound, bytes: most };
            let mut open: [Vec<u64>; 3] = Default::default();
            for (source, step) in steps {
                let has = &mut open[usize::from(source)];
                let Some(bytes) = step else {
                    has.pop();
                    continue;
                };
                let usage = SourceUsage { tasks: has.len() as u64, bytes: has.iter().sum() };
                let taken = meter.take(Duration::ZERO, LimitKey::Bridge(source.to_string()), &bounds, usage, bytes);
                let fits = most == 0 || usage.bytes + bytes <= most;
                prop_assert_eq!(taken.is_ok(), usage.tasks < bound && fits);
                has.extend(taken.is_ok().then_some(bytes));
            }
            for has in open {
                prop_assert!(has.len() as u64 <= bound);
                prop_assert!(most == 0 || has.iter().sum::<u64>() <= most);
            }
        }
    }
}
