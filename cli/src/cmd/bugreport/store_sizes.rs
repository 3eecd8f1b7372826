//! How large the store is: files and bytes of each of its directories, and the room on its disk. Nothing in it is opened.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

/// Files that are counted at most: a store may have millions.
const MAX_FILES: u64 = 200_000;

/// Directories in directories that are gone into.
const DEPTH: u32 = 8;

#[derive(Debug, Default)]
struct StoreSize {
    files: u64,
    bytes: u64,
}

pub(super) fn document(store: &Path) -> Value {
    let mut parts = Map::new();
    let mut left = MAX_FILES;
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        let mut size = StoreSize::default();
        add(&entry.path(), DEPTH, &mut left, &mut size);
        let name = entry.file_name().to_string_lossy().into_owned();
        parts.insert(name, json!({"files": size.files, "bytes": size.bytes}));
    }
    let disk = rustix::fs::statvfs(store).ok().map(|about| {
        json!({
            "bytes": about.f_blocks.saturating_mul(about.f_frsize),
            "free_bytes": about.f_bavail.saturating_mul(about.f_frsize),
            "files": about.f_files,
            "free_files": about.f_favail,
        })
    });
    json!({"path": store, "parts": parts, "counted_all": left > 0, "disk": disk})
}

/// Adds a file, or what is in a directory; links are not followed.
fn add(path: &Path, depth: u32, left: &mut u64, size: &mut StoreSize) {
    let Ok(about) = fs::symlink_metadata(path) else {
        return;
    };
    if about.is_dir() {
        if depth > 0 {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                add(&entry.path(), depth - 1, left, size);
            }
        }
        return;
    }
    if *left > 0 {
        *left -= 1;
        size.files += 1;
        size.bytes += about.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted() {
        let store = tempfile::tempdir().unwrap();
        fs::create_dir_all(store.path().join("a/b")).unwrap();
        fs::write(store.path().join("a/b/x"), [0; 10]).unwrap();
        fs::write(store.path().join("a/y"), [0; 5]).unwrap();
        fs::write(store.path().join("z"), [0; 3]).unwrap();
        let document = document(store.path());
        assert_eq!(document["parts"]["a"], json!({"files": 2, "bytes": 15}));
        assert_eq!(document["parts"]["z"], json!({"files": 1, "bytes": 3}));
        assert_eq!(document["counted_all"], true);
        assert!(document["disk"]["bytes"].as_u64().unwrap() > 0);
    }
}
