//! Where a daemon of a test keeps its files.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;

/// Longest path of a Unix socket, in bytes: 108 with the final NUL, less what other platforms take off.
const MAX_SOCKET_PATH: usize = 103;

/// How much of the log's end is shown when a test fails, in bytes.
const SHOWN_LOG: u64 = 2560 << 10;

/// Where a daemon keeps its files; removed with the last daemon that uses it.
#[derive(Clone, Debug)]
pub struct Home(Arc<TempDir>);

impl Home {
    /// A new, empty one.
    ///
    /// # Panics
    /// When it cannot be made, or is so deep that no socket fits.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("aa")
            .tempdir()
            .expect("a temporary home");
        let socket = directory.path().join("daemon.sock");
        assert!(
            socket.as_os_str().len() <= MAX_SOCKET_PATH,
            "{} is too long for a socket; set TMPDIR to a shorter path",
            socket.display()
        );
        Self(Arc::new(directory))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The default socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("daemon.sock")
    }

    /// The end of a log in it.
    pub(super) fn log_tail(&self) -> String {
        let mut tail = Vec::new();
        if let Ok(mut file) = File::open(self.log()) {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_LOG)));
            let _ = file.read_to_end(&mut tail);
        }
        String::from_utf8_lossy(&tail).into_owned()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path().join("daemon.err")
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}
