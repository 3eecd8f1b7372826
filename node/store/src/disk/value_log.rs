//! Large values beside the database, which keeps where a value lies; it would write a value of 60 KiB some three times,
//! and never give the room back. They are written once more, into files that are only ever added to; or, when so much is
//! written that this would slow it down, they stay in the segments of the journal that they were written to, and those stay.
//! A new segment costs a barrier more than one that is used again (its blocks have to be allocated), so it is not the rule.
//!
//! The checkpoint thread writes, and is the only one that removes: a file or a segment in which nothing is used any
//! more, at once; and when less than a third of all is used, what is used of the emptiest goes into
//! the newest file. A value is durable after [`ValueLog::sync`], which comes before the database's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _},
    iter,
    path::{Path, PathBuf},
};

use super::{
    journal::{self, FullSegment, ValueEntry},
    layout,
};
use crate::directory::sync_directory;

/// Bytes on disk per byte that is used, before files are emptied.
const MAX_SIZE_PER_LIVE: u64 = 3;

/// Length of the key, length and checksum of the value.
const HEADER: usize = 2 + 4 + 4;

/// Values of this many bytes and more are written from where they are; what is shorter is gathered.
const BUFFER: usize = 32 << 10;

/// A segment stays if one of so many of its bytes is of a large value.
const RETAIN_SHARE: u64 = 2;

const INLINE: u8 = 0;
const IN_FILE: u8 = 1;
const IN_SEGMENT: u8 = 2;

/// Which values go into files, and how long those get.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueLimits {
    /// Values of this many bytes or more.
    pub(super) large: usize,
    /// Bytes after which the next file is begun.
    pub(super) file: u64,
    /// Up to this many bytes of all files, none is emptied.
    pub(super) small: u64,
}

/// What values lie in, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueContainer {
    /// A file of nothing else.
    File(u64),
    /// A segment of the journal.
    Segment(u64),
}

impl ValueContainer {
    pub(super) fn path(self, store: &Path) -> PathBuf {
        match self {
            Self::File(number) => path_of(&layout::values(store), number),
            Self::Segment(number) => journal::path_of(&layout::journals(store), number),
        }
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValuePointer {
    pub(super) container: ValueContainer,
    offset: u64,
    bytes: u32,
    sum: u32,
}

impl ValuePointer {
    /// Where in its file it ends.
    fn end(self) -> u64 {
        self.offset + u64::from(self.bytes)
    }

    /// Whether the same value is there, as far as length and checksum tell.
    #[cfg(test)]
    pub(super) fn is_same(self, other: &Self) -> bool {
        (self.bytes, self.sum) == (other.bytes, other.sum)
    }
}

/// What the database has under a key.
pub(super) enum StoredCell<'a> {
    /// The value.
    Inline(&'a [u8]),
    /// Where it is.
    Pointer(ValuePointer),
}

impl<'a> StoredCell<'a> {
    /// None: these bytes are no cell.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            INLINE => Some(Self::Inline(rest)),
            IN_FILE | IN_SEGMENT => {
                let place: &[u8; 24] = rest.try_into().ok()?;
                let (number, rest) = place.split_first_chunk()?;
                let number = u64::from_le_bytes(*number);
                let (offset, rest) = rest.split_first_chunk()?;
                let (bytes, sum) = rest.split_first_chunk()?;
                Some(Self::Pointer(ValuePointer {
                    container: match *kind {
                        IN_FILE => ValueContainer::File(number),
                        _ => ValueContainer::Segment(number),
                    },
                    offset: u64::from_le_bytes(*offset),
                    bytes: u32::from_le_bytes(*bytes),
                    sum: u32::from_le_bytes(sum.try_into().ok()?),
                }))
            }
            _ => None,
        }
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Inline(value) => [&[INLINE], *value].concat(),
            Self::Pointer(place) => {
                let (kind, number) = match place.container {
                    ValueContainer::File(number) => (IN_FILE, number),
                    ValueContainer::Segment(number) => (IN_SEGMENT, number),
                };
                [
                    &[kind][..],
                    &number.to_le_bytes(),
                    &place.offset.to_le_bytes(),
                    &place.bytes.to_le_bytes(),
                    &place.sum.to_le_bytes(),
                ]
                .concat()
            }
        }
    }
}

