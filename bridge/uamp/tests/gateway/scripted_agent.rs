//! An agent of UAMP whose streams follow a script: it takes every ask and keeps all envelopes that come.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agentanycast_uamp::{
    envelope::{Envelope, Intent},
    jws::SigningIdentity,
    manifest::{ManifestLimits, UampManifest},
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        version::TLS13,
    },
    server::TlsStream,
};
use tokio_util::task::AbortOnDropHandle;

use crate::fixture::now_ms;

/// What one opening of the stream gives.
pub(crate) struct StreamScript {
    /// The text of the body.
    pub(crate) text: String,
    /// The answer goes on without a word after it.
    pub(crate) stays_open: bool,
}

impl StreamScript {
    /// These events; then the answer ends.
    pub(crate) fn events(deltas: impl IntoIterator<Item = Value>) -> Self {
        let events = deltas.into_iter().map(|delta| format!("data: {delta}\n\n"));
        Self {
            text: events.collect(),
            stays_open: false,
        }
    }
}

/// A frame of the stream.
pub(crate) fn frame(seq: u64, kind: &str, payload: &Value) -> Value {
    let ts = agentanycast_uamp::delta::Delta::acknowledgement("s", 0, now_ms()).to_value()["ts"].clone();
    json!({ "delta_seq": seq, "stream_id": "s", "ts": ts, "type": kind, "payload": payload })
}

type Script = dyn Fn(usize, Option<u64>) -> StreamScript + Send + Sync;

struct ScriptedState {
    identity: SigningIdentity,
    envelopes: Mutex<Vec<Envelope>>,
    /// `Last-Event-ID` of each opening.
    opened: Mutex<Vec<Option<u64>>>,
    script: Box<Script>,
}

/// The agent.
pub(crate) struct ScriptedAgent {
    state: Arc<ScriptedState>,
    address: SocketAddr,
    pub(crate) certificate: PathBuf,
    _directory: tempfile::TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl ScriptedAgent {
    /// `script` gives the answer of an opening, by its number from 0 on and its `Last-Event-ID`.
    pub(crate) async fn start(
        script: impl Fn(usize, Option<u64>) -> StreamScript + Send + Sync + 'static,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificate = directory.path().join("cert.pem");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.key_pair.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TlsListener {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let address = listener.tcp.local_addr().unwrap();
        let state = Arc::new(ScriptedState {
            identity: SigningIdentity::from_ed25519(&[5; 32]),
            envelopes: Mutex::default(),
            opened: Mutex::default(),
            script: Box::new(script),
        });
        let router = Router::new()
            .route("/.well-known/agent-manifest.json", get(manifest))
            .route("/v1/messages", post(message))
            .route("/v1/stream/s", get(open))
            .with_state(Arc::clone(&state));
        let serving = async move { axum::serve(listener, router).await.unwrap() };
        Self {
            state,
            address,
            certificate,
            _directory: directory,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("uamp+https://localhost:{}", self.address.port())
    }

    /// The intents of the envelopes so far.
    pub(crate) fn intents(&self) -> Vec<Intent> {
        self.envelopes().iter().map(Envelope::intent).collect()
    }

    pub(crate) fn envelopes(&self) -> Vec<Envelope> {
        self.state.envelopes.lock().unwrap().clone()
    }

    /// `Last-Event-ID` of each opening of the stream so far.
    pub(crate) fn opened(&self) -> Vec<Option<u64>> {
        self.state.opened.lock().unwrap().clone()
    }
}

struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (tcp, address) = self.tcp.accept().await.unwrap();
            if let Ok(tls) = self.acceptor.accept(tcp).await {
                return (tls, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

async fn manifest(State(state): State<Arc<ScriptedState>>) -> String {
    let manifest = UampManifest {
        agent: "uamp/1.0".to_owned(),
        description: "Follows a script".to_owned(),
        intents: vec!["ask".to_owned()],
        body_types: vec!["text/plain".to_owned()],
        auth: Vec::new(),
        limits: ManifestLimits::default(),
    };
    manifest.sign(&state.identity)
}

async fn message(State(state): State<Arc<ScriptedState>>, body: Bytes) -> Response {
    let envelope = Envelope::read(&body, 1 << 20).unwrap();
    let opens = envelope.intent().opens_stream();
    state.envelopes.lock().unwrap().push(envelope);
    if opens {
        (StatusCode::ACCEPTED, [(header::LOCATION, "/v1/stream/s")]).into_response()
    } else {
        StatusCode::ACCEPTED.into_response()
    }
}

async fn open(State(state): State<Arc<ScriptedState>>, headers: HeaderMap) -> Response {
    let last = headers
        .get("last-event-id")
        .map(|last| last.to_str().unwrap().parse().unwrap());
    let number = {
        let mut opened = state.opened.lock().unwrap();
        opened.push(last);
        opened.len() - 1
    };
    let script = (state.script)(number, last);
    let text = stream::iter([Ok::<_, std::io::Error>(Bytes::from(script.text))]);
    let body = if script.stays_open {
        Body::from_stream(text.chain(stream::pending()))
    } else {
        Body::from_stream(text)
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
