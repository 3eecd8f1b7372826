//! A bridge before one daemon or in it, an agent on another, and what tests say to it.

use agentanycast::{Artifact, HandlerError, IncomingTask, Message};
use agentanycast_tests::{
    Bridge, Daemon, DaemonBuilder, DaemonPair, TransportKind, agent::TestAgent, http::HttpClient,
};
use serde_json::{Value, json};

/// What carries the bridge's calls to its daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BridgeMode {
    /// gRPC: the bridge is a process of its own.
    Grpc,
    /// Nothing: it is in the daemon.
    Inside,
}

/// Both: what a client sees is the same.
pub(crate) const BRIDGE_MODES: [BridgeMode; 2] = [BridgeMode::Grpc, BridgeMode::Inside];

/// Two connected daemons: the agent is on the first, the bridge before the second or in it.
pub(crate) struct BridgeSetup {
    pub(crate) pair: DaemonPair,
    pub(crate) bridge: Bridge,
    /// Serves until the scene is over.
    agent: Option<TestAgent>,
}

impl BridgeSetup {
    /// With this agent.
    pub(crate) async fn new<H, F>(handler: H) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self::by(BridgeMode::Grpc, handler).await
    }

    /// The same with this carrier.
    pub(crate) async fn by<H, F>(carrier: BridgeMode, handler: H) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        Self::with(carrier, |alice| alice, handler).await
    }

    /// The same with the agent's daemon as `set_up` makes it.
    pub(crate) async fn with<H, F>(
        carrier: BridgeMode,
        set_up: fn(DaemonBuilder) -> DaemonBuilder,
        handler: H,
    ) -> Self
    where
        H: Fn(IncomingTask) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        eprintln!("the bridge by {carrier:?}");
        let daemon = || Daemon::builder().listen([TransportKind::Tcp.listen()]);
        let bob = match carrier {
            BridgeMode::Grpc => daemon(),
            BridgeMode::Inside => daemon().bridge().args(["--bridge-allow-private-webhooks"]),
        };
        let pair = DaemonPair::from_builders(set_up(daemon()), bob).await;
        let agent = TestAgent::serve(&pair.alice.node_named("Alice").await, handler);
        let bridge = match carrier {
            BridgeMode::Grpc => Bridge::start_with(&pair.bob, &["--allow-private-webhooks"]).await,
            BridgeMode::Inside => Bridge::in_daemon(&pair.bob),
        };
        Self {
            pair,
            bridge,
            agent: Some(agent),
        }
    }

    /// Ends the agent, as a crash of its process would.
    pub(crate) fn end_agent(&mut self) {
        self.agent = None;
    }

    /// With an agent that understands [`talk`].
    pub(crate) async fn talking() -> Self {
        Self::new(talk).await
    }

    /// The same with this carrier.
    pub(crate) async fn talking_by(carrier: BridgeMode) -> Self {
        Self::by(carrier, talk).await
    }

    /// Where the agent is, as paths have it.
    pub(crate) fn path(&self) -> String {
        format!("/agents/{}", self.pair.alice.peer_id())
    }

    /// A client of the agent that speaks 1.0.
    pub(crate) fn client(&self) -> HttpClient {
        self.bridge.client().at(&self.path()).version("1.0")
    }

    /// A client of the agent that speaks 0.3.
    pub(crate) fn old_client(&self) -> HttpClient {
        self.bridge.client().at(&self.path())
    }
}

/// Does what the first word says: `echo`, `ask`, `fail`, `steps`; anything else never ends.
pub(crate) async fn talk(task: IncomingTask) -> Result<(), HandlerError> {
    let text = task.message().text_content();
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    match word {
        "echo" => {
            let parts = task.message().parts.clone();
            task.complete([Artifact::new("echo", parts), Artifact::text(rest)])
                .await?;
        }
        "ask" => {
            let answer = task.ask("Which one?").await?;
            task.complete([Artifact::text(format!("You said {}", answer.text_content()))])
                .await?;
        }
        "fail" => task.fail(rest).await?,
        "steps" => {
            for step in 1..=3 {
                task.working(format!("step {step}")).await?;
            }
            task.complete_with([Artifact::text("done")], Message::agent_text("That was all."))
                .await?;
        }
        _ => {
            task.working("on my way").await?;
            task.cancelled().cancelled().await;
        }
    }
    Ok(())
}

/// A message of 1.0.
pub(crate) fn user_message(text: &str) -> Value {
    json!({"messageId": format!("m-{text}"), "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// Parameters that send it.
pub(crate) fn send_params(text: &str) -> Value {
    json!({ "message": user_message(text) })
}

/// Parameters that send it and do not wait.
pub(crate) fn nonblocking_send_params(text: &str) -> Value {
    json!({"message": user_message(text), "configuration": {"returnImmediately": true}})
}

/// The same in 0.3.
pub(crate) fn v0_3_message(text: &str) -> Value {
    json!({"kind": "message", "messageId": format!("m-{text}"), "role": "user",
        "parts": [{"kind": "text", "text": text}]})
}

/// The texts of all results of a task, in either version.
pub(crate) fn texts(task: &Value) -> Vec<String> {
    let artifacts = task["artifacts"].as_array().cloned().unwrap_or_default();
    let parts = artifacts
        .iter()
        .flat_map(|artifact| artifact["parts"].as_array().cloned().unwrap_or_default());
    parts
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect()
}
