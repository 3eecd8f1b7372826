//! A run: cell after cell, in each of them slices of the bare road, ours and the barrier by turns, so that
//! whatever else the machine does meets all three.

use std::time::Instant;

use bytes::Bytes;
use rustix::process::Pid;

use crate::{
    bare::Bare,
    barrier::Barrier,
    cell::{Cell, Work},
    ends::Agents,
    load::{self, Slice, median},
    options::Options,
    ours::Ours,
    report::{Memory, Report, Road, TaskRow},
    streaming,
    usage::Cpu,
};

/// Measures all cells of the run.
pub(crate) async fn run(options: &Options) -> Report {
    let agents = Agents::start();
    let mut barrier = Barrier::new();
    let mut report = Report::new(options);
    for cell in &options.cells {
        let began = Instant::now();
        match cell.work {
            Work::Tasks { bytes, in_flight } => {
                let row = tasks(*cell, bytes, in_flight, options, &agents, &mut barrier).await;
                report.tasks.push(row);
            }
            Work::Stream => report
                .streams
                .push(streaming::measure(*cell, options, &agents).await),
        }
        eprintln!("{cell}: {:.1} s", began.elapsed().as_secs_f64());
    }
    report
}

async fn tasks(
    cell: Cell,
    bytes: usize,
    in_flight: usize,
    options: &Options,
    agents: &Agents,
    barrier: &mut Barrier,
) -> TaskRow {
    let bare = Bare::start(cell.transport, agents).await;
    let ours = Ours::start(&options.daemon, cell.transport, agents).await;
    let text = "x".repeat(bytes);
    let payload = Bytes::from(text.clone());
    let (bare_pids, our_pids) = (bare.pids(), ours.pids());
    let mut bares = Gathered::default();
    let mut oursy = Gathered::default();
    let mut barriers = Vec::new();
    for _ in 0..options.rounds {
        let before = Times::now(&bare_pids);
        let slice = load::slice(in_flight, options.slice / 2, || bare.once(payload.clone())).await;
        bares.add(slice, &before, &bare_pids);
        let before = Times::now(&our_pids);
        let slice = load::slice(in_flight, options.slice, || ours.once(&text)).await;
        oursy.add(slice, &before, &our_pids);
        barriers.push(barrier.slice());
    }
    TaskRow {
        cell: cell.to_string(),
        in_flight,
        bare: bares.road(),
        ours: oursy.road(),
        barrier_us: median(barriers.iter().map(|one| one.single.as_secs_f64() * 1e6)),
        batched_rate: median(barriers.iter().map(|one| one.batched_rate())),
        memory: Memory::of(&our_pids),
    }
}

/// Processor times of the two nodes and of the ends (this process).
struct Times {
    nodes: Cpu,
    ends: Cpu,
}

impl Times {
    fn now(nodes: &[Pid]) -> Self {
        Self {
            nodes: Cpu::of_all(nodes),
            ends: Cpu::of(rustix::process::getpid()),
        }
    }
}

/// The slices of one road.
#[derive(Default)]
struct Gathered {
    slices: Vec<Slice>,
    nodes: Cpu,
    ends: Cpu,
}

impl Gathered {
    fn add(&mut self, slice: Slice, before: &Times, nodes: &[Pid]) {
        let now = Times::now(nodes);
        self.nodes.add(now.nodes.since(before.nodes));
        self.ends.add(now.ends.since(before.ends));
        self.slices.push(slice);
    }

    fn road(&self) -> Road {
        let over = |figure: fn(&Slice) -> f64| median(self.slices.iter().map(figure));
        let all: usize = self.slices.iter().map(|slice| slice.all).sum();
        let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / all.max(1) as f64;
        Road {
            rate: over(|slice| slice.rate),
            p50_ms: over(|slice| slice.p50.as_secs_f64() * 1e3),
            p99_ms: over(|slice| slice.p99.as_secs_f64() * 1e3),
            user_us: each(self.nodes.user),
            system_us: each(self.nodes.system),
            ends_us: each(self.ends.total()),
            tasks: all,
        }
    }
}
