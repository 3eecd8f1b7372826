//! Large values beside the database: files that are only ever added to. The database keeps where a value
//! lies; it would write a value of 60 KiB some three times, and never give the room back.
//!
//! The checkpoint thread writes, and is the only one that removes: a file in which nothing is used any
//! more, at once; and when less than a third of all files is used, what is used of the emptiest goes into
//! the newest. A value is durable after [`Values::sync`], which comes before the database's.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::base::sync_directory_of;

/// Bytes on disk per byte that is used, before files are emptied.
const MOST_PER_LIVE: u64 = 3;

/// Length of the key, length and checksum of the value.
const HEADER: usize = 2 + 4 + 4;

/// Values of this many bytes and more are written from where they are; what is shorter is gathered.
const BUFFER: usize = 32 << 10;

const HERE: u8 = 0;
const THERE: u8 = 1;

/// Which values go into files, and how long those get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Values of this many bytes or more.
    pub(super) large: usize,
    /// Bytes after which the next file is begun.
    pub(super) file: u64,
    /// Up to this many bytes of all files, none is emptied.
    pub(super) small: u64,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    file: u64,
    offset: u64,
    bytes: u32,
    sum: u32,
}

/// What the database has under a key.
pub(super) enum Cell<'a> {
    /// The value.
    Here(&'a [u8]),
    /// Where it is.
    There(Place),
}

impl<'a> Cell<'a> {
    /// None: these bytes are no cell.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            HERE => Some(Self::Here(rest)),
            THERE => {
                let place: &[u8; 24] = rest.try_into().ok()?;
                let (file, rest) = place.split_first_chunk()?;
                let (offset, rest) = rest.split_first_chunk()?;
                let (bytes, sum) = rest.split_first_chunk()?;
                Some(Self::There(Place {
                    file: u64::from_le_bytes(*file),
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
            Self::Here(value) => [&[HERE], *value].concat(),
            Self::There(place) => [
                &[THERE][..],
                &place.file.to_le_bytes(),
                &place.offset.to_le_bytes(),
                &place.bytes.to_le_bytes(),
                &place.sum.to_le_bytes(),
            ]
            .concat(),
        }
    }
}

/// A value in a file, with its key.
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) place: Place,
    value: Vec<u8>,
}

/// The files.
pub(super) struct Values {
    directory: PathBuf,
    limits: Limits,
    files: BTreeMap<u64, Extent>,
    output: Option<BufWriter<File>>,
    next: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    size: u64,
    live: u64,
    /// It cannot be read to its end, so it stays as long as something in it is used.
    is_stuck: bool,
}

