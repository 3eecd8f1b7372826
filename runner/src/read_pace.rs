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

/// Bounds what a program can write into the log without end: so many lines a second, and how many were left out.
#[derive(Debug)]
pub(crate) struct LogRate {
    most: u32,
    since: Option<Instant>,
    count: u32,
    left_out: u64,
}

impl LogRate {
    const WINDOW: Duration = Duration::from_secs(1);

    /// At most so many lines a second.
    pub(crate) fn new(most: u32) -> Self {
        Self {
            most,
            since: None,
            count: 0,
            left_out: 0,
        }
    }

    /// Whether the next line is logged; with how many were left out before it.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.since.is_none_or(|since| since.elapsed() >= Self::WINDOW) {
            (self.since, self.count) = (Some(Instant::now()), 0);
        }
        if self.count >= self.most {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
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
        let mut rate = LogRate::new(1);
        assert_eq!((rate.next(), rate.next(), rate.next()), (Some(0), None, None));
        tokio::time::advance(LogRate::WINDOW).await;
        assert_eq!((rate.next(), rate.next()), (Some(2), None));
    }
}
