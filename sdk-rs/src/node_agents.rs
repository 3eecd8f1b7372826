//! The agents of the daemon's node: several programs, or one program that is several agents, each with its own name, card and
//! tasks.

use std::{future::Future, time::SystemTime};

use agentanycast_proto::v1;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    agent_access::AgentAccess,
    card::AgentCard,
    error::Error,
    message::to_system_time,
    node::{Node, missing},
    serve::{HandlerError, IncomingTask, Serve},
    session::{Backoff, CallFailure},
};

/// An agent of this node, by name; made by [`Node::agent`].
///
/// ```no_run
/// # async fn run(node: agentanycast::Node) -> Result<(), agentanycast::Error> {
/// use agentanycast::{AgentCard, Artifact, Skill};
///
/// let card = AgentCard::new("Translator", "Translates texts").with_skill(Skill::new("translate", "To French"));
/// node.agent("translator")
///     .card(card)
///     .serve(|task| async move {
///         task.complete([Artifact::text("bonjour")]).await?;
///         Ok(())
///     })
///     .await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an agent does nothing before it is registered or serves"]
pub struct AgentBuilder {
    node: Node,
    name: String,
    card: AgentCard,
    program: Option<v1::AgentProgram>,
    keep_skills: bool,
    access: AgentAccess,
}

/// What became of a registration; made by [`AgentBuilder::register`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegisteredAgent {
    /// The agent's name on its node.
    pub name: String,
    /// What of its card other nodes cannot find, a sentence each.
    pub warnings: Vec<String>,
    /// Who may use it now, which may be something else than was asked for.
    pub access: AgentAccess,
    /// The owner of the node has said so ([`Node::set_agent_access`], `anycast agents set`), and no registration changes it.
    pub access_is_set: bool,
}

/// A program that serves an agent of the daemon's node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentProgram {
    /// The name of the agent.
    pub agent: String,
    /// What it is: `program`, `jsonl`, `acp`, `http` or `mcp` of `anycast run`, or what [`AgentBuilder::program`] says; empty: it has
    /// not told.
    pub kind: String,
    /// Its command, or the URL that it calls; empty: it has not told.
    pub command: String,
    /// Its process id; `None`: it is not known here, as of a process in another container.
    pub pid: Option<u32>,
    /// The daemon itself serves the agent, as its configuration says.
    pub in_daemon: bool,
    /// When it began to listen, or when it was tried last.
    pub since: Option<SystemTime>,
    /// It does not listen yet: the daemon starts it at the moment.
    pub starting: bool,
    /// Why it does not listen; empty: it listens, or starts.
    pub error: String,
    /// When the daemon starts it again, where it does not listen.
    pub next_start: Option<SystemTime>,
    /// It takes no tasks until what [`AgentProgram::error`] says has passed.
    pub unready: bool,
}

/// The word of a program that it takes no tasks; it ends when this is dropped. Made by [`AgentBuilder::report_unready`].
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct UnreadyReport {
    _reporting: AbortOnDropHandle<()>,
}

/// An agent that is registered on the daemon's node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAgent {
    /// Its name there.
    pub name: String,
    /// Its card.
    pub card: AgentCard,
    /// Tasks that name no agent, and no skill of another one, are its.
    pub primary: bool,
    /// How many listen for it; 0: it is away, and its tasks wait.
    pub listeners: u32,
    /// Its tasks that have not ended.
    pub open_tasks: u32,
    /// When a program began or ended to listen for it last.
    pub last_attached_at: Option<SystemTime>,
    /// It came by a card that a program set, and is forgotten when no program listens for long.
    pub by_card: bool,
    /// Who may use it.
    pub access: AgentAccess,
    /// The owner of the node has said so ([`Node::set_agent_access`], `anycast agents set`), and no registration changes it.
    pub access_is_set: bool,
}

impl Node {
    /// An agent of this node by name: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, with a letter or digit first. An empty name is
    /// made of the card's.
    pub fn agent(&self, name: impl Into<String>) -> AgentBuilder {
        let name = name.into();
        AgentBuilder {
            node: self.clone(),
            card: AgentCard::new(name.clone(), ""),
            name,
            program: None,
            keep_skills: false,
            access: AgentAccess::Unspecified,
        }
    }

    /// The agents of this node, the earliest registered first.
    pub async fn node_agents(&self) -> Result<Vec<NodeAgent>, Error> {
        let answer = self.session().list_node_agents().await?;
        answer.agents.into_iter().map(NodeAgent::from_daemon).collect()
    }

    /// What serves the agents of this node, by agent.
    pub async fn agent_programs(&self) -> Result<Vec<AgentProgram>, Error> {
        let answer = self.session().list_agent_programs().await?;
        Ok(answer
            .programs
            .into_iter()
            .map(AgentProgram::from_daemon)
            .collect())
    }

