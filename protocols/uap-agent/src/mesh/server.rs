//! An agent as a service of the mesh: each incoming task is one run of it.
//!
//! The conversation of the task is the session of the checkpoints, and belongs to the peer that began it:
//! another peer that names the same conversation is refused, since it would read what the first one said.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use agentanycast::{
    AgentCard, Artifact, ArtifactWriter, Error, HandlerError, IncomingTask, Node, Part, Serve, TaskFilter,
    TaskStatus,
};
use agentanycast_upp::{
    ErrorCode, Input, Message, Turn, UppError, UserMessage,
    mesh::{blocks_of_parts, parts_of_turn, request_of_parts},
    task_wire::{self, AGENT_EVENTS},
};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;

use crate::{
    agent::{Agent, AgentCall},
    checkpoint::{Checkpoint, CheckpointError, check_session_id},
    event::{AgentStreamEvent, AgentStreamResult},
    result::{AgentError, GenerateResult},
    state::AgentState,
};

/// The key of the state's metadata that holds the peer of a conversation.
const PEER: &str = "peerId";

/// The key of the state's metadata that holds the last task of a conversation.
const TASK: &str = "taskId";

/// The key of the state's metadata that holds the task that was begun from this state. The state is that before the
/// task's message; the first step of the task replaces it.
const BEGUN: &str = "begunTaskId";

/// How long the beginning of a task waits for the store. A disk takes milliseconds; without this checkpoint the task
/// is not taken up if the process ends in its first step.
const SAVE_PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes of events are put into one write. Events are small, and a chunk on the wire has its price.
const WRITE_BYTES: usize = 16 << 10;

/// Serves an agent.
///
/// A task becomes a run of the agent. Its events are streamed as an artifact of the type
/// `application/vnd.uap.events+jsonl`; its answer is an artifact with the text, and with the turn if the task
/// carries a request of UPP. A run that fails ends the task as failed with the reason `CODE: sentence`.
/// Cancelling the task cancels the run. With a checkpoint store, later tasks of a conversation go on from its
/// state, and tasks that an earlier process of the agent began go on from their last step.
///
/// ```no_run
/// use agentanycast::{AgentCard, Node, Skill};
/// use agentanycast_uap::{FileCheckpoints, agent, mesh::AgentServer};
/// use agentanycast_upp::providers::ollama;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::builder().start().await?;
/// let agent = agent(ollama("qwen3")).checkpoints(FileCheckpoints::new("sessions")).build()?;
/// let card = AgentCard::new("helper", "Answers questions").with_skill(Skill::new("ask", "Any question"));
/// AgentServer::new(node, agent, card).serve().await?.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AgentServer {
    node: Node,
    agent: Agent,
    card: AgentCard,
}

impl AgentServer {
    /// Serves this agent under this card.
    pub fn new(node: Node, agent: Agent, card: AgentCard) -> Self {
        Self { node, agent, card }
    }

    /// Sets the card of the node, and returns the service: its options bound how many runs there are at once
    /// ([`Serve::concurrency`]) and how it stops ([`Serve::until`]). Awaiting it serves.
    ///
    /// With a checkpoint store, the service first takes up the tasks that an earlier process began and did not
    /// end: those of the node whose conversation has a checkpoint that names the task. The daemon keeps such a
    /// task for its `agent_grace`, 5 minutes unless it is set otherwise.
    pub async fn serve(self) -> Result<Serve, Error> {
        let begun = self.begun_tasks().await?;
        self.node.set_card(self.card).await?;
        let shared = Arc::new((self.agent, Conversations::default()));
        let serve = self.node.serve(move |task| {
            let shared = shared.clone();
            async move { handle(&shared.0, &shared.1, &task).await }
        });
        Ok(serve.resume(begun))
    }

    /// The tasks that an earlier process began.
    async fn begun_tasks(&self) -> Result<Vec<String>, Error> {
        if self.agent.checkpoint_store().is_none() {
            return Ok(Vec::new());
        }
        let unfinished = TaskFilter {
            statuses: vec![TaskStatus::Working, TaskStatus::InputRequired],
            ..TaskFilter::default()
        };
        let mut begun = Vec::new();
        for task in self.node.tasks(&unfinished).await? {
            if self.has_begun(&task.context_id, &task.id).await || self.has_begun(&task.id, &task.id).await {
                begun.push(task.id);
            }
        }
        Ok(begun)
    }

    /// Whether the checkpoint of this session names this task.
    async fn has_begun(&self, session: &str, task: &str) -> bool {
        if check_session_id(session).is_err() {
            return false;
        }
        match self.agent.restore(session).await {
            Ok(Some(state)) => [TASK, BEGUN].iter().any(|key| label(&state, key) == Some(task)),
            Ok(None) => false,
            Err(error) => {
                tracing::error!(task, %error, "the checkpoint of a task cannot be read");
                // What is damaged stays so: the task is taken up, and fails.
                !matches!(error, CheckpointError::Store { .. })
            }
        }
    }
}

fn label<'a>(state: &'a AgentState, key: &str) -> Option<&'a str> {
    state.metadata().get(key).and_then(Value::as_str)
}

