//! What both daemons take of the machine, sampled through the run, and what "flat" means.
//!
//! Flat: the largest sample of the last third of the time after the first ten minutes is at most the
//! largest of its first third and a tolerance. Descriptors and threads come and go with what is under
//! way, so that tolerance is a number; memory and files swing with caches and with the rewriting of the
//! database, so theirs is a share. A leak of 20 bytes a task, at 300 tasks a second, is 14 MB more in the
//! forty minutes between the thirds' ends, and beyond the tolerance of a daemon of 150 MB.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

use agentanycast_tests::{
    Daemon, DaemonPair,
    proc_stats::{open_files, rss_bytes, threads},
};
use rustix::process::Pid;

use super::load::SoakLoad;

/// A run's beginning, in which caches fill and old tasks have not yet begun to go.
const WARM_UP: Duration = Duration::from_mins(10);

/// How much more memory there may be: caches swing by what is under way, the allocator keeps what it freed.
const MEMORY_SHARE: u64 = 8;

/// How many more descriptors or threads: a connection, a stream or a disk operation takes one each.
const COUNT: u64 = 24;

/// The database is rewritten at some size; the files may be caught at any moment of that.
const FILES_SHARE: u64 = 4;

/// What one daemon takes.
#[derive(Clone, Copy, Debug)]
struct ProcessSample {
    rss: u64,
    database: u64,
    spool: u64,
    files: u64,
    threads: u64,
}

#[derive(Clone, Copy, Debug)]
struct RunSample {
    at: Duration,
    completed: usize,
    daemons: [ProcessSample; 2],
    /// Of a relay beside them: memory, descriptors.
    relay: Option<(u64, u64)>,
}

/// What a run's figures are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlatnessLimits {
    /// Bytes alive in the database at the end.
    pub(super) live: u64,
    /// What it may take however little is alive.
    pub(super) least_store: u64,
    /// How many times its live data it may take.
    pub(super) ratio: u64,
}

/// All samples of a run.
pub(super) struct RunSamples {
    began: Instant,
    every: Duration,
    all: Vec<RunSample>,
    csv: Option<fs::File>,
    relay: Option<Pid>,
}

impl RunSamples {
    /// Begins now; takes about 200 samples, at least one each five seconds.
    pub(super) fn begin(length: Duration, csv: Option<&Path>, relay: Option<Pid>) -> Self {
        let mut csv = csv.map(|path| fs::File::create(path).expect("the CSV file can be made"));
        if let Some(csv) = &mut csv {
            let columns = ["rss", "database", "spool", "files", "threads"];
            let of = |who: &str| columns.map(|column| format!("{who}_{column}")).join(",");
            let relay = relay.map_or("", |_| ",relay_rss,relay_files");
            writeln!(csv, "seconds,completed,{},{}{relay}", of("alice"), of("bob")).unwrap();
        }
        Self {
            began: Instant::now(),
            every: (length / 200).clamp(Duration::from_millis(500), Duration::from_secs(5)),
            all: Vec::new(),
            csv,
            relay,
        }
    }

    /// Takes samples for so long.
    pub(super) async fn take_for(&mut self, time: Duration, pair: &DaemonPair, load: &SoakLoad) {
        let _ = tokio::time::timeout(time, self.take_until_done(pair, load)).await; // It never ends by itself.
    }

    /// Takes samples for ever.
    pub(super) async fn take_until_done(&mut self, pair: &DaemonPair, load: &SoakLoad) {
        loop {
            self.take(pair, load);
            tokio::time::sleep(self.every).await;
        }
    }

    /// Takes one.
    pub(super) fn take(&mut self, pair: &DaemonPair, load: &SoakLoad) {
        let sample = RunSample {
            at: self.began.elapsed(),
            completed: load.completed(),
            daemons: [taken(&pair.alice), taken(&pair.bob)],
            relay: self.relay.map(|relay| (rss_bytes(relay), open_files(relay))),
        };
        if let Some(csv) = &mut self.csv {
            let of = |one: &ProcessSample| {
                let figures = [one.rss, one.database, one.spool, one.files, one.threads];
                figures.map(|figure| figure.to_string()).join(",")
            };
            let [alice, bob] = sample.daemons.each_ref().map(of);
            let seconds = sample.at.as_secs_f64();
            let relay = sample
                .relay
                .map(|(rss, files)| format!(",{rss},{files}"))
                .unwrap_or_default();
            writeln!(csv, "{seconds:.1},{},{alice},{bob}{relay}", sample.completed).unwrap();
        }
        self.all.push(sample);
    }

