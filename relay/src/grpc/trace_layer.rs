//! Calls as spans of a distributed trace: each call of our services is one, a child of the context that came with it, or the
//! begin of a trace of its own. What a caller says of itself is not in it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use agentanycast_daemon_kit::spans::{self, OnSpan, Span, SpanKind};
use axum::http::{HeaderMap, Request, Response};
use rand::RngExt as _;
use tonic::Code;
use tower::{Layer, Service};

use super::{federation, registry};

/// Where calls are told.
#[derive(Clone)]
pub struct SpanRecorder {
    on_span: OnSpan,
    /// Of the traces that begin here, how many are told, 0 to 1.
    share: f64,
}

impl SpanRecorder {
    /// Tells this share of the traces that begin here, and all others that are sampled.
    pub fn new(on_span: OnSpan, share: f64) -> Self {
        Self { on_span, share }
    }

    /// The call that begins; none when nobody is told of it.
    fn begin(&self, path: &str, headers: &HeaderMap) -> Option<CallSpan> {
        let name = registry::PATHS
            .iter()
            .chain(&federation::PATHS)
            .find(|known| **known == path)?;
        let parent = headers
            .get("traceparent")
            .and_then(|value| spans::Context::parse(value.to_str().ok()?));
        let mut rng = rand::rng();
        let (trace_id, parent, sampled) = match parent {
            Some(parent) => (parent.trace_id, parent.span_id, parent.sampled),
            None => (rng.random_range(1..=u128::MAX), 0, rng.random_bool(self.share)),
        };
        sampled.then(|| CallSpan {
            on_span: Arc::clone(&self.on_span),
            name: name.trim_start_matches('/'),
            trace_id,
            span_id: rng.random_range(1..=u64::MAX),
            parent,
            start: now(),
            begun: Instant::now(),
        })
    }
}

/// A call that is being answered.
struct CallSpan {
    on_span: OnSpan,
    name: &'static str,
    trace_id: u128,
    span_id: u64,
    parent: u64,
    /// By the wall clock.
    start: u64,
    begun: Instant,
}

impl CallSpan {
    fn end(self, code: Code) {
        let (service, method) = self.name.split_once('/').unwrap_or((self.name, ""));
        (self.on_span)(Span {
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent: self.parent,
            name: self.name,
            kind: SpanKind::Server,
            start: self.start,
            // A clock that is set meanwhile changes no duration.
            end: self
                .start
                .saturating_add(crate::clock::nanos(self.begun.elapsed())),
            error: is_our_failure(code).then(|| code.description().to_owned()),
            attributes: vec![
                ("rpc.system", "grpc".to_owned()),
                ("rpc.service", service.to_owned()),
                ("rpc.method", method.to_owned()),
                ("rpc.grpc.status_code", (code as i32).to_string()),
            ],
        });
    }
}

/// Whether a server has failed that answers so: OpenTelemetry, "Semantic conventions for gRPC".
fn is_our_failure(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// Unix nanoseconds.
fn now() -> u64 {
    crate::clock::nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Tells of the calls of a service, if there is somebody to tell.
#[derive(Clone)]
pub(super) struct CallTraceLayer(pub(super) Option<SpanRecorder>);

impl<S> Layer<S> for CallTraceLayer {
    type Service = CallTraceService<S>;

    fn layer(&self, service: S) -> CallTraceService<S> {
        CallTraceService {
            service,
            recorder: self.0.clone(),
        }
    }
}

/// The service.
#[derive(Clone)]
pub(super) struct CallTraceService<S> {
    service: S,
    recorder: Option<SpanRecorder>,
}

impl<S, B, A> Service<Request<B>> for CallTraceService<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let recorder = self.recorder.as_ref();
        let call = recorder.and_then(|recorder| recorder.begin(request.uri().path(), request.headers()));
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(call) = call {
                // A call that failed has its status in the head; one that did not has it behind the answer.
                let code = answer.headers().get("grpc-status");
                call.end(code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes())));
            }
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";

    /// What is told of a call with this context and this end.
    fn told(share: f64, path: &str, parent: Option<&str>, code: Code) -> Option<Span> {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&spans);
        let recorder = SpanRecorder::new(Arc::new(move |span| heard.lock().unwrap().push(span)), share);
        let mut headers = HeaderMap::new();
        if let Some(parent) = parent {
            headers.insert("traceparent", parent.parse().unwrap());
        }
        if let Some(call) = recorder.begin(path, &headers) {
            call.end(code);
        }
        spans.lock().unwrap().pop()
    }

    #[test]
    fn every_path_of_ours_is_told_and_no_other() {
        for path in registry::PATHS.iter().chain(&federation::PATHS) {
            let span = told(1.0, path, None, Code::Ok).unwrap();
            assert_eq!((format!("/{}", span.name).as_str(), span.parent), (*path, 0));
            assert!(span.trace_id != 0 && span.span_id != 0 && span.start <= span.end);
        }
        assert_eq!(
            told(1.0, "/agentanycast.v1.RegistryService/Nothing", None, Code::Ok),
            None
        );
        assert_eq!(told(1.0, "/grpc.health.v1.Health/Check", None, Code::Ok), None);
    }

    #[test]
    fn whoever_began_a_trace_decides() {
        let path = registry::PATHS[0];
        let of = |share, flag| told(share, path, Some(&format!("{PARENT}{flag}")), Code::Ok);
        assert_eq!((of(1.0, 0), told(0.0, path, None, Code::Ok)), (None, None));
        let span = of(0.0, 1).unwrap();
        assert_eq!(
            (span.trace_id, span.parent),
            (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
        );
        assert!(told(1.0, path, Some("nonsense"), Code::Ok).is_some_and(|span| span.parent == 0));
    }

    #[test]
    fn a_refusal_is_the_callers_and_a_failure_ours() {
        let error = |code| told(1.0, registry::PATHS[0], None, code).unwrap().error;
        assert_eq!(error(Code::PermissionDenied), None);
        assert!(error(Code::DataLoss).is_some());
    }
}
