//! The list of tasks, page by page.

use agentanycast_core::task::{GroupKey, Status, Task};
use agentanycast_core::{MAX_PAGE, TaskQuery, wire};
use agentanycast_proto::v1::{ListTasksRequest, ListTasksResponse, part::Content};

use super::{Service, ServiceError, ServiceResult};

/// Tasks on a page when the caller does not say.
const DEFAULT_PAGE: usize = 50;

/// Most of what a task asks that a list shows, in bytes.
const MAX_FIRST_TEXT: usize = 200;

impl Service {
    pub(crate) async fn list_tasks(&self, request: ListTasksRequest) -> ServiceResult<ListTasksResponse> {
        let statuses = request.statuses.iter().map(|number| Status::from_wire(*number));
        let statuses: Option<Vec<Status>> = statuses.collect();
        let statuses = statuses.ok_or_else(|| ServiceError::invalid("statuses has an unknown status"))?;
        let size = match usize::try_from(request.page_size) {
            Ok(0) => DEFAULT_PAGE,
            Ok(size) => size.min(MAX_PAGE),
            Err(_) => return Err(ServiceError::invalid("page_size is negative")),
        };
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(
                parse_page_token(token)
                    .ok_or_else(|| ServiceError::invalid("page_token is none that this service gave"))?,
            ),
        };
        let filter = TaskQuery {
            statuses,
            group: group_of(&request.group)?,
            context_id: request.context_id,
            changed_after: request.changed_after.as_ref().map(millis),
            id_prefix: request.id_prefix,
        };
        let listed = self.engine().list(filter, after, size).await?;
        let me = self.engine().me();
        Ok(ListTasksResponse {
            asked: listed.tasks.iter().map(first_text).collect(),
            tasks: listed.tasks.iter().map(|task| wire::head(task, me)).collect(),
            next_page_token: listed
                .next
                .map(|(at, id)| format!("{at}:{id}"))
                .unwrap_or_default(),
            total: i32::try_from(listed.total).unwrap_or(i32::MAX),
        })
    }
}

/// The group that a caller names; empty: none.
pub(super) fn group_of(bytes: &[u8]) -> ServiceResult<Option<GroupKey>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let group = bytes
        .try_into()
        .map_err(|_| ServiceError::invalid(format!("group has {} bytes; it has 16, or none", bytes.len())))?;
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
