//! The earlier messages of conversations with a model, in memory. PURE.
//!
//! Invariant: at most [`MOST_CONVERSATIONS`] conversations, those used last, each of at most [`MOST_BYTES`]; of a longer
//! one the oldest messages go first.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use lru::LruCache;
use serde_json::Value;

/// Most conversations that are known.
const MOST_CONVERSATIONS: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Most of one conversation, as JSON: about what models read.
const MOST_BYTES: usize = 512 << 10;

/// The conversations, by their context ids.
#[derive(Debug)]
pub(super) struct ChatHistories(Mutex<LruCache<String, ChatHistory>>);

impl Default for ChatHistories {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST_CONVERSATIONS)))
    }
}

/// One conversation: questions with their answers, and the bytes of each pair.
#[derive(Debug, Default)]
struct ChatHistory {
    pairs: VecDeque<([Value; 2], usize)>,
    bytes: usize,
}

impl ChatHistories {
    /// The messages of a conversation, oldest first.
    pub(super) fn messages(&self, context: &str) -> Vec<Value> {
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let history = histories.get(context);
        let pairs = history.into_iter().flat_map(|history| &history.pairs);
        pairs.flat_map(|(pair, _)| pair.clone()).collect()
    }

    /// Adds a question and its answer. A task without a conversation has nothing to be remembered.
    pub(super) fn add(&self, context: &str, question: Value, answer: Value) {
        if context.is_empty() {
            return;
        }
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let history = histories.get_or_insert_mut(context.to_owned(), ChatHistory::default);
        let size = question.to_string().len() + answer.to_string().len();
        history.pairs.push_back(([question, answer], size));
        history.bytes += size;
        while history.bytes > MOST_BYTES {
            let Some((_, size)) = history.pairs.pop_front() else {
                break;
            };
            history.bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conversations_are_apart_and_in_order() {
        let histories = ChatHistories::default();
        histories.add("a", json!("q1"), json!("a1"));
        histories.add("b", json!("q2"), json!("a2"));
        histories.add("a", json!("q3"), json!("a3"));
        histories.add("", json!("q4"), json!("a4"));
        assert_eq!(
            histories.messages("a"),
            [json!("q1"), json!("a1"), json!("q3"), json!("a3")]
        );
        assert_eq!(histories.messages("b").len(), 2);
        assert!(histories.messages("").is_empty());
    }

    #[test]
    fn the_oldest_messages_go_first() {
        let histories = ChatHistories::default();
        let long = "x".repeat(MOST_BYTES / 3);
        for n in 0..5 {
            histories.add("a", json!(n), json!(long));
        }
        let questions: Vec<_> = histories.messages("a").into_iter().step_by(2).collect();
        assert_eq!(questions, [json!(3), json!(4)]);
        histories.add("a", json!(9), json!("x".repeat(MOST_BYTES + 1)));
        assert!(histories.messages("a").is_empty());
        for n in 0..300 {
            histories.add(&n.to_string(), json!(1), json!(2));
        }
        assert_eq!(histories.messages("299").len(), 2);
        assert!(histories.messages("1").is_empty());
    }
}
