//! Runs one call of a tool: hooks, approval, bounds. Every failure becomes an error result for the model.

use std::{
    fmt::{self, Display, Write as _},
    io,
    panic::AssertUnwindSafe,
    time::Instant,
};

use futures::FutureExt as _;
use serde_json::Value;

use crate::{
    message::ToolCall,
    tool::{MAX_ERROR_TEXT_BYTES, Tool, ToolContext},
    tool_strategy::{BeforeCall, ToolUseStrategy},
    turn::ToolExecution,
};

/// What stands at the end of an error text that was cut.
const CUT_MARK: &str = " [the rest of the error text is cut off]";

/// Runs the tool of this call, if there is one.
pub(super) async fn run(
    tools: &[Tool],
    strategy: &ToolUseStrategy,
    call: &ToolCall,
    context: ToolContext,
) -> ToolExecution {
    let begun = Instant::now();
    let mut execution = ToolExecution {
        tool_name: call.tool_name.clone(),
        tool_call_id: call.tool_call_id.clone(),
        arguments: call.arguments.clone(),
        result: Value::Null,
        is_error: false,
        duration: 0,
        approved: None,
    };
    let outcome = match tools.iter().find(|tool| tool.name() == call.tool_name) {
        Some(tool) => {
            // A panic of the function is told apart; this one is of the approval or of a hook.
            let run = AssertUnwindSafe(run_tool(tool, strategy, &mut execution, context)).catch_unwind();
            let panicked = |_| Err(format!("Tool '{}': its approval or a hook panicked", tool.name()));
            run.await.unwrap_or_else(panicked)
        }
        None => Err(format!("Tool '{}' not found", call.tool_name)),
    };
    execution.is_error = outcome.is_err();
    // The name of a missing tool is the model's, so that every error text is cut here.
    execution.result = outcome.unwrap_or_else(|error| error_text(&error).into());
    execution.duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    execution
}

async fn run_tool(
    tool: &Tool,
    strategy: &ToolUseStrategy,
    execution: &mut ToolExecution,
    context: ToolContext,
) -> Result<Value, String> {
    let hooks = strategy.hooks.as_deref();
    if let Some(hooks) = hooks {
        hooks.on_tool_call(tool, &execution.arguments).await;
    }
    if let Some(approve) = &tool.approve {
        let approved = approve(execution.arguments.clone()).await;
        execution.approved = Some(approved);
        if !approved {
            return Err("Tool execution denied by approval handler".to_owned());
        }
    }
    if let Some(hooks) = hooks {
        match hooks.on_before_call(tool, &execution.arguments).await {
            BeforeCall::Run => {}
            BeforeCall::RunWith(arguments) => execution.arguments = arguments,
            BeforeCall::Skip => return Err("Tool execution skipped".to_owned()),
        }
    }
    let arguments = &execution.arguments;
    match (bounded(tool, arguments.clone(), context).await, hooks) {
        (Ok(result), Some(hooks)) => match hooks.on_after_call(tool, arguments, &result).await {
            Some(replaced) => measured(tool, replaced, "A hook of the tool"),
            None => Ok(result),
        },
        (Err(error), Some(hooks)) => match hooks.on_error(tool, arguments, &error).await {
            Some(replaced) => measured(tool, replaced, "A hook of the tool"),
            None => Err(error),
        },
        (outcome, None) => outcome,
    }
}

/// The function itself, with its panics, its time and the size of its result bounded.
async fn bounded(tool: &Tool, arguments: Value, context: ToolContext) -> Result<Value, String> {
    let name = tool.name();
    // The function may panic before its first await, so it is called inside of the guarded future.
    let guarded = AssertUnwindSafe(async { tool.call(arguments, context).await }).catch_unwind();
    let ended = match tool.timeout {
        Some(limit) => tokio::time::timeout(limit, guarded)
            .await
            .map_err(|_| format!("Tool '{name}' did not end within {limit:?}"))?,
        None => guarded.await,
    };
    let result = ended
        .map_err(|_| format!("Tool '{name}' panicked"))?
        .map_err(|failure| error_text(&failure))?;
    measured(tool, result, "Tool")
}

/// The result, unless its JSON is longer than the tool may return.
fn measured(tool: &Tool, result: Value, source: &str) -> Result<Value, String> {
    let mut counted = ByteCount {
        bytes: 0,
        max: tool.max_result_bytes,
    };
    if serde_json::to_writer(&mut counted, &result).is_err() {
        // A string of 100 MiB must not reach the next request; dropping it here frees it.
        return Err(format!(
            "{source} '{}' returned more than {} bytes; return less, or raise its max_result_bytes",
            tool.name(),
            tool.max_result_bytes
        ));
    }
    Ok(result)
}

/// The text of an error, cut at [`MAX_ERROR_TEXT_BYTES`]. A text that was cut once is not cut again.
fn error_text(error: &impl Display) -> String {
    let mut kept = ErrorText::default();
    // Writing ends early where the text is too long; an error that cannot write itself keeps its begin.
    let _ = write!(kept, "{error}");
    if kept.is_cut {
        let end = MAX_ERROR_TEXT_BYTES - CUT_MARK.len();
        kept.text.truncate(kept.text.floor_char_boundary(end));
        kept.text.push_str(CUT_MARK);
    }
    kept.text
}

/// Keeps the first [`MAX_ERROR_TEXT_BYTES`] bytes, so that a long text is not copied before it is cut.
#[derive(Default)]
struct ErrorText {
    text: String,
    is_cut: bool,
}

impl fmt::Write for ErrorText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let kept = piece.floor_char_boundary(MAX_ERROR_TEXT_BYTES - self.text.len());
        self.text.push_str(&piece[..kept]);
        self.is_cut |= kept < piece.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Counts written bytes, and refuses more than `max`.
struct ByteCount {
    bytes: usize,
    max: usize,
}

impl io::Write for ByteCount {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(piece.len());
        if self.bytes > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
