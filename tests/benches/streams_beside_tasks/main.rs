//! Streams and tasks side by side, in figures: `cargo bench -p agentanycast-tests --bench streams_beside_tasks`.
//!
//! Two daemons of the release build on the loopback, and every agent a process of its own, so that a
//! figure is the daemons' and not that of agents sharing a thread. Per transport: one large artifact
//! (MiB/s, processor time, memory), small tasks alone (the idle latency), and small tasks beside many
//! streams, in full flood and at a bounded rate. Prints a table; all has to end well. `-- --check`
//! ends with exit code 1 when tasks beside streams at the bounded rate take too long.
//! Sizes come from the environment: `AGENTANYCAST_STREAM_BYTES` (1 GiB), `AGENTANYCAST_STREAMS` (100),
//! `AGENTANYCAST_TASK_RATE` (500 per second), `AGENTANYCAST_SECONDS` (10), `AGENTANYCAST_ROUNDS` (3).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

mod agent_processes;
mod setup;

use std::process::ExitCode;

use agentanycast_tests::{TransportKind, bench_targets::BenchTargets};

use self::setup::StreamSetup;

/// How many times the idle p99 that of tasks beside streams at a bounded rate may be.
const TARGET: f64 = 2.0;

/// Sizes of a run.
struct RunSizes {
    stream_bytes: u64,
    streams: u64,
    task_rate: u64,
    seconds: u64,
    rounds: u64,
}

impl RunSizes {
    fn from_environment() -> Self {
        let read = |name: &str, default: u64| {
            let text = std::env::var(format!("AGENTANYCAST_{name}"));
            text.map_or(default, |text| {
                text.parse()
                    .unwrap_or_else(|_| panic!("AGENTANYCAST_{name}={text}"))
            })
        };
        Self {
            stream_bytes: read("STREAM_BYTES", 1 << 30),
            streams: read("STREAMS", 100),
            task_rate: read("TASK_RATE", 500),
            seconds: read("SECONDS", 10),
            rounds: read("ROUNDS", 3),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if agent_processes::run(&args).await {
        return ExitCode::SUCCESS;
    }
    let mut verdict = BenchTargets::from_args();
    // A name or two among the arguments chooses; cargo adds `--bench`.
    let chosen = |name: &str| {
        let mut names = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|arg| arg == name)
    };
    let sizes = RunSizes::from_environment();
    for (name, transport) in [("tcp", TransportKind::Tcp), ("quic", TransportKind::Quic)] {
        let mut ratios = Vec::new();
        for round in 0..sizes.rounds {
            println!("== {name}, round {} of {}", round + 1, sizes.rounds);
            let stage = StreamSetup::start(transport).await;
            if chosen("throughput") {
                throughput(&stage, &sizes, &mut verdict).await;
            }
            if chosen("latency") {
                ratios.push(latency(&stage, &sizes).await);
            }
        }
        ratios.sort_by(f64::total_cmp);
        if let Some(ratio) = ratios.get(ratios.len() / 2) {
            println!("{name}: p99 of tasks beside streams to that of tasks alone: {ratio:.2}");
            verdict.at_most(
                &format!("{name}: p99 of tasks beside streams to that alone"),
                *ratio,
                TARGET,
            );
        }
    }
    verdict.end()
}

async fn throughput(stage: &StreamSetup, sizes: &RunSizes, verdict: &mut BenchTargets) {
    let before = stage.usage();
    let outcome = stage.read(1, sizes.stream_bytes, 0).await;
    verdict.figure("MiB streamed", outcome.mib());
    println!(
        "one stream: {outcome}\n{}",
        stage.usage().since(&before, outcome.mib())
    );
}

/// The p99 beside streams at a bounded rate, to that alone.
async fn latency(stage: &StreamSetup, sizes: &RunSizes) -> f64 {
    let idle = stage.ask(sizes.task_rate, sizes.seconds).await;
    println!("tasks alone:                  {idle}");
    let mut ratio = f64::NAN;
    let rates = [
        ("256 KiB/s each", 256 << 10),
        ("512 KiB/s each", 512 << 10),
        ("1 MiB/s each", 1 << 20),
        ("in full flood", 0),
    ];
    for (what, rate) in rates {
        // Enough for any speed: the streams are broken off when the tasks are done.
        let bytes = 1 << 40;
        let before = stage.usage();
        let mut reading = stage.spawn_read(sizes.streams, bytes, rate);
        reading.flows().await;
        let beside = stage.ask(sizes.task_rate, sizes.seconds).await;
        let outcome = reading.stop().await;
        if rate > 0 {
            ratio = beside.p99() / idle.p99();
        }
        println!(
            "tasks beside {} streams {what}: {beside}; streams {outcome}",
            sizes.streams
        );
        println!("{}", stage.usage().since(&before, outcome.mib()));
        stage.settle().await;
    }
    ratio
}
