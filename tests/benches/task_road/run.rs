//! A run: cell after cell, each with processes of its own; in each of them slices of the bare road, the
//! barrier and ours by turns, so that whatever else the machine does meets all three.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    bare::Bare,
    barrier::Barrier,
    cell::{Cell, Work},
    ends::Agents,
    load,
    options::Options,
    ours::Ours,
    report::Report,
    row::{Road, TaskRow},
    streaming,
    usage::{Memory, Times},
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
    let mut row = TaskRow {
        cell,
        in_flight,
        bare: Road::default(),
        ours: Road::default(),
        barriers: Vec::new(),
        memory: Memory::of(&our_pids),
    };
    for _ in 0..options.rounds {
        let before = Times::now(&bare_pids);
        let slice = load::slice(in_flight, options.slice / 2, || bare.once(payload.clone())).await;
        row.bare.add(slice, Times::now(&bare_pids).since(before));
        let barrier_before = barrier.slice();
        let before = Times::now(&our_pids);
        let slice = load::slice(in_flight, options.slice, || ours.once(&text)).await;
        row.ours.add(slice, Times::now(&our_pids).since(before));
        row.barriers.push(barrier_before.mean(barrier.slice()));
    }
    row.memory = Memory::of(&our_pids);
    row
}
