//! Agents to send tasks to, served by the SDK until they are dropped.

use std::future::Future;

use agentanycast::{AgentCard, Artifact, HandlerError, IncomingTask, Node, Skill};
use tokio::task::JoinHandle;

/// An agent that serves; dropping it ends it, as a crash of its process would.
#[derive(Debug)]
pub struct TestAgent(JoinHandle<()>);

impl TestAgent {
    /// Serves with this handler.
    pub fn serve<H, F>(node: &Node, handler: H) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self::serve_many(node, 64, handler)
    }

    /// Serves with this handler, so many tasks at once.
    pub fn serve_many<H, F>(node: &Node, tasks: usize, handler: H) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let serve = node.serve(handler).concurrency(tasks);
        Self(tokio::spawn(async move { serve.await.unwrap() }))
    }

    /// The agent of this name of the node, whose only skill is called `skill-` and its name. Answers each task with its name.
    ///
    /// # Panics
    /// When it cannot be registered.
    pub async fn named(node: &Node, name: &str) -> Self {
        let card = AgentCard::new(format!("Agent {name}"), format!("It is {name}"))
            .with_skill(Skill::new(format!("skill-{name}"), "Says its name"));
        let agent = node.agent(name).card(card);
        agent.register().await.unwrap();
        let name = name.to_owned();
        let serve = agent.serve(move |task| {
            let name = name.clone();
            async move {
                task.complete([Artifact::text(name)]).await?;
                Ok(())
            }
        });
        Self(tokio::spawn(async move { serve.await.unwrap() }))
    }

    /// Runs what serves an agent.
    pub fn run(serving: agentanycast::Serve) -> Self {
        Self(tokio::spawn(async move { serving.await.unwrap() }))
    }

    /// Answers each task with `echo: ` and what it was sent.
    pub fn echo(node: &Node) -> Self {
        Self::serve(node, |task| async move {
            let answer = format!("echo: {}", task.message().text_content());
            task.complete([Artifact::text(answer)]).await?;
            Ok(())
        })
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.0.abort();
    }
}
