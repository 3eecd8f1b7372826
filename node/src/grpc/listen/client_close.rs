//! How a client leaves its connection: with a word, or without one.
//!
//! Pure. A client that stops its calls says so in HTTP/2 frames: RST_STREAM for a call, GOAWAY for the
//! connection. A process that is killed says nothing; the system closes its connection. [`CloseDetector`] reads
//! the headers of the client's frames and knows which of the two it was. It keeps 16 bytes for each
//! connection.

/// What a client sends before its first frame: RFC 9113, section 3.4.
const PREFACE: usize = 24;

/// Length (24 bits), type, flags, stream (32 bits): RFC 9113, section 4.1.
const FRAME_HEADER: usize = 9;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const GOAWAY: u8 = 0x7;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseDetector {
    /// Bytes to be passed over: the rest of the preface, or of a frame.
    skip: usize,
    /// Bytes of the next frame's header that are known.
    have: usize,
    header: [u8; 4],
    closed_cleanly: bool,
}

impl Default for CloseDetector {
    fn default() -> Self {
        Self {
            skip: PREFACE,
            have: 0,
            header: [0; 4],
            closed_cleanly: false,
        }
    }
}

impl CloseDetector {
    /// Reads what the client sent next.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len());
                self.skip -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            if let Some(byte) = self.header.get_mut(self.have) {
                *byte = bytes[0];
            }
            self.have += 1;
            bytes = &bytes[1..];
            if self.have == FRAME_HEADER {
                let [high, middle, low, kind] = self.header;
                (self.have, self.skip) = (0, u32::from_be_bytes([0, high, middle, low]) as usize);
                self.on_frame(kind);
            }
        }
    }

    /// Other frames, such as SETTINGS and PING, are the library's and say nothing of the client.
    fn on_frame(&mut self, kind: u8) {
        match kind {
            RST_STREAM | GOAWAY => self.closed_cleanly = true,
            HEADERS | DATA => self.closed_cleanly = false,
            _ => {}
        }
    }

    /// Whether the client's last word stopped a call or the connection.
    pub(super) fn closed_cleanly(&self) -> bool {
        self.closed_cleanly
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: u8 = 0x4;
    const PING: u8 = 0x6;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        let mut frame = vec![high, middle, low, kind, 0, 0, 0, 0, 1];
        // A payload that would be a RST_STREAM frame if it were read as one.
        frame.extend([0, 0, 4, RST_STREAM].iter().cycle().take(length));
        frame
    }

    fn sent(kinds: &[u8], piece: usize) -> bool {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for kind in kinds {
            bytes.extend(frame(*kind, 300));
        }
        let mut departure = CloseDetector::default();
        for piece in bytes.chunks(piece) {
            departure.feed(piece);
        }
        departure.closed_cleanly()
    }

    #[test]
    fn a_killed_client_said_nothing_and_a_stopped_one_did() {
        for piece in [1, 2, 7, 9, 333, 10_000] {
            assert!(!sent(&[], piece));
            assert!(!sent(&[SETTINGS, HEADERS, DATA], piece));
            assert!(sent(&[SETTINGS, HEADERS, DATA, RST_STREAM], piece));
            assert!(sent(&[HEADERS, GOAWAY, PING, SETTINGS], piece));
            // A call that was stopped before is not the client's last word.
            assert!(!sent(&[HEADERS, RST_STREAM, HEADERS, DATA, PING], piece));
        }
    }
}
