//! The tool loop, one step at a time: ask the model, run the tools that it calls, ask again.
//!
//! A strategy that checkpoints between steps drives it by hand; [`TurnRun::run`] drives it to its end. After
//! an error the run is over: its caller goes on from the state that it had before the step.

use std::{collections::BTreeSet, future::Future, sync::Arc};

use futures::future::join_all;
use serde_json::Value;

use crate::{
    error::{ErrorCode, UppError},
    event::StreamEvent,
    event_stream::{EventSender, StreamResult},
    limit::Limit,
    llm::{call::Call, inference, options::Llm, tool_runner},
    message::{AssistantMessage, Message, ToolCall, ToolResult, ToolResultMessage},
    middleware::LlmContext,
    provider::{Request, Response},
    tool::ToolContext,
    turn::{ToolExecution, Turn},
    usage::TokenUsage,
};

/// What the model answered in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    /// The message.
    pub message: Arc<AssistantMessage>,
    /// Whether tools have to run; the loop is over otherwise.
    pub runs_tools: bool,
}

/// A running tool loop.
///
/// ```
/// use agentanycast_upp::{Scripted, ScriptedReply, Tool, llm};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentanycast_upp::UppError> {
/// let call = ScriptedReply::call("t1", "now", json!({}));
/// let script = Scripted::new([call, ScriptedReply::text("It is noon.")]);
/// let now = Tool::new("now", "The time", json!({"type": "object"}), |_, _| async { Ok("12:00") });
/// let mut run = llm(script.model()).tool(now).build()?.start("What time is it?");
/// while run.infer().await?.runs_tools {
///     for execution in run.run_tools().await? {
///         println!("{} -> {}", execution.tool_name, execution.result);
///     }
/// }
/// let turn = run.finish().await?;
/// assert_eq!((turn.text().as_str(), turn.cycles), ("It is noon.", 2));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a loop does nothing until it is driven"]
pub struct TurnRun {
    llm: Llm,
    call: Call,
    /// History, input, and all that was produced.
    messages: Vec<Message>,
    /// Where the input begins in `messages`.
    turn_begin: usize,
    pending: Vec<ToolCall>,
    executions: Vec<ToolExecution>,
    usage: TokenUsage,
    cycles: u64,
    rounds: u64,
    data: Option<Value>,
    context: LlmContext,
    events: Option<EventSender<StreamEvent>>,
    begun: bool,
}

impl Llm {
    /// Asks the model, runs tools, and returns the turn. Dropping the future cancels all of it.
    pub async fn generate(&self, call: impl Into<Call>) -> Result<Turn, UppError> {
        self.start(call).run().await
    }

    /// As [`Llm::generate`], with events while it runs. Dropping the stream cancels all of it. Aborting the
    /// stream leaves the token of [`Call::cancel`] alone, since other calls may share it.
    ///
    /// ```
    /// use agentanycast_upp::{Scripted, ScriptedReply, llm};
    /// use futures::StreamExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), agentanycast_upp::UppError> {
    /// # let script = Scripted::new([ScriptedReply::text("one two three")]);
    /// let model = llm(script.model()).build()?;
    /// let mut stream = model.stream("count");
    /// let mut heard = String::new();
    /// while let Some(event) = stream.next().await {
    ///     heard.push_str(&event?.delta.text.unwrap_or_default());
    /// }
    /// assert_eq!(heard, stream.result().await?.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, call: impl Into<Call>) -> StreamResult {
        let mut call = call.into();
        let cancel = call.cancel.child_token();
        call.cancel = cancel.clone();
        let run = self.start(call);
        StreamResult::new(cancel, move |events| run.with_events(events).run())
    }

    /// The loop itself, for strategies that do something between its steps.
    pub fn start(&self, call: impl Into<Call>) -> TurnRun {
        TurnRun::new(self.clone(), call.into())
    }
}

impl TurnRun {
    fn new(llm: Llm, mut call: Call) -> Self {
        let mut messages = std::mem::take(&mut call.history);
        let turn_begin = messages.len();
        messages.append(&mut call.input);
        let context = LlmContext {
            model: llm.model().id().to_owned(),
            ..LlmContext::default()
        };
        Self {
            llm,
            call,
            messages,
            turn_begin,
            pending: Vec::new(),
            executions: Vec::new(),
            usage: TokenUsage::default(),
            cycles: 0,
            rounds: 0,
            data: None,
            context,
            events: None,
            begun: false,
        }
    }

    /// Streams: events go to this sender, and the provider is asked for streams.
    pub fn with_events(mut self, events: EventSender<StreamEvent>) -> Self {
        self.context.streaming = true;
        self.events = Some(events);
        self
    }

