//! What one registry is told of the local agent, and when.
//!
//! PURE: times come in as arguments. The rules: a change is told at once; a registration is renewed when a third of
//! its time is over, so that two renewals may get lost; one that the registry does not know (any more) is made anew; a
//! registry that cannot be reached is tried again after the [`WAITS`].

use std::{sync::Arc, time::Duration};

use agentanycast_limits::Backoff;
use agentanycast_proto::v1::RegisterSkillsRequest;

/// How long after a failure a registry is asked again. An agent can stay unknown for the longest of these waits
/// to a registry that is back.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// Renewals are not closer together than this, whatever a registry says of its time.
const MIN_RENEWAL: Duration = Duration::from_secs(1);
/// Renewals are not further apart than this: a registry that lost its table has the agent again by then.
const MAX_RENEWAL: Duration = Duration::from_mins(5);

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RegistryRequest {
    /// Who the agent is.
    Register(Arc<RegisterSkillsRequest>),
    /// That it still is.
    Renew,
    /// That it is no more.
    Unregister,
}

/// How the registry answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryAnswer {
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
pub(super) struct RegistrationState {
    /// What is to be registered; None: nothing.
    wanted: Option<Arc<RegisterSkillsRequest>>,
    /// What the registry has; None: nothing that is known.
    registered: Option<Arc<RegisterSkillsRequest>>,
    /// What was said last, and not answered yet: what the registry has then.
    in_flight: Option<(RegistryRequest, Option<Arc<RegisterSkillsRequest>>)>,
    /// It was refused as it is: only a change is worth another try before [`MAX_RENEWAL`].
    refused: Option<Arc<RegisterSkillsRequest>>,
    failures: u32,
    /// When to speak next without any change.
    due: Duration,
}

impl RegistrationState {
    /// The agent is this from now on.
    pub(super) fn want(&mut self, wanted: Option<Arc<RegisterSkillsRequest>>) {
        self.wanted = wanted;
    }

    /// What is to be said now; its answer comes to [`RegistrationState::on_answer`].
    pub(super) fn next(&mut self, now: Duration) -> Option<RegistryRequest> {
        if self.in_flight.is_some() {
            return None;
        }
        let is_changed = self.wanted != self.registered;
        let is_new = !self.is_refused();
        // A change does not wait, unless the registry is not there.
        if now < self.due && (self.failures > 0 || !is_changed || !is_new) {
            return None;
        }
        let say = match (&self.wanted, is_changed) {
            (Some(wanted), true) => RegistryRequest::Register(Arc::clone(wanted)),
            (Some(_), false) => RegistryRequest::Renew,
            (None, true) => RegistryRequest::Unregister,
            (None, false) => return None,
        };
        self.in_flight = Some((say.clone(), self.wanted.clone()));
        Some(say)
    }

    /// The registry answered what was said.
    pub(super) fn on_answer(&mut self, now: Duration, answer: RegistryAnswer) {
        let Some((say, said)) = self.in_flight.take() else {
            return;
        };
        match answer {
            RegistryAnswer::Done(holds) => {
                self.failures = 0;
                self.refused = None;
                self.registered = said;
                self.due = now + (holds / 3).clamp(MIN_RENEWAL, MAX_RENEWAL);
            }
            RegistryAnswer::Unknown if say == RegistryRequest::Unregister => self.registered = None,
            RegistryAnswer::Unknown => {
                self.registered = None;
                self.due = now;
                // One that never knows anybody is not asked without end.
                if say != RegistryRequest::Renew {
                    self.fail(now);
                }
            }
            RegistryAnswer::Failed => {
                // Whatever it had may be over by then.
                if say != RegistryRequest::Unregister {
                    self.registered = None;
                }
                self.fail(now);
            }
            RegistryAnswer::Refused => {
                self.failures = 0;
                self.registered = None;
                self.refused = said;
                self.due = now + MAX_RENEWAL;
            }
        }
    }

    /// When [`RegistrationState::next`] has something to say without any change; None: not before one.
    pub(super) fn due(&self) -> Option<Duration> {
        let nothing = self.wanted.is_none() && self.registered.is_none();
        (self.in_flight.is_none() && !nothing).then_some(self.due)
    }

    /// Whether the registry has, as far as is known, what it should have.
    pub(super) fn is_settled(&self) -> bool {
        self.in_flight.is_none() && (self.wanted == self.registered || self.failures > 0 || self.is_refused())
    }

    /// Whether the registry has the agent as it is, as far as is known.
    pub(super) fn is_registered(&self) -> bool {
        self.wanted.is_some() && self.wanted == self.registered
    }

    /// Whether the agent, as it is, was refused.
    fn is_refused(&self) -> bool {
        self.wanted.is_some() && self.wanted == self.refused
    }

