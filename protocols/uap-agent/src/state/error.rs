//! Why a state cannot be read.

use std::fmt;

/// Why a state cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The text is not JSON.
    #[error("the state is not JSON: {0}")]
    NotJson(String),
    /// The version is not 1.0.x or 1.1.x.
    #[error("`version`: `{0}` is not known; 1.0.x and 1.1.x are")]
    Version(String),
    /// A field is missing or has the wrong form.
    #[error("`{field}`: {problem}")]
    Field {
        /// Where the field is, for example `messages[2].content[0].text`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl StateError {
    pub(crate) fn field(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::Field {
            field: field.into(),
            problem: problem.to_string(),
        }
    }
}
