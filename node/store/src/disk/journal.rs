//! The journal: what is durable but not yet in the database, as numbered files that are written from
//! beginning to end.
//!
//! A barrier is one write into a place that was written before (with zeros, or by an earlier use of the
//! file) and one `fdatasync`: no metadata changes, so it costs a single flush of the disk. A file that
//! the database has taken in is used again under the next number, unless it stays for the large values in it.

mod record;

use std::{
    fs::{self, File},
    io::{self, IoSlice, Write as _},
    iter,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use self::record::{HEADER, JournalRecord, SegmentHeader};
pub(super) use self::record::{ValueEntry, ValueOffset};
use super::super::Batch;

/// Zeros written ahead at a time, in bytes.
const PREALLOCATE: u64 = 1 << 20;

/// Records of this many bytes and more are worth the metadata that they change at the end of the file: zeros before
/// them would be as much again to write.
const LONG_RECORD: u64 = 64 << 10;

/// Longest segment that is read, in bytes; none is written that long.
const MAX_SEGMENT: u64 = 1 << 30;

/// Room that an empty record keeps, in bytes.
const KEPT_BUFFER: usize = 1 << 20;

/// A segment that is written to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullSegment {
    pub(super) number: u64,
    pub(super) bytes: u64,
    /// It was filled so soon that what is large in it should not be written once more.
    pub(super) is_quick: bool,
}

/// Why a journal cannot be read.
#[derive(Debug)]
pub(super) enum JournalError {
    /// Its files are not what was written.
    Damaged(String),
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct Journal {
    directory: PathBuf,
    /// It stands where the next record goes.
    file: File,
    heading: SegmentHeader,
    sequence: u64,
    /// Where the next record goes.
    at: u64,
    /// Up to here the file was written before.
    written: u64,
    pending: JournalRecord,
}

impl Journal {
    /// Begins segment `number` in a file of its own, or in that of an earlier one.
    pub(super) fn begin(directory: &Path, number: u64, earlier: Option<u64>) -> io::Result<Self> {
        let path = path_of(directory, number);
        let unborn = directory.join("segment.new");
        if let Some(earlier) = earlier {
            fs::rename(path_of(directory, earlier), &unborn)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&unborn)?;
        let heading = SegmentHeader {
            number,
            nonce: rand::random(),
        };
        (&file).write_all(&heading.encode())?;
        file.sync_all()?;
        fs::rename(&unborn, &path)?;
        File::open(directory)?.sync_all()?;
        Ok(Self {
            directory: directory.to_owned(),
            written: file.metadata()?.len(),
            file,
            heading,
            sequence: 1,
            at: HEADER as u64,
            pending: JournalRecord::new(),
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.heading.number
    }

    /// Bytes of this segment so far.
    pub(super) fn len(&self) -> u64 {
        self.at
    }

    /// Adds to what the next [`Journal::sync`] writes. Where in the segment its values of `least` bytes and more lie
    /// then.
    pub(super) fn add(&mut self, batch: &Batch, least: usize) -> Vec<ValueOffset> {
        let mut spots = self.pending.add(batch, least);
        for spot in &mut spots {
            spot.offset += self.at;
        }
        spots
    }

    /// Returns once everything that was added is durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut pieces = self.pending.seal(self.heading.nonce, self.sequence);
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let end = self.at + length as u64;
        write_all(&self.file, &mut pieces)?;
        if end > self.written {
            let ahead = if length as u64 >= LONG_RECORD {
                0
            } else {
                PREALLOCATE - end % PREALLOCATE
            };
            self.file.write_all_at(&vec![0; ahead as usize], end)?;
            self.written = end + ahead;
        }
        self.file.sync_data()?;
        self.at = end;
        self.sequence += 1;
        self.pending.clear(KEPT_BUFFER);
        Ok(())
    }

    /// Goes on in the next segment, in the file of segment `earlier` if that is no longer needed.
    pub(super) fn rotate(&mut self, earlier: Option<u64>) -> io::Result<()> {
        debug_assert!(self.pending.is_empty(), "rotated before the barrier");
        *self = Self::begin(&self.directory, self.number() + 1, earlier)?;
        Ok(())
    }
}

/// Writes all of these, where the file stands.
fn write_all(mut file: &File, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    while pieces.iter().any(|piece| !piece.is_empty()) {
        match file.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut pieces, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.journal"))
}

/// The numbers of the segments that are there, in ascending order.
pub(super) fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".journal"));
        numbers.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// All batches of a segment, in order.
pub(super) fn read(directory: &Path, number: u64) -> Result<Vec<Batch>, JournalError> {
    let path = path_of(directory, number);
    let damaged = |what: &str| JournalError::Damaged(format!("{}: {what}", path.display()));
    if fs::metadata(&path)?.len() > MAX_SEGMENT {
        return Err(damaged("it is longer than any that was written"));
    }
    let bytes = fs::read(&path)?;
    let heading = SegmentHeader::decode(&bytes).ok_or_else(|| damaged("its beginning is missing"))?;
    if heading.number != number {
        return Err(damaged("it is another segment"));
    }
    record::decode_all(&bytes, heading.nonce)
        .map_err(|record::DamagedSegment { sequence }| damaged(&format!("record {sequence} cannot be read")))
}

/// All values of a segment that is no longer written to, in order, as far as it can be read: a record at a time.
pub(super) fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<ValueEntry>> + use<>> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut heading = [0; HEADER];
    file.read_exact_at(&mut heading, 0)?;
    let SegmentHeader { nonce, .. } = SegmentHeader::decode(&heading).ok_or(io::ErrorKind::InvalidData)?;
    let mut next = HEADER as u64;
    let records = iter::from_fn(move || {
        let at = next + HEADER as u64;
        let changes = record_before(&file, at, end, nonce).transpose()?;
        next = changes
            .as_ref()
            .map_or(end, |changes| record::next_offset(at, changes.len() as u32));
        Some(changes.map(|changes| (changes, at)))
    });
    Ok(records.flat_map(|record| match record {
        Ok((changes, at)) => record::entries(&changes, at).map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

/// The changes at `at` in a segment, behind their record's header. None: that is no record, or not all of it lies before
/// `end`.
fn record_before(file: &File, at: u64, end: u64, nonce: u64) -> io::Result<Option<Vec<u8>>> {
    if at > end {
        return Ok(None);
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, at - HEADER as u64)?;
    let Some(length) = record::changes_length(&header, nonce).filter(|length| at + u64::from(*length) <= end)
    else {
        return Ok(None);
    };
    let mut changes = vec![0; length as usize];
    file.read_exact_at(&mut changes, at)?;
    Ok(Some(changes))
}

/// Removes a segment that the database has taken in.
pub(super) fn remove(directory: &Path, number: u64) -> io::Result<()> {
    fs::remove_file(path_of(directory, number))
}
