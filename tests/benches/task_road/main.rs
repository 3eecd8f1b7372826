//! The benchmark of the task road: `cargo bench -p agentanycast-tests --bench task_road -- [OPTIONS]`.
//!
//! Two daemons of the release profile on the loopback, the Rust SDK at both ends, everything durable; beside
//! them, in slices that take turns with theirs, the *bare road* (the same hops with nothing in them) and the
//! *bare barrier* (one batch into sled, flushed and synced). The figures are medians over the slices, and the
//! ratios of ours to the bare ones are what is promised (docs/design.md). Build the daemon first:
//! `cargo build --release -p anycast --features full`. `--help` shows the options.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark fails by a panic, and its output is what it is for"
)]

mod agent_runtime;
mod bare_path;
mod barrier;
mod case;
mod daemon_path;
mod load;
mod options;
mod report;
mod run;
mod stale_binary;
mod streaming;
mod table_row;
mod usage;

use std::process::ExitCode;

use agentanycast_tests::bench_targets::BenchTargets;

use options::Options;

fn main() -> ExitCode {
    let Some(options) = Options::from_process() else {
        return ExitCode::SUCCESS;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let report = runtime.block_on(run::run(&options));
    report.print();
    if let Some(path) = &options.json {
        std::fs::write(path, report.json()).expect("the JSON is written");
        println!("\n{} written", path.display());
    }
    let mut verdict = BenchTargets::new(options.check);
    report.judge(&mut verdict);
    verdict.end()
}
