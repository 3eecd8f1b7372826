//! Listing a caller's tasks, page by page.

use agentanycast_proto::v1;
use futures::{StreamExt as _, TryStreamExt as _};

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
const READ_AT_ONCE: usize = 8;

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
        let next = match mine.get(end.saturating_sub(1)) {
            Some((last, _)) if end < total => last.token(),
            _ => String::new(),
        };
        let heads = mine.drain(begin.min(end)..end).map(|(_, task)| task);
        // The list has neither messages nor results.
        let tasks = if list.history == Some(0) && !list.artifacts {
            heads.collect()
        } else {
            self.whole(heads.collect()).await?
        };
        Ok(Page {
            tasks,
            history: list.history,
            artifacts: list.artifacts,
            next,
            size: list.page_size,
            total,
        })
    }

    /// The tasks with all that they have; without those that were forgotten meanwhile.
    async fn whole(&self, heads: Vec<v1::Task>) -> Result<Vec<v1::Task>, GatewayError> {
        let reads = heads.into_iter().map(|head| async move {
            match self.gateway.task(&head.task_id).snapshot().await {
                Ok(task) => Ok(Some(finished_results(task))),
                Err(error) if error.kind() == ErrorKind::TaskNotFound => Ok(None),
                Err(error) => Err(error),
            }
        });
        let read = futures::stream::iter(reads).buffered(READ_AT_ONCE);
        read.try_filter_map(|task| async move { Ok(task) })
            .try_collect()
            .await
    }
}

impl List {
    /// Whether a task is wanted, on whichever page.
    fn takes(&self, task: &v1::Task) -> bool {
        let changed = task.updated_at.as_ref().map(time::millis).unwrap_or_default();
        (self.context_id.is_empty() || task.context_id == self.context_id)
            && self.status.is_none_or(|status| task.status() == status)
            && self.after.is_none_or(|after| changed > after)
    }
}