    /// Drives the loop to its end.
    pub async fn run(mut self) -> Result<Turn, UppError> {
        while self.infer().await?.runs_tools {
            self.run_tools().await?;
        }
        self.finish().await
    }

    /// Asks the model. The caller runs [`TurnRun::run_tools`] next if tools have to run.
    pub async fn infer(&mut self) -> Result<Inference, UppError> {
        let outcome = self.infer_unguarded().await;
        self.report(outcome).await
    }

    /// Runs the tools that the model called, and returns how each ended, in the order of the calls. A tool
    /// that fails does not fail the loop: the model gets its sentence.
    pub async fn run_tools(&mut self) -> Result<&[ToolExecution], UppError> {
        let outcome = self.run_tools_unguarded().await;
        let begin = self.report(outcome).await?;
        Ok(&self.executions[begin..])
    }

    /// The turn so far. A loop may be finished before its end.
    pub async fn finish(mut self) -> Result<Turn, UppError> {
        let mut turn = Turn {
            messages: self.messages.split_off(self.turn_begin),
            tool_executions: std::mem::take(&mut self.executions),
            usage: std::mem::take(&mut self.usage),
            cycles: self.cycles,
            data: self.data.take(),
        };
        let llm = self.llm.clone();
        for middleware in llm.0.options.middleware.iter().rev() {
            if let Err(error) = middleware.on_turn(&mut self.context, &mut turn).await {
                return self.report(Err(error)).await;
            }
        }
        for middleware in llm.0.options.middleware.iter().rev() {
            middleware.on_end(&mut self.context).await;
        }
        Ok(turn)
    }

    /// What there is of the turn when the loop failed: its messages up to the last one that is answered, the
    /// calls of tools that ended, and the tokens. The middleware has had the error, and does not get the
    /// turn.
    pub fn into_broken_turn(mut self) -> Turn {
        let mut messages = self.messages.split_off(self.turn_begin);
        let is_unanswered = |message: &Message| {
            message
                .as_assistant()
                .is_some_and(|said| !said.tool_calls.is_empty())
        };
        if messages.last().is_some_and(is_unanswered) {
            messages.pop();
        }
        Turn {
            messages,
            tool_executions: self.executions,
            usage: self.usage,
            cycles: self.cycles,
            data: None,
        }
    }

