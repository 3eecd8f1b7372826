//! Binary payloads and files: the frames that carry them, and the check of those that came. PURE.
//!
//! Invariant: chunks come in order and have the announced sizes, and a file is complete only with the right MD5.

use bytes::Bytes;
use md5::{Digest as _, Md5};
use thiserror::Error;

use crate::{
    messages::{BinaryHeader, FileComplete, FileStart, MAX_MESSAGE, TransferFrame, timestamp_now},
    transport::WireFrame,
};

/// The bytes of a chunk: the protocol's figure.
pub const CHUNK: usize = 1 << 20;

/// Longest file name, in bytes.
const LONGEST_NAME: usize = 255;

/// Why a payload or a file is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// It is not announced as the protocol says.
    #[error("the transfer of {name:?} is not valid: {reason}")]
    Invalid {
        /// The file, where it has a name.
        name: String,
        /// Why.
        reason: String,
    },
    /// It has too many bytes.
    #[error("{name:?} has {size} bytes; at most {max} are allowed")]
    TooLarge {
        /// The file.
        name: String,
        /// Its bytes.
        size: u64,
        /// How many are allowed.
        max: u64,
    },
    /// It did not arrive as it was sent.
    #[error("the checksum of {name:?} is {found}, not {expected}")]
    Checksum {
        /// The file.
        name: String,
        /// The checksum of what came.
        found: String,
        /// The announced one.
        expected: String,
    },
}

