//! What lies where in the directory of a store.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Directories of the database are named so, with the number of their generation.
const GENERATION: &str = "tasks.";

/// The directory of the journal.
pub(super) fn journals(directory: &Path) -> PathBuf {
    directory.join("journal")
}

/// The directory of the large values.
pub(super) fn values(directory: &Path) -> PathBuf {
    directory.join("values")
}

/// Where the generation of this number of the database is.
pub(super) fn generation(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{GENERATION}{number}"))
}

/// The numbers of the databases that are there, in ascending order.
pub(super) fn generations(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(GENERATION)?.parse().ok()
}

/// Where the generation after the one at `path` goes.
pub(super) fn generation_after(directory: &Path, path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    generation(directory, name.and_then(number_of).unwrap_or(0) + 1)
}
