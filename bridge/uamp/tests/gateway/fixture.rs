//! A gateway on a port of its own, and a client over HTTP that signs envelopes.

use std::{path::Path, sync::Arc, time::Duration};

use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, request_counts::RequestCounts};
use agentanycast_gateway::{
    NodePort, external_routes::ExternalRoutes, fake::agents::FakeAgents, running::RunningGateway,
};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_uamp::{
    body::EnvelopeBody,
    delta::{Delta, DeltaType},
    envelope::{Envelope, EnvelopeDraft, EnvelopeId, Intent},
    jws::{SignatureForm, SigningIdentity},
    trust::TrustAnchors,
};
use agentanycast_uamp_gateway::{UampGateway, settings::UampSettings};
use futures::StreamExt as _;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::scripted::ScriptedNode;

/// How long anything may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The token of the one caller.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// The token of another one.
pub(crate) const OTHER_TOKEN: &str = "fedcba9876543210";

/// The result of what should not take long.
pub(crate) async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(SOON, what).await.expect("it takes too long")
}

pub(crate) fn gateway_identity() -> SigningIdentity {
    SigningIdentity::from_ed25519(&[1; 32])
}

pub(crate) fn sender() -> SigningIdentity {
    SigningIdentity::from_ed25519(&[2; 32])
}

pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    since.as_millis() as i64
}

/// A gateway, and the node before which it runs.
pub(crate) struct TestGateway {
    pub(crate) node: ScriptedNode,
    pub(crate) running: Option<RunningGateway>,
    /// What the gateway runs on, so that it can be killed.
    runtime: Option<Runtime>,
    pub(crate) external: Option<ExternalRoutes>,
    pub(crate) directory: tempfile::TempDir,
    seed: [u8; 32],
    settings: UampSettings,
    front: FrontSettings,
    keeps_address: bool,
}

impl TestGateway {
    pub(crate) async fn start() -> Self {
        Self::with(UampSettings::default()).await
    }

    pub(crate) async fn with(settings: UampSettings) -> Self {
        Self::with_identity(settings, [1; 32]).await
    }

    /// With callers that show a certificate of this authority.
    pub(crate) async fn with_authority(pem: &str) -> Self {
        Self::changed(UampSettings::default(), [1; 32], |front, directory| {
            let file = directory.join("ca.pem");
            std::fs::write(&file, pem).unwrap();
            front.auth.client_ca = Some(file);
        })
        .await
    }

    pub(crate) async fn without_certificate() -> Self {
        Self::changed(UampSettings::default(), [1; 32], |front, _| {
            (front.tls_cert, front.tls_key) = (None, None);
        })
        .await
    }

    /// Listens at the same address from now on.
    pub(crate) fn keep_address(&mut self) {
        self.front.listen = ListenOn(self.address().to_string());
        self.keeps_address = true;
    }

    /// Takes the callers that show no token, too.
    pub(crate) async fn open_to_all(&mut self) {
        self.front.auth.tokens_file = None;
        self.restart().await;
    }

    pub(crate) async fn with_identity(settings: UampSettings, seed: [u8; 32]) -> Self {
        Self::changed(settings, seed, |_, _| ()).await
    }

    async fn changed(
        settings: UampSettings,
        seed: [u8; 32],
        change: impl FnOnce(&mut FrontSettings, &Path),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("tokens"), format!("alice {TOKEN}\nbob {OTHER_TOKEN}\n")).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(file("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(file("key.pem"), made.key_pair.serialize_pem()).unwrap();
        let mut front = FrontSettings {
            listen: ListenOn("127.0.0.1:0".to_owned()),
            tls_cert: Some(file("cert.pem")),
            tls_key: Some(file("key.pem")),
            ..FrontSettings::default()
        };
        front.limits.rate = 0;
        front.max_body.0 = 1 << 20;
        front.auth.tokens_file = Some(file("tokens"));
        change(&mut front, directory.path());
        let mut gateway = Self {
            node: ScriptedNode::default(),
            running: None,
            runtime: None,
            external: None,
            directory,
            seed,
            settings,
            front,
            keeps_address: false,
        };
        gateway.restart().await;
        gateway
    }

    /// Stops it, and starts another one before the same node.
    pub(crate) async fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
        self.kill_and_start().await;
    }

