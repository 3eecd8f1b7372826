//! The time, for everything in this crate that may know it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::federation::merge::{Nanos, nanos};

/// Now, in nanoseconds since 1970.
pub(crate) fn now() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}