/// The files, and the segments that stay.
pub(super) struct ValueLog {
    /// The store's directory.
    store: PathBuf,
    limits: ValueLimits,
    files: BTreeMap<ValueContainer, ContainerUsage>,
    /// Those in use at the start whose file was missing, or ended before them.
    lost: BTreeSet<ValuePointer>,
    output: Option<BufWriter<File>>,
    next: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ContainerUsage {
    size: u64,
    live: u64,
    /// It cannot be read to its end, so it stays as long as something in it is used.
    is_pinned: bool,
}

impl ContainerUsage {
    /// Of which nothing is used.
    fn of(size: u64) -> Self {
        Self {
            size,
            ..Self::default()
        }
    }
}

impl ValueLog {
    /// What is in the store at `store`, of which `used` values are.
    pub(super) fn open(
        store: &Path,
        limits: ValueLimits,
        used: impl Iterator<Item = ValuePointer>,
    ) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut lost = BTreeSet::new();
        let mut next = 1;
        for entry in fs::read_dir(layout::values(store))? {
            let entry = entry?;
            if let Some(number) = number_of(&entry.file_name()) {
                files.insert(
                    ValueContainer::File(number),
                    ContainerUsage::of(entry.metadata()?.len()),
                );
                next = next.max(number + 1);
            }
        }
        for place in used {
            if let ValueContainer::Segment(_) = place.container
                && !files.contains_key(&place.container)
            {
                match place.container.path(store).metadata() {
                    Ok(metadata) => drop(files.insert(place.container, ContainerUsage::of(metadata.len()))),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    // Whatever is not known to be kept is free to be written over.
                    Err(error) => return Err(error),
                }
            }
            if let ValueContainer::File(number) = place.container {
                // No other file gets the number of one that is lost.
                next = next.max(number.saturating_add(1));
            }
            // What is lost is refused by name when it is read.
            let extent = files.get_mut(&place.container);
            if extent.as_ref().is_none_or(|extent| place.end() > extent.size) {
                lost.insert(place);
            }
            if let Some(extent) = extent {
                extent.live += u64::from(place.bytes);
            }
        }
        Ok(Self {
            store: store.to_owned(),
            limits,
            files,
            lost,
            output: None,
            next,
        })
    }

