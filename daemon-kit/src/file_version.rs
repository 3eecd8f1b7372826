//! What tells one version of a file from another, for what is read again when its file changes.
//!
//! Length and times alone do not: an editor, `cp -p`, `touch -r` or a container's volume can leave both as
//! they were, and two writes can fall into one tick of the file system's clock. So the content counts too.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hasher as _},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Most bytes of a file whose content is compared: as many as a configuration file has. Of a larger file what
/// lies behind them is told by its inode, length and times.
const COMPARED: u64 = 1 << 20;

/// A version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Device, inode, length.
    file: [u64; 3],
    /// When its content and when anything of it was changed: seconds and nanoseconds.
    changed: [i64; 4],
    /// Of a regular file that can be read: the hash of its beginning.
    content: Option<u64>,
}

impl FileVersion {
    /// The version that is there now; `None`: there is no file, or it cannot be looked at.
    pub fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self {
            file: [about.dev(), about.ino(), about.len()],
            changed: [
                about.mtime(),
                about.mtime_nsec(),
                about.ctime(),
                about.ctime_nsec(),
            ],
            // Opening a pipe would wait for its writer.
            content: about.is_file().then(|| hash(path)).flatten(),
        })
    }
}

fn hash(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?.take(COMPARED);
    let mut hasher = DefaultHasher::new();
    let mut buffer = [0; 8 << 10];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finish()),
            length => hasher.write(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{FileTimes, OpenOptions};

    use super::*;

    #[test]
    fn another_content_of_the_same_length_and_date_is_another_version() {
        let path = std::env::temp_dir().join(format!("agentanycast-file-version-{}", std::process::id()));
        fs::write(&path, "one").unwrap();
        let (first, written) = (
            FileVersion::of(&path),
            fs::metadata(&path).unwrap().modified().unwrap(),
        );
        assert_eq!(FileVersion::of(&path), first);
        fs::write(&path, "two").unwrap();
        let times = FileTimes::new().set_modified(written);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_times(times)
            .unwrap();
        let second = FileVersion::of(&path);
        assert_ne!(second, first);
        // Also where the file system keeps no other difference.
        assert_ne!(second.unwrap().content, first.unwrap().content);
        fs::remove_file(&path).unwrap();
        assert_eq!(FileVersion::of(&path), None);
    }

    #[test]
    fn a_directory_has_a_version_and_no_content() {
        let version = FileVersion::of(&std::env::temp_dir());
        assert_eq!(version.map(|version| version.content), Some(None));
    }
}
