//! An agent of the Agent Client Protocol (version 1) as an agent of the mesh: a task is a prompt, a conversation is a
//! session, and what the agent wants to be permitted is a question to the sender.
//!
//! `connection` keeps the agent running and answers its requests, `turn` runs one task with what `turns` hands it,
//! `sessions` knows the session of each conversation, `files` and `terminals` are what the agent does through the
//! runner. PURE: `content`, `half_parts`, `lines`, `progress`, `permission`, `voice`.
//!
//! What the agent does by itself is not confined: it has the rights of its process.

mod connection;
mod content;
mod files;
mod half_parts;
mod lines;
mod permission;
mod progress;
mod said;
mod sessions;
mod terminals;
mod turn;
mod turns;
mod voice;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agent_client_protocol::v1::schema::{ErrorCode, LoadSessionRequest, NewSessionRequest, SessionId};
use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::time::timeout;

use self::{
    connection::{AgentOffer, AgentState, KeptAgent, UpAgent},
    files::ConfinedFiles,
    sessions::{KnownSession, Sessions},
    turn::{PermitRules, Turn, TurnEnd, error_text},
    turns::Turns,
};
use crate::{
    Attempt, Backend, RunError, TaskResult,
    log_words::said,
    parts::notice_message,
    process::{ProgramCommand, Supervisor},
    task_content::newest_request,
};

pub use permission::Permit;

/// How long a task waits for an agent that is being started again.
const WAIT_FOR_AGENT: Duration = Duration::from_mins(1);

/// How long an agent may take to make or load a session.
const SESSION_WITHIN: Duration = Duration::from_mins(2);

/// How an agent is run.
#[derive(Debug, Clone)]
pub struct AcpConfig {
    /// How it is started.
    pub command: ProgramCommand,
    /// The directory of its sessions, outside of which no file is read or written for it.
    pub cwd: PathBuf,
    /// Who decides what it may do.
    pub permit: Permit,
    /// How long the answer to a question may take; then it is no.
    pub permit_timeout: Duration,
    /// Whether commands are run for it.
    pub terminal: bool,
    /// Where the sessions of conversations are kept.
    pub session_file: PathBuf,
    /// Longest result, in bytes.
    pub max_output: usize,
}

/// An ACP agent.
pub struct AcpBackend {
    config: AcpConfig,
    supervisor: Arc<Supervisor>,
    files: ConfinedFiles,
    turns: Arc<Turns>,
    sessions: Sessions,
    agent: OnceLock<KeptAgent>,
}

impl AcpBackend {
    /// The agent of this command. It is started when it is needed; `helper` as for [`Supervisor::new`].
    ///
    /// # Errors
    /// When the working directory is not there, or as for [`Supervisor::new`].
    pub fn new(mut config: AcpConfig, helper: Option<PathBuf>) -> Result<Self, RunError> {
        let files = ConfinedFiles::new(&config.cwd)
            .map_err(|error| RunError::new(format!("{}: {error}", config.cwd.display())))?;
        let supervisor = Supervisor::new(helper).map_err(|error| RunError::new(error.to_string()))?;
        config.command.cwd = Some(files.root().to_owned());
        Ok(Self {
            sessions: Sessions::open(config.session_file.clone()),
            supervisor: Arc::new(supervisor),
            config,
            files,
            turns: Arc::default(),
            agent: OnceLock::new(),
        })
    }

    fn agent(&self) -> &KeptAgent {
        self.agent.get_or_init(|| {
            let offer = AgentOffer {
                files: self.files.clone(),
                terminal: self.config.terminal,
                turns: Arc::clone(&self.turns),
                supervisor: Arc::clone(&self.supervisor),
                max_output: self.config.max_output,
            };
            KeptAgent::start(self.config.command.clone(), offer)
        })
    }

    /// The agent, once it answers. `at_once`: the reason why it does not is an error and not waited for, as a want of the host is
    /// in any case.
    async fn up(&self, at_once: bool) -> Result<Arc<UpAgent>, RunError> {
        let mut state = self.agent().state.clone();
        let is_known = |state: &AgentState| match state {
            AgentState::Starting => false,
            AgentState::Down(reason) => at_once || reason.is_unstarted(),
            AgentState::Up(agent) => !agent.connection.is_incoming_closed(),
        };
        let known = state.wait_for(is_known).await;
        match known.as_deref() {
            Ok(AgentState::Up(agent)) => Ok(Arc::clone(agent)),
            Ok(AgentState::Down(reason)) => Err(reason.clone()),
            Ok(AgentState::Starting) | Err(_) => Err(RunError::new("the agent was stopped")),
        }
    }

    fn down_reason(&self) -> String {
        match &*self.agent().state.borrow() {
            AgentState::Down(reason) => format!("the agent is not running: {reason}"),
            _ => "the agent is not running".to_owned(),
        }
    }

