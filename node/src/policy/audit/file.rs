//! The file of the audit log: opened for this user only, added to by whole lines, opened anew when it was moved away.
//!
//! The rule: it ends with a whole line whenever nobody is writing. What a crash has cut off is removed at the start.

use std::{
    fs::{File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::line::{Chain, hash};

/// Longest line that is looked for at the end of a file, in bytes: many times what is ever written.
const MAX_LINE: u64 = 1 << 20;

/// The file's user may read and write it, nobody else.
const MODE: u32 = 0o600;

#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    path: PathBuf,
}

impl LogFile {
    /// Opens the log, and tells where its chain stands.
    pub(super) fn open(path: &Path, chained: bool) -> io::Result<(Self, Chain)> {
        let mut log = Self {
            file: open(path)?,
            path: path.to_owned(),
        };
        let last = log.mend()?;
        let chain = chained.then(|| last.as_deref().map_or([0; 32], hash));
        Ok((log, Chain(chain)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what is at the path now; the chain goes on.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        // It may be the same file, and is locked by this very process then.
        let _ = self.file.unlock();
        let opened = open(&self.path);
        match opened {
            Ok(file) => self.file = file,
            Err(error) => {
                let _ = self.file.try_lock();
                return Err(error);
            }
        }
        self.mend().map(drop)
    }

    /// Adds lines; how many bytes of them stay there, which are whole lines, and why the rest does not.
    pub(super) fn append(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            match self.file.write(&lines[written..]) {
                Ok(0) => return (self.cut(lines, written), Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
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
        let begun = (written - whole) as u64;
        let is_back = self
            .file
            .metadata()
            .and_then(|about| self.file.set_len(about.len().saturating_sub(begun)));
        // What cannot be taken back, as in a pipe, stands, and its rest follows.
        if begun == 0 || is_back.is_ok() {
            whole
        } else {
            written
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A pipe or a device: there is nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }

    /// Removes what was cut off at the end, and gives the last line.
    fn mend(&mut self) -> io::Result<Option<Vec<u8>>> {
        let about = self.file.metadata()?;
        if !about.is_file() || about.len() == 0 {
            return Ok(None);
        }
        let begin = about.len().saturating_sub(2 * MAX_LINE);
        let mut end = Vec::new();
        self.file.seek(SeekFrom::Start(begin))?;
        (&self.file).take(2 * MAX_LINE).read_to_end(&mut end)?;
        let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && begin > 0 {
            let text = format!(
                "{} ends with a line of more than 1 MiB: it is no audit log",
                self.path.display()
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
                self.path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if whole < end.len() {
            let bytes = end.len() - whole;
            tracing::warn!(path = %self.path.display(), bytes, "the last line of the audit log was cut off; it is removed");
            self.file.set_len(begin + whole as u64)?;
        }
        Ok(last.map(<[u8]>::to_vec))
    }
}

/// How every line begins; see `line.rs`.
const BEGIN: &[u8] = b"{\"time\":\"";

/// Whether this may be a line that was not written to its end, or nothing of one.
fn is_begun_line(begun: &[u8]) -> bool {
    let known = BEGIN.len().min(begun.len());
    begun[..known] == BEGIN[..known]
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .mode(MODE)
        .open(path)?;
    let about = file.metadata()?;
    // Somebody may have made it before, for everybody to read.
    if about.is_file() && about.permissions().mode() & 0o777 != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    // Two writers would tear the chain. Where files cannot be locked, nobody looks after that.
    if about.is_file()
        && let Err(TryLockError::WouldBlock) = file.try_lock()
    {
        let text = format!("{} is written by another process", path.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
    }
    Ok(file)
}