    /// Removes an agent for which no program listens: its tasks that have not ended fail. How many did.
    pub async fn remove_agent(&self, name: &str) -> Result<u32, Error> {
        let answer = self.session().unregister_agent(name).await?;
        Ok(answer.failed_tasks)
    }
}

impl AgentBuilder {
    /// Its card; without, one with its name alone.
    pub fn card(mut self, card: AgentCard) -> Self {
        self.card = card;
        self
    }

    /// The skills of its last card stay beside those of this one, since not all that it has are known yet. The next card ends that.
    pub fn keep_skills(mut self) -> Self {
        self.keep_skills = true;
        self
    }

    /// Peers may use it only where a rule, an invite or trust lets them in. Registering it is an error with a daemon that is too old
    /// to keep them out.
    pub fn private(self) -> Self {
        self.access(AgentAccess::Private)
    }

    /// Every peer that the daemon's policy lets in may use it.
    pub fn open(self) -> Self {
        self.access(AgentAccess::Open)
    }

    /// Who may use it; without, as [`AgentAccess::Unspecified`] says. What the owner of the node has said stays.
    pub fn access(mut self, access: AgentAccess) -> Self {
        self.access = access;
        self
    }

    /// What serves it, for people (`anycast ps`): a word for its kind, and a command or a URL.
    pub fn program(mut self, kind: impl Into<String>, command: impl Into<String>) -> Self {
        self.program = Some(v1::AgentProgram {
            kind: kind.into(),
            command: command.into(),
            pid: std::process::id(),
        });
        self
    }

    /// Registers it: its name, and what of its card other nodes cannot find. It stays registered, and its tasks wait, until it is
    /// removed. [`AgentBuilder::serve`] does the same.
    pub async fn register(&self) -> Result<RegisteredAgent, Error> {
        let answer = self.node.session().register_agent(self.request()).await?;
        Ok(RegisteredAgent {
            name: answer.name,
            warnings: answer.warnings,
            access: AgentAccess::from_daemon(answer.access),
            access_is_set: answer.access_is_set,
        })
    }

    /// Registers it and serves its tasks, see [`Serve`].
    pub fn serve<H, F>(self, handler: H) -> Serve
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let (request, program) = (self.request(), self.program);
        Serve::new(self.node, handler).for_agent(request, program)
    }

    /// Tells the daemon that this program, which serves the agent, takes no tasks for a while, and why: `anycast ps`, `anycast status` and
    /// `anycast doctor` show it until the report is dropped, also after a restart of the daemon. An older daemon shows nothing.
    pub fn report_unready(&self, reason: impl Into<String>) -> UnreadyReport {
        let request = v1::ReportUnreadyRequest {
            agent: self.name.clone(),
            program: self.program.clone(),
            reason: reason.into(),
        };
        let node = self.node.clone();
        let reporting = async move {
            let mut backoff = Backoff::new(None);
            loop {
                match node.session().report_unready_once(request.clone()).await {
                    Ok(mut open) => {
                        backoff.reset();
                        while let Ok(Some(_)) = open.message().await {}
                    }
                    Err(CallFailure::Lost(_)) => {}
                    Err(CallFailure::Answered(error)) => {
                        tracing::debug!(%error, "the daemon does not show that an agent takes no tasks");
                        return;
                    }
                }
                if !backoff.pause().await {
                    return;
                }
            }
        };
        UnreadyReport {
            _reporting: AbortOnDropHandle::new(tokio::spawn(reporting)),
        }
    }

    fn request(&self) -> v1::RegisterAgentRequest {
        v1::RegisterAgentRequest {
            name: self.name.clone(),
            card: Some(self.card.clone().into()),
            keep_skills: self.keep_skills,
            access: self.access.to_daemon().into(),
        }
    }
}

impl AgentProgram {
    fn from_daemon(serving: v1::ServingProgram) -> Self {
        let program = serving.program.unwrap_or_default();
        Self {
            agent: serving.agent,
            kind: program.kind,
            command: program.command,
            pid: (program.pid > 0).then_some(program.pid),
            in_daemon: serving.in_daemon,
            since: to_system_time(serving.since),
            starting: serving.starting,
            error: serving.error,
            next_start: to_system_time(serving.next_start),
            unready: serving.unready,
        }
    }
}

impl NodeAgent {
    fn from_daemon(agent: v1::NodeAgent) -> Result<Self, Error> {
        Ok(Self {
            card: agent.card.ok_or_else(|| missing("card"))?.into(),
            name: agent.name,
            primary: agent.primary,
            listeners: agent.listeners,
            open_tasks: agent.open_tasks,
            last_attached_at: to_system_time(agent.last_attached_at),
            by_card: agent.by_card,
            access: AgentAccess::from_daemon(agent.access),
            access_is_set: agent.access_is_set,
        })
    }
}
