//! `react()`: the model reasons, acts with tools, and observes their results, step by step.
//!
//! Reasoning goes into the state's reasoning, not into its messages, and the prompts go into neither.

use agentanycast_upp::{Limit, Llm, Turn, UppError, UserMessage};
use async_trait::async_trait;

use super::{
    ExecutionContext, ExecutionResult, ExecutionStrategy, loop_strategy::check_rounds, turn_log::TurnLog,
};
use crate::{
    result::{AgentError, GenerateResult},
    state::AgentState,
};

const REASONING_PROMPT: &str = "Think about the task and what is known so far. Say what to do next and why, or that \
     the task is done. Do not do it yet.";

/// The strategy `react()`, without a limit.
///
/// ```
/// use agentanycast_uap::{agent, react};
/// # use agentanycast_upp::Scripted;
/// # let model = Scripted::new([]).model();
/// let agent = agent(model).execution(react().max_steps(8).reasoning_prompt("Think in one sentence."));
/// # drop(agent);
/// ```
pub fn react() -> ReactOptions {
    ReactOptions {
        max_steps: Limit::Infinite,
        reasoning_prompt: REASONING_PROMPT.to_owned(),
    }
}

/// The strategy `react()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactOptions {
    max_steps: Limit,
    reasoning_prompt: String,
}

impl ReactOptions {
    /// Sets how many times the model reasons, acts and observes. The run ends well after the last one, with
    /// the results of its tools as the last message.
    #[must_use]
    pub fn max_steps(mut self, max: impl Into<Limit>) -> Self {
        self.max_steps = max.into();
        self
    }

    /// Sets the prompt of the reasoning.
    #[must_use]
    pub fn reasoning_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.reasoning_prompt = prompt.into();
        self
    }
}

/// A running strategy.
struct ReactRun<'a> {
    context: &'a ExecutionContext,
    options: &'a ReactOptions,
    /// The model without tools.
    reasoner: Llm,
    /// The state before the step.
    state: AgentState,
    step: u64,
    rounds: u64,
    begun: bool,
    log: TurnLog,
}

#[async_trait]
impl ExecutionStrategy for ReactOptions {
    fn name(&self) -> &'static str {
        "react"
    }

    async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError> {
        if let Some(finished) = context.finished() {
            return Ok(finished);
        }
        let options = context.llm.options().clone().without_tools().without_structure();
        let mut running = ReactRun {
            options: self,
            reasoner: options
                .build()
                .map_err(|error| AgentError::new(error, &context.state))?,
            state: context.state.clone(),
            step: context.last_step(),
            rounds: 0,
            begun: false,
            log: TurnLog::default(),
            context: &context,
        };
        let mut steps = 1;
        while self.max_steps.allows(steps) {
            steps += 1;
            let outcome = running.next_step().await;
            if outcome.map_err(|error| AgentError::new(error, &running.state))? {
                break;
            }
        }
        Ok(GenerateResult {
            turn: running.log.into_turn(),
            state: running.state,
        })
    }
}

impl ReactRun<'_> {
    /// Runs a step. Returns whether it was the last one. After an error the state is the one before the step.
    async fn next_step(&mut self) -> Result<bool, UppError> {
        let (context, step) = (self.context, self.step + 1);
        context.begin_step(step, &self.state).await;
        let mut history = self.state.messages().to_vec();
        if !self.begun {
            history.extend(context.input.iter().cloned());
        }

        let prompt = UserMessage::text(&self.options.reasoning_prompt);
        let thought = context.start(&self.reasoner, prompt, &history).run().await?;
        let reasoning = reasoning_of(&thought);
        context.reason(step, &reasoning).await;

        let tools = context.tool_context(step, &self.state);
        let prompt = format!(
            "You reasoned:\n{reasoning}\n\nDo it now: call the tools for it, or give the final answer."
        );
        let mut run = context.start(&context.llm, UserMessage::text(prompt), &history);
        run.set_extension(tools.clone());
        let inference = run.infer().await?;
        if inference.runs_tools {
            self.rounds += 1;
            check_rounds(context.llm.tool_strategy().limit(), self.rounds)?;
            context.act(step, &inference.message.tool_calls).await;
            let executions = run.run_tools().await?;
            context.observe(step, executions).await;
        }
        let mut acted = run.finish().await?;

        // The first message is the prompt; before the first step, the input takes its place.
        let input = if self.begun { &[] } else { context.input.as_slice() };
        acted.messages.splice(..1, input.iter().cloned());
        let tokens = thought
            .usage
            .total_tokens
            .saturating_add(acted.usage.total_tokens);
        let traces = tools.take_traces(&acted.tool_executions);
        let state = self
            .state
            .after_step(step, acted.messages.iter().cloned(), traces, tokens)
            .with_reasoning(reasoning);
        self.log.messages(acted.messages.iter().cloned());
        self.log.absorb(&thought);
        self.log.absorb(&acted);
        self.log.data(&acted);
        let result = GenerateResult { turn: acted, state };
        let stop = context.end_step(step, &result).await;
        self.state = result.state;
        self.step = step;
        self.begun = true;
        Ok(stop || !inference.runs_tools)
    }
}

/// What the model thought. Some models say it in their text, some in blocks of reasoning.
fn reasoning_of(turn: &Turn) -> String {
    let text = turn.text();
    match turn.response() {
        Some(response) if text.is_empty() => response.reasoning(),
        _ => text,
    }
}
