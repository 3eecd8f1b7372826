//! How the claim of one task stands: pure, told what happens, asked what may be done.

use std::time::{Duration, SystemTime};

use crate::error::{Error, ErrorKind};

/// For how long a task that is nobody else's is taken to be so. A process that was suspended may hold what the daemon has
/// given to another since; both read the same clock, unless they are apart, and then the task is claimed first.
const ALONE_WITHIN: Duration = Duration::from_secs(1);

/// When something was told, and on which connection. What another connection told holds no more: the daemon may have
/// noticed its end before we do, and have given the task to another.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Moment {
    pub(in crate::serve) time: SystemTime,
    pub(in crate::serve) connection: u64,
}

#[derive(Debug)]
enum Phase {
    /// Not made.
    Open,
    /// Sent then.
    UnderWay(Moment),
    /// Made, or not needed any more.
    Made,
    /// The task is another's, or has ended.
    Refused(Error),
    /// It could not be made; it may be later.
    Failed(Error),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Standing {
    phase: Phase,
    /// When the daemon last told that nobody else has the task: by handing it to this process alone, or by refusing the
    /// claim for a reason of its own, since it looks for another's claim first. None once the subscription was lost.
    alone_since: Option<Moment>,
    /// How many reports of the task's end are under way; they claim it too.
    ends: usize,
    /// A claim got no answer: a refusal may be about that one.
    in_doubt: bool,
    /// A claim is to be made beside the handler, when it is known that none of these ends has ended the task.
    owed: bool,
    /// The handler has returned, or was aborted.
    over: bool,
}

/// A claim that has to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// An earlier one got no answer.
    pub(super) in_doubt: bool,
}

impl Standing {
    pub(super) fn new(exclusive_since: Option<Moment>) -> Self {
        Self {
            phase: Phase::Open,
            alone_since: exclusive_since,
            ends: 0,
            in_doubt: false,
            owed: false,
            over: false,
        }
    }

    /// Others may have been given the task.
    pub(super) fn share(&mut self) {
        self.alone_since = None;
    }

    /// Whether nobody else can have the task by `now`.
    pub(super) fn is_alone(&self, now: Moment) -> bool {
        self.alone_since.is_some_and(|since| {
            let is_recent = match now.time.duration_since(since.time) {
                Ok(passed) => passed <= ALONE_WITHIN,
                // Clocks are told in milliseconds.
                Err(ahead) => ahead.duration() <= Duration::from_millis(1),
            };
            is_recent && now.connection == since.connection
        })
    }

    /// Begins a claim, if one is due.
    pub(super) fn begin(&mut self, now: Moment) -> Option<Due> {
        if !matches!(self.phase, Phase::Open | Phase::Failed(_)) {
            return None;
        }
        self.phase = Phase::UnderWay(now);
        Some(Due {
            in_doubt: self.in_doubt,
        })
    }

    /// Whether the claim is to be made beside the handler now. While an end is reported it is not: it is then when that has
    /// failed.
    pub(super) fn begin_beside(&mut self) -> bool {
        let is_needed = !self.over && !matches!(self.phase, Phase::Made | Phase::Refused(_));
        self.owed = is_needed && self.ends > 0;
        is_needed && self.ends == 0
    }

    /// As [`Standing::begin`], for a claim that nobody waits for. While an end is reported it is not due: it would be
    /// refused when the end has just taken effect.
    pub(super) fn begin_quietly(&mut self, now: Moment) -> Option<Due> {
        if self.ends > 0 { None } else { self.begin(now) }
    }

    /// Takes the answer of the claim that is under way, and whether it, or an earlier one, got none.
    pub(super) fn settle(&mut self, answer: Result<(), Error>, in_doubt: bool) {
        let Phase::UnderWay(asked) = self.phase else {
            return; // The task has ended meanwhile.
        };
        self.in_doubt = in_doubt;
        self.phase = match answer {
            Ok(()) => Phase::Made,
            Err(error) if error.kind() == ErrorKind::Conflict => Phase::Refused(error),
            Err(error) => {
                if leaves_alone(&error) {
                    self.alone_since = Some(asked);
                }
                Phase::Failed(error)
            }
        };
    }

    /// What came of the claim, unless that is not known yet.
    pub(super) fn answer(&self) -> Option<Result<(), Error>> {
        match &self.phase {
            Phase::Open | Phase::UnderWay(_) => None,
            Phase::Made => Some(Ok(())),
            Phase::Refused(error) | Phase::Failed(error) => Some(Err(error.clone())),
        }
    }

    /// Whether no end is being reported.
    pub(super) fn is_quiet(&self) -> bool {
        self.ends == 0
    }

    /// Whether an end may be reported, once, by a process that has not tried to claim the task.
    pub(super) fn may_end_unclaimed(&self, now: Moment) -> bool {
        matches!(self.phase, Phase::Open) && self.is_alone(now)
    }

    /// An end is going to be reported.
    pub(super) fn begin_end(&mut self) {
        self.ends += 1;
    }

    /// Its report is over, or was given up. If the task has not `ended` it may still have to be claimed: whether that is to be
    /// done beside the handler now.
    pub(super) fn finish_end(&mut self, ended: bool) -> bool {
        self.ends -= 1;
        if ended {
            self.phase = Phase::Made;
        }
        self.owed && self.ends == 0 && self.begin_beside()
    }

