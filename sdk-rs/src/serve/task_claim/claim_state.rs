//! How the claim of one task stands: pure, told what happens, asked what may be done.

use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind};

/// For how long a task that is nobody else's is taken to be so. A process that was suspended may hold what the daemon has
/// given to another since; both read the same clock, unless they are apart, and then the task is claimed first.
const EXCLUSIVE_FOR: Duration = Duration::from_secs(1);

/// When something was told, and on which connection. What another connection told holds no more: the daemon may have
/// noticed its end before we do, and have given the task to another.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct ConnectionTime {
    pub(in crate::serve) time: SystemTime,
    pub(in crate::serve) connection: u64,
}

#[derive(Debug)]
enum ClaimPhase {
    /// Not made.
    Open,
    /// Sent then.
    UnderWay(ConnectionTime),
    /// Made, or not needed any more.
    Made,
    /// The task is another's, or has ended.
    Refused(Error),
    /// It could not be made; it may be later.
    Failed(Error),
}

/// See the module's text.
#[derive(Debug)]
pub(in crate::serve) struct ClaimState {
    phase: ClaimPhase,
    /// When the daemon last told that nobody else has the task: by handing it to this process alone, or by refusing the
    /// claim for a reason of its own, since it looks for another's claim first. None once the subscription was lost.
    exclusive_since: Option<ConnectionTime>,
    /// How many reports of the task's end are under way; they claim it too.
    ends: usize,
    /// A claim got no answer: a refusal may be about that one.
    in_doubt: bool,
    /// A claim is to be made beside the handler, when it is known that none of these ends has ended the task.
    claim_after_end: bool,
    /// The handler has returned, or was aborted.
    over: bool,
}

/// A claim that has to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct DueClaim {
    /// An earlier one got no answer.
    pub(in crate::serve) in_doubt: bool,
}

impl ClaimState {
    pub(in crate::serve) fn new(exclusive_since: Option<ConnectionTime>) -> Self {
        Self {
            phase: ClaimPhase::Open,
            exclusive_since,
            ends: 0,
            in_doubt: false,
            claim_after_end: false,
            over: false,
        }
    }

    /// Of a task that is claimed already.
    pub(in crate::serve) fn made() -> Self {
        Self {
            phase: ClaimPhase::Made,
            ..Self::new(None)
        }
    }

    /// Others may have been given the task.
    pub(in crate::serve) fn mark_shared(&mut self) {
        self.exclusive_since = None;
    }

    /// Whether nobody else can have the task by `now`.
    pub(in crate::serve) fn is_exclusive(&self, now: ConnectionTime) -> bool {
        self.exclusive_since.is_some_and(|since| {
            let is_recent = match now.time.duration_since(since.time) {
                Ok(passed) => passed <= EXCLUSIVE_FOR,
                // Clocks are told in milliseconds.
                Err(ahead) => ahead.duration() <= Duration::from_millis(1),
            };
            is_recent && now.connection == since.connection
        })
    }

    /// Begins a claim, if one is due.
    pub(in crate::serve) fn begin(&mut self, now: ConnectionTime) -> Option<DueClaim> {
        if !matches!(self.phase, ClaimPhase::Open | ClaimPhase::Failed(_)) {
            return None;
        }
        self.phase = ClaimPhase::UnderWay(now);
        Some(DueClaim {
            in_doubt: self.in_doubt,
        })
    }

    /// Whether the claim is to be made beside the handler now. While an end is reported it is not: it is then when that has
    /// failed.
    pub(in crate::serve) fn begin_in_background(&mut self) -> bool {
        let is_needed = !self.over && !matches!(self.phase, ClaimPhase::Made | ClaimPhase::Refused(_));
        self.claim_after_end = is_needed && self.ends > 0;
        is_needed && self.ends == 0
    }

    /// As [`ClaimState::begin`], for a claim that nobody waits for. While an end is reported it is not due: it would be
    /// refused when the end has just taken effect.
    pub(in crate::serve) fn begin_unless_ending(&mut self, now: ConnectionTime) -> Option<DueClaim> {
        if self.ends > 0 { None } else { self.begin(now) }
    }

