//! Server-sent events out of pieces of bytes: the data of each event. PURE.

/// Reads events as their bytes come.
#[derive(Debug, Default)]
pub(super) struct EventLines {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

/// An event that is larger than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLarge;

impl EventLines {
    /// The data of each event that ends in these bytes. An event may have at most `limit` bytes.
    pub(super) fn take(&mut self, bytes: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, EventTooLarge> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() + self.data.len() > limit {
                return Err(EventTooLarge);
            }
            if piece.ends_with(b"\n") {
                events.extend(self.end_line());
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data).then_some(data);
        }
        let data = line.strip_prefix(b"data:")?;
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data
            .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        self.has_data = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_their_bytes_come() {
        let text = b": hello\r\n\r\ndata: a\r\ndata:b\r\n\r\nevent: x\ndata: c\n\ndata: half";
        for size in 1..text.len() {
            let mut lines = EventLines::default();
            let mut events = Vec::new();
            for piece in text.chunks(size) {
                events.extend(lines.take(piece, 100).unwrap());
            }
            assert_eq!(events, [b"a\nb".to_vec(), b"c".to_vec()], "{size}");
        }
    }

    #[test]
    fn an_event_is_bounded() {
        let mut lines = EventLines::default();
        assert_eq!(lines.take(&[b'x'; 11], 10), Err(EventTooLarge));
    }
}
