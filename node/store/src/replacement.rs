//! How a database takes the place of another one under the same name.
//!
//! At each moment one whole database is there. The next one is on disk before the old one gives up its name, and
//! [`DatabasePlace::recover`] ends at the next start what a crash has interrupted.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::directory::{remove_if_there, sync_directory};

/// Where a database is, and where the next one is while it is written. The one before is at `NAME.old` until it is removed.
#[derive(Clone, Debug)]
pub struct DatabasePlace {
    directory: PathBuf,
    name: &'static str,
}

impl DatabasePlace {
    /// The place `name` in this directory.
    pub fn new(directory: &Path, name: &'static str) -> Self {
        Self {
            directory: directory.to_owned(),
            name,
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The database in use: `NAME`.
    pub fn current(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// The next one, while it is written: `NAME.next`.
    pub fn next(&self) -> PathBuf {
        self.directory.join(format!("{}.next", self.name))
    }

    fn old(&self) -> PathBuf {
        self.directory.join(format!("{}.old", self.name))
    }

    /// Puts the next database in the place of the one in use. Neither may be open, and the next one is on disk.
    pub fn take_next(&self) -> io::Result<()> {
        sync_directory(&self.next())?;
        sync_directory(&self.directory)?;
        fs::rename(self.current(), self.old())?;
        self.recover()
    }

    /// Ends what a crash has interrupted.
    pub fn recover(&self) -> io::Result<()> {
        let (current, next, old) = (self.current(), self.next(), self.old());
        // The old one gives up its name only when the next one is whole.
        if !current.exists() && old.exists() {
            fs::rename(if next.exists() { &next } else { &old }, &current)?;
            sync_directory(&self.directory)?;
        }
        remove_if_there(&next)?;
        remove_if_there(&old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whole_database_survives_a_crash_at_any_step() {
        const CURRENT: &str = "registry";
        const NEXT: &str = "registry.next";
        const OLD: &str = "registry.old";
        // Which databases are there, and which of them is kept.
        let steps: [(&[&str], &str); 6] = [
            (&[CURRENT], CURRENT),
            (&[CURRENT, NEXT], CURRENT),
            (&[NEXT, OLD], NEXT),
            (&[CURRENT, OLD], CURRENT),
            (&[OLD], OLD),
            (&[NEXT], ""),
        ];
        for (there, kept) in steps {
            let directory = tempfile::tempdir().unwrap();
            for name in there {
                fs::create_dir(directory.path().join(name)).unwrap();
                fs::write(directory.path().join(name).join("who"), name).unwrap();
            }
            let place = DatabasePlace::new(directory.path(), CURRENT);
            place.recover().unwrap();
            let read = fs::read_to_string(place.current().join("who"));
            assert_eq!(read.unwrap_or_default(), kept, "{there:?}");
            assert!(!directory.path().join(NEXT).exists() && !directory.path().join(OLD).exists());
        }
    }
}
