//! Long life: both daemons under a steady stream of tasks of mixed sizes, with retention that collects in the
//! run. Memory, descriptors, threads and the store must stop growing; every task must complete.
//!
//! Short by default. The long run, an hour with the daemon's default retention (100 000 tasks, which 300 a
//! second reach after 333 s):
//! `AGENTANYCAST_SOAK_SECONDS=3600 AGENTANYCAST_SOAK_CSV=soak.csv cargo test --release -p anycast
//! -p agentanycast-tests --features anycast/full --bin anycast --test robustness soak -- --nocapture`
//!
//! | variable | meaning, default |
//! |---|---|
//! | `AGENTANYCAST_SOAK_SECONDS` | how long tasks are sent; 20 |
//! | `AGENTANYCAST_SOAK_RATE` | tasks a second; 300 |
//! | `AGENTANYCAST_SOAK_KEEP` | `task_retention_count`; below 1 200 s a quarter of the tasks, above the daemon's default |
//! | `AGENTANYCAST_SOAK_CSV` | a file to write all samples to; none |
//!
//! With a relay and a receiver that is restarted all the time: `soak/restarts.rs`.
//!
//! What is flat is said in `soak/samples.rs`; it is asserted from the eleventh minute on.

mod load;
mod plot;
mod restarts;
mod samples;

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use agentanycast::{Node, TaskFilter};
use agentanycast_store::{self as store, StoreError, disk::DiskStore};
use agentanycast_tests::{Daemon, DaemonPair, TransportKind, eventually_within};
use load::{STREAM_EVERY, SoakLoad};
use samples::{FlatnessLimits, RunSamples};

/// The daemon's own `task_retention_count`.
const DEFAULT_KEEP: usize = 100_000;

/// From here on a run is a long one: ten minutes to get warm, ten to be measured.
const LONG: Duration = Duration::from_mins(20);

/// How long all that was sent may take to end after the last was sent, and what is old to be collected.
const AFTERWARDS: Duration = Duration::from_mins(5);

/// What a database may take beyond its live data, in bytes, however little that is: it grows by segments.
const LEAST_STORE: u64 = 96 << 20;

struct SoakSettings {
    length: Duration,
    rate: u32,
    keep: usize,
    csv: Option<PathBuf>,
}

impl SoakSettings {
    fn from_env() -> Self {
        let length = Duration::from_secs(variable("SECONDS").unwrap_or(20));
        let rate = variable("RATE").unwrap_or(300);
        let of_the_run = length.as_secs() as usize * rate as usize / 4;
        let keep = if length < LONG { of_the_run } else { DEFAULT_KEEP };
        Self {
            length,
            rate,
            keep: variable("KEEP").unwrap_or(keep),
            csv: variable("CSV"),
        }
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let name = format!("AGENTANYCAST_SOAK_{name}");
    let text = std::env::var(&name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name}={text:?} cannot be read")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: 20 s of load"]
async fn both_daemons_live_long() {
    let settings = SoakSettings::from_env();
    let mut pair = start(&settings).await;
    let (alice, bob) = pair.nodes().await;
    let load = Arc::new(SoakLoad::default());
    let _agent = SoakLoad::agent(&bob);
    let mut samples = RunSamples::begin(settings.length, settings.csv.as_deref(), None);
    let sending = load.send(&alice, pair.bob.peer_id(), settings.rate, settings.length);
    let (pair_now, load_now) = (&pair, &*load);
    let sampling = samples.take_until_done(pair_now, load_now);
    tokio::select! {
        () = sending => {}
        () = sampling => unreachable!("it samples until it is dropped"),
    }
    samples.take(&pair, &load);
    eprintln!("{}", load.report(settings.length));
    load.assert_all_ended(settings.rate, settings.length, settings.length >= LONG, 0);
    for (node, daemon) in [(&alice, &pair.alice), (&bob, &pair.bob)] {
        the_old_ones_are_collected(node, daemon, &load, settings.keep).await;
    }
    drop((alice, bob));
    let mut live = Vec::new();
    for daemon in [&mut pair.alice, &mut pair.bob] {
        daemon.stop().await;
        live.push(live_bytes(daemon));
    }
    eprintln!("live data: {live:?} bytes");
    let limits = FlatnessLimits {
        live: live[0].max(live[1]),
        least_store: LEAST_STORE,
        ratio: 4,
    };
    samples.assert_bounded(&limits);
}

async fn start(settings: &SoakSettings) -> DaemonPair {
    let config = if settings.keep == DEFAULT_KEEP {
        String::new()
    } else {
        format!("task_retention_count = {}\n", settings.keep)
    };
    DaemonPair::start_with(TransportKind::Tcp, |daemon| daemon.config(&config)).await
}

/// As many tasks as are to be kept are there, the newest, and of the others nothing.
async fn the_old_ones_are_collected(node: &Node, daemon: &Daemon, load: &SoakLoad, keep: usize) {
    let expected = load.accepted().min(keep);
    let kept = eventually_within(AFTERWARDS, "what is over the limit is collected", || async {
        // The list is long: it is asked for once the task that goes last has gone.
        if let Some(id) = load.newest_to_go(keep)
            && node.task_handle(id).snapshot().await.is_ok()
        {
            return None;
        }
        let tasks = node.tasks(&TaskFilter::default()).await.ok()?;
        (tasks.len() == expected).then_some(tasks)
    })
    .await;
    assert!(kept.iter().all(|task| task.status.is_terminal()));
    let spooled = samples::files_below(&daemon.home().path().join("data/artifacts"));
    let most = expected / STREAM_EVERY + load::IN_FLIGHT;
    assert!(spooled <= most, "{spooled} artifact files for {expected} tasks");
}

/// Bytes of all keys and values that are alive in a stopped daemon's database: its live data.
fn live_bytes(daemon: &Daemon) -> u64 {
    let opened = DiskStore::open(&daemon.home().path().join("data")).expect("the store can be opened");
    assert_eq!(opened.moved_aside, None, "the store is damaged");
    let mut bytes = 0;
    store::for_each(&opened.store, b"", |key, value| {
        bytes += (key.len() + value.len()) as u64;
        Ok::<(), StoreError>(())
    })
    .expect("the store can be read");
    bytes
}
