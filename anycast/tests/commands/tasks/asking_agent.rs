//! An agent beside a daemon of the test, that asks before it answers.

use std::{path::Path, time::Duration};

use agentanycast::{AgentCard, Artifact, IncomingTask, Message, Node, Part, PeerId};
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
    /// Answers what it was told, part by part and by what it was answered to its question; to `wait` it
    /// answers nothing, and to what `answered_slowly` knows by that.
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
                if let [only] = told.as_slice()
                    && answered_slowly(&task, only).await?
                {
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

/// Longer than a line of progress stands without being drawn again.
const PAUSE: Duration = Duration::from_millis(1200);

/// Answers with pauses: in pieces, all at the end, nothing, or by a failure; whether that was asked for.
async fn answered_slowly(task: &IncomingTask, told: &str) -> Result<bool, agentanycast::Error> {
    match told {
        "stream" | "fail" => {
            let mut answer = task.stream_artifact("answer", "text/plain").await?;
            // A character may come in two pieces.
            for piece in ["one ".as_bytes(), b"tw\xc3", b"\xb6\nthr", b"ee"] {
                answer.write(piece).await?;
                tokio::time::sleep(PAUSE).await;
            }
            if told == "fail" {
                answer.abort("the model is gone").await?;
                task.fail("it broke").await?;
            } else {
                answer.finish().await?;
                task.complete([]).await?;
            }
        }
        "slow" => {
            task.working("thinking").await?;
            tokio::time::sleep(PAUSE).await;
            task.complete([Artifact::text("at last")]).await?;
        }
        "blank" => {
            task.complete([Artifact::text(" \n\t\n")]).await?;
        }
        "notice" => {
            let part = Part::text("Outside of its turns the agent said: the build is done")
                .with_metadata("run.notice", "true");
            task.working(Message::new([part])).await?;
            task.working("thinking").await?;
            tokio::time::sleep(PAUSE).await;
            task.complete([Artifact::text("at last")]).await?;
        }
        "silent" => {
            tokio::time::sleep(PAUSE).await;
            task.complete([]).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Agents of one node, that run until they are dropped.
pub(crate) struct NamedAgents {
    runtime: Option<Runtime>,
}

impl NamedAgents {
    /// Each answers its name, and what it was told: texts, data as JSON, labels.
    pub(crate) fn serving(home: &Path, names: &[&str]) -> Self {
        let runtime = Runtime::new().unwrap();
        let socket = format!("unix://{}", home.join("home/daemon.sock").display());
        for name in names {
            let node = runtime.block_on(Node::connect(&socket)).unwrap();
            // It is known before anything is sent to it.
            runtime.block_on(node.agent(*name).register()).unwrap();
            let said = (*name).to_owned();
            let serving = node.agent(*name).serve(move |task| {
                let name = said.clone();
                async move {
                    let parts = task.message().parts.iter().map(|part| match part.to_json() {
                        Some(data) => data.to_string(),
                        None => part.as_text().unwrap_or("?").to_owned(),
                    });
                    let told = parts.collect::<Vec<_>>().join("|");
                    let label = task.metadata().get("priority").cloned().unwrap_or_default();
                    task.complete([Artifact::text(format!("{name}: {told} {label}"))])
                        .await?;
                    Ok(())
                }
            });
            runtime.spawn(serving.into_future());
        }
        Self {
            runtime: Some(runtime),
        }
    }
}

impl Drop for NamedAgents {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
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
