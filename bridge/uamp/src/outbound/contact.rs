//! Whether an agent outside still counts as reached, how long to wait before it is asked again, and whether it
//! misses a frame for good. Used by `delivery`.
//!
//! Invariant: only something new of the agent, or a stream that stood for a while, ends a row of failures; so a
//! stream that breaks each time is opened ever more rarely, and no longer than the patience. PURE.

use std::time::{Duration, Instant};

use agentanycast_limits::Backoff;

/// How long an agent may be out of reach that has not been given anything yet, and one that has.
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(10);
pub(super) const PATIENCE: Duration = Duration::from_mins(10);

/// The pause after a failure; it doubles up to the longest.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
const PAUSES: Backoff = Backoff::new(PAUSE, Duration::from_secs(30));

/// How long a stream has to stand so that its end is the first failure of a row: proxies cut streams that carry
/// signs of life alone after a minute or more.
const STANDING: Duration = Duration::from_secs(30);

/// How often a frame is asked for that an agent leaves out: with the pauses between, for 3.5 s.
const MOST_ASKED: u32 = 4;

/// The contact with one agent.
#[derive(Debug)]
pub(super) struct Contact {
    last: Instant,
    pauses: Backoff,
    /// The frame that is left out, and how often it was asked for.
    missing: Option<(u64, u32)>,
}

impl Contact {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last: now,
            pauses: PAUSES,
            missing: None,
        }
    }

    /// The agent took something, or said something new.
    pub(super) fn made(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// A stream that was opened at `opened` has ended early; its last bytes came at `heard`.
    pub(super) fn stream_ended(&mut self, opened: Instant, heard: Instant) {
        if heard.saturating_duration_since(opened) >= STANDING {
            self.last = heard;
            self.pauses.reset();
        }
    }

    /// A stream goes on behind this frame without it; whether it was asked for often enough.
    pub(super) fn is_missing_for_good(&mut self, seq: u64) -> bool {
        let asked = match self.missing {
            Some((known, asked)) if known == seq => asked + 1,
            _ => 1,
        };
        self.missing = Some((seq, asked));
        asked >= MOST_ASKED
    }

    /// Whether the agent may still be asked again.
    pub(super) fn may_pass(&self, patience: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < patience
    }

    /// How long to wait now.
    pub(super) fn pause(&mut self) -> Duration {
        self.pauses.next_wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a stream each time the pause is over, each of which stands for `stood`; when and how often it was tried
    /// until the end.
    fn tries(stood: Duration, until: Duration) -> (Duration, u32) {
        let begun = Instant::now();
        let (mut contact, mut now, mut count) = (Contact::new(begun), begun, 0);
        while contact.may_pass(PATIENCE, now) && now - begun < until {
            count += 1;
            let opened = now;
            now += stood;
            contact.stream_ended(opened, now);
            now += contact.pause();
        }
        (now - begun, count)
    }

    #[test]
    fn a_stream_that_breaks_each_time_is_opened_ever_more_rarely_and_then_no_more() {
        let (took, count) = tries(Duration::from_secs(1), PATIENCE * 10);
        assert!(took < PATIENCE + PAUSES.after(u32::MAX) * 2, "{took:?}");
        assert!(count < 30, "{count}");
    }

    #[test]
    fn a_stream_that_a_proxy_cuts_each_minute_is_gone_on_with() {
        let (took, _) = tries(Duration::from_mins(1), PATIENCE * 10);
        assert!(took >= PATIENCE * 10, "{took:?}");
    }

    #[test]
    fn a_silent_hour_in_one_stream_is_no_failure() {
        let begun = Instant::now();
        let mut contact = Contact::new(begun);
        let later = begun + Duration::from_hours(1);
        contact.stream_ended(begun, later);
        assert!(contact.may_pass(PATIENCE, later));
        assert_eq!(contact.pause(), PAUSE);
    }

    #[test]
    fn a_frame_that_is_left_out_is_asked_for_a_few_times() {
        let mut contact = Contact::new(Instant::now());
        assert!(!contact.is_missing_for_good(3));
        assert!(!contact.is_missing_for_good(3));
        assert!(!contact.is_missing_for_good(4), "another one");
        for _ in 0..2 {
            assert!(!contact.is_missing_for_good(4));
        }
        assert!(contact.is_missing_for_good(4));
        contact.made(Instant::now());
        assert!(!contact.is_missing_for_good(4));
    }
}
