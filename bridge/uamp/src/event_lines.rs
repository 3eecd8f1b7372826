//! Deltas out of the bytes of server-sent events. Used by the client.
//!
//! Invariant: an event is bounded before it is whole; what comes in other pieces gives the same deltas. PURE.

use agentanycast_readers::sse::SseReader;

use crate::{
    delta::Delta,
    error::{UampCode, UampError},
};

/// Largest event, in bytes: a chunk takes 350 KiB of base64, a result in a `done` some more.
pub const MAX_EVENT: usize = 8 << 20;

/// Reads events as their bytes come.
#[derive(Debug)]
pub struct DeltaEvents(SseReader);

impl Default for DeltaEvents {
    fn default() -> Self {
        Self(SseReader::new(MAX_EVENT))
    }
}

impl DeltaEvents {
    /// The delta of each event that ends in these bytes.
    ///
    /// # Errors
    /// [`UampCode::PayloadTooLarge`] of an event, [`UampError::Field`] of data that is not a delta.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, UampError> {
        let events = self.0.take(bytes);
        let events =
            events.map_err(|error| UampError::coded(UampCode::PayloadTooLarge, error.to_string()))?;
        let filled = events.iter().filter(|data| !data.is_empty());
        filled.map(|data| Delta::read(data, MAX_EVENT)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn deltas_do_not_depend_on_how_they_come(count in 0_u64..5, piece in 1_usize..40, crlf in proptest::prelude::any::<bool>()) {
            let end = if crlf { "\r\n" } else { "\n" };
            let wanted: Vec<Delta> = (0..count).map(|seq| Delta::acknowledgement("s", seq, 1000)).collect();
            let lines = wanted.iter().flat_map(|delta| {
                let data = format!("data: {}", delta.to_value());
                [": ping".to_owned(), String::new(), "id: 1".to_owned(), data, String::new()]
            });
            let text: String = lines.flat_map(|line| [line, end.to_owned()]).collect();
            let mut events = DeltaEvents::default();
            let mut got = Vec::new();
            for piece in text.as_bytes().chunks(piece) {
                got.extend(events.take(piece).unwrap());
            }
            proptest::prop_assert_eq!(got, wanted);
        }
    }

    #[test]
    fn an_event_is_bounded() {
        let mut events = DeltaEvents::default();
        let refused = events.take(&vec![b'x'; MAX_EVENT + 1]).unwrap_err();
        assert_eq!(refused.code(), Some(UampCode::PayloadTooLarge));
        assert!(DeltaEvents::default().take(b"data: {}\n\n").is_err());
    }
}
