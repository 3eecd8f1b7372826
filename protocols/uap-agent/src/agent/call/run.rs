//! A run of an agent: middleware around the strategy, checkpoints behind it.

use std::sync::Arc;

use agentanycast_upp::{EventSender, UppError};

use super::AgentCall;
use crate::{
    agent::{SESSION_ID, options::AgentParts},
    checkpoint::check_session_id,
    event::AgentStreamEvent,
    execution::ExecutionContext,
    middleware::MiddlewareContext,
    result::{AgentError, GenerateResult},
};

/// Runs a call. Streamed or not, it takes the same way; only the events have a reader or none.
pub(super) async fn run(
    call: AgentCall,
    events: Option<EventSender<AgentStreamEvent>>,
) -> Result<GenerateResult, AgentError> {
    let AgentCall {
        agent,
        input,
        mut state,
        cancel,
        session_id,
        checkpoints,
    } = call;
    let parts = &*agent.0;
    let store = parts.checkpoints.as_ref().filter(|_| checkpoints);
    let session_id = if checkpoints {
        session_of(parts, session_id)
    } else {
        None
    };
    // A run that is dropped is cancelled: tasks that its tools began watch the same token.
    let cancel = cancel.child_token();
    let cancel_on_drop = cancel.clone().drop_guard();
    if let Some(session_id) = &session_id {
        check_session_id(session_id).map_err(|error| {
            AgentError::new(
                UppError::invalid_request(error.to_string()).with_source(error),
                &state,
            )
        })?;
        state = state
            .ensure_metadata(SESSION_ID, session_id)
            .ensure_metadata("agentId", &parts.id);
    }
    let mut around = MiddlewareContext::new(&parts.id, input.into_messages(), state);
    let input = around.input.clone();
    let saves = store.zip(session_id.as_deref());
    let saves = saves.map(|(store, session_id)| Arc::new(store.begin(session_id)));

    let outcome = async {
        before(parts, &mut around).await?;
        let mut context = ExecutionContext::new(parts.llm.clone(), around.input.clone(), &around.state);
        context.agent_id = parts.id.clone();
        context.strategy.clone_from(&parts.strategy);
        context.cancel = cancel;
        context.session_id = session_id;
        context.set_saves(saves.clone());
        if let Some(events) = events {
            context.set_events(events);
        }
        let result = execute(parts, context).await?;
        after(parts, &mut around, result).await
    }
    .await;
    // The strategy is gone, and with it the other users of the queue.
    if let Some(saves) = saves.and_then(Arc::into_inner) {
        saves.flush().await;
    }
    // What a tool leaves running may outlive a run that has ended.
    cancel_on_drop.disarm();
    match outcome {
        Ok(result) => Ok(result),
        Err(error) => {
            let error = error.with_input(&input, &around.state);
            rescue(parts, &mut around, error).await
        }
    }
}

/// The session of the call, of the agent, or a new one where checkpoints need it.
fn session_of(parts: &AgentParts, of_call: Option<String>) -> Option<String> {
    let given = of_call.or_else(|| parts.session_id.clone());
    given.or_else(|| {
        parts
            .checkpoints
            .as_ref()
            .map(|_| uuid::Uuid::new_v4().to_string())
    })
}

async fn before(parts: &AgentParts, around: &mut MiddlewareContext) -> Result<(), AgentError> {
    for middleware in &parts.middleware {
        let outcome = middleware.before(around).await;
        outcome.map_err(|error| AgentError::new(error, &around.state))?;
    }
    Ok(())
}

/// Runs the strategy. The hooks may make a result of its error.
async fn execute(parts: &AgentParts, context: ExecutionContext) -> Result<GenerateResult, AgentError> {
    let outcome = parts.execution.execute(context).await;
    let Some(hooks) = &parts.strategy else {
        return outcome;
    };
    let result = match outcome {
        Ok(result) => result,
        Err(failed) => hooks.on_error(&failed.error, &failed.state).await.ok_or(failed)?,
    };
    hooks.on_complete(&result).await;
    Ok(result)
}

async fn after(
    parts: &AgentParts,
    around: &mut MiddlewareContext,
    mut result: GenerateResult,
) -> Result<GenerateResult, AgentError> {
    for middleware in parts.middleware.iter().rev() {
        let state = result.state.clone();
        let outcome = middleware.after(around, result).await;
        result = outcome.map_err(|error| AgentError::new(error, &state))?;
    }
    Ok(result)
}

/// The first middleware, from the last one on, that makes a result of the error wins.
async fn rescue(
    parts: &AgentParts,
    around: &mut MiddlewareContext,
    failed: AgentError,
) -> Result<GenerateResult, AgentError> {
    for middleware in parts.middleware.iter().rev() {
        if let Some(result) = middleware.on_error(around, &failed.error).await {
            return Ok(result);
        }
    }
    Err(failed)
}
