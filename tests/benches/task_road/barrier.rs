//! The bare barrier: one batch into sled, flushed, and its file synced, on the file system that the daemons'
//! stores are on. The database is opened and synced as the daemon's is.

use std::time::{Duration, Instant};

use agentanycast_store::database::{Database, DatabaseMode, DatabaseOptions, Tree, TreeBatch};
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
    database: Database,
    records: Tree,
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
        let options = DatabaseOptions {
            cache: 64 << 20,
            mode: DatabaseMode::HighThroughput,
            birth_tree: "birth",
            birth_key: "birth",
        };
        let database = Database::begin(&home.path().join("tasks"), options).expect("a database");
        let mut barrier = Self {
            records: database.default_tree(),
            database,
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
        let mut batch = TreeBatch::default();
        for _ in 0..records {
            let key = (self.next % KEYS).to_be_bytes();
            self.next += 1;
            batch.insert(&key, vec![self.next as u8; RECORD]);
        }
        let began = Instant::now();
        self.records.apply_batch(batch).expect("applied");
        self.database.sync().expect("flushed and synced");
        began.elapsed()
    }
}