    /// Takes the answer of the claim that is under way, and whether it, or an earlier one, got none.
    pub(in crate::serve) fn settle(&mut self, answer: Result<(), Error>, in_doubt: bool) {
        let ClaimPhase::UnderWay(asked) = self.phase else {
            return; // The task has ended meanwhile.
        };
        self.in_doubt = in_doubt;
        self.phase = match answer {
            Ok(()) => ClaimPhase::Made,
            Err(error) if error.kind() == ErrorKind::Conflict => ClaimPhase::Refused(error),
            Err(error) => {
                if proves_exclusive(&error) {
                    self.exclusive_since = Some(asked);
                }
                ClaimPhase::Failed(error)
            }
        };
    }

    /// What came of the claim, unless that is not known yet.
    pub(in crate::serve) fn answer(&self) -> Option<Result<(), Error>> {
        match &self.phase {
            ClaimPhase::Open | ClaimPhase::UnderWay(_) => None,
            ClaimPhase::Made => Some(Ok(())),
            ClaimPhase::Refused(error) | ClaimPhase::Failed(error) => Some(Err(error.clone())),
        }
    }

    /// Whether no end is being reported.
    pub(in crate::serve) fn no_end_pending(&self) -> bool {
        self.ends == 0
    }

    /// Whether an end may be reported, once, by a process that has not tried to claim the task.
    pub(in crate::serve) fn may_end_unclaimed(&self, now: ConnectionTime) -> bool {
        matches!(self.phase, ClaimPhase::Open) && self.is_exclusive(now)
    }

    /// An end is going to be reported.
    pub(in crate::serve) fn begin_end(&mut self) {
        self.ends += 1;
    }

    /// Its report is over, or was given up. If the task has not `ended` it may still have to be claimed: whether that is to be
    /// done beside the handler now.
    pub(in crate::serve) fn finish_end(&mut self, ended: bool) -> bool {
        self.ends -= 1;
        if ended {
            self.phase = ClaimPhase::Made;
        }
        self.claim_after_end && self.ends == 0 && self.begin_in_background()
    }

    /// The handler has returned, or was aborted.
    pub(in crate::serve) fn finish(&mut self) {
        self.over = true;
    }

    pub(in crate::serve) fn is_over(&self) -> bool {
        self.over
    }
}

