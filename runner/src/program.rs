//! A program as an agent: one process per task. It gets the text on its standard input and files in a directory, and its
//! standard output and the files that it leaves are the results (docs/run.md).

use std::{
    ffi::OsString,
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentanycast_gateway::agents::{AgentTask, ResendingStream};
use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tokio_util::task::TaskTracker;

use crate::{
    Attempt, Backend, RunError, TaskResult,
    host_want::{LOOK, is_passing, is_passing_text},
    parts::{artifact, newest_message, printed_part, printed_type, raw_part, text_message, text_of},
    process::{LastLines, ProgramCommand, SupervisedProcess, Supervisor},
    read_pace::ReadPace,
    run_helper::ProgramEnd,
};

mod file_names;
mod task_directory;

use file_names::media_type;
use task_directory::{OutputFile, TaskDirectory};

/// How long results that cannot be read for a want of the host are tried again: more files than the runner may have open are such a
/// want, too.
const WAIT_TO_READ: Duration = Duration::from_mins(10);

/// The exit code by which a program asks for input, as EX_TEMPFAIL of sysexits.h.
const ASKS: i32 = 75;

/// The name of the artifact of what a program printed.
const PRINTED: &str = "result";

/// Largest result that goes with the end of a task; a larger one is streamed before it.
const INLINE: u64 = 256 << 10;

/// Most bytes of results that go with the end of a task; further ones are streamed before it.
const INLINE_IN_ALL: u64 = 2 << 20;

/// Largest question, in bytes; what is beyond is cut.
const LARGEST_QUESTION: usize = 64 << 10;

/// Longest line of standard error, in bytes; a longer one counts as several.
const LONGEST_LINE: usize = 4 << 10;

/// How often the disk that a task takes is looked at.
const SIZE_CHECK: Duration = Duration::from_millis(250);

/// Least time between two reports of progress.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);

/// How long output that processes outside of the program's group hold open is waited for after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Piece in which a file is streamed.
const PIECE: usize = 64 << 10;

/// How a program is run for tasks.
#[derive(Clone, Debug)]
pub struct ProgramSettings {
    /// The program.
    pub command: ProgramCommand,
    /// The media type of what it prints; `None`: JSON, text or bytes, as it looks.
    pub media_type: Option<String>,
    /// Its standard error is progress.
    pub progress: bool,
    /// Most bytes that it may print, and that its files may take.
    pub max_output: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct ProgramBackend {
    settings: ProgramSettings,
    supervisor: Supervisor,
    directory: PathBuf,
    /// Runs that were dropped end in here.
    ending: TaskTracker,
}

impl ProgramBackend {
    /// With its files in `directory`; `helper` as for [`Supervisor::new`].
    ///
    /// # Errors
    /// As for [`Supervisor::new`].
    pub fn new(
        settings: ProgramSettings,
        directory: &Path,
        helper: Option<PathBuf>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            settings,
            supervisor: Supervisor::new(helper)?,
            directory: directory.to_owned(),
            ending: TaskTracker::new(),
        })
    }

    fn command(&self, task: &v1::Task, attempt: Attempt, directory: &TaskDirectory) -> ProgramCommand {
        let mut command = self.settings.command.clone();
        let deadline = attempt.deadline.map(seconds).unwrap_or_default();
        let variables: [(&str, OsString); 8] = [
            ("ANYCAST_TASK_ID", task.task_id.as_str().into()),
            ("ANYCAST_CONTEXT_ID", task.context_id.as_str().into()),
            ("ANYCAST_SKILL", task.target_skill_id.as_str().into()),
            ("ANYCAST_SENDER", task.originator_peer_id.as_str().into()),
            ("ANYCAST_DEADLINE", deadline.into()),
            ("ANYCAST_ATTEMPT", attempt.number.to_string().into()),
            ("ANYCAST_INPUT_DIR", directory.input().into()),
            ("ANYCAST_OUTPUT_DIR", directory.output().into()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value));
        command
            .env
            .extend(variables.map(|(name, value): (OsString, OsString)| (name, without_nul(value))));
        command
    }
}

/// Whole seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().to_string()
}

/// A variable cannot have a NUL byte, which an id of a sender may have.
fn without_nul(value: OsString) -> OsString {
    match value.to_str() {
        Some(text) if text.contains('\0') => text.replace('\0', "").into(),
        _ => value,
    }
}

#[async_trait]
impl Backend for ProgramBackend {
    async fn run(&self, task: &dyn AgentTask, attempt: Attempt) -> Result<TaskResult, RunError> {
        let (above, shown) = (self.directory.clone(), task.task().clone());
        let directory = tokio::task::spawn_blocking(move || TaskDirectory::new(&above, &shown)).await;
        let directory = directory
            .map_err(|error| RunError::new(error.to_string()))?
            .map_err(|error| RunError::of_start("the task's files cannot be written", &error))?;
        let process = self
            .supervisor
            .start(&self.command(task.task(), attempt, &directory))?;
        let mut run = ProgramRun {
            process: Some(process),
            directory: Some(directory),
            ending: self.ending.clone(),
        };
        run.run_to_end(task, &self.settings).await
    }

