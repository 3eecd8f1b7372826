//! Deltas out of the bytes of server-sent events. Used by the client.
//!
//! Invariant: an event is bounded before it is whole; what comes in other pieces gives the same deltas. PURE.

use std::collections::VecDeque;

use agentanycast_readers::{excerpt::excerpt, sse::SseReader};

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
    /// Adds the delta of each event that ends in these bytes, up to the first one that is none.
    ///
    /// # Errors
    /// [`UampCode::PayloadTooLarge`] of an event, [`UampError::Field`] of data that is not a delta.
    pub fn take(&mut self, bytes: &[u8], deltas: &mut VecDeque<Delta>) -> Result<(), UampError> {
        let events = self.0.take(bytes);
        let events =
            events.map_err(|error| UampError::coded(UampCode::PayloadTooLarge, error.to_string()))?;
        for event in events {
            // An event without data is a sign of life.
            if !event.trim_ascii().is_empty() {
                deltas.push_back(read(&event)?);
            }
        }
        Ok(())
    }

    /// Adds the deltas of the last events of a stream that ended without the empty line behind them, if they are
    /// whole.
    pub fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        let events = self.0.finish();
        deltas.extend(events.iter().filter_map(|event| read(event).ok()));
    }
}

fn read(event: &[u8]) -> Result<Delta, UampError> {
    Delta::read(event, MAX_EVENT).map_err(|error| match error {
        UampError::Field { field, message } => {
            UampError::field(field, format!("{message}: {}", excerpt(event)))
        }
        error => error,
    })
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
            let mut got = VecDeque::new();
            for piece in text.as_bytes().chunks(piece) {
                events.take(piece, &mut got).unwrap();
            }
            proptest::prop_assert_eq!(got, wanted);
        }
    }

    #[test]
    fn an_event_is_bounded() {
        let (mut events, mut deltas) = (DeltaEvents::default(), VecDeque::new());
        let refused = events.take(&vec![b'x'; MAX_EVENT + 1], &mut deltas).unwrap_err();
        assert_eq!(refused.code(), Some(UampCode::PayloadTooLarge));
    }

    #[test]
    fn good_deltas_before_one_that_is_none_are_kept() {
        let good = |seq| format!("data: {}\n\n", Delta::acknowledgement("s", seq, 1000).to_value());
        let (mut events, mut deltas) = (DeltaEvents::default(), VecDeque::new());
        let text = format!("{}data: \n\ndata: {{\"x\": NaN}}\n\n{}", good(0), good(1));
        let refused = events.take(text.as_bytes(), &mut deltas).unwrap_err().to_string();
        assert!(refused.contains("NaN"), "the line is shown: {refused}");
        assert_eq!(deltas.len(), 1);
        let mut events = DeltaEvents::default();
        events.take(good(2).trim_end().as_bytes(), &mut deltas).unwrap();
        events.finish(&mut deltas);
        assert_eq!(deltas.pop_back().unwrap().seq, 2);
        events.take(b"data: {\"half", &mut deltas).unwrap();
        events.finish(&mut deltas);
        assert_eq!(deltas.len(), 1);
    }

    #[test]
    fn a_lone_surrogate_is_a_replacement_character() {
        let text = "\u{feff}data: {\"delta_seq\":0,\"stream_id\":\"s\",\"ts\":\"2025-07-10T13:38:01Z\",\
                    \"type\":\"progress\",\"payload\":{\"message\":\"half \\ud83d\"}}\n\n";
        let (mut events, mut deltas) = (DeltaEvents::default(), VecDeque::new());
        events.take(text.as_bytes(), &mut deltas).unwrap();
        assert_eq!(deltas[0].payload["message"], "half \u{fffd}");
    }
}
