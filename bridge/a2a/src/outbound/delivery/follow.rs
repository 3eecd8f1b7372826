//! Hearing what an agent says of a task that it has.

use std::time::Duration;

use agentanycast_gateway::{ExternalTask, is_terminal};
use agentanycast_limits::Backoff;
use agentanycast_proto::v1::{ExternalAction, TaskStatus};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::{DeliveryError, DeliveryJob, NextStep, own_messages};
use crate::{
    outbound::{
        checkpoint::DeliveryCheckpoint,
        decode::{AgentUpdate, UpdateContent},
        encode::RemoteCall,
        error::{Kind, OutboundError},
        remote_agent::{RemoteAgent, UpdateStream},
        report_builder::{ReportBuilder, ReportDue},
    },
    protocol::version::Version,
};

/// How long a result may have grown before its reader is told.
const SOON: Duration = Duration::from_millis(250);

/// The pause between two looks at a task without a stream: it grows while nothing happens.
const LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// The same beside a stream, which may have lost something; and at least.
const LOOK_BESIDE: Duration = Duration::from_mins(1);
const LEAST_LOOK: Duration = Duration::from_millis(300);

/// The pauses between two looks at a task that waits for its sender: the agent may give up waiting.
const RESTS: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(2));

/// How long a stream may go on without a word after a message without a task. By A2A it ends with the first one.
const AFTER_ANSWER: Duration = Duration::from_mins(5);

/// Between two times that a stream is asked for, when it ends before the task.
const AFTER_STREAM: Duration = Duration::from_secs(30);

