//! SubscribeTaskUpdates: the events of one task, translated. Nothing is decided here.

use agentanycast_proto::v1::SubscribeTaskUpdatesResponse;
use futures::Stream;
use tonic::Status;

use super::{Api, status_of};
use crate::{
    engine::{Change, Subscription},
    task::Task,
};

type Event = Result<SubscribeTaskUpdatesResponse, Status>;

/// The state as it is, then each change up to the last.
pub(super) fn all(
    api: Api,
    task: Task,
    mut changes: Subscription,
    most: usize,
) -> impl Stream<Item = Event> + Send {
    let first = Change {
        task_id: task.id,
        status: task.status,
        message: task.status_message,
        results: task.results,
    };
    async_stream::try_stream! {
        let mut last = first.status;
        yield api.present_change(&first, most).await;
        while !last.is_terminal() {
            let Some(change) = changes.next().await else {
                Err(stopping())?;
                break;
            };
            last = change.status;
            yield api.present_change(&change, most).await;
        }
    }
}

/// The end alone, with the whole task.
pub(super) async fn end(api: Api, task: Task, changes: Subscription, most: usize) -> Event {
    let task = if task.status.is_terminal() {
        task
    } else {
        until_end(changes).await?;
        let whole = api.engine().task(task.id).await;
        whole.map_err(|error| status_of(&error))?
    };
    Ok(SubscribeTaskUpdatesResponse {
        task_id: task.id.clone(),
        status: task.status.to_wire() as i32,
        task: Some(api.present_task(&task, most).await),
        ..SubscribeTaskUpdatesResponse::default()
    })
}

/// Waits for the last change of a task that has not ended.
pub(super) async fn until_end(mut changes: Subscription) -> Result<(), Status> {
    loop {
        let change = changes.next().await.ok_or_else(stopping)?;
        if change.status.is_terminal() {
            return Ok(());
        }
    }
}

pub(super) fn stopping() -> Status {
    Status::unavailable("the daemon is stopping")
}
