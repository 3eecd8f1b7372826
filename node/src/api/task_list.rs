//! TaskListService: the additive list of tasks.

use agentanycast_core::task::{GroupKey, Status, Task};
use agentanycast_core::{MAX_PAGE, TaskQuery, wire};
use agentanycast_proto::v1::{
    ListTasksRequest, ListTasksResponse, part::Content, task_list_service_server::TaskListService,
};
use tonic::{Request, Response};

use super::{Api, status_for_asker};

/// Tasks on a page when the caller does not say.
const DEFAULT_PAGE: usize = 50;

/// Most of what a task asks that a list shows, in bytes.
const MAX_FIRST_TEXT: usize = 200;

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
            token => Some(parse_page_token(token).ok_or_else(|| {
                tonic::Status::invalid_argument("page_token is none that this service gave")
            })?),
        };
        let filter = TaskQuery {
            statuses,
            group: group_of(&request.group)?,
            context_id: request.context_id,
            changed_after: request.changed_after.as_ref().map(millis),
            id_prefix: request.id_prefix,
        };
        let listed = self.engine().list(filter, after, size).await;
        let listed = listed.map_err(|error| status_for_asker(&error))?;
        let me = self.engine().me();
        Ok(Response::new(ListTasksResponse {
            asked: listed.tasks.iter().map(first_text).collect(),
            tasks: listed.tasks.iter().map(|task| wire::head(task, me)).collect(),
            next_page_token: listed
                .next
                .map(|(at, id)| format!("{at}:{id}"))
                .unwrap_or_default(),
            total: i32::try_from(listed.total).unwrap_or(i32::MAX),
        }))
    }
}

/// The group that a caller names; empty: none.
pub(super) fn group_of(bytes: &[u8]) -> Result<Option<GroupKey>, tonic::Status> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let group = bytes.try_into().map_err(|_| {
        tonic::Status::invalid_argument(format!("group has {} bytes; it has 16, or none", bytes.len()))
    })?;
    Ok(Some(group))
}

/// How a task's first message begins, as far as it is text.
fn first_text(task: &Task) -> String {
    let parts = task
        .messages
        .first()
        .into_iter()
        .flat_map(|message| &message.parts);
    let mut texts = parts.filter_map(|part| match &part.content {
        Some(Content::TextPart(part)) => Some(part.text.as_str()),
        _ => None,
    });
    let text = texts.next().unwrap_or_default();
    text[..text.floor_char_boundary(MAX_FIRST_TEXT)].to_owned()
}

/// Unix time in milliseconds; what was before counts as its beginning.
fn millis(time: &prost_types::Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    let nanos = u64::try_from(time.nanos).unwrap_or_default();
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

fn parse_page_token(token: &str) -> Option<(u64, String)> {
    let (at, id) = token.split_once(':')?;
    Some((at.parse().ok()?, id.to_owned()))
}
