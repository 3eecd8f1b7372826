//! An agent that is in no test's way: it counts the tasks that it is given, and should be given none.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use agentanycast::{AgentCard, Artifact, CancellationToken, Skill};
use tokio_util::sync::DropGuard;

use crate::{Daemon, eventually};

/// The name of the agent.
pub const BYSTANDER: &str = "other";

/// See the module's text. Dropping it ends it.
#[derive(Debug)]
pub struct Bystander {
    tasks: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Bystander {
    /// Starts it, on a node without other agents as the primary one, and waits until it listens.
    ///
    /// # Panics
    /// When it does not listen.
    pub async fn start(daemon: &Daemon) -> Self {
        let node = daemon.node().await;
        let tasks = Arc::<AtomicUsize>::default();
        let stop = CancellationToken::new();
        let card = AgentCard::new(BYSTANDER, "An agent of a test").with_skill(Skill::new(BYSTANDER, ""));
        let counted = Arc::clone(&tasks);
        let serving = node
            .agent(BYSTANDER)
            .card(card)
            .serve(move |task| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    task.complete([Artifact::text("done by another agent")]).await?;
                    Ok(())
                }
            })
            .until(stop.clone());
        tokio::spawn(async move { serving.await.unwrap() });
        eventually("the other agent listens", || async {
            let agents = node.node_agents().await.ok()?;
            let mut agents = agents.into_iter();
            agents
                .any(|agent| agent.name == BYSTANDER && agent.listeners > 0)
                .then_some(())
        })
        .await;
        Self {
            tasks,
            _stop: stop.drop_guard(),
        }
    }

    /// How many tasks it was given.
    pub fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }
}
