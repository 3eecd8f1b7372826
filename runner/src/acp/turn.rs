//! One task as one turn of an agent: its prompt, what the agent says and does meanwhile, what it wants to be
//! permitted, and its end.
//!
//! Invariant: however the task ends, the agent is told (`session/cancel`) unless it has ended the turn itself, and
//! every request for permission is answered. A session takes no prompt while the agent may still speak of the last one.

use std::{collections::VecDeque, time::Duration};

use agent_client_protocol::{
    Agent, is_connection_terminated, is_incoming_transport_closed,
    v1::{
        ConnectionTo, Responder,
        schema::{
            CancelNotification, ContentBlock, ErrorCode, PermissionOptionId, PromptRequest, PromptResponse,
            RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome, SessionId,
            SessionUpdate, StopReason,
        },
    },
};
use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{runtime::Handle, time::timeout};

use super::{
    connection::UpAgent,
    lines::UNREADABLE,
    permission::{self, Decision, PermissionRequest, Permit},
    progress,
    said::Said,
    sessions::HeldSession,
    turns::{TurnEvent, TurnEvents},
};
use crate::{
    RunError, TaskResult,
    parts::{text_message, text_part},
    progress_rate::ProgressRate,
    result_stream::too_large,
};

/// How long an agent may take to end a turn that is canceled. Its session takes no prompt meanwhile, and none after:
/// what the agent still says of the turn would be in the next answer.
const CANCEL_WITHIN: Duration = Duration::from_secs(10);

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
    request: PermissionRequest,
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

/// How a turn ended.
pub(super) enum TurnEnd {
    Ended(Result<TaskResult, RunError>),
    /// The agent does not know the session, and did nothing; why.
    NoSession(HeldSession, RunError),
}

/// The prompt of a turn, until the agent has answered it. When it is dropped before, the agent is told that the turn is
/// canceled, and the session stays taken until the agent has ended the turn and is silent; after [`CANCEL_WITHIN`] it is
/// given up.
struct OpenPrompt {
    connection: ConnectionTo<Agent>,
    session: SessionId,
    /// `None`: the agent has answered.
    response: Option<BoxFuture<'static, Result<PromptResponse, agent_client_protocol::Error>>>,
    held: Option<HeldSession>,
    quiet: Option<BoxFuture<'static, ()>>,
}

impl OpenPrompt {
    fn new(
        agent: &UpAgent,
        session: &SessionId,
        blocks: Vec<ContentBlock>,
        held: HeldSession,
        quiet: BoxFuture<'static, ()>,
    ) -> Self {
        let request = PromptRequest::new(session.clone(), blocks);
        Self {
            connection: agent.connection.clone(),
            session: session.clone(),
            response: Some(agent.connection.send_request(request).block_task().boxed()),
            held: Some(held),
            quiet: Some(quiet),
        }
    }

    /// Has the agent stop what it still does of the turn; false, where the agent is gone.
    fn cancel(&self) -> bool {
        let cancel = CancelNotification::new(self.session.clone());
        self.connection.send_notification(cancel).is_ok()
    }

    /// Leaves a turn that is over for the runner, and perhaps not for the agent.
    fn leave(mut self) {
        if self.cancel()
            && let (Some(quiet), Ok(runtime)) = (self.quiet.take(), Handle::try_current())
        {
            let held = self.held.take();
            runtime.spawn(async move {
                quiet.await;
                drop(held);
            });
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

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        let (Some(response), Ok(runtime)) = (self.response.take(), Handle::try_current()) else {
            return;
        };
        if !self.cancel() {
            // The agent is gone, and its turn with it.
            return;
        }
        let (held, quiet) = (self.held.take(), self.quiet.take());
        runtime.spawn(async move {
            if timeout(CANCEL_WITHIN, response).await.is_ok() {
                if let Some(quiet) = quiet {
                    quiet.await;
                }
            } else if let Some(mut held) = held
                && let Some(session) = held.as_mut()
            {
                session.is_lost = true;
                tracing::warn!(
                    session = %session.id.0,
                    "an ACP agent does not end a turn that is canceled; its session is given up"
                );
            }
        });
    }
}

impl Turn<'_> {
    /// Gives the agent this prompt, and waits for the end of its turn. The session is held until it is free again.
    pub(super) async fn run(
        &self,
        blocks: Vec<ContentBlock>,
        mut events: TurnEvents,
        held: HeldSession,
    ) -> TurnEnd {
        let quiet = events.quiet().boxed();
        let mut prompt = OpenPrompt::new(self.agent, &self.session, blocks, held, quiet);
        let mut said = Said::new(self.task, self.max_output);
        let mut asked: VecDeque<AskedPermission> = VecDeque::new();
        let mut rate = ProgressRate::default();
        let ended = match self
            .until_answered(&mut prompt, &mut events, &mut said, &mut asked, &mut rate)
            .await
        {
            Ok(ended) => ended,
            Err(error) => return TurnEnd::Ended(Err(error)),
        };
        if let Err(error) = &ended {
            if said.is_untouched
                && is_of_no_session(error, &self.session)
                && let Some(held) = prompt.held.take()
            {
                return TurnEnd::NoSession(held, failed(error));
            }
            if error.code == ErrorCode::from(UNREADABLE) {
                // The line was perhaps not the end of its turn.
                prompt.leave();
                return TurnEnd::Ended(Err(failed(error)));
            }
        }
        let result = self.finish(ended, events, said, asked, rate).await;
        drop(prompt);
        TurnEnd::Ended(result)
    }

