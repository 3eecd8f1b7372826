//! Sends spans to an OpenTelemetry collector (OTLP over gRPC), in batches and in the background.
//!
//! The one rule: nobody waits for the collector. What it does not take in time is dropped, counted and logged once
//! in a while. Without the feature `traces` the exporter is left out, and what stands in its place refuses to start.

use std::sync::Arc;

use http::Uri;
use tokio::task::JoinHandle;

use crate::{missing_feature::MissingFeature, spans::OnSpan};

#[cfg(feature = "traces")]
mod exporter;
#[cfg(not(feature = "traces"))]
#[path = "traces/no_exporter.rs"]
mod exporter;

pub use exporter::MISSING;

/// What a program says that the exporter is left out of.
pub const LEFT_OUT: MissingFeature = MissingFeature {
    part: "trace exporter",
    feature: "telemetry",
};

/// Where collectors listen by default, in plaintext (OpenTelemetry specification, "OTLP Exporter Configuration").
const DEFAULT_ENDPOINT: &str = "http://localhost:4317";

/// What addresses of collectors look like, for people.
pub const COLLECTOR: &str = "HOST:PORT or http(s)://HOST:PORT of a collector, with a port from 1 to 65535";

/// Who tells which collector.
#[derive(Clone, Copy, Debug)]
pub struct TraceExporter<'a> {
    /// The program.
    pub service: &'static str,
    /// Its peer id.
    pub instance: &'a str,
    /// Where the collector is: `HOST:PORT` or `http(s)://HOST:PORT`; empty: the default of collectors on this host.
    pub endpoint: &'a str,
    /// `HOST:PORT` is dialled in plaintext instead of TLS.
    pub insecure: bool,
}

/// The way to the collector.
pub struct Traces {
    /// Hands a span over.
    pub hear: OnSpan,
    /// Ends some time after `stop`, when what waited is sent.
    pub task: JoinHandle<()>,
}

impl Traces {
    /// Tells no collector.
    pub fn off() -> Self {
        Self {
            hear: Arc::new(|_| ()),
            task: tokio::spawn(std::future::ready(())),
        }
    }
}

/// Whether a collector can be dialled there; empty stands for the default.
pub fn is_collector(endpoint: &str) -> bool {
    check(&dialled(endpoint, false)).is_ok()
}

/// The URL that a setting means.
fn dialled(endpoint: &str, insecure: bool) -> String {
    let named = match endpoint {
        "" => DEFAULT_ENDPOINT,
        named => named,
    };
    match (named.contains("://"), insecure) {
        (true, _) => named.to_owned(),
        (false, true) => format!("http://{named}"),
        (false, false) => format!("https://{named}"),
    }
}

/// What the exporter would find out only when it dials.
fn check(endpoint: &str) -> Result<(), String> {
    let url: Uri = endpoint
        .parse()
        .map_err(|error: http::uri::InvalidUri| error.to_string())?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err("its scheme is neither http nor https".to_owned());
    }
    match url.port_u16() {
        None | Some(0) => Err("it names no port, 1 to 65535".to_owned()),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As OpenTelemetry's specification has it, but that a collector without scheme has TLS unless that is turned off.
    #[test]
    fn a_collector_is_dialled_as_its_address_says() {
        for (endpoint, insecure, url) in [
            ("", false, "http://localhost:4317"),
            ("", true, "http://localhost:4317"),
            ("otel:4317", false, "https://otel:4317"),
            ("otel:4317", true, "http://otel:4317"),
            ("http://otel:4317", false, "http://otel:4317"),
            ("https://otel:4317", true, "https://otel:4317"),
        ] {
            assert_eq!(dialled(endpoint, insecure), url);
        }
    }

    #[test]
    fn a_collector_is_somewhere_that_can_be_dialled() {
        for good in [
            "http://localhost:4317",
            "https://[::1]:443",
            "https://collector.example.org:4317/",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "ftp://x:1",
            "http://x",
            "http://x:99999",
            "http://x:0",
            "https://",
            "http://a b:1",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
