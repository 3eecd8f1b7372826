//! When a database is written anew, and how the new one takes the place of the old.
//!
//! The rule: at each moment one whole database is there. The next one is on disk before the old one gives up its name, and
//! [`recover`] ends at the next start what a crash has interrupted.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// The database in use.
pub(super) const NAME: &str = "registry";
/// The next one, while it is written.
pub(super) const NEXT: &str = "registry.next";
/// The one before, until it is removed.
const OLD: &str = "registry.old";

/// Databases up to this many bytes are not rewritten.
const SMALL: u64 = 64 << 20;

/// Bytes on disk per byte of live data before a database is rewritten.
const MOST_PER_LIVE: u64 = 4;

/// What is known of a database's sizes, in bytes.
#[derive(Debug, Default)]
pub(super) struct GenerationSizes {
    /// What it took when it was rewritten last, or would have been.
    pub(super) rewritten: u64,
    /// Its live data when they were counted last.
    live: u64,
}

impl GenerationSizes {
    /// Whether a database of this size may be mostly dead, so that its live data are worth counting.
    pub(super) fn is_suspect(&self, size: u64) -> bool {
        // Where even a new one takes that much for its data, writing it again does not help.
        size > SMALL.max(self.rewritten.saturating_mul(2)) && size > self.live.saturating_mul(MOST_PER_LIVE)
    }

    /// Whether it is, with that much live data.
    pub(super) fn is_dead(&mut self, size: u64, live: u64) -> bool {
        self.live = live;
        self.is_suspect(size)
    }
}

/// Puts the next database in the place of the one in use. Neither may be open, and the next one is on disk.
pub(super) fn swap(directory: &Path) -> io::Result<()> {
    File::open(directory.join(NEXT))?.sync_all()?;
    sync(directory)?;
    fs::rename(directory.join(NAME), directory.join(OLD))?;
    recover(directory)
}

/// Ends what a crash has interrupted.
pub(super) fn recover(directory: &Path) -> io::Result<()> {
    let [name, next, old] = [NAME, NEXT, OLD].map(|name| directory.join(name));
    // The old one gives up its name only when the next one is whole.
    if !name.exists() && old.exists() {
        fs::rename(if next.exists() { &next } else { &old }, &name)?;
        sync(directory)?;
    }
    remove(&next)?;
    remove(&old)
}

/// Removes a database, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_rewritten_when_most_of_it_is_dead() {
        let mut sizes = GenerationSizes::default();
        assert!(!sizes.is_suspect(SMALL) && sizes.is_suspect(SMALL + 1));
        assert!(!sizes.is_dead(SMALL + 1, SMALL / 2));
        assert!(!sizes.is_suspect(SMALL * 2), "its live data were counted");
        assert!(sizes.is_suspect(SMALL * 2 + 1) && sizes.is_dead(SMALL * 2 + 1, 1));
        sizes.rewritten = SMALL;
        assert!(!sizes.is_suspect(SMALL * 2) && sizes.is_suspect(SMALL * 2 + 1));
    }

    #[test]
    fn one_whole_database_survives_a_crash_at_any_step() {
        // Which databases are there, and which of them is kept.
        let steps: [(&[&str], &str); 6] = [
            (&[NAME], NAME),
            (&[NAME, NEXT], NAME),
            (&[NEXT, OLD], NEXT),
            (&[NAME, OLD], NAME),
            (&[OLD], OLD),
            (&[NEXT], ""),
        ];
        for (there, kept) in steps {
            let directory = tempfile::tempdir().unwrap();
            for name in there {
                fs::create_dir(directory.path().join(name)).unwrap();
                fs::write(directory.path().join(name).join("who"), name).unwrap();
            }
            recover(directory.path()).unwrap();
            let read = fs::read_to_string(directory.path().join(NAME).join("who"));
            assert_eq!(read.unwrap_or_default(), kept, "{there:?}");
            assert!(!directory.path().join(NEXT).exists() && !directory.path().join(OLD).exists());
        }
    }
}
