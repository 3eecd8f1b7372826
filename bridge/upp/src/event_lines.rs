//! Bytes of an event stream as the events of a model in them. PURE.
//!
//! Agents write one `StreamEvent` a line, or one `AgentStreamEvent` a line, which may hold the former.
//!
//! Invariant: the events do not depend on how the bytes were cut.

use agentanycast_upp::{StreamEvent, UppError, task_wire::event_of_line};

/// How long a line may be, in bytes. Deltas are small; the turn holds large content as a whole.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Bytes of which the last line is not complete.
#[derive(Debug, Default)]
pub(super) struct EventLines {
    rest: Vec<u8>,
}

impl EventLines {
    /// Takes further bytes; the events that they complete. Fails with `INVALID_RESPONSE`.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, UppError> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() > MAX_LINE_BYTES {
                let text = format!("a line of the agent's events has more than {MAX_LINE_BYTES} bytes");
                return Err(UppError::invalid_response(text));
            }
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                events.extend(event_of_line(&self.rest)?);
                self.rest.clear();
            }
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_agents_count_where_they_hold_one_of_a_model() {
        let event = serde_json::to_value(StreamEvent::text(0, "hi")).unwrap();
        let lines = [
            json!({"source": "uap", "uap": {"type": "step_start"}}),
            json!({"source": "upp", "upp": event}),
        ];
        let text = format!("{}\n\n{}\n", lines[0], lines[1]);
        let events = EventLines::default().take(text.as_bytes()).unwrap();
        assert_eq!(events, [StreamEvent::text(0, "hi")]);
    }

    #[test]
    fn a_line_has_a_bound() {
        let mut lines = EventLines::default();
        let piece = vec![b' '; MAX_LINE_BYTES];
        assert!(lines.take(&piece).unwrap().is_empty());
        assert!(lines.take(b" ").is_err());
    }

    proptest! {
        #[test]
        fn events_survive_any_cut(texts in prop::collection::vec("[a-zé\n]{0,9}", 0..6), cut in 1_usize..40) {
            let events: Vec<StreamEvent> = texts.iter().map(|text| StreamEvent::text(0, text)).collect();
            let lines: Vec<u8> = events
                .iter()
                .flat_map(|event| [serde_json::to_vec(event).unwrap(), b"\n".to_vec()].concat())
                .collect();
            let mut reader = EventLines::default();
            let mut read = Vec::new();
            for piece in lines.chunks(cut) {
                read.extend(reader.take(piece).unwrap());
            }
            prop_assert_eq!(read, events);
        }

        #[test]
        fn hostile_lines_do_no_harm(line in ".{0,60}\n") {
            let _ = EventLines::default().take(line.as_bytes());
        }
    }
}
