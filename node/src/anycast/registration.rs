//! What one registry is told of the local agent, and when.
//!
//! PURE: times come in as arguments. The rules: a change is told at once; a registration is renewed when a third of
//! its time is over, so that two renewals may get lost; one that the registry does not know (any more) is made anew; a
//! registry that cannot be reached is tried again after [`FIRST_WAIT`], twice as long each time up to [`LONGEST_WAIT`].

use std::{sync::Arc, time::Duration};

use agentanycast_proto::v1::RegisterSkillsRequest;

/// How long after the first failure a registry is asked again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait, which is how long an agent can stay unknown to a registry that is back.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Renewals are not closer together than this, whatever a registry says of its time.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);
/// Renewals are not further apart than this: a registry that lost its table has the agent again by then.
const LONGEST_RENEWAL: Duration = Duration::from_mins(5);

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Say {
    /// Who the agent is.
    Register(Arc<RegisterSkillsRequest>),
    /// That it still is.
    Renew,
    /// That it is no more.
    Unregister,
}

/// How the registry answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done, and holds for so long.
    Done(Duration),
    /// The registry does not know the agent.
    Unknown,
    /// It was not reached, or cannot do it now.
    Failed,
    /// It will not do it, however often it is asked.
    Refused,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Registration {
    /// What is to be registered; None: nothing.
    wanted: Option<Arc<RegisterSkillsRequest>>,
    /// What the registry has; None: nothing that is known.
    told: Option<Arc<RegisterSkillsRequest>>,
    /// What was said last, and not answered yet: what the registry has then.
    saying: Option<(Say, Option<Arc<RegisterSkillsRequest>>)>,
    /// It was refused as it is: only a change is worth another try before [`LONGEST_RENEWAL`].
    refused: Option<Arc<RegisterSkillsRequest>>,
    failures: u32,
    /// When to speak next without any change.
    due: Duration,
}

impl Registration {
    /// The agent is this from now on.
    pub(super) fn want(&mut self, wanted: Option<Arc<RegisterSkillsRequest>>) {
        self.wanted = wanted;
    }

    /// What is to be said now; its answer comes to [`Registration::answered`].
    pub(super) fn next(&mut self, now: Duration) -> Option<Say> {
        if self.saying.is_some() {
            return None;
        }
        let is_changed = self.wanted != self.told;
        let is_new = !self.is_refused();
        // A change does not wait, unless the registry is not there.
        if now < self.due && (self.failures > 0 || !is_changed || !is_new) {
            return None;
        }
        let say = match (&self.wanted, is_changed) {
            (Some(wanted), true) => Say::Register(Arc::clone(wanted)),
            (Some(_), false) => Say::Renew,
            (None, true) => Say::Unregister,
            (None, false) => return None,
        };
        self.saying = Some((say.clone(), self.wanted.clone()));
        Some(say)
    }

    /// The registry answered what was said.
    pub(super) fn answered(&mut self, now: Duration, answer: Answer) {
        let Some((say, said)) = self.saying.take() else {
            return;
        };
        match answer {
            Answer::Done(holds) => {
                self.failures = 0;
                self.refused = None;
                self.told = said;
                self.due = now + (holds / 3).clamp(SHORTEST_RENEWAL, LONGEST_RENEWAL);
            }
            Answer::Unknown if say == Say::Unregister => self.told = None,
            Answer::Unknown => {
                self.told = None;
                self.due = now;
                // One that never knows anybody is not asked without end.
                if say != Say::Renew {
                    self.fail(now);
                }
            }
            Answer::Failed => {
                // Whatever it had may be over by then.
                if say != Say::Unregister {
                    self.told = None;
                }
                self.fail(now);
            }
            Answer::Refused => {
                self.failures = 0;
                self.told = None;
                self.refused = said;
                self.due = now + LONGEST_RENEWAL;
            }
        }
    }

    /// When [`Registration::next`] has something to say without any change; None: not before one.
    pub(super) fn due(&self) -> Option<Duration> {
        let nothing = self.wanted.is_none() && self.told.is_none();
        (self.saying.is_none() && !nothing).then_some(self.due)
    }

    /// Whether the registry has, as far as is known, what it should have.
    pub(super) fn is_settled(&self) -> bool {
        self.saying.is_none() && (self.wanted == self.told || self.failures > 0 || self.is_refused())
    }

    /// Whether the agent, as it is, was refused.
    fn is_refused(&self) -> bool {
        self.wanted.is_some() && self.wanted == self.refused
    }

