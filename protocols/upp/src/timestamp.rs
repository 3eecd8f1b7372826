//! When a message was made: UTC with milliseconds, written as `2026-11-20T22:41:54.035Z`.
//!
//! The wire carries the dates of JavaScript, which have milliseconds. Cutting to them at once keeps a
//! timestamp equal to itself after a round trip.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment with a resolution of one millisecond.
///
/// ```
/// use agentanycast_upp::Timestamp;
///
/// let timestamp: Timestamp = "2026-11-20T22:41:54.030Z".parse()?;
/// assert_eq!(timestamp.to_string(), "2026-11-20T22:41:54.030Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The present moment by the system's clock.
    pub fn now() -> Self {
        Self::cut(jiff::Timestamp::now())
    }

    /// Milliseconds since 1970; `None` outside the years -9999 to 9999.
    pub fn from_millis(millis: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(millis).ok().map(Self)
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    fn cut(moment: jiff::Timestamp) -> Self {
        Self(jiff::Timestamp::from_millisecond(moment.as_millisecond()).unwrap_or(moment))
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::cut)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            de::Error::custom(format_args!(
                "`{}` is not an ISO 8601 timestamp in UTC",
                short(&text)
            ))
        })
    }
}

/// The first characters of a hostile text, for an error.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
