//! Listing a caller's tasks, page by page.

use std::pin::pin;

use agentanycast_gateway::{
    ErrorKind, GatewayError,
    tasks::{CallerQuery, CallerTasks, GatewayTasks},
};
use agentanycast_proto::v1;
use futures::{StreamExt as _, TryStreamExt as _};
use prost::Message;

use crate::protocol::{
    encode::ListTasksPage,
    error::A2aError,
    finished::finished_results,
    request::{ListParams, ListPosition},
};

/// Tasks of a page that are read at once.
const READ_AT_ONCE: usize = 4;

/// A page ends behind the task with which it has this many bytes, as the protobuf says them.
const PAGE_BYTES: usize = 8 << 20;

/// A page of a caller's tasks.
pub(super) async fn page(
    shared: &GatewayTasks,
    tasks: &CallerTasks<'_>,
    list: ListParams,
) -> Result<ListTasksPage, A2aError> {
    let query = CallerQuery {
        context: list.context_id.clone(),
        status: list.status,
        changed_after: list.after.map(|after| u64::try_from(after).unwrap_or_default()),
        limit: list.page_size,
        after: list.from.as_ref().map(ListPosition::token).unwrap_or_default(),
    };
    let listed = tasks.list(query).await?;
    let count = listed.tasks.len();
    let (shown, last) = within_budget(shared, tasks, listed.tasks, &list).await?;
    let next = match last {
        Some(last) if last.behind < count => last.position.token(),
        _ => listed.next,
    };
    Ok(ListTasksPage {
        tasks: shown,
        history: list.history,
        artifacts: list.artifacts,
        next,
        size: list.page_size,
        total: listed.total,
    })
}

/// The tasks with what is wanted of them, as many as a page holds, and the last that was looked at; without those that were
/// forgotten meanwhile.
async fn within_budget(
    shared: &GatewayTasks,
    caller: &CallerTasks<'_>,
    heads: Vec<v1::Task>,
    list: &ListParams,
) -> Result<(Vec<v1::Task>, Option<PageEnd>), GatewayError> {
    // The list has neither messages nor results.
    let is_whole = list.history == Some(0) && !list.artifacts;
    let reads = heads.into_iter().map(|head| async move {
        let position = ListPosition::from_task(&head);
        if is_whole {
            return Ok((position, Some(head)));
        }
        match caller.read(&*shared.node().task(&head.task_id)).await {
            Ok(task) => Ok((position, Some(list.wanted(finished_results(task))))),
            Err(error) if error.kind() == ErrorKind::TaskNotFound => Ok((position, None)),
            Err(error) => Err(error),
        }
    });
    let mut read = pin!(futures::stream::iter(reads).buffered(READ_AT_ONCE));
    let (mut tasks, mut bytes, mut last) = (Vec::new(), 0, None::<PageEnd>);
    while bytes < PAGE_BYTES
        && let Some((position, task)) = read.try_next().await?
    {
        let behind = last.map_or(1, |last| last.behind + 1);
        last = Some(PageEnd { position, behind });
        bytes += task.as_ref().map_or(0, Message::encoded_len);
        tasks.extend(task);
    }
    Ok((tasks, last))
}

/// The last task of a page.
struct PageEnd {
    position: ListPosition,
    /// How many were looked at with it.
    behind: usize,
}

impl ListParams {
    /// The task with what of it is shown.
    fn wanted(&self, mut task: v1::Task) -> v1::Task {
        if !self.artifacts {
            task.artifacts.clear();
        }
        if let Some(most) = self.history {
            // The one of the state is shown beside the newest ones.
            let surplus = task.messages.len().saturating_sub(most.saturating_add(1));
            task.messages.drain(..surplus);
        }
        task
    }
}
