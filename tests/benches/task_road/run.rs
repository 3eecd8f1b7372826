//! A run: cell after cell, each with processes of its own; in each of them slices of the bare road, the
//! barrier and ours by turns, so that whatever else the machine does meets all three.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    agent_runtime::AgentRuntime,
    bare_path::BarePath,
    barrier::Barrier,
    case::{BenchCase, Workload},
    daemon_path::DaemonPath,
    load,
    options::Options,
    report::BenchReport,
    streaming,
    table_row::{PathResult, TaskRow},
    usage::{CpuTimes, NodeMemory},
};

/// Measures all cells of the run.
pub(crate) async fn run(options: &Options) -> BenchReport {
    let agents = AgentRuntime::start();
    let mut barrier = Barrier::new();
    let mut report = BenchReport::new(options);
    for cell in &options.cells {
        let began = Instant::now();
        match cell.work {
            Workload::Tasks { bytes, in_flight } => {
                let row = tasks(*cell, bytes, in_flight, options, &agents, &mut barrier).await;
                report.tasks.push(row);
            }
            Workload::Stream => report
                .streams
                .push(streaming::measure(*cell, options, &agents).await),
        }
        eprintln!("{cell}: {:.1} s", began.elapsed().as_secs_f64());
    }
    report
}

async fn tasks(
    cell: BenchCase,
    bytes: usize,
    in_flight: usize,
    options: &Options,
    agents: &AgentRuntime,
    barrier: &mut Barrier,
) -> TaskRow {
    let bare = BarePath::start(cell.transport, agents).await;
    let ours = DaemonPath::start(&options.daemon, cell.transport, agents).await;
    let text = "x".repeat(bytes);
    let payload = Bytes::from(text.clone());
    let (bare_pids, our_pids) = (bare.pids(), ours.pids());
    let mut row = TaskRow {
        cell,
        in_flight,
        bare: PathResult::default(),
        ours: PathResult::default(),
        barriers: Vec::new(),
        memory: NodeMemory::from_pids(&our_pids),
    };
    for _ in 0..options.rounds {
        let before = CpuTimes::now(&bare_pids);
        let slice = load::slice(in_flight, options.slice / 2, || bare.once(payload.clone())).await;
        row.bare.add(slice, CpuTimes::now(&bare_pids).since(before));
        let barrier_before = barrier.slice();
        let before = CpuTimes::now(&our_pids);
        let slice = load::slice(in_flight, options.slice, || ours.once(&text)).await;
        row.ours.add(slice, CpuTimes::now(&our_pids).since(before));
        row.barriers.push(barrier_before.mean(barrier.slice()));
    }
    row.memory = NodeMemory::from_pids(&our_pids);
    row
}
