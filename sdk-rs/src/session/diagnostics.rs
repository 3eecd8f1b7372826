//! The calls that look into what the daemon does.

use agentanycast_proto::v1;

use super::Session;
use crate::error::{Error, Subject};

impl Session {
    pub(crate) async fn trace_task(
        &self,
        request: v1::TraceTaskRequest,
    ) -> Result<v1::TraceTaskResponse, Error> {
        let rpc = |_, request: v1::TraceTaskRequest| {
            let mut client = self.diagnostics.clone();
            async move { client.trace_task(request).await }
        };
        self.call(Subject::Task, request, rpc).await
    }

    pub(crate) async fn ping_peer(
        &self,
        request: v1::PingPeerRequest,
    ) -> Result<v1::PingPeerResponse, Error> {
        let rpc = |_, request: v1::PingPeerRequest| {
            let mut client = self.diagnostics.clone();
            async move { client.ping_peer(request).await }
        };
        self.call(Subject::Peer, request, rpc).await
    }

    pub(crate) async fn activity(
        &self,
        request: v1::GetActivityRequest,
    ) -> Result<v1::GetActivityResponse, Error> {
        let rpc = |_, request: v1::GetActivityRequest| {
            let mut client = self.diagnostics.clone();
            async move { client.get_activity(request).await }
        };
        self.call(Subject::Node, request, rpc).await
    }
}
