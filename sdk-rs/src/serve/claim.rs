//! The claim of one task: made before its handler runs, or, where the daemon has handed the task to this process alone,
//! beside it. A handler that is done at once never makes it: the end of a task claims it too. A claim that is sent runs to
//! its answer in a task of its own, whatever becomes of who waits for it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    error::{Error, ErrorKind},
    node::Node,
    serve::{calls, conversation::Conversation},
};

/// How long a handler of a task that is this process's alone runs before the task is claimed.
const CLAIM_AFTER: Duration = Duration::from_millis(1);

/// How long after it was handed over such a task may be begun, or ended, unclaimed. A process that was suspended may hold
/// what the daemon has given to another since; both read the same clock, unless they are apart, and then it is claimed first.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);

/// The first pause before a claim beside a handler that could not be made is made again; doubles.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest one.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Whether a task that was handed to this process alone at `since` may be begun at `now` before it is claimed.
pub(super) fn may_begin(since: Option<SystemTime>, now: SystemTime) -> bool {
    since.is_some_and(|since| match now.duration_since(since) {
        Ok(passed) => passed <= BEGIN_WITHIN,
        // Clocks are told in milliseconds.
        Err(ahead) => ahead.duration() <= Duration::from_millis(1),
    })
}

#[derive(Clone, Debug)]
enum State {
    /// Not made.
    Open,
    /// Sent.
    UnderWay,
    /// Made, or not needed any more.
    Made,
    /// The task's end is being reported, which claims it too.
    Ending,
    /// The task is another's, or has ended.
    Refused(Error),
    /// It could not be made; it may be later.
    Failed(Error),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Claim {
    state: watch::Sender<State>,
    exclusive_since: Mutex<Option<SystemTime>>,
    /// The handler has returned, or was aborted.
    over: CancellationToken,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(State::Open),
            exclusive_since: Mutex::default(),
            over: CancellationToken::new(),
        }
    }
}

impl Claim {
    fn exclusive_since(&self) -> Option<SystemTime> {
        *self
            .exclusive_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Dropped when the handler is over: no claim is made beside it any more.
    pub(super) fn until_over(&self) -> DropGuard {
        self.over.clone().drop_guard()
    }

    fn settle(&self, answer: Result<(), Error>) {
        self.state.send_if_modified(|state| {
            let is_awaited = matches!(state, State::UnderWay);
            if is_awaited {
                *state = match answer {
                    Ok(()) => State::Made,
                    Err(error) if error.kind() == ErrorKind::Conflict => State::Refused(error),
                    Err(error) => State::Failed(error),
                };
            }
            is_awaited
        });
    }

    /// The state, once it is none that `wait` is for.
    async fn once_not(&self, wait: impl Fn(&State) -> bool) -> State {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| !wait(state)).await {
            Ok(state) => state.clone(),
            Err(_) => State::Made, // The sender is part of `self`.
        }
    }
}

/// Makes the claim, unless it is made.
pub(super) async fn make(conversation: &Arc<Conversation>, node: &Node, id: &str) -> Result<(), Error> {
    let claim = conversation.claim();
    let is_due = claim.state.send_if_modified(|state| {
        let is_due = matches!(state, State::Open | State::Failed(_));
        if is_due {
            *state = State::UnderWay;
        }
        is_due
    });
    if is_due {
        let (conversation, node, id) = (Arc::clone(conversation), node.clone(), id.to_owned());
        tokio::spawn(async move {
            let answer = calls::claim(&node, &id).await;
            conversation.claim().settle(answer);
        });
    }
    match claim.once_not(|state| matches!(state, State::UnderWay)).await {
        State::Refused(error) | State::Failed(error) => Err(error),
        _ => Ok(()),
    }
}

/// Makes the claim of a task that is this process's alone beside its handler, in a moment, unless that is over by then; tells
/// it if the task is another's.
pub(super) fn make_beside(
    conversation: &Arc<Conversation>,
    node: &Node,
    id: &str,
    exclusive_since: Option<SystemTime>,
) {
    let (conversation, node, id) = (Arc::clone(conversation), node.clone(), id.to_owned());
    *conversation
        .claim()
        .exclusive_since
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = exclusive_since;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = conversation.claim().over.cancelled() => {}
            () = make_in_a_moment(&conversation, &node, &id) => {}
        }
    });
}

async fn make_in_a_moment(conversation: &Arc<Conversation>, node: &Node, id: &str) {
    tokio::time::sleep(CLAIM_AFTER).await;
    let mut pause = PAUSE;
    loop {
        let claim = conversation.claim();
        let state = claim.once_not(|state| matches!(state, State::Ending)).await;
        if matches!(state, State::Made) {
            return;
        }
        let Err(error) = make(conversation, node, id).await else {
            continue; // Made, or an end is being reported.
        };
        tracing::debug!(task = id, %error, "the task was begun, and could not be claimed");
        if error.kind() == ErrorKind::Conflict {
            conversation.cancel();
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Allows the report of a task's end. An error: the task is another's, or the daemon does not know it.
pub(super) async fn before_end<'a>(
    conversation: &'a Arc<Conversation>,
    node: &Node,
    id: &str,
) -> Result<Ending<'a>, Error> {
    let claim = conversation.claim();
    let is_fresh = may_begin(claim.exclusive_since(), SystemTime::now());
    let is_first = claim.state.send_if_modified(|state| {
        let is_first = is_fresh && matches!(state, State::Open);
        if is_first {
            *state = State::Ending;
        }
        is_first
    });
    if !is_first && let Err(error) = make(conversation, node, id).await {
        // Whatever else is the matter with it, nobody else has the task: that the daemon says first.
        if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TaskNotFound) {
            return Err(error);
        }
    }
    Ok(Ending { claim })
}

/// The report of a task's end is under way. If it fails, or is given up, the task may still have to be claimed.
pub(super) struct Ending<'a> {
    claim: &'a Claim,
}

impl Ending<'_> {
    /// The task has ended.
    pub(super) fn done(self) {
        self.claim.state.send_replace(State::Made);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.claim.state.send_if_modified(|state| {
            let is_ours = matches!(state, State::Ending);
            if is_ours {
                *state = State::Open;
            }
            is_ours
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_long_ago_or_by_another_clock_is_claimed_first() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ago = |millis| Some(now - Duration::from_millis(millis));
        assert!(may_begin(ago(0), now) && may_begin(ago(1000), now));
        assert!(may_begin(Some(now + Duration::from_millis(1)), now));
        assert!(!may_begin(ago(1001), now));
        assert!(!may_begin(Some(now + Duration::from_millis(2)), now));
        assert!(!may_begin(None, now));
    }
}