    /// The session of the task's conversation, made or loaded if the agent does not have it.
    async fn session(
        &self,
        agent: &UpAgent,
        known: &mut Option<KnownSession>,
        task: &dyn AgentTask,
    ) -> Result<SessionId, RunError> {
        if let Some(session) = known.as_mut() {
            if session.start == Some(agent.start) && !session.is_lost {
                return Ok(session.id.clone());
            }
            if agent.capabilities.load_session && !session.is_lost {
                match self.load(agent, &session.id).await {
                    Ok(()) => {
                        session.start = Some(agent.start);
                        return Ok(session.id.clone());
                    }
                    Err(reason) => {
                        tracing::warn!(session = %session.id.0, reason = said(&reason), "a session cannot be loaded");
                    }
                }
            }
            let lost = if session.is_lost {
                "The agent has lost the session of this conversation and does not know what was said before."
            } else {
                "The agent was started again and does not know what was said before in this conversation."
            };
            // A task that has ended is seen as cancelled.
            let _ = task.working(notice_message(lost)).await;
            self.tell_kept(&session.id.clone(), task).await;
        }
        let id = self.new_session(agent).await?;
        *known = Some(KnownSession {
            id: id.clone(),
            start: Some(agent.start),
            is_lost: false,
        });
        self.sessions.keep(&task.task().context_id, &id);
        Ok(id)
    }

    async fn load(&self, agent: &UpAgent, session: &SessionId) -> Result<(), String> {
        let request = LoadSessionRequest::new(session.clone(), self.files.root());
        self.turns.set_loading(session, true);
        let loaded = agent.connection.send_request(request).block_task();
        let loaded = match timeout(SESSION_WITHIN, loaded).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error_text(&error)),
            Err(_) => Err(format!("it took more than {SESSION_WITHIN:?}")),
        };
        // The last of what it repeats may come behind its answer.
        self.turns.quiet(session).await;
        self.turns.set_loading(session, false);
        loaded
    }

    /// Tells the sender what the agent said in a session outside of its turns.
    async fn tell_kept(&self, session: &SessionId, task: &dyn AgentTask) {
        if let Some(text) = self.turns.take_kept(session) {
            // A task that has ended is seen as cancelled.
            let _ = task.working(notice_message(text)).await;
        }
    }

    async fn new_session(&self, agent: &UpAgent) -> Result<SessionId, RunError> {
        let request = NewSessionRequest::new(self.files.root());
        let made = agent.connection.send_request(request).block_task();
        match timeout(SESSION_WITHIN, made).await {
            Ok(Ok(made)) => Ok(made.session_id),
            Ok(Err(error)) if error.code == ErrorCode::AuthRequired => Err(RunError::new(
                "the agent is not logged in; start its command by hand on its host and log in there",
            )),
            Ok(Err(error)) => Err(RunError::new(format!(
                "the agent makes no session: {}",
                error_text(&error)
            ))),
            Err(_) => Err(RunError::new(format!(
                "the agent made no session within {SESSION_WITHIN:?}"
            ))),
        }
    }
}

#[async_trait]
impl Backend for AcpBackend {
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        self.up(true).await?;
        Ok(None)
    }

    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        let slot = self.sessions.slot(&task.task().context_id);
        let prepared = async {
            let held = slot.lock_owned().await;
            let agent = timeout(WAIT_FOR_AGENT, self.up(false)).await;
            let agent = agent.map_err(|_| RunError::new(self.down_reason()))??;
            let takes = &agent.capabilities.prompt_capabilities;
            let blocks = content::prompt(&newest_request(task.task()), takes)?;
            Ok::<_, RunError>((held, agent, blocks))
        };
        let (mut held, agent, blocks) = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
            prepared = prepared => prepared?,
        };
        let mut is_again = false;
        loop {
            let session = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
                session = self.session(&agent, &mut held, task) => session?,
            };
            self.tell_kept(&session, task).await;
            let events = self.turns.open(&session, self.config.max_output);
            let turn = Turn {
                agent: &agent,
                session: session.clone(),
                task,
                rules: PermitRules {
                    permit: self.config.permit,
                    timeout: self.config.permit_timeout,
                },
                max_output: self.config.max_output,
            };
            match turn.run(blocks.clone(), events, held).await {
                TurnEnd::NoSession(again, _) if !is_again => {
                    held = again;
                    if let Some(session) = held.as_mut() {
                        session.is_lost = true;
                    }
                    is_again = true;
                }
                TurnEnd::NoSession(_, reason) => return Err(reason),
                TurnEnd::Ended(result) => {
                    self.tell_kept(&session, task).await;
                    return result;
                }
            }
        }
    }

    async fn stop(&self) {
        if let Some(agent) = self.agent.get() {
            agent.stop().await;
        }
    }
}
