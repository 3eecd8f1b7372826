//! SubscribeTaskUpdates: the events of one task, translated. Nothing is decided here.

use agentanycast_proto::v1::SubscribeTaskUpdatesResponse;
use futures::Stream;

use super::{Api, status_of};
use crate::{
    engine::{Change, Subscription},
    task::{Status, Task},
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

/// What a wait for a task is over with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Its end.
    End,
    /// Its end, or a question to its originator.
    Halt,
}

impl Until {
    /// As a request says it.
    pub(super) fn of(or_input: bool) -> Self {
        if or_input { Self::Halt } else { Self::End }
    }

    /// Whether a task in this state is waited for no longer.
    pub(super) fn is_over(self, status: Status) -> bool {
        status.is_terminal() || (self == Self::Halt && status == Status::InputRequired)
    }
}

/// The end alone, or the halt, with the whole task.
pub(super) async fn end(api: Api, task: Task, changes: Subscription, until: Until, most: usize) -> Event {
    let task = if until.is_over(task.status) {
        task
    } else {
        wait(changes, until).await?;
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

/// Waits for the change of a task with which its wait is over.
pub(super) async fn wait(mut changes: Subscription, until: Until) -> Result<(), tonic::Status> {
    loop {
        let change = changes.next().await.ok_or_else(stopping)?;
        if until.is_over(change.status) {
            return Ok(());
        }
    }
}

pub(super) fn stopping() -> tonic::Status {
    tonic::Status::unavailable("the daemon is stopping")
}
