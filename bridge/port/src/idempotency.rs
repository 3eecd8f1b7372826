//! Idempotency keys of callers: a request that comes again with its key is not carried out a second time.
//! PURE.
//!
//! The node remembers a key for a day with the task that it named. A caller's key is made the node's here, so
//! that two callers with the same key have two keys. A gateway reads the task that the node names and
//! compares it with what was sent: the same key with other content is refused.

use agentanycast_proto::v1::{self, MessageRole};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// Longest key of a caller, in bytes.
const LONGEST: usize = 256;

/// What the node's keys of gateways begin with.
const PREFIX: &str = "gateway:";

/// The node's key for the key that this caller gave.
///
/// # Errors
/// Why the key is not one, in one line for people.
pub(crate) fn key_of(caller: &str, given: &str) -> Result<String, String> {
    // The IETF's draft writes the key as a quoted string; most clients leave the quotes out.
    let bare = given.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = bare.unwrap_or(given);
    if key.is_empty() || key.len() > LONGEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the idempotency key must have 1 to {LONGEST} visible ASCII characters, such as a UUID"
        ));
    }
    let mut hash = Sha256::new();
    hash.update((caller.len() as u64).to_be_bytes());
    hash.update(caller);
    hash.update(key);
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(hash.finalize())))
}

/// Whether a task, which the node names by a key, has the message that is sent with that key: as its first
/// message, or as a further one. What counts is what the message says; a client may draw another message id
/// when it asks again.
pub(crate) fn is_same(task: &v1::Task, message: &v1::Message, further: bool) -> bool {
    let said = |known: &v1::Message| known.parts == message.parts;
    let mut messages = task.messages.iter();
    let first = messages.next();
    if !further {
        return first.is_some_and(said);
    }
    messages.any(|known| known.role() == MessageRole::User && said(known))
}

/// What a caller is told whose key named something else.
pub(crate) fn reused(given: &str) -> String {
    format!("the idempotency key {given:?} was used with another message; give each message a key of its own")
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::{Part, TextPart, part::Content};

    use super::*;

    fn said(role: MessageRole, text: &str) -> v1::Message {
        let text = text.to_owned();
        v1::Message {
            message_id: text.clone(),
            role: role.into(),
            parts: vec![Part {
                content: Some(Content::TextPart(TextPart { text })),
                ..Part::default()
            }],
            ..v1::Message::default()
        }
    }

    #[test]
    fn a_key_is_that_of_its_caller() {
        let key = key_of("alice", "k").unwrap();
        assert_eq!(key_of("alice", "\"k\"").unwrap(), key);
        assert_ne!(key_of("bob", "k").unwrap(), key);
        assert_ne!(key_of("alicek", "").ok(), Some(key));
        for odd in ["", "\"\"", "ü", "a b", "a\nb", &"x".repeat(257)] {
            assert!(key_of("alice", odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn what_is_said_counts_and_where() {
        let task = v1::Task {
            messages: vec![
                said(MessageRole::User, "hi"),
                said(MessageRole::Agent, "which?"),
                said(MessageRole::User, "blue"),
            ],
            ..v1::Task::default()
        };
        let again = |text: &str| v1::Message {
            message_id: "another".to_owned(),
            ..said(MessageRole::User, text)
        };
        assert!(is_same(&task, &again("hi"), false));
        assert!(!is_same(&task, &again("blue"), false));
        assert!(is_same(&task, &again("blue"), true));
        assert!(!is_same(&task, &again("hi"), true));
        assert!(!is_same(&task, &again("which?"), true));
    }
}
