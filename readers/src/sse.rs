//! Server-sent events out of pieces of bytes. PURE.
//!
//! Invariants: an event has at most the bytes that its reader allows, and the same bytes in other pieces give
//! the same events. Lines end with LF, CR or CRLF; comments and names of events are left out, and so are events
//! whose name says that they are a sign of life alone: the data of some is a bare date. A line of data behind a
//! whole JSON object begins an event of its own: some servers leave out the empty line between two events.

use std::time::Duration;

use serde_json::Value;

use crate::json::{self, without_bom};

/// Names of events that say no more than that the server is there.
const SIGNS_OF_LIFE: [&[u8]; 4] = [b"ping", b"heartbeat", b"keepalive", b"keep-alive"];

/// Longest id of an event that is kept, in bytes: it goes into a header.
const MOST_ID: usize = 1024;

/// Reads the data of events as their bytes come.
#[derive(Debug)]
pub struct SseReader {
    /// Longest event, in bytes.
    max_event: usize,
    /// A line that has not ended yet.
    line: Vec<u8>,
    /// The data of an event that has not ended yet.
    data: Vec<u8>,
    has_data: bool,
    /// The event is named as a sign of life.
    is_ping: bool,
    /// As `is_ping`, by a name behind the data: it may be that of the next event.
    is_next_ping: Option<bool>,
    /// Nothing has come yet: a byte order mark may.
    has_begun: bool,
    /// The last line ended with CR: an LF behind it is part of the same end.
    after_cr: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl SseReader {
    /// An event may have `max_event` bytes.
    #[must_use]
    pub const fn new(max_event: usize) -> Self {
        Self {
            max_event,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_ping: false,
            is_next_ping: None,
            has_begun: false,
            after_cr: false,
            last_id: None,
            retry: None,
        }
    }

    /// The last id of an event, to go on behind it (`Last-Event-ID`).
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server asks its clients to wait before they connect again.
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The data of each event that ends in these bytes.
    ///
    /// # Errors
    /// [`EventTooLarge`]. The stream cannot be read on.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLarge> {
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

    /// The data of the last events of a stream that ended without the empty line behind them. The standard drops
    /// such events; servers that end their stream so mean them.
    pub fn finish(&mut self) -> Vec<Vec<u8>> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            events.extend(self.end_line());
        }
        events.extend(self.end_line());
        events
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.has_begun = true;
            self.is_ping = self.is_next_ping.take().unwrap_or(self.is_ping);
            return self.end_event();
        }
        let line = if std::mem::replace(&mut self.has_begun, true) {
            &line[..]
        } else {
            without_bom(&line)
        };
        let end = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(end.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let data = match (field, std::str::from_utf8(value)) {
            (b"data", _) => value,
            (b"id", Ok(id)) if id.len() <= MOST_ID && !id.contains(char::is_control) => {
                self.last_id = (!id.is_empty()).then(|| id.to_owned());
                return None;
            }
            (b"retry", Ok(time)) => {
                self.retry = time.parse().ok().map(Duration::from_millis).or(self.retry);
                return None;
            }
            (b"event", _) => {
                let is = |sign: &&[u8]| value.trim_ascii().eq_ignore_ascii_case(sign);
                let is_ping = SIGNS_OF_LIFE.iter().any(is);
                if self.has_data {
                    self.is_next_ping = Some(is_ping);
                } else {
                    self.is_ping = is_ping;
                }
                return None;
            }
            // Comments say nothing here.
            _ => return None,
        };
        let event = if self.has_data && begins_event(data) && is_object(&self.data) {
            let event = self.end_event();
            self.is_ping = self.is_next_ping.take().unwrap_or_default();
            event
        } else {
            None
        };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        self.has_data = true;
        event
    }

    fn end_event(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        let is_ping = std::mem::take(&mut self.is_ping);
        (std::mem::take(&mut self.has_data) && !is_ping).then_some(data)
    }

    fn check(&self) -> Result<(), EventTooLarge> {
        let max_event = self.max_event;
        if self.line.len() + self.data.len() > max_event {
            return Err(EventTooLarge { max_event });
        }
        Ok(())
    }
}

/// Whether data begins as a JSON object does, or ends a stream.
fn begins_event(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data.starts_with(b"{") || data == b"[DONE]"
}

/// Whether data is a JSON object to which nothing can be added.
fn is_object(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    data.starts_with(b"{")
        && data.ends_with(b"}")
        && json::value(data).is_ok_and(|value: Value| value.is_object())
}

/// An event is larger than its reader allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it sent an event of more than {}", in_units(*max_event))]
pub struct EventTooLarge {
    /// How many bytes an event may have.
    pub max_event: usize,
}

