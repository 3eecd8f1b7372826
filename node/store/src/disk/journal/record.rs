//! PURE: how batches lie in a segment of the journal, and where the readable part ends.
//!
//! A segment begins with a [`SegmentHeader`]; a record is a header of 32 bytes and the changes of one
//! barrier, at a multiple of 8 bytes. The header carries the segment's nonce, so that neither what an
//! earlier use of the file left behind nor what a peer puts into a message can pass for a record.

use std::io::IoSlice;

use bytes::Bytes;

use super::super::super::Batch;

/// Bytes of a heading, and of a record's header.
pub(super) const HEADER: usize = 32;

/// Records begin at multiples of this many bytes.
const ALIGN: usize = 8;

const SEGMENT_MAGIC: &[u8; 8] = b"AAJRNL01";
const RECORD_MAGIC: &[u8; 4] = b"AARC";

/// Values of this many bytes or more are not copied to be written.
const LARGE: usize = 4 << 10;

/// Length that stands for "removed".
const REMOVED: u32 = u32::MAX;

/// How a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Its number; each segment's is one more than that of the one before.
    pub(super) number: u64,
    /// Drawn anew for each.
    pub(super) nonce: u64,
}

impl SegmentHeader {
    /// Its bytes.
    pub(super) fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// None: these bytes are no heading.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let sound = bytes[..8] == *SEGMENT_MAGIC && u32_at(bytes, 24)? == crc32fast::hash(&bytes[..24]);
        sound.then_some(Self {
            number: u64_at(bytes, 8)?,
            nonce: u64_at(bytes, 16)?,
        })
    }
}

/// Where a value of a batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ValueOffset {
    /// Which of the batch's changes it is.
    pub(in super::super) number: usize,
    /// How far behind the beginning of the record, or of the segment, it begins.
    pub(in super::super) offset: u64,
}

/// A record in the making: what is applied before one barrier, so that a write that was cut off takes
/// all of it or nothing with it.
#[derive(Debug)]
pub(super) struct JournalRecord {
    /// The header, and all but the large values.
    bytes: Vec<u8>,
    /// The large values, and behind how many of the bytes each comes: they are written from where they are.
    large: Vec<(usize, Bytes)>,
    /// Bytes of these.
    large_bytes: usize,
}

impl JournalRecord {
    /// Without changes.
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; HEADER],
            large: Vec::new(),
            large_bytes: 0,
        }
    }

    /// True without changes.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER
    }

    /// Adds the changes of a batch. Of values of `least` bytes and more: their number in the batch, and how far behind
    /// the record's beginning they lie.
    pub(super) fn add(&mut self, batch: &Batch, least: usize) -> Vec<ValueOffset> {
        let mut spots = Vec::new();
        for (number, (key, value)) in batch.changes.iter().enumerate() {
            let length = value.as_ref().map_or(REMOVED, |value| value.len() as u32);
            self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(key);
            if value.as_ref().is_some_and(|value| value.len() >= least) {
                let offset = (self.bytes.len() + self.large_bytes) as u64;
                spots.push(ValueOffset { number, offset });
            }
            match value {
                Some(value) if value.len() >= LARGE => {
                    self.large_bytes += value.len();
                    self.large.push((self.bytes.len(), value.clone()));
                }
                value => self.bytes.extend_from_slice(value.as_deref().unwrap_or_default()),
            }
        }
        spots
    }

    /// Its bytes as number `sequence` of a segment, from 1, in pieces.
    pub(super) fn seal(&mut self, nonce: u64, sequence: u64) -> Vec<IoSlice<'_>> {
        let end = self.bytes.len() + self.large_bytes;
        let header = &mut self.bytes[..HEADER];
        header[..4].copy_from_slice(RECORD_MAGIC);
        header[4..8].copy_from_slice(&((end - HEADER) as u32).to_le_bytes());
        header[8..16].copy_from_slice(&nonce.to_le_bytes());
        header[16..24].copy_from_slice(&sequence.to_le_bytes());
        let sum = checksum(&self.bytes, &self.runs(HEADER));
        self.bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        let padding = end.next_multiple_of(ALIGN) - end;
        self.bytes.resize(self.bytes.len() + padding, 0);
        self.runs(0)
    }

    /// What it is made of, in order, from so many of its bytes on.
    fn runs(&self, mut from: usize) -> Vec<IoSlice<'_>> {
        let mut runs = Vec::with_capacity(2 * self.large.len() + 1);
        for (at, value) in &self.large {
            runs.extend([IoSlice::new(&self.bytes[from..*at]), IoSlice::new(value)]);
            from = *at;
        }
        runs.push(IoSlice::new(&self.bytes[from..]));
        runs
    }

    /// Makes it empty again; keeps at most `most` bytes of room.
    pub(super) fn clear(&mut self, most: usize) {
        self.large.clear();
        self.large_bytes = 0;
        self.bytes.truncate(HEADER);
        self.bytes.shrink_to(most);
    }
}

