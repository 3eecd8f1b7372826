//! What a hub offers, and the two kinds of sessions that there are. PURE.

use std::fmt;

/// What a session is: a test or a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// A test, on the call Execute.
    Test,
    /// A translation, on the call Translate.
    Translation,
}

impl fmt::Display for Domain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Test => "test",
            Self::Translation => "translation",
        })
    }
}

/// A session that a hub offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The hub's name for the session.
    pub session_id: String,
    /// What it is.
    pub domain: Domain,
    /// The type of the capability that it asks for: of tests, or the format to translate to.
    pub kind: String,
}
