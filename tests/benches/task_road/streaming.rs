//! One artifact streamed over each road in turn, from the agent's first byte until the sender has the last.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    bare::Bare,
    cell::Cell,
    ends::Agents,
    load::median,
    options::Options,
    ours::Ours,
    report::{Memory, StreamRow},
};

/// Bytes of a chunk: the most that every node takes.
const CHUNK: usize = 64 << 10;

/// Measures the cell.
pub(crate) async fn measure(cell: Cell, options: &Options, agents: &Agents) -> StreamRow {
    let bare = Bare::start(cell.transport, agents).await;
    let ours = Ours::start(&options.daemon, cell.transport, agents).await;
    let before = Memory::of(&ours.pids());
    let chunks = (options.stream_mib << 20) / CHUNK;
    let payload = Bytes::from(vec![7; CHUNK]);
    let (mut bare_rates, mut our_rates) = (Vec::new(), Vec::new());
    for _ in 0..options.stream_rounds {
        let began = Instant::now();
        bare.stream(payload.clone(), chunks).await;
        bare_rates.push(options.stream_mib as f64 / began.elapsed().as_secs_f64());
        let began = Instant::now();
        ours.stream(CHUNK, chunks).await;
        our_rates.push(options.stream_mib as f64 / began.elapsed().as_secs_f64());
    }
    StreamRow {
        cell: cell.to_string(),
        mib: options.stream_mib,
        bare: median(bare_rates),
        ours: median(our_rates),
        before,
        after: Memory::of(&ours.pids()),
    }
}