/// Over the header up to the checksum, and the changes.
fn checksum(header: &[u8], changes: &[IoSlice<'_>]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&header[..24]);
    for run in changes {
        sum.update(run);
    }
    sum.finalize()
}

/// The record at `at`: its sequence, the bytes of its changes, and where the next one begins.
fn record_at(segment: &[u8], at: usize, nonce: u64) -> Option<(u64, &[u8], usize)> {
    let header = segment.get(at..at + HEADER)?;
    let end = at + HEADER + changes_length(header, nonce)? as usize;
    let record = segment.get(at..end)?;
    let changes = &record[HEADER..];
    (checksum(header, &[IoSlice::new(changes)]) == u32_at(header, 24)?).then_some(())?;
    Some((u64_at(header, 16)?, changes, end.next_multiple_of(ALIGN)))
}

/// Bytes of the changes of the record with this header; None: it is none of this segment's.
pub(super) fn changes_length(header: &[u8], nonce: u64) -> Option<u32> {
    let is_ours = header[..4] == *RECORD_MAGIC && u64_at(header, 8)? == nonce;
    if is_ours { u32_at(header, 4) } else { None }
}

/// Where the record behind one begins whose changes, so many bytes, begin at `at`.
pub(super) fn next_offset(at: u64, length: u32) -> u64 {
    (at + u64::from(length)).next_multiple_of(ALIGN as u64)
}

/// What is wrong with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DamagedSegment {
    /// The record that cannot be read though a later one can.
    pub(super) sequence: u64,
}

/// All batches of a segment, in order. It ends before the first record that cannot be read: that one
/// was never completed, unless a later one is there, since a record is written only when the one
/// before it is durable.
pub(super) fn decode_all(segment: &[u8], nonce: u64) -> Result<Vec<Batch>, DamagedSegment> {
    let mut batches = Vec::new();
    let mut at = HEADER;
    loop {
        let sequence = batches.len() as u64 + 1;
        let record = record_at(segment, at, nonce).filter(|(number, ..)| *number == sequence);
        let Some((_, changes, next)) = record else { break };
        batches.push(decode(changes).ok_or(DamagedSegment { sequence })?);
        at = next;
    }
    let mut later = (at..segment.len()).step_by(ALIGN);
    if later.any(|at| record_at(segment, at, nonce).is_some()) {
        return Err(DamagedSegment {
            sequence: batches.len() as u64 + 1,
        });
    }
    Ok(batches)
}

fn decode(bytes: &[u8]) -> Option<Batch> {
    let owned = |change: RecordChange<'_>| (change.key.to_vec(), change.value.map(Bytes::copy_from_slice));
    let changes = changes(bytes).map(|change| change.map(owned));
    Some(Batch {
        changes: changes.collect::<Option<_>>()?,
    })
}

/// A change in a record.
struct RecordChange<'a> {
    key: &'a [u8],
    value: Option<&'a [u8]>,
    /// Where the value begins among the record's changes.
    at: usize,
    /// Where the next change begins.
    end: usize,
}

impl<'a> RecordChange<'a> {
    /// The one that begins at `at`.
    fn read(bytes: &'a [u8], at: usize) -> Option<Self> {
        let value_at = at + 8 + u32_at(bytes, at)? as usize;
        let length = u32_at(bytes, at + 4)?;
        let end = value_at + if length == REMOVED { 0 } else { length as usize };
        let value = bytes.get(value_at..end)?;
        Some(Self {
            key: &bytes[at + 8..value_at],
            value: (length != REMOVED).then_some(value),
            at: value_at,
            end,
        })
    }
}

/// The changes in these bytes, in order; None, and no more, where there is none.
fn changes(bytes: &[u8]) -> impl Iterator<Item = Option<RecordChange<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < bytes.len()).then(|| {
            let change = RecordChange::read(bytes, at);
            at = change.as_ref().map_or(bytes.len(), |change| change.end);
            change
        })
    })
}

/// A value with its key, and where in its file it begins.
pub(in super::super) struct ValueEntry {
    pub(in super::super) key: Vec<u8>,
    pub(in super::super) value: Vec<u8>,
    pub(in super::super) offset: u64,
}

