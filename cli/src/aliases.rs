//! The user's own names for peers: the file `aliases.toml` in the home, which `anycast alias` edits.
//!
//! [`alias_table`] is pure: which names there may be, and how the file reads. This file reads and writes it. The rule: a write
//! replaces the file whole, under a lock, so that two commands at once lose nothing and no reader sees half of one.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    failure::{CommandFailure, FailureCode},
    kept_file,
};

pub(crate) mod alias_table;

use alias_table::AliasTable;

/// The file inside a home, and the one that is locked while it is changed.
const FILE: &str = "aliases.toml";
const LOCK: &str = ".aliases.lock";

/// The mode of a file that is made.
const MODE: u32 = 0o600;

/// The aliases of a home; none if the home or the file is not there.
pub(crate) fn load(home: &Path) -> Result<AliasTable, CommandFailure> {
    let path = home.join(FILE);
    let failed = |reason: String| broken(&path, &reason);
    match fs::metadata(&path) {
        Ok(about) if about.len() > alias_table::MAX_FILE => {
            return Err(failed(format!(
                "it has more than {} bytes",
                alias_table::MAX_FILE
            )));
        }
        Ok(_) => {}
        Err(error) if is_missing(&error) => {
            // A link is there: its names are somewhere else, and not known.
            return match kept_file::behind(&path) {
                Err(error) if !is_missing(&error) => Err(failed(error.to_string())),
                _ => Ok(AliasTable::default()),
            };
        }
        Err(error) => return Err(failed(error.to_string())),
    }
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    AliasTable::parse(&text).map_err(failed)
}

/// Changes the aliases of a home; the home is made if it is not there. Nothing is written if the change fails.
pub(crate) fn change<T>(
    home: &Path,
    change: impl FnOnce(&mut AliasTable) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    fs::create_dir_all(home)?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(home.join(LOCK))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(io::Error::from)?;
    let path = home.join(FILE);
    let failed = |error: io::Error| broken(&path, &error.to_string());
    kept_file::behind(&path).map_err(failed)?;
    let mut book = load(home)?;
    let before = book.clone();
    let done = change(&mut book)?;
    if book != before {
        kept_file::write(&path, &book.to_text(), MODE).map_err(failed)?;
    }
    Ok(done)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn broken(path: &Path, reason: &str) -> CommandFailure {
    let message = format!("cannot use the aliases in {}: {reason}", path.display());
    CommandFailure::new(FailureCode::General, "Aliases", message)
}