    /// The handler has returned, or was aborted.
    pub(super) fn finish(&mut self) {
        self.over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }
}

/// Whether a claim that failed so tells that nobody else had the task when it was asked for: it was answered, and for
/// another reason.
pub(super) fn leaves_alone(error: &Error) -> bool {
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

    const NOW: Moment = Moment {
        time: SystemTime::UNIX_EPOCH,
        connection: 1,
    };

    fn after(millis: u64) -> Moment {
        let time = NOW.time + Duration::from_millis(millis);
        Moment { time, ..NOW }
    }

    fn error(kind: ErrorKind) -> Result<(), Error> {
        Err(Error::new(kind, "x"))
    }

    fn kind(standing: &Standing) -> Option<ErrorKind> {
        standing.answer()?.err().map(|error| error.kind())
    }

    #[test]
    fn what_was_handed_over_long_ago_or_by_another_clock_is_claimed_first() {
        let standing = Standing::new(Some(after(10)));
        for (now, is_alone) in [(8, false), (9, true), (10, true), (1010, true), (1011, false)] {
            assert_eq!(standing.is_alone(after(now)), is_alone, "{now}");
            assert_eq!(standing.may_end_unclaimed(after(now)), is_alone, "{now}");
        }
        assert!(!Standing::new(None).is_alone(NOW));
    }

    #[test]
    fn what_others_may_have_been_given_is_claimed_first() {
        let mut standing = Standing::new(Some(NOW));
        standing.share();
        assert!(!standing.is_alone(NOW) && !standing.may_end_unclaimed(NOW));
    }

    #[test]
    fn what_came_on_another_connection_is_claimed_first() {
        let standing = Standing::new(Some(NOW));
        let reconnected = Moment { connection: 2, ..NOW };
        assert!(standing.is_alone(NOW) && !standing.is_alone(reconnected));
    }

    #[test]
    fn a_claim_is_sent_once_and_again_when_it_failed() {
        let mut standing = Standing::new(None);
        assert!(standing.begin(NOW).is_some());
        assert_eq!(standing.begin(NOW), None);
        assert!(standing.answer().is_none());
        standing.settle(error(ErrorKind::LimitExceeded), false);
        assert_eq!(kind(&standing), Some(ErrorKind::LimitExceeded));
        assert!(standing.begin(NOW).is_some());
        standing.settle(Ok(()), false);
        assert!(standing.answer().unwrap().is_ok());
        assert_eq!(standing.begin(NOW), None);
    }

    #[test]
    fn a_refused_claim_is_not_made_again() {
        let mut standing = Standing::new(Some(NOW));
        standing.begin(NOW);
        standing.settle(error(ErrorKind::Conflict), false);
        assert_eq!(standing.begin(NOW), None);
        assert_eq!(kind(&standing), Some(ErrorKind::Conflict));
        assert!(!standing.may_end_unclaimed(NOW));
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
            let mut standing = Standing::new(None);
            standing.begin(after(5000));
            standing.settle(error(kind), false);
            assert_eq!(standing.is_alone(after(6000)), is_alone, "{kind:?}");
            // An end claims anew all the same.
            assert!(!standing.may_end_unclaimed(after(5000)), "{kind:?}");
        }
    }

    #[test]
    fn a_claim_without_an_answer_is_remembered() {
        let mut standing = Standing::new(None);
        assert_eq!(standing.begin(NOW), Some(Due { in_doubt: false }));
        standing.settle(error(ErrorKind::DaemonUnavailable), true);
        assert_eq!(standing.begin(NOW), Some(Due { in_doubt: true }));
    }

    #[test]
    fn nothing_is_claimed_beside_an_end() {
        let mut standing = Standing::new(Some(NOW));
        standing.begin(NOW);
        standing.settle(error(ErrorKind::LimitExceeded), false);
        standing.begin_end();
        standing.begin_end();
        assert_eq!(standing.begin_quietly(NOW), None);
        standing.finish_end(false);
        assert_eq!(standing.begin_quietly(NOW), None);
        standing.finish_end(false);
        assert!(standing.is_quiet() && standing.begin_quietly(NOW).is_some());
    }

    #[test]
    fn a_claim_beside_the_handler_waits_for_what_comes_of_the_end() {
        for (ended, over) in [(false, false), (true, false), (false, true)] {
            let mut standing = Standing::new(Some(NOW));
            standing.begin_end();
            standing.begin_end();
            assert!(!standing.begin_beside());
            assert!(!standing.finish_end(false));
            if over {
                standing.finish();
            }
            assert_eq!(standing.finish_end(ended), !ended && !over);
            assert_eq!(standing.begin_beside(), !ended && !over);
            standing.begin_end();
            standing.finish();
            assert!(!standing.finish_end(false));
        }
    }

    #[test]
    fn no_claim_is_owed_twice() {
        let mut standing = Standing::new(Some(NOW));
        assert!(standing.begin_beside());
        standing.begin_end();
        assert!(!standing.finish_end(false));
    }

    #[test]
    fn a_task_that_has_ended_needs_no_claim() {
        let mut standing = Standing::new(Some(NOW));
        standing.begin_end();
        standing.begin(NOW);
        standing.finish_end(true);
        standing.settle(error(ErrorKind::Conflict), false);
        assert!(standing.answer().unwrap().is_ok());
        assert_eq!(standing.begin_quietly(NOW), None);
    }
}
