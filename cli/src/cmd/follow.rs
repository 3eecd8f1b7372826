//! Following a task that was sent from here: what it waits for, its questions, what comes out.

use std::{
    borrow::Cow,
    collections::HashSet,
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast::{Artifact, Message, Node, Part, Role, Task, TaskHandle, TaskStatus, TaskUpdate};
use agentanycast_daemon_kit::duration;
use clap::Args;
use futures::StreamExt;
use serde_json::json;

use self::wait_status::WaitStatus;
use crate::{
    arg_values::parse_duration,
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    interrupt::{Interrupt, StopSignal},
    json, output,
    progress_line::ProgressLine,
    type_ahead::TypeAhead,
};

mod artifact_kind;
pub(super) mod final_output;

/// How a task is followed once it is sent.
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// Print the task's id and end; the task goes on, and `anycast task` shows what comes of it
    #[arg(long, conflicts_with_all = ["stream", "timeout", "output"])]
    pub(crate) no_wait: bool,
    /// Print artifacts as they come (with --json: one JSON object per line)
    #[arg(long)]
    pub(crate) stream: bool,
    /// Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Write what comes back into files in this directory, texts too
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}
mod prompt;
mod stream_output;
mod wait_status;

/// After the task's end, its last artifacts are on their way already.
const LAST_ARTIFACTS: Duration = Duration::from_secs(10);

/// How long a cancel may take after Ctrl-C.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

/// When it is said, where no line of progress says it, what a task waits for that has not arrived.
const SILENCE: Duration = Duration::from_secs(3);

/// How long it may take to say what a task waits for.
const TRACE_LIMIT: Duration = Duration::from_secs(2);

/// The label of a message that is an answer by itself, and not what was said with a state.
const ANSWER: &str = "gateway.answer";

/// The label of a message that tells the sender something besides the answer and its progress.
const NOTICE: &str = "run.notice";

/// How a wait ended, if nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowEnd {
    /// The task has ended, and what came out is printed.
    Done,
    /// The user has left the wait.
    Left,
}

/// Follows a task.
pub(super) struct Follower<'a> {
    context: &'a Context,
    node: &'a Node,
    args: &'a FollowArgs,
    /// Who was asked, as the user calls them; None: whom the daemon has chosen.
    whom: Option<String>,
    /// Whether the terminal is there to answer at.
    may_ask: bool,
    progress: ProgressLine,
    typed: Option<TypeAhead>,
    /// What the agent said last.
    news: String,
    /// The task, once the daemon has it.
    task: Option<String>,
    /// The messages besides the answer that were shown.
    noticed: HashSet<String>,
}

impl<'a> Follower<'a> {
    /// `input_is_read`: standard input was the message, and is no terminal to answer at.
    pub(super) fn new(
        context: &'a Context,
        node: &'a Node,
        args: &'a FollowArgs,
        input_is_read: bool,
    ) -> Self {
        let progress = ProgressLine::new(context.json);
        Self {
            context,
            node,
            args,
            whom: None,
            may_ask: !context.json && !input_is_read && std::io::stdin().is_terminal(),
            typed: progress.is_shown().then(TypeAhead::new).flatten(),
            progress,
            news: String::new(),
            task: None,
            noticed: HashSet::new(),
        }
    }

    /// Says who was asked as the user calls them.
    pub(super) fn named(mut self, whom: impl Into<String>) -> Self {
        self.whom = Some(whom.into());
        self
    }

    /// Leaves questions to the caller, wherever they could be answered here.
    pub(super) fn without_questions(mut self) -> Self {
        self.may_ask = false;
        self
    }

    /// The task that was sent.
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// What the agent asked last.
    pub(super) fn question(&self) -> &str {
        &self.news
    }

    /// Sends by this, and follows the task to its end.
    pub(super) async fn send(
        &mut self,
        interrupt: &mut Interrupt,
        sending: impl Future<Output = Result<TaskHandle, CommandFailure>>,
    ) -> Result<(), CommandFailure> {
        self.progress.show("sending");
        let handle = tokio::select! {
            handle = sending => handle?,
            wish = interrupt.stop_signal() => {
                let message = format!(
                    "interrupted before the daemon said that it has the task; `{}` shows whether it does",
                    hints::command("tasks")
                );
                return Err(wish.failure(message));
            }
        };
        self.task = Some(handle.id().to_owned());
        let outcome = self.follow(&handle, interrupt).await;
        // Whoever goes on with the terminal has it as it was.
        (self.progress, self.typed) = (ProgressLine::silent(), None);
        outcome
    }