    fn fail(&mut self, now: Duration) {
        let wait = FIRST_WAIT
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        self.due = now + wait;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent(name: &str) -> Arc<RegisterSkillsRequest> {
        Arc::new(RegisterSkillsRequest {
            agent_name: name.into(),
            ..RegisterSkillsRequest::default()
        })
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_told_renewed_changed_and_taken_back() {
        let mut registration = Registration::default();
        assert_eq!((registration.next(at(0)), registration.due()), (None, None));
        registration.want(Some(agent("a")));
        assert_eq!(registration.next(at(0)), Some(Say::Register(agent("a"))));
        assert_eq!(registration.next(at(0)), None, "one at a time");
        registration.answered(at(0), Answer::Done(at(30)));
        assert_eq!(
            (registration.next(at(9)), registration.due()),
            (None, Some(at(10)))
        );
        assert_eq!(registration.next(at(10)), Some(Say::Renew));
        registration.want(Some(agent("b")));
        registration.answered(at(10), Answer::Done(at(30)));
        assert!(!registration.is_settled(), "what was renewed is the old one");
        assert_eq!(registration.next(at(10)), Some(Say::Register(agent("b"))));
        registration.answered(at(10), Answer::Done(at(30)));
        assert!(registration.is_settled());
        registration.want(None);
        assert_eq!(registration.next(at(11)), Some(Say::Unregister));
        registration.answered(at(11), Answer::Done(at(0)));
        assert_eq!((registration.next(at(1000)), registration.due()), (None, None));
    }

    #[test]
    fn a_registry_that_forgot_is_told_at_once() {
        let mut registration = Registration::default();
        registration.want(Some(agent("a")));
        registration.next(at(0));
        registration.answered(at(0), Answer::Done(at(30)));
        registration.next(at(10));
        registration.answered(at(10), Answer::Unknown);
        assert_eq!(registration.next(at(10)), Some(Say::Register(agent("a"))));
    }

    #[test]
    fn a_registry_that_is_away_is_tried_less_and_less() {
        let mut registration = Registration::default();
        registration.want(Some(agent("a")));
        let mut now = at(0);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert!(registration.next(now).is_some());
            registration.answered(now, Answer::Failed);
            registration.want(Some(agent("changed meanwhile")));
            assert_eq!(registration.due(), Some(now + at(wait)));
            assert_eq!(registration.next(now + at(wait).mul_f64(0.99)), None);
            now += at(wait);
        }
        registration.next(now);
        registration.answered(now, Answer::Done(at(30)));
        assert_eq!(registration.due(), Some(now + at(10)));
    }

    #[test]
    fn what_is_refused_waits_for_a_change() {
        let mut registration = Registration::default();
        registration.want(Some(agent("too much")));
        registration.next(at(0));
        registration.answered(at(0), Answer::Refused);
        assert!(registration.is_settled());
        assert_eq!(registration.next(at(299)), None);
        registration.want(Some(agent("less")));
        assert_eq!(registration.next(at(299)), Some(Say::Register(agent("less"))));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Want(Option<u8>),
        Wait(u64),
        Lose,
        Up(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::option::of(0..3_u8).prop_map(Step::Want),
            (1..40_u64).prop_map(Step::Wait),
            Just(Step::Lose),
            any::<bool>().prop_map(Step::Up),
        ]
    }

    proptest! {
        /// Whatever happens to the registry: a minute after it is up for good it has what it should, and keeps it.
        #[test]
        fn the_registry_comes_to_have_it(steps in prop::collection::vec(step(), 0..40)) {
            let mut registration = Registration::default();
            // The registry: what it has, until when.
            let mut table: Option<(Arc<RegisterSkillsRequest>, Duration)> = None;
            let (mut up, mut wanted, mut now) = (true, None, at(0));
            let run = |registration: &mut Registration,
                           table: &mut Option<(Arc<RegisterSkillsRequest>, Duration)>,
                           up: bool,
                           now: Duration| {
                if table.as_ref().is_some_and(|(_, until)| *until <= now) {
                    *table = None;
                }
                while let Some(say) = registration.next(now) {
                    let answer = match (up, say, table.as_mut()) {
                        (false, ..) => Answer::Failed,
                        (true, Say::Register(agent), _) => {
                            *table = Some((agent, now + at(30)));
                            Answer::Done(at(30))
                        }
                        (true, Say::Renew, Some((_, until))) => {
                            *until = now + at(30);
                            Answer::Done(at(30))
                        }
                        (true, Say::Renew, None) => Answer::Unknown,
                        (true, Say::Unregister, _) => {
                            *table = None;
                            Answer::Done(at(0))
                        }
                    };
                    registration.answered(now, answer);
                }
            };
            for step in steps {
                match step {
                    Step::Want(name) => {
                        wanted = name.map(|name| agent(&name.to_string()));
                        registration.want(wanted.clone());
                    }
                    Step::Wait(seconds) => {
                        for _ in 0..seconds {
                            now += at(1);
                            run(&mut registration, &mut table, up, now);
                        }
                    }
                    Step::Lose => table = None,
                    Step::Up(is_up) => up = is_up,
                }
                run(&mut registration, &mut table, up, now);
            }
            for second in 0..120 {
                now += at(1);
                run(&mut registration, &mut table, true, now);
                if second > 60 {
                    prop_assert_eq!(table.as_ref().map(|(agent, _)| agent), wanted.as_ref());
                }
            }
        }
    }
}
