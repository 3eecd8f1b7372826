//! The archive: texts in one directory, packed, for its maker's eyes alone.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, Header};

/// The directory in it.
const DIRECTORY: &str = "anycast-bugreport";

pub(super) struct Archive {
    files: Builder<GzEncoder<File>>,
    made: u64,
}

impl Archive {
    /// A new file; one that is there is an error.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let made = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            files: Builder::new(GzEncoder::new(file, Compression::default())),
            made: made.as_secs(),
        })
    }

    pub(super) fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.made);
        self.files
            .append_data(&mut header, format!("{DIRECTORY}/{name}"), text.as_bytes())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.files.into_inner()?.finish()?.sync_all()
    }
}