    fn fail(&mut self, now: Duration) {
        self.due = now + WAITS.after(self.failures);
        self.failures = self.failures.saturating_add(1);
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
        let mut registration = RegistrationState::default();
        assert_eq!((registration.next(at(0)), registration.due()), (None, None));
        registration.want(Some(agent("a")));
        assert_eq!(
            registration.next(at(0)),
            Some(RegistryRequest::Register(agent("a")))
        );
        assert_eq!(registration.next(at(0)), None, "one at a time");
        registration.on_answer(at(0), RegistryAnswer::Done(at(30)));
        assert_eq!(
            (registration.next(at(9)), registration.due()),
            (None, Some(at(10)))
        );
        assert_eq!(registration.next(at(10)), Some(RegistryRequest::Renew));
        registration.want(Some(agent("b")));
        registration.on_answer(at(10), RegistryAnswer::Done(at(30)));
        assert!(!registration.is_settled(), "what was renewed is the old one");
        assert_eq!(
            registration.next(at(10)),
            Some(RegistryRequest::Register(agent("b")))
        );
        registration.on_answer(at(10), RegistryAnswer::Done(at(30)));
        assert!(registration.is_settled());
        registration.want(None);
        assert_eq!(registration.next(at(11)), Some(RegistryRequest::Unregister));
        registration.on_answer(at(11), RegistryAnswer::Done(at(0)));
        assert_eq!((registration.next(at(1000)), registration.due()), (None, None));
    }

    #[test]
    fn a_registry_that_forgot_is_told_at_once() {
        let mut registration = RegistrationState::default();
        registration.want(Some(agent("a")));
        registration.next(at(0));
        registration.on_answer(at(0), RegistryAnswer::Done(at(30)));
        registration.next(at(10));
        registration.on_answer(at(10), RegistryAnswer::Unknown);
        assert_eq!(
            registration.next(at(10)),
            Some(RegistryRequest::Register(agent("a")))
        );
    }

    #[test]
    fn a_registry_that_is_away_is_tried_less_and_less() {
        let mut registration = RegistrationState::default();
        registration.want(Some(agent("a")));
        let mut now = at(0);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            assert!(registration.next(now).is_some());
            registration.on_answer(now, RegistryAnswer::Failed);
            registration.want(Some(agent("changed meanwhile")));
            assert_eq!(registration.due(), Some(now + at(wait)));
            assert_eq!(registration.next(now + at(wait).mul_f64(0.99)), None);
            now += at(wait);
        }
        registration.next(now);
        registration.on_answer(now, RegistryAnswer::Done(at(30)));
        assert_eq!(registration.due(), Some(now + at(10)));
    }

    #[test]
    fn what_is_refused_waits_for_a_change() {
        let mut registration = RegistrationState::default();
        registration.want(Some(agent("too much")));
        registration.next(at(0));
        registration.on_answer(at(0), RegistryAnswer::Refused);
        assert!(registration.is_settled());
        assert_eq!(registration.next(at(299)), None);
        registration.want(Some(agent("less")));
        assert_eq!(
            registration.next(at(299)),
            Some(RegistryRequest::Register(agent("less")))
        );
    }

    #[derive(Clone, Debug)]
    enum RegistrationStep {
        Want(Option<u8>),
        Wait(u64),
        Lose,
        Up(bool),
    }

    fn step() -> impl Strategy<Value = RegistrationStep> {
        prop_oneof![
            prop::option::of(0..3_u8).prop_map(RegistrationStep::Want),
            (1..40_u64).prop_map(RegistrationStep::Wait),
            Just(RegistrationStep::Lose),
            any::<bool>().prop_map(RegistrationStep::Up),
        ]
    }

    proptest! {
        /// Whatever happens to the registry: a minute after it is up for good it has what it should, and keeps it.
        #[test]
        fn the_registry_comes_to_have_it(steps in prop::collection::vec(step(), 0..40)) {
            let mut registration = RegistrationState::default();
            // The registry: what it has, until when.
            let mut table: Option<(Arc<RegisterSkillsRequest>, Duration)> = None;
            let (mut up, mut wanted, mut now) = (true, None, at(0));
            let run = |registration: &mut RegistrationState,
                           table: &mut Option<(Arc<RegisterSkillsRequest>, Duration)>,
                           up: bool,
                           now: Duration| {
                if table.as_ref().is_some_and(|(_, until)| *until <= now) {
                    *table = None;
                }
                while let Some(say) = registration.next(now) {
                    let answer = match (up, say, table.as_mut()) {
                        (false, ..) => RegistryAnswer::Failed,
                        (true, RegistryRequest::Register(agent), _) => {
                            *table = Some((agent, now + at(30)));
                            RegistryAnswer::Done(at(30))
                        }
                        (true, RegistryRequest::Renew, Some((_, until))) => {
                            *until = now + at(30);
                            RegistryAnswer::Done(at(30))
                        }
                        (true, RegistryRequest::Renew, None) => RegistryAnswer::Unknown,
                        (true, RegistryRequest::Unregister, _) => {
                            *table = None;
                            RegistryAnswer::Done(at(0))
                        }
                    };
                    registration.on_answer(now, answer);
                }
            };
            for step in steps {
                match step {
                    RegistrationStep::Want(name) => {
                        wanted = name.map(|name| agent(&name.to_string()));
                        registration.want(wanted.clone());
                    }
                    RegistrationStep::Wait(seconds) => {
                        for _ in 0..seconds {
                            now += at(1);
                            run(&mut registration, &mut table, up, now);
                        }
                    }
                    RegistrationStep::Lose => table = None,
                    RegistrationStep::Up(is_up) => up = is_up,
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