    async fn stop(&self) {
        self.ending.close();
        self.ending.wait().await;
    }
}

/// One process and its files. Dropping it ends the process, and removes the files when that is gone.
struct ProgramRun {
    process: Option<SupervisedProcess>,
    directory: Option<TaskDirectory>,
    ending: TaskTracker,
}

impl Drop for ProgramRun {
    fn drop(&mut self) {
        let (process, directory) = (self.process.take(), self.directory.take());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let ending = async move {
            if let Some(mut process) = process {
                process.end();
                process.wait().await;
            }
            drop(directory);
        };
        runtime.spawn(self.ending.track_future(ending));
    }
}

/// What a program printed: the beginning in memory, or all of it in a file.
enum Printed {
    InMemory(Vec<u8>),
    InFile(OutputFile),
}

impl ProgramRun {
    async fn run_to_end(
        &mut self,
        task: &dyn AgentTask,
        settings: &ProgramSettings,
    ) -> Result<TaskResult, RunError> {
        let (Some(process), Some(directory)) = (&mut self.process, &self.directory) else {
            return Err(RunError::new("the program was not started"));
        };
        let command = process.command().to_owned();
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let text = newest_message(task.task()).map(text_of).unwrap_or_default();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read what it is told.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
        };
        let (said, progress) = watch::channel(String::new());
        let read_stderr = async move {
            let mut last = LastLines::default();
            if let Some(stderr) = stderr {
                read_lines(stderr, &mut last, &said).await;
            }
            last
        };
        let max_output = settings.max_output;
        let read_stdout = async {
            match stdout {
                Some(stdout) => read_printed(stdout, directory, max_output).await,
                None => Ok(Printed::InMemory(Vec::new())),
            }
        };
        let cancelled = task.cancelled();
        let watch_size = async {
            let mut look = interval(SIZE_CHECK);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                look.tick().await;
                if let Err(reason) = directory.check_size(max_output) {
                    return RunError::plain(reason);
                }
            }
        };
        let pipes = async { tokio::join!(feed, read_stderr, read_stdout) };
        let mut pipes = std::pin::pin!(pipes);
        let mut piped = None;
        let report = report_progress(task, progress, settings.progress);
        let (mut watch_size, mut report) = (std::pin::pin!(watch_size), std::pin::pin!(report));
        let end = loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => break Err(RunError::new("the program was ended")),
                all = &mut pipes, if piped.is_none() => {
                    let ((), last, printed) = all;
                    match printed {
                        Ok(printed) => piped = Some((last, printed)),
                        Err(error) => break Err(error),
                    }
                }
                over = &mut watch_size => break Err(over),
                () = &mut report => {}
                end = process.wait() => break Ok(end),
            }
        };
        let end = match end {
            Ok(end) => end,
            Err(error) => {
                process.end();
                process.wait().await;
                return Err(error);
            }
        };
        let (last, printed) = if let Some(piped) = piped {
            piped
        } else if let Ok(((), last, printed)) = tokio::time::timeout(LAST_OUTPUT, pipes).await {
            (last, printed?)
        } else {
            let text =
                format!("a process that it started outside of its group holds its output open: {command}");
            return Err(RunError::plain(text));
        };
        if let Err(reason) = directory.check_size(max_output) {
            return Err(RunError::plain(reason));
        }
        match end {
            ProgramEnd::Exited(0) => results(task, settings, directory, printed).await,
            ProgramEnd::Exited(ASKS) => Ok(TaskResult::Question(question(printed)?)),
            ProgramEnd::NotStarted(reason) => Err(not_started(&reason, &command)),
            end => Err(RunError::new(failure(&end, &last)).summarised(end.to_string())),
        }
    }
}

/// The error of a program that the helper could not start.
pub(crate) fn not_started(reason: &str, command: &str) -> RunError {
    let text = format!("the program cannot be started: {reason}: {command}");
    if is_passing_text(reason) {
        RunError::unstarted(text)
    } else {
        RunError::plain(text)
    }
}

/// Why a task fails whose program ended so.
pub(crate) fn failure(end: &ProgramEnd, last: &LastLines) -> String {
    let said = last.text();
    if said.is_empty() {
        format!("{end}, without a word on standard error")
    } else {
        format!("{end}: {said}")
    }
}

/// Reads standard error line by line.
pub(crate) async fn read_lines(
    stderr: impl AsyncRead + Unpin,
    last: &mut LastLines,
    said: &watch::Sender<String>,
) {
    let mut reader = BufReader::new(stderr);
    let (mut line, mut pace) = (Vec::new(), ReadPace::new());
    loop {
        line.clear();
        // Only as much of a line as is kept.
        let limit = LONGEST_LINE as u64;
        match (&mut reader).take(limit).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end();
                last.push(text);
                if !text.is_empty() {
                    said.send_replace(text.to_owned());
                }
            }
        }
        pace.after(line.len()).await;
    }
}

