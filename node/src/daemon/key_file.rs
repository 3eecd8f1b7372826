//! The key file of a daemon that runs. Without it the daemon cannot be started again with what it has accepted, so it accepts
//! nothing more: it ends.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::sleep;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Looks in a row at which the file is not there: a copy that takes its place by a rename, or by deletion and creation, is
/// there within one.
const MISSING: u32 = 2;

/// Returns once the key file is gone, or another file with other content has its name: that file's path.
pub(super) async fn lost(path: &Path) -> PathBuf {
    let Ok(first) = read(path) else {
        // It is somewhere that this process cannot read again.
        return std::future::pending().await;
    };
    let mut known = first.place;
    let mut missing = 0;
    loop {
        sleep(LOOK).await;
        match read(path) {
            Ok(file) if file.place == known => missing = 0,
            Ok(file) if file.content == first.content => (known, missing) = (file.place, 0),
            Ok(_) => return path.to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing += 1,
            // What cannot be read for the moment is there.
            Err(_) => missing = 0,
        }
        if missing >= MISSING {
            return path.to_owned();
        }
    }
}

struct KeyFile {
    /// Its device and inode.
    place: (u64, u64),
    content: Vec<u8>,
}

fn read(path: &Path) -> io::Result<KeyFile> {
    let about = fs::metadata(path)?;
    Ok(KeyFile {
        place: (about.dev(), about.ino()),
        content: fs::read(path)?,
    })
}
