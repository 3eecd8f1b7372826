//! An MCP server as an agent: its tools are the agent's skills, and a task calls one of them.
//!
//! `server` keeps the server running and its tools up to date. PURE: `tools`, `arguments` (a message as
//! arguments), `questions` (questions of a tool to the sender), `results` (a tool's result as results of a
//! task).

mod arguments;
mod questions;
mod results;
mod server;
mod tools;

use std::{
    collections::VecDeque,
    future::ready,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use agentanycast_gateway::agents::AgentTask;
use agentanycast_mcp_client::{
    CallEvent, ElicitationAnswer, FailureKind, McpFailure, Question, ToolCall, ToolResult,
};
use agentanycast_proto::v1;
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use self::server::{KeptServer, ServerState, UpServer};
use crate::{
    Attempt, Backend, RunError, TaskResult, parts::text_message, process::Supervisor,
    progress_rate::ProgressRate, result_stream::stream_large, task_content::newest_request,
};

pub use server::McpEndpoint;

/// How long a task waits for a server that is being started again.
const WAIT_FOR_SERVER: Duration = Duration::from_mins(1);

/// The pause before a call is made once more that the server did not take.
const CALL_AGAIN: Duration = Duration::from_millis(500);

/// How often a question is asked whose answers are none by its schema.
const MOST_ASKED: usize = 3;

/// Tools of an MCP server.
pub struct McpBackend {
    endpoint: McpEndpoint,
    supervisor: Arc<Supervisor>,
    max_output: usize,
    server: OnceLock<KeptServer>,
    /// The skills that the runner was told last.
    told: Mutex<Option<ToldSkills>>,
}

/// Skills that the runner was told.
#[derive(Clone, Debug, PartialEq)]
struct ToldSkills {
    skills: Vec<v1::Skill>,
    /// See [`UpServer::is_known`].
    are_known: bool,
}

impl McpBackend {
    /// The tools of this server, whose results have at most `max_output` bytes. It is started when it is
    /// needed; `helper` as for [`Supervisor::new`].
    ///
    /// # Errors
    /// As for [`Supervisor::new`].
    pub fn new(endpoint: McpEndpoint, helper: Option<PathBuf>, max_output: usize) -> io::Result<Self> {
        Ok(Self {
            endpoint,
            supervisor: Arc::new(Supervisor::new(helper)?),
            max_output,
            server: OnceLock::new(),
            told: Mutex::new(None),
        })
    }

    fn server(&self) -> &KeptServer {
        self.server.get_or_init(|| {
            KeptServer::start(
                self.endpoint.clone(),
                Arc::clone(&self.supervisor),
                self.max_output,
            )
        })
    }

    fn told(&self) -> MutexGuard<'_, Option<ToldSkills>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, once it answers and its tools are known. `at_once`: the reason why it does not answer is an error and not waited
    /// for, as a want of the host is in any case; nor are its tools.
    async fn up(&self, at_once: bool) -> Result<UpServer, RunError> {
        let mut state = self.server().state.clone();
        let is_known = |state: &ServerState| match state {
            ServerState::Starting => false,
            ServerState::Down(reason) => at_once || reason.is_unstarted(),
            ServerState::Up(server) => server.is_up() && (at_once || server.is_known),
        };
        let known = state.wait_for(is_known).await;
        match known.as_deref() {
            Ok(ServerState::Up(server)) => Ok(server.clone()),
            Ok(ServerState::Down(reason)) => Err(reason.clone()),
            Ok(ServerState::Starting) | Err(_) => Err(RunError::new("the MCP server was stopped")),
        }
    }

    fn down_reason(&self) -> String {
        match &*self.server().state.borrow() {
            ServerState::Down(reason) => format!("the MCP server is not running: {reason}"),
            ServerState::Up(_) => "the MCP server has not listed its tools".to_owned(),
            ServerState::Starting => "the MCP server is not running".to_owned(),
        }
    }

    /// Calls the tool that the task is for; `Err` in the result: the server did not take the call.
    async fn call(
        &self,
        task: &dyn AgentTask,
        server: &UpServer,
    ) -> Result<Result<TaskResult, McpFailure>, RunError> {
        let shown = task.task();
        let (message, skill) = (newest_request(shown), shown.target_skill_id.as_str());
        let by_name = || arguments::call_by_name(&message);
        let is_unnamed = skill.is_empty() && server.tools.len() > 1;
        let (tool, arguments) = if let Some((name, arguments)) = is_unnamed.then(by_name).flatten() {
            (tools::choose(&server.tools, &name)?, arguments)
        } else {
            let tool = tools::choose(&server.tools, skill)?;
            let arguments = arguments::arguments(&tool.name, &tool.input_schema, &message)?;
            (tool, arguments)
        };
        let mut call = server.client.call(tool, arguments);
        let result = match follow(task, &mut call).await? {
            Ok(result) => result,
            Err(failure) if failure.kind() == FailureKind::NotDone => return Ok(Err(failure)),
            Err(failure) => return Err(call_error(&failure)),
        };
        let artifacts = results::artifacts(&tool.name, ToolResult::of(&tool.name, result)?);
        let artifacts = stream_large(task, artifacts, self.max_output).await?;
        Ok(Ok(TaskResult::Completed {
            artifacts,
            message: None,
        }))
    }
}

#[async_trait]
impl Backend for McpBackend {
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        let up = self.up(true).await;
        let mut told = self.told();
        let last = told.as_ref().map(|told| told.skills.clone());
        let server = match up {
            Ok(server) => server,
            // It is being started again: its tools are what they were until it says otherwise.
            Err(error) => return last.map(Some).ok_or(error),
        };
        if !server.is_known && last.is_some() {
            return Ok(last);
        }
        let skills = tools::skills(&server.tools);
        *told = Some(ToldSkills {
            skills: skills.clone(),
            are_known: server.is_known,
        });
        Ok(Some(skills))
    }

    fn skills_are_known(&self) -> bool {
        self.told().as_ref().is_some_and(|told| told.are_known)
    }

    async fn skills_changed(&self) {
        let mut state = self.server().state.clone();
        let has_changed = |state: &ServerState| {
            let ServerState::Up(server) = state else {
                return false;
            };
            let told = self.told();
            let is_same = |told: &ToldSkills| {
                !server.is_known || told.are_known && told.skills == tools::skills(&server.tools)
            };
            !told.as_ref().is_some_and(is_same)
        };
        if state.wait_for(has_changed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let (cancelled, began) = (task.cancelled(), Instant::now());
        let working = async {
            loop {
                let up = timeout(WAIT_FOR_SERVER, self.up(false)).await;
                let server = up.map_err(|_| RunError::new(self.down_reason()))??;
                match self.call(task, &server).await? {
                    Ok(done) => return Ok(done),
                    Err(failure) if began.elapsed() > WAIT_FOR_SERVER => {
                        return Err(RunError::interrupted(failure.to_string()));
                    }
                    // The server did not take the call, so that it is made once more.
                    Err(_) => self.server().look_again(),
                }
                sleep(CALL_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(RunError::new("the task was canceled")),
            done = working => done,
        }
    }

    async fn stop(&self) {
        if let Some(server) = self.server.get() {
            server.stop().await;
        }
    }
}

/// Follows a call to its result: progress is told, and questions are asked.
async fn follow(
    task: &dyn AgentTask,
    call: &mut ToolCall,
) -> Result<Result<Map<String, Value>, McpFailure>, RunError> {
    let (mut rate, mut waiting) = (ProgressRate::default(), VecDeque::new());
    loop {
        let event = tokio::select! {
            biased;
            // One question at a time.
            Some(question) = ready(waiting.pop_front()) => Ok(CallEvent::Question(question)),
            // Before newer progress takes its place.
            message = rate.due() => {
                // A task that has ended is seen as cancelled.
                let _ = task.working(message).await;
                continue;
            }
            event = call.next() => event,
        };
        match event {
            Ok(CallEvent::Progress(said)) => rate.put(text_message(said)),
            Ok(CallEvent::Done(result)) => return Ok(Ok(result)),
            Ok(CallEvent::Question(question)) => {
                let answer = {
                    let mut asking = std::pin::pin!(ask(task, &question));
                    loop {
                        tokio::select! {
                            biased;
                            answer = &mut asking => break answer?,
                            event = call.next() => match event {
                                // It did not wait for the answer.
                                Ok(CallEvent::Done(result)) => return Ok(Ok(result)),
                                Err(failure) => return Ok(Err(failure)),
                                Ok(CallEvent::Question(other)) => waiting.push_back(other),
                                Ok(_) => {}
                            },
                        }
                    }
                };
                call.answer(question, &answer).await;
            }
            Ok(_) => {}
            Err(failure) => return Ok(Err(failure)),
        }
    }
}

/// Asks the sender, again when the answer is none.
async fn ask(task: &dyn AgentTask, question: &Question) -> Result<ElicitationAnswer, RunError> {
    let mut again = None;
    for _ in 0..MOST_ASKED {
        let said = task.ask(questions::to_sender(question, again.as_deref())).await;
        let said = said.map_err(|error| RunError::new(error.to_string()))?;
        match questions::answer(question, &said) {
            Ok(answer) => return Ok(answer),
            Err(why) => again = Some(why),
        }
    }
    Ok(ElicitationAnswer::Cancel)
}

fn call_error(failure: &McpFailure) -> RunError {
    match failure.kind() {
        FailureKind::Ended => RunError::interrupted(format!("{failure} while the tool ran")),
        _ => RunError::new(failure.to_string()),
    }
}
