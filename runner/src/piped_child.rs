//! A program that runs beside the runner and is spoken to by its standard input and output: an MCP server, an ACP
//! agent, a command of a terminal. Its standard error is shown on the terminal of `anycast run`.
//!
//! The program runs under a [`Supervisor`]: it ends with the runner, and all that it started with it.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout},
};

use crate::{
    RunError, log_words,
    process::{LastLines, ProgramCommand, SupervisedProcess, Supervisor},
    program::not_started,
    read_pace::{LogRate, ReadPace},
    run_helper::{ProgramEnd, TERM_GRACE},
};

/// How long the end of a program is waited for: its own time after SIGTERM, and that of SIGKILL.
const END_WITHIN: Duration = TERM_GRACE.saturating_add(Duration::from_secs(2));

/// How long a program that failed may take to end by itself, as one does whose connection has ended.
const OWN_END_WITHIN: Duration = Duration::from_millis(100);

/// How long its last lines are waited for once it has ended: a process outside of its group may hold standard error open.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Most lines of a program that are logged in a second: one that writes without end must not drive all else out of the log.
const MOST_LOGGED: u32 = 200;

/// Longest line of standard error in the log, in bytes; the rest of the line is left out.
const LINE_LIMIT: usize = 4 << 10;

/// A running program. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct PipedChild {
    process: SupervisedProcess,
    /// What it said last on standard error.
    last_lines: Arc<Mutex<LastLines>>,
    /// Reads them, to the end of standard error.
    log: Option<tokio::task::JoinHandle<()>>,
}

impl PipedChild {
    /// Starts a program; its standard input and output.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) fn start(
        supervisor: &Supervisor,
        command: &ProgramCommand,
    ) -> Result<(Self, ChildStdin, ChildStdout), RunError> {
        let mut child = Self::spawn(supervisor, command)?;
        let process = &mut child.process;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            let text = format!("the program has no standard input and output: {command}");
            return Err(RunError::plain(text));
        };
        if let Some(stderr) = process.stderr.take() {
            let log = log_lines(stderr, command.to_string(), Arc::clone(&child.last_lines));
            child.log = Some(tokio::spawn(log));
        }
        Ok((child, stdin, stdout))
    }

    /// Starts a program whose standard input is empty; its standard output and its standard error.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) fn start_for_output(
        supervisor: &Supervisor,
        command: &ProgramCommand,
    ) -> Result<(Self, ChildStdout, ChildStderr), RunError> {
        let mut child = Self::spawn(supervisor, command)?;
        let process = &mut child.process;
        drop(process.stdin.take());
        match (process.stdout.take(), process.stderr.take()) {
            (Some(stdout), Some(stderr)) => Ok((child, stdout, stderr)),
            _ => Err(RunError::plain(format!("the program has no output: {command}"))),
        }
    }

    fn spawn(supervisor: &Supervisor, command: &ProgramCommand) -> Result<Self, RunError> {
        Ok(Self {
            process: supervisor.start(command)?,
            last_lines: Arc::default(),
            log: None,
        })
    }

    /// Waits for the end of the program and of all that it started.
    pub(crate) async fn wait(&mut self) -> ProgramEnd {
        self.process.wait().await
    }

    /// Ends the program, and all that it started.
    pub(crate) async fn stop(&mut self) -> ProgramEnd {
        self.process.end();
        let ended = tokio::time::timeout(END_WITHIN, self.process.wait()).await;
        ended.unwrap_or_else(|_| ProgramEnd::Unknown(format!("it did not end within {END_WITHIN:?}")))
    }

    /// Ends the program, which failed for this reason; the whole reason: with its end, unless the
    /// runner ended it, and its last lines.
    pub(crate) async fn stop_failed(&mut self, reason: &str) -> RunError {
        // The runner itself ends without a reason.
        let within = if reason.is_empty() {
            Duration::ZERO
        } else {
            OWN_END_WITHIN
        };
        let waited = tokio::time::timeout(within, self.process.wait()).await;
        let has_ended = waited.is_ok();
        let end = self.stop().await;
        if let ProgramEnd::NotStarted(reason) = end {
            return not_started(&reason, self.process.command());
        }
        if let Some(log) = self.log.take() {
            let _ = tokio::time::timeout(LAST_LINES_WITHIN, log).await;
        }
        let lines = self
            .last_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .text();
        let lines = if lines.is_empty() {
            lines
        } else {
            format!("\n{lines}")
        };
        // The signals of the runner say nothing about the program.
        let is_ours = !has_ended && matches!(end, ProgramEnd::Signaled(_));
        let end = if is_ours {
            String::new()
        } else {
            format!(" ({end})")
        };
        RunError::new(format!("{reason}{end}{lines}"))
    }
}

/// Writes each line to a log that shows it, in bounded memory, and keeps the last ones.
async fn log_lines(stderr: impl AsyncRead + Unpin, program: String, last_lines: Arc<Mutex<LastLines>>) {
    let mut lines = BufReader::new(stderr);
    let (mut pace, mut logged) = (ReadPace::new(), LogRate::new(MOST_LOGGED));
    loop {
        let mut line = Vec::new();
        let read = (&mut lines)
            .take(LINE_LIMIT as u64)
            .read_until(b'\n', &mut line)
            .await;
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_cut = !line.ends_with(b"\n") && line.len() == LINE_LIMIT;
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            if log_words::are_shown()
                && let Some(left_out) = logged.next()
            {
                if left_out > 0 {
                    tracing::info!(program, lines = left_out, "lines of the program were left out");
                }
                tracing::info!(program, "{}", text.trim_end());
            }
            last_lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(&text);
        }
        pace.after(line.len()).await;
        if is_cut && skip_line(&mut lines).await.is_err() {
            return;
        }
    }
}

/// Reads to the end of a line without keeping it.
async fn skip_line(lines: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<()> {
    loop {
        let bytes = lines.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let read = end.map_or(bytes.len(), |end| end + 1);
        lines.consume(read);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_cut_and_the_last_lines_are_kept() {
        let stderr = format!("one\n\n{}\nlast", "x".repeat(3 * LINE_LIMIT));
        let last_lines = Arc::<Mutex<LastLines>>::default();
        log_lines(stderr.as_bytes(), "p".to_owned(), Arc::clone(&last_lines)).await;
        let text = last_lines.lock().unwrap().text();
        // The long line is more than is kept.
        assert!(text.ends_with("\nlast") || text == "last", "{text}");
        assert!(text.len() < LINE_LIMIT);
    }
}