/// Lets the tasks of one conversation run one after the other. It holds the conversations of running tasks
/// only, whose number [`Serve::concurrency`] bounds.
#[derive(Default)]
struct Conversations(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Conversations {
    fn lock(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = known.get(id).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        known.insert(id.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

async fn handle(
    agent: &Agent,
    conversations: &Conversations,
    task: &IncomingTask,
) -> Result<(), HandlerError> {
    match answer(agent, conversations, task).await {
        Ok(parts) => task.complete([Artifact::new("answer", parts)]).await?,
        // The task is over already: its sender cancelled it.
        Err(_) if task.cancelled().is_cancelled() => {}
        Err(error) => {
            let reason = format!("{}: {}", error.code(), error.message());
            task.fail(reason).await?;
        }
    }
    Ok(())
}

async fn answer(
    agent: &Agent,
    conversations: &Conversations,
    task: &IncomingTask,
) -> Result<Vec<Part>, UppError> {
    let request = request_of_parts(&task.message().parts)?;
    let knows_upp = request.is_some();
    // Two runs of one conversation would both go on from its last state, and one would be lost.
    let conversation = conversations.lock(task.context_id());
    let _turn = conversation.lock().await;
    let call = if let Some(request) = request {
        // The request holds its whole history, so that the session is its own.
        let mut messages = request.messages;
        let last = messages
            .pop()
            .ok_or_else(|| UppError::invalid_request("`messages`: the list is empty"))?;
        let history = AgentState::initial().with_messages(messages);
        session_call(agent, task, task.id(), last.into(), Some(history)).await?
    } else {
        let input = UserMessage::new(blocks_of_parts(&task.message().parts));
        session_call(agent, task, task.context_id(), input.into(), None).await?
    };
    let result = run(call.cancel(task.cancelled()), task)
        .await
        .map_err(|failed| failed.error)?;
    Ok(if knows_upp {
        parts_of_turn(&inference_of(result.turn))
    } else {
        parts_of_answer(&result.turn)
    })
}

/// A call in a session, from its last state or from the history that is given. A task that an earlier process began
/// goes on from its last step.
async fn session_call(
    agent: &Agent,
    task: &IncomingTask,
    session: &str,
    input: Input,
    history: Option<AgentState>,
) -> Result<AgentCall, UppError> {
    if check_session_id(session).is_err() {
        return Ok(agent.call(input, &history.unwrap_or_default()));
    }
    let peer = task.sender().map(ToString::to_string);
    let peer = peer.as_deref();
    let restored = agent.restore(session).await;
    let restored = restored.map_err(|error| {
        tracing::error!(session, %error, "the checkpoint of a conversation cannot be read");
        UppError::new(
            ErrorCode::ProviderError,
            "the state of the conversation cannot be read",
        )
    })?;
    let state = restored.unwrap_or_default();
    let owner = label(&state, PEER);
    if (state.step() > 0 || owner.is_some()) && owner != peer {
        return Err(UppError::new(
            ErrorCode::AuthenticationFailed,
            "the conversation belongs to another peer",
        ));
    }
    if state.step() > 0 && label(&state, TASK) == Some(task.id()) {
        return Ok(agent.call(Input::default(), &state).session_id(session));
    }
    let mut state = history.unwrap_or(state);
    if let Some(peer) = peer {
        state = state.ensure_metadata(PEER, peer);
    }
    save_begun(agent, session, &state.ensure_metadata(BEGUN, task.id())).await;
    let state = state.ensure_metadata(TASK, task.id());
    Ok(agent.call(input, &state).session_id(session))
}

/// Keeps which task begins from this state.
async fn save_begun(agent: &Agent, session: &str, state: &AgentState) {
    let Some(store) = agent.checkpoint_store() else {
        return;
    };
    let save = store.save(session, Checkpoint::new(session, state));
    match tokio::time::timeout(SAVE_PATIENCE, save).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(session, %error, "the beginning of a task was not saved"),
        Err(_) => tracing::error!(
            session,
            "the beginning of a task was not saved within {SAVE_PATIENCE:?}"
        ),
    }
}

/// Runs the agent, and streams its events to the sender.
async fn run(call: AgentCall, task: &IncomingTask) -> Result<GenerateResult, AgentError> {
    let mut stream = call.stream();
    match task.stream_artifact("events", AGENT_EVENTS).await {
        Ok(writer) => write_events(&mut stream, writer).await,
        Err(error) => tracing::debug!(%error, "the events of a run are not streamed"),
    }
    stream.result().await
}

/// Writes events until the stream ends or the reader is gone; the run goes on without a reader.
async fn write_events(stream: &mut AgentStreamResult, mut writer: ArtifactWriter) {
    let mut lines = Vec::new();
    while let Some(event) = stream.next().await {
        push_line(&mut lines, event);
        // Events that are there already go into the same write.
        while lines.len() < WRITE_BYTES {
            let Some(Some(event)) = stream.next().now_or_never() else {
                break;
            };
            push_line(&mut lines, event);
        }
        if let Err(error) = writer.write(&lines).await {
            tracing::debug!(%error, "the reader of the events is gone");
            return;
        }
        lines.clear();
    }
    if let Err(error) = writer.finish().await {
        tracing::debug!(%error, "the reader has not got all events");
    }
}

/// Events become lines. An error does not: the task ends with its reason.
fn push_line(lines: &mut Vec<u8>, event: Result<AgentStreamEvent, AgentError>) {
    if let Ok(event) = event {
        task_wire::push_line(lines, &event);
    }
}

/// What the caller of a request sees: one message of the model. The tools of the agent are its own affair.
fn inference_of(mut turn: Turn) -> Turn {
    let answer = turn
        .messages
        .iter()
        .rposition(|message| matches!(message, Message::Assistant(_)));
    turn.messages = answer
        .map(|index| turn.messages.swap_remove(index))
        .into_iter()
        .collect();
    turn.tool_executions.clear();
    turn
}

/// The text of the answer, and its structured data.
fn parts_of_answer(turn: &Turn) -> Vec<Part> {
    let data = turn.data.clone().and_then(|data| Part::data(data).ok());
    [Part::text(turn.text())].into_iter().chain(data).collect()
}