    /// Follows the task to its end, unless that was not wanted.
    async fn follow(&mut self, handle: &TaskHandle, interrupt: &mut Interrupt) -> Result<(), CommandFailure> {
        let id = handle.id();
        if self.args.no_wait {
            self.progress.clear();
            return Ok(if self.context.json {
                output::json(&json!({"task_id": id}))
            } else {
                output::line(id)
            }?);
        }
        let wish = tokio::select! {
            ended = self.within_time(handle) => {
                if ended? == FollowEnd::Left {
                    self.progress.clear();
                    output::warn(&goes_on(id));
                }
                return Ok(());
            }
            wish = interrupt.stop_signal() => wish,
        };
        self.progress.clear();
        Err(match wish {
            StopSignal::Cancel => cancel(handle, interrupt).await,
            StopSignal::End | StopSignal::HangUp | StopSignal::Quit => {
                CommandFailure::new(wish.code(), "Left", goes_on(id))
            }
        }
        .with_task(id))
    }

    async fn within_time(&mut self, handle: &TaskHandle) -> Result<FollowEnd, CommandFailure> {
        let limit = self.args.timeout;
        if limit.is_zero() {
            return self.until_ended(handle).await;
        }
        if let Ok(outcome) = tokio::time::timeout(limit, self.until_ended(handle)).await {
            return outcome;
        }
        self.progress.clear();
        let id = handle.id();
        let message = format!(
            "task {id} has not ended within {}; it was not canceled; `{}` says what it waits for",
            duration::format(limit),
            hints::command(&format!("trace {id}"))
        );
        Err(CommandFailure::new(FailureCode::Timeout, "Timeout", message).with_task(id))
    }

    /// Follows the task to its end and prints what comes out.
    async fn until_ended(&mut self, handle: &TaskHandle) -> Result<FollowEnd, CommandFailure> {
        output::watch_for_blanks();
        let mut updates = handle.updates();
        let mut live = stream_output::StreamOutput::new(self.context.json, self.args.output.clone());
        let mut artifacts = if self.args.stream {
            handle.artifacts()
        } else {
            futures::stream::empty().boxed()
        }
        .fuse();
        let mut silence = std::pin::pin!(tokio::time::sleep(SILENCE));
        let mut is_silent = !self.progress.is_shown();
        loop {
            tokio::select! {
                Some(event) = artifacts.next() => {
                    self.progress.clear();
                    live.take(handle.id(), event?)?;
                }
                update = updates.next() => match update.transpose()? {
                    Some(update) if !update.status.is_terminal() => self.changed(handle, update).await?,
                    Some(update) => {
                        self.say(&update)?;
                        break;
                    }
                    None => break,
                },
                () = left(&mut self.typed) => return Ok(FollowEnd::Left),
                () = self.progress.tick() => self.say_where(handle).await,
                () = &mut silence, if is_silent => {
                    is_silent = false;
                    self.warn_where(handle).await;
                }
            }
        }
        self.progress.clear();
        while let Ok(Some(event)) = tokio::time::timeout(LAST_ARTIFACTS, artifacts.next()).await {
            live.take(handle.id(), event?)?;
        }
        let task = handle.snapshot().await?;
        for message in &task.messages {
            self.notice(message);
        }
        let whole = task
            .artifacts
            .iter()
            .filter(|artifact| artifact.break_reason().is_none());
        let whole: HashSet<String> = whole.map(|artifact| artifact.id.clone()).collect();
        self.finish(handle, task, &live).await?;
        live.all_whole(|id| whole.contains(id)).map(|()| FollowEnd::Done)
    }

    /// Shows where the task is.
    async fn say_where(&mut self, handle: &TaskHandle) {
        let trace = tokio::time::timeout(TRACE_LIMIT, self.node.trace_without_audit(handle.id())).await;
        // An older daemon cannot say it.
        let Ok(Ok(trace)) = trace else { return };
        let Some(waiting) = WaitStatus::from_trace(&trace, self.whom.as_deref()) else {
            return;
        };
        let hint = match (&self.typed, waiting.arrived) {
            (Some(_), false) => "Ctrl-C cancels, Ctrl-D leaves it queued",
            (Some(_), true) => "Ctrl-C cancels, Ctrl-D leaves it running",
            (None, _) => "Ctrl-C cancels",
        };
        let text = if waiting.worked_on && !self.news.is_empty() {
            &self.news
        } else {
            &waiting.says
        };
        self.progress.show_with(text, hint);
    }

    /// Says once where a task is that has not arrived, and what is done meanwhile.
    async fn warn_where(&self, handle: &TaskHandle) {
        let trace = tokio::time::timeout(TRACE_LIMIT, self.node.trace_without_audit(handle.id())).await;
        let Ok(Ok(trace)) = trace else { return };
        let Some(waiting) = WaitStatus::from_trace(&trace, self.whom.as_deref()).filter(|at| !at.arrived)
        else {
            return;
        };
        let until = match self.args.timeout {
            limit if limit.is_zero() => "its end".to_owned(),
            limit => format!("{} at most", duration::format(limit)),
        };
        output::warn(&format!(
            "anycast: {}; task {} is kept and sent as soon as that changes, and this command waits for {until}",
            waiting.says,
            handle.id()
        ));
    }

