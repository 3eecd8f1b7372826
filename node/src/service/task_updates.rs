//! One task from now on: its changes, or its end. Nothing is decided here.

use agentanycast_core::{TaskChange, WaitResult, WaitUntil};
use agentanycast_proto::v1::{self, SubscribeTaskUpdatesResponse};
use futures::Stream;

use super::{Caller, Service, ServiceError, ServiceResult};

impl Service {
    /// The state as it is, then each change up to the last.
    pub(crate) async fn task_updates(
        &self,
        task_id: String,
        caller: &Caller,
    ) -> ServiceResult<impl Stream<Item = ServiceResult<SubscribeTaskUpdatesResponse>> + Send + use<>> {
        let followed = self.engine().subscribe(task_id).await;
        let (task, mut changes) = followed.map_err(ServiceError::while_away)?;
        let (service, most) = (self.clone(), caller.max_answer);
        let first = TaskChange {
            task_id: task.id,
            status: task.status,
            message: task.status_message,
            results: task.results,
        };
        Ok(async_stream::try_stream! {
            let mut last = first.status;
            yield service.fit_update(&first, most).await;
            while !last.is_terminal() {
                let Some(change) = changes.next().await else {
                    Err(ServiceError::stopping())?;
                    break;
                };
                last = change.status;
                yield service.fit_update(&change, most).await;
            }
        })
    }

    /// Waits for the end of a task, or for a question of its agent if `or_input`.
    pub(crate) async fn wait_task(&self, task_id: String, or_input: bool) -> ServiceResult<WaitResult> {
        let until = if or_input {
            WaitUntil::EndOrQuestion
        } else {
            WaitUntil::End
        };
        let wait = self.engine().wait(task_id, until).await;
        wait.map_err(ServiceError::while_away)
    }

    /// The task whole, once such a wait is over.
    pub(crate) async fn waited_task(
        &self,
        task_id: String,
        wait: WaitResult,
        caller: &Caller,
    ) -> ServiceResult<v1::Task> {
        let task = match wait {
            WaitResult::Ended(task) => task,
            WaitResult::Pending(over) => {
                if let Some(task) = over.await.map_err(|_| ServiceError::stopping())? {
                    task
                } else {
                    let whole = self.engine().task(task_id).await;
                    whole.map_err(ServiceError::while_away)?
                }
            }
        };
        Ok(self.fit_task(&task, caller.max_answer).await)
    }
}
