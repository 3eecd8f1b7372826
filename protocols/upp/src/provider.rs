//! The interface to a model: one request in, one message out, at once or as a stream.
//!
//! A provider runs no tools, retries nothing and keeps no history; the tool loop does ([`crate::llm`]).

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::UppError,
    event::StreamEvent,
    keys::{ApiKey, KeyStrategy},
    message::{AssistantMessage, Message},
    retry::RetryStrategy,
    tool::ToolSchema,
    usage::TokenUsage,
};

/// How long a bare `llm()` waits for an answer, and for each event of a stream, unless it is told otherwise
/// (UPP-1.3).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);

/// The system prompt: a text, or blocks in a form that the provider knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`system` is a text or a list")]
pub enum System {
    /// One text.
    Text(String),
    /// Blocks: texts, or objects with a field `text`.
    Blocks(Vec<Value>),
}

impl System {
    /// The text; blocks are joined by a blank line.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts = blocks
                    .iter()
                    .filter_map(|block| block.as_str().or_else(|| block["text"].as_str()));
                texts.collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

impl<T: Into<String>> From<T> for System {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// Whether a time-out was chosen, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    #[default]
    Unset,
    Never,
    After(Duration),
}

/// How to reach a provider: UPP's `config`.
///
/// ```
/// use std::time::Duration;
/// use agentanycast_upp::{ExponentialBackoff, ProviderConfig, RoundRobinKeys};
///
/// let config = ProviderConfig::new()
///     .keys(RoundRobinKeys::new(["key-1", "key-2"]))
///     .retry(ExponentialBackoff::default())
///     .timeout(Duration::from_secs(30));
/// # drop(config);
/// ```
#[derive(Clone, Default)]
pub struct ProviderConfig {
    pub(crate) keys: Option<Arc<dyn KeyStrategy>>,
    pub(crate) retry: Option<Arc<dyn RetryStrategy>>,
    pub(crate) timeout: TimeLimit,
    pub(crate) base_url: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl ProviderConfig {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets one key. Without keys a provider reads its variable of the environment.
    #[must_use]
    pub fn api_key(self, key: impl Into<ApiKey>) -> Self {
        let key: ApiKey = key.into();
        self.keys(key)
    }

    /// Sets where keys come from.
    #[must_use]
    pub fn keys(mut self, keys: impl KeyStrategy + 'static) -> Self {
        self.keys = Some(Arc::new(keys));
        self
    }

    /// Sets when failed requests are tried again; without it they are not.
    #[must_use]
    pub fn retry(mut self, retry: impl RetryStrategy + 'static) -> Self {
        self.retry = Some(Arc::new(retry));
        self
    }

    /// Sets how long to wait for an answer, and for each event of a stream, instead of [`DEFAULT_TIMEOUT`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = TimeLimit::After(timeout);
        self
    }

    /// Waits for ever, unless a time-out is set already. `agent()` does so.
    #[must_use]
    pub fn default_no_timeout(mut self) -> Self {
        if self.timeout == TimeLimit::Unset {
            self.timeout = TimeLimit::Never;
        }
        self
    }

    /// Sets the URL under which the provider's paths stand.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Adds an HTTP header to each request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The time-out that holds; `None` waits for ever.
    pub fn effective_timeout(&self) -> Option<Duration> {
        match self.timeout {
            TimeLimit::Unset => Some(DEFAULT_TIMEOUT),
            TimeLimit::Never => None,
            TimeLimit::After(timeout) => Some(timeout),
        }
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("keys", &self.keys.is_some())
            .field("retry", &self.retry.is_some())
            .field("timeout", &self.timeout)
            .field("base_url", &self.base_url)
            .field("headers", &self.headers.keys())
            .finish()
    }
}

/// One request to a model.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The id of the model.
    pub model: String,
    /// The conversation, oldest message first.
    pub messages: Vec<Message>,
    /// The system prompt.
    pub system: Option<System>,
    /// Parameters in the provider's own words; they go into its request unchanged.
    pub params: Map<String, Value>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSchema]>,
    /// The JSON Schema of the answer, for a structured answer.
    pub structure: Option<Value>,
    /// How to reach the provider.
    pub config: Arc<ProviderConfig>,
    /// The key of this try.
    pub api_key: Option<ApiKey>,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// What the model says, with the tools that it calls.
    pub message: AssistantMessage,
    /// The tokens of this inference.
    pub usage: TokenUsage,
    /// Why the model stopped, in the provider's own words.
    pub stop_reason: Option<String>,
    /// The structured answer, where the provider has one besides the text.
    pub data: Option<Value>,
}

impl Response {
    /// An answer without counts.
    pub fn new(message: AssistantMessage) -> Self {
        Self {
            message,
            usage: TokenUsage::default(),
            stop_reason: None,
            data: None,
        }
    }
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "an event is moved once, to the reader of its stream"
)]
pub enum ProviderEvent {
    /// An event for the reader of the stream.
    Event(StreamEvent),
    /// The whole answer. It is the last piece; a stream that ends without it is broken.
    Done(Box<Response>),
}

/// The pieces of a streamed answer. Dropping it cancels the request.
pub type ProviderStream = BoxStream<'static, Result<ProviderEvent, UppError>>;

/// A source of models.
///
/// ```
/// use agentanycast_upp::{
///     AssistantMessage, ContentBlock, ModelReference, Provider, ProviderEvent, ProviderStream, Request,
///     Response, UppError,
/// };
/// use futures::{StreamExt as _, stream};
///
/// /// Says what it hears.
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait::async_trait]
/// impl Provider for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     async fn complete(&self, request: Request) -> Result<Response, UppError> {
///         let heard = request.messages.last().map(|message| message.text()).unwrap_or_default();
///         Ok(Response::new(AssistantMessage::new([ContentBlock::text(heard)])))
///     }
///
///     async fn stream(&self, request: Request) -> Result<ProviderStream, UppError> {
///         let response = self.complete(request).await?;
///         Ok(stream::iter([Ok(ProviderEvent::Done(Box::new(response)))]).boxed())
///     }
/// }
///
/// let model = ModelReference::new(Echo, "echo-1");
/// assert_eq!(model.id(), "echo-1");
/// ```
#[async_trait]
pub trait Provider: fmt::Debug + Send + Sync {
    /// The name in errors.
    fn name(&self) -> &str;

    /// Answers at once.
    async fn complete(&self, request: Request) -> Result<Response, UppError>;

    /// Answers as a stream whose last piece is [`ProviderEvent::Done`].
    async fn stream(&self, request: Request) -> Result<ProviderStream, UppError>;
}

/// A model of a provider: UPP's `ModelReference`.
#[derive(Clone, Debug)]
pub struct ModelReference {
    provider: Arc<dyn Provider>,
    id: String,
}

impl ModelReference {
    /// The model with this id.
    pub fn new(provider: impl Provider + 'static, id: impl Into<String>) -> Self {
        Self::shared(Arc::new(provider), id)
    }

    /// The model with this id, of a provider that others use too.
    pub fn shared(provider: Arc<dyn Provider>, id: impl Into<String>) -> Self {
        Self {
            provider,
            id: id.into(),
        }
    }

    /// The id of the model.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the model runs.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }
}
