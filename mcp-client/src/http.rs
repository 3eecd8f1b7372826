//! A server of streamable HTTP: each message of ours is a POST, which is answered by a document or by a
//! stream of events; a stream that breaks off is gone on with where the server numbers its events.
//!
//! Invariant: a POST with a request has ended it when it returns without an error.

use std::{sync::OnceLock, time::Duration};

use agentanycast_readers::{
    body::{readable, words},
    excerpt::excerpt,
    json,
    sse::SseReader,
};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, LOCATION},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    failure::{FailureKind, McpFailure},
    message,
    param_headers::text_of_header,
    revision::Revision,
    shared::ConnectionState,
};

/// Most of the body of an error, in bytes.
const MOST_OF_ERROR: usize = 64 << 10;

/// How often a broken stream is gone on with in a row without an event.
const MOST_TRIES: u32 = 5;

/// The pause before that, where the server does not ask for another, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a message without an answer may take.
const TELL_WITHIN: Duration = Duration::from_secs(30);

/// The header with the session.
const SESSION: &str = "mcp-session-id";

/// A server of streamable HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpWire {
    pub(crate) http: Client,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    /// Largest document and largest event, in bytes.
    pub(crate) max: usize,
}

/// Why a POST has no answer.
#[derive(Debug)]
pub(crate) struct PostFailure {
    /// The status, where there was one.
    pub(crate) status: Option<u16>,
    pub(crate) failure: McpFailure,
}

impl From<McpFailure> for PostFailure {
    fn from(failure: McpFailure) -> Self {
        Self {
            status: None,
            failure,
        }
    }
}

/// A message that is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting<'a> {
    pub(crate) revision: &'a Revision,
    pub(crate) message: &'a Value,
    /// Headers of its parameters.
    pub(crate) headers: &'a [(String, String)],
    /// The session that the server begins with its answer.
    pub(crate) session: &'a OnceLock<String>,
}

/// How a stream of events ended.
enum StreamEnd {
    /// The request is answered.
    Answered,
    /// The stream broke off; why.
    Broken(String),
}

