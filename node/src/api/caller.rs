//! Who calls, as far as the system says: the process on the other end of a Unix socket, else the connection.

use std::sync::Arc;

use agentanycast_core::CallerKey;
use tonic::Request;

use super::listen::CallerInfo;

/// Who makes a call.
pub(super) fn caller_key<T>(request: &Request<T>) -> CallerKey {
    let Some(caller) = request.extensions().get::<CallerInfo>() else {
        return CallerKey::Connection(0);
    };
    match (&caller.agent, &caller.process) {
        (Some(agent), _) => CallerKey::AgentSocket(Arc::clone(agent)),
        (None, Some(process)) => CallerKey::Process(Arc::clone(process)),
        (None, None) => CallerKey::Connection(caller.connection.0),
    }
}
