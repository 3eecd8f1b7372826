//! A client of UAMP agents over HTTP: reads manifests, sends signed envelopes, follows streams. Used by the
//! gateway for `uamp+https` URLs, and by programs.
//!
//! Invariant: connections go through the filter of egress, and a token goes to its own host only.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_egress::{
    client::{AnswerBody, CertificatePins, HostClient, HttpCall, in_utf8, read, read_prefix},
    error::{CALLER_SETTING, Kind, OutboundError, PRIVATE_SETTING, ROOTS_SETTING, excerpt},
};
use agentanycast_gateways::outbound::{Credentials, HostConfig, Secret};
use agentanycast_uamp::{
    delta::Delta,
    envelope::Envelope,
    event_lines::DeltaEvents,
    jws::SigningIdentity,
    manifest::{MAX_MANIFEST, UampManifest},
    trust::TrustAnchors,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use url::Url;

/// How long an answer may take to begin.
const WITHIN: Duration = Duration::from_mins(1);

/// How long a stream may be silent: agents say every 15 s that they are alive.
const SILENCE: Duration = Duration::from_mins(1);

/// Largest refusal that is read, in bytes.
const MAX_REFUSAL: usize = 64 << 10;

/// How an agent is reached.
#[derive(Clone, Debug, Default)]
pub struct UampClientSettings {
    /// It may be on this host or a private network.
    pub allow_private: bool,
    /// The file with the token that is shown to it.
    pub token_file: Option<PathBuf>,
    /// Roots that its certificate may lead to besides the usual ones, PEM.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to it, PEM, and its key.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Which of its certificates are taken by their keys, though they lead to no root.
    pub pins: Option<Arc<dyn CertificatePins>>,
}

/// A client of one agent.
pub struct UampClient {
    http: HostClient,
    base: Url,
}

impl UampClient {
    /// Of the agent at `https://HOST`.
    ///
    /// # Errors
    /// When it is not such a URL, or a file cannot be used.
    pub fn new(base: &str, settings: &UampClientSettings) -> anyhow::Result<Self> {
        let base = Url::parse(base)?;
        let uri: Uri = base.as_str().parse()?;
        anyhow::ensure!(
            base.scheme() == "https" && uri.host().is_some(),
            "{base} is not an https:// URL; UAMP has no plaintext"
        );
        let (client_cert, client_key) = settings.client_certificate.clone().unzip();
        let host = HostConfig {
            allow_private: settings.allow_private,
            credentials: match &settings.token_file {
                Some(file) => Credentials::Bearer(Secret::File(file.clone())),
                None => Credentials::None,
            },
            client_cert,
            client_key,
            ca: settings.ca.clone(),
            ..HostConfig::default()
        };
        let http = HostClient::with_pins(&host, settings.allow_private, settings.pins.clone())?;
        Ok(Self { http, base })
    }

    /// The agent's manifest, verified, and the DID of its key.
    ///
    /// # Errors
    /// When it cannot be read, or its signature does not fit.
    pub async fn manifest(&self, anchors: &TrustAnchors) -> Result<(UampManifest, String), OutboundError> {
        let call = self.call(
            Method::GET,
            "/.well-known/agent-manifest.json",
            Vec::new(),
            Bytes::new(),
        )?;
        let response = self.open(call).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await);
        }
        let text = read(response.into_body(), MAX_MANIFEST).await?;
        UampManifest::read(&String::from_utf8_lossy(&text), anchors)
            .map_err(|error| OutboundError::permanent(format!("its manifest is not taken: {error}")))
    }

    /// Sends an envelope; the place of the stream that answers it.
    ///
    /// # Errors
    /// What the agent said no to, or why it was not reached.
    pub async fn send(&self, envelope: Vec<u8>) -> Result<Option<String>, OutboundError> {
        let kind = (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/uamp+json;v=1"),
        );
        let call = self.call(Method::POST, "/v1/messages", vec![kind], envelope.into())?;
        let response = self.open(call).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let location = response.headers().get(header::LOCATION);
        let location = location
            .and_then(|location| location.to_str().ok())
            .map(str::to_owned);
        // The connection is used again when the answer was read.
        let _ = read_prefix(response.into_body(), MAX_REFUSAL).await;
        Ok(location)
    }

    /// Follows a stream behind the frame `last`.
    ///
    /// # Errors
    /// As [`UampClient::send`].
    pub async fn follow(&self, location: &str, last: Option<u64>) -> Result<DeltaReader, OutboundError> {
        let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("text/event-stream"))];
        if let Some(last) = last {
            headers.push((HeaderName::from_static("last-event-id"), last.into()));
        }
        let call = self.call(Method::GET, location, headers, Bytes::new())?;
        let response = self.open(call).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response).await);
        }
        Ok(DeltaReader {
            body: response.into_body(),
            events: DeltaEvents::default(),
            read: VecDeque::new(),
            fault: None,
            heard: Instant::now(),
        })
    }

    async fn open(&self, call: HttpCall) -> Result<Response<AnswerBody>, OutboundError> {
        self.http.open(call).await.map_err(with_own_settings)
    }

    fn call(
        &self,
        method: Method,
        place: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpCall, OutboundError> {
        let url = self
            .base
            .join(place)
            .map_err(|error| OutboundError::permanent(format!("{place:?} is not a place of it: {error}")))?;
        if url.origin() != self.base.origin() {
            return Err(OutboundError::permanent(
                "its stream is at another host, which is not followed",
            ));
        }
        Ok(HttpCall {
            method,
            url: url.to_string(),
            headers,
            body,
            within: WITHIN,
        })
    }
}

