//! A gateway with an agent behind it, by the agent side of the port. The agent answers by the first text of a task: `ask` asks
//! which and repeats the answer, `stream` streams its result, `wait` waits until it is canceled, `drop` gives up, `leave` lets
//! go of the task, `resume ID` ends that one, everything else is repeated.

#![forbid(unsafe_code)]

use std::sync::Arc;

use agentanycast_front::front::Front;
use agentanycast_gateway::{
    GatewayError, NodePort,
    agents::{AgentPort, AgentTask},
    registration::GatewayModule,
    running::RunningGateway,
};
use agentanycast_proto::v1::{self, Part, TextPart, part::Content};
use axum::Router;

/// The gateway.
#[derive(Debug)]
pub struct AgentGateway;

impl GatewayModule for AgentGateway {
    const NAME: &'static str = "agent";

    type Settings = ();

    async fn start(node: NodePort, front: Front, (): ()) -> anyhow::Result<RunningGateway> {
        let agent = node.agents.attach("repeater", card("Repeater"), None).await?;
        let front = front.serve("nobody", |_| Router::new()).await?;
        let stop = front.stop.clone();
        let work = tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = serve(agent) => {}
            }
        });
        Ok(RunningGateway::new("agent gateway", Self::NAME, front).with_task(work))
    }
}

/// The card of the agent.
pub fn card(name: &str) -> v1::AgentCard {
    v1::AgentCard {
        name: name.to_owned(),
        ..v1::AgentCard::default()
    }
}

/// Does the agent's tasks until it is detached.
pub async fn serve(agent: Arc<dyn AgentPort>) {
    while let Some(task) = agent.next().await {
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            // Whoever is too late is told so, and nothing is left to do.
            let _ = work(&*agent, &*task).await;
        });
    }
}

async fn work(agent: &dyn AgentPort, task: &dyn AgentTask) -> Result<(), GatewayError> {
    let asked = task.task().messages.first().map(text_of).unwrap_or_default();
    match asked.as_str() {
        "ask" => {
            let answer = task.ask(said("which?")).await?;
            task.complete(vec![result(&text_of(&answer))], Some(said("done")))
                .await
        }
        "stream" => {
            task.working(said("streaming")).await?;
            let mut sink = task.stream("log", "text/plain").await?;
            for piece in ["one ", "two"] {
                sink.write(piece.as_bytes()).await?;
            }
            sink.finish().await?;
            task.complete(Vec::new(), None).await
        }
        "wait" => {
            task.working(said("waiting")).await?;
            task.cancelled().cancelled().await;
            agent.set_card(card("Was canceled")).await
        }
        "drop" => Ok(()),
        "leave" => {
            task.claim().await?;
            task.leave();
            Ok(())
        }
        other if other.starts_with("resume ") => {
            let resumed = agent.resume(&other["resume ".len()..]).await?;
            let found = if resumed.is_some() { "resumed" } else { "nothing" };
            if let Some(resumed) = resumed {
                resumed.complete(vec![result("later")], None).await?;
            }
            task.complete(vec![result(found)], None).await
        }
        "fail" => task.fail("it cannot").await,
        other => task.complete(vec![result(other)], None).await,
    }
}

fn part(text: &str) -> Part {
    let text = text.to_owned();
    Part {
        content: Some(Content::TextPart(TextPart { text })),
        ..Part::default()
    }
}

fn said(text: &str) -> v1::Message {
    v1::Message {
        parts: vec![part(text)],
        ..v1::Message::default()
    }
}

fn result(text: &str) -> v1::Artifact {
    v1::Artifact {
        parts: vec![part(text)],
        ..v1::Artifact::default()
    }
}

fn text_of(message: &v1::Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(part)) => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect()
}