    async fn changed(&mut self, handle: &TaskHandle, update: TaskUpdate) -> Result<(), CommandFailure> {
        self.say(&update)?;
        if let Some(message) = &update.message
            && self.notice(message)
        {
            return Ok(());
        }
        let text = update.message.map(|message| message.text_content());
        let text = text.unwrap_or_default();
        if update.status != TaskStatus::InputRequired {
            format!("{} {text}", update.status)
                .trim_end()
                .clone_into(&mut self.news);
            self.progress.show(&self.news);
            return Ok(());
        }
        self.progress.clear();
        if !self.may_ask {
            self.news = in_words(&text);
            return Err(self.unanswered(handle, &text).await?);
        }
        // What is typed from now on is the answer.
        let typed = self.typed.take();
        let had_typed = typed.is_some();
        if let Some(typed) = typed {
            typed.forget();
        }
        let Some(answer) = prompt::ask(&in_words(&text)).await? else {
            let id = handle.id();
            let message = format!(
                "no answer was given; task {id} waits: answer with `{}`",
                hints::command(&format!("reply {id} TEXT"))
            );
            return Err(CommandFailure::new(FailureCode::Input, "InputRequired", message).with_task(id));
        };
        self.typed = had_typed.then(TypeAhead::new).flatten();
        handle.reply(answer).await?;
        self.progress.show("answered");
        Ok(())
    }

    /// Says what a message tells besides the answer, once, on lines that stay; whether it is such a message.
    fn notice(&mut self, message: &Message) -> bool {
        let is_notice = is_notice(message);
        let text = message.text_content();
        // A message may have no id.
        if is_notice && !self.context.json && self.noticed.insert(format!("{} {text}", message.id)) {
            output::say(&text);
        }
        is_notice
    }

    /// Nobody is there to answer: says how it is answered later.
    async fn unanswered(
        &self,
        handle: &TaskHandle,
        question: &str,
    ) -> Result<CommandFailure, CommandFailure> {
        let id = handle.id();
        if self.context.json {
            let task = handle.snapshot().await?;
            self.print_document(&json::task(&task, &[]))?;
        }
        let asks = match question {
            "" => in_words(""),
            question => format!("{question:?}"),
        };
        let message = format!(
            "the agent asks {asks}, and there is no terminal to answer at; task {id} waits: answer with `{}`",
            hints::command(&format!("reply {id} TEXT"))
        );
        let failure = CommandFailure::new(FailureCode::Input, "InputRequired", message)
            .with_task(id)
            .told_whole();
        Ok(if self.context.json {
            failure.already_reported()
        } else {
            failure
        })
    }

    /// Prints a change where each is wanted: in a JSON stream.
    fn say(&self, update: &TaskUpdate) -> Result<(), CommandFailure> {
        if self.context.json && self.args.stream {
            output::json(&json::update(update))?;
        }
        Ok(())
    }

    /// Prints the task at its end, as JSON.
    fn print_document(&self, task: &serde_json::Value) -> Result<(), CommandFailure> {
        Ok(if self.args.stream {
            output::json(&json!({"event": "result", "task": task}))
        } else {
            output::json(task)
        }?)
    }

    async fn finish(
        &self,
        handle: &TaskHandle,
        task: Task,
        live: &stream_output::StreamOutput,
    ) -> Result<(), CommandFailure> {
        let directory = self.args.output.as_deref();
        if !self.context.json {
            if task.status == TaskStatus::Failed {
                // A test that fails has a report all the same.
                print_results(handle, &task, live, directory).await?;
            }
            let task = task.into_result()?;
            if let Some(peer) = task.sealed_for() {
                output::warn(&format!(
                    "sealed: the answer is from {peer}, and nobody on its way could read or change it"
                ));
            }
            print_results(handle, &task, live, directory).await?;
            if output::is_blank() {
                say_blank(&task);
            }
            return Ok(());
        }
        let mut saved: Vec<(String, PathBuf)> = live.saved().to_vec();
        if let Some(directory) = directory {
            for artifact in results(&task).iter().filter(|artifact| !live.has(&artifact.id)) {
                saved.extend(final_output::save(handle, artifact, directory).await?);
            }
        }
        self.print_document(&json::task(&task, &saved))?;
        task.into_result().map(drop).map_err(|error| {
            CommandFailure::from(error)
                .with_task(handle.id())
                .already_reported()
        })
    }
}