    /// Says in the log which values are lost, if any are. Those that a crash had taken back are not, once the journal's
    /// changes are taken in.
    pub(super) fn report_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        let Some(first) = lost.first() else { return };
        let bytes: u64 = lost.iter().map(|place| u64::from(place.bytes)).sum();
        let files: BTreeSet<ValueContainer> = lost.iter().map(|place| place.container).collect();
        tracing::error!(
            values = lost.len(), bytes, files = files.len(), first = %first.container.path(&self.store).display(),
            "large values are lost: the files that they are in are missing or too short; what has them is refused by name \
             until these files are put back"
        );
    }

    /// Whether this segment, in which so many bytes are of large values, stays with them.
    pub(super) fn retain_segment(&mut self, segment: FullSegment, large: u64) -> bool {
        let is_worth = segment.is_quick && large > 0 && large >= segment.bytes / RETAIN_SHARE;
        if !is_worth {
            return false;
        }
        let home = ValueContainer::Segment(segment.number);
        let path = home.path(&self.store);
        // It was written ahead.
        let shortened = File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(segment.bytes));
        if let Err(error) = shortened {
            tracing::warn!(path = %path.display(), %error, "a segment cannot be kept; its large values are written once more");
            return false;
        }
        self.files.insert(home, ContainerUsage::of(segment.bytes));
        true
    }

    /// Whether something in this segment is used.
    pub(super) fn holds_segment(&self, number: u64) -> bool {
        self.files.contains_key(&ValueContainer::Segment(number))
    }

    /// What the database is to have under `key`: the value, or where it lies. `written`: in a segment that is kept, so far
    /// behind its beginning.
    pub(super) fn cell(
        &mut self,
        key: &[u8],
        value: &[u8],
        written: Option<(u64, u64)>,
    ) -> io::Result<Vec<u8>> {
        if value.len() < self.limits.large {
            return Ok(StoredCell::Inline(value).encode());
        }
        let sum = crc32fast::hash(value);
        let place = match written {
            Some((segment, offset)) => {
                let place = ValuePointer {
                    container: ValueContainer::Segment(segment),
                    offset,
                    bytes: u32::try_from(value.len()).map_err(too_long)?,
                    sum,
                };
                if let Some(extent) = self.files.get_mut(&place.container) {
                    extent.live += u64::from(place.bytes);
                }
                place
            }
            None => self.append(key, value, sum)?,
        };
        Ok(StoredCell::Pointer(place).encode())
    }

    /// Writes a value of this file once more if it is what the database has: its `used` cell says so.
    pub(super) fn rewrite(
        &mut self,
        home: ValueContainer,
        entry: &ValueEntry,
        used: &[u8],
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(StoredCell::Pointer(place)) = StoredCell::decode(used) else {
            return Ok(None);
        };
        let lies_there = place.container == home
            && place.offset == entry.offset
            && place.bytes as usize == entry.value.len();
        if !lies_there {
            return Ok(None);
        }
        // With the checksum that it had, so that a damaged value stays one.
        let place = self.append(&entry.key, &entry.value, place.sum)?;
        Ok(Some(StoredCell::Pointer(place).encode()))
    }

    fn append(&mut self, key: &[u8], value: &[u8], sum: u32) -> io::Result<ValuePointer> {
        let key_length = u16::try_from(key.len()).map_err(too_long)?;
        let bytes = u32::try_from(value.len()).map_err(too_long)?;
        let mut output = match self.output.take() {
            Some(output) => output,
            None => self.begin()?,
        };
        output.write_all(&key_length.to_le_bytes())?;
        output.write_all(&bytes.to_le_bytes())?;
        output.write_all(&sum.to_le_bytes())?;
        output.write_all(key)?;
        output.write_all(value)?;
        let home = ValueContainer::File(self.next - 1);
        let extent = self.files.entry(home).or_default();
        let place = ValuePointer {
            container: home,
            offset: extent.size + (HEADER + key.len()) as u64,
            bytes,
            sum,
        };
        extent.size = place.offset + u64::from(bytes);
        extent.live += u64::from(bytes);
        // An output that failed is not used again: what it holds to its end is not known.
        self.output = Some(output);
        Ok(place)
    }

    fn begin(&mut self) -> io::Result<BufWriter<File>> {
        let home = ValueContainer::File(self.next);
        let path = home.path(&self.store);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        path.parent().map_or(Ok(()), sync_directory)?;
        self.files.insert(home, ContainerUsage::default());
        self.next += 1;
        Ok(BufWriter::with_capacity(BUFFER, file))
    }

    /// What was written is durable on return.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Some(mut output) = self.output.take() {
            output.flush()?;
            output.get_ref().sync_data()?;
            let extent = self.files.get(&ValueContainer::File(self.next - 1));
            if extent.is_some_and(|extent| extent.size < self.limits.file) {
                self.output = Some(output);
            }
        }
        Ok(())
    }

    /// This is not used any more. The file stays until [`ValueLog::sweep`].
    pub(super) fn release(&mut self, cell: &[u8]) {
        if let Some(StoredCell::Pointer(place)) = StoredCell::decode(cell) {
            self.lost.remove(&place);
            if let Some(extent) = self.files.get_mut(&place.container) {
                extent.live = extent.live.saturating_sub(u64::from(place.bytes));
            }
        }
    }

    /// Removes the files in which nothing is used. The database must be durable without them.
    pub(super) fn sweep(&mut self) -> io::Result<()> {
        let output = self.output.as_ref().map(|_| ValueContainer::File(self.next - 1));
        let unused = self.files.iter().filter(|(_, extent)| extent.live == 0);
        let unused: Vec<ValueContainer> = unused
            .map(|(home, _)| *home)
            .filter(|home| Some(*home) != output)
            .collect();
        for home in unused {
            self.files.remove(&home);
            remove(&home.path(&self.store))?;
        }
        Ok(())
    }

    /// The file to empty next, when too little of all is used.
    pub(super) fn next_to_empty(&mut self) -> Option<ValueContainer> {
        let size: u64 = self.files.values().map(|extent| extent.size).sum();
        let live: u64 = self.files.values().map(|extent| extent.live).sum();
        if size <= self.limits.small.max(live.saturating_mul(MAX_SIZE_PER_LIVE)) {
            return None;
        }
        // Per mille: a file is far shorter than 2^54 bytes.
        let fill = |extent: &ContainerUsage| extent.live * 1000 / extent.size.max(1);
        let files = self.files.iter().filter(|(_, extent)| !extent.is_pinned);
        let (emptiest, extent) = files.min_by_key(|(_, extent)| fill(extent))?;
        if fill(extent) > 1000 / MAX_SIZE_PER_LIVE {
            return None;
        }
        let emptiest = *emptiest;
        if emptiest == ValueContainer::File(self.next - 1) {
            self.output = None;
        }
        Some(emptiest)
    }

    /// The values in this, in order. After an error there is nothing more to be had.
    pub(super) fn entries(&self, home: ValueContainer) -> Box<dyn Iterator<Item = io::Result<ValueEntry>>> {
        self.read_through(home)
            .unwrap_or_else(|error| Box::new(iter::once(Err(error))))
    }

    fn read_through(
        &self,
        home: ValueContainer,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<ValueEntry>>>> {
        let path = home.path(&self.store);
        if let ValueContainer::Segment(_) = home {
            return Ok(Box::new(journal::entries(&path)?));
        }
        let mut file = BufReader::with_capacity(256 << 10, File::open(path)?);
        let size = self.files.get(&home).map_or(0, |extent| extent.size);
        let mut at = 0;
        Ok(Box::new(iter::from_fn(move || {
            (at < size).then(|| {
                let entry = read_entry(&mut file, at, size);
                at = entry
                    .as_ref()
                    .map_or(size, |entry| entry.offset + entry.value.len() as u64);
                entry
            })
        })))
    }

    /// What of this is used could not all be moved: it stays as long as something in it is used.
    pub(super) fn pin(&mut self, home: ValueContainer) {
        if let Some(extent) = self.files.get_mut(&home) {
            extent.is_pinned = true;
        }
    }

    /// Bytes of values in it that are used.
    pub(super) fn live(&self, home: ValueContainer) -> u64 {
        self.files.get(&home).map_or(0, |extent| extent.live)
    }
}
fn read_entry(file: &mut impl io::Read, at: u64, size: u64) -> io::Result<ValueEntry> {
    let (mut key_length, mut bytes, mut sum) = ([0; 2], [0; 4], [0; 4]);
    file.read_exact(&mut key_length)?;
    file.read_exact(&mut bytes)?;
    file.read_exact(&mut sum)?;
    let mut key = vec![0; usize::from(u16::from_le_bytes(key_length))];
    let bytes = u32::from_le_bytes(bytes);
    let offset = at + (HEADER + key.len()) as u64;
    if offset + u64::from(bytes) > size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut value = vec![0; bytes as usize];
    file.read_exact(&mut key)?;
    file.read_exact(&mut value)?;
    Ok(ValueEntry { key, value, offset })
}

/// A value of the store at `store`. None: it is not what was written. [`io::ErrorKind::NotFound`]: its file is gone,
/// since the value has been moved, or is lost.
pub(super) fn read(store: &Path, place: ValuePointer) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(place.container.path(store))?;
    if place.end() > file.metadata()?.len() {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(place.offset))?;
    let mut value = vec![0; place.bytes as usize];
    file.read_exact(&mut value)?;
    Ok((crc32fast::hash(&value) == place.sum).then_some(value))
}

/// Bytes of the files in a directory.
pub(super) fn size_of(directory: &Path) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(directory)? {
        size += match entry?.metadata() {
            Ok(metadata) => metadata.len(),
            // Removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(size)
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.values"))
}

fn number_of(name: &std::ffi::OsStr) -> Option<u64> {
    u64::from_str_radix(name.to_str()?.strip_suffix(".values")?, 16).ok()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn too_long(_: std::num::TryFromIntError) -> io::Error {
    io::Error::other("a key or value is too long")
}
