//! The file of the audit log: opened for this user only, added to by whole lines, opened anew when it was moved away.
//!
//! The rules: it ends with a whole line whenever nobody is writing, and what a crash has cut off is removed at the start.
//! Room for more lines is reserved behind its end, so that a full disk is known before a line finds no room.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::log_line::{HashChain, hash};

/// Longest line that is looked for at the end of a file, in bytes: many times what is ever written.
const MAX_LINE: u64 = 1 << 20;

/// The file's user may read and write it, nobody else.
const MODE: u32 = 0o600;

/// Bytes that are reserved behind the end of the file, some 2 000 lines. At least half of them are there when the door
/// is shut since no more can be had: far more lines than are decided until then.
pub(super) const RESERVE: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
    /// How long it is, as far as this process knows.
    length: u64,
    /// Up to where there is room that nobody else can take.
    reserved: u64,
}

impl LogFile {
    /// Opens the log, and tells where its chain stands. A device that is named at the start is meant.
    pub(super) fn open(path: &Path, chained: bool) -> io::Result<(Self, HashChain)> {
        let (file, last) = open(path, true)?;
        let log = Self {
            length: file.metadata()?.len(),
            file,
            path: path.to_owned(),
            reserved: 0,
        };
        let chain = chained.then(|| last.as_deref().map_or([0; 32], hash));
        Ok((log, HashChain(chain)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what is at the path now; the chain goes on. When that fails, what was open stays so, and locked.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        // The same file is locked by this very process.
        if self.is_at_path()? {
            let before = self.file.metadata()?.len().max(self.length);
            take_over(&self.file, &self.path)?;
            if self.file.metadata()?.len() < before {
                // It went with what was removed. What somebody else has removed is looked for, and told, by [`LogFile::missing`].
                self.reserved = 0;
            }
        } else {
            let (file, _) = open(&self.path, false)?;
            self.give_back();
            self.file = file;
            self.length = self.file.metadata()?.len();
            self.reserved = 0;
        }
        Ok(())
    }

    /// Sees to it that there is room for so many bytes and for what comes behind them. Where room cannot be reserved, as on a
    /// device, only writing tells.
    ///
    /// # Errors
    /// The disk is full, or its quota used up.
    pub(super) fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        let about = self.file.metadata()?;
        let end = about.len() + bytes as u64;
        if !about.is_file() || self.reserved >= end + RESERVE / 2 {
            return Ok(());
        }
        if reserve(&self.file, about.len(), bytes as u64 + RESERVE)? {
            self.reserved = end + RESERVE;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Gives back what is reserved and was not needed.
    fn give_back(&self) {
        let about = self.file.metadata().ok().filter(Metadata::is_file);
        if let Some(about) = about.filter(|about| about.len() < self.reserved) {
            // If it cannot be, it is room that a file takes without need.
            let _ = self.file.set_len(about.len());
        }
    }

    /// How many bytes somebody else has removed at its end since this was asked before. What is left of a line goes, too.
    pub(super) fn missing(&mut self) -> Option<u64> {
        let about = self.file.metadata().ok().filter(Metadata::is_file)?;
        let missing = self.length.checked_sub(about.len()).filter(|bytes| *bytes > 0)?;
        // What was reserved has gone as well.
        self.reserved = 0;
        if let Err(error) = mend(&self.file, &self.path) {
            tracing::warn!("what is left of the audit log is added to as it is: {error}");
        }
        self.length = self.file.metadata().map_or(0, |about| about.len());
        Some(missing)
    }

    /// Whether it is a file that has no name any more: nobody would read what is added. There are file systems that
    /// count no names.
    pub(super) fn is_deleted(&self) -> bool {
        let about = self.file.metadata();
        about.is_ok_and(|about| about.is_file() && about.nlink() == 0)
            && !self.is_at_path().unwrap_or_default()
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        let about = self.file.metadata();
        about.is_ok_and(|about| about.is_file() && about.len() == 0)
    }

    /// Whether what is open is what is at the path.
    fn is_at_path(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        Ok(fs::metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
    }

    /// Adds lines; how many bytes of them stay there, which are whole lines, and why the rest does not.
    pub(super) fn append(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            match self.file.write(&lines[written..]) {
                Ok(0) => return (self.cut(lines, written), Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => {
                    written += more;
                    self.length += more as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (self.cut(lines, written), Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Takes back the beginning of a line whose end found no room.
    fn cut(&mut self, lines: &[u8], written: usize) -> usize {
        let whole = lines[..written]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let begun = written - whole;
        // What cannot be taken back, as from a device, stands, and its rest follows.
        if begun == 0 || self.take_back(begun) {
            whole
        } else {
            written
        }
    }

    /// Removes so many bytes at the end; whether that could be done.
    pub(super) fn take_back(&mut self, bytes: usize) -> bool {
        let about = self.file.metadata();
        let is_back = about.and_then(|about| {
            let length = about.len().saturating_sub(bytes as u64);
            self.file.set_len(length).map(|()| length)
        });
        if let Ok(length) = is_back {
            // What was reserved behind it is gone with it.
            (self.length, self.reserved) = (length, 0);
        }
        is_back.is_ok()
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A device: there is nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Reserves so many bytes from there on, without making the file longer; whether that can be done here.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn reserve(file: &File, from: u64, bytes: u64) -> io::Result<bool> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };

    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(full @ (Errno::NOSPC | Errno::DQUOT)) => return Err(full.into()),
            Err(_) => return Ok(false),
        }
    }
}

/// Other systems have nothing that leaves the length as it is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn reserve(_: &File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

/// How every line begins; see `line.rs`.
const BEGIN: &[u8] = b"{\"time\":\"";

/// Whether this may be a line that was not written to its end, or nothing of one.
fn is_begun_line(begun: &[u8]) -> bool {
    let known = BEGIN.len().min(begun.len());
    begun[..known] == BEGIN[..known]
}

/// Opens the log at `path` for this process alone, and gives its last line.
fn open(path: &Path, may_be_device: bool) -> io::Result<(File, Option<Vec<u8>>)> {
    // A socket cannot be opened at all, and some devices act on it.
    if let Ok(about) = fs::metadata(path) {
        check(&about, path, may_be_device)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(MODE)
        // A pipe may have come meanwhile: nobody waits for its other end.
        // It stays so. To a regular file it means nothing. A device that takes nothing now, such as a terminal that was
        // stopped, gives an error, and the line is tried again; without this it would hold the writer, and the daemon's end.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let about = file.metadata()?;
    check(&about, path, may_be_device)?;
    if !about.is_file() {
        tracing::warn!(path = %path.display(), "the audit log is a device: what it does with the lines is its own affair");
    }
    // Two writers would tear the chain. Where files cannot be locked, nobody looks after that.
    if about.is_file()
        && let Err(TryLockError::WouldBlock) = file.try_lock()
    {
        let text = format!("{} is written by another process", path.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
    }
    let last = take_over(&file, path)?;
    Ok((file, last))
}

/// Whether a log may be what is at `path`.
fn check(about: &Metadata, path: &Path, may_be_device: bool) -> io::Result<()> {
    let kind = about.file_type();
    if kind.is_file() || may_be_device && kind.is_char_device() {
        return Ok(());
    }
    let text = format!(
        "{} is no regular file, as an audit log has to be; give another path",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Makes a file that is a log, or empty, one that can be added to, by its user alone; gives its last line.
fn take_over(file: &File, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let last = mend(file, path)?;
    let about = file.metadata()?;
    // Somebody may have made it before, for everybody to read.
    if about.is_file() && about.permissions().mode() & 0o777 != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(last)
}

/// Removes what was cut off at the end, and gives the last line.
fn mend(mut file: &File, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() == 0 {
        return Ok(None);
    }
    let begin = about.len().saturating_sub(2 * MAX_LINE);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.take(2 * MAX_LINE).read_to_end(&mut end)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole == 0 && begin > 0 {
        let text = format!(
            "{} ends with a line of more than 1 MiB: it is no audit log",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let last = end[..whole].strip_suffix(b"\n").map(|lines| {
        let from = lines
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        &lines[from..]
    });
    if !is_begun_line(&end[whole..]) || last.is_some_and(|line| !line.starts_with(BEGIN)) {
        let text = format!(
            "{} is no audit log: its last line is none; give another path",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    if whole < end.len() {
        let bytes = end.len() - whole;
        tracing::warn!(path = %path.display(), bytes, "the last line of the audit log was cut off; it is removed");
        file.set_len(begin + whole as u64)?;
    }
    Ok(last.map(<[u8]>::to_vec))
}
