//! What a run found: the tables for people, and the same figures as JSON.

use agentanycast_tests::bench_targets::BenchTargets;
use serde_json::{Value, json};

use crate::{
    load::median,
    options::Options,
    table_row::{BARRIERS, Ratio, StreamRow, TaskRow},
};

/// What a run found.
#[derive(Debug)]
pub(crate) struct BenchReport {
    run: String,
    pub(crate) tasks: Vec<TaskRow>,
    pub(crate) streams: Vec<StreamRow>,
}

impl BenchReport {
    pub(crate) fn new(options: &Options) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let run = format!(
            "{} processors, load {} before; {} rounds of {} ms per cell, {} × {} MiB streamed",
            std::thread::available_parallelism().map_or(0, usize::from),
            load.split(' ').next().unwrap_or_default(),
            options.rounds,
            options.slice.as_millis(),
            options.stream_rounds,
            options.stream_mib
        );
        Self {
            run,
            tasks: Vec::new(),
            streams: Vec::new(),
        }
    }

    /// Compares with the targets.
    pub(crate) fn judge(&self, verdict: &mut BenchTargets) {
        let tasks = self.tasks.iter().map(|row| (row.cell, row.ratio()));
        let streams = self.streams.iter().map(|row| (row.cell, row.ratio()));
        for (cell, ratio) in tasks.chain(streams) {
            verdict.figure(&format!("ratio of {cell}"), ratio.value);
            verdict.check(&format!("ratio of {cell}"), ratio.value, ratio.is_met(), || {
                ratio.target()
            });
        }
    }

    /// Prints the tables.
    pub(crate) fn print(&self) {
        println!("\n{}; medians over the rounds", self.run);
        if !self.tasks.is_empty() {
            self.print_roads();
            self.print_ratios();
        }
        if !self.streams.is_empty() {
            self.print_streams();
        }
    }

    fn print_roads(&self) {
        println!(
            "\n{:<14} │ {:>7} {:>8} {:>8} {:>9} {:>5} │ {:>7} {:>8} {:>8} {:>9} {:>5} │ {:>9} {:>9}",
            "tasks",
            "bare/s",
            "p50 ms",
            "p99 ms",
            "cpu µs",
            "ends",
            "ours/s",
            "p50 ms",
            "p99 ms",
            "cpu µs",
            "ends",
            "RSS MiB",
            "peak MiB"
        );
        for row in &self.tasks {
            print!("{:<14}", row.cell.to_string());
            for road in [&row.bare, &row.ours] {
                let (user, system) = road.nodes_us();
                let nodes = format!("{user:.0}+{system:.0}");
                let (p50, p99, ends) = (road.p50_ms(), road.p99_ms(), road.ends_us());
                print!(
                    " │ {:>7.0} {p50:>8.3} {p99:>8.3} {nodes:>9} {ends:>5.0}",
                    road.rate()
                );
            }
            println!(" │ {:>9} {:>9}", row.memory.now(), row.memory.peak());
        }
        println!(
            "cpu: both nodes per task, user+system; ends: sender and agent per task; RSS: sender's daemon+agent's"
        );
    }

    fn print_ratios(&self) {
        println!(
            "\n{:<14} │ {:>10} {:>12} │ {:>6} {:>13} {:>6}",
            "ratios", "barrier µs", "64 × 1 KiB/s", "ratio", "of rounds", "target"
        );
        for row in &self.tasks {
            let (barrier, batched) = (row.barrier_us(), row.batched_rate());
            let ratio = shown(row.ratio());
            println!(
                "{:<14} │ {barrier:>10.0} {batched:>12.0} │ {ratio}",
                row.cell.to_string()
            );
        }
        println!(
            "all cells: one bare barrier {:.0} µs, {:.0} records/s in batches of 64",
            median(self.tasks.iter().map(TaskRow::barrier_us)),
            median(self.tasks.iter().map(TaskRow::batched_rate)),
        );
        println!(
            "ratio: at 1 in flight our p50 / (bare p50 + {BARRIERS} barriers), else our rate / bare rate; ! = missed"
        );
    }

    fn print_streams(&self) {
        println!(
            "\n{:<14} │ {:>10} {:>7} │ {:>10} {:>7} │ {:>6} {:>13} {:>6} │ {:>10} {:>9} {:>9}",
            "streaming",
            "bare MiB/s",
            "cpu µs",
            "ours MiB/s",
            "cpu µs",
            "ratio",
            "of rounds",
            "target",
            "RSS before",
            "after",
            "peak MiB"
        );
        for row in &self.streams {
            println!(
                "{:<14} │ {:>10.0} {:>7.0} │ {:>10.0} {:>7.0} │ {} │ {:>10} {:>9} {:>9}",
                row.cell.to_string(),
                row.bare.rate(),
                row.nodes_us(&row.bare),
                row.ours.rate(),
                row.nodes_us(&row.ours),
                shown(row.ratio()),
                row.before.now(),
                row.after.now(),
                row.after.peak(),
            );
        }
        println!("cpu: both nodes per MiB");
    }

    /// The same figures for programs, and those of each slice.
    pub(crate) fn json(&self) -> String {
        let tasks: Vec<Value> = self.tasks.iter().map(TaskRow::json).collect();
        let streams: Vec<Value> = self.streams.iter().map(StreamRow::json).collect();
        format!(
            "{:#}\n",
            json!({"run": self.run, "tasks": tasks, "streams": streams})
        )
    }
}

fn shown(ratio: Ratio) -> String {
    let rounds = format!("{:.2}–{:.2}", ratio.least, ratio.most);
    let mark = if ratio.is_met() { ' ' } else { '!' };
    format!("{:>5.2}{mark} {rounds:>13} {:>6}", ratio.value, ratio.target())
}
