//! The W3C trace context of a task: among its metadata under the names that the standard gives its
//! headers, and in envelopes in two fields of their own.
//!
//! Pure. What is longer than an envelope has room for does not travel in these fields.

use std::collections::BTreeMap;

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// Longest `traceparent`, in bytes: today's have 55, later versions may append to it.
const MAX_PARENT: usize = 256;

/// Longest `tracestate`, in bytes: what the standard asks everyone to pass on at least.
const MAX_STATE: usize = 512;

/// The trace context of one task; both parts may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceContext<'a> {
    /// `traceparent`.
    pub(crate) parent: &'a str,
    /// `tracestate`; means nothing without the parent.
    pub(crate) state: &'a str,
}

impl<'a> TraceContext<'a> {
    /// As two texts have it, of anyone's making.
    pub(crate) fn new(parent: &'a str, state: &'a str) -> Self {
        if parent.is_empty() || parent.len() > MAX_PARENT {
            return Self::default();
        }
        let state = if state.len() > MAX_STATE { "" } else { state };
        Self { parent, state }
    }

    /// As a task's metadata has it.
    pub(crate) fn from_metadata(metadata: &'a BTreeMap<String, String>) -> Self {
        let value = |key| metadata.get(key).map_or("", String::as_str);
        Self::new(value(PARENT), value(STATE))
    }

    /// Puts another parent into metadata. `anew`: the trace begins here, and a state that was there is of no trace.
    pub(crate) fn set_parent(metadata: &mut BTreeMap<String, String>, parent: &str, anew: bool) {
        metadata.insert(PARENT.to_owned(), parent.to_owned());
        if anew {
            metadata.remove(STATE);
        }
    }

    /// Writes it into metadata, unless that has one of its own.
    pub(crate) fn write_if_absent(self, metadata: &mut BTreeMap<String, String>) {
        if self.parent.is_empty() || metadata.contains_key(PARENT) {
            return;
        }
        metadata.insert(PARENT.to_owned(), self.parent.to_owned());
        if self.state.is_empty() {
            metadata.remove(STATE);
        } else {
            metadata.insert(STATE.to_owned(), self.state.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_way_through_metadata() {
        let mut metadata = BTreeMap::new();
        TraceContext::new("00-a-b-01", "x=1").write_if_absent(&mut metadata);
        assert_eq!(
            TraceContext::from_metadata(&metadata),
            TraceContext::new("00-a-b-01", "x=1")
        );
        // The task's own context stands.
        TraceContext::new("00-c-d-01", "y=2").write_if_absent(&mut metadata);
        assert_eq!(TraceContext::from_metadata(&metadata).parent, "00-a-b-01");
    }

    #[test]
    fn what_is_too_long_does_not_travel() {
        let long = "x".repeat(MAX_STATE + 1);
        assert_eq!(TraceContext::new(&long, "x=1"), TraceContext::default());
        assert_eq!(
            TraceContext::new("00-a-b-01", &long),
            TraceContext::new("00-a-b-01", "")
        );
        assert_eq!(TraceContext::new("", "x=1"), TraceContext::default());
    }
}