/// The same error with the settings of this gateway, where it names those of the bridge.
fn with_own_settings(error: OutboundError) -> OutboundError {
    let reason = error
        .to_string()
        .replace(ROOTS_SETTING, "set in gateways.uamp.outbound_ca")
        .replace(CALLER_SETTING, "set in gateways.uamp.outbound_tokens")
        .replace(PRIVATE_SETTING, "set gateways.uamp.outbound_private = true");
    error.with_reason(reason)
}

/// The error of an answer, in the words of its error envelope if it has one.
async fn refusal(response: Response<AnswerBody>) -> OutboundError {
    let status = response.status().as_u16();
    let after = response.headers().get(header::RETRY_AFTER);
    let after = after
        .and_then(|after| after.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let (head, body) = response.into_parts();
    let body = in_utf8(&head.headers, read_prefix(body, MAX_REFUSAL).await);
    let said = error_text(&body).unwrap_or_else(|| excerpt(&body));
    let error = with_own_settings(OutboundError::from_status(status, &said));
    let error = match status {
        // The stream is not there, or not so far: it is gone on with from what is known.
        404 | 409 => OutboundError::new(Kind::TaskGone, error.to_string()),
        _ => error,
    };
    error.with_retry_after(after)
}

fn error_text(body: &[u8]) -> Option<String> {
    let envelope = Envelope::read(body, MAX_REFUSAL).ok()?;
    let content = envelope.body().decode(MAX_REFUSAL).ok()?;
    let content = agentanycast_readers::json::value(&content).ok()?;
    let text = |name: &str| {
        content
            .get(name)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    };
    Some(format!("{} {}", text("code"), text("message")).trim().to_owned())
}

/// The deltas of a stream as they come.
pub struct DeltaReader {
    body: AnswerBody,
    events: DeltaEvents,
    read: VecDeque<Delta>,
    /// Why nothing more can be read.
    fault: Option<OutboundError>,
    heard: Instant,
}

impl DeltaReader {
    /// The next delta; `None`: the answer has ended.
    ///
    /// # Errors
    /// When it broke off, was silent for too long, or has something that is not a delta.
    pub async fn next(&mut self) -> Result<Option<Delta>, OutboundError> {
        loop {
            if let Some(delta) = self.read.pop_front() {
                return Ok(Some(delta));
            }
            if let Some(fault) = &self.fault {
                return Err(fault.clone());
            }
            let frame = match tokio::time::timeout(SILENCE, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    return Err(OutboundError::new(
                        Kind::Broken,
                        format!("its stream broke off: {error}"),
                    ));
                }
                Ok(None) => {
                    self.events.finish(&mut self.read);
                    return Ok(self.read.pop_front());
                }
                Err(_) => {
                    let text = format!("its stream was silent for {} s", SILENCE.as_secs());
                    return Err(OutboundError::new(Kind::Broken, text));
                }
            };
            self.heard = Instant::now();
            let Ok(bytes) = frame.into_data() else { continue };
            // What came before a fault is given first.
            if let Err(error) = self.events.take(&bytes, &mut self.read) {
                let text = format!("its stream is not one of UAMP: {error}");
                self.fault = Some(OutboundError::permanent(text));
            }
        }
    }

    /// When bytes came last, signs of life too; before any, when the stream was opened.
    pub fn last_heard(&self) -> Instant {
        self.heard
    }

    /// Deltas that have come and were not taken yet.
    pub fn ready(&self) -> usize {
        self.read.len()
    }
}

/// The envelope that acknowledges all frames of a stream up to one.
///
/// # Errors
/// As [`agentanycast_uamp::envelope::EnvelopeDraft::sign`].
pub fn acknowledgement(
    identity: &SigningIdentity,
    form: agentanycast_uamp::jws::SignatureForm,
    receiver: &str,
    stream_id: &str,
    seq: u64,
    time_ms: i64,
) -> Result<Vec<u8>, agentanycast_uamp::error::UampError> {
    use agentanycast_uamp::{
        body::EnvelopeBody,
        envelope::{EnvelopeDraft, Intent},
    };
    let body = EnvelopeBody::json(&serde_json::json!({ "ack": seq }));
    EnvelopeDraft::new(Intent::Progress, vec![receiver.to_owned()], body, time_ms)
        .with_stream_id(stream_id)
        .sign_to_bytes(identity, form)
}
