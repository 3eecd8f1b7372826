//! The answer of `anycast trace`: why a task is where it is.

/// Why a task is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// For scripts; docs/operating.md lists them.
    pub(crate) verdict: &'static str,
    /// For people.
    pub(crate) says: String,
    /// What to do; `None`: nothing.
    pub(crate) advice: Option<String>,
}

pub(super) fn explanation(
    verdict: &'static str,
    says: impl Into<String>,
    advice: Option<&str>,
) -> Explanation {
    Explanation {
        verdict,
        says: says.into(),
        advice: advice.map(str::to_owned),
    }
}
