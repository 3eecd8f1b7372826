//! What a run found: the tables for people, and the same figures as JSON.

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::{load::median, options::Options, usage::Rss};

/// The targets (docs/design.md, "Speed").
const P50_TARGET: f64 = 1.5;
const RATE_TARGET: f64 = 0.5;
const STREAM_TARGET: f64 = 0.6;
/// Barriers on a task's road that its end waits for.
const BARRIERS: f64 = 4.0;

/// One road in one cell; medians over the slices, times per task in microseconds.
#[derive(Debug)]
pub(crate) struct Road {
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Both nodes together.
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    /// Sender and agent together.
    pub(crate) ends_us: f64,
    pub(crate) tasks: usize,
}

/// Memory of the sender's daemon and of the agent's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory([Rss; 2]);

impl Memory {
    pub(crate) fn of(pids: &[Pid]) -> Self {
        Self([Rss::of(pids[0]), Rss::of(pids[1])])
    }

    fn now(self) -> String {
        format!("{}+{}", self.0[0].now >> 20, self.0[1].now >> 20)
    }

    fn peak(self) -> String {
        format!("{}+{}", self.0[0].peak >> 20, self.0[1].peak >> 20)
    }

    fn json(self) -> Value {
        let [sender, agent] = self.0.map(|rss| json!({"rss": rss.now, "peak": rss.peak}));
        json!({"sender": sender, "agent": agent})
    }
}

/// A line of the tasks' table.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) cell: String,
    pub(crate) in_flight: usize,
    pub(crate) bare: Road,
    pub(crate) ours: Road,
    pub(crate) barrier_us: f64,
    pub(crate) batched_rate: f64,
    pub(crate) memory: Memory,
}

impl TaskRow {
    /// The ratio that has a target, and whether it is met.
    fn ratio(&self) -> (f64, bool) {
        if self.in_flight == 1 {
            let ratio = self.ours.p50_ms / (self.bare.p50_ms + BARRIERS * self.barrier_us / 1e3);
            (ratio, ratio <= P50_TARGET)
        } else {
            let ratio = self.ours.rate / self.bare.rate;
            (ratio, ratio >= RATE_TARGET)
        }
    }

    fn target(&self) -> String {
        if self.in_flight == 1 {
            format!("≤{P50_TARGET}")
        } else {
            format!("≥{RATE_TARGET}")
        }
    }
}

/// A line of the streams' table; MiB/s.
#[derive(Debug)]
pub(crate) struct StreamRow {
    pub(crate) cell: String,
    pub(crate) mib: usize,
    pub(crate) bare: f64,
    pub(crate) ours: f64,
    pub(crate) before: Memory,
    pub(crate) after: Memory,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Report {
    run: String,
    pub(crate) tasks: Vec<TaskRow>,
    pub(crate) streams: Vec<StreamRow>,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        let run = format!(
            "{} rounds of {} ms per cell; {} × {} MiB streamed",
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

    /// Prints the tables.
    pub(crate) fn print(&self) {
        println!("\n{}; medians over the slices", self.run);
        if !self.tasks.is_empty() {
            self.print_tasks();
        }
        if !self.streams.is_empty() {
            self.print_streams();
        }
    }

    fn print_tasks(&self) {
        println!(
            "\n{:<15} │ {:>8} {:>8} {:>8} {:>6} │ {:>8} {:>8} {:>8} {:>11} {:>6} │ {:>6} {:>6} │ {:>9} {:>9}",
            "",
            "bare /s",
            "p50 ms",
            "p99 ms",
            "cpu µs",
            "ours /s",
            "p50 ms",
            "p99 ms",
            "cpu µs u+s",
            "ends",
            "ratio",
            "target",
            "RSS MiB",
            "peak MiB"
        );
        for row in &self.tasks {
            let (ratio, met) = row.ratio();
            println!(
                "{:<15} │ {:>8.0} {:>8.3} {:>8.3} {:>6.0} │ {:>8.0} {:>8.3} {:>8.3} {:>11} {:>6.0} │ {:>5.2}{} {:>6} │ {:>9} {:>9}",
                row.cell,
                row.bare.rate,
                row.bare.p50_ms,
                row.bare.p99_ms,
                row.bare.user_us + row.bare.system_us,
                row.ours.rate,
                row.ours.p50_ms,
                row.ours.p99_ms,
                format!("{:.0}+{:.0}", row.ours.user_us, row.ours.system_us),
                row.ours.ends_us,
                ratio,
                if met { " " } else { "!" },
                row.target(),
                row.memory.now(),
                row.memory.peak(),
            );
        }
        println!(
            "\nbare barrier: {:.0} µs for one record of 1 KiB; {:.0} records/s in batches of 64",
            median(self.tasks.iter().map(|row| row.barrier_us)),
            median(self.tasks.iter().map(|row| row.batched_rate)),
        );
        println!(
            "ratio: at 1 in flight our p50 / (bare p50 + {BARRIERS} barriers of the same cell), else our rate / bare rate; ! = missed"
        );
        println!(
            "cpu: both nodes per task; ends: sender and agent per task; memory: sender's daemon + agent's"
        );
    }

    fn print_streams(&self) {
        println!(
            "\n{:<15} │ {:>10} {:>10} │ {:>6} {:>6} │ {:>12} {:>12} {:>12}",
            "", "bare MiB/s", "ours MiB/s", "ratio", "target", "RSS before", "after", "peak MiB"
        );
        for row in &self.streams {
            let ratio = row.ours / row.bare;
            println!(
                "{:<15} │ {:>10.0} {:>10.0} │ {:>5.2}{} {:>6} │ {:>12} {:>12} {:>12}",
                row.cell,
                row.bare,
                row.ours,
                ratio,
                if ratio >= STREAM_TARGET { " " } else { "!" },
                format!("≥{STREAM_TARGET}"),
                row.before.now(),
                row.after.now(),
                row.after.peak(),
            );
        }
    }

    /// The same figures for programs.
    pub(crate) fn json(&self) -> String {
        let road = |road: &Road| {
            json!({
                "rate": road.rate, "p50_ms": road.p50_ms, "p99_ms": road.p99_ms, "user_us": road.user_us,
                "system_us": road.system_us, "ends_us": road.ends_us, "tasks": road.tasks,
            })
        };
        let tasks: Vec<Value> = (self.tasks.iter())
            .map(|row| {
                let (ratio, met) = row.ratio();
                json!({
                    "cell": row.cell, "bare": road(&row.bare), "ours": road(&row.ours),
                    "barrier_us": row.barrier_us, "batched_rate": row.batched_rate,
                    "ratio": ratio, "met": met, "memory": row.memory.json(),
                })
            })
            .collect();
        let streams: Vec<Value> = (self.streams.iter())
            .map(|row| {
                let ratio = row.ours / row.bare;
                json!({
                    "cell": row.cell, "mib": row.mib, "bare": row.bare, "ours": row.ours, "ratio": ratio,
                    "met": ratio >= STREAM_TARGET, "before": row.before.json(), "after": row.after.json(),
                })
            })
            .collect();
        format!(
            "{:#}\n",
            json!({"run": self.run, "tasks": tasks, "streams": streams})
        )
    }
}
