//! Checkpoints: the state of a session, saved after each step, so that another process goes on from it.
//!
//! A store keeps the last checkpoint of each session. An agent hands a state to its store after each step and
//! does not wait; a store that fails is logged and never fails the run ([`save_queue`]).

#[cfg(feature = "encryption")]
mod encrypted;
mod file;
pub(crate) mod save_queue;
mod session_folder;
pub(crate) mod session_saves;
#[cfg(feature = "sled")]
mod sled_store;

use agentanycast_upp::Timestamp;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

#[cfg(feature = "encryption")]
pub use self::encrypted::{CheckpointKey, EncryptedCheckpoints};
pub use self::file::{DEFAULT_CHECKPOINT_DIR, FileCheckpoints, file_checkpoints};
#[cfg(feature = "sled")]
pub use self::sled_store::SledCheckpoints;
use crate::state::{
    AgentState, StateError,
    nesting::{MAX_JSON_DEPTH, is_too_deep, read_json},
};

/// How long an id of a session may be, in bytes. The id becomes the name of a folder, which may have 255
/// bytes, and each byte may take three there.
pub const MAX_SESSION_ID_BYTES: usize = 84;

/// How long the JSON of a state may be when it is read.
pub const MAX_CHECKPOINT_BYTES: u64 = 256 << 20;

/// What a store knows of a checkpoint besides the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointMetadata {
    /// The session.
    pub session_id: String,
    /// The id of the checkpoint, an UUID.
    pub checkpoint_id: String,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The step after which it was made.
    pub step: u64,
    /// The agent.
    pub agent_id: String,
}

/// A checkpoint: the JSON of a state, and what the store knows of it.
///
/// ```
/// use agentanycast_uap::{AgentState, Checkpoint};
///
/// let checkpoint = Checkpoint::new("session-1", &AgentState::initial().with_step(3));
/// assert_eq!((checkpoint.metadata.step, &checkpoint.state["step"]), (3, &3.into()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// What the store knows of it.
    pub metadata: CheckpointMetadata,
    /// The `AgentStateJSON`, or what a wrapper made of it.
    pub state: Value,
}

impl Checkpoint {
    /// A checkpoint of this state.
    pub fn new(session_id: &str, state: &AgentState) -> Self {
        let agent_id = state
            .metadata()
            .get("agentId")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Self {
            metadata: CheckpointMetadata {
                session_id: session_id.to_owned(),
                checkpoint_id: Uuid::new_v4().to_string(),
                timestamp: Timestamp::now(),
                step: state.step(),
                agent_id: agent_id.to_owned(),
            },
            state: state.to_json(),
        }
    }
}

/// Why a checkpoint cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The id of the session is empty or longer than [`MAX_SESSION_ID_BYTES`].
    #[error("the session id has {0} bytes; 1 to {MAX_SESSION_ID_BYTES} are allowed")]
    SessionId(usize),
    /// The store failed.
    #[error("cannot {action}: {source}")]
    Store {
        /// What was tried.
        action: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The checkpoint is longer than [`MAX_CHECKPOINT_BYTES`].
    #[error("{what} has {length} bytes; at most {MAX_CHECKPOINT_BYTES} are read; {REMEDY}")]
    TooLarge {
        /// The checkpoint: its session, and where it is.
        what: String,
        /// Its length, in bytes.
        length: u64,
    },
    /// The state nests more deeply than it would be read. It is not saved, and the last checkpoint stays.
    #[error(
        "the state of session {0:?} nests more deeply than {MAX_JSON_DEPTH} lists and objects, which are read \
         at most; give its tools and its metadata flatter values"
    )]
    TooDeep(String),
    /// What is stored is not a checkpoint.
    #[error("{what} is malformed: {problem}; {REMEDY}")]
    Malformed {
        /// What is malformed: its session, and where it is.
        what: String,
        /// How.
        problem: String,
    },
    /// The state in the checkpoint cannot be read.
    #[error("{what} holds a malformed state: {source}; {REMEDY}")]
    State {
        /// The checkpoint: its session, and where it is.
        what: String,
        /// What is wrong with the state.
        source: StateError,
    },
    /// The checkpoint is encrypted with another key or for another session, or it was changed.
    #[error(
        "{what} cannot be decrypted: the key is another one, or the checkpoint was changed; give the key that \
         it was saved with, or {REMEDY}"
    )]
    Decrypt {
        /// The checkpoint: its session, and where it is.
        what: String,
    },
}

/// What helps against a checkpoint that is damaged.
const REMEDY: &str = "restore it from a backup, or delete the session from the store to begin it anew";

impl CheckpointError {
    /// An error of the store itself.
    pub fn store(
        action: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Store {
            action: action.into(),
            source: source.into(),
        }
    }
}

/// Keeps the last checkpoint of each session.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// Saves a checkpoint in place of the last one. A crash in its middle leaves the last one intact.
    async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError>;

    /// The JSON of the state of the last checkpoint; `None` if there is none.
    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError>;

    /// What is known of the last checkpoint; `None` if there is none.
    async fn load_metadata(&self, session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError>;

    /// Deletes the checkpoint of a session, if there is one.
    async fn delete(&self, session_id: &str) -> Result<(), CheckpointError>;

    /// The ids of all sessions, in no order.
    async fn list(&self) -> Result<Vec<String>, CheckpointError>;

    /// The checkpoint of a session in the words of errors: its session, and where the store keeps it. It need not
    /// exist.
    fn describe(&self, session_id: &str) -> String {
        format!("the checkpoint of session {session_id:?}")
    }

    /// The state of the last checkpoint, with its structure checked; `None` if there is none.
    async fn load_state(&self, session_id: &str) -> Result<Option<AgentState>, CheckpointError> {
        let json = self.load(session_id).await?;
        let state = json.map(|json| AgentState::from_json(&json)).transpose();
        state.map_err(|source| CheckpointError::State {
            what: self.describe(session_id),
            source,
        })
    }
}

pub(crate) fn check_session_id(session_id: &str) -> Result<(), CheckpointError> {
    if session_id.is_empty() || session_id.len() > MAX_SESSION_ID_BYTES {
        return Err(CheckpointError::SessionId(session_id.len()));
    }
    Ok(())
}

/// A state that is saved has to be readable.
fn check_depth(session_id: &str, state: &Value) -> Result<(), CheckpointError> {
    if is_too_deep(state) {
        return Err(CheckpointError::TooDeep(session_id.to_owned()));
    }
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8], what: String) -> Result<T, CheckpointError> {
    let read =
        read_json(bytes).and_then(|json| serde_json::from_value(json).map_err(|error| error.to_string()));
    read.map_err(|problem| CheckpointError::Malformed { what, problem })
}