    /// The input and all that was produced so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages[self.turn_begin..]
    }

    /// The tokens so far.
    pub fn usage(&self) -> &TokenUsage {
        &self.usage
    }

    /// Replaces the attachment of this type for the tools that run from now on.
    pub fn set_extension<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.call.extensions.insert(value);
    }

    async fn infer_unguarded(&mut self) -> Result<Inference, UppError> {
        let llm = self.llm.clone();
        if !std::mem::replace(&mut self.begun, true) {
            for middleware in &llm.0.options.middleware {
                middleware.on_start(&mut self.context).await?;
            }
        }
        let mut request = self.request();
        for middleware in &llm.0.options.middleware {
            middleware.on_request(&mut self.context, &mut request).await?;
        }
        let mut response = self.ask(&request).await?;
        for middleware in llm.0.options.middleware.iter().rev() {
            middleware.on_response(&mut self.context, &mut response).await?;
        }
        self.usage.add_cycle(&response.usage);
        self.cycles += 1;
        self.take_response(response).await
    }

    fn request(&self) -> Request {
        let options = self.llm.options();
        Request {
            model: options.model.id().to_owned(),
            messages: self.messages.clone(),
            system: options.system.clone(),
            params: options.params.clone(),
            tools: self.llm.0.tools.clone(),
            structure: options.structure.clone(),
            config: self.llm.0.config.clone(),
            api_key: None,
        }
    }

    async fn ask(&self, request: &Request) -> Result<Response, UppError> {
        let provider = self.llm.model().provider().as_ref();
        let Some(events) = &self.events else {
            return cancellable(&self.call, inference::complete(provider, request)).await?;
        };
        let sink = |event| self.emit(events, event);
        cancellable(&self.call, inference::stream(provider, request, sink)).await?
    }

    /// Passes an event through the middleware to the reader.
    async fn emit(&self, events: &EventSender<StreamEvent>, event: StreamEvent) {
        let middleware = &self.llm.0.options.middleware;
        if middleware.is_empty() {
            return events.send(event).await;
        }
        let mut out = vec![event];
        for middleware in middleware {
            let expand = |event| middleware.on_stream_event(&self.context, event);
            out = out.into_iter().flat_map(expand).collect();
        }
        for event in out {
            events.send(event).await;
        }
    }

    async fn take_response(&mut self, response: Response) -> Result<Inference, UppError> {
        let message = Arc::new(response.message);
        let calls = message.tool_calls.clone();
        self.messages.push(Message::Assistant(message.clone()));
        if self.llm.options().structure.is_some() {
            self.data = match response.data {
                Some(data) => Some(data),
                None if calls.is_empty() => Some(parse_structured(&message.text())?),
                None => None,
            };
        }
        // A structured answer ends the loop, also beside calls of tools.
        let runs_tools = !calls.is_empty() && self.data.is_none();
        if runs_tools {
            self.rounds += 1;
            self.check_limit().await?;
            self.pending = calls;
        }
        Ok(Inference { message, runs_tools })
    }

    async fn check_limit(&self) -> Result<(), UppError> {
        let strategy = self.llm.tool_strategy();
        let limit = strategy.limit();
        let Limit::Max(max) = limit else { return Ok(()) };
        if limit.allows(self.rounds) {
            return Ok(());
        }
        if let Some(hooks) = &strategy.hooks {
            hooks.on_max_iterations(max).await;
        }
        Err(UppError::invalid_request(format!(
            "the model calls tools after {max} rounds of tools; raise max_iterations to allow more"
        )))
    }

    async fn run_tools_unguarded(&mut self) -> Result<usize, UppError> {
        let calls = std::mem::take(&mut self.pending);
        let mut slots: Vec<Option<ToolExecution>> = calls.iter().map(|_| None).collect();
        for group in self.groups(&calls) {
            let running = group.iter().map(|index| self.run_call(*index, &calls[*index]));
            let ended = cancellable(&self.call, join_all(running)).await?;
            for (index, execution) in group.into_iter().zip(ended) {
                slots[index] = Some(execution);
            }
        }
        let ended: Vec<_> = slots.into_iter().flatten().collect();
        let results: Vec<_> = ended.iter().map(result_of).collect();
        self.messages.push(ToolResultMessage::new(results).into());
        let begin = self.executions.len();
        self.executions.extend(ended);
        Ok(begin)
    }

    /// The groups of the caller's order, with each call exactly once.
    fn groups(&self, calls: &[ToolCall]) -> Vec<Vec<usize>> {
        let mut missing: BTreeSet<usize> = (0..calls.len()).collect();
        let mut groups = match &self.call.order {
            Some(order) => order.groups(calls, self.llm.tools()),
            None => Vec::new(),
        };
        for group in &mut groups {
            group.retain(|index| missing.remove(index));
        }
        groups.push(missing.into_iter().collect());
        groups
    }

    async fn run_call(&self, index: usize, call: &ToolCall) -> ToolExecution {
        let context = ToolContext {
            tool_call_id: call.tool_call_id.clone(),
            extensions: self.call.extensions.clone(),
            cancel: self.call.cancel.clone(),
        };
        let (id, name) = (&call.tool_call_id, &call.tool_name);
        if let Some(events) = &self.events {
            self.emit(events, StreamEvent::tool_start(index as u64, id, name))
                .await;
        }
        let execution = tool_runner::run(self.llm.tools(), self.llm.tool_strategy(), call, context).await;
        if let Some(events) = &self.events {
            let end = StreamEvent::tool_end(index as u64, id, name, &execution.result, execution.is_error);
            self.emit(events, end).await;
        }
        execution
    }

    /// Tells the middleware of a failure.
    async fn report<T>(&mut self, outcome: Result<T, UppError>) -> Result<T, UppError> {
        if let Err(error) = &outcome {
            for middleware in &self.llm.0.options.middleware {
                if error.code() == ErrorCode::Cancelled {
                    middleware.on_abort(&mut self.context).await;
                } else {
                    middleware.on_error(&mut self.context, error).await;
                }
            }
        }
        outcome
    }
}

async fn cancellable<T>(call: &Call, work: impl Future<Output = T>) -> Result<T, UppError> {
    call.cancel
        .run_until_cancelled(work)
        .await
        .ok_or_else(UppError::cancelled)
}

fn result_of(execution: &ToolExecution) -> ToolResult {
    ToolResult {
        tool_call_id: execution.tool_call_id.clone(),
        result: execution.result.clone(),
        is_error: execution.is_error,
    }
}

fn parse_structured(text: &str) -> Result<Value, UppError> {
    agentanycast_readers::json::value(text.as_bytes()).map_err(|error| {
        UppError::invalid_response(format!("the structured answer is not JSON: {error}")).with_source(error)
    })
}
