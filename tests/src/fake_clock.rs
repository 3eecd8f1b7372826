//! A wall clock that a test sets, for one process, by Debian's `faketime`. It stands before the C library.
//! Passed time (`CLOCK_MONOTONIC`) is left as it is, as where an operator sets a clock.

use std::{ffi::OsString, fs, path::PathBuf};

use tempfile::TempDir;

use crate::skip_unless_required;

/// See the module's text.
#[derive(Debug)]
pub struct FakeClock {
    library: PathBuf,
    home: TempDir,
}

impl FakeClock {
    /// A right one. None, with a line in the test's output, where the library is missing.
    ///
    /// # Panics
    /// When there is no temporary directory.
    pub fn new() -> Option<Self> {
        let above = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let named = above.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
        let Some(library) = named.into_iter().find(|library| library.is_file()) else {
            skip_unless_required("no libfaketime here (Debian: apt install faketime)");
            return None;
        };
        let clock = Self {
            library,
            home: tempfile::tempdir().expect("a temporary directory"),
        };
        clock.set(0);
        Some(clock)
    }

    /// Sets it so many seconds ahead of the right time, or behind it.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn set(&self, seconds: i64) {
        // Renamed into its place: a process never reads half of it.
        let written = self.home.path().join("clock.new");
        fs::write(&written, format!("{seconds:+}s\n")).expect("the clock can be written");
        fs::rename(written, self.home.path().join("clock")).expect("the clock can be set");
    }

    /// The environment of a process that has this clock.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.home.path().join("clock").into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}
