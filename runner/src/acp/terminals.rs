//! Commands that an agent runs through the runner, where the operator offers it (`--terminal`).
//!
//! Invariant: a command and all that it started end when its terminal is released or the connection to the agent ends;
//! the output that is held is bounded.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, TerminalExitStatus, TerminalId, TerminalOutputResponse,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::{
    piped_child::PipedChild,
    process::{ProgramCommand, Supervisor},
    run_helper::ProgramEnd,
};

/// Most terminals of one agent at a time.
const MOST_TERMINALS: usize = 32;

/// Most output of a terminal that is held, in bytes; an agent may ask for less.
const OUTPUT_LIMIT: usize = 1 << 20;

/// The terminals of one agent.
#[derive(Debug)]
pub(super) struct Terminals {
    supervisor: Arc<Supervisor>,
    /// The environment of the agent, which its commands have too.
    env: Vec<(OsString, OsString)>,
    running: Mutex<HashMap<TerminalId, RunningCommand>>,
}

#[derive(Debug, Clone)]
struct RunningCommand {
    output: Arc<Mutex<OutputTail>>,
    exit: watch::Receiver<Option<TerminalExitStatus>>,
    kill: CancellationToken,
    /// Ends the command and its group with the last clone.
    _release: Arc<DropGuard>,
}

impl Terminals {
    /// No terminals yet, whose commands this supervisor starts with this environment.
    pub(super) fn new(supervisor: Arc<Supervisor>, env: Vec<(OsString, OsString)>) -> Self {
        Self {
            supervisor,
            env,
            running: Mutex::default(),
        }
    }

    /// Starts a command in this directory.
    ///
    /// # Errors
    /// The reason for people.
    pub(super) fn create(&self, request: &CreateTerminalRequest, cwd: PathBuf) -> Result<TerminalId, String> {
        let mut terminals = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if terminals.len() >= MOST_TERMINALS {
            return Err(format!(
                "there are {MOST_TERMINALS} terminals already; release one first"
            ));
        }
        let mut command = command_of(request);
        command.cwd = Some(cwd);
        let env = request.env.iter();
        let env = env.map(|variable| (variable.name.clone().into(), variable.value.clone().into()));
        command.env = self.env.iter().cloned().chain(env).collect();
        let (child, stdout, stderr) =
            PipedChild::start_for_output(&self.supervisor, &command).map_err(|error| error.to_string())?;
        let asked = request
            .output_byte_limit
            .map_or(OUTPUT_LIMIT, |limit| limit.try_into().unwrap_or(OUTPUT_LIMIT));
        let output = Arc::new(Mutex::new(OutputTail::new(asked.min(OUTPUT_LIMIT))));
        let (sender, exit) = watch::channel(None);
        let (kill, release) = (CancellationToken::new(), CancellationToken::new());
        tokio::spawn(read_output(stdout, Arc::clone(&output)));
        tokio::spawn(read_output(stderr, Arc::clone(&output)));
        tokio::spawn(run(child, sender, kill.clone(), release.clone()));
        let id = TerminalId::new(Uuid::new_v4().to_string());
        let terminal = RunningCommand {
            output,
            exit,
            kill,
            _release: Arc::new(release.drop_guard()),
        };
        terminals.insert(id.clone(), terminal);
        Ok(id)
    }

    /// The output so far.
    pub(super) fn output(&self, id: &TerminalId) -> Result<TerminalOutputResponse, String> {
        let terminal = self.get(id)?;
        let output = terminal.output.lock().unwrap_or_else(PoisonError::into_inner);
        let exit = terminal.exit.borrow().clone();
        Ok(TerminalOutputResponse::new(output.text(), output.is_cut()).exit_status(exit))
    }

    /// Waits for the end of a command.
    pub(super) async fn wait(&self, id: &TerminalId) -> Result<TerminalExitStatus, String> {
        let mut exit = self.get(id)?.exit;
        let ended = exit.wait_for(Option::is_some).await;
        let ended = ended.map_err(|_| "the terminal was released".to_owned())?;
        Ok(ended.clone().unwrap_or_default())
    }

    /// Ends a command; its output stays.
    pub(super) fn kill(&self, id: &TerminalId) -> Result<(), String> {
        self.get(id)?.kill.cancel();
        Ok(())
    }

