//! The claim of one task: made before its handler runs, or, where the daemon has handed the task to this process alone,
//! while it runs. A handler that is done at once never makes it: the end of a task claims it too.

use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;

use crate::{error::Error, node::Node, serve::calls};

/// How long a handler of a task that is this process's alone runs before the task is claimed.
pub(super) const CLAIM_AFTER: Duration = Duration::from_millis(1);

/// How long after it was handed over such a task may be begun unclaimed. A process that was suspended may hold what the
/// daemon has given to another since; both read the same clock, unless they are apart, and then it is claimed first.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);

/// Whether a task that was handed to this process alone at `since` may be begun at `now` before it is claimed.
pub(super) fn may_begin(since: Option<SystemTime>, now: SystemTime) -> bool {
    since.is_some_and(|since| match now.duration_since(since) {
        Ok(passed) => passed <= BEGIN_WITHIN,
        // Clocks are told in milliseconds.
        Err(ahead) => ahead.duration() <= Duration::from_millis(1),
    })
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Claim {
    node: Node,
    task: String,
    /// Set once it is made, or not needed any more.
    made: OnceCell<()>,
}

impl Claim {
    pub(super) fn new(node: Node, task: String) -> Self {
        Self {
            node,
            task,
            made: OnceCell::new(),
        }
    }

    /// Makes it, unless it is made.
    pub(super) async fn make(&self) -> Result<(), Error> {
        let claim = || calls::claim(&self.node, &self.task);
        self.made.get_or_try_init(claim).await.copied()
    }

    /// The task's end is about to be reported: a claim under way is waited for, and none is made any more.
    pub(super) async fn let_be(&self) {
        self.made.get_or_init(|| async {}).await;
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
