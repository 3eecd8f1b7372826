//! The agent side carried out by the Rust SDK: over gRPC to a daemon.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast::{
    AgentAccess, AgentBuilder, ArtifactWriter, HandlerError, IncomingTask, Node, TaskFilter, TaskStatus,
};
use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    ErrorKind, GatewayError, SdkGateway,
    agents::{AgentPort, AgentTask, Agents, ArtifactSink, DROPPED, own_message},
};

/// Most tasks that an agent has at once; further ones wait unclaimed.
const MOST_OPEN: usize = 10_000;

/// How long the tasks of an agent that was detached may go on: until the agent ends them.
const GO_ON: Duration = Duration::from_hours(365 * 24);

#[async_trait]
impl Agents for SdkGateway {
    fn with_access(&self, access: v1::AgentAccess) -> Arc<dyn Agents> {
        Arc::new(self.for_access(access.into()))
    }

    async fn attach(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        self.attach_agent(self.node().agent(name).card(card.into()), program)
            .await
    }

    async fn attach_again(
        &self,
        name: &str,
        card: v1::AgentCard,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let agent = self.node().agent(name).card(card.into()).keep_skills();
        self.attach_agent(agent, program).await
    }

    async fn forget(&self, name: &str) -> Result<(), GatewayError> {
        self.node().remove_agent(name).await?;
        Ok(())
    }
}

impl SdkGateway {
    async fn attach_agent(
        &self,
        mut agent: AgentBuilder,
        program: Option<v1::AgentProgram>,
    ) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let (node, access) = (self.node().clone(), self.access());
        agent = agent.access(access);
        if let Some(program) = program {
            agent = agent.program(program.kind, program.command);
        }
        let name = agent.register().await?.name;
        // A task is claimed when one is asked for, so at most one is under way.
        let (given, tasks) = mpsc::channel(1);
        let asked = Arc::new(Semaphore::new(0));
        let stop = CancellationToken::new();
        let serve = agent.serve(move |task| {
            let given = given.clone();
            async move {
                // The task is the agent's until this ends.
                let ended = CancellationToken::new();
                let task = SdkAgentTask {
                    shown: task.task().clone().into(),
                    task: Arc::new(task),
                    ended: Some(ended.clone().drop_guard()),
                };
                match given.send(task).await {
                    Ok(()) => ended.cancelled().await,
                    Err(mpsc::error::SendError(task)) => task.leave(),
                }
                // A task that has ended is left as it is.
                Err(HandlerError::new(DROPPED))
            }
        });
        let serving = serve
            .permits(Arc::clone(&asked))
            .concurrency(MOST_OPEN)
            .drain(GO_ON)
            .until(stop.clone());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "an agent of a gateway takes no more tasks");
            }
        });
        Ok(Arc::new(SdkAgent {
            name,
            access,
            node,
            tasks: Mutex::new(tasks),
            asked,
            is_asked: AtomicBool::new(false),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        }))
    }
}

struct SdkAgent {
    name: String,
    /// With which it is registered.
    access: AgentAccess,
    node: Node,
    tasks: Mutex<mpsc::Receiver<SdkAgentTask>>,
    /// A permit for each task that was asked for and has not come yet.
    asked: Arc<Semaphore>,
    /// Whether one was asked for, by a call that may have been dropped.
    is_asked: AtomicBool,
    stop: CancellationToken,
    _stop: DropGuard,
}

#[async_trait]
impl AgentPort for SdkAgent {
    fn name(&self) -> &str {
        &self.name
    }