    /// Ends a command and forgets it.
    pub(super) fn release(&self, id: &TerminalId) -> Result<(), String> {
        let mut terminals = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        terminals.remove(id).map(|_| ()).ok_or_else(|| unknown(id))
    }

    fn get(&self, id: &TerminalId) -> Result<RunningCommand, String> {
        let terminals = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        terminals.get(id).cloned().ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &TerminalId) -> String {
    format!("there is no terminal {}", id.0)
}

/// The command of a request. One without arguments may be a line for a shell.
fn command_of(request: &CreateTerminalRequest) -> ProgramCommand {
    if request.args.is_empty() && request.command.contains(char::is_whitespace) {
        return program("sh", &["-c".to_owned(), request.command.clone()]);
    }
    program(&request.command, &request.args)
}

fn program(program: &str, args: &[String]) -> ProgramCommand {
    ProgramCommand {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: None,
        max_processes: None,
        held: None,
    }
}

/// Waits for a command, and ends it when it is killed or released.
async fn run(
    mut child: PipedChild,
    exit: watch::Sender<Option<TerminalExitStatus>>,
    kill: CancellationToken,
    release: CancellationToken,
) {
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        () = kill.cancelled() => None,
        () = release.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => child.stop().await,
    };
    exit.send_replace(Some(exit_status(&ended)));
}

fn exit_status(ended: &ProgramEnd) -> TerminalExitStatus {
    let status = TerminalExitStatus::new();
    match ended {
        ProgramEnd::Exited(code) => status.exit_code(u32::try_from(*code).ok()),
        ProgramEnd::Signaled(signal) => status.signal(signal.to_string()),
        // As shells say it.
        ProgramEnd::NotStarted(_) => status.exit_code(127),
        ProgramEnd::Unknown(_) => status,
    }
}

async fn read_output(mut stream: impl AsyncRead + Unpin, output: Arc<Mutex<OutputTail>>) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put(&buffer[..read]);
    }
}

/// The end of an output.
#[derive(Debug)]
struct OutputTail {
    bytes: Vec<u8>,
    limit: usize,
    /// Whether bytes were removed.
    has_removed: bool,
}

impl OutputTail {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            has_removed: false,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // The beginning is removed only now and then, so that a byte is moved once at most.
        if self.bytes.len() > self.limit.saturating_mul(2).max(8 << 10) {
            self.bytes.drain(..self.bytes.len() - self.limit);
            self.has_removed = true;
        }
    }

    /// Whether the text lacks the beginning of the output.
    fn is_cut(&self) -> bool {
        self.has_removed || self.bytes.len() > self.limit
    }

    fn text(&self) -> String {
        let tail = &self.bytes[self.bytes.len().saturating_sub(self.limit)..];
        let is_middle = |byte: &&u8| **byte & 0xc0 == 0x80;
        let cut = if self.is_cut() {
            tail.iter().take(3).take_while(is_middle).count()
        } else {
            0
        };
        String::from_utf8_lossy(&tail[cut..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_kept() {
        let mut tail = OutputTail::new(5);
        tail.put("äöü".as_bytes());
        assert_eq!(tail.text(), "öü");
        tail.put(&vec![b'x'; 100_000]);
        assert_eq!((tail.text().as_str(), tail.is_cut()), ("xxxxx", true));
        assert!(tail.bytes.len() <= 8 << 10);
    }

    #[test]
    fn a_line_is_for_a_shell() {
        let request = |command: &str, args: &[&str]| {
            let args = args.iter().map(ToString::to_string).collect();
            let session = agent_client_protocol::v1::schema::SessionId::new("s");
            let command = command_of(&CreateTerminalRequest::new(session, command).args(args));
            [vec![command.program], command.args].concat()
        };
        assert_eq!(request("ls -l", &[]), ["sh", "-c", "ls -l"]);
        assert_eq!(request("ls", &[]), ["ls"]);
        assert_eq!(request("my program", &["x"]), ["my program", "x"]);
    }

    #[test]
    fn ends_are_told_as_the_protocol_has_them() {
        let told = |ended: ProgramEnd| {
            let status = exit_status(&ended);
            (status.exit_code, status.signal)
        };
        assert_eq!(told(ProgramEnd::Exited(3)), (Some(3), None));
        assert_eq!(told(ProgramEnd::Signaled(15)), (None, Some("15".to_owned())));
        assert_eq!(told(ProgramEnd::NotStarted("no".to_owned())), (Some(127), None));
    }
}
