//! One process that speaks JSON lines: a task of the runtime writes to it, another one reads what it says and passes it on by
//! the ids of tasks.

use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentanycast_readers::excerpt::excerpt;
use lru::LruCache;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _},
    process::ChildStdin,
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::{
    half_chunks::HalfChunks,
    protocol::{self, BadLine, ProgramLine, Said},
};
use crate::{
    RunError,
    log_words::said,
    process::{LastLines, SupervisedProcess},
    program::{failure, not_started, read_lines},
    program_lines::{LinesError, ProgramLines},
    read_pace::{LogRate, ReadPace},
    run_helper::ProgramEnd,
};

/// Lines that wait to be written to the process.
const LINES: usize = 64;

/// A process that prints so many lines in a row that are not understood speaks something else.
const MOST_BAD_LINES: u32 = 1000;

/// Most tasks that are known to be over: what a program says of them is ignored.
const MOST_ENDED: NonZeroUsize = NonZeroUsize::new(1000).expect("not zero");

/// How long the last lines of standard error are waited for.
const LAST_LINES: Duration = Duration::from_secs(8);

/// What a task hears of its process. The end of the channel is the end of the process.
#[derive(Debug)]
pub(super) enum TaskEvent {
    Said(Said),
    /// A line about the task that is not understood.
    Bad(String),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct LineProcess {
    lines: mpsc::Sender<String>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    /// Set when the process is gone.
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SharedState>,
}

#[derive(Debug)]
struct SharedState {
    /// Lines that it has printed.
    printed: u64,
    /// It gets no more tasks, and is ended when it has none.
    retired: bool,
    /// The runs of tasks, by the ids of the tasks.
    open: HashMap<String, mpsc::Sender<TaskEvent>>,
    /// The tasks that the process had last.
    over: LruCache<String, ()>,
    /// Why the process ended; it is not used any more.
    ended: Option<RunError>,
}

impl Default for SharedState {
    fn default() -> Self {
        Self {
            printed: 0,
            retired: false,
            open: HashMap::new(),
            over: LruCache::new(MOST_ENDED),
            ended: None,
        }
    }
}

impl SharedState {
    /// The runs that a line is about: those that it names, or all where it names none and may be about any.
    fn concerned(&self, ids: &[String], may_be_any: bool) -> Vec<mpsc::Sender<TaskEvent>> {
        let named: Vec<_> = ids.iter().filter_map(|id| self.open.get(id).cloned()).collect();
        let is_known = ids.iter().any(|id| self.over.contains(id));
        if named.is_empty() && may_be_any && !is_known {
            return self.open.values().cloned().collect();
        }
        named
    }
}

impl Shared {
    // Each change is one insertion or removal.
    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineProcess {
    pub(super) fn start(mut process: SupervisedProcess) -> Self {
        let (lines, queued) = mpsc::channel(LINES);
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        let (is_gone, gone) = watch::channel(false);
        if let Some(stdin) = process.stdin.take() {
            tokio::spawn(write(stdin, queued));
        }
        tokio::spawn(serve(process, Arc::clone(&shared), stop.clone(), is_gone));
        Self {
            lines,
            shared,
            stop,
            gone,
        }
    }

    /// Whether tasks can be given to it.
    pub(super) fn is_alive(&self) -> bool {
        let state = self.shared.state();
        state.ended.is_none() && !state.retired
    }

    /// How many lines it has printed.
    pub(super) fn printed(&self) -> u64 {
        self.shared.state().printed
    }

    /// Gives it no more tasks, and ends it when those that it has are over.
    pub(super) fn retire(&self) {
        self.shared.state().retired = true;
    }

    /// From now on what it says of this task goes to `events`.
    pub(super) fn register(
        &self,
        id: &str,
        events: mpsc::Sender<TaskEvent>,
    ) -> Result<Registration, RunError> {
        let mut state = self.shared.state();
        if let Some(why) = &state.ended {
            return Err(why.clone());
        }
        if state.open.contains_key(id) {
            return Err(RunError::new("the program does this task already"));
        }
        state.open.insert(id.to_owned(), events);
        Ok(Registration {
            id: id.to_owned(),
            shared: Arc::clone(&self.shared),
            lines: self.lines.clone(),
            stop: self.stop.clone(),
        })
    }

    /// Writes a line; waits while the process is behind with reading.
    pub(super) async fn send(&self, line: String) -> Result<(), RunError> {
        let sent = self.lines.send(line).await;
        sent.map_err(|_| self.end_error())
    }

    /// Why a task fails whose process has ended.
    pub(super) fn end_error(&self) -> RunError {
        let ended = self.shared.state().ended.clone();
        ended.unwrap_or_else(|| RunError::interrupted("the program does not read its input any more"))
    }

    /// Ends it, and waits until it is gone.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }
}

/// Dropping it takes the task away from the process.
#[derive(Debug)]
pub(super) struct Registration {
    id: String,
    shared: Arc<Shared>,
    lines: mpsc::Sender<String>,
    stop: CancellationToken,
}

impl Registration {
    /// Writes a line, unless the process is far behind with reading.
    pub(super) fn tell(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            tracing::debug!(task = self.id, "the program is not told of the end of a task");
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.open.remove(&self.id);
        state.over.put(std::mem::take(&mut self.id), ());
        if state.retired && state.open.is_empty() {
            self.stop.cancel();
        }
    }
}

async fn write(mut stdin: ChildStdin, mut queued: mpsc::Receiver<String>) {
    while let Some(line) = queued.recv().await {
        if let Err(error) = stdin.write_all(line.as_bytes()).await {
            tracing::debug!(%error, "the program does not read its input any more");
            return;
        }
    }
}

/// Reads what the process says until it has ended, and tells its tasks.
async fn serve(
    mut process: SupervisedProcess,
    shared: Arc<Shared>,
    stop: CancellationToken,
    is_gone: watch::Sender<bool>,
) {
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let (said, _) = watch::channel(String::new());
    let command = process.command().to_owned();
    let reading = async {
        match stdout {
            Some(stdout) => read_stdout(stdout, &shared, &command).await,
            None => Ok(()),
        }
    };
    let reading_errors = async {
        let mut last = LastLines::default();
        if let Some(stderr) = stderr {
            read_lines(stderr, &mut last, &said).await;
        }
        last
    };
    let (mut reading, mut reading_errors) = (std::pin::pin!(reading), std::pin::pin!(reading_errors));
    let mut last = None;
    let read = loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break Err("the runner ends".to_owned()),
            read = &mut reading => break read,
            lines = &mut reading_errors, if last.is_none() => last = Some(lines),
        }
    };
    // A process that has closed its output does nothing any more.
    process.end();
    let last_lines = async {
        match last {
            Some(last) => last,
            None => tokio::time::timeout(LAST_LINES, reading_errors)
                .await
                .unwrap_or_default(),
        }
    };
    let (end, last) = tokio::join!(process.wait(), last_lines);
    let why = match (read, &end) {
        (Err(reason), _) => RunError::interrupted(reason),
        (Ok(()), ProgramEnd::NotStarted(reason)) => not_started(reason, process.command()),
        (Ok(()), end) => RunError::interrupted(format!("the program ended: {}", failure(end, &last)))
            .summarised(end.to_string()),
    };
    tracing::warn!(
        command = process.command(),
        summary = why.for_log(),
        "the program of an agent has ended"
    );
    {
        let mut state = shared.state();
        state.ended = Some(why);
        // Their runs see the end of the channel.
        state.open.clear();
    }
    is_gone.send_replace(true);
}

