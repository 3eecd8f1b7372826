//! Whether the daemon that is measured is the one of the sources: `cargo bench` builds the benchmark and the
//! SDK, not the daemon. It only warns, since a checkout also makes files new.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// What a daemon is made from, beside this crate.
const SOURCES: [&str; 6] = [
    "../node/src",
    "../node/core/src",
    "../node/net/src",
    "../node/store/src",
    "../proto/src",
    "../identity/src",
];

/// Warns when a source is newer than the program.
pub(crate) fn warn(program: &Path) {
    let Ok(built) = fs::metadata(program).and_then(|file| file.modified()) else {
        return;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let newest = SOURCES
        .iter()
        .filter_map(|source| newest(&here.join(source)).ok()?)
        .max();
    if let Some((changed, path)) = newest
        && changed > built
    {
        eprintln!(
            "WARNING: {} is newer than the daemon; `cargo build --release -p anycast --features full` first",
            path.display()
        );
    }
}

/// The file under `directory` that was changed last.
fn newest(directory: &Path) -> io::Result<Option<(SystemTime, PathBuf)>> {
    let mut found = None;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let this = if entry.file_type()?.is_dir() {
            newest(&entry.path())?
        } else {
            Some((entry.metadata()?.modified()?, entry.path()))
        };
        found = found.max(this);
    }
    Ok(found)
}
