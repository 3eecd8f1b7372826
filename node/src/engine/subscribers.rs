//! Who follows which task. A subscriber that reads slowly loses intermediate states at worst, never
//! the last one, and never slows anybody else.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use prost::Message as _;
use tokio::sync::Notify;

use super::turn::{Change, EngineError};
use crate::task::Output;

/// Changes that wait for one subscriber; older ones are dropped first.
const MAX_WAITING: usize = 2048;

/// Bytes of changes that wait for one subscriber, unless a single one is larger.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Subscribers of one task.
const MAX_PER_TASK: usize = 64;

/// Subscribers of all tasks.
const MAX_SUBSCRIBERS: usize = 20_000;

/// Below this many those that have gone are not looked for.
const FEW: usize = 256;

#[derive(Default)]
struct Waiting {
    changes: VecDeque<(usize, Arc<Change>)>,
    bytes: usize,
    closed: bool,
}

#[derive(Default)]
struct Line {
    waiting: Mutex<Waiting>,
    news: Notify,
}

impl Line {
    fn push(&self, bytes: usize, change: &Arc<Change>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bytes += bytes;
        waiting.changes.push_back((bytes, Arc::clone(change)));
        while waiting.changes.len() > MAX_WAITING
            || (waiting.bytes > MAX_WAITING_BYTES && waiting.changes.len() > 1)
        {
            if let Some((bytes, _)) = waiting.changes.pop_front() {
                waiting.bytes -= bytes;
            }
        }
        drop(waiting);
        self.news.notify_one();
    }

    fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.news.notify_one();
    }
}

/// The changes of one task from one moment on. Dropping it ends it.
pub struct Subscription {
    line: Arc<Line>,
}

impl Subscription {
    /// The next change; None when the task is gone or the daemon stops.
    pub async fn next(&mut self) -> Option<Arc<Change>> {
        loop {
            {
                let mut waiting = self.line.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((bytes, change)) = waiting.changes.pop_front() {
                    waiting.bytes -= bytes;
                    return Some(change);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.line.news.notified().await;
        }
    }
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Subscribers {
    lines: HashMap<String, Vec<Weak<Line>>>,
    count: usize,
    /// At this count those that have gone are looked for: those of a task that changes no more are not
    /// noticed otherwise.
    sweep_at: usize,
}

impl Subscribers {
    /// Follows a task.
    pub(super) fn subscribe(&mut self, task_id: &str) -> Result<Subscription, EngineError> {
        if self.count >= self.sweep_at {
            self.sweep();
        }
        let lines = self.lines.entry(task_id.to_owned()).or_default();
        let before = lines.len();
        lines.retain(|line| line.strong_count() > 0);
        self.count -= before - lines.len();
        if lines.len() >= MAX_PER_TASK || self.count >= MAX_SUBSCRIBERS {
            return Err(EngineError::Exhausted(format!(
                "task {task_id} has {} subscribers and this node {}; the limits are {MAX_PER_TASK} and {MAX_SUBSCRIBERS}",
                lines.len(),
                self.count
            )));
        }
        let line = Arc::new(Line::default());
        lines.push(Arc::downgrade(&line));
        self.count += 1;
        Ok(Subscription { line })
    }

    /// Tells a change to everyone who follows its task.
    pub(super) fn publish(&mut self, change: &Arc<Change>) {
        let Some(lines) = self.lines.get_mut(&change.task_id) else {
            return;
        };
        let bytes = weight(change);
        let before = lines.len();
        lines.retain(|line| match line.upgrade() {
            Some(line) => {
                line.push(bytes, change);
                true
            }
            None => false,
        });
        self.count -= before - lines.len();
        if lines.is_empty() {
            self.lines.remove(&change.task_id);
        }
    }

    /// Ends every subscription.
    pub(super) fn close(&mut self) {
        for line in self.lines.drain().flat_map(|(_, lines)| lines) {
            if let Some(line) = line.upgrade() {
                line.close();
            }
        }
        self.count = 0;
    }

    fn sweep(&mut self) {
        self.lines.retain(|_, lines| {
            lines.retain(|line| line.strong_count() > 0);
            !lines.is_empty()
        });
        self.count = self.lines.values().map(Vec::len).sum();
        // Each sweep is paid for by as many subscriptions as it looks at.
        self.sweep_at = (2 * self.count).clamp(FEW, MAX_SUBSCRIBERS);
    }
}

fn weight(change: &Change) -> usize {
    let results = change.results.iter().map(|result| match &**result {
        Output::Whole(artifact) => artifact.encoded_len(),
        Output::Streamed(_) => 0,
    });
    change.message.as_ref().map_or(0, |message| message.encoded_len()) + results.sum::<usize>() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that has ended changes no more: nothing tells that its subscribers have gone.
    #[test]
    fn subscribers_that_have_gone_leave_nothing_behind() {
        let mut subscribers = Subscribers::default();
        let stays = subscribers.subscribe("stays").unwrap();
        for number in 0..100_000 {
            drop(subscribers.subscribe(&number.to_string()).unwrap());
            assert!(subscribers.lines.len() <= 2 * FEW);
        }
        let change = Change {
            task_id: "stays".into(),
            status: crate::task::Status::Working,
            message: None,
            results: Vec::new(),
        };
        subscribers.publish(&Arc::new(change));
        assert_eq!(stays.line.waiting.lock().unwrap().changes.len(), 1);
    }

    #[test]
    fn those_that_stay_are_counted_up_to_the_bound() {
        let mut subscribers = Subscribers::default();
        let all: Vec<Subscription> = (0..MAX_SUBSCRIBERS)
            .map(|number| subscribers.subscribe(&number.to_string()).unwrap())
            .collect();
        assert!(matches!(
            subscribers.subscribe("one more"),
            Err(EngineError::Exhausted(_))
        ));
        drop(all);
        assert!(subscribers.subscribe("one more").is_ok());
    }
}