    /// Drops all that it does, wherever that is, and starts another one before the same node.
    pub(crate) async fn kill_and_start(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        // An address that is kept is in use until the gateway before has let go of it.
        let started = async {
            loop {
                match self.try_start().await {
                    Ok(started) => return started,
                    Err(error) if self.keeps_address => {
                        eprintln!("it is started again: {error:#}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Err(error) => panic!("{error:#}"),
                }
            }
        };
        let (running, runtime) = soon(started).await;
        (self.running, self.runtime) = (Some(running), Some(runtime));
    }

    async fn try_start(&self) -> anyhow::Result<(RunningGateway, Runtime)> {
        let counts = Arc::new(RequestCounts::default());
        let front = Front::in_section("gateways.uamp.", self.front.clone(), counts)?;
        let node = NodePort {
            client: Arc::new(self.node.clone()),
            agents: Arc::new(FakeAgents::default()),
            external: self.external.clone(),
            key: None,
            home: Some(self.directory.path().to_owned()),
        };
        let identity = SigningIdentity::from_ed25519(&self.seed);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let starting = UampGateway::start_as(identity, node, front, self.settings.clone());
        match runtime.spawn(starting).await? {
            Ok(running) => Ok((running, runtime)),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// The certificate that it shows, PEM.
    pub(crate) fn certificate(&self) -> std::path::PathBuf {
        self.directory.path().join("cert.pem")
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.running.as_ref().unwrap().address().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address())
    }

    /// The value of one of its figures, over all labels.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let families = self.running.as_ref().unwrap().metrics().unwrap().families();
        let family = families.into_iter().find(|family| family.name == name).unwrap();
        match family.values {
            agentanycast_gateway::metrics::MetricValues::Counter(values)
            | agentanycast_gateway::metrics::MetricValues::Gauge(values) => {
                values.iter().map(|value| value.value).sum()
            }
            agentanycast_gateway::metrics::MetricValues::Histogram { .. } => panic!("{name} is a histogram"),
        }
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client over HTTP/2, or over HTTP/1.1 alone.
pub(crate) fn http(version_1: bool) -> Client {
    let builder = Client::builder().danger_accept_invalid_certs(true);
    let builder = if version_1 { builder.http1_only() } else { builder };
    builder.build().unwrap()
}

pub(crate) fn draft(intent: Intent, text: &str) -> EnvelopeDraft {
    let to = vec![gateway_identity().did().to_owned()];
    EnvelopeDraft::new(intent, to, EnvelopeBody::text("text/plain", text), now_ms())
}

pub(crate) fn signed(draft: &EnvelopeDraft) -> Vec<u8> {
    draft.sign_to_bytes(&sender(), SignatureForm::Detached).unwrap()
}

/// The envelope that acknowledges a frame.
pub(crate) fn ack(stream_id: &str, seq: u64) -> Vec<u8> {
    let mut ack = draft(Intent::Progress, "").with_stream_id(stream_id);
    ack.body = EnvelopeBody::json(&json!({ "ack": seq }));
    signed(&ack)
}

impl TestGateway {
    pub(crate) async fn post(&self, http: &Client, envelope: Vec<u8>) -> Response {
        self.post_as(TOKEN, http, envelope).await
    }

    /// With the token of a caller.
    pub(crate) async fn post_as(&self, token: &str, http: &Client, envelope: Vec<u8>) -> Response {
        let request = http
            .post(self.url("/v1/messages"))
            .bearer_auth(token)
            .header("content-type", "application/uamp+json;v=1")
            .body(envelope);
        soon(request.send()).await.unwrap()
    }

    /// Sends an envelope that is taken; the path of its stream.
    pub(crate) async fn ask(&self, http: &Client, draft: &EnvelopeDraft) -> String {
        let response = self.post(http, signed(draft)).await;
        let status = response.status();
        let location = response.headers().get("location").cloned();
        let text = response.text().await.unwrap();
        assert_eq!(status, StatusCode::ACCEPTED, "{text}");
        location.unwrap().to_str().unwrap().to_owned()
    }

    /// The status and the verified content of an error envelope.
    pub(crate) async fn refusal(&self, response: Response) -> (u16, Value) {
        let status = response.status().as_u16();
        let raw = soon(response.bytes()).await.unwrap();
        (status, error_content(&raw))
    }

    pub(crate) async fn events(&self, http: &Client, path: &str, last: Option<u64>) -> EventReader {
        let mut request = http.get(self.url(path)).bearer_auth(TOKEN);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = soon(request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        EventReader {
            bytes: response.bytes_stream().boxed(),
            buffer: Vec::new(),
        }
    }
}

/// The content of an error envelope that the gateway signed.
pub(crate) fn error_content(raw: &[u8]) -> Value {
    let envelope = Envelope::read(raw, 1 << 20).unwrap();
    assert_eq!(envelope.intent(), Intent::Error);
    verify(&envelope);
    serde_json::from_slice(&envelope.body().decode(1 << 20).unwrap()).unwrap()
}

pub(crate) fn verify(envelope: &Envelope) {
    let keys = TrustAnchors::default()
        .keys_for(envelope.from(), &envelope.signature().unwrap())
        .unwrap();
    envelope.verify(&keys[0]).unwrap();
    assert_eq!(envelope.from(), gateway_identity().did());
}

type BytesResult = Result<bytes::Bytes, reqwest::Error>;

/// Reads server-sent events.
pub(crate) struct EventReader {
    bytes: futures::stream::BoxStream<'static, BytesResult>,
    buffer: Vec<u8>,
}

impl EventReader {
    /// The next delta; `None`: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Delta> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(data) = field("data: ") {
                    let delta = Delta::read(data.as_bytes(), 1 << 20).unwrap();
                    assert_eq!(field("id: ").unwrap(), delta.seq.to_string());
                    return Some(delta);
                }
                continue;
            }
            match soon(self.bytes.next()).await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// All that is left.
    pub(crate) async fn rest(mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while let Some(delta) = self.next().await {
            deltas.push(delta);
        }
        deltas
    }

    /// What comes without waiting long; the stream goes on.
    pub(crate) async fn at_once(&mut self, count: usize) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while deltas.len() < count {
            deltas.push(self.next().await.expect("the stream has ended"));
        }
        deltas
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(300), self.next())
            .await
            .is_err()
    }
}

/// A delta without its time and the name of its stream.
pub(crate) fn said(delta: &Delta) -> (u64, DeltaType, Value) {
    (delta.seq, delta.kind, Value::Object(delta.payload.clone()))
}

pub(crate) fn answer(text: &str) -> Value {
    json!({ "artifacts": [{
        "artifact": "a", "name": "answer", "parts": [{ "mime": "text/plain", "content": text }],
    }] })
}

pub(crate) fn new_id() -> EnvelopeId {
    EnvelopeId::random()
}