    async fn next(&self) -> Option<Box<dyn AgentTask>> {
        let mut tasks = self.tasks.lock().await;
        if !self.is_asked.swap(true, Relaxed) {
            self.asked.add_permits(1);
        }
        let _asked = AskedTask(self);
        let task = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            task = tasks.recv() => task?,
        };
        self.is_asked.store(false, Relaxed);
        Some(Box::new(task))
    }

    async fn resume(&self, id: &str) -> Result<Option<Box<dyn AgentTask>>, GatewayError> {
        let task = match self.node.resume_task(id).await.map_err(GatewayError::from) {
            Ok(task) => task,
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::TaskNotFound) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let task: Box<dyn AgentTask> = Box::new(SdkAgentTask {
            shown: task.task().clone().into(),
            task: Arc::new(task),
            ended: None,
        });
        Ok(Some(task))
    }

    async fn unfinished(&self) -> Result<Vec<String>, GatewayError> {
        let filter = TaskFilter {
            statuses: vec![TaskStatus::Working],
            ..TaskFilter::default()
        };
        let working = self.node.tasks(&filter).await?.into_iter();
        let agents = self.node.node_agents().await?;
        // Tasks of the primary agent name none.
        let is_primary = agents
            .iter()
            .any(|agent| agent.primary && agent.name == self.name);
        let me = self.node.info().await?.peer_id;
        let own = working.filter(|task| {
            task.assignee == me && (task.agent == self.name || is_primary && task.agent.is_empty())
        });
        Ok(own.map(|task| task.id).collect())
    }

    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError> {
        let agent = self.node.agent(&self.name).card(card.into());
        agent.access(self.access).register().await?;
        Ok(())
    }

    fn detach(&self) {
        self.stop.cancel();
    }
}

/// Asks no longer when a call is dropped, unless the task is on its way.
struct AskedTask<'a>(&'a SdkAgent);

impl Drop for AskedTask<'_> {
    fn drop(&mut self) {
        if self.0.is_asked.load(Relaxed)
            && let Ok(unused) = self.0.asked.try_acquire()
        {
            unused.forget();
            self.0.is_asked.store(false, Relaxed);
        }
    }
}

impl Drop for SdkAgent {
    fn drop(&mut self) {
        self.stop.cancel();
        let tasks = self.tasks.get_mut();
        tasks.close();
        while let Ok(task) = tasks.try_recv() {
            // It was not begun.
            task.leave();
        }
    }
}

struct SdkAgentTask {
    shown: v1::Task,
    task: Arc<IncomingTask>,
    /// Lets the handler of the task end; a task that was resumed has none.
    ended: Option<DropGuard>,
}

impl Drop for SdkAgentTask {
    fn drop(&mut self) {
        if self.ended.is_some() || self.task.is_over() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let task = Arc::clone(&self.task);
        runtime.spawn(async move {
            if let Err(error) = task.fail(DROPPED).await {
                tracing::debug!(task = task.id(), %error, "a task that was given up could not be failed");
            }
        });
    }
}

#[async_trait]
impl AgentTask for SdkAgentTask {
    fn task(&self) -> &v1::Task {
        &self.shown
    }

    fn cancelled(&self) -> CancellationToken {
        self.task.cancelled()
    }

    async fn claim(&self) -> Result<(), GatewayError> {
        Ok(self.task.begin().await?)
    }

    fn leave(&self) {
        self.task.leave();
    }

    async fn give_back(&self) -> Result<(), GatewayError> {
        Ok(self.task.give_back().await?)
    }

    async fn working(&self, message: v1::Message) -> Result<(), GatewayError> {
        Ok(self.task.working(own_message(message)).await?)
    }

    async fn ask(&self, question: v1::Message) -> Result<v1::Message, GatewayError> {
        Ok(self.task.ask(own_message(question)).await?.into())
    }

    async fn stream(&self, name: &str, media_type: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
        Ok(Box::new(SdkSink(
            self.task.stream_artifact(name, media_type).await?,
        )))
    }

    async fn complete(
        &self,
        artifacts: Vec<v1::Artifact>,
        message: Option<v1::Message>,
    ) -> Result<(), GatewayError> {
        let artifacts = artifacts.into_iter().map(Into::into);
        match message {
            Some(message) => self.task.complete_with(artifacts, own_message(message)).await?,
            None => self.task.complete(artifacts).await?,
        }
        Ok(())
    }

    async fn fail(&self, reason: &str) -> Result<(), GatewayError> {
        Ok(self.task.fail(reason).await?)
    }
}

struct SdkSink(ArtifactWriter);

#[async_trait]
impl ArtifactSink for SdkSink {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
        Ok(self.0.write(bytes).await?)
    }

    async fn finish(self: Box<Self>) -> Result<(), GatewayError> {
        Ok(self.0.finish().await?)
    }
}
