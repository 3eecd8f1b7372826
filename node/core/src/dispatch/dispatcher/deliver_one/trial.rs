//! How many tasks a listener may have at once whose agent has acted on none yet. PURE.
//!
//! What is off its stream proves nothing: its transport reads ahead, also for a program that hangs. So a new listener begins with
//! one task, and may have one more each [`STEP`]; after [`TRIAL`] it has its share, since a program may work for hours before it
//! says anything. While another one acts on tasks that were sent later than its first, it has one at a time. An act is a claim,
//! a report or an end.
//!
//! A listener that is alone has what it has room for; if it finds tasks when it comes, a [`STEP`] later, since others may come
//! with it.

use std::time::Duration;

/// How long it takes until a listener may have one more.
pub(super) const STEP: Duration = Duration::from_millis(100);

/// How long after its first task a listener is tried.
pub(super) const TRIAL: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(crate) has_acted: bool,
    /// It found tasks when it came: until when that counts.
    found_tasks_until: Option<Duration>,
    first: Option<FirstTask>,
    /// How many tasks it may have beside others.
    allowance: usize,
    /// Another listener has acted on a task that was sent after its first.
    is_outdone: bool,
}

/// The first task that the listener was sent.
#[derive(Clone, Copy, Debug)]
struct FirstTask {
    /// Its place among all that were sent.
    place: u64,
    sent_at: Duration,
}

/// What is to be known of the other listeners of the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherListeners {
    pub(crate) is_alone: bool,
    /// A listener of the agent has acted on a task.
    pub(crate) some_act: bool,
}

impl Trial {
    /// Of a listener that comes now. `finds_tasks`: tasks wait.
    pub(super) fn new(now: Duration, finds_tasks: bool) -> Self {
        Self {
            has_acted: false,
            found_tasks_until: finds_tasks.then(|| now + STEP),
            first: None,
            allowance: 1,
            is_outdone: false,
        }
    }

    /// How many tasks it may have that its agent has not reported on.
    pub(super) fn most(self, others: OtherListeners) -> usize {
        if self.has_acted {
            usize::MAX
        } else if self.is_outdone(others) {
            1
        } else if others.is_alone {
            self.found_tasks_until.map_or(usize::MAX, |_| 1)
        } else {
            self.allowance
        }
    }

    /// Whether another listener was seen to work since this one has had its first task, and this one was not.
    pub(super) fn is_outdone(self, others: OtherListeners) -> bool {
        !self.has_acted && self.is_outdone && others.some_act
    }

    /// The listener is sent a task, which has this place among all that were sent.
    pub(super) fn on_sent(&mut self, place: u64, now: Duration) {
        self.first.get_or_insert(FirstTask { place, sent_at: now });
    }

    /// Its agent acts on a task. Whether for the first time.
    pub(super) fn on_act(&mut self) -> bool {
        !std::mem::replace(&mut self.has_acted, true)
    }

    /// Another listener acts on a task of this place. Whether this one is outdone by that.
    pub(super) fn on_act_of_another(&mut self, place: u64) -> bool {
        let is_later = self.first.is_some_and(|first| first.place < place);
        let is_new = is_later && !self.has_acted && !self.is_outdone;
        self.is_outdone |= is_new;
        is_new
    }

    /// Whether time will change how many it may have.
    pub(super) fn goes_on(self) -> bool {
        let grows = self.first.is_some() && self.allowance != usize::MAX;
        !self.has_acted && (grows || self.found_tasks_until.is_some())
    }

    /// Counts the time that has passed.
    pub(super) fn tick(&mut self, now: Duration) {
        self.found_tasks_until.take_if(|until| *until <= now);
        let Some(first) = self.first else { return };
        let passed = now.saturating_sub(first.sent_at);
        self.allowance = if passed < TRIAL {
            let steps = passed.as_millis() / STEP.as_millis();
            usize::try_from(steps).map_or(usize::MAX, |steps| steps + 1)
        } else {
            usize::MAX
        };
    }
}