impl HttpWire {
    /// Posts a request, and takes all that is said beside its answer.
    pub(crate) async fn post(
        &self,
        shared: &ConnectionState,
        id: u64,
        posting: Posting<'_>,
    ) -> Result<(), PostFailure> {
        let response = self.send(posting).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(response).await);
        }
        if let Some(session) = header(&response, SESSION) {
            let _ = posting.session.set(session.to_owned());
        }
        let kind = header(&response, CONTENT_TYPE.as_str())
            .unwrap_or_default()
            .to_ascii_lowercase();
        if kind.starts_with("text/event-stream") {
            self.follow(shared, id, posting.revision, response).await?;
            return Ok(());
        }
        let encoding = header(&response, CONTENT_ENCODING.as_str())
            .unwrap_or_default()
            .to_owned();
        let body = match body(response, self.max).await {
            Ok(Some(body)) => body,
            Ok(None) => {
                let max = self.max;
                let text = format!("the MCP server sent a message of more than {max} bytes; it was dropped");
                return Err(McpFailure::unreadable(text).into());
            }
            Err(error) => return Err(broken(&error).into()),
        };
        let document = json::value(&body);
        if document.is_err() && !kind.starts_with("application/json") {
            let text = format!(
                "the MCP server answered {status} with Content-Type {kind:?}, which is no answer of MCP: {}",
                words(&readable(&body, &kind, &encoding))
            );
            return Err(McpFailure::unreadable(text).into());
        }
        self.reply(posting.revision, shared.take(document, &body, Some(id)));
        if shared.is_open(id) {
            let text = format!(
                "the MCP server sent an answer that cannot be read: {}",
                excerpt(&body)
            );
            return Err(McpFailure::unreadable(text).into());
        }
        Ok(())
    }

    /// Posts a message that has no answer.
    pub(crate) async fn tell(&self, revision: &Revision, message: &Value) {
        let posting = Posting {
            revision,
            message,
            headers: &[],
            session: &OnceLock::new(),
        };
        match timeout(TELL_WITHIN, self.send(posting)).await {
            Ok(Ok(response)) if response.status().is_success() => {}
            Ok(Ok(response)) => {
                tracing::debug!(status = %response.status(), "an MCP server refused a notification or an answer");
            }
            Ok(Err(_)) => tracing::debug!("an MCP server was not told something"),
            Err(_) => tracing::debug!("an MCP server was not told something in time"),
        }
    }

    /// Opens the stream of what the server says beside all answers, and takes it until it ends; the status by
    /// which it is refused, if it is.
    pub(crate) async fn listen(
        &self,
        shared: &ConnectionState,
        revision: &Revision,
        last: &mut Option<String>,
    ) -> Option<u16> {
        let response = self.get(revision, last.as_deref()).send().await.ok()?;
        let kind = header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if !response.status().is_success() || !kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Some(response.status().as_u16());
        }
        let mut events = SseReader::new(self.max);
        self.take_events(shared, None, revision, response, &mut events)
            .await;
        *last = events.last_id().map(str::to_owned).or(last.take());
        None
    }

    /// Ends the session.
    pub(crate) async fn delete(&self, revision: &Revision) {
        if revision.session.is_some() {
            // A server may refuse it, and has its own limit for sessions then.
            let _ = self
                .with_headers(self.http.delete(&self.url), revision)
                .send()
                .await;
        }
    }

    /// Takes the stream that answers a request, and goes on with it where it breaks off.
    async fn follow(
        &self,
        shared: &ConnectionState,
        id: u64,
        revision: &Revision,
        mut response: Response,
    ) -> Result<(), McpFailure> {
        let (mut last, mut tries, mut pause) = (None::<String>, 0, PAUSE);
        loop {
            let mut events = SseReader::new(self.max);
            let reason = match self
                .take_events(shared, Some(id), revision, response, &mut events)
                .await
            {
                StreamEnd::Answered => return Ok(()),
                StreamEnd::Broken(reason) => reason,
            };
            if let Some(id) = events.last_id() {
                if last.as_deref() != Some(id) {
                    tries = 0;
                }
                last = Some(id.to_owned());
            }
            pause = events.retry().unwrap_or(pause).min(LONGEST_PAUSE);
            let Some(last) = &last else {
                return Err(McpFailure::ended(reason));
            };
            response = loop {
                tries += 1;
                if tries > MOST_TRIES {
                    return Err(McpFailure::ended(reason));
                }
                sleep(pause).await;
                match self.get(revision, Some(last)).send().await {
                    Ok(response) if response.status().is_success() => break response,
                    Ok(response) if response.status().is_server_error() => {}
                    Ok(response) => {
                        let status = response.status();
                        return Err(McpFailure::ended(format!(
                            "{reason}, and it does not go on: {status}"
                        )));
                    }
                    Err(_) => {}
                }
            };
        }
    }

    /// Takes the events of a stream until its request is answered, or to the end.
    async fn take_events(
        &self,
        shared: &ConnectionState,
        id: Option<u64>,
        revision: &Revision,
        mut response: Response,
        events: &mut SseReader,
    ) -> StreamEnd {
        let is_open = || id.is_none_or(|id| shared.is_open(id));
        let take = |event: Vec<u8>| {
            // An event without data only has an id.
            if !event.trim_ascii().is_empty() {
                self.reply(revision, shared.take(json::value(&event), &event, id));
            }
        };
        loop {
            let (came, reason) = match response.chunk().await {
                Ok(Some(bytes)) => match events.take(&bytes) {
                    Ok(came) => (came, None),
                    Err(error) => {
                        let text = format!("the MCP server sent a message that is too large: {error}");
                        if let Some(id) = id {
                            shared.finish(id, Err(McpFailure::unreadable(text)));
                        }
                        return StreamEnd::Answered;
                    }
                },
                Ok(None) => {
                    let reason = "the MCP server ended its answer without a result";
                    (events.finish(), Some(reason.to_owned()))
                }
                Err(error) => (Vec::new(), Some(broken(&error).to_string())),
            };
            came.into_iter().for_each(take);
            match reason {
                _ if !is_open() => return StreamEnd::Answered,
                Some(reason) => return StreamEnd::Broken(reason),
                None => {}
            }
        }
    }

    /// Answers what the server asked.
    fn reply(&self, revision: &Revision, answers: Vec<Value>) {
        for answer in answers {
            let (wire, revision) = (self.clone(), revision.clone());
            tokio::spawn(async move { wire.tell(&revision, &answer).await });
        }
    }

    async fn send(&self, posting: Posting<'_>) -> Result<Response, McpFailure> {
        let Posting {
            revision, message, ..
        } = posting;
        let mut request = self
            .with_headers(self.http.post(&self.url), revision)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if revision.is_stateless() {
            let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
            request = request.header("Mcp-Method", method);
            if let (Some(name), "tools/call") = (message["params"]["name"].as_str(), method) {
                request = request.header("Mcp-Name", text_of_header(name));
            }
            for (name, value) in posting.headers {
                request = request.header(name, value);
            }
        }
        request
            .body(message.to_string())
            .send()
            .await
            .map_err(|error| not_sent(&error))
    }

    fn get(&self, revision: &Revision, last: Option<&str>) -> RequestBuilder {
        let request = self
            .with_headers(self.http.get(&self.url), revision)
            .header(ACCEPT, "text/event-stream");
        match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        }
    }

    fn with_headers(&self, mut request: RequestBuilder, revision: &Revision) -> RequestBuilder {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &revision.session {
            request = request.header(SESSION, session);
        }
        if revision.version.is_empty() {
            return request;
        }
        request.header("MCP-Protocol-Version", &revision.version)
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The refusal of a request by a status.
async fn refused(response: Response) -> PostFailure {
    let status = response.status();
    let place = header(&response, LOCATION.as_str()).map(str::to_owned);
    let read = |name: &str| header(&response, name).unwrap_or_default().to_owned();
    let (kind, encoding) = (read(CONTENT_TYPE.as_str()), read(CONTENT_ENCODING.as_str()));
    let body = body(response, MOST_OF_ERROR)
        .await
        .ok()
        .flatten()
        .unwrap_or_default();
    let body = readable(&body, &kind, &encoding);
    let error = json::value(&body)
        .ok()
        .and_then(|body| body.get("error").cloned());
    let refusal = error
        .filter(|error| error.get("message").is_some())
        .map(|error| message::refusal(&error));
    let words = match &refusal {
        Some(refusal) => format!(": {refusal}"),
        None if body.trim_ascii().is_empty() => String::new(),
        None => format!(": {}", words(&body)),
    };
    let more = match (status, place) {
        (status, Some(place)) if status.is_redirection() => {
            format!(
                "; redirects are not followed, give the URL {}",
                excerpt(place.as_bytes())
            )
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            "; it wants a token, or another one".to_owned()
        }
        _ => String::new(),
    };
    let text = format!("the MCP server answered {status}{words}{more}");
    let failure = match refusal.and_then(|refusal| refusal.code()) {
        Some(code) => McpFailure::refused(code, text),
        None => McpFailure::new(FailureKind::Refused, text),
    };
    // A server or a proxy before it says by these that it is not ready.
    let is_unready = matches!(status.as_u16(), 429 | 502 | 503 | 504);
    let may_pass = is_unready || status.is_server_error() && failure.may_pass();
    let failure = failure.passing(may_pass);
    PostFailure {
        status: Some(status.as_u16()),
        failure,
    }
}

/// The body of a response; `None`: it has more than `max` bytes.
async fn body(mut response: Response, max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        if body.len() + bytes.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&bytes);
    }
    Ok(Some(body))
}

fn not_sent(error: &reqwest::Error) -> McpFailure {
    if error.is_connect() || error.is_builder() {
        let text = format!("the MCP server cannot be reached: {}", causes(error));
        return McpFailure::new(FailureKind::NotDone, text);
    }
    broken(error)
}

fn broken(error: &reqwest::Error) -> McpFailure {
    McpFailure::ended(format!(
        "the connection to the MCP server broke: {}",
        causes(error)
    ))
}

/// An error with the errors below it, without its URL.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = next {
        let words = error.to_string();
        if !text.ends_with(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
        next = error.source();
    }
    if text.is_empty() {
        "no reason is known".to_owned()
    } else {
        text
    }
}
