//! A small agent over HTTP, of A2A 1.0 over JSON-RPC, that answers as a test wants it to; and a daemon before it.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use agentanycast::{Node, Target, TaskHandle};
use agentanycast_tests::{Daemon, task_assertions::not_completed};
use axum::{
    Router,
    body::Bytes,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    serve::Listener,
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

/// A request that came, and has been read.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    /// Empty: there is none.
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedRequest {
    /// The JSON-RPC call in it.
    pub(crate) fn call(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An agent that runs until it is dropped.
pub(crate) struct HttpAgent {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: tokio::task::JoinHandle<()>,
}

impl HttpAgent {
    /// Answers everything by this.
    pub(crate) async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(ReceivedRequest, SocketAddr) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self::on(listener, address, answer)
    }

    /// One with a card of this version, which answers calls by this.
    pub(crate) async fn answering(
        version: &'static str,
        streaming: bool,
        answer: impl Fn(&ReceivedRequest) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |asked: ReceivedRequest, address| {
            let answer = if is_card(&asked) {
                card(&format!("http://{address}/rpc"), version, streaming)
            } else {
                answer(&asked)
            };
            async { answer }
        })
        .await
    }

    /// The same over TLS.
    pub(crate) async fn over_tls<F, A>(tls: ServerConfig, answer: F) -> Self
    where
        F: Fn(ReceivedRequest, SocketAddr) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Self::on(TlsAccept { tcp, acceptor }, address, answer)
    }

    fn on<L, F, A>(listener: L, address: SocketAddr, answer: F) -> Self
    where
        L: Listener,
        L::Addr: std::fmt::Debug,
        F: Fn(ReceivedRequest, SocketAddr) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let answer = move |request: Request| -> ResponseFuture {
            let (kept, answer) = (Arc::clone(&kept), answer.clone());
            Box::pin(async move {
                let (head, body) = request.into_parts();
                let asked = ReceivedRequest {
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    headers: head.headers,
                    body: body.collect().await.unwrap().to_bytes(),
                };
                kept.lock().unwrap().push(asked.clone());
                answer(asked, address).await
            })
        };
        let router = Router::new().fallback(answer);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, asked, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// How often this method was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        let asked = self.asked();
        asked
            .iter()
            .filter(|asked| asked.call()["method"] == method)
            .count()
    }
}

impl Drop for HttpAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct TlsAccept {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsAccept {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.tcp.accept().await.unwrap();
            // Those that are not let in are part of the tests.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// The card of an agent whose only interface is there.
pub(crate) fn card(url: &str, version: &str, streaming: bool) -> Response {
    let interface = json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
    ok(&json!({
        "name": "agent", "description": "", "version": "1", "skills": [],
        "capabilities": {"streaming": streaming}, "supportedInterfaces": [interface],
    }))
}

/// A JSON-RPC result.
pub(crate) fn result(result: &Value) -> Response {
    ok(&json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}

/// An answer that is no task.
pub(crate) fn said(text: &str) -> Response {
    result(&json!({"message": {"messageId": "said", "role": "ROLE_AGENT", "parts": [{"text": text}]}}))
}

pub(crate) fn ok(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(crate) fn status(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap().into_response()
}

pub(crate) fn is_card(asked: &ReceivedRequest) -> bool {
    asked.path.ends_with("/.well-known/agent-card.json")
}

/// A daemon with these lines in `[bridge.outbound]`.
pub(crate) async fn daemon(outbound: &str) -> (Daemon, Node) {
    let config = format!("[bridge.outbound]\npatience = \"2s\"\ntimeout = \"2s\"\n{outbound}");
    let daemon = Daemon::builder().config(&config).start().await;
    let node = daemon.node().await;
    (daemon, node)
}

pub(crate) async fn send(node: &Node, url: &str) -> TaskHandle {
    node.task(Target::url(url), "hello").send().await.unwrap()
}

/// Why a task that is sent there fails.
pub(crate) async fn reason(node: &Node, url: &str) -> String {
    let error = not_completed(&send(node, url).await).await;
    let reason = error.task().unwrap().reason();
    assert!(!reason.contains('\n') && reason.len() < 1000, "{reason}");
    reason
}

/// An agent that says hi to each message.
pub(crate) async fn greeter() -> HttpAgent {
    HttpAgent::start(async |asked, address| {
        if is_card(&asked) {
            card(&format!("http://{address}/"), "1.0", false)
        } else {
            said("hi")
        }
    })
    .await
}
