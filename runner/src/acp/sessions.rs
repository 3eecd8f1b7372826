//! Which session of the agent a conversation is: kept in a file, so that a conversation goes on after a restart where
//! the agent can load its sessions.
//!
//! Invariant: at most [`MOST_SESSIONS`] conversations are known, those used last; the file is replaced whole or not at
//! all.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use agent_client_protocol::v1::schema::SessionId;
use lru::LruCache;
use serde_json::{Value, json};

/// Most conversations that are known.
const MOST_SESSIONS: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// Longest id in the file, in bytes.
const LONGEST_ID: usize = 512;

/// Largest file, in bytes.
const FILE_LIMIT: u64 = 2 << 20;

/// The session of one conversation. Its lock is held while a prompt runs: an agent does one at a time in a session.
pub(super) type SessionSlot = Arc<tokio::sync::Mutex<Option<KnownSession>>>;

/// The session of a conversation while a prompt of it runs.
pub(super) type HeldSession = tokio::sync::OwnedMutexGuard<Option<KnownSession>>;

/// A session that the agent has, or had before it was started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownSession {
    pub(super) id: SessionId,
    /// The start of the agent in which the session was made or loaded; `None`: none since the runner started.
    pub(super) start: Option<u64>,
    /// It takes no prompt any more: the agent does not know it, or does not end a turn in it.
    pub(super) is_lost: bool,
}

/// The sessions of one agent.
pub(super) struct Sessions {
    slots: Mutex<LruCache<String, SessionSlot>>,
    ids: Mutex<LruCache<String, String>>,
    file: PathBuf,
}

impl Sessions {
    /// The sessions in this file.
    pub(super) fn open(file: PathBuf) -> Self {
        let mut ids = LruCache::new(MOST_SESSIONS);
        match read(&file) {
            Ok(read) => read.into_iter().for_each(|(context, id)| {
                ids.put(context, id);
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let file = file.display();
                tracing::warn!(%file, %error, "the sessions of an agent cannot be read; conversations begin anew");
            }
        }
        Self {
            slots: Mutex::new(LruCache::new(MOST_SESSIONS)),
            ids: Mutex::new(ids),
            file,
        }
    }

    /// The session of a conversation; an empty one, if the conversation is new.
    pub(super) fn slot(&self, context: &str) -> SessionSlot {
        if context.is_empty() {
            return SessionSlot::default();
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get_or_insert(context.to_owned(), || {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            let known = ids.get(context).map(|id| KnownSession {
                id: SessionId::new(id.as_str()),
                start: None,
                is_lost: false,
            });
            Arc::new(tokio::sync::Mutex::new(known))
        });
        Arc::clone(slot)
    }

    /// Keeps the session of a conversation.
    pub(super) fn keep(&self, context: &str, id: &SessionId) {
        if context.is_empty() || context.len() > LONGEST_ID || id.0.len() > LONGEST_ID {
            return;
        }
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.put(context.to_owned(), id.0.to_string());
        let oldest_first: Vec<Value> = ids
            .iter()
            .rev()
            .map(|(context, id)| json!([context, id]))
            .collect();
        if let Err(error) = write(&self.file, &json!({"sessions": oldest_first}).to_string()) {
            let file = self.file.display();
            tracing::warn!(%file, %error, "the session of a conversation is not kept over a restart");
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<(String, String)>> {
    let mut text = String::new();
    File::open(file)?.take(FILE_LIMIT).read_to_string(&mut text)?;
    let json: Value = serde_json::from_str(&text)?;
    let pairs = json.get("sessions").and_then(Value::as_array);
    let pair = |pair: &Value| {
        Some((
            pair.get(0)?.as_str()?.to_owned(),
            pair.get(1)?.as_str()?.to_owned(),
        ))
    };
    Ok(pairs.into_iter().flatten().filter_map(pair).collect())
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    // Another runner of the agent may write at the same time.
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let mut opened = File::create(&new)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn known(sessions: &Sessions, context: &str) -> Option<String> {
        let slot = sessions.slot(context);
        let known = slot.lock().await;
        known.as_ref().map(|known| known.id.0.to_string())
    }

    #[tokio::test]
    async fn sessions_are_known_again_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.json");
        let sessions = Sessions::open(file.clone());
        assert_eq!(known(&sessions, "c1").await, None);
        sessions.keep("c1", &SessionId::new("s1"));
        sessions.keep("c2", &SessionId::new("s2"));
        sessions.keep("c1", &SessionId::new("s3"));
        sessions.keep("", &SessionId::new("s4"));
        let sessions = Sessions::open(file.clone());
        assert_eq!(known(&sessions, "c1").await.as_deref(), Some("s3"));
        assert_eq!(known(&sessions, "c2").await.as_deref(), Some("s2"));
        assert_eq!(known(&sessions, "").await, None);
        fs::write(&file, "{").unwrap();
        assert_eq!(known(&Sessions::open(file), "c1").await, None);
    }

    #[tokio::test]
    async fn those_used_last_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.json");
        let sessions = Sessions::open(file.clone());
        for n in 0..=MOST_SESSIONS.get() {
            sessions.ids.lock().unwrap().put(format!("c{n}"), format!("s{n}"));
        }
        sessions.keep("last", &SessionId::new("s"));
        let sessions = Sessions::open(file);
        assert_eq!(known(&sessions, "c1").await, None);
        assert_eq!(known(&sessions, "c2").await.as_deref(), Some("s2"));
        assert_eq!(known(&sessions, "last").await.as_deref(), Some("s"));
    }

    #[test]
    fn a_conversation_has_one_slot() {
        let sessions = Sessions::open(PathBuf::from("/no/such/file"));
        assert!(Arc::ptr_eq(&sessions.slot("c"), &sessions.slot("c")));
        assert!(!Arc::ptr_eq(&sessions.slot(""), &sessions.slot("")));
    }
}
