//! What an adapter is: a pure translation between UPP and the JSON of one provider.

use agentanycast_daemon_kit::address::join_path;
use serde_json::{Map, Value};

use crate::{
    error::UppError,
    event::StreamEvent,
    provider::{Request, Response},
};

/// How a streamed answer is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events; a piece is the data of one.
    Events,
    /// Lines of JSON.
    Lines,
}

/// A request before HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HttpCall {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// The translation for one provider.
pub(super) trait Dialect: std::fmt::Debug + Send + Sync + 'static {
    /// What reads an answer.
    type Decoder: StreamDecoder;

    const NAME: &'static str;
    const FRAMING: Framing = Framing::Events;
    /// The variable of the environment that holds a key.
    const KEY_VARIABLE: Option<&'static str> = None;

    fn call(&self, request: &Request, streamed: bool) -> Result<HttpCall, UppError>;

    fn decoder(&self, request: &Request) -> Self::Decoder;
}

/// What a piece of a stream means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// More pieces follow.
    More,
    /// The answer is whole.
    End,
}

/// Reads an answer, piece by piece or whole. An error that a piece or the answer tells of was taken out before.
pub(super) trait StreamDecoder: std::fmt::Debug + Send + 'static {
    /// Reads a piece of a stream, and adds the events that it holds.
    fn feed(&mut self, piece: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError>;

    /// The server says that its stream is over, by `[DONE]`.
    fn done(&mut self) {}

    /// Whether a piece of a stream ends no text, so that the halves of a character may stand before and behind it.
    fn is_beside(piece: &Value) -> bool;

    /// The error that the pieces of a stream tell of, if the answer has no end.
    fn error(&self) -> Option<UppError> {
        None
    }

    /// Whether the pieces of a stream hold the end of the answer.
    fn is_whole(&self) -> bool;

    /// The answer of a stream that is whole.
    fn finish(self) -> Result<Response, UppError>;

    /// Reads an answer that is no stream, and adds its events.
    fn read(self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError>;
}

/// This path below the base URL of the configuration, or below the provider's own.
pub(super) fn endpoint(request: &Request, default: &str, path: &str) -> String {
    join_path(request.config.base_url.as_deref().unwrap_or(default), path)
}

/// The header with the key, if there is one.
pub(super) fn bearer(request: &Request) -> Vec<(&'static str, String)> {
    let key = request.api_key.as_ref();
    key.map(|key| ("authorization", format!("Bearer {}", key.expose())))
        .into_iter()
        .collect()
}

/// Adds the caller's parameters to a body. They replace what the adapter put there.
pub(super) fn add_params(body: &mut Value, params: &Map<String, Value>) {
    if let Value::Object(body) = body {
        body.extend(params.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// The error for a block that the provider does not take.
pub(super) fn unsupported(provider: &str, what: &str) -> UppError {
    UppError::invalid_request(format!(
        "{provider} does not take {what}; leave it out or use another provider"
    ))
}
