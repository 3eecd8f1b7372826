//! Why the registry refuses: whose fault it is, and one line that says what to do.

/// A refusal. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The request cannot be right.
    #[error("{0}")]
    Invalid(String),
    /// A limit is reached.
    #[error("{what}: {most} at most{}; {advice}", at_setting(.setting.as_ref()))]
    Limit {
        /// Of what.
        what: &'static str,
        /// The limit.
        most: usize,
        /// The setting of the relay that says so, if there is one.
        setting: Option<&'static str>,
        /// What to do.
        advice: &'static str,
    },
    /// The peer is not registered, or not any more.
    #[error("peer {0} is not registered here, or its registration has expired; register again")]
    NotFound(String),
    /// The entry belongs to a peer that proves itself, and this request does not.
    #[error(
        "peer {0} has proven that this id is its own, so only requests that it has signed can change its entry"
    )]
    Denied(String),
    /// The peer has signed something newer.
    #[error(
        "peer {peer} has signed a newer request, at {stood_ms} ms since 1970, {} s after this one; set the clock, or sign with a later time",
        stood_ms.saturating_sub(*signed_ms).div_ceil(1000)
    )]
    Outdated {
        /// Whose entry it is.
        peer: String,
        /// When this one was signed.
        signed_ms: u64,
        /// When the newer one was.
        stood_ms: u64,
    },
    /// A relay that we were not told of speaks of an entry that one of our choice has brought.
    #[error(
        "peer {0} is known from a federation peer; another relay changes its entry only by what the peer has signed later: \
         add that relay to --federation-peers, or have the peer sign"
    )]
    UntrustedRelay(String),
    /// Only signed requests are taken.
    #[error("this registry takes only signed requests; sign them, or ask another registry")]
    Unsigned,
}

/// Where whoever runs the relay can change a limit.
fn at_setting(setting: Option<&&'static str>) -> String {
    setting.map_or_else(String::new, |setting| format!(" ({setting} of the relay)"))
}

impl RegistryError {
    /// The setting of the relay that was reached, if it was one.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Limit { setting, .. } => *setting,
            _ => None,
        }
    }

    /// That a value that has to be there is empty.
    pub(super) fn empty(what: &str) -> Self {
        Self::Invalid(format!("{what} is empty"))
    }
}
