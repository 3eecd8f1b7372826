//! `anycast mcp`: the MCP gateway on standard input and output, before the daemon that runs. What a desktop client or an
//! editor starts; it ends with its input.

use std::sync::Arc;

use agentanycast_bridge::{
    gateway::SdkGateway,
    mcp::{self, Tools},
};
use agentanycast_program::{
    process,
    settings::{LogFormat, LogLevel},
};
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    failure::{Code, Failure},
};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    // Standard output is for MCP alone; what went wrong is on standard error, where clients keep it as a log.
    process::begin("anycast mcp", LogLevel::Warn, LogFormat::Text);
    let node = context.connect().await?;
    let tools = Tools::new(Arc::new(SdkGateway::new(node)), Arc::default());
    mcp::serve_stdio(Arc::new(tools), CancellationToken::new())
        .await
        .map_err(|error| Failure::new(Code::General, "Protocol", format!("{error:#}")))
}
