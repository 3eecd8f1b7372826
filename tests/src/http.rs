//! A small HTTP client for tests: JSON in, JSON or server-sent events out, nothing hidden.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

use crate::wait::within;

/// A client of one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    base: String,
    version: Option<String>,
    token: Option<String>,
    headers: Vec<(String, String)>,
    hyper: Hyper<HttpConnector, Full<Bytes>>,
}

/// An answer that was read whole.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; `Null` if it is empty.
    pub body: Value,
}

impl HttpClient {
    /// Of the server there.
    pub fn new(base: impl Into<String>) -> Self {
        Self {
            base: base.into(),
            version: None,
            token: None,
            headers: Vec::new(),
            hyper: Hyper::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// With this version of A2A in each request.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// With this Bearer token in each request.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// With this header in each request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Below this path.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.base.push_str(path);
        self
    }

    /// A request with this body and content type, whose answer has begun.
    ///
    /// # Panics
    /// When there is no answer.
    pub async fn begin(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: impl Into<Bytes>,
    ) -> http::Response<BoxBody<Bytes, String>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", media_type);
        if let Some(version) = &self.version {
            request = request.header("a2a-version", version);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.into())).expect("a legal request");
        let response = within("the server answers", self.hyper.request(request))
            .await
            .unwrap_or_else(|error| panic!("{}{path}: {error:?}", self.base));
        response.map(|body| body.map_err(|error| error.to_string()).boxed())
    }

    /// A request whose answer is read whole.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        body: impl Into<Bytes>,
    ) -> HttpAnswer {
        let response = self.begin(method, path, media_type, body).await;
        let (head, body) = response.into_parts();
        let bytes = within("the answer ends", body.collect())
            .await
            .expect("a whole answer")
            .to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
        };
        HttpAnswer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> HttpAnswer {
        self.request(Method::GET, path, "application/json", "").await
    }

    /// GET of what is no JSON: the status and the text.
    ///
    /// # Panics
    /// When there is no whole answer.
    pub async fn text(&self, path: &str) -> (StatusCode, String) {
        let response = self.begin(Method::GET, path, "text/plain", "").await;
        let (head, body) = response.into_parts();
        let body = within("the answer ends", body.collect())
            .await
            .expect("a whole answer");
        (
            head.status,
            String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        )
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.request(Method::POST, path, "application/json", body.to_string())
            .await
    }

    /// A call of JSON-RPC: the whole response.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.post("/", &call).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.body
    }

    /// A call of JSON-RPC that succeeds: its result.
    ///
    /// # Panics
    /// When it does not.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let mut answer = self.rpc(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// A call of JSON-RPC that fails: the code of its error.
    ///
    /// # Panics
    /// When it succeeds.
    pub async fn code(&self, method: &str, params: Value) -> i64 {
        let answer = self.rpc(method, params).await;
        answer["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// A call of JSON-RPC that is answered by a stream.
    ///
    /// # Panics
    /// When it is not.
    pub async fn stream(&self, method: &str, params: Value) -> SseEvents {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.events(Method::POST, "/", &call).await
    }

    /// A request that is answered by a stream.
    ///
    /// # Panics
    /// When it is not.
    pub async fn events(&self, method: Method, path: &str, body: &Value) -> SseEvents {
        let response = self
            .begin(method, path, "application/json", body.to_string())
            .await;
        let media_type = response.headers().get("content-type").cloned();
        let is_stream = media_type.is_some_and(|media_type| media_type == "text/event-stream");
        let status = response.status();
        let mut body = response.into_body();
        if !is_stream {
            let bytes = body.collect().await.expect("a whole answer").to_bytes();
            panic!(
                "{path} is no stream: {status} {}",
                String::from_utf8_lossy(&bytes)
            );
        }
        let (sender, chunks) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            // What breaks off is over.
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                if sender.send(data).await.is_err() {
                    break;
                }
            }
        });
        SseEvents {
            chunks,
            rest: BytesMut::new(),
            last_id: None,
        }
    }
}

/// Whether all readers of lines see the same lines: some end one at these characters too.
pub fn has_safe_line_breaks(text: &str) -> bool {
    !text.contains(['\u{85}', '\u{2028}', '\u{2029}'])
}

/// Server-sent events as they come. Dropping it closes the connection.
#[derive(Debug)]
pub struct SseEvents {
    chunks: tokio::sync::mpsc::Receiver<Bytes>,
    rest: BytesMut,
    last_id: Option<String>,
}

impl SseEvents {
    /// The data of the next event, as JSON; comments are passed over. `None` at the end.
    ///
    /// # Panics
    /// When it takes too long or is no JSON.
    pub async fn next(&mut self) -> Option<Value> {
        // Comments are no event, however many there are.
        within("an event comes", self.read()).await
    }

    /// The id of the last event that had one.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.rest.split_to(end + 2);
                let text = String::from_utf8_lossy(&block).into_owned();
                let id = text.lines().find_map(|line| line.strip_prefix("id:"));
                self.last_id = id.map(|id| id.trim().to_owned()).or(self.last_id.take());
                assert!(
                    has_safe_line_breaks(&text),
                    "a reader of lines takes this for more lines: {text:?}"
                );
                let data: Vec<&str> = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("data:"))
                    .map(str::trim_start)
                    .collect();
                if data.is_empty() {
                    continue;
                }
                return Some(serde_json::from_str(&data.join("\n")).expect("an event is JSON"));
            }
            self.rest.extend_from_slice(&self.chunks.recv().await?);
        }
    }

    /// The next event; there is one.
    pub async fn event(&mut self) -> Value {
        self.next().await.expect("the stream goes on")
    }
}
