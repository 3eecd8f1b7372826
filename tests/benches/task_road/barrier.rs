//! The bare barrier: one batch into sled, flushed, and its file synced, on the file system that the daemons'
//! stores are on. The settings and the three steps are the node's (node/src/store/disk.rs).

use std::{
    fs::File,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::load::quantile;

/// Bytes of a record.
const RECORD: usize = 1024;
/// Records of the large batch.
const BATCH: usize = 64;
/// How long a slice tries each size of batch; on a disk that is busy, or slow, it does so a few times at least.
const LENGTH: Duration = Duration::from_millis(15);
const LEAST: usize = 9;
/// Keys that are written in turn, so that the database does not grow with the run.
const KEYS: u64 = 16 << 10;

/// A database of its own.
pub(crate) struct Barrier {
    db: sled::Db,
    file: File,
    next: u64,
    _home: TempDir,
}

/// What a slice came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierTimes {
    /// One record until it was synced, the median.
    single: Duration,
    /// 64 records until they were synced, the median.
    batch: Duration,
}

impl BarrierTimes {
    /// One record until it was synced, in microseconds.
    pub(crate) fn single_us(self) -> f64 {
        self.single.as_secs_f64() * 1e6
    }

    /// Between the two.
    pub(crate) fn mean(self, other: Self) -> Self {
        Self {
            single: (self.single + other.single) / 2,
            batch: (self.batch + other.batch) / 2,
        }
    }

    /// Records per second in batches of 64.
    pub(crate) fn batched_rate(self) -> f64 {
        BATCH as f64 / self.batch.as_secs_f64()
    }
}

impl Barrier {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new().prefix("aa").tempdir();
        let home = home.expect("a temporary directory");
        let db = sled::Config::new()
            .path(home.path().join("tasks"))
            .cache_capacity(64 << 20)
            .segment_size(8 << 20)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput)
            .open()
            .expect("a database");
        let file = File::open(home.path().join("tasks/db")).expect("its file");
        let mut barrier = Self {
            db,
            file,
            next: 0,
            _home: home,
        };
        barrier.slice();
        barrier
    }

    /// Measures, for about 30 ms.
    pub(crate) fn slice(&mut self) -> BarrierTimes {
        BarrierTimes {
            single: self.median(1),
            batch: self.median(BATCH),
        }
    }

    fn median(&mut self, records: usize) -> Duration {
        let began = Instant::now();
        let mut took = Vec::new();
        while took.len() < LEAST || began.elapsed() < LENGTH {
            took.push(self.once(records));
        }
        took.sort_unstable();
        quantile(&took, 0.5)
    }

    fn once(&mut self, records: usize) -> Duration {
        let mut batch = sled::Batch::default();
        for _ in 0..records {
            let key = (self.next % KEYS).to_be_bytes();
            self.next += 1;
            batch.insert(&key, vec![self.next as u8; RECORD]);
        }
        let began = Instant::now();
        self.db.apply_batch(batch).expect("applied");
        self.db.flush().expect("flushed");
        self.file.sync_data().expect("synced");
        began.elapsed()
    }
}
