//! A tool that runs programs of an allow list, without a shell.
//!
//! Invariant: a program that is not listed is not run, its output has a largest size, and it ends in time.

use std::{collections::BTreeSet, path::PathBuf, process::Stdio, time::Duration};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
    time::timeout,
};

use super::unknown_tool;
use crate::{
    messages::{McpToolInfo, ToolCommand, ToolCommandType},
    protocol::{BatchContext, ToolExecutor, ToolFailure, ToolOutput},
};

/// The tool's name.
const EXECUTE: &str = "execute_command";

/// The tool's server.
const NAMESPACE: &str = "BashExecutor";

/// How long a program may take unless a command says less.
const LONGEST: Duration = Duration::from_mins(2);

/// Bytes of each output that are kept.
const LARGEST_OUTPUT: u64 = 1 << 20;

/// The tool `execute_command`: runs a program with arguments; pipes, wildcards and variables are not interpreted.
#[derive(Clone, Debug)]
pub struct ShellTool {
    programs: BTreeSet<String>,
    folder: PathBuf,
}

impl ShellTool {
    /// Runs these programs in `folder`.
    pub fn new<I>(programs: I, folder: impl Into<PathBuf>) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self {
            programs: programs.into_iter().map(Into::into).collect(),
            folder: folder.into(),
        }
    }

    async fn run(&self, command: &ToolCommand) -> Result<Value, String> {
        let line = command.parameters.get("command").and_then(Value::as_str);
        let line = line.ok_or("Input validation error: 'command' is a required property")?;
        let mut words = shlex::split(line)
            .ok_or("the command has an open quote")?
            .into_iter();
        let program = words.next().ok_or("the command is empty")?;
        if !self.programs.contains(&program) {
            let listed: Vec<&str> = self.programs.iter().map(String::as_str).collect();
            return Err(format!(
                "'{program}' is not allowed; allowed are {}",
                listed.join(", ")
            ));
        }
        let seconds = command.parameters.get("timeout").and_then(Value::as_u64);
        let within = seconds.map_or(LONGEST, |seconds| {
            Duration::from_secs(seconds.max(1)).min(LONGEST)
        });
        let mut child = Command::new(&program)
            .args(words)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("'{program}' cannot be run: {error}"))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let finished = async { tokio::join!(child.wait(), read(stdout), read(stderr)) };
        let finished = timeout(within, finished).await;
        let (status, stdout, stderr) =
            finished.map_err(|_| format!("'{program}' took more than {} s", within.as_secs()))?;
        let status = status.map_err(|error| format!("'{program}' cannot be awaited: {error}"))?;
        Ok(json!({
            "success": status.success(), "exit_code": status.code(), "stdout": stdout, "stderr": stderr,
        }))
    }
}

/// The first bytes of an output; the rest is read and dropped, so that the program does not wait for a reader.
async fn read<R: AsyncRead + Unpin>(output: Option<R>) -> String {
    let Some(mut output) = output else {
        return String::new();
    };
    let mut kept = Vec::new();
    let _ = (&mut output).take(LARGEST_OUTPUT).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

#[async_trait]
impl ToolExecutor for ShellTool {
    async fn tools(&self, _: &BatchContext) -> Result<Vec<McpToolInfo>, ToolFailure> {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "description": "A program of the list, and its arguments" },
                "timeout": { "type": "integer", "description": "Seconds, 1 to 120", "default": 120 },
            },
            "required": ["command"],
        });
        let listed: Vec<&str> = self.programs.iter().map(String::as_str).collect();
        let mut tool = McpToolInfo::new(ToolCommandType::Action, NAMESPACE, EXECUTE, schema);
        tool.description = Some(format!(
            "Runs one of these programs, without a shell: {}",
            listed.join(", ")
        ));
        Ok(vec![tool])
    }

    async fn execute(&self, _: &BatchContext, command: &ToolCommand) -> Result<ToolOutput, ToolFailure> {
        if command.tool_name != EXECUTE {
            return Err(unknown_tool(&command.tool_name));
        }
        let namespace = Some(NAMESPACE.to_owned());
        match self.run(command).await {
            Ok(result) => Ok(ToolOutput { result, namespace }),
            Err(error) => Err(ToolFailure { error, namespace }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn execute(parameters: Value) -> Result<ToolOutput, ToolFailure> {
        let tool = ShellTool::new(["echo", "sleep", "false", "head"], "/");
        let command = ToolCommand::new(EXECUTE, parameters.as_object().cloned().unwrap());
        tool.execute(&BatchContext::default(), &command).await
    }

    #[tokio::test]
    async fn only_listed_programs_run_and_nothing_is_interpreted() {
        let output = execute(json!({ "command": "echo 'a b' $HOME | cat; pwd" }))
            .await
            .unwrap();
        assert_eq!(output.result["stdout"], "a b $HOME | cat; pwd\n");
        assert_eq!(output.namespace.as_deref(), Some(NAMESPACE));
        let failed = execute(json!({ "command": "false" })).await.unwrap();
        assert_eq!(
            (&failed.result["success"], &failed.result["exit_code"]),
            (&json!(false), &json!(1))
        );
        for (parameters, why) in [
            (json!({ "command": "rm -rf /tmp/x" }), "'rm' is not allowed"),
            (json!({ "command": "/bin/echo x" }), "is not allowed"),
            (json!({}), "required property"),
            (json!({ "command": "echo 'a" }), "open quote"),
            (json!({ "command": "" }), "empty"),
        ] {
            let failure = execute(parameters).await.unwrap_err();
            assert!(failure.error.contains(why), "{failure:?}");
        }
    }

    #[tokio::test]
    async fn programs_end_in_time_and_their_output_is_cut() {
        let failure = execute(json!({ "command": "sleep 60", "timeout": 1 }))
            .await
            .unwrap_err();
        assert!(failure.error.contains("more than 1 s"), "{failure:?}");
        let output = execute(json!({ "command": "head -c 3000000 /dev/zero" }))
            .await
            .unwrap();
        assert_eq!(
            output.result["stdout"].as_str().unwrap().len() as u64,
            LARGEST_OUTPUT
        );
    }
}
