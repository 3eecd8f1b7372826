//! Reads what a program writes for people no faster than it can be of use: a program that writes without end must not take the
//! processor from others.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Most bytes in one [`WINDOW`]; what comes faster waits, and the program with it.
const MOST: usize = 256 << 10;

const WINDOW: Duration = Duration::from_millis(100);

/// How much was read lately.
#[derive(Debug)]
pub(crate) struct ReadPace {
    since: Instant,
    bytes: usize,
}

impl ReadPace {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            bytes: 0,
        }
    }

    /// So many bytes were read and dealt with. Waits where there were too many, and lets others run in any case.
    pub(crate) async fn after(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.since.elapsed() >= WINDOW {
            *self = Self {
                since: Instant::now(),
                bytes: 0,
            };
        } else if self.bytes > MOST {
            sleep_until(self.since + WINDOW).await;
            *self = Self::new();
        }
        tokio::task::consume_budget().await;
    }
}

/// How many warnings are logged of a kind that a program can cause without end: one a second, with the number of those that
/// were left out.
#[derive(Debug, Default)]
pub(crate) struct WarningRate {
    last: Option<Instant>,
    left_out: u64,
}

impl WarningRate {
    const PAUSE: Duration = Duration::from_secs(1);

    /// Whether the next one is logged; with how many were left out before it.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.last.is_some_and(|last| last.elapsed() < Self::PAUSE) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_too_fast_waits() {
        let (mut pace, began) = (ReadPace::new(), Instant::now());
        for _ in 0..20 {
            pace.after(MOST / 2 + 1).await;
        }
        assert!(began.elapsed() >= WINDOW * 9, "{:?}", began.elapsed());
        let began = Instant::now();
        for _ in 0..20 {
            tokio::time::advance(WINDOW).await;
            pace.after(100).await;
        }
        assert_eq!(began.elapsed(), WINDOW * 20);
    }

    #[tokio::test(start_paused = true)]
    async fn one_warning_a_second_is_logged() {
        let mut rate = WarningRate::default();
        assert_eq!((rate.next(), rate.next(), rate.next()), (Some(0), None, None));
        tokio::time::advance(WarningRate::PAUSE).await;
        assert_eq!((rate.next(), rate.next()), (Some(2), None));
    }
}
