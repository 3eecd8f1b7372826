//! Tasks by the beginning of their ids.

use agentanycast::{ErrorKind, Node, TaskFilter};

use crate::failure::{CommandFailure, FailureCode};

/// Shortest beginning of a task's id that is taken for it.
const MIN_PREFIX: usize = 4;

/// Most tasks that an error lists.
const LISTED: usize = 10;

/// The whole id of the task that a text means: a task's id, or the beginning of one. What fits no task is left as it is,
/// since a task may be known by an id that is not its own here.
pub(crate) async fn whole_id(node: &Node, text: &str) -> Result<String, CommandFailure> {
    if uuid::Uuid::try_parse(text).is_ok() || text.len() < MIN_PREFIX {
        return Ok(text.to_owned());
    }
    let filter = TaskFilter {
        id_prefix: text.to_owned(),
        limit: LISTED + 1,
        ..TaskFilter::default()
    };
    let tasks = node.tasks(&filter).await?;
    // A daemon that does not know the filter lists any.
    if tasks.iter().any(|task| !task.id.starts_with(text)) {
        return Ok(text.to_owned());
    }
    match tasks.as_slice() {
        [] => Ok(text.to_owned()),
        [task] => Ok(task.id.clone()),
        several => match node.task_handle(text).snapshot().await {
            Ok(task) => Ok(task.id),
            Err(error) if error.kind() == ErrorKind::TaskNotFound => {
                let mut listed: Vec<_> = several.iter().take(LISTED).map(|task| task.id.as_str()).collect();
                if several.len() > LISTED {
                    listed.push("and more");
                }
                let message = format!(
                    "{text:?} begins several tasks' ids: {}; give more of it",
                    listed.join(", ")
                );
                Err(CommandFailure::new(
                    FailureCode::NotFound,
                    "TaskAmbiguous",
                    message,
                ))
            }
            Err(error) => Err(error.into()),
        },
    }
}
