//! `anycast mcp`: the MCP gateway on standard input and output, before the home's daemon, which it starts where none runs.
//! What a desktop client or an editor starts; it ends with its input.
//!
//! It serves without a daemon too, since such a client does not start it again: calls fail with the reason
//! until a daemon answers.

use std::{convert::Infallible, sync::Arc, time::Duration};

use agentanycast_daemon_kit::{
    logging, process,
    settings::{LogFormat, LogLevel},
};
use agentanycast_gateway::{ErrorKind, GatewayError, LazyGateway};
use agentanycast_limits::Backoff;
use agentanycast_mcp::{self as mcp, ToolHandler};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use agentanycast_cli::{
    background_daemon::HomeProcess,
    context::Context,
    failure::{CommandFailure, FailureCode},
    output,
    parts::PartAction,
};

/// How often a daemon that may have crashed is looked for, less and less where it cannot be started.
const CRASH_POLLS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// The command.
pub(super) const ACTION: PartAction = PartAction {
    options: |command| command,
    examples: &[(
        "mcp",
        [
            ("anycast mcp", "what a desktop client or an editor starts"),
            ("anycast --home /srv/agent mcp", "with the daemon of another home"),
        ],
    )],
    starts_daemon: true,
    run: |context, _| run(context).boxed(),
};

async fn run(context: &Context) -> Result<(), CommandFailure> {
    // Standard output is for MCP alone; what went wrong is on standard error, where clients keep it as a log.
    process::begin("anycast mcp", LogLevel::Warn, LogFormat::Text);
    match context.connect_or_start().await {
        Ok(_) => {}
        // No daemon can be where such an option says.
        Err(failure) if failure.code == FailureCode::Usage => return Err(failure),
        // Through the log, which does not wait for a standard error that nobody reads.
        Err(failure) => tracing::warn!(
            "{}; calls of tools fail until a daemon answers",
            failure.message()
        ),
    }
    let of_calls = context.clone();
    let connect = move || {
        let context = of_calls.clone();
        async move {
            let away = |failure: CommandFailure| GatewayError::new(ErrorKind::Unavailable, failure.message());
            context.connect_or_start().await.map_err(away)
        }
        .boxed()
    };
    let gateway = LazyGateway::new(Box::new(connect));
    let tools = ToolHandler::new(Arc::new(gateway), Arc::default());
    let served = tokio::select! {
        served = mcp::serve_stdio(Arc::new(tools), CancellationToken::new()) => served,
        never = start_after_crashes(context) => match never {},
    };
    logging::finish();
    served.map_err(|error| CommandFailure::new(FailureCode::General, "Protocol", format!("{error:#}")))
}

/// Starts the home's daemon again whenever it has crashed, which leaves its socket behind; one that was stopped removes
/// it, and stays away. For a command that goes on for hours. Never returns.
async fn start_after_crashes(context: &Context) -> Infallible {
    let process = match HomeProcess::from_home(&context.home) {
        Ok(process) if !context.daemon_given() && !context.no_start => process,
        _ => return std::future::pending().await,
    };
    let mut pauses = CRASH_POLLS;
    loop {
        tokio::time::sleep(pauses.next_wait()).await;
        if process.has_crashed().await
            && let Err(failure) = context.start().await
        {
            output::warn(failure.message());
        } else {
            pauses.reset();
        }
    }
}