/// Says of a task that is done that there is nothing of it to see: an answer of white space, or none, which a person at
/// a terminal would take for a fault of the command.
fn say_blank(task: &Task) {
    let answers = results(task);
    let is_blank = answers
        .iter()
        .any(|answer| answer.size > 0 || !answer.text_content().is_empty());
    if is_blank {
        output::warn("anycast: the answer is blank: it has white space only");
    } else if std::io::stderr().is_terminal() {
        output::warn("anycast: the task is completed, without an answer");
    }
}

/// That the task is not waited for any more.
fn goes_on(id: &str) -> String {
    let wait = hints::command(&format!("task {id} --wait"));
    format!("task {id} goes on; `{wait}` waits for it")
}

fn is_notice(message: &Message) -> bool {
    message
        .parts
        .iter()
        .any(|part| part.metadata.contains_key(NOTICE))
}

/// Cancels the task; a second Ctrl-C does not wait for that.
async fn cancel(handle: &TaskHandle, interrupt: &mut Interrupt) -> CommandFailure {
    let id = handle.id();
    let canceling = tokio::time::timeout(CANCEL_LIMIT, handle.cancel());
    let message = tokio::select! {
        outcome = canceling => match outcome {
            Ok(Ok(_)) => format!("interrupted; task {id} was canceled"),
            Ok(Err(error)) => format!("interrupted; task {id} was not canceled: {error}"),
            Err(_) => format!("interrupted; task {id} was not canceled in time"),
        },
        _ = interrupt.stop_signal() => format!("interrupted twice; whether task {id} was canceled is not known"),
    };
    CommandFailure::new(FailureCode::Interrupted, "Interrupted", message)
}

/// Resolves when the wait is left, if there is a terminal to leave it at.
async fn left(typed: &mut Option<TypeAhead>) {
    match typed {
        Some(typed) => typed.left().await,
        None => std::future::pending().await,
    }
}

/// Prints what came out of a task and was not printed as it came.
async fn print_results(
    handle: &TaskHandle,
    task: &Task,
    live: &stream_output::StreamOutput,
    directory: Option<&Path>,
) -> Result<(), CommandFailure> {
    for artifact in results(task).iter() {
        if !live.has(&artifact.id) {
            final_output::print(handle, artifact, directory).await?;
        } else if artifact.parts.iter().all(|part| part.as_text().is_some()) {
            let text: String = artifact.parts.iter().filter_map(Part::as_text).collect();
            let rest = live.rest(&artifact.id, &text);
            if !rest.is_empty() {
                output::untrusted_text(rest)?;
            }
        }
    }
    Ok(())
}

/// What came out of a task. Without artifacts it is what was said at the end: agents of A2A may answer by messages
/// alone, and some have said all while they worked. One that broke off is no result where it came again, whole, or
/// where the task failed.
fn results(task: &Task) -> Cow<'_, [Artifact]> {
    let failed = task.status != TaskStatus::Completed;
    if !task.artifacts.is_empty() || failed && task.status_message.is_some() {
        if task
            .artifacts
            .iter()
            .all(|artifact| artifact.break_reason().is_none())
        {
            return (&task.artifacts[..]).into();
        }
        let came_again = |broken: &Artifact| {
            let mut others = task.artifacts.iter();
            others.any(|other| other.name == broken.name && other.break_reason().is_none())
        };
        let counts =
            |artifact: &&Artifact| artifact.break_reason().is_none() || !failed && !came_again(artifact);
        return task
            .artifacts
            .iter()
            .filter(counts)
            .cloned()
            .collect::<Vec<_>>()
            .into();
    }
    let last = task.status_message.as_ref();
    let messages = &task.messages;
    let counts = |&(at, message): &(usize, &Message)| {
        if let Some(last) = last {
            let first = message.parts.first();
            return first.is_some_and(|part| part.metadata.contains_key(ANSWER)) && last.id != message.id;
        }
        // A question was answered: the next message is the user's.
        let next = messages.get(at + 1);
        message.role == Role::Agent && !is_notice(message) && next.is_none_or(|next| next.role == Role::Agent)
    };
    let said = messages
        .iter()
        .enumerate()
        .filter(counts)
        .map(|(_, message)| message);
    said.chain(last)
        .map(|message| Artifact::new("message", message.parts.iter().cloned()))
        .collect::<Vec<_>>()
        .into()
}

/// What an agent asks, also where that has no words: the Python SDK sends none.
fn in_words(question: &str) -> String {
    match output::indented(question) {
        empty if empty.is_empty() => {
            "for input, without saying what (agents on the Python SDK 0.7 cannot say it)".to_owned()
        }
        words => words,
    }
}
