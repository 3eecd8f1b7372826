//! `anycast mcp`: the MCP gateway on standard input and output, before the home's daemon, which it starts where none runs.
//! What a desktop client or an editor starts; it ends with its input.
//!
//! It serves without a daemon too, since such a client does not start it again: calls fail with the reason
//! until a daemon answers.

use std::sync::Arc;

use agentanycast_bridge::{
    gateway::{ErrorKind, GatewayError, LateGateway},
    mcp::{self, Tools},
};
use agentanycast_program::{
    logging, process,
    settings::{LogFormat, LogLevel},
};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    failure::{Code, Failure},
};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    // Standard output is for MCP alone; what went wrong is on standard error, where clients keep it as a log.
    process::begin("anycast mcp", LogLevel::Warn, LogFormat::Text);
    match context.connect_or_start().await {
        Ok(_) => {}
        // No daemon can be where such an option says.
        Err(failure) if failure.is_usage() => return Err(failure),
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
            let away = |failure: Failure| GatewayError::new(ErrorKind::Unavailable, failure.message());
            context.connect_or_start().await.map_err(away)
        }
        .boxed()
    };
    let gateway = LateGateway::new(Box::new(connect));
    let tools = Tools::new(Arc::new(gateway), Arc::default());
    let served = tokio::select! {
        served = mcp::serve_stdio(Arc::new(tools), CancellationToken::new()) => served,
        never = context.start_after_crashes() => match never {},
    };
    logging::finish();
    served.map_err(|error| Failure::new(Code::General, "Protocol", format!("{error:#}")))
}