/// Reports the newest line now and then. Resolves only where there is nothing to report any more.
async fn report_progress(task: &dyn AgentTask, mut lines: watch::Receiver<String>, wanted: bool) {
    while wanted && lines.changed().await.is_ok() {
        let line = lines.borrow_and_update().clone();
        if let Err(error) = task.working(text_message(line)).await {
            tracing::debug!(%error, "progress could not be reported");
        }
        tokio::time::sleep(PROGRESS_PAUSE).await;
    }
    std::future::pending::<()>().await;
}

/// Reads standard output, and fails when it is more than `most` bytes.
async fn read_printed(
    mut stdout: impl AsyncRead + Unpin,
    directory: &TaskDirectory,
    most: u64,
) -> Result<Printed, RunError> {
    let full = |error: std::io::Error| RunError::plain(format!("its output cannot be written: {error}"));
    let (mut memory, mut file) = (Vec::new(), None::<File>);
    let mut size = 0_u64;
    let mut buffer = vec![0; PIECE];
    loop {
        let count = match stdout.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(RunError::plain(format!("its output cannot be read: {error}"))),
        };
        size += count as u64;
        if size > most {
            return Err(RunError::plain(format!(
                "it printed more than {most} bytes (--max-output)"
            )));
        }
        let piece = &buffer[..count];
        if let Some(file) = &mut file {
            file.write_all(piece).map_err(full)?;
        } else {
            memory.extend_from_slice(piece);
            if memory.len() as u64 > INLINE {
                let mut overflow = directory.overflow_file().map_err(full)?;
                overflow.write_all(&memory).map_err(full)?;
                memory = Vec::new();
                file = Some(overflow);
            }
        }
    }
    Ok(match file {
        None => Printed::InMemory(memory),
        Some(mut file) => {
            file.seek(SeekFrom::Start(0)).map_err(full)?;
            Printed::InFile(OutputFile {
                name: PRINTED.to_owned(),
                file,
                size,
            })
        }
    })
}

fn question(printed: Printed) -> Result<v1::Message, RunError> {
    let mut text = match printed {
        Printed::InMemory(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Printed::InFile(mut file) => {
            let bytes = file.read(LARGEST_QUESTION as u64);
            let bytes = bytes.map_err(|error| RunError::new(error.to_string()))?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    text.truncate(text.floor_char_boundary(LARGEST_QUESTION));
    Ok(text_message(text.trim_end()))
}

/// The files that the program has written. Its work is done, so a passing want of the host is waited out.
async fn opened_outputs(directory: &TaskDirectory) -> std::io::Result<Vec<OutputFile>> {
    let until = Instant::now() + WAIT_TO_READ;
    loop {
        match directory.outputs() {
            Err(error) if is_passing(&error) && Instant::now() < until => {
                tracing::warn!(%error, "the results of a task cannot be read yet");
                sleep(LOOK).await;
            }
            outputs => return outputs,
        }
    }
}

/// The results: what it printed, and its files. Large ones are streamed now.
async fn results(
    task: &dyn AgentTask,
    settings: &ProgramSettings,
    directory: &TaskDirectory,
    printed: Printed,
) -> Result<TaskResult, RunError> {
    let unread = |error: std::io::Error| RunError::plain(format!("its results cannot be read: {error}"));
    let mut artifacts = Vec::new();
    let mut inline = 0;
    match printed {
        Printed::InMemory(bytes) if bytes.is_empty() => {}
        Printed::InMemory(bytes) => {
            inline += bytes.len() as u64;
            let part = printed_part(bytes, settings.media_type.as_deref());
            artifacts.push(artifact(PRINTED, part));
        }
        Printed::InFile(mut file) => {
            let media_type = if let Some(media_type) = &settings.media_type {
                media_type.clone()
            } else {
                let looked = tokio::task::spawn_blocking(move || {
                    let media_type = printed_type(&mut file.file)?;
                    Ok::<_, std::io::Error>((file, media_type))
                });
                let media_type;
                (file, media_type) = looked
                    .await
                    .map_err(std::io::Error::from)
                    .flatten()
                    .map_err(unread)?;
                media_type.to_owned()
            };
            stream(task, file, &media_type).await?;
        }
    }
    for mut file in opened_outputs(directory).await.map_err(unread)? {
        let media_type = media_type(&file.name);
        if file.size > INLINE || inline + file.size > INLINE_IN_ALL {
            stream(task, file, media_type).await?;
            continue;
        }
        inline += file.size;
        let bytes = file.read(INLINE).map_err(unread)?;
        let part = raw_part(bytes, &file.name, media_type);
        artifacts.push(artifact(&file.name, part));
    }
    Ok(TaskResult::Completed {
        artifacts,
        message: None,
    })
}

async fn stream(task: &dyn AgentTask, file: OutputFile, media_type: &str) -> Result<(), RunError> {
    let sent = ResendingStream::new(task, &file.name, media_type, file.file)
        .finish()
        .await;
    sent.map_err(|error| RunError::new(format!("result {} could not be sent: {error}", file.name)))
}
