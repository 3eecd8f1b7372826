//! How many tasks a listener may have at once of which nobody has seen yet that it works, while others listen too. PURE.
//!
//! What is off its stream proves nothing: its transport reads ahead, also for a program that hangs. So it begins with one task.
//! With each act on a task (a claim, a report, an end) the number doubles, so programs that start together share what waits. A
//! program may work for long before it says anything: one that has taken all off its stream may have one more each second.

use std::time::Duration;

use crate::types::LISTENER_CREDIT;

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probation {
    /// How many tasks it may have that its agent has not reported on; [`LISTENER_CREDIT`] and more: what it has room for.
    most: usize,
    /// When it was sent its first task, or was last allowed more for the time since.
    since: Option<Duration>,
}

impl Default for Probation {
    fn default() -> Self {
        Self { most: 1, since: None }
    }
}

impl Probation {
    /// Whether a listener with so many tasks that its agent has not reported on can have one more.
    pub(super) fn allows(self, unreported: usize) -> bool {
        self.is_over() || unreported < self.most
    }

    fn is_over(self) -> bool {
        self.most >= LISTENER_CREDIT
    }

    /// The listener is sent a task.
    pub(super) fn on_sent(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Its agent has acted on a task.
    pub(super) fn on_act(&mut self) {
        if !self.is_over() {
            self.most *= 2;
        }
    }

    /// Time has passed, and the listener has read all. Whether it may have more since this look.
    pub(super) fn on_all_read(&mut self, now: Duration) -> bool {
        let Some(since) = self.since.filter(|_| !self.is_over()) else {
            return false;
        };
        let seconds = now.saturating_sub(since).as_secs();
        self.since = Some(since + Duration::from_secs(seconds));
        self.most = self
            .most
            .saturating_add(usize::try_from(seconds).unwrap_or(usize::MAX));
        seconds > 0
    }
}