    /// Nothing grew after the warm-up, as far as the run went beyond it; the database was never larger
    /// than its live data allow.
    pub(super) fn assert_bounded(&self, limits: &FlatnessLimits) {
        let warm: Vec<&RunSample> = self.all.iter().filter(|sample| sample.at >= WARM_UP).collect();
        for (who, name) in ["alice", "bob"].iter().enumerate() {
            let column = |of: fn(&ProcessSample) -> u64| -> Vec<u64> {
                warm.iter().map(|sample| of(&sample.daemons[who])).collect()
            };
            for (what, figures, more) in [
                (
                    "memory",
                    column(|taken| taken.rss),
                    Tolerance::Share(MEMORY_SHARE),
                ),
                (
                    "descriptors",
                    column(|taken| taken.files),
                    Tolerance::Count(COUNT),
                ),
                ("threads", column(|taken| taken.threads), Tolerance::Count(COUNT)),
                (
                    "database",
                    column(|taken| taken.database),
                    Tolerance::Share(FILES_SHARE),
                ),
                (
                    "spool",
                    column(|taken| taken.spool),
                    Tolerance::Share(FILES_SHARE),
                ),
            ] {
                let flat = is_flat(&figures, more);
                assert!(flat.is_ok(), "{name}'s {what} grew: {}", flat.unwrap_err());
            }
            let largest = self.all.iter().map(|sample| sample.daemons[who].database).max();
            let most = (limits.live * limits.ratio).max(limits.least_store);
            assert!(
                largest <= Some(most),
                "{name}'s database took {largest:?} bytes, with {} alive",
                limits.live
            );
        }
        let relay = |of: fn((u64, u64)) -> u64| -> Vec<u64> {
            warm.iter().filter_map(|sample| sample.relay.map(of)).collect()
        };
        for (what, figures, more) in [
            ("memory", relay(|(rss, _)| rss), Tolerance::Share(MEMORY_SHARE)),
            ("descriptors", relay(|(_, files)| files), Tolerance::Count(COUNT)),
        ] {
            let flat = is_flat(&figures, more);
            assert!(flat.is_ok(), "the relay's {what} grew: {}", flat.unwrap_err());
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Tolerance {
    /// One part of so many more.
    Share(u64),
    /// So many more.
    Count(u64),
}

/// See the module's text. Too few samples to tell are flat.
fn is_flat(figures: &[u64], more: Tolerance) -> Result<(), String> {
    let third = figures.len() / 3;
    if third == 0 {
        return Ok(());
    }
    let most = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    let (early, late) = (most(&figures[..third]), most(&figures[figures.len() - third..]));
    let allowed = match more {
        Tolerance::Share(part) => early + early / part,
        Tolerance::Count(count) => early + count,
    };
    if late <= allowed {
        Ok(())
    } else {
        Err(format!("from {early} to {late}, at most {allowed} were allowed"))
    }
}

fn taken(daemon: &Daemon) -> ProcessSample {
    let (pid, data) = (daemon.pid(), daemon.home().path().join("data"));
    let spool = bytes_below(&data.join("artifacts"));
    ProcessSample {
        rss: rss_bytes(pid),
        database: bytes_below(&data) - spool,
        spool,
        files: open_files(pid),
        threads: threads(pid),
    }
}

/// Bytes that the files below take on disk. Files that go meanwhile do not count.
fn bytes_below(directory: &Path) -> u64 {
    files(directory).iter().map(|file| file.blocks() * 512).sum()
}

/// Number of files below.
pub(super) fn files_below(directory: &Path) -> usize {
    files(directory).len()
}

fn files(directory: &Path) -> Vec<fs::Metadata> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&entry.path())),
            Ok(metadata) => found.push(metadata),
            Err(_) => {}
        }
    }
    found
}

#[test]
fn what_grows_is_not_flat() {
    let rising: Vec<u64> = (0..600).map(|at| 150_000_000 + at * 100_000).collect();
    assert!(is_flat(&rising, Tolerance::Share(MEMORY_SHARE)).is_err());
    assert!(is_flat(&rising, Tolerance::Count(COUNT)).is_err());
    let swinging: Vec<u64> = (0..600).map(|at| 150_000_000 + (at % 7) * 1_000_000).collect();
    assert_eq!(is_flat(&swinging, Tolerance::Share(MEMORY_SHARE)), Ok(()));
    let counted: Vec<u64> = (0..600).map(|at| 40 + at % 10).collect();
    assert_eq!(is_flat(&counted, Tolerance::Count(COUNT)), Ok(()));
    assert_eq!(
        is_flat(&[1, 1000], Tolerance::Count(0)),
        Ok(()),
        "too few to tell"
    );
}
