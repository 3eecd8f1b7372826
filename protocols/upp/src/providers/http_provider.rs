//! Sends the requests of an adapter with reqwest, and reads the answers with bounds.

use std::{
    collections::VecDeque,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use agentanycast_readers::{
    body::{readable, words},
    json,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::Value;

use super::{
    answer_reader::{AnswerLimits, AnswerReader},
    dialect::{Dialect, Framing, HttpCall, StreamDecoder},
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

/// How long is waited for more of an answer that has its end: its usage may follow. Some servers keep the
/// stream open.
const LAST_WORDS: Duration = Duration::from_secs(5);

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
        if !response.status().is_success() {
            return Err(error_of(response).await);
        }
        check_encoding(&response)?;
        Ok(response)
    }

    fn answer(&self, request: &Request, response: reqwest::Response) -> Answer<D::Decoder> {
        let reader = AnswerReader::new(self.dialect.decoder(request), D::FRAMING, AnswerLimits::default());
        Answer {
            bytes: response.bytes_stream().boxed(),
            reader: Some(reader),
            waiting: VecDeque::new(),
            last: None,
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
        let mut answer = self.answer(&request, response);
        loop {
            match answer.next().await? {
                Some(ProviderEvent::Event(_)) => {}
                Some(ProviderEvent::Done(response)) => return Ok(*response),
                None => return Err(UppError::invalid_response("the answer is empty")),
            }
        }
    }

    async fn stream(&self, mut request: Request) -> Result<ProviderStream, UppError> {
        let response = self.send(&mut request, true).await?;
        let mut answer = self.answer(&request, response);
        // An answer that is no stream is read whole, so that its error is the one of this call.
        answer.begin().await?;
        let events = stream::try_unfold(answer, |mut answer| async move {
            let next = answer.next().await?;
            Ok(next.map(|event| (event, answer)))
        });
        Ok(events.boxed())
    }
}

/// An answer that is read.
struct Answer<C> {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    /// `None`: all of it was read.
    reader: Option<AnswerReader<C>>,
    waiting: VecDeque<StreamEvent>,
    /// What follows the events that wait.
    last: Option<Result<Box<Response>, UppError>>,
}

impl<C: StreamDecoder> Answer<C> {
    /// Reads until it is known to be a stream, or to its end.
    async fn begin(&mut self) -> Result<(), UppError> {
        while self
            .reader
            .as_ref()
            .is_some_and(|reader| reader.is_stream() != Some(true))
        {
            self.read().await;
        }
        match &self.last {
            Some(Err(error)) if self.waiting.is_empty() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    async fn next(&mut self) -> Result<Option<ProviderEvent>, UppError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(ProviderEvent::Event(event)));
            }
            if let Some(last) = self.last.take() {
                return last.map(|response| Some(ProviderEvent::Done(response)));
            }
            if self.reader.is_none() {
                return Ok(None);
            }
            self.read().await;
        }
    }

    /// Reads the next bytes, or the end. An answer that has its end is not lost by what follows.
    async fn read(&mut self) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        let mut events = Vec::new();
        let piece = match () {
            () if reader.is_over() => None,
            () if reader.is_whole() => {
                let piece = tokio::time::timeout(LAST_WORDS, self.bytes.next()).await;
                piece.ok().flatten().and_then(Result::ok)
            }
            () => match self.bytes.next().await.transpose() {
                Ok(piece) => piece,
                Err(error) => {
                    self.last = Some(Err(network_error(&error)));
                    return;
                }
            },
        };
        let taken = match piece {
            Some(bytes) => reader
                .take(&bytes, &mut events)
                .map(|()| self.reader = Some(reader)),
            None => reader
                .finish(&mut events)
                .map(|response| self.last = Some(Ok(Box::new(response)))),
        };
        self.waiting.extend(events);
        if let Err(error) = taken {
            self.last = Some(Err(error));
        }
    }
}

/// Refuses an answer in an encoding that was not asked for, other than gzip.
fn check_encoding(response: &reqwest::Response) -> Result<(), UppError> {
    let encoding = response.headers().get("content-encoding");
    let encoding = encoding.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    match encoding.as_deref().map(str::trim) {
        None | Some("" | "identity" | "gzip" | "x-gzip") => Ok(()),
        Some(other) => Err(UppError::invalid_response(format!(
            "the answer is packed with `{}`, which was not asked for",
            other.escape_debug()
        ))),
    }
}

/// The beginning of the body of an error, as text.
async fn error_body(response: reqwest::Response) -> Vec<u8> {
    let header = |name: &str| {
        let value = response.headers().get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let (media_type, encoding) = (header("content-type"), header("content-encoding"));
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while body.len() < MAX_ERROR_BYTES
        && let Some(Ok(piece)) = pieces.next().await
    {
        body.extend_from_slice(&piece[..piece.len().min(MAX_ERROR_BYTES - body.len())]);
    }
    readable(&body, &media_type, &encoding).into_owned()
}

async fn error_of(response: reqwest::Response) -> UppError {
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| parse_retry_after(value, SystemTime::now()));
    let body = error_body(response).await;
    let message = message_of_error_body(&body)
        .unwrap_or_else(|| format!("the provider answered with the status {status}: {}", words(&body)));
    let error = UppError::new(code_of_error(status, &body), message).with_status(status);
    match retry_after {
        Some(wait) => error.with_retry_after(wait),
        None => error,
    }
}

/// The status decides, except where the body says more.
fn code_of_error(status: u16, body: &[u8]) -> ErrorCode {
    let by_status = ErrorCode::from_status(status);
    let body: Value = json::value(body).unwrap_or_default();
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
