//! The format of an artifact's file. Pure apart from reading a block of a file.
//!
//! ```text
//! file    magic (8 bytes, ends with the version), START, CHUNK or LAST …, END when it has ended
//! record  u32 BE kind << 24 | length, u32 BE CRC-32, payload
//! ```
//! The CRC covers the chunk's number, the first word and the payload: neither a torn tail, nor blocks that
//! a power cut left empty, nor the remains of a failed write pass for a record. END's payload closes with
//! a fixed trailer, so that the totals of an ended file are found from its end.

use std::{fs::File, io};

use agentanycast_proto::v1::StreamEnd;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use rustix::{buffer::spare_capacity, io::pread};

use crate::delivery::artifact::{MAX_CHUNK, MAX_START};

/// First bytes of every file; the last one is the version of the format.
pub(super) const MAGIC: [u8; 8] = *b"aaspool\x01";

/// Bytes of a record before its payload.
pub(super) const HEAD: usize = 8;

/// Bytes that are read at once: large enough that a system call, or a hop to another thread, per block
/// costs little, small enough that a hundred readers may hold one each. Holds at least one record of any kind.
pub(super) const BLOCK: usize = 512 << 10;
const _: () = assert!(BLOCK > HEAD + MAX_CHUNK && BLOCK > MAGIC.len() + HEAD + MAX_START);

/// Longest message of END in bytes that is kept: some sentences.
const MAX_MESSAGE: usize = 4 << 10;

/// Longest payload of END: reason, message, trailer.
const MAX_END: usize = 2 * MAX_MESSAGE;

/// bytes u64, chunks u32, length of the whole record u32.
const TRAILER: usize = 16;

/// What a record is. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An encoded `StreamStart`.
    Start = 1,
    /// The data of a chunk.
    Chunk = 2,
    /// The data of a chunk that its producer marked as the last one.
    Last = 3,
    /// An encoded `StreamEnd` and the trailer.
    End = 4,
}

impl Kind {
    fn parse(kind: u8, length: usize) -> Option<Self> {
        let (kind, most) = match kind {
            1 => (Self::Start, MAX_START),
            2 => (Self::Chunk, MAX_CHUNK),
            3 => (Self::Last, MAX_CHUNK),
            4 => (Self::End, MAX_END),
            _ => return None,
        };
        (length <= most).then_some(kind)
    }
}

/// The bytes before `payload`, which is no longer than its kind allows. `sequence` is the number of the
/// chunk, 0 for START and the number of chunks for END.
pub(super) fn head(kind: Kind, sequence: u32, payload: &[u8]) -> [u8; HEAD] {
    let word = (kind as u32) << 24 | payload.len() as u32;
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&word.to_be_bytes());
    head[4..].copy_from_slice(&checksum(word, sequence, payload).to_be_bytes());
    head
}

/// The start of a file: magic and START.
pub(super) fn file_head(start: &[u8]) -> Vec<u8> {
    [&MAGIC[..], &head(Kind::Start, 0, start), start].concat()
}

/// `end` as it is kept: without the ids, which START has, and with a bounded message.
pub(super) fn stored_end(end: &StreamEnd) -> StreamEnd {
    let message = &end.error_message[..end.error_message.floor_char_boundary(MAX_MESSAGE)];
    StreamEnd {
        reason: end.reason,
        error_message: message.to_owned(),
        ..StreamEnd::default()
    }
}

/// A whole END record of a [kept](kept_end) end.
pub(super) fn end_record(kept: &StreamEnd, chunks: u32, bytes: u64) -> Vec<u8> {
    let mut payload = kept.encode_to_vec();
    payload.put_u64(bytes);
    payload.put_u32(chunks);
    payload.put_u32((HEAD + payload.len() + 4) as u32);
    [&head(Kind::End, chunks, &payload)[..], &payload].concat()
}

/// The end that an END record's payload holds.
pub(super) fn parse_end(payload: &[u8]) -> Option<StreamEnd> {
    StreamEnd::decode(payload.get(..payload.len().checked_sub(TRAILER)?)?).ok()
}

