//! One task as one turn of an agent: its prompt, what the agent says and does meanwhile, what it wants to be
//! permitted, and its end.
//!
//! Invariant: however the task ends, the agent is told (`session/cancel`) unless it has ended the turn itself, and
//! every request for permission is answered.

use std::{collections::VecDeque, time::Duration};

use agent_client_protocol::{
    Agent, is_connection_terminated, is_incoming_transport_closed,
    v1::{
        ConnectionTo, Responder,
        schema::{
            CancelNotification, ContentBlock, ContentChunk, PermissionOptionId, PromptRequest,
            PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
            SelectedPermissionOutcome, SessionId, SessionUpdate, StopReason,
        },
    },
};
use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{runtime::Handle, time::timeout};

use super::{
    connection::UpAgent,
    content,
    permission::{self, Decision, Permit},
    progress,
    turns::{TurnEvent, TurnEvents},
};
use crate::{
    RunError, TaskResult,
    parts::{text_message, text_part},
    progress_rate::ProgressRate,
    result_stream::{ResultStream, stream_large, too_large},
    task_content::artifact,
};

/// The name of what an agent says, as a result.
const ANSWER: &str = "answer";

/// Its media type: agents write Markdown.
const MARKDOWN: &str = "text/markdown";

/// How long an agent may take to end a turn that is canceled, until its session takes the next prompt.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// How often the sender is asked again whose answer is none of the options.
const ASKED_AGAIN: u32 = 2;

/// How the sender's permission is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PermitRules {
    pub(super) permit: Permit,
    /// How long an answer may take; then it is no.
    pub(super) timeout: Duration,
}

/// A request for permission that waits for its answer. It is answered as cancelled when it is dropped.
struct PermissionReply(Option<Responder<RequestPermissionResponse>>);

impl PermissionReply {
    /// Answers with this option; `None`: none of them fits.
    fn answer(mut self, option: Option<PermissionOptionId>) {
        self.send(option);
    }

    fn send(&mut self, option: Option<PermissionOptionId>) {
        let Some(responder) = self.0.take() else { return };
        let outcome = option.map_or(RequestPermissionOutcome::Cancelled, |option| {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option))
        });
        // An agent that is gone needs no answer.
        let _ = responder.respond(RequestPermissionResponse::new(outcome));
    }
}

impl Drop for PermissionReply {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// A request whose sender is asked.
struct AskedPermission {
    request: RequestPermissionRequest,
    reply: PermissionReply,
    /// Answers that were none of the options.
    unclear: u32,
}

impl AskedPermission {
    /// The question to the sender.
    fn question(&self) -> v1::Message {
        let mut question = permission::question(&self.request);
        if self.unclear > 0 {
            let again = text_part("The last answer is none of the options.");
            question.parts.insert(0, again);
        }
        question
    }
}

/// What came of a question.
enum PermissionAnswer {
    Said(v1::Message),
    /// There was no answer in time, or the task has ended.
    Nothing(String),
}

/// A turn that is under way.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a UpAgent,
    pub(super) session: SessionId,
    pub(super) task: &'a dyn AgentTask,
    pub(super) rules: PermitRules,
    pub(super) max_output: usize,
}

/// The prompt of a turn, until the agent has answered it. When it is dropped before, the agent is told that the turn is
/// canceled, and the session stays taken until the agent has ended the turn, for [`CANCEL_WITHIN`] at most.
struct OpenPrompt<S: Send + 'static> {
    connection: ConnectionTo<Agent>,
    session: SessionId,
    /// `None`: the agent has answered.
    response: Option<BoxFuture<'static, Result<PromptResponse, agent_client_protocol::Error>>>,
    slot: Option<S>,
}

impl<S: Send + 'static> OpenPrompt<S> {
    fn new(agent: &UpAgent, session: &SessionId, blocks: Vec<ContentBlock>, slot: S) -> Self {
        let request = PromptRequest::new(session.clone(), blocks);
        Self {
            connection: agent.connection.clone(),
            session: session.clone(),
            response: Some(agent.connection.send_request(request).block_task().boxed()),
            slot: Some(slot),
        }
    }

    /// The agent's answer. Dropping the future loses nothing.
    async fn answered(&mut self) -> Result<PromptResponse, agent_client_protocol::Error> {
        let Some(response) = &mut self.response else {
            return std::future::pending().await;
        };
        let answer = response.await;
        self.response = None;
        answer
    }
}

