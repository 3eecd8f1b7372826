//! A task of the mesh from its arrival at the hub to its end: it waits for a client, its session is carried out, and what the client
//! reports is reported to the task's sender.
//!
//! Invariant: the task is claimed for good before the client is told to start, unless it may be given again; and every
//! way out ends the task with a reason or lets go of it.

mod delivery;
mod news;

use std::sync::Arc;

use agentanycast_gateway::{ErrorKind, GatewayError, agents::AgentTask};
use agentanycast_proto::v1 as mesh;
use futures::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use self::news::News;
use super::{
    END_WITHIN, Hub, SessionControl, SessionStream, SubmittedTask, TaskEvent, counters::SessionOutcome,
};
use crate::{
    capability::Kind,
    fleet::{SessionId, Told},
    payloads::inputs,
    results::{Report, SessionResult, State, status_message, telemetry_message},
};

/// How many skills an error names.
const NAMED: usize = 20;

/// How long the reason of a stream's end may be, in characters.
const LONGEST_REASON: usize = 1000;

/// What a session came to.
enum SessionEnd {
    /// The client has told the end.
    Told(State, String, Option<SessionResult>),
    /// The stream was lost, for this reason.
    Lost(String),
    /// The task heard something of the fleet.
    Heard(Told),
    /// The task has ended without the session.
    Canceled,
    /// The hub ends.
    Stopped,
}

/// Carries out a task, to its end or until `stop`.
pub(crate) async fn carry_out(
    hub: Arc<Hub>,
    task: Box<dyn AgentTask>,
    retries: impl Fn(&Kind) -> u32,
    stop: CancellationToken,
) {
    let id = task.task().task_id.clone();
    if let Err(error) = serve(&hub, &*task, retries, &stop).await {
        // Mostly a task that has ended meanwhile.
        tracing::debug!(task = id, %error, "a task of the hub could not be reported on");
    }
}

/// Carries out a task that waited at an earlier process of the hub, or that its skill lets be given again; ends one that was under
/// way there.
pub(crate) async fn take_up(
    hub: Arc<Hub>,
    task: Box<dyn AgentTask>,
    retries: impl Fn(&Kind) -> u32,
    stop: CancellationToken,
) {
    let kind = Kind::of_skill(&task.task().target_skill_id);
    // What is said of a session is said before the client is told to start.
    let mut messages = task.task().messages.iter();
    let has_begun = messages.any(|said| said.role() == mesh::MessageRole::Agent);
    if !has_begun || kind.is_some_and(|kind| retries(&kind) > 0) {
        carry_out(hub, task, retries, stop).await;
    } else if let Err(error) = task.fail("agent disconnected: the hub was started again").await {
        tracing::debug!(task = task.task().task_id, %error, "a task that was under way could not be ended");
    }
}

/// A reason for which a task was not begun, as its sender reads it. A claimed task cannot be REJECTED on the wire.
fn rejected(reason: &str) -> String {
    format!("rejected: {reason}")
}

