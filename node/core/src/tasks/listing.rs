//! Lists of tasks, newest change first, page by page. The one rule: whose list it is, is known without reading a task;
//! only those on the page are read.

use super::{Tasks, index::TaskIndexEntry, records::context_mark, unless_damaged};
use crate::{
    transaction::EngineError,
    types::{TaskListPage, TaskQuery},
};

impl Tasks {
    /// The tasks that the filter lets pass, at most `limit`, from behind `after` on.
    pub(crate) fn list(
        &mut self,
        filter: &TaskQuery,
        after: Option<&(u64, String)>,
        limit: usize,
    ) -> Result<TaskListPage, EngineError> {
        let mut page: Vec<(u64, String)> = self
            .wanted(filter, after)
            .take(limit.saturating_add(1))
            .map(|(at, id)| (at, id.to_owned()))
            .collect();
        let is_last = page.len() <= limit;
        page.truncate(limit);
        let total = filter.group.map_or(0, |_| self.wanted(filter, None).count());
        let mut tasks = Vec::with_capacity(page.len());
        for (_, id) in &page {
            tasks.extend(unless_damaged(self.read(id))?.flatten());
        }
        Ok(TaskListPage {
            tasks,
            next: page.pop().filter(|_| !is_last),
            total,
        })
    }

    fn wanted(&self, filter: &TaskQuery, after: Option<&(u64, String)>) -> impl Iterator<Item = (u64, &str)> {
        let context = Some(&filter.context_id).filter(|context| !context.is_empty());
        let context = context.map(|context| context_mark(context));
        let is_wanted = move |known: &TaskIndexEntry| {
            (filter.statuses.is_empty() || filter.statuses.contains(&known.status))
                && context.is_none_or(|context| known.context == context)
        };
        let newest = self.index().newest(filter.group.as_ref(), after);
        newest
            .take_while(|(at, _)| filter.changed_after.is_none_or(|after| *at > after))
            .filter(|(_, id)| id.starts_with(&filter.id_prefix))
            .filter(move |(_, id)| self.indexed(id).is_some_and(&is_wanted))
    }
}
