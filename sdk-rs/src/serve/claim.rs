//! Claims a task and ends it. The claim is made before the task's handler runs, or, where the daemon has handed the task to
//! this process alone, beside it. A handler that is done at once never makes it: the end of a task claims it too. A claim
//! that is sent runs to its answer in a task of its own, whatever becomes of who waits for it, for as long as tasks are
//! served.
//!
//! The daemon takes an end from anybody, unless it says that it is unclaimed and another agent's claim stands; older ones do
//! not know that. So an end that is reported unclaimed says so, and is reported once: whoever repeats it after a loss may end
//! the task of another, who has been given it since. It is claimed before that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentanycast_limits::Backoff;

use crate::{
    error::{Error, ErrorKind},
    node::Node,
    serve::{
        task_claim::{ClaimState, ConnectionTime, DueClaim, proves_exclusive},
        task_inbox::TaskInbox,
        task_reports::{self, EndRequest, TaskEnd},
    },
    session::CallFailure,
};

mod delayed_claims;

pub(super) use delayed_claims::DelayedClaims;

/// The pauses before a claim beside a handler that could not be made is made again.
const RETRY_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Makes the claim, unless it is made.
pub(super) async fn make(conversation: &Arc<TaskInbox>, node: &Node, id: &str) -> Result<(), Error> {
    let claim = conversation.claim();
    let due = claim.change(|state| state.begin(ConnectionTime::now(node)));
    if let Some(due) = due {
        send(conversation, node, id, due);
    }
    claim.wait_for(ClaimState::answer).await
}

fn send(conversation: &Arc<TaskInbox>, node: &Node, id: &str, due: DueClaim) {
    let (conversation, node, id) = (Arc::clone(conversation), node.clone(), id.to_owned());
    tokio::spawn(async move {
        let claim = conversation.claim();
        let (answer, in_doubt) = tokio::select! {
            biased;
            () = claim.closed() => (Err(not_served(&id)), true),
            answer = task_reports::claim(&node, &id, due.in_doubt) => answer,
        };
        claim.change(|state| state.settle(answer, in_doubt));
    });
}

fn not_served(id: &str) -> Error {
    let message = format!("task {id} was not claimed: tasks are not served any more");
    Error::new(ErrorKind::Canceled, message)
}

/// Makes the claim of a task that is this process's alone beside its handler, unless that is over; tells it if the task is
/// another's. While an end is reported it waits for what comes of that.
pub(super) fn claim_in_background(conversation: &Arc<TaskInbox>, node: &Node, id: &str) {
    if conversation.claim().change(ClaimState::begin_in_background) {
        spawn_claim(conversation, node, id);
    }
}

fn spawn_claim(conversation: &Arc<TaskInbox>, node: &Node, id: &str) {
    let (conversation, node, id) = (Arc::clone(conversation), node.clone(), id.to_owned());
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = conversation.claim().wait_for(|state| state.is_over().then_some(())) => {}
            () = claim_with_retries(&conversation, &node, &id) => {}
        }
    });
}

async fn claim_with_retries(conversation: &Arc<TaskInbox>, node: &Node, id: &str) {
    let mut pauses = RETRY_PAUSES;
    loop {
        let Err(error) = claim_unless_ending(conversation, node, id).await else {
            return;
        };
        tracing::debug!(task = id, %error, "the task was begun, and could not be claimed");
        if error.kind() == ErrorKind::Conflict {
            conversation.cancel();
            return;
        }
        tokio::time::sleep(pauses.next_wait()).await;
    }
}

/// As [`make`], while no end is reported.
async fn claim_unless_ending(conversation: &Arc<TaskInbox>, node: &Node, id: &str) -> Result<(), Error> {
    let claim = conversation.claim();
    loop {
        claim.wait_for(|state| state.no_end_pending().then_some(())).await;
        let (is_quiet, due) = claim.change(|state| {
            (
                state.no_end_pending(),
                state.begin_unless_ending(ConnectionTime::now(node)),
            )
        });
        if let Some(due) = due {
            send(conversation, node, id, due);
        }
        if is_quiet {
            // What came of it while an end was reported is for who reports that.
            let answer = |state: &ClaimState| state.no_end_pending().then(|| state.answer()).flatten();
            return claim.wait_for(answer).await;
        }
    }
}

/// Ends the task, unless it is another's, or the daemon does not know it.
pub(super) async fn end<C: EndRequest>(
    conversation: &Arc<TaskInbox>,
    node: &Node,
    mut end: TaskEnd<C>,
) -> Result<(), Error> {
    let ending = EndReport::begin(conversation, node, end.id());
    let answer = report(conversation, node, &mut end).await;
    end.settle(node, answer).await?;
    ending.done();
    Ok(())
}

/// Reports the end of a task: as often as it takes if that is claimed, else once between two claims. Also says whether a
/// report may have taken effect unanswered.
async fn report<C: EndRequest>(
    conversation: &Arc<TaskInbox>,
    node: &Node,
    end: &mut TaskEnd<C>,
) -> (Result<(), Error>, bool) {
    let claim = conversation.claim();
    let mut is_free = claim.state().may_end_unclaimed(ConnectionTime::now(node));
    let mut unanswered = false;
    let mut backoff = node.session().backoff();
    loop {
        if !is_free {
            match Box::pin(make(conversation, node, end.id())).await {
                Ok(()) => {
                    let (answer, again) = Box::pin(end.report(node)).await;
                    return (answer, unanswered || again);
                }
                // Whatever else is the matter with it, nobody else has the task.
                Err(error) if proves_exclusive(&error) => {}
                Err(error) => return (Err(error), unanswered),
            }
        }
        let sent = AtomicBool::new(false);
        let wanted = || {
            let is_alone = claim.is_exclusive(node);
            sent.fetch_or(is_alone, Ordering::Relaxed);
            is_alone
        };
        match end.report_once(node, wanted).await {
            Ok(()) => return (Ok(()), unanswered),
            Err(CallFailure::Answered(error)) => return (Err(error), unanswered),
            Err(CallFailure::Lost(error)) => {
                (is_free, unanswered) = (false, unanswered || sent.into_inner());
                if !Box::pin(backoff.pause()).await {
                    return (Err(error), unanswered);
                }
            }
        }
    }
}

/// The report of a task's end is under way. If it fails, or is given up, the task may still have to be claimed.
struct EndReport<'a> {
    conversation: &'a Arc<TaskInbox>,
    node: &'a Node,
    id: String,
    ended: bool,
}

impl<'a> EndReport<'a> {
    fn begin(conversation: &'a Arc<TaskInbox>, node: &'a Node, id: &str) -> Self {
        conversation.claim().change(ClaimState::begin_end);
        Self {
            conversation,
            node,
            id: id.to_owned(),
            ended: false,
        }
    }

    /// The task has ended.
    fn done(mut self) {
        self.ended = true;
    }
}

impl Drop for EndReport<'_> {
    fn drop(&mut self) {
        let is_due = self
            .conversation
            .claim()
            .change(|state| state.finish_end(self.ended));
        if is_due && tokio::runtime::Handle::try_current().is_ok() {
            spawn_claim(self.conversation, self.node, &self.id);
        }
    }
}
