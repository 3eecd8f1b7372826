//! Collects the turns of a run's steps into the turn of the run.

use agentanycast_upp::{Message, Turn};

/// The turn of a run so far.
#[derive(Debug, Default)]
pub(super) struct TurnLog(Turn);

impl TurnLog {
    /// Adds messages.
    pub(super) fn messages(&mut self, messages: impl IntoIterator<Item = Message>) {
        self.0.messages.extend(messages);
    }

    /// Adds all of a turn but its messages: calls of tools, tokens, inferences, the structured answer.
    pub(super) fn absorb(&mut self, turn: &Turn) {
        self.0
            .tool_executions
            .extend(turn.tool_executions.iter().cloned());
        self.0.usage.add(&turn.usage);
        self.0.usage.cycles.extend(turn.usage.cycles.iter().cloned());
        self.0.cycles += turn.cycles;
    }

    /// Sets the structured answer.
    pub(super) fn data(&mut self, turn: &Turn) {
        self.0.data.clone_from(&turn.data);
    }

    pub(super) fn into_turn(self) -> Turn {
        self.0
    }
}
