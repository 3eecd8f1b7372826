//! MCP on standard input and output, for the process that started this one.

use std::{error::Error, io, sync::Arc};

use anyhow::Context as _;
use rmcp::{
    service::{ServerInitializeError, serve_server_with_ct},
    transport::{async_rw::AsyncRwTransport, io::stdio_pipes},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{McpServer, ToolHandler, escaped_lines::EscapedLines};

/// Longest line, in bytes: a message of 16 MiB in base64. A longer one is dropped; the log says so.
const LINE: usize = 24 << 20;

/// Serves until the client closes standard input, or until `stop`.
///
/// # Errors
/// When the client does not speak MCP.
pub async fn serve(tools: Arc<ToolHandler>, stop: CancellationToken) -> anyhow::Result<()> {
    let (reader, writer) = stdio_pipes();
    serve_over(tools, reader, writer, stop).await
}

async fn serve_over(
    tools: Arc<ToolHandler>,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let transport =
        AsyncRwTransport::new_server(reader, EscapedLines::new(writer)).with_max_line_length(LINE);
    let running = match serve_server_with_ct(McpServer::local(tools), transport, stop).await {
        Ok(running) => running,
        // It had nothing to ask.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        // It has ended, and reads no answer.
        Err(ServerInitializeError::TransportError { error, .. }) if is_closed_pipe(&*error.error) => {
            return Ok(());
        }
        Err(error) => return Err(error).context("the client on standard input does not speak MCP"),
    };
    running.waiting().await?;
    Ok(())
}

fn is_closed_pipe(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
        time::Instant,
    };

    use super::*;
    use agentanycast_gateway::fake::FakeGateway;

    /// A client that has shaken hands.
    struct StdioClient {
        input: WriteHalf<DuplexStream>,
        output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    }

    impl StdioClient {
        async fn new() -> Self {
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let (reader, writer) = tokio::io::split(theirs);
            let tools = Arc::new(ToolHandler::new(Arc::new(FakeGateway::default()), Arc::default()));
            tokio::spawn(serve_over(tools, reader, writer, CancellationToken::new()));
            let (output, input) = tokio::io::split(ours);
            let output = BufReader::new(output).lines();
            let mut client = Self { input, output };
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
            client.say(&hello).await;
            client.hear().await;
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            client.say(&ready).await;
            client
        }

        async fn say(&mut self, message: &Value) {
            let line = format!("{message}\n");
            self.input.write_all(line.as_bytes()).await.unwrap();
        }

        async fn hear(&mut self) -> Value {
            let line = self.output.next_line().await.unwrap().unwrap();
            serde_json::from_str(&line).unwrap()
        }
    }

    /// A call without `wait_seconds` is answered before the TypeScript client's 60 seconds are over, and
    /// shows that it is alive meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_client_hears_of_a_silent_agent() {
        let mut client = StdioClient::new().await;
        let begin = Instant::now();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "ask_agent", "arguments": {"message": "wait", "skill": "echo"}, "_meta": {"progressToken": "p"}}});
        client.say(&call).await;
        let mut heard = Vec::new();
        let answer = loop {
            let message = client.hear().await;
            if message["id"] == 1 {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], "p", "{message}");
            heard.push((begin.elapsed().as_secs(), message["params"]["progress"].clone()));
        };
        // A beat may come with the end of the wait.
        heard.retain(|(second, _)| *second < 45);
        assert_eq!(heard, [(0, json!(1.0)), (15, json!(2.0)), (30, json!(3.0))]);
        assert_eq!(begin.elapsed().as_secs(), 45);
        assert_eq!(
            answer["result"]["structuredContent"]["state"], "working",
            "{answer}"
        );
        assert_eq!(answer["result"]["isError"], false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_may_ask_for_a_longer_wait() {
        let mut client = StdioClient::new().await;
        let begin = Instant::now();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "ask_agent", "arguments": {"message": "wait", "skill": "echo", "wait_seconds": 600}}});
        client.say(&call).await;
        let answer = client.hear().await;
        assert_eq!(
            answer["result"]["structuredContent"]["state"], "working",
            "{answer}"
        );
        assert_eq!(begin.elapsed(), Duration::from_mins(10));
    }
}