/// A number of bytes, in MiB where it is a whole number of them.
fn in_units(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX_EVENT: usize = 1000;

    fn read(text: &str) -> Vec<String> {
        let events = SseReader::new(MAX_EVENT).take(text.as_bytes()).unwrap();
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
    fn signs_of_life_are_left_out() {
        let text = "event: ping\ndata: 2026-01-01 10:00:00\n\nevent:Keep-Alive\ndata: x\n\ndata: a\n\n";
        assert_eq!(read(text), ["a"]);
    }

    #[test]
    fn ids_and_pauses_are_kept() {
        let mut reader = SseReader::new(MAX_EVENT);
        assert_eq!((reader.last_id(), reader.retry()), (None, None));
        let text = "id: a 1\nretry: 500\ndata: \n\nid:\u{1}\nretry: soon\ndata: x\n\nids: b\n";
        assert_eq!(reader.take(text.as_bytes()).unwrap().len(), 2);
        assert_eq!(
            (reader.last_id(), reader.retry()),
            (Some("a 1"), Some(Duration::from_millis(500)))
        );
        reader.take(b"id\n").unwrap();
        assert_eq!(reader.last_id(), None);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::new(MAX_EVENT);
        assert_eq!(reader.take(&[b'x'; MAX_EVENT]), Ok(Vec::new()));
        assert_eq!(reader.take(b"x"), Err(EventTooLarge { max_event: MAX_EVENT }));
        let mut reader = SseReader::new(MAX_EVENT);
        assert!((0..=MAX_EVENT).any(|_| reader.take(b"data: x\n").is_err()));
    }

    #[test]
    fn an_event_at_the_end_of_its_stream_is_not_lost() {
        for (text, last) in [
            ("data: a", Some(&b"a"[..])),
            ("data: a\r", Some(b"a")),
            ("data: a\n\n", None),
            (": x", None),
            ("", None),
        ] {
            let mut reader = SseReader::new(MAX_EVENT);
            reader.take(text.as_bytes()).unwrap();
            let events = reader.finish();
            assert_eq!(
                (events.len(), events.first().map(Vec::as_slice)),
                (usize::from(last.is_some()), last),
                "{text:?}"
            );
        }
        let mut reader = SseReader::new(MAX_EVENT);
        reader.take(b"data: {}\ndata: [DONE]").unwrap();
        assert_eq!(reader.finish(), [b"{}".to_vec(), b"[DONE]".to_vec()]);
    }

    #[test]
    fn objects_on_lines_of_their_own_are_events_of_their_own() {
        for (text, events) in [
            (
                "data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n\n",
                &["{\"a\":1}", "{\"b\":2}", "[DONE]"][..],
            ),
            (
                "event: ping\ndata: {}\nevent: x\ndata: {\"a\":1}\nevent: ping\ndata: {}\n\n",
                &["{\"a\":1}"],
            ),
            (
                "data: {\"a\":1}\nevent: ping\n\ndata: {\"b\":2}\nevent: x\n\n",
                &["{\"b\":2}"],
            ),
            // One document, and text.
            ("data: {\ndata: \"a\": {}\ndata: }\n\n", &["{\n\"a\": {}\n}"]),
            ("data: [{\ndata: },\ndata: {}]\n\n", &["[{\n},\n{}]"]),
            ("data: a\ndata: {}\n\n", &["a\n{}"]),
            ("data: {}\ndata: a\n\n", &["{}\na"]),
            ("data: {\"a\ndata: {}\n\n", &["{\"a\n{}"]),
        ] {
            assert_eq!(read(text), events, "{text:?}");
        }
        // Each comes as soon as the next one begins.
        let mut reader = SseReader::new(MAX_EVENT);
        assert_eq!(reader.take(b"data: {}\ndata: {\"a\":1}\n").unwrap(), [b"{}"]);
        let many = "data: {\"a\":1}\n".repeat(MAX_EVENT);
        assert_eq!(read(&many).len(), MAX_EVENT - 1);
    }

    proptest! {
        /// However the bytes are cut, the events are the same.
        #[test]
        fn cuts_do_not_matter(
            lines in prop::collection::vec(prop_oneof!["data: ?[a-z]{0,5}", "data: ?\\{\\}", "event: (ping|x)", ":[a-z]{0,3}", Just(String::new())], 0..20),
            ends in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r")], 20),
            cuts in prop::collection::vec(1..6_usize, 1..60),
        ) {
            let text: String = lines.iter().zip(ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
            let mut reader = SseReader::new(MAX_EVENT);
            let (mut events, mut rest) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                events.extend(reader.take(piece).unwrap());
                rest = after;
            }
            events.extend(reader.take(rest).unwrap());
            prop_assert_eq!(events, SseReader::new(MAX_EVENT).take(text.as_bytes()).unwrap());
        }
    }
}
