//! The agent side carried out by the Rust SDK: over gRPC to a daemon.

use std::sync::Arc;

use agentanycast::{ArtifactWriter, HandlerError, IncomingTask, Node};
use agentanycast_proto::v1;
use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    GatewayError, SdkGateway,
    agents::{AgentPort, AgentTask, Agents, ArtifactSink, DROPPED, own_message},
};

/// Tasks that wait for the agent to take them; further ones wait at the daemon.
const WAITING: usize = 64;

#[async_trait]
impl Agents for SdkGateway {
    async fn attach(&self, name: &str, card: v1::AgentCard) -> Result<Arc<dyn AgentPort>, GatewayError> {
        let node = self.node().clone();
        let agent = node.agent(name).card(card.into());
        let (name, _) = agent.register().await?;
        let (given, tasks) = mpsc::channel(WAITING);
        let stop = CancellationToken::new();
        let serve = agent.serve(move |task| {
            let given = given.clone();
            async move {
                // The task is the agent's until this ends.
                let ended = CancellationToken::new();
                let task = SdkAgentTask {
                    shown: task.task().clone().into(),
                    task: Arc::new(task),
                    _ended: ended.clone().drop_guard(),
                };
                if given.send(task).await.is_ok() {
                    ended.cancelled().await;
                }
                // A task that has ended is left as it is.
                Err(HandlerError::new(DROPPED))
            }
        });
        let serving = serve.until(stop.clone());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "an agent of a gateway takes no more tasks");
            }
        });
        Ok(Arc::new(SdkAgent {
            name,
            node,
            tasks: Mutex::new(tasks),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        }))
    }
}

struct SdkAgent {
    name: String,
    node: Node,
    tasks: Mutex<mpsc::Receiver<SdkAgentTask>>,
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
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            task = tasks.recv() => Some(Box::new(task?)),
        }
    }

    async fn set_card(&self, card: v1::AgentCard) -> Result<(), GatewayError> {
        self.node.agent(&self.name).card(card.into()).register().await?;
        Ok(())
    }

    fn detach(&self) {
        self.stop.cancel();
    }
}

struct SdkAgentTask {
    shown: v1::Task,
    task: Arc<IncomingTask>,
    /// Lets the handler of the task end.
    _ended: DropGuard,
}

#[async_trait]
impl AgentTask for SdkAgentTask {
    fn task(&self) -> &v1::Task {
        &self.shown
    }

    fn cancelled(&self) -> CancellationToken {
        self.task.cancelled()
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
