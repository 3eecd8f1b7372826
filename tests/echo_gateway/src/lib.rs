//! A whole gateway, as small as one can be: a client opens a WebSocket, each text that it sends is a task for an agent, and
//! the agent's answer comes back as `TASK TEXT`. `/show TASK` tells a task of the same caller again. What is refused is a text
//! that begins with `!`.

#![forbid(unsafe_code)]

use std::{convert::Infallible, sync::Arc, time::Duration};

use agentanycast_daemon_kit::{key, settings::SettingKey};
use agentanycast_front::{
    front::{Front, FrontRules},
    json_response::response,
    refusal::Refusal,
    websocket::{self, WebSocket, WebSocketMessage},
};
use agentanycast_gateway::{
    NodePort, Target,
    caller::{Caller, GatewayLabels},
    registration::GatewayModule,
    running::RunningGateway,
    tasks::{CallerMessage, CallerTasks, GatewayTasks, TaskRefusal},
};
use agentanycast_gateways::part::SettingTables;
use agentanycast_proto::v1::{self, Part, TextPart, part::Content};
use axum::{Router, extract::Request, response::Response};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// Tasks that are waited for at once.
const WAITED_FOR: usize = 256;

/// How its tasks are labelled.
const LABELS: GatewayLabels = GatewayLabels::new(EchoGateway::NAME);

/// The gateway.
#[derive(Debug)]
pub struct EchoGateway;

/// What it is told besides what every front is.
#[derive(Clone, Debug, PartialEq)]
pub struct EchoSettings {
    /// The peer whose agent is asked. Default: the own agent.
    agent: String,
    /// How long an answer is waited for. Default: 30 s.
    wait: Duration,
}

impl Default for EchoSettings {
    fn default() -> Self {
        Self {
            agent: String::new(),
            wait: Duration::from_secs(30),
        }
    }
}

impl SettingTables for EchoSettings {
    const OWN: &'static [SettingKey<Self>] = &[
        key!(EchoSettings, "agent", agent).variable("AGENT").flag(
            "agent",
            "PEER",
            "The peer whose agent is asked",
        ),
        key!(EchoSettings, "wait", wait).variable("WAIT").flag(
            "wait",
            "TIME",
            "How long an answer is waited for",
        ),
    ];
}

impl GatewayModule for EchoGateway {
    const NAME: &'static str = "echo";

    type Settings = EchoSettings;

    async fn start(node: NodePort, front: Front, settings: EchoSettings) -> anyhow::Result<RunningGateway> {
        let echo = Arc::new(Echo {
            tasks: GatewayTasks::new(node.client, WAITED_FOR),
            rules: front.rules(),
            settings,
        });
        let router = |stop: CancellationToken| {
            Router::new().fallback_service(service_fn(move |request| {
                let (echo, stop) = (Arc::clone(&echo), stop.clone());
                async move { Ok::<_, Infallible>(answer(echo, request, stop).await) }
            }))
        };
        let front = front.serve("WebSocket clients", router).await?;
        Ok(RunningGateway::new("echo gateway", Self::NAME, front))
    }
}

struct Echo {
    tasks: GatewayTasks,
    rules: Arc<FrontRules>,
    settings: EchoSettings,
}

async fn answer(echo: Arc<Echo>, request: Request, stop: CancellationToken) -> Response {
    open(echo, request, stop).await.unwrap_or_else(|refusal| {
        let mut status = refusal.status();
        let body = refusal.to_string().into();
        let mut response = response(status, "text/plain", &body);
        refusal.write_head(&mut status, response.headers_mut());
        response
    })
}

async fn open(echo: Arc<Echo>, mut request: Request, stop: CancellationToken) -> Result<Response, Refusal> {
    let admitted = echo.rules.admit(&request).await?;
    let caller = Caller::with_one_list(LABELS, (&admitted.caller).into());
    let most = echo.rules.max_body();
    websocket::upgrade(&mut request, admitted.permit, most, async move |mut socket| {
        tokio::select! {
            () = stop.cancelled() => {}
            () = talk(&echo, caller, &mut socket) => {}
        }
        socket.close().await;
    })
}

async fn talk(echo: &Echo, caller: Caller, socket: &mut WebSocket) {
    let tasks = echo.tasks.of_caller(caller);
    while let Some(message) = socket.receive().await {
        let said = match message {
            Ok(WebSocketMessage::Text(text)) => text,
            Ok(WebSocketMessage::Binary(_)) => "! texts only".to_owned(),
            Err(refusal) => format!("! {refusal}"),
        };
        let answer = if said.starts_with('!') {
            said
        } else {
            let answered = match said.strip_prefix("/show ") {
                Some(id) => tasks.get(id).await.map(|own| own.task),
                None => ask(echo, &tasks, said).await,
            };
            answered.map_or_else(|refusal| format!("! {refusal}"), |task| shown(&task))
        };
        socket.release_message();
        if !socket.send_text(&answer).await {
            return;
        }
    }
}

/// Sends a text to the agent; the task when it has come to a halt.
async fn ask(echo: &Echo, tasks: &CallerTasks<'_>, text: String) -> Result<v1::Task, TaskRefusal> {
    let target = match echo.settings.agent.as_str() {
        "" => Target::Own,
        peer => Target::Peer(peer.to_owned()),
    };
    let message = v1::Message {
        role: v1::MessageRole::User.into(),
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart { text })),
            ..Part::default()
        }],
        ..v1::Message::default()
    };
    let slot = echo.tasks.follow_slot()?;
    let handle = tasks.send(CallerMessage::new(target, message)).await?;
    let until = Instant::now() + echo.settings.wait;
    Ok(tasks.halted(&*handle, slot, until).await?)
}

/// A task as a text: its id, and the texts of its results, or else its state.
fn shown(task: &v1::Task) -> String {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let texts: Vec<&str> = parts
        .filter_map(|part| match &part.content {
            Some(Content::TextPart(part)) => Some(part.text.as_str()),
            _ => None,
        })
        .collect();
    let said = match texts.concat() {
        nothing if nothing.is_empty() => format!("({})", task.status().as_str_name()),
        said => said,
    };
    format!("{} {said}", task.task_id)
}