impl<S: Send + 'static> Drop for OpenPrompt<S> {
    fn drop(&mut self) {
        let (Some(response), Ok(runtime)) = (self.response.take(), Handle::try_current()) else {
            return;
        };
        let slot = self.slot.take();
        let cancel = CancelNotification::new(self.session.clone());
        if self.connection.send_notification(cancel).is_err() {
            // The agent is gone, and its turn with it.
            return;
        }
        runtime.spawn(async move {
            let _ = timeout(CANCEL_WITHIN, response).await;
            drop(slot);
        });
    }
}

impl Turn<'_> {
    /// Gives the agent this prompt, and waits for the end of its turn. `slot` is held until the session is free again.
    pub(super) async fn run(
        &self,
        blocks: Vec<ContentBlock>,
        mut events: TurnEvents,
        slot: impl Send + 'static,
    ) -> Result<TaskResult, RunError> {
        let mut prompt = OpenPrompt::new(self.agent, &self.session, blocks, slot);
        let mut said = Said::new(self.task, self.max_output);
        let mut asked: VecDeque<AskedPermission> = VecDeque::new();
        let mut question: Option<BoxFuture<'_, PermissionAnswer>> = None;
        let mut rate = ProgressRate::default();
        let cancelled = self.task.cancelled();
        let ended = loop {
            if question.is_none()
                && let Some(next) = asked.front()
            {
                question = Some(self.ask(next.question()).boxed());
            }
            let is_asking = question.is_some();
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
                message = rate.due(), if !is_asking => {
                    // A task that has ended is seen as cancelled.
                    let _ = self.task.working(message).await;
                }
                event = events.next() => self.take(event, &mut said, &mut asked, &mut rate).await?,
                answer = answered(&mut question) => {
                    question = None;
                    decide(answer, &mut asked, &mut rate);
                }
                ended = prompt.answered() => break ended,
            }
        };
        drop(question);
        while let Some(event) = events.try_next() {
            self.take(event, &mut said, &mut asked, &mut rate).await?;
        }
        // An agent that ends its turn waits for no permission.
        drop(asked);
        check_end(ended)?;
        let artifacts = said.finish().await?;
        Ok(TaskResult::Completed {
            artifacts,
            message: None,
        })
    }

    async fn take(
        &self,
        event: TurnEvent,
        said: &mut Said<'_>,
        asked: &mut VecDeque<AskedPermission>,
        rate: &mut ProgressRate,
    ) -> Result<(), RunError> {
        match event {
            TurnEvent::Update(update) => match *update {
                SessionUpdate::AgentMessageChunk(chunk) => said.chunk(chunk).await?,
                update => {
                    if matches!(update, SessionUpdate::ToolCall(_)) {
                        said.pause();
                    }
                    if let Some(text) = progress::text(&update) {
                        rate.put(text_message(text));
                    }
                }
            },
            TurnEvent::Permission(permission) => {
                let (request, responder) = *permission;
                let reply = PermissionReply(Some(responder));
                match permission::decide(self.rules.permit, &request) {
                    Decision::Choose(option) => reply.answer(Some(option)),
                    Decision::Cancel => reply.answer(None),
                    Decision::Ask => asked.push_back(AskedPermission {
                        request,
                        reply,
                        unclear: 0,
                    }),
                }
            }
            TurnEvent::TooMuch => return Err(too_large(self.max_output)),
        }
        Ok(())
    }

    /// Asks the sender.
    async fn ask(&self, question: v1::Message) -> PermissionAnswer {
        match timeout(self.rules.timeout, self.task.ask(question)).await {
            Ok(Ok(answer)) => PermissionAnswer::Said(answer),
            Ok(Err(error)) => PermissionAnswer::Nothing(error.to_string()),
            Err(_) => PermissionAnswer::Nothing(format!(
                "there was no answer within {:?}, which is taken as no",
                self.rules.timeout
            )),
        }
    }
}

