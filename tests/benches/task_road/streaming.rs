//! One artifact streamed over each road in turn, from the agent's first byte until the sender has the last.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    bare::Bare,
    cell::Cell,
    ends::Agents,
    options::Options,
    ours::Ours,
    row::{StreamRoad, StreamRow},
    usage::{Memory, Times},
};

/// Bytes of a chunk: the most that every node takes.
const CHUNK: usize = 64 << 10;

/// Measures the cell.
pub(crate) async fn measure(cell: Cell, options: &Options, agents: &Agents) -> StreamRow {
    let bare = Bare::start(cell.transport, agents).await;
    let ours = Ours::start(&options.daemon, cell.transport, agents).await;
    let (bare_pids, our_pids) = (bare.pids(), ours.pids());
    let memory = Memory::of(&our_pids);
    let mut row = StreamRow {
        cell,
        mib: options.stream_mib,
        bare: StreamRoad::default(),
        ours: StreamRoad::default(),
        before: memory,
        after: memory,
    };
    let chunks = (options.stream_mib << 20) / CHUNK;
    let payload = Bytes::from(vec![7; CHUNK]);
    for _ in 0..options.stream_rounds {
        let (before, began) = (Times::now(&bare_pids), Instant::now());
        bare.stream(payload.clone(), chunks).await;
        let took = began.elapsed();
        row.bare
            .rates
            .push(options.stream_mib as f64 / took.as_secs_f64());
        row.bare.times.add(Times::now(&bare_pids).since(before));
        let (before, began) = (Times::now(&our_pids), Instant::now());
        ours.stream(CHUNK, chunks).await;
        let took = began.elapsed();
        row.ours
            .rates
            .push(options.stream_mib as f64 / took.as_secs_f64());
        row.ours.times.add(Times::now(&our_pids).since(before));
    }
    row.after = Memory::of(&our_pids);
    row
}
