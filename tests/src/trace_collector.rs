//! The collector of traces that a test plays.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::Span,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::Daemon;

/// Keeps the spans that it is told, each with the instance that it is of. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct TraceCollector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for TraceCollector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_node in request.into_inner().resource_spans {
            let resource = of_node.resource.unwrap_or_default();
            let node = resource
                .attributes
                .iter()
                .find(|attribute| attribute.key == "service.instance.id")
                .map(|attribute| format!("{:?}", attribute.value))
                .unwrap_or_default();
            let spans = of_node.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let mut kept = self.0.lock().unwrap();
            kept.extend(spans.map(|span| (node.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl TraceCollector {
    /// On a free port; its address.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = TraceServiceServer::new(collector.clone());
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        (collector, address)
    }

    /// All of them, with the instances that they are of.
    ///
    /// # Panics
    /// When a test has failed that looked at them.
    pub fn all_spans(&self) -> Vec<(String, Span)> {
        self.0.lock().unwrap().clone()
    }

    /// The spans of an instance with this name.
    pub fn spans_of(&self, instance: &str, name: &str) -> Vec<Span> {
        let mut all = self.all_spans();
        all.retain(|(of, span)| of.contains(instance) && span.name == name);
        all.into_iter().map(|(_, span)| span).collect()
    }

    /// The spans of a daemon with this name.
    pub fn daemon_spans(&self, daemon: &Daemon, name: &str) -> Vec<Span> {
        self.spans_of(daemon.peer_id().as_ref(), name)
    }
}
