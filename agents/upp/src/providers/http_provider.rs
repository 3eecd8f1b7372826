//! Sends the requests of an adapter with reqwest, and reads the answers with bounds.

use std::{collections::VecDeque, pin::Pin, sync::OnceLock, time::SystemTime};

use async_trait::async_trait;
use futures::{
    Stream, StreamExt as _,
    stream::{self, Peekable},
};
use serde_json::Value;

use super::{
    dialect::{Dialect, Flow, Framing, HttpCall, StreamDecoder},
    line_reader::{MAX_ANSWER_BYTES, event_data, lines},
    reply_json::code_of_kind,
};
use crate::{
    error::{ErrorCode, UppError},
    event::StreamEvent,
    keys::ApiKey,
    provider::{Provider, ProviderEvent, ProviderStream, Request, Response},
    wire::{message_of_error_body, parse_retry_after},
};

/// How much of the body of an error is read; its sentence is in the first lines.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// How many characters of an error without a sentence are shown.
const SHOWN_CHARACTERS: usize = 200;

/// A provider behind HTTP.
#[derive(Debug)]
pub(super) struct HttpProvider<D> {
    dialect: D,
    // Made at the first request, since it reads the certificates of the system.
    client: OnceLock<reqwest::Client>,
}

impl<D: Dialect> HttpProvider<D> {
    pub(super) fn new(dialect: D) -> Self {
        Self {
            dialect,
            client: OnceLock::new(),
        }
    }

    /// Why there is no stream: the error in the JSON that came instead of one.
    fn not_streamed(&self, body: &[u8], request: &Request) -> UppError {
        let body: Value = match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(error) => {
                let message = format!("the answer is neither a stream of events nor JSON: {error}");
                return UppError::invalid_response(message).with_source(error);
            }
        };
        // Gemini wraps the object into a list.
        let body = body.get(0).unwrap_or(&body);
        let whole = self.dialect.response(body, request);
        whole.err().unwrap_or_else(|| {
            UppError::invalid_response("the provider answers whole where a stream is asked for")
        })
    }

    fn client(&self) -> Result<&reqwest::Client, UppError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("agentanycast/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| network_error(&error))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Sends a request; an answer that is not a success is an error.
    async fn send(&self, request: &mut Request, streamed: bool) -> Result<reqwest::Response, UppError> {
        if request.api_key.is_none() {
            let key = D::KEY_VARIABLE.and_then(|name| std::env::var(name).ok());
            request.api_key = key.map(ApiKey::from);
        }
        let HttpCall { url, headers, body } = self.dialect.call(request, streamed)?;
        let accept = if streamed && D::FRAMING == Framing::Events {
            "text/event-stream"
        } else {
            "application/json"
        };
        let mut call = self
            .client()?
            .post(url)
            .header("accept", accept)
            .header("content-type", "application/json");
        for (name, value) in headers {
            call = call.header(name, value);
        }
        for (name, value) in &request.config.headers {
            call = call.header(name, value);
        }
        let response = call
            .body(body.to_string())
            .send()
            .await
            .map_err(|error| network_error(&error))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(error_of(response).await)
        }
    }
}

#[async_trait]
impl<D: Dialect> Provider for HttpProvider<D> {
    fn name(&self) -> &str {
        D::NAME
    }

    async fn complete(&self, mut request: Request) -> Result<Response, UppError> {
        let response = self.send(&mut request, false).await?;
        let body = read_body(response, MAX_ANSWER_BYTES).await?;
        let body: Value = serde_json::from_slice(&body).map_err(|error| {
            UppError::invalid_response(format!("the answer is not JSON: {error}")).with_source(error)
        })?;
        self.dialect.response(&body, &request)
    }

    async fn stream(&self, mut request: Request) -> Result<ProviderStream, UppError> {
        let response = self.send(&mut request, true).await?;
        let decoder = self.dialect.decoder(&request);
        let lines = lines(response.bytes_stream().boxed()).boxed();
        Ok(match D::FRAMING {
            Framing::Lines => decoded(lines.filter(|line| filled(line.as_ref())).boxed(), decoder).boxed(),
            Framing::Events => {
                let mut lines = lines.peekable();
                if let Some(begin) = json_begin(&mut lines).await {
                    let body = rest_of_json(begin, lines).await?;
                    return Err(self.not_streamed(&body, &request));
                }
                decoded(event_data(lines).boxed(), decoder).boxed()
            }
        })
    }
}

