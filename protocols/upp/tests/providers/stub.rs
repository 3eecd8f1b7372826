//! A server on a free port that gives prepared answers and keeps the requests.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use futures::stream;
use serde_json::Value;

/// A prepared answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Ends the connection with an error behind the body.
    pub(crate) breaks: bool,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            breaks: false,
        }
    }

    pub(crate) fn json(body: &Value) -> Self {
        Self::new(200, body.to_string())
    }

    /// Server-sent events of these values.
    pub(crate) fn events(events: &[Value], end: &str) -> Self {
        let lines: Vec<_> = events
            .iter()
            .map(|event| format!("event: x\ndata: {event}\n\n"))
            .collect();
        let lines = lines.concat();
        Self::new(200, format!("{lines}{end}"))
    }
}

/// What a client sent.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

type StubState = Arc<Mutex<(VecDeque<Answer>, Vec<Seen>)>>;

/// The server; it ends with the runtime of the test.
pub(crate) struct Stub {
    pub(crate) url: String,
    shared: StubState,
}

impl Stub {
    pub(crate) async fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let shared: StubState = Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new())));
        let app = Router::new().fallback(answer).with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, shared }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().unwrap().1.clone()
    }
}

async fn answer(State(shared): State<StubState>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let seen = Seen {
        path,
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let answer = {
        let mut shared = shared.lock().unwrap();
        shared.1.push(seen);
        shared
            .0
            .pop_front()
            .unwrap_or_else(|| Answer::new(500, "no answer is prepared"))
    };
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap());
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    // Small pieces, so that lines and characters are cut.
    let mut pieces: Vec<Result<Bytes, std::io::Error>> = answer
        .body
        .chunks(7)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    if answer.breaks {
        pieces.push(Err(std::io::Error::other("the server fails")));
    }
    response.body(Body::from_stream(stream::iter(pieces))).unwrap()
}
