//! Whether a benchmark's run counts, and whether it has reached its targets.
//!
//! A run of which a figure cannot be computed ends with exit code 1 and a line for each such figure, always. A target that is
//! missed is a line; with `--check` among the arguments, it is exit code 1 too, so that somebody can go by it.

use std::process::ExitCode;

/// What is known of a run so far.
#[derive(Debug, Default)]
#[must_use = "it says how the run ends"]
pub struct BenchTargets {
    /// Whether targets count.
    checks: bool,
    invalid: Vec<String>,
    missed: Vec<String>,
}

impl BenchTargets {
    /// As the arguments of this process have it.
    pub fn from_args() -> Self {
        Self::new(std::env::args().any(|arg| arg == "--check"))
    }

    /// Whether missed targets count.
    pub fn new(checks: bool) -> Self {
        Self {
            checks,
            ..Self::default()
        }
    }

    /// A figure that has to be there: a number above zero.
    pub fn figure(&mut self, what: &str, value: f64) {
        if !value.is_finite() || value <= 0.0 {
            self.invalid
                .push(format!("{what} is {value}, which is no measurement"));
        }
    }

    /// A figure that should not be smaller than this.
    pub fn at_least(&mut self, what: &str, value: f64, target: f64) {
        self.check(what, value, value >= target, || format!("≥ {target}"));
    }

    /// A figure that should not be larger than this. It may be below zero, as differences that are small are.
    pub fn at_most(&mut self, what: &str, value: f64, target: f64) {
        self.check(what, value, value <= target, || format!("≤ {target}"));
    }

    /// A figure with a target that was compared already.
    pub fn check(&mut self, what: &str, value: f64, is_met: bool, target: impl FnOnce() -> String) {
        if !value.is_finite() {
            self.invalid.push(format!("{what} cannot be computed: {value}"));
        } else if !is_met {
            self.missed
                .push(format!("{what} is {value:.2}, the target is {}", target()));
        }
    }

    /// What a target is for could not be measured here.
    pub fn not_measured(&mut self, what: &str) {
        self.missed.push(format!("{what} was not measured"));
    }

    /// Says what is wrong, and how the process ends.
    pub fn end(self) -> ExitCode {
        for line in &self.invalid {
            eprintln!("INVALID: {line}");
        }
        for line in &self.missed {
            eprintln!("MISSED: {line}");
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        let fails = !self.invalid.is_empty() || self.checks && !self.missed.is_empty();
        u8::from(fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(checks: bool, say: impl FnOnce(&mut BenchTargets)) -> u8 {
        let mut verdict = BenchTargets::new(checks);
        say(&mut verdict);
        verdict.code()
    }

    #[test]
    fn a_missed_target_counts_where_it_is_asked_for() {
        type Say = fn(&mut BenchTargets);
        let cases: [(Say, u8); 6] = [
            (|verdict| verdict.at_least("rate", 0.8, 0.8), 0),
            (|verdict| verdict.at_least("rate", 0.79, 0.8), 1),
            (|verdict| verdict.at_most("cost", 1.5, 1.5), 0),
            (|verdict| verdict.at_most("cost", 1.6, 1.5), 1),
            (|verdict| verdict.at_most("cost", -0.1, 1.5), 0),
            (|verdict| verdict.not_measured("the other server"), 1),
        ];
        for (say, expected) in cases {
            assert_eq!((code(true, say), code(false, say)), (expected, 0));
        }
    }

    #[test]
    fn what_cannot_be_computed_always_counts() {
        for value in [f64::NAN, f64::INFINITY] {
            assert_eq!(code(false, |verdict| verdict.at_least("ratio", value, 0.8)), 1);
            assert_eq!(code(false, |verdict| verdict.at_most("ratio", value, 0.8)), 1);
            assert_eq!(code(false, |verdict| verdict.figure("rate", value)), 1);
        }
        assert_eq!(code(false, |verdict| verdict.figure("rate", 0.0)), 1);
        assert_eq!(code(true, |verdict| verdict.figure("rate", 1.0)), 0);
    }
}