fn filled(line: Result<&String, &UppError>) -> std::future::Ready<bool> {
    std::future::ready(line.map_or(true, |line| !line.trim().is_empty()))
}

/// The first line, taken, if it begins JSON. No line of server-sent events begins so.
async fn json_begin<S>(lines: &mut Peekable<S>) -> Option<String>
where
    S: Stream<Item = Result<String, UppError>> + Unpin,
{
    let mut lines = Pin::new(lines);
    let blank = |line: &Result<String, UppError>| line.as_ref().is_ok_and(|line| line.trim().is_empty());
    while lines.as_mut().next_if(blank).await.is_some() {}
    let json = |line: &Result<String, UppError>| {
        let line = line.as_ref().map_or("", |line| line.trim_start());
        line.starts_with(['{', '['])
    };
    lines.as_mut().next_if(json).await?.ok()
}

/// The JSON that begins with this line. The lines are bounded by [`MAX_ANSWER_BYTES`].
async fn rest_of_json<S>(begin: String, mut lines: S) -> Result<Vec<u8>, UppError>
where
    S: Stream<Item = Result<String, UppError>> + Unpin,
{
    let mut body = begin.into_bytes();
    while let Some(line) = lines.next().await.transpose()? {
        body.push(b'\n');
        body.extend_from_slice(line.as_bytes());
    }
    Ok(body)
}

/// What a decoder makes of the pieces of an answer.
fn decoded<P, C>(pieces: P, decoder: C) -> impl Stream<Item = Result<ProviderEvent, UppError>> + Send
where
    P: Stream<Item = Result<String, UppError>> + Send + Unpin + 'static,
    C: StreamDecoder,
{
    let begin = (pieces, Some(decoder), VecDeque::<StreamEvent>::new(), Flow::More);
    stream::try_unfold(
        begin,
        |(mut pieces, mut decoder, mut waiting, mut flow)| async move {
            loop {
                if let Some(event) = waiting.pop_front() {
                    return Ok(Some((
                        ProviderEvent::Event(event),
                        (pieces, decoder, waiting, flow),
                    )));
                }
                let Some(mut active) = decoder.take() else {
                    return Ok(None);
                };
                if flow == Flow::End {
                    let done = ProviderEvent::Done(Box::new(active.finish()?));
                    return Ok(Some((done, (pieces, None, waiting, flow))));
                }
                let mut events = Vec::new();
                flow = match pieces.next().await.transpose()? {
                    Some(piece) => active.feed(&piece, &mut events)?,
                    None => Flow::End,
                };
                waiting.extend(events);
                decoder = Some(active);
            }
        },
    )
}

async fn read_body(response: reqwest::Response, max: usize) -> Result<Vec<u8>, UppError> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| network_error(&error))?;
        if body.len() + piece.len() > max {
            return Err(UppError::invalid_response(format!(
                "the answer has more than {max} bytes"
            )));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

async fn error_of(response: reqwest::Response) -> UppError {
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| parse_retry_after(value, SystemTime::now()));
    let body = read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
    let message = message_of_error_body(&body).unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(&body)
            .chars()
            .take(SHOWN_CHARACTERS)
            .collect();
        format!("the provider answered with the status {status}: {text}")
    });
    let error = UppError::new(code_of_error(status, &body), message).with_status(status);
    match retry_after {
        Some(wait) => error.with_retry_after(wait),
        None => error,
    }
}

/// The status decides, except where the body says more.
fn code_of_error(status: u16, body: &[u8]) -> ErrorCode {
    let by_status = ErrorCode::from_status(status);
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = body["error"]["code"].as_str().or_else(|| body["code"].as_str());
    let by_name = named.and_then(|name| code_of_kind(name).or_else(|| ErrorCode::parse(name)));
    match (by_status, by_name) {
        (ErrorCode::InvalidRequest | ErrorCode::RateLimited | ErrorCode::ProviderError, Some(code)) => code,
        _ => by_status,
    }
}

fn network_error(error: &reqwest::Error) -> UppError {
    let (code, what) = if error.is_timeout() {
        (ErrorCode::Timeout, "the request timed out")
    } else if error.is_builder() {
        (ErrorCode::InvalidRequest, "the request cannot be made")
    } else if error.is_body() || error.is_decode() {
        (ErrorCode::NetworkError, "the answer broke off")
    } else {
        (ErrorCode::NetworkError, "the provider cannot be reached")
    };
    // reqwest's own text hides the cause in its sources, and its URL may hold a key.
    let mut text = what.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    UppError::new(code, text)
}
