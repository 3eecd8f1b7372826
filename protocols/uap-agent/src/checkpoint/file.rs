//! Checkpoints in files: `<dir>/<session>/checkpoint.json` and `metadata.json`.
//!
//! The two files change as a pair ([`session_folder`]). The id of a session becomes a name of a folder that
//! cannot leave the directory: other bytes than letters, digits, `-` and `_` are written as `%XX`.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, MAX_CHECKPOINT_BYTES, check_depth,
    check_session_id, parse,
    session_folder::{self, METADATA_FILE, STATE_FILE},
};

/// Where checkpoints are unless another directory is given (UAP-1.1, 12.4).
pub const DEFAULT_CHECKPOINT_DIR: &str = ".checkpoints";

/// Checkpoints in files below [`DEFAULT_CHECKPOINT_DIR`]; [`FileCheckpoints::new`] takes another directory.
pub fn file_checkpoints() -> FileCheckpoints {
    FileCheckpoints::new(DEFAULT_CHECKPOINT_DIR)
}

/// Checkpoints in files.
///
/// ```
/// use agentanycast_uap::{AgentState, Checkpoint, CheckpointStore, FileCheckpoints};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let store = FileCheckpoints::new(dir.path());
/// let state = AgentState::initial().with_step(1);
/// store.save("session-1", Checkpoint::new("session-1", &state)).await?;
/// assert_eq!(store.load_state("session-1").await?, Some(state));
/// assert_eq!(store.list().await?, ["session-1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FileCheckpoints {
    dir: PathBuf,
}

impl FileCheckpoints {
    /// Checkpoints below this directory. It is made at the first save.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn folder(&self, session_id: &str) -> Result<PathBuf, CheckpointError> {
        check_session_id(session_id)?;
        Ok(self.dir.join(folder_name(session_id)))
    }

    async fn read<T: DeserializeOwned + Send + 'static>(
        &self,
        session_id: &str,
        name: &'static str,
    ) -> Result<Option<T>, CheckpointError> {
        let folder = self.folder(session_id)?;
        let what = self.describe_file(session_id, name);
        blocking(move || {
            let locked = session_folder::lock_to_read(&folder);
            let bytes = read_file(&folder.join(name), &what)?;
            drop(locked);
            bytes.map(|bytes| parse(&bytes, what)).transpose()
        })
        .await
    }

    fn describe_file(&self, session_id: &str, name: &str) -> String {
        let kind = if name == METADATA_FILE {
            "metadata"
        } else {
            "checkpoint"
        };
        let path = self.dir.join(folder_name(session_id)).join(name);
        format!("the {kind} of session {session_id:?} in {}", path.display())
    }
}

#[async_trait]
impl CheckpointStore for FileCheckpoints {
    async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        let folder = self.folder(session_id)?;
        check_depth(session_id, &checkpoint.state)?;
        blocking(move || {
            let failed = |source| CheckpointError::store(format!("write below {}", folder.display()), source);
            session_folder::write(&folder, &checkpoint).map_err(failed)
        })
        .await
    }

    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError> {
        self.read(session_id, STATE_FILE).await
    }

    async fn load_metadata(&self, session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
        self.read(session_id, METADATA_FILE).await
    }

    async fn delete(&self, session_id: &str) -> Result<(), CheckpointError> {
        let folder = self.folder(session_id)?;
        blocking(move || {
            let failed = |source| CheckpointError::store(format!("delete {}", folder.display()), source);
            session_folder::delete(&folder).map_err(failed)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<String>, CheckpointError> {
        let dir = self.dir.clone();
        blocking(move || {
            list_sessions(&dir)
                .map_err(|error| CheckpointError::store(format!("list {}", dir.display()), error))
        })
        .await
    }

    fn describe(&self, session_id: &str) -> String {
        self.describe_file(session_id, STATE_FILE)
    }
}

/// File calls may wait for a device, so that they run outside of the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(CheckpointError::store("run the call", error)))
}

fn read_file(path: &Path, what: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
    let failed = |error| CheckpointError::store(format!("read {}", path.display()), error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    if length > MAX_CHECKPOINT_BYTES {
        return Err(CheckpointError::TooLarge {
            what: what.to_owned(),
            length,
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_CHECKPOINT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(Some(bytes))
}

fn list_sessions(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sessions = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A folder whose first save was cut short has no state.
        if entry.path().join(STATE_FILE).exists() {
            sessions.extend(entry.file_name().to_str().and_then(session_of_folder));
        }
    }
    Ok(sessions)
}

fn folder_name(session_id: &str) -> String {
    let mut name = String::with_capacity(session_id.len());
    for byte in session_id.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            name = format!("{name}%{byte:02X}");
        }
    }
    name
}

fn session_of_folder(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_of_folders_are_safe_and_read_back(session in "\\PC{1,21}") {
            let name = folder_name(&session);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_%".contains(&byte)));
            prop_assert!(check_session_id(&session).is_err() || name.len() <= 255);
            prop_assert_eq!(session_of_folder(&name), Some(session));
        }
    }

    #[test]
    fn ids_cannot_leave_the_directory() {
        let store = FileCheckpoints::new("/dir");
        for hostile in ["../x", "..", ".", "/etc", "a/b", "a\\b", "\0"] {
            let folder = store.folder(hostile).unwrap();
            assert_eq!(folder.parent(), Some(Path::new("/dir")), "{hostile}");
            assert!(!folder.file_name().unwrap().to_str().unwrap().starts_with('.'));
        }
        assert!(matches!(store.folder(""), Err(CheckpointError::SessionId(0))));
        assert!(matches!(
            store.folder(&"x".repeat(85)),
            Err(CheckpointError::SessionId(85))
        ));
    }
}