async fn serve(
    hub: &Arc<Hub>,
    task: &dyn AgentTask,
    retries: impl Fn(&Kind) -> u32,
    stop: &CancellationToken,
) -> Result<(), GatewayError> {
    let Some(kind) = Kind::of_skill(&task.task().target_skill_id) else {
        let skills = hub.skills();
        let names: Vec<&str> = skills.iter().take(NAMED).map(|skill| skill.id.as_str()).collect();
        let reason = match names.as_slice() {
            [] => "no agent is connected to the hub now, and the task names no skill such as uap:test:TYPE"
                .to_owned(),
            names => format!(
                "the task names no skill of the hub; there are: {}",
                names.join(", ")
            ),
        };
        return task.fail(&rejected(&reason)).await;
    };
    let message = task
        .task()
        .messages
        .iter()
        .rev()
        .find(|said| said.role() != mesh::MessageRole::Agent);
    let inputs = match message.map(inputs).transpose() {
        Ok(inputs) => inputs.unwrap_or_default(),
        Err(reason) => return task.fail(&rejected(&reason)).await,
    };
    let retries = retries(&kind);
    let mut submitted = hub.submit(kind, inputs, retries);
    let cancelled = task.cancelled();
    loop {
        let event = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Ok(()),
            event = submitted.next() => event,
            () = stop.cancelled() => {
                // It is handed out again when the node starts.
                task.leave();
                return Ok(());
            }
        };
        let mut stream = match event {
            TaskEvent::Told(told) => match ended_by(hub, told) {
                Some(reason) => return task.fail(&reason).await,
                None => continue,
            },
            TaskEvent::Opened(stream) => stream,
        };
        let open = OpenSession {
            hub: Arc::clone(hub),
            id: stream.session.clone(),
        };
        if retries == 0 {
            task.claim().await?;
            let given = format!("given to {}", submitted.client_name());
            if let Some(given) = status_message(&given) {
                task.working(given).await?;
            }
        }
        // The channel has room for a start and an end.
        let reset = |status: Status| drop(stream.control.try_send(SessionControl::Reset(status)));
        let _ = stream.control.try_send(SessionControl::Start);
        match run(task, &mut submitted, &mut stream.reports, stop).await? {
            SessionEnd::Told(state, text, result) => {
                submitted.end();
                hub.counters().ended(match state {
                    State::Completed => SessionOutcome::Completed,
                    State::Failed | State::Working => SessionOutcome::Failed,
                    State::Invalid => SessionOutcome::Invalid,
                });
                // The client is free once its stream has ended; the task does not wait for that.
                tokio::spawn(absorb(stream, open));
                return delivery::deliver(task, state, &text, result).await;
            }
            SessionEnd::Lost(reason) => {
                reset(Status::aborted(reason.clone()));
                hub.session_ended(&open.id, &reason);
            }
            SessionEnd::Heard(told) => {
                reset(Status::aborted("the session has ended"));
                if let Some(reason) = ended_by(hub, told) {
                    return task.fail(&reason).await;
                }
            }
            SessionEnd::Canceled => {
                hub.counters().ended(SessionOutcome::Canceled);
                reset(Status::cancelled("the task was canceled"));
                return Ok(());
            }
            SessionEnd::Stopped => {
                reset(Status::unavailable("the hub stops"));
                if retries > 0 {
                    task.leave();
                    return Ok(());
                }
                return task.fail("agent disconnected: the hub stopped").await;
            }
        }
    }
}

/// A session that has a stream. Dropping it frees its client.
struct OpenSession {
    hub: Arc<Hub>,
    id: SessionId,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        // One that was ended before is not there any more.
        self.hub.session_ended(&self.id, "the session was given up");
    }
}

/// Why a task ends for which the fleet says this; `None`: it waits again.
fn ended_by(hub: &Hub, told: Told) -> Option<String> {
    match told {
        Told::Rejected(reason) => Some(rejected(&reason)),
        Told::Failed(reason) => {
            hub.counters().ended(SessionOutcome::Lost);
            Some(reason)
        }
        Told::WaitsAgain(reason) => {
            hub.counters().ended(SessionOutcome::Lost);
            tracing::info!(reason, "a session was lost, and its task is given again");
            None
        }
    }
}

/// Reports what a client says, until it has told the end or the session ends otherwise.
async fn run(
    task: &dyn AgentTask,
    submitted: &mut SubmittedTask,
    reports: &mut BoxStream<'static, Result<Report, Status>>,
    stop: &CancellationToken,
) -> Result<SessionEnd, GatewayError> {
    let mut news = News::new(Instant::now());
    let mut telling: Option<BoxFuture<'_, Result<(), GatewayError>>> = None;
    let end = hear(task, (submitted, reports), stop, &mut news, &mut telling).await?;
    if matches!(end, SessionEnd::Canceled) {
        return Ok(end);
    }
    let cancelled = task.cancelled();
    let rest = async {
        if let Some(telling) = telling {
            telling.await?;
        }
        while let Some(message) = news.take_rest() {
            say(task, message).await?;
        }
        Ok::<_, GatewayError>(())
    };
    tokio::select! {
        biased;
        () = cancelled.cancelled() => Ok(SessionEnd::Canceled),
        told = rest => told.map(|()| end),
    }
}

