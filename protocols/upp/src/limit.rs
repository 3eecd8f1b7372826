//! A limit that may be infinite; JSON `null` and an absent field mean infinite.
//!
//! Agents are unlimited unless their developer says otherwise (UAP-1.1, 2.4), so the type has no hidden
//! maximum.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How often something may happen.
///
/// ```
/// use agentanycast_upp::Limit;
///
/// assert!(Limit::Infinite.allows(u64::MAX));
/// assert!(Limit::Max(2).allows(2));
/// assert!(!Limit::Max(2).allows(3));
/// assert_eq!(serde_json::to_string(&Limit::Infinite).unwrap(), "null");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Without end.
    #[default]
    Infinite,
    /// At most this often.
    Max(u64),
}

impl Limit {
    /// Whether the limit allows the `count`th time, counted from 1.
    pub fn allows(self, count: u64) -> bool {
        match self {
            Self::Infinite => true,
            Self::Max(max) => count <= max,
        }
    }
}

impl From<u64> for Limit {
    fn from(max: u64) -> Self {
        Self::Max(max)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Infinite => serializer.serialize_none(),
            Self::Max(max) => serializer.serialize_some(max),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map_or(Self::Infinite, Self::Max))
    }
}