/// Whether a claim that failed so tells that nobody else had the task when it was asked for: it was answered, and for
/// another reason.
pub(in crate::serve) fn proves_exclusive(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Conflict
            | ErrorKind::TaskNotFound
            | ErrorKind::DaemonUnavailable
            | ErrorKind::Timeout
            | ErrorKind::Canceled
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ConnectionTime = ConnectionTime {
        time: SystemTime::UNIX_EPOCH,
        connection: 1,
    };

    fn after(millis: u64) -> ConnectionTime {
        let time = NOW.time + Duration::from_millis(millis);
        ConnectionTime { time, ..NOW }
    }

    fn error(kind: ErrorKind) -> Result<(), Error> {
        Err(Error::new(kind, "x"))
    }

    fn kind(state: &ClaimState) -> Option<ErrorKind> {
        state.answer()?.err().map(|error| error.kind())
    }

    #[test]
    fn what_was_handed_over_long_ago_or_by_another_clock_is_claimed_first() {
        let state = ClaimState::new(Some(after(10)));
        for (now, is_alone) in [(8, false), (9, true), (10, true), (1010, true), (1011, false)] {
            assert_eq!(state.is_exclusive(after(now)), is_alone, "{now}");
            assert_eq!(state.may_end_unclaimed(after(now)), is_alone, "{now}");
        }
        assert!(!ClaimState::new(None).is_exclusive(NOW));
    }

    #[test]
    fn what_others_may_have_been_given_is_claimed_first() {
        let mut state = ClaimState::new(Some(NOW));
        state.mark_shared();
        assert!(!state.is_exclusive(NOW) && !state.may_end_unclaimed(NOW));
    }

    #[test]
    fn what_came_on_another_connection_is_claimed_first() {
        let state = ClaimState::new(Some(NOW));
        let reconnected = ConnectionTime { connection: 2, ..NOW };
        assert!(state.is_exclusive(NOW) && !state.is_exclusive(reconnected));
    }

    #[test]
    fn a_claim_is_sent_once_and_again_when_it_failed() {
        let mut state = ClaimState::new(None);
        assert!(state.begin(NOW).is_some());
        assert_eq!(state.begin(NOW), None);
        assert!(state.answer().is_none());
        state.settle(error(ErrorKind::LimitExceeded), false);
        assert_eq!(kind(&state), Some(ErrorKind::LimitExceeded));
        assert!(state.begin(NOW).is_some());
        state.settle(Ok(()), false);
        assert!(state.answer().unwrap().is_ok());
        assert_eq!(state.begin(NOW), None);
    }

    #[test]
    fn a_refused_claim_is_not_made_again() {
        let mut state = ClaimState::new(Some(NOW));
        state.begin(NOW);
        state.settle(error(ErrorKind::Conflict), false);
        assert_eq!(state.begin(NOW), None);
        assert_eq!(kind(&state), Some(ErrorKind::Conflict));
        assert!(!state.may_end_unclaimed(NOW));
    }

    /// The daemon looks for another's claim before anything else.
    #[test]
    fn a_refusal_for_another_reason_tells_that_nobody_has_the_task() {
        for (kind, is_alone) in [
            (ErrorKind::LimitExceeded, true),
            (ErrorKind::Internal, true),
            (ErrorKind::TaskNotFound, false),
            (ErrorKind::DaemonUnavailable, false),
            (ErrorKind::Timeout, false),
            (ErrorKind::Canceled, false),
        ] {
            let mut state = ClaimState::new(None);
            state.begin(after(5000));
            state.settle(error(kind), false);
            assert_eq!(state.is_exclusive(after(6000)), is_alone, "{kind:?}");
            // An end claims anew all the same.
            assert!(!state.may_end_unclaimed(after(5000)), "{kind:?}");
        }
    }

    #[test]
    fn a_claim_without_an_answer_is_remembered() {
        let mut state = ClaimState::new(None);
        assert_eq!(state.begin(NOW), Some(DueClaim { in_doubt: false }));
        state.settle(error(ErrorKind::DaemonUnavailable), true);
        assert_eq!(state.begin(NOW), Some(DueClaim { in_doubt: true }));
    }

    #[test]
    fn nothing_is_claimed_beside_an_end() {
        let mut state = ClaimState::new(Some(NOW));
        state.begin(NOW);
        state.settle(error(ErrorKind::LimitExceeded), false);
        state.begin_end();
        state.begin_end();
        assert_eq!(state.begin_unless_ending(NOW), None);
        state.finish_end(false);
        assert_eq!(state.begin_unless_ending(NOW), None);
        state.finish_end(false);
        assert!(state.no_end_pending() && state.begin_unless_ending(NOW).is_some());
    }

    #[test]
    fn a_claim_beside_the_handler_waits_for_what_comes_of_the_end() {
        for (ended, over) in [(false, false), (true, false), (false, true)] {
            let mut state = ClaimState::new(Some(NOW));
            state.begin_end();
            state.begin_end();
            assert!(!state.begin_in_background());
            assert!(!state.finish_end(false));
            if over {
                state.finish();
            }
            assert_eq!(state.finish_end(ended), !ended && !over);
            assert_eq!(state.begin_in_background(), !ended && !over);
            state.begin_end();
            state.finish();
            assert!(!state.finish_end(false));
        }
    }

    #[test]
    fn no_claim_is_owed_twice() {
        let mut state = ClaimState::new(Some(NOW));
        assert!(state.begin_in_background());
        state.begin_end();
        assert!(!state.finish_end(false));
    }

    #[test]
    fn a_task_that_has_ended_needs_no_claim() {
        let mut state = ClaimState::new(Some(NOW));
        state.begin_end();
        state.begin(NOW);
        state.finish_end(true);
        state.settle(error(ErrorKind::Conflict), false);
        assert!(state.answer().unwrap().is_ok());
        assert_eq!(state.begin_unless_ending(NOW), None);
    }
}