/// Hears a client to the end of its session; what it says meanwhile is told beside that, by `telling`.
async fn hear<'a>(
    task: &'a dyn AgentTask,
    (submitted, reports): (
        &mut SubmittedTask,
        &mut BoxStream<'static, Result<Report, Status>>,
    ),
    stop: &CancellationToken,
    news: &mut News,
    telling: &mut Option<BoxFuture<'a, Result<(), GatewayError>>>,
) -> Result<SessionEnd, GatewayError> {
    let cancelled = task.cancelled();
    let mut result: Option<SessionResult> = None;
    let mut ended: Option<(State, String)> = None;
    // Runs once the client has said that it has ended, or what came of it.
    let mut until: Option<Instant> = None;
    loop {
        if telling.is_none()
            && let Some(message) = news.take(Instant::now())
        {
            *telling = Some(Box::pin(say(task, message)));
        }
        let due = news.due().filter(|_| telling.is_none());
        let told = async {
            match telling.as_mut() {
                Some(telling) => telling.await,
                None => std::future::pending().await,
            }
        };
        let report = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Ok(SessionEnd::Canceled),
            event = submitted.next() => match event {
                TaskEvent::Told(told) => return Ok(SessionEnd::Heard(told)),
                // A session has one stream.
                TaskEvent::Opened(_) => continue,
            },
            () = stop.cancelled() => return Ok(SessionEnd::Stopped),
            told = told => {
                *telling = None;
                told?;
                continue;
            }
            () = at(due) => continue,
            () = at(until) => None,
            report = reports.next() => report,
        };
        let mut is_last = false;
        match report {
            Some(Ok(Report::Status(State::Working, text))) => {
                news.extend(status_message(&text));
            }
            // The first end counts.
            Some(Ok(Report::Status(state, text))) => drop(ended.get_or_insert((state, text))),
            Some(Ok(Report::Telemetry(mut telemetry))) => {
                let attached = std::mem::take(&mut telemetry.attachments);
                telemetry.attachments = delivery::stream_large(task, attached).await?;
                news.add(telemetry_message(telemetry));
            }
            Some(Ok(Report::Result(mut told))) => {
                match told.status.take() {
                    // No end: what it says of its state is told.
                    Some((State::Working, text)) => news.extend(status_message(&text)),
                    Some(status) => drop(ended.get_or_insert(status)),
                    None => {}
                }
                result.get_or_insert(told);
            }
            Some(Ok(Report::Unknown)) => {}
            Some(Err(error)) if ended.is_none() && result.is_none() => {
                let text: String = error.message().chars().take(LONGEST_REASON).collect();
                let text = if text.is_empty() {
                    error.code().to_string()
                } else {
                    text
                };
                return Ok(SessionEnd::Lost(format!("Stream error: {text}")));
            }
            None if ended.is_none() && result.is_none() => {
                let name = submitted.client_name();
                return Ok(SessionEnd::Lost(format!(
                    "{name} closed its stream without a result"
                )));
            }
            None | Some(Err(_)) => is_last = true,
        }
        if is_last || ended.is_some() && result.is_some() {
            let no_end = || {
                (
                    State::Failed,
                    "the agent gave a result without an end state".to_owned(),
                )
            };
            let (state, text) = ended.unwrap_or_else(no_end);
            return Ok(SessionEnd::Told(state, text, result));
        }
        if ended.is_some() || result.is_some() {
            until.get_or_insert_with(|| Instant::now() + END_WITHIN);
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Tells the sender of a task what its client says. What the node takes no more of is left out: the end counts.
async fn say(task: &dyn AgentTask, message: mesh::Message) -> Result<(), GatewayError> {
    match task.working(message).await {
        Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Invalid) => {
            tracing::debug!(task = task.task().task_id, %error, "what an agent said is left out");
            Ok(())
        }
        told => told,
    }
}

/// Takes what a client still says after the end of its session, until it ends its stream or takes too long.
async fn absorb(stream: SessionStream, open: OpenSession) {
    let SessionStream {
        mut reports, control, ..
    } = stream;
    let rest = async { while let Some(Ok(_)) = reports.next().await {} };
    if tokio::time::timeout(END_WITHIN, rest).await.is_err() {
        tracing::debug!(session = %open.id, "an agent did not end the stream of a session that has ended");
    }
    drop(control);
}
