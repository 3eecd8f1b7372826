//! A client of MCP, revision 2025-06-18, of a process that speaks it on its standard input and output.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{http::has_safe_line_breaks, wait::within};

/// A process that speaks MCP on its standard input and output. Dropping it kills it.
#[derive(Debug)]
pub struct StdioMcp {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl StdioMcp {
    /// Starts it, up to the end of the handshake.
    ///
    /// # Panics
    /// When it is not `agentanycast` that answers.
    pub async fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut piped = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let told = piped.asked(&hello).await;
        assert_eq!(told["result"]["serverInfo"]["name"], "agentanycast", "{told}");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        piped.say(&ready).await;
        piped
    }

    /// Writes a message.
    ///
    /// # Panics
    /// When its input is closed.
    pub async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    /// The next message that it writes.
    ///
    /// # Panics
    /// When none comes, or something else.
    pub async fn next(&mut self) -> Value {
        let line = within("a line comes", self.output.next_line()).await.unwrap();
        let line = line.expect("the output goes on");
        assert!(
            has_safe_line_breaks(&line),
            "a reader of lines takes this for more lines: {line:?}"
        );
        serde_json::from_str(&line).expect("nothing but MCP is on standard output")
    }

    /// The message that follows this one, its answer where nothing else goes on.
    pub async fn asked(&mut self, message: &Value) -> Value {
        self.say(message).await;
        self.next().await
    }

    /// Closes its input, and checks that it ends well.
    ///
    /// # Panics
    /// When it does not.
    pub async fn end(mut self) {
        self.input = None;
        let status = within("it ends with its input", self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }
}
