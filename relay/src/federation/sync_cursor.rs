//! How far one relay has been heard and told, and what it is asked next.
//!
//! PURE. The one rule: a cursor moves with an answer only, and counts only in the life of the relay that gave it.

use crate::clock::Nanos;

/// Records in a page.
pub const PAGE: usize = 1000;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct SyncCursor {
    /// How far it was pushed to, by our count.
    pub pushed: u64,
    /// The life of the relay that `pulled` belongs to; 0 for one that does not tell, or has not yet.
    epoch: u64,
    /// How far it was pulled, by its count.
    pulled: Nanos,
    /// Everything of this life was pulled once.
    is_complete: bool,
    /// Records that are asked for at a time.
    most: usize,
}

impl Default for SyncCursor {
    fn default() -> Self {
        Self {
            pushed: 0,
            epoch: 0,
            pulled: 0,
            is_complete: false,
            most: PAGE,
        }
    }
}

/// What a relay is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// For what has changed after this.
    pub since: Nanos,
    /// The life that `since` belongs to; 0 for none.
    pub epoch: u64,
    /// For this many records at most.
    pub most: usize,
    /// Also for what the asker has told itself, which it may have lost.
    pub everything: bool,
}

/// What an answer is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// Nothing: it goes on from a cursor that means nothing any more. Ask again.
    Stale,
    /// Its records count, and there are more.
    More,
    /// Its records count, and they are all for now.
    Last,
}

impl SyncCursor {
    /// What to ask next.
    pub fn next_request(&self) -> PageRequest {
        PageRequest {
            since: self.pulled,
            epoch: self.epoch,
            most: self.most,
            // On every page: what we told it in another life of ours, whoever made it, stands there still, and outdoes
            // what we say now if clocks were set back since.
            everything: !self.is_complete,
        }
    }

    /// A page came, of that life of the relay, with that many records up to a cursor.
    pub fn on_page(&mut self, epoch: u64, count: usize, cursor: Option<Nanos>, more: bool) -> PageOutcome {
        if epoch != self.epoch {
            // It was started anew: it may have lost what we told it, and we what it told us.
            let anew = self.pulled > 0;
            *self = Self {
                epoch,
                most: self.most,
                ..Self::default()
            };
            if anew {
                return PageOutcome::Stale;
            }
        }
        let before = self.pulled;
        self.pulled = cursor.unwrap_or(before);
        // Deployed relays do not say that there is more.
        if more || (epoch == 0 && count >= self.most && self.pulled > before) {
            return PageOutcome::More;
        }
        self.is_complete = true;
        self.most = (self.most * 2).min(PAGE);
        PageOutcome::Last
    }

    /// A page was too large to be read; whether there are smaller ones to ask for.
    pub fn shrink_page(&mut self) -> bool {
        let is_least = self.most == 1;
        self.most = (self.most / 2).max(1);
        !is_least
    }
}

impl PageRequest {
    /// As a relay in this life of its own takes it.
    #[must_use]
    pub fn in_epoch(self, epoch: u64) -> Self {
        // A cursor of another life says nothing of this one. Deployed relays do not say which life they mean.
        let since = if self.epoch != 0 && self.epoch != epoch {
            0
        } else {
            self.since
        };
        Self {
            since,
            // So relays ask that do not know of `everything`.
            everything: self.everything || since == 0,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_out_until_everything_was_told_once() {
        let mut progress = SyncCursor::default();
        assert_eq!(progress.on_page(7, 10, Some(5), true), PageOutcome::More);
        let second = progress.next_request().in_epoch(7);
        assert_eq!((second.since, second.everything), (5, true));
        assert_eq!(progress.on_page(7, 10, Some(9), false), PageOutcome::Last);
        assert!(!progress.next_request().in_epoch(7).everything);
        // And when it was started anew.
        assert_eq!(progress.next_request().in_epoch(8).since, 0);
        progress.pushed = 3;
        assert_eq!(progress.on_page(8, 10, Some(5), true), PageOutcome::Stale);
        assert_eq!(progress.pushed, 0);
        let anew = progress.next_request();
        assert_eq!((anew.since, anew.epoch, anew.everything), (0, 8, true));
    }

    #[test]
    fn a_deployed_relay_has_more_behind_a_full_page() {
        let mut progress = SyncCursor::default();
        assert_eq!(progress.on_page(0, PAGE, Some(5), false), PageOutcome::More);
        assert_eq!(progress.on_page(0, PAGE, Some(5), false), PageOutcome::Last);
        assert_eq!(progress.on_page(0, PAGE - 1, Some(8), false), PageOutcome::Last);
        assert_eq!(progress.on_page(0, 0, None, false), PageOutcome::Last);
        assert_eq!(progress.next_request().since, 8);
    }

    #[test]
    fn pages_that_are_too_large_are_halved_and_grow_again() {
        let mut progress = SyncCursor::default();
        let mut asked = vec![progress.next_request().most];
        while progress.shrink_page() {
            asked.push(progress.next_request().most);
        }
        assert_eq!(asked, [1000, 500, 250, 125, 62, 31, 15, 7, 3, 1]);
        for (more, most) in [(true, 1), (false, 2), (false, 4), (true, 4)] {
            progress.on_page(1, 1, None, more);
            assert_eq!(progress.next_request().most, most);
        }
        for _ in 0..20 {
            progress.on_page(1, 1, None, false);
        }
        assert_eq!(progress.next_request().most, PAGE);
    }
}
