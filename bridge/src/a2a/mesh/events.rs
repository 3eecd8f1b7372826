//! A task that is followed, as events: first the task as it stands, then what changes, until it has ended.

use std::sync::Arc;

use agentanycast_proto::v1;
use async_stream::try_stream;
use futures::{
    StreamExt as _,
    stream::{BoxStream, SelectAll},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{finished_results, pieces};
use crate::{
    a2a::{
        error::A2aError,
        follow::{self, Event, Follow, Step},
    },
    gateway::{GatewayError, TaskHandle, Update, is_terminal, reads::Reads},
};

/// The events of a task that is shown as it stands and then followed.
pub(super) fn of(
    handle: Arc<dyn TaskHandle>,
    mut updates: BoxStream<'static, Result<Update, GatewayError>>,
    task: v1::Task,
    (reads, caller): (Arc<Reads>, String),
    place: OwnedSemaphorePermit,
) -> BoxStream<'static, Result<Event, A2aError>> {
    let stream = try_stream! {
        let _place = place;
        let over = is_terminal(task.status());
        let (mut follow, mut steps) = Follow::new(&task);
        yield Event::Task(Box::new(finished_results(task)));
        let mut reading = SelectAll::new();
        loop {
            let mut ended = over;
            for step in steps {
                match step {
                    Step::Tell(event) => {
                        ended = matches!(&event, Event::Status { status, .. } if is_terminal(*status));
                        yield event;
                    }
                    Step::Read(artifact) => reading.push(pieces::of(&handle, artifact)),
                    Step::Finish => {
                        while let Some(piece) = reading.next().await {
                            yield piece?;
                        }
                    }
                }
            }
            if ended {
                while let Some(piece) = reading.next().await {
                    yield piece?;
                }
                break;
            }
            let update = loop {
                tokio::select! {
                    biased;
                    Some(piece) = reading.next() => yield piece?,
                    update = updates.next() => break update,
                }
            };
            let Some(update) = update.transpose()? else { break };
            let hint = follow::is_hint(&update);
            steps = if update.resumed {
                follow.catch_up(reads.of(&caller, &*handle).await?, &update)
            } else {
                Vec::new()
            };
            steps.extend(follow.take(update));
            if hint {
                steps.extend(follow.look(reads.of(&caller, &*handle).await?));
            }
        }
    };
    stream.boxed()
}
