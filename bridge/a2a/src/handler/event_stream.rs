//! A task that is followed, as events: first the task as it stands, then what changes, until it has ended. To who has
//! just sent a message the task is shown as it was then: what an agent has said since, however quick it was, is told
//! by events. An agent that answers a message at once with a message has no task to show: the message is the only
//! event.

use std::{pin::Pin, sync::Arc, time::Duration};

use agentanycast_gateway::{
    GatewayError, TaskHandle, Update, is_terminal, labels::message_answer, tasks::TaskReader,
};
use agentanycast_proto::v1;
use async_stream::try_stream;
use futures::{
    StreamExt as _,
    stream::{BoxStream, Peekable, SelectAll},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{NumberedEvent, artifact_chunks};
use crate::protocol::finished::finished_results;
use crate::protocol::{
    diff::{DiffStep, TaskDiff, TaskEvent},
    error::A2aError,
    event_id::{EventCounter, EventId, beginning, missed_events},
};

/// How long the stream of a message that was sent shows nothing while the agent has said nothing: a stream
/// that has shown a task cannot become one with a message. An agent that is there says within milliseconds
/// that it works.
const FIRST_WORD: Duration = Duration::from_secs(1);

/// The events of a task that is shown as it stands and then followed by its changes; `sent`: it has just been
/// sent. A client that has `heard` of it before is told what it missed instead.
pub(super) fn event_stream(
    handle: Arc<dyn TaskHandle>,
    updates: BoxStream<'static, Result<Update, GatewayError>>,
    task: v1::Task,
    (sent, heard): (bool, Option<EventId>),
    reader: TaskReader,
    place: OwnedSemaphorePermit,
) -> BoxStream<'static, Result<NumberedEvent, A2aError>> {
    let stream = try_stream! {
        let _place = place;
        let mut updates = updates.peekable();
        let mut task = task;
        if sent && is_untouched(&task) && first_word(&mut updates).await {
            task = reader.read(&*handle).await?;
        }
        if let (true, Some(message)) = (sent, message_answer(&task)) {
            let event = TaskEvent::Message(Box::new(message.clone()));
            yield NumberedEvent { event, id: None };
            return;
        }
        let over = is_terminal(task.status());
        let (mut follow, mut steps) = TaskDiff::new(&task);
        let mut counter;
        let mut heard = heard;
        if sent && heard.is_none() && !is_untouched(&task) {
            let (first, told) = beginning(&task);
            heard = Some(told);
            yield NumberedEvent { id: Some(told.number()), event: TaskEvent::Task(Box::new(first)) };
        }
        if let Some(heard) = heard.filter(|heard| heard.fits(&task)) {
            counter = EventCounter::resumed(&task, heard);
            let place_of = |read: &v1::Artifact| {
                task.artifacts.iter().position(|known| known.artifact_id == read.artifact_id)
            };
            let is_missed = |step: &DiffStep| match step {
                DiffStep::Read(read) => place_of(read).is_none_or(|place| !heard.has_result(place)),
                _ => true,
            };
            steps.retain(is_missed);
            let (events, last) = missed_events(&task, heard, sent);
            steps.splice(0..0, events.into_iter().map(DiffStep::Tell));
            if let Some(last) = last {
                steps.extend(over.then_some(DiffStep::Finish));
                steps.push(DiffStep::Tell(last));
            }
        } else {
            counter = EventCounter::from_task(&task);
            let event = TaskEvent::Task(Box::new(finished_results(task)));
            yield NumberedEvent { id: counter.count(&event), event };
        }
        let mut reading = SelectAll::new();
        loop {
            let mut ended = over;
            for step in steps {
                match step {
                    DiffStep::Tell(event) => {
                        ended = matches!(&event, TaskEvent::Status { status, .. } if is_terminal(*status));
                        yield NumberedEvent { id: counter.count(&event), event };
                    }
                    DiffStep::Read(artifact) => reading.push(artifact_chunks::chunk_events(&handle, artifact)),
                    DiffStep::Finish => {
                        while let Some(piece) = reading.next().await {
                            let event = piece?;
                            yield NumberedEvent { id: counter.count(&event), event };
                        }
                    }
                }
            }
            if ended {
                while let Some(piece) = reading.next().await {
                    let event = piece?;
                    yield NumberedEvent { id: counter.count(&event), event };
                }
                break;
            }
            let update = loop {
                let piece = tokio::select! {
                    biased;
                    Some(piece) = reading.next() => piece,
                    update = updates.next() => break update,
                };
                let event = piece?;
                yield NumberedEvent { id: counter.count(&event), event };
            };
            let Some(update) = update.transpose()? else { break };
            let hint = update.is_hint();
            if is_terminal(update.status) {
                // With the end come all results.
                counter.order(&update.artifacts);
            } else if !counter.knows(&update.artifacts) {
                counter.order(&reader.read(&*handle).await?.artifacts);
            }
            steps = if update.resumed {
                follow.catch_up(reader.read(&*handle).await?, &update)
            } else {
                Vec::new()
            };
            steps.extend(follow.apply(update));
            if hint {
                let task = reader.read(&*handle).await?;
                counter.order(&task.artifacts);
                steps.extend(follow.apply_snapshot(task));
            }
        }
    };
    stream.boxed()
}

/// Waits for the first word of an agent; whether it is the end of its task.
async fn first_word(updates: &mut Peekable<BoxStream<'static, Result<Update, GatewayError>>>) -> bool {
    let first = tokio::time::timeout(FIRST_WORD, Pin::new(updates).peek()).await;
    matches!(first, Ok(Some(Ok(update))) if is_terminal(update.status))
}

/// Whether the agent has said nothing of a task yet.
fn is_untouched(task: &v1::Task) -> bool {
    task.status() == v1::TaskStatus::Submitted && task.messages.len() <= 1 && task.artifacts.is_empty()
}
