//! Requests of one connection that wait for their replies.
//!
//! Invariant: a reply reaches the one request whose id it has, once; and at most so many requests wait.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use thiserror::Error;
use tokio::sync::oneshot;

/// Requests of one connection at a time.
pub const MOST_PENDING: usize = 50;

/// Ids of given-up requests that are remembered, so that a late reply is told from an invented one.
const REMEMBERED: usize = 100;

/// Too many requests wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{most} requests of this connection wait for replies already; send this one later")]
pub struct TooManyPending {
    /// How many may wait.
    pub most: usize,
}

/// What a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMatch {
    /// To a request, which has it now.
    Delivered,
    /// To a request that did not wait so long.
    Late,
    /// To none.
    Unknown,
}

struct ReplyTable<T> {
    waiting: HashMap<String, oneshot::Sender<T>>,
    given_up: VecDeque<String>,
    closed: bool,
}

/// The requests that wait. Clones share them.
pub struct PendingReplies<T> {
    table: Arc<Mutex<ReplyTable<T>>>,
    most: usize,
}

impl<T> Clone for PendingReplies<T> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            most: self.most,
        }
    }
}

impl<T> PendingReplies<T> {
    /// No requests, of which at most `most` may wait.
    pub fn new(most: usize) -> Self {
        Self {
            table: Arc::new(Mutex::new(ReplyTable {
                waiting: HashMap::new(),
                given_up: VecDeque::new(),
                closed: false,
            })),
            most,
        }
    }

    fn table(&self) -> MutexGuard<'_, ReplyTable<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request with this id waits. An id that waits already is replaced; its waiter gets nothing.
    ///
    /// # Errors
    /// When too many wait.
    pub fn open(&self, id: &str) -> Result<ReplyWaiter<T>, TooManyPending> {
        let (sender, reply) = oneshot::channel();
        let mut table = self.table();
        if table.waiting.len() >= self.most {
            return Err(TooManyPending { most: self.most });
        }
        if !table.closed {
            table.waiting.insert(id.to_owned(), sender);
        }
        Ok(ReplyWaiter {
            id: id.to_owned(),
            replies: self.clone(),
            reply,
        })
    }

    /// A reply to the request with this id came.
    pub fn resolve(&self, id: &str, reply: T) -> ReplyMatch {
        let mut table = self.table();
        if let Some(waiter) = table.waiting.remove(id) {
            return match waiter.send(reply) {
                Ok(()) => ReplyMatch::Delivered,
                Err(_) => ReplyMatch::Late,
            };
        }
        let at = table.given_up.iter().position(|given_up| given_up == id);
        match at.and_then(|at| table.given_up.remove(at)) {
            Some(_) => ReplyMatch::Late,
            None => ReplyMatch::Unknown,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.table().waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connection has ended: no request gets a reply any more.
    pub fn close(&self) {
        let mut table = self.table();
        table.closed = true;
        table.waiting.clear();
    }
}

/// Waits for a reply. Dropping it gives the request up.
pub struct ReplyWaiter<T> {
    id: String,
    replies: PendingReplies<T>,
    reply: oneshot::Receiver<T>,
}

impl<T> ReplyWaiter<T> {
    /// The reply; `None`: the connection has ended.
    pub async fn wait(&mut self) -> Option<T> {
        (&mut self.reply).await.ok()
    }
}

impl<T> Drop for ReplyWaiter<T> {
    fn drop(&mut self) {
        self.reply.close();
        let mut table = self.replies.table();
        // An id that was replaced, or has its reply, is not this waiter's any more.
        if !table
            .waiting
            .get(&self.id)
            .is_some_and(oneshot::Sender::is_closed)
        {
            return;
        }
        table.waiting.remove(&self.id);
        if table.given_up.len() >= REMEMBERED {
            table.given_up.pop_front();
        }
        table.given_up.push_back(std::mem::take(&mut self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replies_reach_the_request_with_their_id_once() {
        let replies = PendingReplies::new(2);
        let mut first = replies.open("a").unwrap();
        let mut second = replies.open("b").unwrap();
        assert_eq!(replies.open("c").err(), Some(TooManyPending { most: 2 }));
        assert_eq!(replies.resolve("b", 2), ReplyMatch::Delivered);
        assert_eq!(replies.resolve("b", 3), ReplyMatch::Unknown);
        assert_eq!(replies.resolve("c", 3), ReplyMatch::Unknown);
        assert_eq!(second.wait().await, Some(2));
        drop(second);
        assert_eq!(replies.resolve("b", 3), ReplyMatch::Unknown);
        assert_eq!(replies.resolve("a", 1), ReplyMatch::Delivered);
        assert_eq!(first.wait().await, Some(1));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_makes_room_and_its_reply_is_late() {
        let replies = PendingReplies::new(1);
        drop(replies.open("a").unwrap());
        let mut second = replies.open("b").unwrap();
        assert_eq!(replies.resolve("a", 1), ReplyMatch::Late);
        assert_eq!(replies.resolve("a", 1), ReplyMatch::Unknown);
        replies.close();
        assert_eq!(second.wait().await, None);
        assert_eq!(replies.open("c").unwrap().wait().await, None);
        assert!(replies.is_empty());
    }
}
