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
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Looks in a row at which the file is not there: a copy that takes its place by a rename, or by deletion and creation, is
/// there within one.
const MISSING_POLLS: u32 = 2;

/// Returns once the key file is gone, or another file with other content has its name: that file's path.
pub(super) async fn wait_until_lost(path: &Path) -> PathBuf {
    let (Ok(mut known), Ok(content)) = (file_id(path), fs::read(path)) else {
        // It is somewhere that this process cannot read again.
        return std::future::pending().await;
    };
    let mut missing = 0;
    loop {
        sleep(POLL_INTERVAL).await;
        match file_id(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing += 1,
            // What cannot be looked at for the moment is there.
            Err(_) => missing = 0,
            Ok(there) => {
                missing = 0;
                if there == known {
                    continue;
                }
                match fs::read(path) {
                    Ok(other) if other == content => known = there,
                    Ok(_) => return path.to_owned(),
                    Err(_) => {}
                }
            }
        }
        if missing >= MISSING_POLLS {
            return path.to_owned();
        }
    }
}

/// The device and inode of the file at a path.
fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let about = fs::metadata(path)?;
    Ok((about.dev(), about.ino()))
}
