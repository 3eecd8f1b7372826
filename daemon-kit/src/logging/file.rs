//! A log file of bounded size, for the log's thread: at 16 MiB it is renamed to `NAME.1`, and the three files before
//! it move on by one; the oldest is deleted. The file is opened again when its path leads elsewhere, so that another
//! program may move or delete it.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Largest file, in bytes: some 80 000 lines.
const MAX_BYTES: u64 = 16 << 20;

/// Files that are kept besides the one that is written.
const KEPT: usize = 3;

/// A file that lines are added to.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    max_bytes: u64,
    /// The last byte was a newline: only then is the file changed for another one.
    is_at_line_start: bool,
}

impl RotatingFile {
    /// Opens it for adding; makes it, and its directory, for this user alone.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path
            .parent()
            .filter(|directory| !directory.as_os_str().is_empty())
        {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: append_to(path)?,
            max_bytes: MAX_BYTES,
            is_at_line_start: true,
        })
    }

    /// Makes room for a line of this length.
    fn make_room(&mut self, length: u64) -> io::Result<()> {
        let there = match fs::metadata(&self.path) {
            Ok(there) if is_same(&there, &self.file.metadata()?) => there,
            // Moved or deleted by another program.
            _ => return self.reopen(),
        };
        if there.len() == 0 || there.len() + length <= self.max_bytes {
            return Ok(());
        }
        for number in (1..=KEPT).rev() {
            let from = match number {
                1 => self.path.clone(),
                _ => numbered(&self.path, number - 1),
            };
            match fs::rename(from, numbered(&self.path, number)) {
                Err(error) if number == 1 || error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.reopen()
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = append_to(&self.path)?;
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_at_line_start {
            self.make_room(bytes.len() as u64)?;
        }
        let count = self.file.write(bytes)?;
        if let Some(last) = count.checked_sub(1) {
            self.is_at_line_start = bytes[last] == b'\n';
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// The name of a file that was written before: `daemon.log.1`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(directory: &Path) -> RotatingFile {
        RotatingFile {
            max_bytes: 100,
            ..RotatingFile::open(&directory.join("logs/daemon.log")).unwrap()
        }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn the_newest_lines_are_kept_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = small(directory.path());
        for number in 0..100 {
            // In two writes, as on a full disk.
            log.write_all(format!("line {number:03} and ").as_bytes())
                .unwrap();
            log.write_all(b"more\n").unwrap();
        }
        let mut kept = Vec::new();
        for number in (1..=KEPT).rev() {
            kept.extend(lines(&numbered(&log.path, number)));
        }
        kept.extend(lines(&log.path));
        let first = 100 - kept.len();
        assert!((12..=20).contains(&kept.len()), "{kept:?}");
        for (number, line) in (first..).zip(&kept) {
            assert_eq!(*line, format!("line {number:03} and more"));
        }
        assert!(!numbered(&log.path, KEPT + 1).exists());
    }

    #[test]
    fn a_file_that_was_moved_away_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = small(directory.path());
        log.write_all(b"first\n").unwrap();
        let moved = directory.path().join("moved");
        fs::rename(&log.path, &moved).unwrap();
        log.write_all(b"second\n").unwrap();
        fs::remove_file(&log.path).unwrap();
        log.write_all(b"third\n").unwrap();
        assert_eq!(
            (lines(&moved), lines(&log.path)),
            (vec!["first".to_owned()], vec!["third".to_owned()])
        );
        let mode = fs::metadata(&log.path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_line_longer_than_a_file_has_one_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = small(directory.path());
        let long = format!("{}\n", "x".repeat(300));
        for _ in 0..2 {
            log.write_all(long.as_bytes()).unwrap();
        }
        assert_eq!(lines(&log.path).len(), 1);
        assert_eq!(lines(&numbered(&log.path, 1)).len(), 1);
    }
}