/// Reads lines until the end; fails with the reason when one is too long.
async fn read_stdout(stdout: impl AsyncRead + Unpin, shared: &Shared, command: &str) -> Result<(), String> {
    let mut lines = ProgramLines::new(stdout, protocol::LONGEST_LINE);
    let (mut pace, mut warnings, mut in_a_row) = (ReadPace::new(), LogRate::new(1), 0);
    let (mut chunks, mut ready) = (HalfChunks::default(), VecDeque::new());
    loop {
        let Some(piece) = ready.pop_front() else {
            match lines.next().await {
                Ok(Some(piece)) => ready.extend(chunks.take(piece)),
                Ok(None) => {
                    ready.extend(chunks.finish());
                    if ready.is_empty() {
                        return Ok(());
                    }
                }
                Err(LinesError::TooLong(most)) => {
                    return Err(format!("the program printed a line of more than {most} bytes"));
                }
                Err(LinesError::Io(error)) => {
                    return Err(format!("the program's output cannot be read: {error}"));
                }
            }
            continue;
        };
        shared.state().printed += 1;
        // Many short lines are in memory at once: others have their turn between them.
        tokio::task::consume_budget().await;
        let bad = match protocol::parse(&piece) {
            Ok(None) => continue,
            Ok(Some(ProgramLine { id, said: words })) => {
                let run = shared.state().open.get(&id).cloned();
                if let Some(run) = run {
                    in_a_row = 0;
                    // A task that is behind holds up the process.
                    drop(run.send(TaskEvent::Said(words)).await);
                    continue;
                }
                if shared.state().over.contains(&id) {
                    in_a_row = 0;
                    tracing::debug!(task = id, "the program speaks of a task that is over");
                    continue;
                }
                BadLine {
                    reason: format!("{id:?} is not the id of a task that the program has"),
                    ids: vec![id],
                    may_be_any: true,
                }
            }
            Err(bad) => bad,
        };
        let BadLine {
            ids,
            may_be_any,
            reason,
        } = bad;
        let line = excerpt(piece.text());
        if let Some(left_out) = warnings.next() {
            tracing::warn!(
                program = command,
                ?ids,
                reason = said(&reason),
                line = said(&line),
                left_out,
                "a line of the program is not understood"
            );
        }
        in_a_row += 1;
        if in_a_row >= MOST_BAD_LINES {
            return Err(format!(
                "the program printed {MOST_BAD_LINES} lines in a row that are not understood, the last one: {reason}"
            ));
        }
        pace.after(piece.text().len()).await;
        let runs = shared.state().concerned(&ids, may_be_any);
        for run in runs {
            drop(run.send(TaskEvent::Bad(format!("{reason}: {line}"))).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the open tasks `a`, `b` that hear of a bad line; `c` is over.
    #[tokio::test]
    async fn a_bad_line_ends_the_tasks_that_it_may_be_about() {
        for (line, heard) in [
            (r#"{"type":"result","id":"a","data":NaN}"#, "a"),
            (r#"{"type":"result","id":"a"}{"type":"result","id":"b"}"#, "ab"),
            (r#"{"type":"result","id":"c","data":NaN}"#, ""),
            (r#"{"type":"result","id":"c"}"#, ""),
            (r#"{"type":"result","id":"wrong"}"#, "ab"),
            (r#"{"type":"result","text":"no id"}"#, "ab"),
            ("{\n\"type\": \"result\",\n\"id\": \"b\"\n}", "b"),
            ("{\n\"level\": \"info\"\n}", ""),
            (r#"{"type":"resu"#, "ab"),
            (r#"{"level":"info","id":"other"}"#, ""),
            ("Loading {...}", ""),
            (r#"INFO: {"type":"result","id":"a"}"#, "a"),
            (r#"INFO: {"type":"result","id":"c"}"#, ""),
            (r#"INFO: {"type":"task","id":"a"}"#, ""),
            (r#"INFO: {"type":"result","id":"of others"}"#, ""),
            (r#"INFO: {"type":"result","id":"a","data":NaN}"#, "a"),
            (r#"INFO: {"type":"result","id":"a"} sent"#, "a"),
            (r#"{ type": "chunk", "id": "a", "text": "x"}"#, "a"),
            (r#"{ type": "chunk", "id": "c", "text": "x"}"#, ""),
            (r#"{ type": "chunk", "id": "of others", "text": "x"}"#, ""),
            (r#""{\"type\": \"chunk\", \"id\": \"b\"}""#, "b"),
            ("task a is done", ""),
            ("sends {'type': 'result', 'id': 'a'}", ""),
            (
                "INFO: {\"type\":\"result\",\"id\":\"c\"}\n{\"type\":\"result\",\"id\":\"c\"}",
                "",
            ),
        ] {
            let shared = Shared::default();
            let mut events = Vec::new();
            for id in ["a", "b"] {
                let (sender, receiver) = mpsc::channel(8);
                shared.state().open.insert(id.to_owned(), sender);
                events.push((id, receiver));
            }
            shared.state().over.put("c".to_owned(), ());
            read_stdout(line.as_bytes(), &shared, "p").await.unwrap();
            let told: String = events
                .iter_mut()
                .filter_map(|(id, events)| match events.try_recv().ok()? {
                    TaskEvent::Bad(reason) => {
                        assert!(reason.contains(&excerpt(line.as_bytes())), "{reason}");
                        Some(*id)
                    }
                    TaskEvent::Said(said) => panic!("{said:?}"),
                })
                .collect();
            assert_eq!(told, heard, "{line}");
        }
    }
}
