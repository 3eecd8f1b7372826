//! Waiting for the answers to one question: of all registries, and of the DHT beside them.
//!
//! It asks nobody: the questions are futures. The one rule: a registry's answer with somebody in it is held up by
//! [`SLOW_SOURCE_WAIT`] at most, whatever slower registries and the DHT do.

use std::{pin::pin, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long an answer of a registry waits for slower registries and for the DHT.
pub(super) const SLOW_SOURCE_WAIT: Duration = Duration::from_millis(300);
/// How long the DHT is asked when no registry answers.
pub(super) const DHT_ONLY_WAIT: Duration = Duration::from_secs(3);

/// Who is asked.
pub(super) trait AnswerSource {
    /// What people call it.
    fn name(&self) -> &str;
    /// Whether it did not answer the last time: nobody waits for it then.
    fn is_late(&self) -> bool;
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) struct FanInResult<T> {
    /// Of registries, in the order in which they came.
    pub(super) answers: Vec<Vec<T>>,
    /// Of the DHT, as far as it had come.
    pub(super) in_dht: Vec<T>,
    /// Who did not answer, and why.
    pub(super) failures: Vec<String>,
}

/// The answers of those that are worth waiting for, and of the DHT.
pub(super) async fn gather<A: AnswerSource, T>(
    questions: impl IntoIterator<Item = (A, impl Future<Output = Result<Vec<T>, String>>)>,
    dht: impl Future<Output = Vec<T>>,
) -> FanInResult<T> {
    let mut left = Vec::new();
    let mut waiting = FuturesUnordered::new();
    for (place, (asked, question)) in questions.into_iter().enumerate() {
        left.push((place, asked));
        waiting.push(async move { (place, question.await) });
    }
    let mut dht = pin!(dht);
    let (mut in_dht, mut deadline) = (None, None);
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    while !waiting.is_empty() {
        tokio::select! {
            Some((place, answer)) = waiting.next() => {
                let asked = left.extract_if(.., |(other, _)| *other == place).next();
                match answer {
                    Ok(found) => {
                        // One that is slow, or away, holds nobody up for long.
                        let is_enough = !found.is_empty() || left.iter().all(|(_, other)| other.is_late());
                        if deadline.is_none() && is_enough {
                            deadline = Some(Instant::now() + SLOW_SOURCE_WAIT);
                        }
                        answers.push(found);
                    }
                    Err(failure) => {
                        let name = asked.as_ref().map(|(_, asked)| asked.name()).unwrap_or_default();
                        failures.push(format!("{name}: {failure}"));
                    }
                }
            }
            found = &mut dht, if in_dht.is_none() => in_dht = Some(found),
            () = at(deadline) => {
                let late = left.iter().map(|(_, asked)| format!("{}: slower than others", asked.name()));
                failures.extend(late);
                break;
            }
        }
    }
    let in_dht = if let Some(found) = in_dht {
        found
    } else {
        let wait = if answers.is_empty() {
            DHT_ONLY_WAIT
        } else {
            SLOW_SOURCE_WAIT
        };
        let until = deadline.unwrap_or_else(|| Instant::now() + wait);
        timeout_at(until, dht).await.unwrap_or_default()
    };
    FanInResult {
        answers,
        in_dht,
        failures,
    }
}

/// Ends then; without a time never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::sleep;

    use super::*;

    /// What one registry does.
    #[derive(Clone, Debug)]
    struct FakeRegistry {
        after: Duration,
        /// None: it fails.
        says: Option<Vec<u32>>,
        late: bool,
    }

    impl AnswerSource for &FakeRegistry {
        fn name(&self) -> &'static str {
            "registry"
        }

        fn is_late(&self) -> bool {
            self.late
        }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn registry(after: u64, says: Option<&[u32]>) -> FakeRegistry {
        FakeRegistry {
            after: ms(after),
            says: says.map(<[u32]>::to_vec),
            late: false,
        }
    }

    /// What is gathered, and after which time, on a clock that only these waits move.
    fn gathered(
        registries: &[FakeRegistry],
        dht_after: u64,
        dht_says: &[u32],
    ) -> (FanInResult<u32>, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let begun = Instant::now();
            let questions = registries.iter().map(|registry| {
                (registry, async move {
                    sleep(registry.after).await;
                    registry.says.clone().ok_or_else(|| "down".to_owned())
                })
            });
            let dht = async {
                sleep(ms(dht_after)).await;
                dht_says.to_vec()
            };
            let gathered = gather(questions, dht).await;
            (gathered, begun.elapsed())
        })
    }

    #[test]
    fn the_dht_holds_a_registrys_answer_up_for_300_ms_at_most() {
        let (all, after) = gathered(&[registry(50, Some(&[1]))], 60_000, &[2]);
        assert_eq!(SLOW_SOURCE_WAIT, ms(300), "the wire contract's figure");
        assert_eq!(after, ms(50) + SLOW_SOURCE_WAIT);
        assert_eq!((all.answers, all.in_dht), (vec![vec![1]], vec![]));
    }

    #[test]
    fn a_dht_that_answers_in_time_is_heard_at_once() {
        let (all, after) = gathered(&[registry(50, Some(&[1]))], 100, &[2]);
        assert_eq!((all.in_dht, after), (vec![2], ms(100)));
        let (all, after) = gathered(&[registry(50, Some(&[1]))], 10, &[2]);
        assert_eq!((all.in_dht, after), (vec![2], ms(50)));
    }

    #[test]
    fn a_slow_registry_and_the_dht_share_the_wait() {
        let registries = [registry(50, Some(&[1])), registry(300, Some(&[2]))];
        let (all, after) = gathered(&registries, 60_000, &[]);
        assert_eq!(
            (all.answers, after),
            (vec![vec![1], vec![2]], ms(50) + SLOW_SOURCE_WAIT)
        );
        let (all, after) = gathered(&[registries[0].clone(), registry(900, Some(&[2]))], 60_000, &[]);
        assert_eq!((all.answers, after), (vec![vec![1]], ms(50) + SLOW_SOURCE_WAIT));
        assert_eq!(all.failures, ["registry: slower than others"]);
    }

    #[test]
    fn who_knows_nobody_waits_for_others_unless_they_are_late() {
        let empty = registry(50, Some(&[]));
        let (all, _) = gathered(&[empty.clone(), registry(900, Some(&[2]))], 0, &[]);
        assert_eq!(all.answers, [vec![], vec![2]]);
        let late = FakeRegistry {
            late: true,
            ..registry(900, Some(&[2]))
        };
        let (all, after) = gathered(&[empty, late], 0, &[]);
        assert_eq!((all.answers, after), (vec![vec![]], ms(50) + SLOW_SOURCE_WAIT));
    }

    #[test]
    fn without_a_registry_the_dht_has_longer() {
        let (all, after) = gathered(&[registry(20, None)], 2_000, &[3]);
        assert_eq!((all.in_dht, after), (vec![3], ms(2_000)));
        assert_eq!(all.failures, ["registry: down"]);
        let (all, after) = gathered(&[], 60_000, &[3]);
        assert_eq!((all.in_dht, after), (vec![], DHT_ONLY_WAIT));
    }

    fn any_registry() -> impl Strategy<Value = FakeRegistry> {
        let says = prop::option::of(prop::collection::vec(0..9_u32, 0..3));
        (0..2_000_u64, says, any::<bool>()).prop_map(|(after, says, late)| FakeRegistry {
            after: ms(after),
            says,
            late,
        })
    }

    proptest! {
        /// Whatever the others do, the first answer with somebody in it is given out in time, with all that has come.
        #[test]
        fn nobody_holds_an_answer_up(
            registries in prop::collection::vec(any_registry(), 0..5),
            dht_after in 0..5_000_u64,
        ) {
            let (all, after) = gathered(&registries, dht_after, &[7]);
            let somebody = |registry: &&FakeRegistry| registry.says.as_ref().is_some_and(|says| !says.is_empty());
            if let Some(first) = registries.iter().filter(somebody).map(|registry| registry.after).min() {
                prop_assert!(after <= first + SLOW_SOURCE_WAIT, "{after:?}");
            }
            let slowest = registries.iter().map(|registry| registry.after).max().unwrap_or_default();
            prop_assert!(after <= slowest + DHT_ONLY_WAIT, "{after:?}");
            for registry in registries.iter().filter(|registry| registry.after < after) {
                if let Some(says) = &registry.says {
                    prop_assert!(all.answers.contains(says));
                }
            }
            if ms(dht_after) < after {
                prop_assert_eq!(all.in_dht, [7]);
            }
        }
    }
}