/// Answers the request that was asked about, or has it asked about again.
fn decide(answer: PermissionAnswer, asked: &mut VecDeque<AskedPermission>, rate: &mut ProgressRate) {
    let Some(mut current) = asked.pop_front() else {
        return;
    };
    let options = &current.request.options;
    let reason = match answer {
        PermissionAnswer::Said(message) => {
            if let Some(option) = permission::chosen(options, &message) {
                return current.reply.answer(Some(option));
            }
            if current.unclear < ASKED_AGAIN {
                current.unclear += 1;
                return asked.push_front(current);
            }
            "the answer is none of the options, which is taken as no".to_owned()
        }
        PermissionAnswer::Nothing(reason) => reason,
    };
    rate.put(text_message(reason));
    match permission::reject(options) {
        Decision::Choose(option) => current.reply.answer(Some(option)),
        Decision::Cancel | Decision::Ask => current.reply.answer(None),
    }
}

/// The answer to the question, if there is one.
async fn answered(question: &mut Option<BoxFuture<'_, PermissionAnswer>>) -> PermissionAnswer {
    match question {
        Some(question) => question.await,
        None => std::future::pending().await,
    }
}

/// Whether the agent ended its turn well.
fn check_end(ended: Result<PromptResponse, agent_client_protocol::Error>) -> Result<(), RunError> {
    let ended = ended.map_err(|error| {
        if is_incoming_transport_closed(&error) || is_connection_terminated(&error) {
            return RunError::interrupted("the agent ended while it worked");
        }
        RunError::new(format!("the agent failed: {}", error_text(&error)))
    })?;
    match ended.stop_reason {
        StopReason::EndTurn => Ok(()),
        StopReason::MaxTokens => Err(RunError::new("the agent stopped at its limit of tokens")),
        StopReason::MaxTurnRequests => Err(RunError::new(
            "the agent stopped at its limit of requests in one turn",
        )),
        StopReason::Refusal => Err(RunError::new("the agent refused to go on")),
        StopReason::Cancelled => Err(RunError::new("the agent canceled its turn")),
        other => Err(RunError::new(format!("the agent stopped: {other:?}"))),
    }
}

/// An error of an agent for people.
pub(super) fn error_text(error: &agent_client_protocol::Error) -> String {
    match &error.data {
        Some(serde_json::Value::String(data)) => format!("{}: {data}", error.message),
        Some(data) => format!("{}: {data}", error.message),
        None => error.message.clone(),
    }
}

/// What an agent said in a turn: its text is streamed, everything else is kept for the end.
struct Said<'a> {
    task: &'a dyn AgentTask,
    text: ResultStream<'a>,
    parts: Vec<v1::Part>,
    part_bytes: usize,
    max_output: usize,
    message_id: Option<String>,
    /// The next text begins a paragraph: the agent did something else meanwhile.
    is_paused: bool,
}

impl<'a> Said<'a> {
    fn new(task: &'a dyn AgentTask, max_output: usize) -> Self {
        Self {
            task,
            text: ResultStream::new(task, ANSWER, MARKDOWN, max_output),
            parts: Vec::new(),
            part_bytes: 0,
            max_output,
            message_id: None,
            is_paused: false,
        }
    }

    fn pause(&mut self) {
        self.is_paused = true;
    }

    async fn chunk(&mut self, chunk: ContentChunk) -> Result<(), RunError> {
        let id = chunk.message_id.map(|id| id.0.to_string());
        let is_other = id.is_some() && self.message_id.is_some() && id != self.message_id;
        self.message_id = id.or(self.message_id.take());
        if let ContentBlock::Text(text) = &chunk.content {
            if text.text.is_empty() {
                return Ok(());
            }
            let is_new = std::mem::take(&mut self.is_paused) || is_other;
            if is_new && !self.text.is_empty() {
                self.text.send(b"\n\n").await?;
            }
            return self.text.send(text.text.as_bytes()).await;
        }
        if let Some(part) = content::part(&chunk.content) {
            self.part_bytes += prost::Message::encoded_len(&part);
            if self.part_bytes > self.max_output {
                return Err(too_large(self.max_output));
            }
            self.parts.push(part);
        }
        Ok(())
    }

    async fn finish(self) -> Result<Vec<v1::Artifact>, RunError> {
        let mut artifacts: Vec<v1::Artifact> = self.text.finish().await?.into_iter().collect();
        if !self.parts.is_empty() {
            artifacts.push(artifact("content", self.parts));
        }
        stream_large(self.task, artifacts, self.max_output).await
    }
}
