//! Tools: functions that a model may call, each with an explicit schema.
//!
//! The tool loop runs a tool behind three bounds, so that no tool takes the loop down: a panic and a time-out
//! become error results, and so does a result that is longer than [`DEFAULT_MAX_RESULT_BYTES`]. The text of an
//! error is cut at [`MAX_ERROR_TEXT_BYTES`].

use std::{fmt, future::Future, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::message::ToolCall;

/// How many bytes of JSON a tool may return unless it says otherwise. A result goes into every later request,
/// state and checkpoint; no context of a model today holds 8 MiB of text.
pub const DEFAULT_MAX_RESULT_BYTES: usize = 8 << 20;

/// How many bytes of the text of an error go to the model; a mark at the end tells that the text was cut. As a
/// result, it goes into every later request, state and checkpoint. A sentence with a stack trace fits.
pub const MAX_ERROR_TEXT_BYTES: usize = 8 << 10;

/// Why a tool failed; its text goes to the model, cut at [`MAX_ERROR_TEXT_BYTES`].
pub type ToolFailure = Box<dyn std::error::Error + Send + Sync>;

type Run = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<Value, ToolFailure>> + Send + Sync;
type Approve = dyn Fn(Value) -> BoxFuture<'static, bool> + Send + Sync;

/// What a provider learns of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// The name by which the model calls it.
    pub name: String,
    /// What the tool does.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of the arguments.
    pub parameters: Value,
    /// Labels, among them those of providers under their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// A function that a model may call.
///
/// ```
/// use agentanycast_upp::Tool;
/// use serde_json::json;
///
/// let weather = Tool::new(
///     "weather",
///     "The weather of a city",
///     json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
///     |arguments, _context| async move {
///         let city = arguments["city"].as_str().ok_or("`city` is missing")?;
///         Ok(json!({"city": city, "celsius": 20}))
///     },
/// );
/// assert_eq!(weather.name(), "weather");
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) schema: ToolSchema,
    pub(crate) sequential: bool,
    pub(crate) depends_on: Vec<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_result_bytes: usize,
    pub(crate) run: Arc<Run>,
    pub(crate) approve: Option<Arc<Approve>>,
}

impl Tool {
    /// A tool: its name, what it does, the JSON Schema of its arguments, and the function.
    pub fn new<F, Fut, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        run: F,
    ) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolFailure>> + Send + 'static,
        R: Into<Value>,
    {
        Self {
            schema: ToolSchema {
                name: name.into(),
                description: description.into(),
                parameters,
                metadata: None,
            },
            sequential: false,
            depends_on: Vec::new(),
            timeout: None,
            max_result_bytes: DEFAULT_MAX_RESULT_BYTES,
            run: Arc::new(move |arguments, context| {
                run(arguments, context)
                    .map(|result| result.map(Into::into))
                    .boxed()
            }),
            approve: None,
        }
    }

    /// Adds labels for providers.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.schema.metadata = Some(metadata);
        self
    }

    /// Marks the tool as a barrier: calls before it end first, it runs alone, and later calls wait for it.
    /// Agents obey it; the bare tool loop runs all calls of a message at once.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Names tools whose calls in the same message have to end first. Agents obey it.
    #[must_use]
    pub fn depends_on<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.depends_on = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Ends the tool with an error result after this time; without it a tool may run for ever.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes of JSON the tool may return, instead of [`DEFAULT_MAX_RESULT_BYTES`].
    #[must_use]
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.max_result_bytes = bytes;
        self
    }

    /// Asks before each call; the answer `false` becomes an error result.
    ///
    /// ```
    /// # use agentanycast_upp::Tool;
    /// # use serde_json::json;
    /// let schema = json!({"type": "object"});
    /// let tool = Tool::new("rm", "Deletes a file", schema, |_, _| async { Ok("deleted") })
    ///     .approval(|arguments| async move { arguments["path"].as_str() != Some("/") });
    /// # drop(tool);
    /// ```
    #[must_use]
    pub fn approval<F, Fut>(mut self, approve: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        self.approve = Some(Arc::new(move |arguments| approve(arguments).boxed()));
        self
    }

    /// The name by which the model calls the tool.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// What a provider learns of the tool.
    pub fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    /// Whether the tool is a barrier.
    pub fn is_sequential(&self) -> bool {
        self.sequential
    }

    /// The tools whose calls have to end first.
    pub fn dependencies(&self) -> &[String] {
        &self.depends_on
    }

    /// Calls the function itself, without approval and bounds. The tool loop does more ([`crate::llm`]).
    pub async fn call(&self, arguments: Value, context: ToolContext) -> Result<Value, ToolFailure> {
        (self.run)(arguments, context).await
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("schema", &self.schema)
            .field("sequential", &self.sequential)
            .field("depends_on", &self.depends_on)
            .finish_non_exhaustive()
    }
}

/// What a tool learns of the call besides the arguments.
#[derive(Clone, Debug, Default)]
pub struct ToolContext {
    pub(crate) tool_call_id: String,
    pub(crate) extensions: http::Extensions,
    pub(crate) cancel: CancellationToken,
}

impl ToolContext {
    /// A context for a call outside of the tool loop, for example in a test.
    pub fn new(tool_call_id: impl Into<String>) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            ..Self::default()
        }
    }

    /// The id of the call.
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }

    /// What the caller of the loop attached to the call ([`crate::Call::extension`]), by type.
    pub fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get()
    }

    /// Attaches a value, for a call outside of the tool loop.
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Is cancelled when the caller cancels the loop. The loop drops the tool's future then; tasks that the
    /// tool spawned watch this token.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }
}

/// Decides which calls of one message run at once.
///
/// The bare loop runs all at once. Agents give an order that obeys [`Tool::sequential`], [`Tool::depends_on`]
/// and [`ToolCall::after`].
pub trait ToolOrder: Send + Sync {
    /// Groups of indexes into `calls`. The groups run one after the other, the calls of a group at once. An
    /// index that is missing runs last, and an index that is there twice runs once.
    fn groups(&self, calls: &[ToolCall], tools: &[Tool]) -> Vec<Vec<usize>>;
}
