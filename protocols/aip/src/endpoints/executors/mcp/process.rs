//! The program of an MCP server, in a process group of its own.
//!
//! Invariant: when this is dropped, the program and all that it has started are killed.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// How long a program may take to end after its input is closed.
pub(super) const END_WITHIN: Duration = Duration::from_secs(2);

/// How long its last words are waited for: a process that left the group may hold standard error open.
const WORDS_WITHIN: Duration = Duration::from_millis(500);

/// Bytes of standard error that are kept, the last ones.
const LAST_WORDS: usize = 2048;

/// A program that runs.
pub(super) struct ServerProcess {
    child: Child,
    _group: ProcessGroup,
    last_words: Arc<Mutex<Vec<u8>>>,
    reader: AbortOnDropHandle<()>,
}

impl ServerProcess {
    /// Starts a program; its standard input and output.
    ///
    /// # Errors
    /// Why it is not started.
    pub(super) fn start(
        program: &str,
        arguments: &[String],
    ) -> Result<(Self, ChildStdin, ChildStdout), String> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())?;
        let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("it has no standard input and output".to_owned());
        };
        let last_words = Arc::<Mutex<Vec<u8>>>::default();
        let reader = tokio::spawn(keep_last(stderr, Arc::clone(&last_words)));
        let process = Self {
            child,
            _group: group,
            last_words,
            reader: AbortOnDropHandle::new(reader),
        };
        Ok((process, stdin, stdout))
    }

    /// Waits for the end of the program, whose input is closed, and kills it after [`END_WITHIN`]; how it
    /// ended, with its last words.
    pub(super) async fn end(mut self) -> String {
        let end = match timeout(END_WITHIN, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not end by itself and was killed".to_owned(),
        };
        let _ = timeout(WORDS_WITHIN, &mut self.reader).await;
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words);
        match words.trim() {
            "" => end,
            words => format!("{end}; it said: {words}"),
        }
    }
}

/// Reads to the end, and keeps the last bytes.
async fn keep_last(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        tracing::debug!(
            "an MCP server says: {}",
            String::from_utf8_lossy(&buffer[..count]).trim_end()
        );
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..count]);
        let too_many = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..too_many);
    }
}

/// The processes of a program. They are killed when it is dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Mostly there is none left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
