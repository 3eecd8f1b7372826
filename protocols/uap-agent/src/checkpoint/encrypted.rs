//! Encrypts the states of another store. What the store knows of them stays readable: ids, time and step.
//!
//! XChaCha20-Poly1305 with a random nonce for each save; the id of the session is authenticated, so that a
//! checkpoint cannot be moved to another session.

use std::sync::Arc;

use agentanycast_upp::Base64Bytes;
use argon2::Argon2;
use async_trait::async_trait;
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, check_depth};
use crate::state::nesting::read_json;

const ALGORITHM: &str = "xchacha20poly1305";

/// A key for checkpoints.
#[derive(Clone)]
pub struct CheckpointKey(Arc<[u8; 32]>);

impl CheckpointKey {
    /// This key, for example derived from the node's.
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self(Arc::new(key))
    }

    /// The key of a passphrase, by Argon2id with its default costs (19 MiB, two passes). The salt has 8 bytes
    /// at least; it need not be secret, and has to be the same each time.
    ///
    /// ```
    /// use agentanycast_uap::CheckpointKey;
    ///
    /// let key = CheckpointKey::from_passphrase("correct horse", b"my-agent-1")?;
    /// # drop(key);
    /// # Ok::<(), agentanycast_uap::CheckpointError>(())
    /// ```
    pub fn from_passphrase(passphrase: &str, salt: &[u8]) -> Result<Self, CheckpointError> {
        let mut key = [0; 32];
        Argon2::default()
            .hash_password_into(passphrase.as_bytes(), salt, &mut key)
            .map_err(|error| CheckpointError::store("derive the key", error.to_string()))?;
        Ok(Self::from_bytes(key))
    }
}

impl std::fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CheckpointKey(..)")
    }
}

/// Encrypts the states of another store.
///
/// ```
/// use agentanycast_uap::{
///     AgentState, Checkpoint, CheckpointKey, CheckpointStore, EncryptedCheckpoints, FileCheckpoints,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let files = FileCheckpoints::new(dir.path());
/// let store = EncryptedCheckpoints::new(files.clone(), CheckpointKey::from_bytes([7; 32]));
/// let state = AgentState::initial().with_metadata("secret", "plans");
/// store.save("session-1", Checkpoint::new("session-1", &state)).await?;
/// assert!(!files.load("session-1").await?.unwrap().to_string().contains("plans"));
/// assert_eq!(store.load_state("session-1").await?, Some(state));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EncryptedCheckpoints<S> {
    store: S,
    key: CheckpointKey,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    encrypted: String,
    nonce: Base64Bytes,
    data: Base64Bytes,
}

impl<S: CheckpointStore> EncryptedCheckpoints<S> {
    /// Encrypts the states of `store` with `key`.
    pub fn new(store: S, key: CheckpointKey) -> Self {
        Self { store, key }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key.0).into())
    }

    fn seal(&self, session_id: &str, state: &Value) -> Result<Value, CheckpointError> {
        check_depth(session_id, state)?;
        let nonce: [u8; 24] = rand::random();
        let text = state.to_string();
        let payload = Payload {
            msg: text.as_bytes(),
            aad: session_id.as_bytes(),
        };
        let data = self
            .cipher()
            .encrypt(XNonce::from_slice(&nonce), payload)
            .map_err(|error| CheckpointError::store("encrypt the state", error.to_string()))?;
        let sealed = Sealed {
            encrypted: ALGORITHM.to_owned(),
            nonce: nonce.to_vec().into(),
            data: data.into(),
        };
        serde_json::to_value(sealed).map_err(|error| CheckpointError::store("write the state as JSON", error))
    }

    fn open(&self, session_id: &str, json: Value) -> Result<Value, CheckpointError> {
        let malformed = |problem: String| CheckpointError::Malformed {
            what: self.store.describe(session_id),
            problem,
        };
        let sealed: Sealed = serde_json::from_value(json).map_err(|error| malformed(error.to_string()))?;
        if sealed.encrypted != ALGORITHM || sealed.nonce.as_ref().len() != 24 {
            return Err(malformed(
                "the algorithm of its encryption is not known".to_owned(),
            ));
        }
        let payload = Payload {
            msg: sealed.data.as_ref(),
            aad: session_id.as_bytes(),
        };
        let text = self
            .cipher()
            .decrypt(XNonce::from_slice(sealed.nonce.as_ref()), payload)
            .map_err(|_| CheckpointError::Decrypt {
                what: self.store.describe(session_id),
            })?;
        read_json(&text).map_err(malformed)
    }
}

#[async_trait]
impl<S: CheckpointStore> CheckpointStore for EncryptedCheckpoints<S> {
    async fn save(&self, session_id: &str, mut checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        checkpoint.state = self.seal(session_id, &checkpoint.state)?;
        self.store.save(session_id, checkpoint).await
    }

    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError> {
        let sealed = self.store.load(session_id).await?;
        sealed.map(|sealed| self.open(session_id, sealed)).transpose()
    }

    async fn load_metadata(&self, session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
        self.store.load_metadata(session_id).await
    }

    async fn delete(&self, session_id: &str) -> Result<(), CheckpointError> {
        self.store.delete(session_id).await
    }

    async fn list(&self) -> Result<Vec<String>, CheckpointError> {
        self.store.list().await
    }

    fn describe(&self, session_id: &str) -> String {
        self.store.describe(session_id)
    }
}