impl Values {
    /// The files in `directory`, of which `used` values are.
    pub(super) fn open(
        directory: &Path,
        limits: Limits,
        used: impl Iterator<Item = Place>,
    ) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if let Some(number) = number_of(&entry.file_name()) {
                let size = entry.metadata()?.len();
                files.insert(
                    number,
                    Extent {
                        size,
                        ..Extent::default()
                    },
                );
            }
        }
        for place in used {
            if let Some(extent) = files.get_mut(&place.file) {
                extent.live += u64::from(place.bytes);
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            limits,
            next: files.last_key_value().map_or(1, |(last, _)| last + 1),
            files,
            output: None,
        })
    }

    /// What the database is to have under `key`: the value, or where it was written.
    pub(super) fn cell(&mut self, key: &[u8], value: &[u8]) -> io::Result<Vec<u8>> {
        if value.len() < self.limits.large {
            return Ok(Cell::Here(value).encode());
        }
        let place = self.append(key, value, crc32fast::hash(value))?;
        Ok(Cell::There(place).encode())
    }

    /// Writes an entry of another file once more.
    pub(super) fn again(&mut self, entry: &Entry) -> io::Result<Vec<u8>> {
        // With the checksum that it had, so that a damaged value stays one.
        let place = self.append(&entry.key, &entry.value, entry.place.sum)?;
        Ok(Cell::There(place).encode())
    }

    fn append(&mut self, key: &[u8], value: &[u8], sum: u32) -> io::Result<Place> {
        let too_long = |_| io::Error::other("a key or value is too long");
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
        let file = self.next - 1;
        let extent = self.files.entry(file).or_default();
        let place = Place {
            file,
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
        let path = path_of(&self.directory, self.next);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)?;
        sync_directory_of(&path)?;
        self.files.insert(self.next, Extent::default());
        self.next += 1;
        Ok(BufWriter::with_capacity(BUFFER, file))
    }

    /// What was written is durable on return.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let Some(mut output) = self.output.take() {
            output.flush()?;
            output.get_ref().sync_data()?;
            let extent = self.files.get(&(self.next - 1));
            if extent.is_some_and(|extent| extent.size < self.limits.file) {
                self.output = Some(output);
            }
        }
        Ok(())
    }

    /// This is not used any more. The file stays until [`Values::sweep`].
    pub(super) fn release(&mut self, cell: &[u8]) {
        if let Some(Cell::There(place)) = Cell::decode(cell)
            && let Some(extent) = self.files.get_mut(&place.file)
        {
            extent.live = extent.live.saturating_sub(u64::from(place.bytes));
        }
    }

    /// Removes the files in which nothing is used. The database must be durable without them.
    pub(super) fn sweep(&mut self) -> io::Result<()> {
        let output = self.output.as_ref().map(|_| self.next - 1);
        let unused = self.files.iter().filter(|(_, extent)| extent.live == 0);
        let unused: Vec<u64> = unused
            .map(|(number, _)| *number)
            .filter(|number| Some(*number) != output)
            .collect();
        for number in unused {
            self.files.remove(&number);
            remove(&self.directory, number)?;
        }
        Ok(())
    }

    /// The file to empty next, when too little of all is used.
    pub(super) fn next_to_empty(&mut self) -> Option<u64> {
        let size: u64 = self.files.values().map(|extent| extent.size).sum();
        let live: u64 = self.files.values().map(|extent| extent.live).sum();
        if size <= self.limits.small.max(live.saturating_mul(MOST_PER_LIVE)) {
            return None;
        }
        // Per mille: a file is far shorter than 2^54 bytes.
        let fill = |extent: &Extent| extent.live * 1000 / extent.size.max(1);
        let files = self.files.iter().filter(|(_, extent)| !extent.is_stuck);
        let (emptiest, extent) = files.min_by_key(|(_, extent)| fill(extent))?;
        if fill(extent) > 1000 / MOST_PER_LIVE {
            return None;
        }
        let emptiest = *emptiest;
        if emptiest == self.next - 1 {
            self.output = None;
        }
        Some(emptiest)
    }

    /// The entries of a file, in order.
    pub(super) fn entries(&self, number: u64) -> io::Result<impl Iterator<Item = io::Result<Entry>> + use<>> {
        let mut file = BufReader::with_capacity(256 << 10, File::open(path_of(&self.directory, number))?);
        let size = self.files.get(&number).map_or(0, |extent| extent.size);
        let mut at = 0;
        Ok(std::iter::from_fn(move || {
            (at < size).then(|| {
                let entry = read_entry(&mut file, number, at, size);
                // After an error there is nothing more to be had.
                at = entry
                    .as_ref()
                    .map_or(size, |entry| entry.place.offset + u64::from(entry.place.bytes));
                entry
            })
        }))
    }

    /// This file cannot be read to its end.
    pub(super) fn is_stuck(&mut self, number: u64) {
        if let Some(extent) = self.files.get_mut(&number) {
            extent.is_stuck = true;
        }
    }
}

fn read_entry(file: &mut impl io::Read, number: u64, at: u64, size: u64) -> io::Result<Entry> {
    let (mut key_length, mut bytes, mut sum) = ([0; 2], [0; 4], [0; 4]);
    file.read_exact(&mut key_length)?;
    file.read_exact(&mut bytes)?;
    file.read_exact(&mut sum)?;
    let mut key = vec![0; usize::from(u16::from_le_bytes(key_length))];
    let place = Place {
        file: number,
        offset: at + (HEADER + key.len()) as u64,
        bytes: u32::from_le_bytes(bytes),
        sum: u32::from_le_bytes(sum),
    };
    if place.offset + u64::from(place.bytes) > size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut value = vec![0; place.bytes as usize];
    file.read_exact(&mut key)?;
    file.read_exact(&mut value)?;
    Ok(Entry { key, place, value })
}

/// A value. None: it is not what was written. [`io::ErrorKind::NotFound`]: its file is gone, since the value
/// has been moved, or is lost.
pub(super) fn read(directory: &Path, place: Place) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path_of(directory, place.file))?;
    if place.offset + u64::from(place.bytes) > file.metadata()?.len() {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(place.offset))?;
    let mut value = vec![0; place.bytes as usize];
    file.read_exact(&mut value)?;
    Ok((crc32fast::hash(&value) == place.sum).then_some(value))
}

/// Bytes that the files take on disk.
pub(super) fn size_on_disk(directory: &Path) -> io::Result<u64> {
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

fn remove(directory: &Path, number: u64) -> io::Result<()> {
    match fs::remove_file(path_of(directory, number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
