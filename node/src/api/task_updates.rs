//! SubscribeTaskUpdates: the events of one task, translated. Nothing is decided here.

use agentanycast_core::task::Task;
use agentanycast_core::{Subscription, TaskChange, WaitResult, WaitUntil};
use agentanycast_proto::v1::SubscribeTaskUpdatesResponse;
use futures::Stream;

use super::{Api, status_of};

type UpdateResult = Result<SubscribeTaskUpdatesResponse, tonic::Status>;

/// The state as it is, then each change up to the last.
pub(super) fn all(
    api: Api,
    task: Task,
    mut changes: Subscription,
    most: usize,
) -> impl Stream<Item = UpdateResult> + Send {
    let first = TaskChange {
        task_id: task.id,
        status: task.status,
        message: task.status_message,
        results: task.results,
    };
    async_stream::try_stream! {
        let mut last = first.status;
        yield api.fit_update(&first, most).await;
        while !last.is_terminal() {
            let Some(change) = changes.next().await else {
                Err(node_stopping())?;
                break;
            };
            last = change.status;
            yield api.fit_update(&change, most).await;
        }
    }
}

/// What a wait is over with, as a request says it.
pub(super) fn until(or_input: bool) -> WaitUntil {
    if or_input {
        WaitUntil::EndOrQuestion
    } else {
        WaitUntil::End
    }
}

/// The end alone, or the halt, with the whole task.
pub(super) async fn end(api: Api, task_id: String, wait: WaitResult, most: usize) -> UpdateResult {
    let task = match wait {
        WaitResult::Ended(task) => task,
        WaitResult::Pending(over) => {
            if let Some(task) = over.await.map_err(|_| node_stopping())? {
                task
            } else {
                let whole = api.engine().task(task_id).await;
                whole.map_err(|error| status_of(&error))?
            }
        }
    };
    Ok(SubscribeTaskUpdatesResponse {
        task_id: task.id.clone(),
        status: task.status.to_wire() as i32,
        task: Some(api.fit_task(&task, most).await),
        ..SubscribeTaskUpdatesResponse::default()
    })
}

pub(super) fn node_stopping() -> tonic::Status {
    tonic::Status::unavailable(agentanycast_proto::STOPPING)
}