/// The values among the changes of a record that begin at `at`, in order, as far as they can be read. They are not held
/// against the record's checksum: where one is damaged the others can still be had.
pub(super) fn entries(bytes: &[u8], at: u64) -> impl Iterator<Item = ValueEntry> {
    let readable = changes(bytes).map_while(|change| change);
    readable.filter_map(move |change| {
        Some(ValueEntry {
            key: change.key.to_vec(),
            value: change.value?.to_vec(),
            offset: at + change.at as u64,
        })
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: u64 = 0x1234_5678_9ABC_DEF0;

    fn batches() -> impl Strategy<Value = Vec<Batch>> {
        let key = prop::collection::vec(any::<u8>(), 0..40);
        let long = prop::collection::vec(any::<u8>(), LARGE - 1..LARGE + 2);
        let value = prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..200), 1 => long];
        let value = prop::option::of(value.prop_map(Bytes::from));
        let batch = prop::collection::vec((key, value), 0..5).prop_map(|changes| Batch { changes });
        prop::collection::vec(batch, 0..6)
    }

    fn written(pieces: &[IoSlice<'_>]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| piece.iter().copied()).collect()
    }

    /// The segment of these batches, where each record ends, and what an earlier use left behind it.
    fn segment(batches: &[Batch], left_behind: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = SegmentHeader {
            number: 7,
            nonce: NONCE,
        }
        .encode()
        .to_vec();
        let mut ends = vec![bytes.len()];
        for (batch, sequence) in batches.iter().zip(1..) {
            let mut record = JournalRecord::new();
            record.add(batch, LARGE);
            bytes.extend(written(&record.seal(NONCE, sequence)));
            ends.push(bytes.len());
        }
        bytes.extend_from_slice(left_behind);
        (bytes, ends)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(batches in batches()) {
            let mut earlier = JournalRecord::new();
            let earlier = written(&earlier.seal(NONCE + 1, batches.len() as u64 + 1));
            let (bytes, _) = segment(&batches, &earlier);
            prop_assert_eq!(SegmentHeader::decode(&bytes), Some(SegmentHeader { number: 7, nonce: NONCE }));
            prop_assert_eq!(decode_all(&bytes, NONCE), Ok(batches));
        }

        #[test]
        fn values_lie_where_adding_them_said(batches in batches(), least in 0..LARGE) {
            let mut record = JournalRecord::new();
            let mut said = Vec::new();
            for batch in &batches {
                for ValueOffset { number, offset } in record.add(batch, least) {
                    let (key, value) = batch.changes[number].clone();
                    said.push((key, HEADER as u64 + offset, value.unwrap()));
                }
            }
            let mut bytes = vec![0; HEADER];
            bytes.extend(written(&record.seal(NONCE, 1)));
            for (_, offset, value) in &said {
                prop_assert_eq!(bytes.get(*offset as usize..).and_then(|bytes| bytes.get(..value.len())), Some(&value[..]));
            }
            let length = changes_length(&bytes[HEADER..], NONCE).unwrap();
            prop_assert_eq!(next_offset(2 * HEADER as u64, length), bytes.len() as u64);
            let found: Vec<_> = entries(&bytes[2 * HEADER..][..length as usize], 2 * HEADER as u64)
                .filter(|entry| entry.value.len() >= least)
                .map(|entry| (entry.key, entry.offset, Bytes::from(entry.value)))
                .collect();
            prop_assert_eq!(found, said);
        }

        #[test]
        fn a_write_that_was_cut_off_is_left_out(batches in batches(), cut in any::<prop::sample::Index>()) {
            let (bytes, ends) = segment(&batches, &[]);
            let length = HEADER + cut.index(bytes.len() - HEADER + 1);
            let mut torn = bytes[..length].to_vec();
            torn.resize(bytes.len(), 0);
            // Zeros that were to be written are no loss.
            let whole = ends.iter().filter(|end| torn[..**end] == bytes[..**end]).count() - 1;
            prop_assert_eq!(decode_all(&torn, NONCE), Ok(batches[..whole].to_vec()));
        }

        #[test]
        fn a_changed_byte_is_noticed_unless_it_is_in_the_last_record(
            batches in batches(), at in any::<prop::sample::Index>(), flip in 1..=255_u8,
        ) {
            let (mut bytes, ends) = segment(&batches, &[]);
            prop_assume!(bytes.len() > HEADER);
            let at = HEADER + at.index(bytes.len() - HEADER);
            bytes[at] ^= flip;
            let hit = ends.iter().rposition(|end| *end <= at).unwrap_or(0);
            match decode_all(&bytes, NONCE) {
                // Padding means nothing.
                Ok(read) if read == batches => {}
                Ok(read) => {
                    prop_assert_eq!(hit + 1, batches.len());
                    prop_assert_eq!(read, batches[..hit].to_vec());
                }
                Err(damaged) => prop_assert_eq!(damaged.sequence, hit as u64 + 1),
            }
        }

        #[test]
        fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_all(&bytes, NONCE);
            let _ = SegmentHeader::decode(&bytes);
            let _ = decode(&bytes);
            let _ = entries(&bytes, 0).count();
        }
    }
}
