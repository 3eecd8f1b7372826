//! Results that are there, and those that are still being produced. PURE.

use agentanycast_gateway::is_reference;
use agentanycast_proto::v1::{self, Part};

/// How a node marks a stream that did not end well.
const STREAM_END: &str = "agentanycast-stream-end";

/// Whether a result that is shown by reference has not ended yet.
fn is_open(artifact: &v1::Artifact) -> bool {
    let broken = |part: &Part| part.metadata.contains_key(STREAM_END);
    artifact.size_bytes == 0 && !artifact.parts.iter().any(broken)
}

/// The task without results that are still being produced.
pub(crate) fn finished_results(mut task: v1::Task) -> v1::Task {
    task.artifacts.retain(is_finished);
    task
}

/// Whether a result is all there, if only by reference.
pub(crate) fn is_finished(artifact: &v1::Artifact) -> bool {
    !is_reference(artifact) || !is_open(artifact)
}
