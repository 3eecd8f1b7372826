//! A slice of load: so many workers, each with one task after the other, for so long. What ends while the slice
//! warms up is not counted, and neither is what is under way at its end; the slice is longer than asked for
//! when the road is so slow that hardly anything would be counted.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use futures::future::join_all;

/// What a slice begins with and does not count, at least: caches and windows warm up.
const LEAD: Duration = Duration::from_millis(100);

/// Longer than any slice takes on a road that moves.
const LIMIT: Duration = Duration::from_mins(3);

/// What a slice came to.
#[derive(Debug)]
pub(crate) struct LoadSlice {
    /// Tasks per second.
    pub(crate) rate: f64,
    /// Half of the tasks took no longer.
    p50: Duration,
    /// 99 of 100 tasks took no longer.
    p99: Duration,
    /// All tasks, also those that were not counted.
    pub(crate) all: usize,
}

impl LoadSlice {
    pub(crate) fn p50_ms(&self) -> f64 {
        self.p50.as_secs_f64() * 1e3
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.p99.as_secs_f64() * 1e3
    }
}

/// What has been counted so far.
struct SliceCount {
    /// Tasks to see before counting begins, and to count before it ends: half of what is in flight at once.
    least: usize,
    length: Duration,
    started: Instant,
    /// From when on tasks are counted, and until when.
    began: Option<Instant>,
    ended: Option<Instant>,
    took: Vec<Duration>,
    all: usize,
}

impl SliceCount {
    /// A task that took so long is over; whether there is to be another one.
    fn task(&mut self, took: Duration, now: Instant) -> bool {
        self.all += 1;
        if self.ended.is_some() {
            return false;
        }
        let Some(began) = self.began else {
            let warm = now >= self.started + LEAD && self.all >= self.least;
            self.began = warm.then_some(now);
            return true;
        };
        self.took.push(took);
        if now >= began + self.length && self.took.len() >= self.least {
            self.ended = Some(now);
        }
        self.ended.is_none()
    }

    fn run_slice(mut self) -> LoadSlice {
        self.took.sort_unstable();
        let counted = self.began.zip(self.ended).map(|(began, ended)| ended - began);
        let counted = counted.expect("the workers went on until the end");
        LoadSlice {
            rate: self.took.len() as f64 / counted.as_secs_f64(),
            p50: quantile(&self.took, 0.50),
            p99: quantile(&self.took, 0.99),
            all: self.all,
        }
    }
}

/// Runs `once` by `workers` workers for about `length`.
///
/// # Panics
/// When it does not come to its end.
pub(crate) async fn slice<F: Future<Output = ()>>(
    workers: usize,
    length: Duration,
    once: impl Fn() -> F,
) -> LoadSlice {
    let count = RefCell::new(SliceCount {
        least: workers.div_ceil(2),
        length,
        started: Instant::now(),
        began: None,
        ended: None,
        took: Vec::new(),
        all: 0,
    });
    let work = || async {
        loop {
            let started = Instant::now();
            once().await;
            let now = Instant::now();
            if !count.borrow_mut().task(now - started, now) {
                return;
            }
        }
    };
    let all = join_all((0..workers).map(|_| work()));
    let ended = tokio::time::timeout(LIMIT, all).await;
    ended.unwrap_or_else(|_| panic!("the road stands: {} tasks in {LIMIT:?}", count.borrow().all));
    count.into_inner().run_slice()
}

/// The value that this share of the sorted ones does not exceed; zero of none.
pub(crate) fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The middle one; the mean of both when there are two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
