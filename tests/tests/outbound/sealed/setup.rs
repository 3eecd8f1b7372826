//! Three daemons and a proxy: the agent's, the one with the bridge, and the sender's, which reaches the agent by the proxy
//! before the bridge and by nothing else.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use agentanycast::{Node, PeerId};
use agentanycast_tests::{Daemon, DaemonPair, TransportKind, daemon_pair::wait_connected};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{Uri, header},
    response::Response,
};
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How the sender and the bridge speak.
#[derive(Clone, Copy)]
pub(super) struct BindingVariant {
    binding: &'static str,
    version: &'static str,
    streaming: bool,
}

impl BindingVariant {
    /// Over JSON-RPC.
    pub(super) fn new(version: &'static str, streaming: bool) -> Self {
        Self {
            binding: "JSONRPC",
            version,
            streaming,
        }
    }

    /// Over REST.
    pub(super) fn rest(version: &'static str) -> Self {
        Self {
            binding: "HTTP+JSON",
            ..Self::new(version, true)
        }
    }
}

/// What the proxy changes in what is asked and answered. Streams it passes on as they are.
#[derive(Clone, Copy)]
pub(super) struct Tampering(pub(super) fn(&mut Value));

impl Tampering {
    #[allow(non_upper_case_globals, reason = "it reads as a word")]
    pub(super) const nothing: Self = Self(|_| ());
}

pub(super) struct SealedSetup {
    /// The agent's daemon.
    pub(super) agent: Daemon,
    /// The one with the bridge.
    pub(super) bridge: Daemon,
    /// The sender's.
    pub(super) home: Daemon,
    pub(super) sender: Node,
    proxy: TamperingProxy,
}

impl SealedSetup {
    pub(super) async fn new(way: BindingVariant, change: Tampering) -> Self {
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let pair = DaemonPair::from_builders(daemon(), daemon().bridge());
        let outbound = "[bridge.outbound]\nallow_private = true\npatience = \"5s\"\n";
        let (pair, home) = tokio::join!(pair, Daemon::builder().config(outbound).start());
        let proxy = TamperingProxy::start(pair.bob.bridge(), way, change).await;
        let sender = home.node().await;
        Self {
            agent: pair.alice,
            bridge: pair.bob,
            home,
            sender,
            proxy,
        }
    }

    /// Where the sender reaches the agent.
    pub(super) fn url(&self) -> String {
        format!("http://{}/agents/{}", self.proxy.address, self.reader())
    }

    /// For whom it seals.
    pub(super) fn reader(&self) -> PeerId {
        self.agent.peer_id().clone()
    }

    /// The SDK's connection for the agent.
    pub(super) async fn agents(&self) -> Node {
        self.agent.node_named("Reader").await
    }

    /// All that has passed the proxy, both ways.
    pub(super) fn heard(&self) -> String {
        let heard = self.proxy.heard.lock().unwrap();
        String::from_utf8_lossy(&heard).into_owned()
    }

    /// The proxy sends the last message on its own, once more, and waits for its end; the answer.
    pub(super) async fn say_again(&self) -> Value {
        let mut call: Value = self.proxy.message.lock().unwrap().clone().unwrap();
        call["params"]["configuration"] = json!({});
        let path = format!("/agents/{}", self.reader());
        let client = agentanycast_tests::http::HttpClient::new(format!("http://{}", self.bridge.bridge()));
        let client = client.version("1.0");
        client
            .begin(http::Method::POST, &path, "application/json", call.to_string())
            .await
            .into_body()
            .collect()
            .await
            .map(|body| serde_json::from_slice(&body.to_bytes()).unwrap())
            .unwrap()
    }

    /// The daemons of both ends fall and come back.
    pub(super) async fn restart(&mut self) {
        self.home.kill().await;
        self.agent.kill().await;
        self.home.restart().await;
        self.agent.restart().await;
        self.sender = self.home.node().await;
        wait_connected(&self.bridge.node().await, &self.agent).await;
    }
}

struct TamperingProxy {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    /// The last message that was sent.
    message: Arc<Mutex<Option<Value>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TamperingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct ProxyForwarder {
    to: SocketAddr,
    way: BindingVariant,
    change: Tampering,
    heard: Arc<Mutex<Vec<u8>>>,
    message: Arc<Mutex<Option<Value>>>,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl TamperingProxy {
    async fn start(to: SocketAddr, way: BindingVariant, change: Tampering) -> Self {
        let forwarder = ProxyForwarder {
            to,
            way,
            change,
            heard: Arc::default(),
            message: Arc::default(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        };
        let (heard, message) = (Arc::clone(&forwarder.heard), Arc::clone(&forwarder.message));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(move |request: Request| {
            let forwarder = forwarder.clone();
            async move { forwarder.pass(request).await }
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            heard,
            message,
            task,
        }
    }
}

impl ProxyForwarder {
    async fn pass(&self, request: Request) -> Response {
        let (mut head, body) = request.into_parts();
        let body = self.changed(body.collect().await.unwrap().to_bytes());
        if let Ok(call) = serde_json::from_slice::<Value>(&body)
            && !call["params"]["message"].is_null()
        {
            *self.message.lock().unwrap() = Some(call);
        }
        let path = head.uri.path_and_query().unwrap();
        // The host stays the proxy's, so that cards lead here.
        head.uri = format!("http://{}{path}", self.to).parse::<Uri>().unwrap();
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::ACCEPT_ENCODING);
        let request = Request::from_parts(head, Full::new(body));
        let (mut head, body) = self.client.request(request).await.unwrap().into_parts();
        let kind = head.headers.get(header::CONTENT_TYPE).cloned();
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            let heard = Arc::clone(&self.heard);
            let pieces = body.into_data_stream().map(move |piece| {
                let piece = piece.map_err(|error| error.to_string())?;
                heard.lock().unwrap().extend_from_slice(&piece);
                Ok::<_, String>(piece)
            });
            return Response::from_parts(head, Body::from_stream(pieces));
        }
        let body = self.changed(body.collect().await.unwrap().to_bytes());
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::ETAG);
        Response::from_parts(head, Body::from(body))
    }

    /// What passes, as it is passed on.
    fn changed(&self, body: Bytes) -> Bytes {
        let Ok(mut json) = serde_json::from_slice::<Value>(&body) else {
            self.heard.lock().unwrap().extend_from_slice(&body);
            return body;
        };
        if json["capabilities"].is_object() {
            self.point(&mut json);
        } else {
            (self.change.0)(&mut json);
        }
        let body = Bytes::from(json.to_string());
        self.heard.lock().unwrap().extend_from_slice(&body);
        body
    }

    /// Leaves in a card the one way that is to be gone.
    fn point(&self, card: &mut Value) {
        card["capabilities"]["streaming"] = self.way.streaming.into();
        if let Some(interfaces) = card["supportedInterfaces"].as_array_mut() {
            interfaces.retain(|interface| {
                interface["protocolBinding"] == self.way.binding
                    && interface["protocolVersion"] == self.way.version
            });
        }
    }
}
