//! Checkpoints in a sled database: one tree for states, one for what is known of them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::Value;
use sled::{Transactional as _, transaction::TransactionError};

use super::{
    Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, check_depth, check_session_id, parse,
};

/// How long a database is waited for that is open elsewhere, and how long between two attempts.
const LOCKED_AT_MOST: Duration = Duration::from_secs(2);
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// Checkpoints in a sled database. One process may have it open.
///
/// ```
/// use agentanycast_uap::{AgentState, Checkpoint, CheckpointStore, SledCheckpoints};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let store = SledCheckpoints::open(dir.path())?;
/// let state = AgentState::initial();
/// store.save("session-1", Checkpoint::new("session-1", &state)).await?;
/// assert_eq!(store.load_state("session-1").await?, Some(state));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SledCheckpoints {
    states: sled::Tree,
    metadata: sled::Tree,
    dir: PathBuf,
}

impl SledCheckpoints {
    /// Opens the database in this directory, or makes it. One that is open elsewhere is waited for, 2 s at
    /// most: a store that was dropped lets go of it a moment later.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let dir = dir.as_ref();
        let open = || {
            let database = sled::open(dir)?;
            Ok(Self {
                states: database.open_tree("checkpoints")?,
                metadata: database.open_tree("metadata")?,
                dir: dir.to_owned(),
            })
        };
        let begun = Instant::now();
        loop {
            match open() {
                Ok(opened) => return Ok(opened),
                Err(error) if is_locked(&error) && begun.elapsed() < LOCKED_AT_MOST => {
                    std::thread::sleep(LOCKED_PAUSE);
                }
                Err(error) => return Err(CheckpointError::store(format!("open {}", dir.display()), error)),
            }
        }
    }

    fn describe_kind(&self, kind: &str, session_id: &str) -> String {
        let dir = self.dir.display();
        format!("the {kind} of session {session_id:?} in the sled database {dir}")
    }
}

/// Whether the database is open elsewhere: sled has no kind of error for that.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(cause) if cause.to_string().contains("could not acquire lock"))
}

#[async_trait]
impl CheckpointStore for SledCheckpoints {
    async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        check_session_id(session_id)?;
        check_depth(session_id, &checkpoint.state)?;
        let failed = |error: TransactionError<sled::Error>| CheckpointError::store("write to sled", error);
        let state = checkpoint.state.to_string();
        let metadata = serde_json::to_string(&checkpoint.metadata)
            .map_err(|error| CheckpointError::store("write the metadata as JSON", error))?;
        (&self.states, &self.metadata)
            .transaction(|(states, known)| {
                states.insert(session_id, state.as_str())?;
                known.insert(session_id, metadata.as_str())?;
                Ok(())
            })
            .map_err(failed)?;
        self.states
            .flush_async()
            .await
            .map_err(|error| CheckpointError::store("flush sled", error))?;
        Ok(())
    }

    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError> {
        check_session_id(session_id)?;
        let bytes = self
            .states
            .get(session_id)
            .map_err(|error| CheckpointError::store("read from sled", error))?;
        bytes
            .map(|bytes| parse(&bytes, self.describe(session_id)))
            .transpose()
    }

    async fn load_metadata(&self, session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
        check_session_id(session_id)?;
        let bytes = self
            .metadata
            .get(session_id)
            .map_err(|error| CheckpointError::store("read from sled", error))?;
        let what = || self.describe_kind("metadata", session_id);
        bytes.map(|bytes| parse(&bytes, what())).transpose()
    }

    async fn delete(&self, session_id: &str) -> Result<(), CheckpointError> {
        check_session_id(session_id)?;
        let failed = |error: TransactionError<sled::Error>| CheckpointError::store("delete from sled", error);
        (&self.states, &self.metadata)
            .transaction(|(states, known)| {
                states.remove(session_id)?;
                known.remove(session_id)?;
                Ok(())
            })
            .map_err(failed)?;
        self.states
            .flush_async()
            .await
            .map_err(|error| CheckpointError::store("flush sled", error))?;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<String>, CheckpointError> {
        let keys = self.states.iter().keys();
        keys.map(|key| {
            let key = key.map_err(|error| CheckpointError::store("read from sled", error))?;
            Ok(String::from_utf8_lossy(&key).into_owned())
        })
        .collect()
    }

    fn describe(&self, session_id: &str) -> String {
        self.describe_kind("checkpoint", session_id)
    }
}
