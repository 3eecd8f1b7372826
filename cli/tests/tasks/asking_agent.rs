//! An agent beside a daemon of the test, that asks before it answers.

use std::path::Path;

use agentanycast::{AgentCard, Artifact, Node, PeerId};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// An agent that runs until it is dropped.
pub(crate) struct AskingAgent {
    runtime: Option<Runtime>,
    stop: CancellationToken,
    pub(crate) peer: PeerId,
}

/// Registers agents at the home's daemon; nobody listens for them.
pub(crate) fn register(home: &Path, names: &[&str]) {
    let socket = format!("unix://{}", home.join("home/daemon.sock").display());
    Runtime::new().unwrap().block_on(async {
        let node = Node::connect(&socket).await.unwrap();
        for name in names {
            node.agent(*name).register().await.unwrap();
        }
    });
}

impl AskingAgent {
    /// Answers what it was told, part by part and by what it was answered to its question; to `wait` it answers nothing.
    pub(crate) fn asking(home: &Path) -> Self {
        let runtime = Runtime::new().unwrap();
        let socket = format!("unix://{}", home.join("home/daemon.sock").display());
        let stop = CancellationToken::new();
        let (node, peer) = runtime.block_on(async {
            let node = Node::connect(&socket).await.unwrap();
            node.set_card(AgentCard::new("asker", "A test's agent"))
                .await
                .unwrap();
            let peer = node.info().await.unwrap().peer_id.unwrap();
            (node, peer)
        });
        let until = stop.clone();
        runtime.spawn(async move {
            let serving = node.serve(|task| async move {
                let told: Vec<String> = task
                    .message()
                    .parts
                    .iter()
                    .filter_map(|part| part.as_text().map(str::to_owned))
                    .collect();
                if told == ["wait"] {
                    task.working("thinking").await?;
                    task.cancelled().cancelled().await;
                    return Ok(());
                }
                let answer = match told.as_slice() {
                    [only] if only == "ask" => task.ask("Which colour?").await?.text_content(),
                    _ => String::new(),
                };
                let said = format!("{} {} [{}]", told.join("|"), answer, task.context_id());
                task.complete([Artifact::text(said)]).await?;
                Ok(())
            });
            serving.until(until).await
        });
        Self {
            runtime: Some(runtime),
            stop,
            peer,
        }
    }
}

impl Drop for AskingAgent {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
