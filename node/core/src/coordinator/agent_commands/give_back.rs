//! An agent that was handed a task, has done nothing on it and cannot do it now gives it back: the task goes to another
//! program that listens for the agent, or waits. The end of an agent is not counted for it.

use super::{Coordinator, task_of_agent};
use crate::{
    clock::Now,
    dispatch::{GivenBackTask, OfferKind},
    transaction::EngineError,
};

impl Coordinator {
    /// UpdateTaskStatus by which an agent gives back a task that it has claimed, or was handed. It takes its word back, too, that
    /// it had begun work that must not be done twice. A task that is not claimed, and that others were handed too, is left as it
    /// is. Refused: another agent's claim stands, or more was said of the task than that an agent works on it.
    pub(crate) fn give_back(&mut self, now: Now, id: &str, connection: u64) -> Result<(), EngineError> {
        self.check_claim(id, connection)?;
        let mut task = task_of_agent(&mut self.tasks, id)?;
        if task.status.is_terminal() || !task.has_no_report() {
            return Err(EngineError::Precondition(format!(
                "task {id} is {} and was reported on: it cannot be given back",
                task.status
            )));
        }
        let (agent, ends) = (task.agent.clone(), task.agent_ends);
        if task.claimed {
            let is_unknown = self.dispatch.on_update_sent(id);
            // An originator that was told of a claim confirms no task that is offered back to it.
            task.returnable &= is_unknown;
            task.give_back(now.unix);
            let saved = task.save(&mut self.transaction);
            self.on_changed(&saved, Vec::new());
        } else if !self.dispatch.is_held_on(agent.as_deref(), id, connection) {
            return Ok(());
        }
        let given_back = GivenBackTask {
            task: id,
            connection,
            as_what: OfferKind::Again { ends },
            weight: self.tasks.weight(id),
        };
        let deliveries = self.dispatch.give_back(now, agent.as_deref(), &given_back);
        Ok(self.hand_over(now, deliveries)?)
    }
}