/// The totals of an ended file and its end.
pub(super) struct Totals {
    pub bytes: u64,
    pub chunks: u32,
    /// Where END begins, and the chunks stop.
    pub offset: u64,
    pub end: StreamEnd,
}

/// Reads END from the end of a file of `length` bytes; none when it is not intact.
pub(super) fn read_totals(file: &File, length: u64) -> io::Result<Option<Totals>> {
    let from = length.saturating_sub((HEAD + MAX_END) as u64);
    let tail = read_block(file, from, length)?;
    Ok(parse_totals(&tail).map(|(bytes, chunks, record, end)| Totals {
        bytes,
        chunks,
        offset: length - record as u64,
        end,
    }))
}

fn parse_totals(tail: &Bytes) -> Option<(u64, u32, usize, StreamEnd)> {
    let mut trailer = tail.get(tail.len().checked_sub(TRAILER)?..)?;
    let (bytes, chunks, record) = (trailer.get_u64(), trailer.get_u32(), trailer.get_u32() as usize);
    let mut records = BlockRecords::new(tail.slice(tail.len().checked_sub(record)?..), chunks);
    match records.next() {
        NextRecord::Record {
            kind: Kind::End,
            payload,
        } => Some((bytes, chunks, record, parse_end(&payload)?)),
        _ => None,
    }
}

/// Up to [`BLOCK`] bytes from `offset`, and not past `end`; less at the end of the file.
pub(super) fn read_block(file: &File, offset: u64, end: u64) -> io::Result<Bytes> {
    let wanted = end.saturating_sub(offset).min(BLOCK as u64) as usize;
    let mut block = Vec::with_capacity(wanted);
    while block.len() < wanted {
        let at = offset + block.len() as u64;
        match pread(file, spare_capacity(&mut block), at) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may have given more room than was asked for.
    block.truncate(wanted);
    Ok(block.into())
}

/// What comes next in a block.
pub(super) enum NextRecord {
    /// An intact record.
    Record {
        /// What it is.
        kind: Kind,
        /// Its payload, sharing the block's memory.
        payload: Bytes,
    },
    /// The block ends before the record does.
    Partial,
    /// Not a record, or not the one that is due here.
    Corrupt,
}

/// The records of a block, one after the other, checked.
#[derive(Debug)]
pub(super) struct BlockRecords {
    block: Bytes,
    sequence: u32,
}

impl BlockRecords {
    /// `block` begins at a record; its first chunk is number `sequence`.
    pub(super) fn new(block: Bytes, sequence: u32) -> Self {
        Self { block, sequence }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Whether the next record is all there, intact or not.
    pub(super) fn has_whole(&self) -> bool {
        self.block.get(..4).is_some_and(|mut word| {
            let length = (word.get_u32() & 0x00ff_ffff) as usize;
            self.block.len() >= HEAD + length
        })
    }

    pub(super) fn next(&mut self) -> NextRecord {
        let Some(mut head) = self.block.get(..HEAD) else {
            return NextRecord::Partial;
        };
        let (word, crc) = (head.get_u32(), head.get_u32());
        let length = (word & 0x00ff_ffff) as usize;
        let Some(kind) = Kind::parse((word >> 24) as u8, length) else {
            return NextRecord::Corrupt;
        };
        let Some(payload) = self.block.get(HEAD..HEAD + length) else {
            return NextRecord::Partial;
        };
        if checksum(word, self.sequence, payload) != crc {
            return NextRecord::Corrupt;
        }
        let payload = self.block.split_to(HEAD + length).slice(HEAD..);
        if matches!(kind, Kind::Chunk | Kind::Last) {
            self.sequence += 1;
        }
        NextRecord::Record { kind, payload }
    }
}

fn checksum(word: u32, sequence: u32, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&sequence.to_be_bytes());
    crc.update(&word.to_be_bytes());
    crc.update(payload);
    crc.finalize()
}
