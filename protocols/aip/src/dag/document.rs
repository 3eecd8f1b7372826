//! A graph as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConstellationState, DagError, TaskConstellation, TaskStar, TaskStarLine, TaskStarStatus};

/// A graph as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConstellationDocument {
    /// Its id.
    pub constellation_id: String,
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// Its state. It is not read: it follows from the tasks, but for "cancelled".
    pub state: ConstellationState,
    /// The tasks by their ids.
    pub tasks: BTreeMap<String, TaskStar>,
    /// The dependencies by their ids.
    #[serde(default)]
    pub dependencies: BTreeMap<String, TaskStarLine>,
}

impl TaskConstellation {
    /// The graph as it is now.
    pub fn to_document(&self) -> ConstellationDocument {
        ConstellationDocument {
            constellation_id: self.constellation_id.clone(),
            name: self.name.clone(),
            state: self.state(),
            tasks: self.tasks.clone(),
            dependencies: self.lines.clone(),
        }
    }

    /// The graph of a document. What ran is pending again.
    ///
    /// # Errors
    /// When the document is not a graph: a task is missing, an id does not fit, or there is a circle.
    pub fn from_document(document: ConstellationDocument) -> Result<Self, DagError> {
        let mut graph = Self::new(&document.constellation_id, &document.name);
        let mut ended = Vec::new();
        for (id, task) in document.tasks {
            if id != task.task_id {
                return Err(DagError::NoTask(id));
            }
            graph.add_task(task.clone())?;
            ended.push(task);
        }
        for (id, line) in document.dependencies {
            if id != line.line_id {
                return Err(DagError::NoLine(id));
            }
            let holds = line.condition_holds;
            graph.add_line(line)?;
            if let Some(line) = graph.lines.get_mut(&id) {
                line.condition_holds = holds;
            }
        }
        for mut task in ended {
            if !task.status.is_terminal() {
                task.status = TaskStarStatus::Pending;
            }
            graph.tasks.insert(task.task_id.clone(), task);
        }
        let all: Vec<String> = graph.tasks.keys().cloned().collect();
        graph.refresh(all);
        if document.state == ConstellationState::Cancelled {
            graph.cancel_all();
        }
        Ok(graph)
    }
}
