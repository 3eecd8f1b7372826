//! One artifact streamed over each road in turn, from the agent's first byte until the sender has the last.

use std::time::Instant;

use bytes::Bytes;

use crate::{
    agent_runtime::AgentRuntime,
    bare_path::BarePath,
    case::BenchCase,
    daemon_path::DaemonPath,
    options::Options,
    table_row::{StreamPathResult, StreamRow},
    usage::{CpuTimes, NodeMemory},
};

/// Bytes of a chunk: the most that every node takes.
const CHUNK: usize = 64 << 10;

/// Measures the cell.
pub(crate) async fn measure(cell: BenchCase, options: &Options, agents: &AgentRuntime) -> StreamRow {
    let bare = BarePath::start(cell.transport, agents).await;
    let ours = DaemonPath::start(&options.daemon, cell.transport, agents).await;
    let (bare_pids, our_pids) = (bare.pids(), ours.pids());
    let memory = NodeMemory::from_pids(&our_pids);
    let mut row = StreamRow {
        cell,
        mib: options.stream_mib,
        bare: StreamPathResult::default(),
        ours: StreamPathResult::default(),
        before: memory,
        after: memory,
    };
    let chunks = (options.stream_mib << 20) / CHUNK;
    let payload = Bytes::from(vec![7; CHUNK]);
    for _ in 0..options.stream_rounds {
        let (before, began) = (CpuTimes::now(&bare_pids), Instant::now());
        bare.stream(payload.clone(), chunks).await;
        let took = began.elapsed();
        row.bare
            .rates
            .push(options.stream_mib as f64 / took.as_secs_f64());
        row.bare.times.add(CpuTimes::now(&bare_pids).since(before));
        let (before, began) = (CpuTimes::now(&our_pids), Instant::now());
        ours.stream(CHUNK, chunks).await;
        let took = began.elapsed();
        row.ours
            .rates
            .push(options.stream_mib as f64 / took.as_secs_f64());
        row.ours.times.add(CpuTimes::now(&our_pids).since(before));
    }
    row.after = NodeMemory::from_pids(&our_pids);
    row
}
