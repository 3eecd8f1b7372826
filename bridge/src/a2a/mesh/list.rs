//! Listing a caller's tasks, page by page.

use std::pin::pin;

use agentanycast_proto::v1;
use futures::{StreamExt as _, TryStreamExt as _};
use prost::Message;

use super::{Address, Mesh, belongs, finished_results};
use crate::{
    a2a::{
        error::A2aError,
        render::Page,
        request::{List, Position},
        time,
    },
    gateway::{ErrorKind, GatewayError},
};

/// Tasks of a page that are read at once.
const READ_AT_ONCE: usize = 4;

/// A page ends behind the task with which it has this many bytes, as the protobuf says them.
const PAGE_BYTES: usize = 8 << 20;

impl Mesh {
    pub(super) async fn list(&self, address: &Address, tenant: &str, list: List) -> Result<Page, A2aError> {
        let me = self.gateway.peer_id().await?;
        let all = self.gateway.tasks().await?;
        let mine = all
            .into_iter()
            .filter(|task| belongs(task, &me, address, tenant) && list.takes(task));
        let mut mine: Vec<(Position, v1::Task)> = mine.map(|task| (Position::of(&task), task)).collect();
        mine.sort_by(|(one, _), (other, _)| (other.changed, &other.id).cmp(&(one.changed, &one.id)));
        let total = mine.len();
        let begin = match &list.from {
            Some(from) => mine.partition_point(|(position, _)| !from.is_before(position)),
            None => 0,
        };
        let end = (begin + list.page_size).min(total);
        let heads: Vec<v1::Task> = mine.drain(begin.min(end)..end).map(|(_, task)| task).collect();
        let (tasks, last) = self.within_budget(heads, &list).await?;
        let is_all = last.as_ref().is_none_or(|last| begin + last.behind == total);
        let next = last.filter(|_| !is_all).map(|last| last.position.token());
        Ok(Page {
            tasks,
            history: list.history,
            artifacts: list.artifacts,
            next: next.unwrap_or_default(),
            size: list.page_size,
            total,
        })
    }

    /// The tasks with what is wanted of them, as many as a page holds, and the last that was looked at; without those
    /// that were forgotten meanwhile.
    async fn within_budget(
        &self,
        heads: Vec<v1::Task>,
        list: &List,
    ) -> Result<(Vec<v1::Task>, Option<Last>), GatewayError> {
        // The list has neither messages nor results.
        let is_whole = list.history == Some(0) && !list.artifacts;
        let reads = heads.into_iter().map(|head| async move {
            let position = Position::of(&head);
            if is_whole {
                return Ok((position, Some(head)));
            }
            match self.gateway.task(&head.task_id).snapshot().await {
                Ok(task) => Ok((position, Some(list.wanted(finished_results(task))))),
                Err(error) if error.kind() == ErrorKind::TaskNotFound => Ok((position, None)),
                Err(error) => Err(error),
            }
        });
        let mut read = pin!(futures::stream::iter(reads).buffered(READ_AT_ONCE));
        let (mut tasks, mut bytes, mut last) = (Vec::new(), 0, None::<Last>);
        while bytes < PAGE_BYTES
            && let Some((position, task)) = read.try_next().await?
        {
            let behind = last.map_or(1, |last| last.behind + 1);
            last = Some(Last { position, behind });
            bytes += task.as_ref().map_or(0, Message::encoded_len);
            tasks.extend(task);
        }
        Ok((tasks, last))
    }
}

/// The last task of a page.
struct Last {
    position: Position,
    /// How many were looked at with it.
    behind: usize,
}

impl List {
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

    /// Whether a task is wanted, on whichever page.
    fn takes(&self, task: &v1::Task) -> bool {
        let changed = task.updated_at.as_ref().map(time::millis).unwrap_or_default();
        (self.context_id.is_empty() || task.context_id == self.context_id)
            && self.status.is_none_or(|status| task.status() == status)
            && self.after.is_none_or(|after| changed > after)
    }
}
