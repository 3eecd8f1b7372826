//! What a check has found.

use serde_json::{Value, json};

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cmd) enum State {
    /// As it should be.
    Good,
    /// Nothing is wrong, or it cannot be known here.
    Note,
    /// Something does not work.
    Problem,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cmd) struct Finding {
    /// Which check.
    pub(in crate::cmd) check: &'static str,
    pub(in crate::cmd) state: State,
    /// What is so.
    pub(in crate::cmd) says: String,
    /// What to do about it.
    pub(in crate::cmd) advice: Option<String>,
}

impl Finding {
    pub(in crate::cmd) fn good(check: &'static str, says: impl Into<String>) -> Self {
        Self {
            check,
            state: State::Good,
            says: says.into(),
            advice: None,
        }
    }

    pub(in crate::cmd) fn note(check: &'static str, says: impl Into<String>) -> Self {
        Self {
            state: State::Note,
            ..Self::good(check, says)
        }
    }

    pub(in crate::cmd) fn problem(
        check: &'static str,
        says: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Problem,
            advice: Some(advice.into()),
            ..Self::good(check, says)
        }
    }

    pub(in crate::cmd) fn document(&self) -> Value {
        let state = match self.state {
            State::Good => "ok",
            State::Note => "note",
            State::Problem => "problem",
        };
        json!({"check": self.check, "state": state, "says": self.says, "advice": self.advice})
    }
}
