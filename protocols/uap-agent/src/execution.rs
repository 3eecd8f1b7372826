//! Strategies: how an agent works. `loop_()`, `react()` and `plan()` are three; others implement
//! [`ExecutionStrategy`].
//!
//! A strategy goes in steps. [`ExecutionContext`] has what all of them need: it emits the events of a step,
//! calls the hooks, and hands the state after each step to the checkpoint store.

mod context;
mod loop_strategy;
mod plan_strategy;
mod react_strategy;
mod turn_log;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::{
    context::ExecutionContext,
    loop_strategy::{LoopOptions, loop_},
    plan_strategy::{PlanOptions, plan},
    react_strategy::{ReactOptions, react},
};
use crate::{
    event::AgentStreamResult,
    result::{AgentError, GenerateResult},
};

/// What a strategy returns: a turn, and the state after it.
pub type ExecutionResult = GenerateResult;

/// How an agent works.
///
/// ```
/// use agentanycast_uap::{AgentError, ExecutionContext, ExecutionResult, ExecutionStrategy, agent};
/// use agentanycast_upp::{Scripted, ScriptedReply};
///
/// /// Asks once, and runs no tools.
/// struct Once;
///
/// #[async_trait::async_trait]
/// impl ExecutionStrategy for Once {
///     fn name(&self) -> &str {
///         "once"
///     }
///
///     async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError> {
///         let before = context.state.clone();
///         context.begin_step(1, &before).await;
///         let mut run = context.start(&context.llm, context.input.clone(), before.messages());
///         run.infer().await.map_err(|error| AgentError::new(error, &before))?;
///         let turn = run.finish().await.map_err(|error| AgentError::new(error, &before))?;
///         let state = before.with_messages(turn.messages.clone()).with_step(1);
///         let result = ExecutionResult { turn, state };
///         context.end_step(1, &result).await;
///         Ok(result)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let script = Scripted::new([ScriptedReply::text("hello")]);
/// let agent = agent(script.model()).execution(Once).build()?;
/// assert_eq!(agent.query("hi").await?.text(), "hello");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ExecutionStrategy: Send + Sync {
    /// The name in logs.
    fn name(&self) -> &str;

    /// Works from the input and the state of the context to a result. The context says where events go, so
    /// that a streamed run takes the same way.
    async fn execute(&self, context: ExecutionContext) -> Result<ExecutionResult, AgentError>;

    /// As [`ExecutionStrategy::execute`], as a stream of its own.
    fn stream(self: Arc<Self>, mut context: ExecutionContext) -> AgentStreamResult
    where
        Self: Sized + 'static,
    {
        let cancel = context.cancel.child_token();
        context.cancel = cancel.clone();
        AgentStreamResult::new(cancel, move |events| async move {
            context.set_events(events);
            self.execute(context).await
        })
    }
}
