//! Who calls, as far as the system says: the process on the other end of a Unix socket, else the connection; and the
//! largest message that its library takes.

use std::sync::Arc;

use agentanycast_core::CallerKey;
use tonic::{Request, metadata::MetadataMap};

use super::listen::CallerInfo;
use crate::service::Caller;

/// The metadata in which a caller names the largest message it takes, in bytes.
const MAX_MESSAGE_KEY: &str = "agentanycast-max-message";

/// For callers that name none: gRPC libraries take 4 MiB, less what surrounds the message.
const DEFAULT_MAX_MESSAGE: usize = 3_670_016;

/// Who makes a call.
pub(super) fn caller_of<T>(request: &Request<T>) -> Caller {
    let info = request.extensions().get::<CallerInfo>();
    let connection = info.map_or(0, |info| info.connection.0);
    Caller {
        connection,
        key: match info.map(|info| (&info.agent, &info.process)) {
            Some((Some(agent), _)) => CallerKey::AgentSocket(Arc::clone(agent)),
            Some((None, Some(process))) => CallerKey::Process(Arc::clone(process)),
            _ => CallerKey::Connection(connection),
        },
        pid: info.map_or(0, |info| info.pid),
        is_in_process: false,
        max_answer: max_message(request.metadata()).unwrap_or(DEFAULT_MAX_MESSAGE),
    }
}

fn max_message(metadata: &MetadataMap) -> Option<usize> {
    let bytes: usize = metadata.get(MAX_MESSAGE_KEY)?.to_str().ok()?.parse().ok()?;
    Some(bytes.clamp(64 << 10, agentanycast_proto::MAX_GRPC_MESSAGE))
}
