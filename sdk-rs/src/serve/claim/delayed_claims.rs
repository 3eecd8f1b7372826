//! Tasks that were begun of late: each is claimed beside its handler in a moment, by one timer for all of them. Most are over
//! by then.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, Sleep};

use super::claim_in_background;
use crate::{node::Node, serve::task_inbox::TaskInbox};

/// How long a handler of a task that is this process's alone runs before the task is claimed.
const CLAIM_AFTER: Duration = Duration::from_millis(1);

/// See the module's text.
pub(in crate::serve) struct DelayedClaims {
    node: Node,
    /// In the order in which they are due.
    tasks: VecDeque<(Instant, String, Arc<TaskInbox>)>,
    /// Until the first one is.
    due: Pin<Box<Sleep>>,
}

impl DelayedClaims {
    pub(in crate::serve) fn new(node: Node) -> Self {
        Self {
            node,
            tasks: VecDeque::new(),
            due: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    pub(in crate::serve) fn push(&mut self, id: String, conversation: Arc<TaskInbox>) {
        let due = Instant::now() + CLAIM_AFTER;
        if self.tasks.is_empty() {
            self.due.as_mut().reset(due);
        }
        self.tasks.push_back((due, id, conversation));
    }

    /// Claims what is due; for ever pending when there is nothing. May be dropped at any time.
    pub(in crate::serve) async fn claim(&mut self) {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        self.due.as_mut().await;
        let now = self.due.deadline();
        while let Some((_, id, conversation)) = self.tasks.pop_front_if(|(due, ..)| *due <= now) {
            claim_in_background(&conversation, &self.node, &id);
        }
        if let Some((due, ..)) = self.tasks.front() {
            self.due.as_mut().reset(*due);
        }
    }
}
