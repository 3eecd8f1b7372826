//! Server-sent events out of pieces of bytes. PURE.

use super::{encode::without_bom, error::OutboundError};

/// Longest event, in bytes: what a whole answer may have.
pub(crate) const MAX_EVENT: usize = agentanycast_egress::client::MAX_ANSWER;

/// Reads events as their bytes come.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    /// A line that has not ended yet.
    line: Vec<u8>,
    /// The data of an event that has not ended yet.
    data: Vec<u8>,
    has_data: bool,
    /// Nothing has come yet: a byte order mark may.
    has_begun: bool,
    /// The last line ended with CR: an LF behind it is part of the same end.
    after_cr: bool,
}

impl SseReader {
    /// The data of each event that ends in these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, OutboundError> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if std::mem::take(&mut self.after_cr) && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&rest[..end]);
            let is_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_cr {
                if rest.is_empty() {
                    self.after_cr = true;
                } else if rest[0] == b'\n' {
                    rest = &rest[1..];
                }
            }
            events.extend(self.end_line());
            self.check()?;
        }
        self.line.extend_from_slice(rest);
        self.check()?;
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.has_begun = true;
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data).then_some(data);
        }
        let line = if std::mem::replace(&mut self.has_begun, true) {
            &line[..]
        } else {
            without_bom(&line)
        };
        // Comments, names and ids of events say nothing here.
        let data = match line.strip_prefix(b"data") {
            Some([]) => &[][..],
            Some([b':', b' ', data @ ..] | [b':', data @ ..]) => data,
            _ => return None,
        };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        self.has_data = true;
        None
    }

    fn check(&self) -> Result<(), OutboundError> {
        if self.line.len() + self.data.len() > MAX_EVENT {
            return Err(OutboundError::permanent(format!(
                "it sent an event of more than {} MiB",
                MAX_EVENT >> 20
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<String> {
        let events = SseReader::default().take(text.as_bytes()).unwrap();
        events
            .into_iter()
            .map(|event| String::from_utf8(event).unwrap())
            .collect()
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let text =
            ": hi\r\n\r\ndata: a\ndata:b\n\nevent: x\nid: 1\ndata\n\n\rretry: 5\n\ndata: c\r\rdata: half";
        assert_eq!(read(text), ["a\nb", "", "c"]);
        assert_eq!(
            read("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n"),
            ["a", "c"]
        );
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..=MAX_EVENT >> 20).any(|_| reader.take(&piece).is_err());
        assert!(refused);
    }

    proptest! {
        /// However the bytes are cut, the events are the same.
        #[test]
        fn cuts_do_not_matter(
            lines in prop::collection::vec(prop_oneof!["data: ?[a-z]{0,5}", ":[a-z]{0,3}", Just(String::new())], 0..20),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 20),
            cuts in prop::collection::vec(1..6_usize, 1..60),
        ) {
            let text: String = lines.iter().zip(ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
            let mut reader = SseReader::default();
            let (mut events, mut rest) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                events.extend(reader.take(piece).unwrap());
                rest = after;
            }
            events.extend(reader.take(rest).unwrap());
            prop_assert_eq!(events, SseReader::default().take(text.as_bytes()).unwrap());
        }
    }
}
