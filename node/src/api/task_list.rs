//! TaskListService: the additive list of tasks.

use agentanycast_proto::v1::{
    ListTasksRequest, ListTasksResponse, task_list_service_server::TaskListService,
};
use tonic::{Request, Response};

use super::{Api, status_of};
use crate::{
    engine::{MAX_PAGE, wire},
    task::Status,
};

/// Tasks on a page when the caller does not say.
const DEFAULT_PAGE: usize = 50;

#[tonic::async_trait]
impl TaskListService for Api {
    async fn list_tasks(
        &self,
        request: Request<ListTasksRequest>,
    ) -> Result<Response<ListTasksResponse>, tonic::Status> {
        let request = request.into_inner();
        let statuses: Option<Vec<Status>> = request
            .statuses
            .iter()
            .map(|number| Status::from_wire(*number))
            .collect();
        let statuses =
            statuses.ok_or_else(|| tonic::Status::invalid_argument("statuses has an unknown status"))?;
        let size = match usize::try_from(request.page_size) {
            Ok(0) => DEFAULT_PAGE,
            Ok(size) => size.min(MAX_PAGE),
            Err(_) => return Err(tonic::Status::invalid_argument("page_size is negative")),
        };
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(place(token).ok_or_else(|| {
                tonic::Status::invalid_argument("page_token is none that this service gave")
            })?),
        };
        let tasks = self
            .engine()
            .list(statuses, after, size)
            .await
            .map_err(|error| status_of(&error))?;
        let next = tasks.last().filter(|_| tasks.len() == size);
        let next_page_token = next
            .map(|task| format!("{}:{}", task.updated_at, task.id))
            .unwrap_or_default();
        let me = self.engine().me();
        let tasks = tasks.iter().map(|task| wire::head(task, me)).collect();
        Ok(Response::new(ListTasksResponse {
            tasks,
            next_page_token,
        }))
    }
}

fn place(token: &str) -> Option<(u64, String)> {
    let (at, id) = token.split_once(':')?;
    Some((at.parse().ok()?, id.to_owned()))
}
