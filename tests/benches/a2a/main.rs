//! The bridge in figures: `cargo bench -p agentanycast-tests --bench a2a`.
//!
//! SendMessage (JSON-RPC, 1.0) to an agent that says again what it is told, answered when its task has completed. Three
//! servers, each a process of its own of the release build, turn by turn in one run: the bridge before a daemon whose
//! agent is here; the official Python SDK's server (`tests/foreign/setup` makes its venv; without it that row is left
//! out); a bare axum handler that parses the same JSON and answers as much. The same client asks all of them.
//!
//! *The bridge's own cost* is the processor time of its process per request, less that of a process which makes the same
//! calls for as many tasks by the Rust SDK and has no HTTP: what is left is HTTP, JSON, callers, and the translation.
//! It is compared with the processor time of the bare handler per request. Both do their halves at the bridge's rate,
//! since whoever has more to do does several things at a time, and each costs less; and at the same time, so that the
//! caches are shared with the daemon and its agent as the bridge shares them.
//!
//! *Beside a crowd*: the same requests on 16 connections while 500 streams of ten tasks that report once a second stand
//! open, 100 of which nobody reads; the 99th percentile to that without them.
//!
//! `-- --check` ends with exit code 1 when a target is missed, or cannot be compared since that venv is not there.
//! Sizes come from the environment: `AGENTANYCAST_SLICE_MS` (2000), `AGENTANYCAST_ROUNDS` (7), `AGENTANYCAST_CONNECTIONS`
//! (1,16,128).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

mod bare_handler;
mod load;
mod open_streams;
mod sdk_caller;
mod server;

use std::{env, process::ExitCode, time::Duration};

use agentanycast_tests::{Bridge, Daemon, agent::TestAgent, bench_targets::BenchTargets};

use load::LoadResult;
use server::BenchServer;

/// Of the rate of the Python SDK's server, and of the cost of the bare handler, what the bridge is to reach and may cost.
const TO_PYTHON: f64 = 20.0;
const OWN_COST: f64 = 1.5;

fn setting<T: std::str::FromStr>(name: &str, default: &str) -> Vec<T> {
    let name = format!("AGENTANYCAST_{name}");
    let text = env::var(&name).unwrap_or_else(|_| default.to_owned());
    let values = text.split(',').map(|word| word.trim().parse().ok());
    values
        .collect::<Option<_>>()
        .unwrap_or_else(|| panic!("{name}={text}"))
}

fn main() -> ExitCode {
    let mut verdict = BenchTargets::from_args();
    let args: Vec<String> = env::args().skip(1).collect();
    let value = |flag: &str| {
        let place = args.iter().position(|arg| arg == flag)?;
        args.get(place + 1).cloned()
    };
    if args.iter().any(|arg| arg == "--bare") {
        multi_thread().block_on(bare_handler::serve());
    } else if let Some(daemon) = value("--caller") {
        one_thread().block_on(sdk_caller::serve(&daemon));
    } else {
        multi_thread().block_on(run(&mut verdict));
    }
    verdict.end()
}

/// As the bridge has it.
fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn multi_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn run(verdict: &mut BenchTargets) {
    let slice = Duration::from_millis(setting("SLICE_MS", "2000")[0]);
    let rounds: usize = setting("ROUNDS", "7")[0];
    let daemon = Daemon::builder().start().await;
    let node = daemon.node_named("Echo").await;
    let _agent = TestAgent::serve_many(&node, 512, |task| async move {
        let text = task.message().text_content();
        if text == open_streams::REPORTS {
            return open_streams::report(task).await;
        }
        task.complete([agentanycast::Artifact::text(format!("echo: {text}"))])
            .await?;
        Ok(())
    });
    let unlimited = ["--rate=0", "--at-once=100000", "--log-level=warn"];
    let bridge = Bridge::start_with(&daemon, &unlimited).await;
    let ours = BenchServer::new("bridge", bridge.address(), bridge.pid());
    let bare = BenchServer::bare().await;
    let caller = BenchServer::caller(daemon.grpc()).await;
    let python = BenchServer::python().await;
    println!(
        "| connections | server | requests/s | p50 / p99 ms | CPU µs per request | rate to Python's | own cost to bare |"
    );
    println!("|---|---|---|---|---|---|---|");
    for connections in setting::<usize>("CONNECTIONS", "1,16,128") {
        let mut turns: [Vec<LoadResult>; 6] = Default::default();
        for _ in 0..rounds {
            turns[0].push(load::run_load(&bare, connections, slice).await);
            let bridge = load::run_load(&ours, connections, slice).await;
            turns[1].push(bridge);
            turns[2].push(sdk_caller::run_load(&caller, connections, slice).await);
            let (asked, calls) = tokio::join!(
                load::run_load_at(&bare, connections, slice, bridge.rate),
                sdk_caller::run_load_at(&caller, connections, slice, bridge.rate),
            );
            turns[3].push(asked);
            turns[4].push(calls);
            if let Some(python) = &python {
                turns[5].push(load::run_load(python, connections, slice).await);
            }
        }
        report(connections, &turns, verdict);
    }
    open_streams::measure(&ours, rounds, slice, verdict).await;
}

fn report(connections: usize, turns: &[Vec<LoadResult>; 6], verdict: &mut BenchTargets) {
    let [bare, ours, caller, bare_at_rate, caller_at_rate, python] = turns;
    let each = |ratio: &dyn Fn(usize) -> f64| {
        let mut ratios: Vec<f64> = (0..ours.len()).map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    };
    let own = each(&|round| (ours[round].cpu - caller_at_rate[round].cpu) / bare_at_rate[round].cpu);
    verdict.at_most(
        &format!("own cost to bare, {connections} connections"),
        own,
        OWN_COST,
    );
    let what = format!("rate to Python's, {connections} connections");
    let to_python = if python.is_empty() {
        verdict.not_measured(&what);
        "–".to_owned()
    } else {
        let ratio = each(&|round| ours[round].rate / python[round].rate);
        verdict.at_least(&what, ratio, TO_PYTHON);
        format!("{ratio:.1}")
    };
    for (name, of) in [
        ("bare handler", bare),
        ("bridge", ours),
        ("SDK without HTTP", caller),
        ("bare handler at the bridge's rate", bare_at_rate),
        ("SDK without HTTP beside that", caller_at_rate),
        ("Python SDK", python),
    ] {
        let Some(middle) = LoadResult::median(of) else {
            continue;
        };
        let (to_python, own) = if name == "bridge" {
            (to_python.clone(), format!("{own:.2}"))
        } else {
            (String::new(), String::new())
        };
        println!("| {connections} | {name} | {middle} | {to_python} | {own} |");
    }
}
