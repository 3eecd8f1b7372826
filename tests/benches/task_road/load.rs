//! A slice of load: so many workers, each with one task after the other, for so long. What is under way at the
//! end is finished and not counted; neither is what ended while the slice was warming up.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use futures::future::join_all;

/// What a slice begins with and does not count: caches and windows warm up.
const LEAD: Duration = Duration::from_millis(100);

/// What a slice came to.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Tasks per second.
    pub(crate) rate: f64,
    /// Half of the tasks took no longer.
    pub(crate) p50: Duration,
    /// 99 of 100 tasks took no longer.
    pub(crate) p99: Duration,
    /// All tasks, also those that were not timed.
    pub(crate) all: usize,
}

impl Slice {
    pub(crate) fn p50_ms(&self) -> f64 {
        self.p50.as_secs_f64() * 1e3
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.p99.as_secs_f64() * 1e3
    }
}

/// Runs `once` by `workers` workers for about `length`.
pub(crate) async fn slice<F: Future<Output = ()>>(
    workers: usize,
    length: Duration,
    once: impl Fn() -> F,
) -> Slice {
    let begins = Instant::now() + LEAD;
    let ends = begins + length;
    let took = RefCell::new(Vec::new());
    let all = RefCell::new(0);
    let work = || async {
        loop {
            let started = Instant::now();
            if started >= ends {
                return;
            }
            once().await;
            let now = Instant::now();
            *all.borrow_mut() += 1;
            if now >= begins && now < ends {
                took.borrow_mut().push(now - started);
            }
        }
    };
    join_all((0..workers).map(|_| work())).await;
    let mut took = took.into_inner();
    took.sort_unstable();
    Slice {
        rate: took.len() as f64 / length.as_secs_f64(),
        p50: quantile(&took, 0.50),
        p99: quantile(&took, 0.99),
        all: all.into_inner(),
    }
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
