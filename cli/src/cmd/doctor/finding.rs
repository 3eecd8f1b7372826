//! What a check has found.

use serde_json::{Value, json};

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As it should be.
    Good,
    /// Nothing is wrong, or it cannot be known here.
    Note,
    /// Something does not work.
    Problem,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Which check.
    pub(super) check: &'static str,
    pub(super) state: State,
    /// What is so.
    pub(super) says: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn good(check: &'static str, says: impl Into<String>) -> Self {
        Self {
            check,
            state: State::Good,
            says: says.into(),
            advice: None,
        }
    }

    pub(super) fn note(check: &'static str, says: impl Into<String>) -> Self {
        Self {
            state: State::Note,
            ..Self::good(check, says)
        }
    }

    pub(super) fn problem(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            state: State::Problem,
            advice: Some(advice.into()),
            ..Self::good(check, says)
        }
    }

    pub(super) fn document(&self) -> Value {
        let state = match self.state {
            State::Good => "ok",
            State::Note => "note",
            State::Problem => "problem",
        };
        json!({"check": self.check, "state": state, "says": self.says, "advice": self.advice})
    }
}
