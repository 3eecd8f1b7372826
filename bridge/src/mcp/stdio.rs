//! MCP on standard input and output, for the process that started this one.

use std::sync::Arc;

use anyhow::Context as _;
use rmcp::{
    service::{ServerInitializeError, serve_server_with_ct},
    transport::{async_rw::AsyncRwTransport, io::stdio_pipes},
};
use tokio_util::sync::CancellationToken;

use super::{Server, Tools, escaped_lines::EscapedLines};

/// Longest line, in bytes: a message of 16 MiB in base64. A longer one is dropped; the log says so.
const LINE: usize = 24 << 20;

/// Serves until the client closes standard input, or until `stop`.
///
/// # Errors
/// When the client does not speak MCP.
pub async fn serve(tools: Arc<Tools>, stop: CancellationToken) -> anyhow::Result<()> {
    let (reader, writer) = stdio_pipes();
    let transport = AsyncRwTransport::new_server(reader, EscapedLines::new(writer)).with_max_line_length(LINE);
    let running = match serve_server_with_ct(Server::local(tools), transport, stop).await {
        Ok(running) => running,
        // It had nothing to ask.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(error).context("the client on standard input does not speak MCP"),
    };
    running.waiting().await?;
    Ok(())
}
