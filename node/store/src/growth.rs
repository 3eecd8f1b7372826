//! PURE: when a database is written anew.
//!
//! sled never gives room back: a database whose content has come and gone keeps its size. So one that takes many times its
//! live data is copied, and the copy takes its place.

/// What is known of a database's sizes, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseGrowth {
    /// Databases up to this size are not rewritten.
    small: u64,
    /// Bytes on disk per byte of live data before a database is rewritten.
    max_size_per_live: u64,
    /// What it took when it was rewritten last, or would have been.
    rewritten: u64,
    /// Its live data when they were counted last.
    live: u64,
}

impl DatabaseGrowth {
    /// Of a database that was never rewritten.
    pub fn new(small: u64, max_size_per_live: u64) -> Self {
        Self {
            small,
            max_size_per_live,
            rewritten: 0,
            live: 0,
        }
    }

    /// Whether a database of this size may be mostly dead, so that its live data are worth counting.
    pub fn is_suspect(&self, size: u64) -> bool {
        // Where even a new one takes that much for its data, writing it again does not help.
        size > self.small.max(self.rewritten.saturating_mul(2))
            && size > self.live.saturating_mul(self.max_size_per_live)
    }

    /// Whether it is mostly dead, with that much live data.
    pub fn is_mostly_dead(&mut self, size: u64, live: u64) -> bool {
        self.live = live;
        self.is_suspect(size)
    }

    /// It was rewritten to this size; or it could not be, and the next try is due when it has twice this size.
    pub fn rewritten(&mut self, size: u64) {
        self.rewritten = size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: u64 = 64 << 20;

    #[test]
    fn a_database_is_rewritten_when_most_of_it_is_dead() {
        let mut growth = DatabaseGrowth::new(SMALL, 4);
        assert!(!growth.is_suspect(SMALL) && growth.is_suspect(SMALL + 1));
        assert!(!growth.is_mostly_dead(SMALL + 1, SMALL / 2));
        assert!(!growth.is_suspect(SMALL * 2), "its live data were counted");
        assert!(growth.is_suspect(SMALL * 2 + 1) && growth.is_mostly_dead(SMALL * 2 + 1, 1));
        growth.rewritten(SMALL);
        assert!(!growth.is_suspect(SMALL * 2) && growth.is_suspect(SMALL * 2 + 1));
    }
}