    /// The agent's answer to the prompt. What it says and asks meanwhile is dealt with.
    async fn until_answered(
        &self,
        prompt: &mut OpenPrompt,
        events: &mut TurnEvents,
        said: &mut Said<'_>,
        asked: &mut VecDeque<AskedPermission>,
        rate: &mut ProgressRate,
    ) -> Result<Result<PromptResponse, agent_client_protocol::Error>, RunError> {
        let mut question: Option<BoxFuture<'_, PermissionAnswer>> = None;
        let cancelled = self.task.cancelled();
        loop {
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
                event = events.next() => match event {
                    // A result would end the wait for the answer.
                    TurnEvent::Update(update) if is_asking => said.hold(*update)?,
                    event => self.take(event, said, asked, rate).await?,
                },
                answer = answered(&mut question) => {
                    question = None;
                    decide(answer, asked, rate);
                }
                ended = prompt.answered() => {
                    drop(question);
                    self.take_held(said, asked, rate).await?;
                    return Ok(ended);
                }
            }
            if question.is_none() && asked.is_empty() {
                self.take_held(said, asked, rate).await?;
            }
        }
    }

    /// Takes what the agent says behind its answer, until it is silent, and ends the turn.
    async fn finish(
        &self,
        ended: Result<PromptResponse, agent_client_protocol::Error>,
        mut events: TurnEvents,
        mut said: Said<'_>,
        mut asked: VecDeque<AskedPermission>,
        mut rate: ProgressRate,
    ) -> Result<TaskResult, RunError> {
        // An agent that ends its turn waits for no permission.
        asked.clear();
        let cancelled = self.task.cancelled();
        let mut quiet = events.quiet().boxed();
        loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
                event = events.next() => self.take(event, &mut said, &mut asked, &mut rate).await?,
                () = &mut quiet => break,
            }
        }
        events.close(ended.is_ok());
        while let Some(event) = events.try_next() {
            self.take(event, &mut said, &mut asked, &mut rate).await?;
        }
        // An agent that said nothing else gives the ids of its messages again: the turn is theirs.
        let late = std::mem::take(&mut said.late);
        if said.is_empty() && !late.is_empty() {
            events.reuse_ids();
            for chunk in late {
                said.chunk(chunk).await?;
            }
        } else {
            for chunk in &late {
                events.keep(chunk);
            }
        }
        check_end(ended)?;
        let message = said.without_answer()?;
        let artifacts = said.finish().await?;
        Ok(TaskResult::Completed { artifacts, message })
    }

    /// Takes what was held while the sender was asked.
    async fn take_held(
        &self,
        said: &mut Said<'_>,
        asked: &mut VecDeque<AskedPermission>,
        rate: &mut ProgressRate,
    ) -> Result<(), RunError> {
        said.held_bytes = 0;
        for update in std::mem::take(&mut said.held) {
            let event = TurnEvent::Update(Box::new(update));
            self.take(event, said, asked, rate).await?;
        }
        Ok(())
    }

    async fn take(
        &self,
        event: TurnEvent,
        said: &mut Said<'_>,
        asked: &mut VecDeque<AskedPermission>,
        rate: &mut ProgressRate,
    ) -> Result<(), RunError> {
        match event {
            TurnEvent::Late(chunk) => said.late(*chunk)?,
            TurnEvent::Update(update) => match *update {
                SessionUpdate::AgentMessageChunk(chunk) => said.chunk(chunk).await?,
                SessionUpdate::AgentThoughtChunk(chunk) => said.thought(&chunk),
                update => {
                    if matches!(update, SessionUpdate::ToolCall(_)) {
                        said.pause();
                    }
                    if matches!(
                        update,
                        SessionUpdate::ToolCall(_) | SessionUpdate::ToolCallUpdate(_)
                    ) {
                        (said.is_untouched, said.has_worked) = (false, true);
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
            TurnEvent::Unread(reason) => return Err(RunError::new(format!("the agent failed: {reason}"))),
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

/// Why a task fails whose prompt the agent refused.
fn failed(error: &agent_client_protocol::Error) -> RunError {
    if is_incoming_transport_closed(error) || is_connection_terminated(error) {
        return RunError::interrupted("the agent ended while it worked");
    }
    RunError::new(format!("the agent failed: {}", error_text(error)))
}

/// Whether the agent ended its turn well.
fn check_end(ended: Result<PromptResponse, agent_client_protocol::Error>) -> Result<(), RunError> {
    let ended = ended.map_err(|error| failed(&error))?;
    match ended.stop_reason {
        StopReason::EndTurn => Ok(()),
        StopReason::MaxTokens => Err(RunError::new("the agent stopped at its limit of tokens")),
        StopReason::MaxTurnRequests => Err(RunError::new(
            "the agent stopped at its limit of requests in one turn",
        )),
        StopReason::Refusal => Err(RunError::new("the agent refused to go on")),
        StopReason::Cancelled => Err(RunError::new("the agent canceled its turn")),
        // Others are refused where the lines are read.
        _ => Err(RunError::new("the agent stopped for a reason that is not known")),
    }
}

/// Whether an agent says that it does not know this session: by the code of ACP, unless that is about something else, or
/// by its words.
fn is_of_no_session(error: &agent_client_protocol::Error, session: &SessionId) -> bool {
    let text = error_text(error).to_lowercase();
    let uri = error.data.as_ref().and_then(|data| data.get("uri"));
    let is_other = uri.is_some_and(|uri| uri.as_str().is_none_or(|uri| !uri.contains(&*session.0)));
    error.code == ErrorCode::ResourceNotFound && !is_other || text.contains("session not found")
}

/// An error of an agent for people.
pub(super) fn error_text(error: &agent_client_protocol::Error) -> String {
    match &error.data {
        Some(serde_json::Value::String(data)) => format!("{}: {data}", error.message),
        Some(data) => format!("{}: {data}", error.message),
        None => error.message.clone(),
    }
}
