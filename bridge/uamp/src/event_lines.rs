//! Deltas out of the bytes of server-sent events. Used by the client.
//!
//! Invariant: an event is bounded before it is whole; what comes in other pieces gives the same deltas. PURE.

use crate::{
    delta::Delta,
    error::{UampCode, UampError},
};

/// Largest event, in bytes: a chunk takes 350 KiB of base64, a result in a `done` some more.
pub const MAX_EVENT: usize = 8 << 20;

/// Reads events as their bytes come.
#[derive(Debug, Default)]
pub struct DeltaEvents {
    /// A line that has not ended yet.
    line: Vec<u8>,
    /// The data of an event that has not ended yet.
    data: Vec<u8>,
}

impl DeltaEvents {
    /// The delta of each event that ends in these bytes.
    ///
    /// # Errors
    /// [`UampCode::PayloadTooLarge`] of an event, [`UampError::Field`] of data that is not a delta.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, UampError> {
        let mut deltas = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() + self.data.len() > MAX_EVENT {
                    let text = format!("an event has more than {MAX_EVENT} bytes");
                    return Err(UampError::coded(UampCode::PayloadTooLarge, text));
                }
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if !data.is_empty() {
                    deltas.push(Delta::read(&data, MAX_EVENT)?);
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                // Names, ids and comments say nothing that the delta does not.
                self.data
                    .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
        }
        Ok(deltas)
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
