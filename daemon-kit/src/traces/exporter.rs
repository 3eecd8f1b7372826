//! The exporter: batches of spans, as OTLP over gRPC.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::Uri;
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, SpanKind as Kind, Status, TraceState},
};
use opentelemetry_otlp::{
    SpanExporter, WithExportConfig as _, WithTonicConfig as _, tonic_types::transport::ClientTlsConfig,
};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{TraceExporter, Traces, check, dialled};
use crate::{
    missing_feature::MissingFeature,
    spans::{OnSpan, Span, SpanKind},
};

/// It is in this program.
pub const MISSING: Option<MissingFeature> = None;

/// Spans that wait for the collector; each takes about a kilobyte.
const QUEUE: usize = 8192;

/// Most spans in one batch.
const BATCH: usize = 512;

/// How long the first span of a batch waits for others.
const COLLECT: Duration = Duration::from_secs(1);

/// How long the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last batch may take when the daemon stops.
const LAST: Duration = Duration::from_secs(2);

/// How often it is said at most that spans get lost.
const COMPLAIN: Duration = Duration::from_mins(1);

/// The collector's address is none.
#[derive(Debug, thiserror::Error)]
#[error("{endpoint:?} is no address of a collector ({cause}); use HOST:PORT or http(s)://HOST:PORT")]
pub struct InvalidCollector {
    endpoint: String,
    cause: String,
}

impl Traces {
    /// Tells the collector that is configured, whenever it is there.
    ///
    /// # Errors
    /// When its address is none.
    pub fn start(teller: TraceExporter<'_>, stop: CancellationToken) -> Result<Self, InvalidCollector> {
        let endpoint = dialled(teller.endpoint, teller.insecure);
        let mut exporter = exporter(teller, &endpoint)?;
        exporter.set_resource(
            &Resource::builder()
                .with_service_name(teller.service)
                .with_attributes([
                    KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                    KeyValue::new("service.instance.id", teller.instance.to_owned()),
                ])
                .build(),
        );
        let (spans, inbox) = mpsc::channel::<Span>(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let hear: OnSpan = {
            let lost = Arc::clone(&lost);
            Arc::new(move |span| {
                if spans.try_send(span).is_err() {
                    lost.fetch_add(1, Relaxed);
                }
            })
        };
        let task = tokio::spawn(run(exporter, endpoint, inbox, lost, stop));
        Ok(Self { hear, task })
    }
}

fn exporter(teller: TraceExporter<'_>, endpoint: &str) -> Result<SpanExporter, InvalidCollector> {
    let invalid = |cause: String| InvalidCollector {
        endpoint: teller.endpoint.to_owned(),
        cause,
    };
    check(endpoint).map_err(invalid)?;
    let builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(TIMEOUT);
    let builder = if endpoint.starts_with("https://") {
        builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots())
    } else {
        builder
    };
    builder.build().map_err(|error| invalid(error.to_string()))
}

/// What to look at when a collector does not take what it is sent: one that speaks the other way, with TLS or without,
/// ends the connection and does not say why.
fn advice(endpoint: &str) -> &'static str {
    if endpoint.starts_with("https://") {
        "see whether it runs; this is TLS, and many collectors speak plaintext: that is http://HOST:PORT"
    } else {
        "see whether it runs; this is plaintext, and where a collector wants TLS it is https://HOST:PORT"
    }
}

/// An address of a collector without what a log should not have.
fn shown(endpoint: &str) -> String {
    let url: Option<Uri> = endpoint.parse().ok();
    let parts = url.as_ref().and_then(|url| {
        let (scheme, host) = (url.scheme_str()?, url.host()?);
        Some(format!("{scheme}://{host}:{}", url.port_u16()?))
    });
    parts.unwrap_or_default()
}

async fn run(
    exporter: SpanExporter,
    endpoint: String,
    mut inbox: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
    stop: CancellationToken,
) {
    let mut complained: Option<tokio::time::Instant> = None;
    let mut batch = Vec::new();
    loop {
        let came = stop.run_until_cancelled(inbox.recv_many(&mut batch, BATCH)).await;
        let stopping = match came {
            Some(0) => return,
            Some(_) => fill(&mut inbox, &mut batch, &stop).await,
            None => {
                inbox.close();
                while let Some(span) = inbox.recv().await {
                    batch.push(span);
                }
                true
            }
        };
        let count = batch.len() as u64;
        let sent = exporter.export(batch.drain(..).map(data_of).collect());
        let sent = tokio::time::timeout(if stopping { LAST } else { TIMEOUT }, sent).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if failure.is_some() {
            lost.fetch_add(count, Relaxed);
        }
        let may_complain = complained.is_none_or(|at| at.elapsed() >= COMPLAIN);
        if may_complain && lost.load(Relaxed) > 0 {
            complained = Some(tokio::time::Instant::now());
            let spans = lost.swap(0, Relaxed);
            let advice = failure.as_ref().map(|_| advice(&endpoint));
            let reason = failure.unwrap_or_else(|| "the collector is slower than the work".to_owned());
            let endpoint = shown(&endpoint);
            tracing::warn!(
                spans,
                endpoint,
                reason,
                advice,
                "spans did not reach the collector"
            );
        }
        if stopping && inbox.is_closed() {
            return;
        }
    }
}

/// Waits for company for a batch. True: the daemon stops.
async fn fill(inbox: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>, stop: &CancellationToken) -> bool {
    let until = tokio::time::Instant::now() + COLLECT;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        tokio::select! {
            came = inbox.recv_many(batch, room) => if came == 0 { return true },
            () = tokio::time::sleep_until(until) => return false,
            () = stop.cancelled() => return false, // What waits goes with the next turn of the loop.
        }
    }
    false
}

fn data_of(span: Span) -> SpanData {
    let time = |unix: u64| -> SystemTime { UNIX_EPOCH + Duration::from_nanos(unix) };
    let kind = match span.kind {
        SpanKind::Client => Kind::Client,
        SpanKind::Server => Kind::Server,
        SpanKind::Producer => Kind::Producer,
    };
    let status = match span.error {
        Some(reason) => Status::error(reason),
        None => Status::Unset,
    };
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(span.trace_id),
            SpanId::from(span.span_id),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: SpanId::from(span.parent),
        parent_span_is_remote: span.kind != SpanKind::Producer && span.parent != 0,
        span_kind: kind,
        name: span.name.into(),
        start_time: time(span.start),
        end_time: time(span.end.max(span.start)),
        attributes: span
            .attributes
            .into_iter()
            .map(|(name, value)| KeyValue::new(name, value))
            .collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: InstrumentationScope::builder("agentanycast")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_spans_is_told_with_what_to_look_at() {
        assert_eq!(shown("https://joe:hunter2@otel:4317/x"), "https://otel:4317");
        assert_eq!(shown("http://[::1]:4317"), "http://[::1]:4317");
        assert!(advice("https://otel:4317").contains("this is TLS"));
        assert!(advice("http://otel:4317").contains("this is plaintext"));
    }
}
