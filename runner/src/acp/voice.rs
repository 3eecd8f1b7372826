//! What belongs to which turn of one session: a part of an answer goes to the turn that it belongs to, and what an agent
//! says outside of every turn is kept until it is told. Used by `turns`. PURE.
//!
//! Invariant: what is kept is bounded; what is left out of it is counted.

use std::num::NonZeroUsize;

use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk};
use lru::LruCache;

use crate::task_content::shortened;

/// Most ids of messages of earlier turns that are known.
const MOST_IDS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// Longest text that is kept, in bytes.
const MOST_KEPT: usize = 16 << 10;

/// Longest id of a message that is known, in bytes.
const LONGEST_ID: usize = 128;

/// Which turn a part of an answer belongs to, while a turn is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belongs {
    /// The turn that is under way.
    This,
    /// An earlier turn that ended by itself, unless the agent gives its ids again.
    Ended,
    /// An earlier turn that was canceled or failed.
    Broken,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Voice {
    /// The ids of messages, with the number of their turn and how that ended.
    ids: LruCache<String, (u64, Option<bool>)>,
    turn: u64,
    /// The agent gives the same id to messages of several turns.
    reuses_ids: bool,
    /// The agent repeats what was said before.
    pub(super) is_loading: bool,
    outside: String,
    left_out: usize,
}

impl Default for Voice {
    fn default() -> Self {
        Self {
            ids: LruCache::new(MOST_IDS),
            turn: 0,
            reuses_ids: false,
            is_loading: false,
            outside: String::new(),
            left_out: 0,
        }
    }
}

impl Voice {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.turn += 1;
    }

    /// The turn ends, by itself or not.
    pub(super) fn end(&mut self, by_itself: bool) {
        for (_, (turn, end)) in &mut self.ids {
            if *turn == self.turn {
                end.get_or_insert(by_itself);
            }
        }
    }

    /// The agent gives its ids again: they say nothing of turns.
    pub(super) fn reuse_ids(&mut self) {
        self.reuses_ids = true;
    }

    /// Where a part belongs that comes while a turn is under way.
    pub(super) fn belongs(&mut self, chunk: &ContentChunk) -> Belongs {
        let id = chunk.message_id.as_ref().map(|id| &*id.0);
        let Some(id) = id.filter(|id| id.len() <= LONGEST_ID && !self.reuses_ids) else {
            return Belongs::This;
        };
        let turn = self.turn;
        match *self.ids.get_or_insert_ref(id, || (turn, None)) {
            (_, Some(true)) => Belongs::Ended,
            (_, Some(false)) => Belongs::Broken,
            (_, None) => Belongs::This,
        }
    }

    /// Keeps what belongs to no turn that is under way.
    pub(super) fn keep(&mut self, chunk: &ContentChunk) {
        let text = match &chunk.content {
            ContentBlock::Text(text) => text.text.clone(),
            ContentBlock::Image(image) => format!("[{}]", image.mime_type),
            ContentBlock::Audio(audio) => format!("[{}]", audio.mime_type),
            ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
            _ => "[a resource]".to_owned(),
        };
        let room = MOST_KEPT - self.outside.len();
        let kept = text.floor_char_boundary(room.min(text.len()));
        self.outside.push_str(&text[..kept]);
        self.left_out += text.len() - kept;
    }

    /// What is to be told of what was kept; `None`: nothing.
    pub(super) fn take_kept(&mut self) -> Option<String> {
        let (text, left_out) = (
            std::mem::take(&mut self.outside),
            std::mem::take(&mut self.left_out),
        );
        if text.trim().is_empty() && left_out == 0 {
            return None;
        }
        let more = match left_out {
            0 => String::new(),
            bytes => format!(" (and {bytes} bytes more)"),
        };
        let text = shortened(text.trim(), MOST_KEPT);
        Some(format!("Outside of its turns the agent said: {text}{more}"))
    }
}
