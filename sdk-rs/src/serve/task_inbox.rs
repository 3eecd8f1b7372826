//! What one open task's handler has heard and has yet to hear: further messages, and the cancel. Fed by
//! the serving loop, read by the handler; both may see the same state of the task twice. It holds how the task's claim
//! stands, too.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    message::Message,
    serve::task_claim::{ClaimState, TaskClaim},
    task::{Task, TaskStatus},
};

/// How long the end of a task waits for the ends of artifacts that its handler dropped.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct TaskInbox {
    state: Mutex<InboxState>,
    arrived: Notify,
    cancelled: CancellationToken,
    claim: TaskClaim,
}

#[derive(Debug, Default)]
struct InboxState {
    /// Of the messages that the handler knows, those it got and those it sent: how many have this id. Whoever sends
    /// them chooses it.
    known: HashMap<String, usize>,
    /// Those that the task did not have when the handler got it.
    later_messages: Vec<Message>,
    unread: VecDeque<Message>,
    /// The handler has got its task; what is heard before is part of that.
    opened: bool,
    /// Artifacts whose writers were dropped and whose ends are still under way.
    closing: Vec<JoinHandle<()>>,
    /// The handler ended the task itself.
    ended: bool,
    /// The daemon does not know the task.
    lost: bool,
    /// The handler lets go of the task without ending it.
    left: bool,
    /// The handler has given the task back.
    given_back: bool,
}

impl TaskInbox {
    pub(super) fn new(claim: TaskClaim) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            cancelled: CancellationToken::new(),
            claim,
        }
    }

    // A panic while the lock is held leaves the lists whole: each change is one push or insert.
    fn heard(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handler starts, with these messages.
    pub(super) fn open_with(&self, task: &Task) {
        let mut heard = self.heard();
        heard.opened = true;
        for message in &task.messages {
            *heard.known.entry(message.id.clone()).or_default() += 1;
        }
    }

    /// Takes the task in a later state.
    pub(super) fn update(&self, task: &Task) {
        if task.status.is_terminal() {
            self.cancel();
            return;
        }
        // While input is required the last message is the question, and before that nothing is new.
        if task.status != TaskStatus::Working {
            return;
        }
        let mut heard = self.heard();
        if !heard.opened {
            return;
        }
        let mut met: HashMap<&str, usize> = HashMap::new();
        for message in &task.messages {
            let met = met.entry(&message.id).or_default();
            *met += 1;
            let known = heard.known.entry(message.id.clone()).or_default();
            if *met > *known {
                *known = *met;
                heard.later_messages.push(message.clone());
                heard.unread.push_back(message.clone());
            }
        }
        drop(heard);
        self.arrived.notify_one();
    }

    /// The handler sends this message; should it come back in the task it is not an answer.
    pub(super) fn record_own(&self, message: &Message) {
        *self.heard().known.entry(message.id.clone()).or_default() += 1;
    }

    /// What was heard since the handler got its task, oldest first.
    pub(super) fn later_messages(&self) -> Vec<Message> {
        self.heard().later_messages.clone()
    }

    /// The next further message; `None` when the task was canceled.
    pub(super) async fn next(&self) -> Option<Message> {
        loop {
            // `notify_one` keeps a permit, so a message that arrives before the wait is not missed.
            if let Some(message) = self.heard().unread.pop_front() {
                return Some(message);
            }
            tokio::select! {
                () = self.cancelled.cancelled() => return None,
                () = self.arrived.notified() => {}
            }
        }
    }

    /// Remembers an artifact that is being ended because its writer was dropped.
    pub(super) fn add_closing(&self, ending: JoinHandle<()>) {
        self.heard().closing.push(ending);
    }

    /// Waits until those are ended: a task with an open artifact cannot complete.
    pub(super) async fn wait_for_closing(&self) {
        let closing = std::mem::take(&mut self.heard().closing);
        if tokio::time::timeout(CLOSING_LIMIT, futures::future::join_all(closing))
            .await
            .is_err()
        {
            tracing::debug!("a dropped artifact could not be ended in time");
        }
    }

    pub(super) fn claim(&self) -> &TaskClaim {
        &self.claim
    }

    pub(super) fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// The task was ended by somebody else.
    pub(super) fn cancel(&self) {
        if !self.heard().ended {
            self.cancelled.cancel();
        }
    }

    /// The handler ended the task.
    pub(super) fn mark_ended(&self) {
        self.heard().ended = true;
    }

    /// The daemon does not know the task: it was lost before it was durable, or is long over.
    pub(super) fn mark_lost(&self) {
        self.heard().lost = true;
    }

    /// The handler lets go of the task; it is not ended for it.
    pub(super) fn mark_left(&self) {
        self.heard().left = true;
    }

    /// The handler has given the task back: it is claimed here no more.
    pub(super) fn mark_given_back(&self) {
        self.heard().given_back = true;
        self.claim.change(ClaimState::finish);
    }

    /// Whether the handler has given the task back.
    pub(super) fn is_given_back(&self) -> bool {
        self.heard().given_back
    }

    /// Whether the handler has let go of the task.
    pub(super) fn is_left(&self) -> bool {
        self.heard().left
    }

    /// Whether that is so, and the handler has not ended it since.
    pub(super) fn is_lost(&self) -> bool {
        let heard = self.heard();
        heard.lost && !heard.ended
    }

    /// Whether the task has ended, by the handler or by somebody else.
    pub(super) fn is_over(&self) -> bool {
        self.heard().ended || self.cancelled.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1;

    use super::*;

    fn task(status: v1::TaskStatus, messages: &[&Message]) -> Task {
        let messages = messages.iter().map(|message| (*message).clone().into()).collect();
        v1::Task {
            task_id: "t".to_owned(),
            status: status.into(),
            messages,
            ..v1::Task::default()
        }
        .into()
    }

    #[tokio::test]
    async fn an_answer_is_heard_once_and_the_question_never() {
        let (first, question, answer) = (Message::text("a"), Message::agent_text("?"), Message::text("b"));
        let conversation = TaskInbox::new(TaskClaim::new(None, CancellationToken::new()));
        conversation.update(&task(v1::TaskStatus::Working, &[&first]));
        conversation.open_with(&task(v1::TaskStatus::Submitted, &[&first]));
        conversation.record_own(&question);
        conversation.update(&task(v1::TaskStatus::InputRequired, &[&first, &question]));
        for _ in 0..2 {
            conversation.update(&task(v1::TaskStatus::Working, &[&first, &question, &answer]));
        }
        assert_eq!(conversation.next().await.unwrap().id, answer.id);
        // An answer with an id that was there before is one all the same.
        let mut again = Message::text("c");
        again.id.clone_from(&first.id);
        for _ in 0..2 {
            let said = [&first, &question, &answer, &again];
            conversation.update(&task(v1::TaskStatus::Working, &said));
        }
        assert_eq!(conversation.next().await.unwrap().text_content(), "c");
        conversation.update(&task(v1::TaskStatus::Canceled, &[]));
        assert!(conversation.next().await.is_none());
        assert_eq!(conversation.later_messages().len(), 2);
    }
}