impl DeliveryJob {
    /// Hears a stream that began with the message, so that nothing of it is missing.
    pub(super) async fn watch(
        &mut self,
        mut progress: ReportBuilder,
        place: &mut DeliveryCheckpoint,
        mut events: UpdateStream,
    ) -> Result<NextStep, DeliveryError> {
        let mut tell_at: Option<Instant> = None;
        let mut last_word = Instant::now();
        loop {
            match progress.due() {
                ReportDue::Now => {
                    if self.report_progress(&mut progress, Some(place)).await? {
                        return Ok(NextStep::Done);
                    }
                    tell_at = None;
                }
                ReportDue::Soon => {
                    tell_at.get_or_insert_with(|| Instant::now() + SOON);
                }
                ReportDue::Later | ReportDue::Nothing => {}
            }
            if progress.status() == TaskStatus::InputRequired {
                return Ok(NextStep::Again);
            }
            let stop = self.shared.stop.clone();
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    progress.release_held();
                    self.report_progress(&mut progress, Some(place)).await?;
                    return Ok(NextStep::Done);
                }
                () = self.wake.woken() => {
                    if self.has_new_input(place).await? {
                        progress.release_held();
                        self.report_progress(&mut progress, Some(place)).await?;
                        return Ok(NextStep::Again);
                    }
                    continue;
                }
                () = at(tell_at) => {
                    progress.release_held();
                    self.report_progress(&mut progress, Some(place)).await?;
                    tell_at = None;
                    continue;
                }
                () = at(place.answered.then(|| last_word + AFTER_ANSWER)) => {
                    self.step_log.record_violation("its stream goes on after its message, without a word; it is not heard further");
                    None
                }
                event = events.next() => event,
            };
            match event {
                Some(Ok(heard)) => {
                    self.contact_made();
                    last_word = Instant::now();
                    if let Some(named) = self.apply_stream_update(&mut progress, place, heard)? {
                        self.step_log.record(ExternalAction::Accepted, &named);
                    }
                }
                // The agent was there until now; what became of the task is looked at.
                Some(Err(fault)) if matches!(fault.kind(), Kind::Broken | Kind::Busy) => {
                    self.contact_made();
                    let pause = self.pause(&fault);
                    self.step_log
                        .record_failure(ExternalAction::Failed, &fault, Some(pause));
                    progress.release_held();
                    self.report_progress(&mut progress, Some(place)).await?;
                    return Ok(NextStep::Wait(pause));
                }
                Some(Err(fault)) => {
                    progress.release_held();
                    self.report_progress(&mut progress, Some(place)).await?;
                    return Err(fault.into());
                }
                None if place.answered => {
                    self.contact_made();
                    return self.after_answer(progress, place).await;
                }
                None => {
                    self.report_progress(&mut progress, Some(place)).await?;
                    self.contact_made();
                    return Ok(NextStep::Again);
                }
            }
        }
    }

    /// Hears an event of a stream that began with a message. Some: the agent's id of the task, which was not known
    /// before.
    pub(super) fn apply_stream_update(
        &mut self,
        progress: &mut ReportBuilder,
        place: &mut DeliveryCheckpoint,
        heard: AgentUpdate,
    ) -> Result<Option<String>, OutboundError> {
        if progress.is_sealed() {
            return apply_update(progress, place, heard).map(|()| None);
        }
        let AgentUpdate {
            task,
            context,
            content: what,
            unknown_state,
        } = heard;
        if let UpdateContent::Message(message) = what {
            if !task.is_empty() && !place.task.is_empty() && task != place.task {
                self.step_log.record_violation(&format!(
                    "a message names the task {task}, and its task is {}; the message is taken",
                    place.task
                ));
            }
            let named = (place.task.is_empty() && !task.is_empty()).then_some(task);
            if let Some(named) = &named {
                place.task.clone_from(named);
            }
            if place.context.is_empty() {
                place.context = context;
            }
            // Before anything else is heard, a message may be the whole answer.
            if place.answered {
                progress.hold_message(*message);
            } else {
                progress.add_message(*message);
            }
            return Ok(named);
        }
        let mut named = None;
        if place.answered {
            place.answered = false;
            if !task.is_empty() && task != place.task {
                place.task.clone_from(&task);
                named = Some(task.clone());
            }
            if !context.is_empty() {
                place.context.clone_from(&context);
            }
        }
        apply_update(
            progress,
            place,
            AgentUpdate {
                task,
                context,
                content: what,
                unknown_state,
            },
        )?;
        Ok(named)
    }

    /// The agent has answered by messages alone. If they name a task that it has, that is followed; if not, they are
    /// its whole answer.
    pub(super) async fn after_answer(
        &mut self,
        mut progress: ReportBuilder,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        if !place.task.is_empty() {
            let Some(choice) = &place.choice else {
                return Err(
                    OutboundError::permanent("the node's note on it names no interface of it").into(),
                );
            };
            match self.remote(choice)?.get(&place.task).await {
                Ok(snapshot) => {
                    self.contact_made();
                    place.answered = false;
                    progress.release_held();
                    apply_poll(&mut progress, snapshot)?;
                    let ended = self.report_progress(&mut progress, Some(place)).await?;
                    return Ok(if ended { NextStep::Done } else { NextStep::Again });
                }
                Err(fault) if fault.is_transient() => {
                    progress.release_held();
                    self.report_progress(&mut progress, Some(place)).await?;
                    return Err(fault.into());
                }
                Err(fault) => self.step_log.record_violation(&format!(
                    "its message names the task {}, which it does not show ({fault}); the message is its answer",
                    place.task
                )),
            }
        }
        let answers = progress.answers();
        if answers > 1 {
            self.step_log.record_violation(&format!(
                "it said {answers} messages without a task, and A2A has one; all are taken"
            ));
        }
        progress.complete();
        self.report_progress(&mut progress, Some(place)).await?;
        Ok(NextStep::Done)
    }

    /// Whether something has come that has to be done before anything else.
    async fn has_new_input(&self, place: &DeliveryCheckpoint) -> Result<bool, DeliveryError> {
        self.wake.reset();
        let errand = self.shared.tasks.get(&self.id).await?;
        Ok(errand.is_none_or(|errand| {
            is_terminal(errand.task.status()) || own_messages(&errand).count() > place.taken
        }))
    }

    /// Hears of a task whose beginning was heard before: what it is now is looked at, and a stream, if the agent has
    /// them, says when to look again. So no piece of a result is missing, and none is there twice.
    pub(super) async fn follow(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        if place.answered {
            return self.after_answer(ReportBuilder::new(errand), place).await;
        }
        let Some(choice) = &place.choice else {
            return Err(OutboundError::permanent("the node's note on it names no way to it").into());
        };
        let remote = self.remote(choice)?;
        let mut progress = ReportBuilder::new(errand);
        // Servers on the official SDK of 0.3 write each piece of a result down twice while somebody is subscribed again.
        let streams = choice.streaming && choice.interface.version == Version::V10;
        let mut events: Option<UpdateStream> = None;
        let mut subscribe_at = Instant::now();
        let mut pause = LOOK;
        let mut end: Option<UpdateContent> = None;
        loop {
            let looked = Instant::now();
            if streams && events.is_none() && subscribe_at <= looked {
                events = self.subscribe(&remote, place).await?;
                subscribe_at = looked + AFTER_STREAM;
            }
            let snapshot = remote.get(&place.task).await?;
            self.contact_made();
            apply_poll(&mut progress, snapshot)?;
            if let Some(end) = end.take() {
                progress.apply(end)?;
            }
            pause = match progress.due() {
                ReportDue::Nothing => (pause + pause / 2).min(LONGEST_LOOK),
                _ => LOOK,
            };
            if self.report_progress(&mut progress, None).await? {
                return Ok(NextStep::Done);
            }
            if progress.status() == TaskStatus::InputRequired {
                return Ok(NextStep::Again);
            }
            let mut look_at = looked + if events.is_some() { LOOK_BESIDE } else { pause };
            loop {
                let stop = self.shared.stop.clone();
                let event = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(NextStep::Done),
                    () = self.wake.woken() => {
                        if self.has_new_input(place).await? {
                            return Ok(NextStep::Again);
                        }
                        continue;
                    }
                    () = tokio::time::sleep_until(look_at) => break,
                    event = next(&mut events) => event,
                };
                self.contact_made();
                let heard = match event {
                    Some(Ok(heard))
                        if heard.task == place.task || matches!(heard.content, UpdateContent::Message(_)) =>
                    {
                        heard
                    }
                    Some(Ok(_)) => continue,
                    Some(Err(fault)) if !matches!(fault.kind(), Kind::Broken | Kind::Busy) => {
                        return Err(fault.into());
                    }
                    // It is looked at without one, and another is asked for after a while.
                    Some(Err(_)) | None => {
                        events = None;
                        look_at = looked + LOOK;
                        continue;
                    }
                };
                look_at = look_at.min((looked + LEAST_LOOK).max(Instant::now()));
                match heard.content {
                    // The results that came before are looked at first.
                    UpdateContent::Status(status, _) if is_terminal(status) => {
                        end = Some(heard.content);
                        break;
                    }
                    UpdateContent::Status(..) => {
                        apply_update(&mut progress, place, heard)?;
                        if progress.due() == ReportDue::Now {
                            self.report_progress(&mut progress, None).await?;
                        }
                    }
                    // The task may not show it.
                    UpdateContent::Message(message) if !progress.is_sealed() => {
                        progress.add_message(*message);
                        self.report_progress(&mut progress, None).await?;
                    }
                    UpdateContent::Artifact {
                        artifact,
                        append: true,
                        ..
                    } => progress.note_piece(&artifact.artifact_id),
                    UpdateContent::Task(_) | UpdateContent::Message(_) | UpdateContent::Artifact { .. } => {}
                }
            }
        }
    }

    /// A stream about a task that the agent has; `None`: there is none for this task.
    async fn subscribe(
        &self,
        remote: &RemoteAgent,
        place: &DeliveryCheckpoint,
    ) -> Result<Option<UpdateStream>, DeliveryError> {
        match remote
            .events(RemoteCall::Subscribe {
                id: place.task.clone(),
            })
            .await
        {
            Ok(events) => Ok(Some(events)),
            // It may have ended; whoever looks at it knows.
            Err(fault)
                if matches!(
                    fault.kind(),
                    Kind::Unsupported | Kind::Refused | Kind::Final | Kind::TaskGone
                ) =>
            {
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// The task waits for its sender. The agent is looked at from time to time: it may not wait for ever.
    pub(super) async fn poll_idle(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        let mut rests = RESTS;
        let Some(choice) = &place.choice else {
            return Err(OutboundError::permanent("the node's note on it names no way to it").into());
        };
        let remote = self.remote(choice)?;
        let mut progress = ReportBuilder::new(errand);
        loop {
            let stop = self.shared.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(NextStep::Done),
                () = self.wake.woken() => {
                    self.contact_made();
                    return Ok(NextStep::Again);
                }
                () = tokio::time::sleep(rests.next_wait()) => {}
            }
            match remote.get(&place.task).await {
                Ok(snapshot) => apply_poll(&mut progress, snapshot)?,
                Err(fault) if fault.kind() == Kind::TaskGone => return Err(fault.into()),
                // Its sender may take longer to answer than the agent is away.
                Err(_) => continue,
            }
            if progress.due() == ReportDue::Nothing {
                continue;
            }
            self.contact_made();
            if self.report_progress(&mut progress, None).await? {
                return Ok(NextStep::Done);
            }
            if progress.status() != TaskStatus::InputRequired {
                return Ok(NextStep::Again);
            }
        }
    }
}

/// Hears how the task stands, by the agent's answer to a question for it.
fn apply_poll(progress: &mut ReportBuilder, heard: AgentUpdate) -> Result<(), OutboundError> {
    progress.check_state(heard.unknown_state.as_deref())?;
    progress.apply(heard.content)
}

/// Hears what is said of this task; of others, nothing.
fn apply_update(
    progress: &mut ReportBuilder,
    place: &DeliveryCheckpoint,
    heard: AgentUpdate,
) -> Result<(), OutboundError> {
    if !heard.task.is_empty() && heard.task != place.task {
        return Ok(());
    }
    let what = match heard.content {
        // An answer beside a task does not end it.
        UpdateContent::Message(message) if !place.task.is_empty() => {
            UpdateContent::Status(TaskStatus::Working, Some(*message))
        }
        what => what,
    };
    progress.apply(what)
}

/// The next event of a stream; without a stream, never.
async fn next(events: &mut Option<UpdateStream>) -> Option<Result<AgentUpdate, OutboundError>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
