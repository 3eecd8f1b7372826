//! SubscribeTaskUpdates: the events of one task, translated. Nothing is decided here.

use agentanycast_proto::v1::SubscribeTaskUpdatesResponse;
use futures::Stream;

use super::{Api, status_of};
use crate::{
    engine::{Change, Subscription, Until, Wait},
    task::Task,
};

type Event = Result<SubscribeTaskUpdatesResponse, tonic::Status>;

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

/// What a wait is over with, as a request says it.
pub(super) fn until(or_input: bool) -> Until {
    if or_input { Until::Halt } else { Until::End }
}

/// The end alone, or the halt, with the whole task.
pub(super) async fn end(api: Api, task_id: String, wait: Wait, most: usize) -> Event {
    let task = match wait {
        Wait::Over(task) => task,
        Wait::Open(over) => {
            if let Some(task) = over.await.map_err(|_| stopping())? {
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
        task: Some(api.present_task(&task, most).await),
        ..SubscribeTaskUpdatesResponse::default()
    })
}

pub(super) fn stopping() -> tonic::Status {
    tonic::Status::unavailable(agentanycast_proto::STOPPING)
}