/// The MD5 of bytes, in hexadecimal digits.
pub fn md5_hex(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn text(frame: &TransferFrame) -> WireFrame {
    // Strings and numbers only: it cannot fail.
    WireFrame::Text(serde_json::to_string(frame).unwrap_or_default())
}

/// The two frames of a payload; they have to stay together.
pub fn payload_frames(bytes: Bytes, filename: Option<&str>, mime_type: Option<&str>) -> Vec<WireFrame> {
    let header = BinaryHeader {
        size: Some(bytes.len() as u64),
        filename: filename.map(str::to_owned),
        mime_type: mime_type.map(str::to_owned),
        checksum: Some(md5_hex(&bytes)),
        timestamp: Some(timestamp_now()),
        ..BinaryHeader::default()
    };
    vec![text(&TransferFrame::Binary(header)), WireFrame::Binary(bytes)]
}

/// The frames of a file. Frames of one item have to stay together, and the items in order.
pub fn file_frames(
    filename: &str,
    mime_type: Option<&str>,
    bytes: Bytes,
) -> impl Iterator<Item = Vec<WireFrame>> + Send + use<> {
    let total_chunks = bytes.len().div_ceil(CHUNK) as u64;
    let start = TransferFrame::Start(FileStart {
        filename: filename.to_owned(),
        size: bytes.len() as u64,
        chunk_size: CHUNK as u64,
        total_chunks,
        mime_type: mime_type.map(str::to_owned),
    });
    let complete = TransferFrame::Complete(FileComplete {
        filename: filename.to_owned(),
        total_chunks,
        checksum: Some(md5_hex(&bytes)),
    });
    let chunks = (0..total_chunks).map(move |number| {
        let from = number as usize * CHUNK;
        let chunk = bytes.slice(from..bytes.len().min(from + CHUNK));
        let header = BinaryHeader {
            chunk_num: Some(number),
            chunk_size: Some(chunk.len() as u64),
            ..BinaryHeader::default()
        };
        vec![text(&TransferFrame::Binary(header)), WireFrame::Binary(chunk)]
    });
    std::iter::once(vec![text(&start)])
        .chain(chunks)
        .chain(std::iter::once(vec![text(&complete)]))
}

/// A step of a file or a payload that came.
#[derive(Clone, Debug, PartialEq)]
pub enum FileProgress {
    /// A file begins.
    Started(FileStart),
    /// Its next bytes.
    Chunk(Bytes),
    /// It is complete, and its checksum is right.
    Complete(FileComplete),
    /// It does not come any further; what came is of no use.
    Aborted(String),
    /// A payload of its own, whose checksum is right.
    Payload(BinaryHeader, Bytes),
}

struct OpenFile {
    start: FileStart,
    chunks: u64,
    bytes: u64,
    digest: Md5,
}

/// Checks what one peer sends. It keeps no bytes.
pub struct FileReceiver {
    largest: u64,
    open: Option<OpenFile>,
}

impl FileReceiver {
    /// No file; one may have `largest` bytes.
    pub const fn new(largest: u64) -> Self {
        Self { largest, open: None }
    }

    /// Whether a file has begun and not ended.
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A frame that begins or ends a file came.
    ///
    /// # Errors
    /// When it is refused; an open file is aborted then.
    pub fn frame(&mut self, frame: TransferFrame) -> Result<FileProgress, TransferError> {
        match frame {
            TransferFrame::Start(start) => self.start(start),
            TransferFrame::Complete(complete) => self.complete(complete),
            TransferFrame::Binary(_) => Err(invalid("", "a binary frame has to follow")),
        }
    }

    /// A binary frame came with its header.
    ///
    /// # Errors
    /// When it is refused; an open file is aborted then.
    pub fn binary(&mut self, header: BinaryHeader, bytes: Bytes) -> Result<FileProgress, TransferError> {
        let Some(number) = header.chunk_num else {
            return payload(header, bytes);
        };
        let mut file = self
            .open
            .take()
            .ok_or_else(|| invalid("", "a chunk came before its file"))?;
        let name = file.start.filename.clone();
        if number != file.chunks {
            let reason = format!("chunk {number} came in the place of chunk {}", file.chunks);
            return Err(invalid(&name, reason));
        }
        let size = bytes.len() as u64;
        let rest = file.start.size - file.bytes;
        let expected = rest.min(file.start.chunk_size);
        if size != expected || header.chunk_size.is_some_and(|announced| announced != size) {
            return Err(invalid(
                &name,
                format!("chunk {number} has {size} bytes, not {expected}"),
            ));
        }
        file.digest.update(&bytes);
        file.chunks += 1;
        file.bytes += size;
        self.open = Some(file);
        Ok(FileProgress::Chunk(bytes))
    }

    fn start(&mut self, start: FileStart) -> Result<FileProgress, TransferError> {
        if let Some(open) = self.open.take() {
            return Err(invalid(
                &open.start.filename,
                "another file began before it was complete",
            ));
        }
        let name = &start.filename;
        let plain = |name: &str| !name.contains(['/', '\\']) && !name.chars().any(char::is_control);
        if !(1..=LONGEST_NAME).contains(&name.len()) || !plain(name) || name == "." || name == ".." {
            return Err(invalid(name, "a file name has no path and 1 to 255 bytes"));
        }
        if start.size > self.largest {
            return Err(TransferError::TooLarge {
                name: name.clone(),
                size: start.size,
                max: self.largest,
            });
        }
        if !(1..=MAX_MESSAGE as u64).contains(&start.chunk_size) {
            return Err(invalid(name, "its chunks have no size that a message may have"));
        }
        if start.total_chunks != start.size.div_ceil(start.chunk_size) {
            return Err(invalid(
                name,
                "its size and its number of chunks do not fit together",
            ));
        }
        self.open = Some(OpenFile {
            start: start.clone(),
            chunks: 0,
            bytes: 0,
            digest: Md5::new(),
        });
        Ok(FileProgress::Started(start))
    }

    fn complete(&mut self, complete: FileComplete) -> Result<FileProgress, TransferError> {
        let name = complete.filename.clone();
        let file = self
            .open
            .take()
            .ok_or_else(|| invalid(&name, "it has not begun"))?;
        if file.start.filename != name {
            return Err(invalid(&file.start.filename, format!("{name:?} ended instead")));
        }
        if file.bytes != file.start.size || complete.total_chunks != file.chunks {
            return Err(invalid(
                &name,
                format!("it ended after {} of {} bytes", file.bytes, file.start.size),
            ));
        }
        let found = hex(&file.digest.finalize());
        check(&name, complete.checksum.as_deref(), found)?;
        Ok(FileProgress::Complete(complete))
    }
}

fn payload(header: BinaryHeader, bytes: Bytes) -> Result<FileProgress, TransferError> {
    let name = header.filename.clone().unwrap_or_default();
    if let Some(size) = header.size.filter(|size| *size != bytes.len() as u64) {
        return Err(invalid(
            &name,
            format!("it has {} bytes, not {size}", bytes.len()),
        ));
    }
    if header.checksum.is_some() {
        check(&name, header.checksum.as_deref(), md5_hex(&bytes))?;
    }
    Ok(FileProgress::Payload(header, bytes))
}

fn check(name: &str, expected: Option<&str>, found: String) -> Result<(), TransferError> {
    match expected {
        Some(expected) if !expected.eq_ignore_ascii_case(&found) => Err(TransferError::Checksum {
            name: name.to_owned(),
            found,
            expected: expected.chars().take(64).collect(),
        }),
        _ => Ok(()),
    }
}

fn invalid(name: &str, reason: impl Into<String>) -> TransferError {
    TransferError::Invalid {
        name: name.chars().take(LONGEST_NAME).collect(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests;
