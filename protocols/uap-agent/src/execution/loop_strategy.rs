//! `loop_()`: asks the model, runs the tools that it calls, and asks again. A step is one inference with its
//! tools.

use agentanycast_upp::{Limit, TokenUsage, ToolExecution, Turn, TurnRun, UppError};
use async_trait::async_trait;

use super::{ExecutionContext, ExecutionResult, ExecutionStrategy};
use crate::{
    result::{AgentError, GenerateResult},
    state::AgentState,
};

/// The strategy `loop_()`, without a limit. The underscore is there because `loop` is a word of the language.
///
/// ```
/// use agentanycast_uap::{agent, loop_};
/// # use agentanycast_upp::Scripted;
/// # let model = Scripted::new([]).model();
/// let agent = agent(model).execution(loop_().max_iterations(20));
/// # drop(agent);
/// ```
pub fn loop_() -> LoopOptions {
    LoopOptions::default()
}

/// The strategy `loop_()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopOptions {
    max_iterations: Limit,
}

impl LoopOptions {
    /// Sets how many rounds of tools run. If the model calls tools once more, the run fails with
    /// `INVALID_REQUEST`.
    #[must_use]
    pub fn max_iterations(mut self, max: impl Into<Limit>) -> Self {
        self.max_iterations = max.into();
        self
    }
}

/// A running loop.
struct LoopRun<'a> {
    context: &'a ExecutionContext,
    run: TurnRun,
    /// The state before the step.
    state: AgentState,
    step: u64,
    rounds: u64,
    max: Limit,
}

#[async_trait]
impl ExecutionStrategy for LoopOptions {
    fn name(&self) -> &'static str {
        "loop"
    }

    async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError> {
        if let Some(finished) = context.finished() {
            return Ok(finished);
        }
        let mut running = LoopRun {
            run: context.start(&context.llm, context.input.clone(), context.state.messages()),
            state: context.state.clone(),
            step: context.last_step(),
            rounds: 0,
            max: self.max_iterations,
            context: &context,
        };
        loop {
            let outcome = running.next_step().await;
            if outcome.map_err(|error| AgentError::new(error, &running.state))? {
                break;
            }
        }
        let state = running.state;
        let turn = running
            .run
            .finish()
            .await
            .map_err(|error| AgentError::new(error, &state))?;
        Ok(GenerateResult { turn, state })
    }
}

impl LoopRun<'_> {
    /// Runs a step. Returns whether it was the last one. After an error the state is the one before the step.
    async fn next_step(&mut self) -> Result<bool, UppError> {
        let (context, step) = (self.context, self.step + 1);
        context.begin_step(step, &self.state).await;
        let tools = context.tool_context(step, &self.state);
        self.run.set_extension(tools.clone());
        // The first step adds the input too.
        let seen = if self.rounds == 0 {
            0
        } else {
            self.run.messages().len()
        };
        let inference = self.run.infer().await?;
        let mut executions = Vec::new();
        if inference.runs_tools {
            self.rounds += 1;
            check_rounds(self.max, self.rounds)?;
            context.act(step, &inference.message.tool_calls).await;
            executions = self.run.run_tools().await?.to_vec();
            context.observe(step, &executions).await;
        }
        let messages = &self.run.messages()[seen..];
        let usage = self.run.usage().cycles.last().cloned().unwrap_or_default();
        let traces = tools.take_traces(&executions);
        let state = self
            .state
            .after_step(step, messages.iter().cloned(), traces, usage.total_tokens);
        let turn = step_turn(messages.to_vec(), executions, &usage);
        let result = GenerateResult { turn, state };
        let stop = context.end_step(step, &result).await;
        self.state = result.state;
        self.step = step;
        Ok(stop || !inference.runs_tools)
    }
}

/// The turn of one step.
fn step_turn(
    messages: Vec<agentanycast_upp::Message>,
    tool_executions: Vec<ToolExecution>,
    usage: &TokenUsage,
) -> Turn {
    let mut turn = Turn {
        messages,
        tool_executions,
        cycles: 1,
        ..Turn::default()
    };
    turn.usage.add_cycle(usage);
    turn
}

/// Fails if this round of tools is one more than the limit allows.
pub(super) fn check_rounds(limit: Limit, round: u64) -> Result<(), UppError> {
    match limit {
        Limit::Max(max) if !limit.allows(round) => Err(UppError::invalid_request(format!(
            "the model calls tools after {max} rounds of tools; raise the limit to allow more"
        ))),
        _ => Ok(()),
    }
}
