//! `agent()`: a model with tools, a strategy, middleware, hooks and checkpoints.
//!
//! A run is a function from input and state to a turn and a new state. The agent itself holds no
//! conversation.

mod call;
mod options;

use std::{fmt, sync::Arc};

use agentanycast_upp::{Input, Llm, Tool, Turn};
use serde_json::Value;

use self::options::AgentParts;
pub use self::{
    call::AgentCall,
    options::{AgentOptions, agent},
};
#[cfg(feature = "mesh")]
use crate::checkpoint::session_saves::SessionSaves;
use crate::{
    checkpoint::CheckpointError,
    event::AgentStreamResult,
    result::{AgentError, GenerateResult},
    state::AgentState,
};

/// The key of the state's metadata that holds the session of the checkpoints.
const SESSION_ID: &str = "sessionId";

/// An agent. Clones share everything.
///
/// ```
/// use agentanycast_uap::{AgentState, agent};
/// use agentanycast_upp::{Scripted, ScriptedReply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let script = Scripted::new([ScriptedReply::text("Hello Ada."), ScriptedReply::text("Ada.")]);
/// let agent = agent(script.model()).system("Be brief.").build()?;
/// let first = agent.generate("I am Ada.", &AgentState::initial()).await?;
/// let second = agent.generate("Who am I?", &first.state).await?;
/// assert_eq!(second.turn.text(), "Ada.");
/// assert_eq!(second.state.messages().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Agent(Arc<AgentParts>);

impl Agent {
    /// The id, an UUID.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The model with the tools.
    pub fn llm(&self) -> &Llm {
        &self.0.llm
    }

    /// The tools.
    pub fn tools(&self) -> &[Tool] {
        self.0.llm.tools()
    }

    /// Runs the agent. Dropping the future cancels the run.
    pub async fn generate(
        &self,
        input: impl Into<Input>,
        state: &AgentState,
    ) -> Result<GenerateResult, AgentError> {
        self.call(input, state).generate().await
    }

    /// Runs the agent, with events while it runs. Dropping the stream cancels the run, and so does
    /// [`agentanycast_upp::EventStream::abort`].
    ///
    /// ```
    /// use agentanycast_uap::{AgentState, AgentEventType, agent};
    /// use agentanycast_upp::{Scripted, ScriptedReply};
    /// use futures::StreamExt as _;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let script = Scripted::new([ScriptedReply::text("hello")]);
    /// let agent = agent(script.model()).build()?;
    /// let mut stream = agent.stream("hi", &AgentState::initial());
    /// while let Some(event) = stream.next().await {
    ///     let event = event?;
    ///     if let Some(text) = event.as_upp().and_then(|event| event.delta.text.as_deref()) {
    ///         print!("{text}");
    ///     }
    /// }
    /// assert_eq!(stream.result().await?.turn.text(), "hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, input: impl Into<Input>, state: &AgentState) -> AgentStreamResult {
        self.call(input, state).stream()
    }

    /// Runs the agent in a conversation: the new state holds the history, the input and the answer. It is
    /// [`Agent::generate`] by the name that conversations use.
    pub async fn ask(
        &self,
        input: impl Into<Input>,
        state: &AgentState,
    ) -> Result<GenerateResult, AgentError> {
        self.generate(input, state).await
    }

    /// Runs the agent on an empty state, and returns the turn only. The state is discarded: no checkpoint is
    /// saved.
    pub async fn query(&self, input: impl Into<Input>) -> Result<Turn, AgentError> {
        let call = self.call(input, &AgentState::initial()).without_checkpoints();
        Ok(call.generate().await?.turn)
    }

    /// A run with more options: cancellation and session.
    pub fn call(&self, input: impl Into<Input>, state: &AgentState) -> AgentCall {
        AgentCall::new(self.clone(), input.into(), state)
    }

    /// Goes on from a state whose run was cut short, for example one of [`Agent::restore`]. The number of the
    /// step goes on too, and so does the session of the state, unless the agent has one. If nothing is left to
    /// do, the turn holds the last answer.
    ///
    /// After an error use [`Agent::retry`]: the state of a run whose first step failed does not have its input.
    pub async fn resume(&self, state: &AgentState) -> Result<GenerateResult, AgentError> {
        self.continued(Input::default(), state).await
    }

    /// Runs the step that failed once more, and goes on from there: with the input of the run if its first step
    /// failed.
    ///
    /// ```
    /// use agentanycast_uap::{AgentState, agent};
    /// use agentanycast_upp::{ErrorCode, Scripted, ScriptedReply, UppError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let busy = UppError::new(ErrorCode::RateLimited, "busy");
    /// let script = Scripted::new([ScriptedReply::Fail(busy), ScriptedReply::text("Hello Ada.")]);
    /// let agent = agent(script.model()).build()?;
    /// let failed = agent.ask("I am Ada.", &AgentState::initial()).await.unwrap_err();
    /// let result = agent.retry(&failed).await?;
    /// assert_eq!(result.state.messages().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn retry(&self, failed: &AgentError) -> Result<GenerateResult, AgentError> {
        self.continued(failed.input().to_vec(), &failed.state).await
    }

    async fn continued(
        &self,
        input: impl Into<Input>,
        state: &AgentState,
    ) -> Result<GenerateResult, AgentError> {
        let mut call = self.call(input, state);
        let session = state.metadata().get(SESSION_ID).and_then(Value::as_str);
        if let Some(session) = session.filter(|_| self.0.session_id.is_none()) {
            call = call.session_id(session);
        }
        call.generate().await
    }

    /// Where the checkpoints are kept.
    #[cfg(feature = "mesh")]
    pub(crate) fn checkpoint_store(&self) -> Option<&SessionSaves> {
        self.0.checkpoints.as_deref()
    }

    /// The state of the last checkpoint of a session; `None` if there is none, or if the agent has no store.
    ///
    /// ```
    /// use agentanycast_uap::{FileCheckpoints, agent};
    /// use agentanycast_upp::{Scripted, ScriptedReply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let script = Scripted::new([ScriptedReply::text("hello")]);
    /// # let dir = tempfile::tempdir()?;
    /// let agent = agent(script.model()).checkpoints(FileCheckpoints::new(dir.path())).build()?;
    /// let state = agent.restore("session-1").await?.unwrap_or_default();
    /// let result = agent.call("hi", &state).session_id("session-1").generate().await?;
    /// assert_eq!(agent.restore("session-1").await?, Some(result.state));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn restore(&self, session_id: &str) -> Result<Option<AgentState>, CheckpointError> {
        match &self.0.checkpoints {
            Some(store) => store.load_state(session_id).await,
            None => Ok(None),
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("id", &self.0.id)
            .field("execution", &self.0.execution.name())
            .field("llm", &self.0.llm)
            .finish_non_exhaustive()
    }
}
