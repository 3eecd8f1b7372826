//! An A2A agent (1.0 or 0.3, over JSON-RPC, REST or gRPC), by the delivery of the A2A gateway: an agent is given each
//! message at most once, questions go to the sender of the task, and a task that is canceled here is canceled there.

use std::{sync::Arc, time::Duration};

use agentanycast_a2a::outbound::DeliveryRunner;
use agentanycast_gateway::agents::AgentTask;
use agentanycast_gateways::outbound::{Credentials, HostConfig, OutboundConfig, Secret};
use agentanycast_proto::v1::{self, TaskStatus};
use async_trait::async_trait;
use reqwest::{Client, Url};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{HttpConfig, card, errands::Errands};
use crate::{
    Attempt, Backend, RunError, TaskResult,
    parts::{text_message, text_of},
    progress_rate::ProgressRate,
    result_stream::stream_large,
    task_content::newest_request,
};

/// How long the agent may take to hear that its tasks are canceled, when the backend is stopped.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// An A2A agent.
pub(super) struct A2aBackend {
    http: Client,
    config: HttpConfig,
    errands: Arc<Errands>,
    /// Cancelled first: the tasks are given up.
    closing: CancellationToken,
    /// Cancelled then: the delivery ends.
    stop: CancellationToken,
    delivery: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    _stop: DropGuard,
}

impl A2aBackend {
    /// The agent at this URL.
    ///
    /// # Errors
    /// When no delivery can be made.
    pub(super) fn new(http: Client, config: HttpConfig) -> Result<Self, RunError> {
        let errands = Errands::new();
        let stop = CancellationToken::new();
        let outbound = outbound(&config);
        let delivery = DeliveryRunner::new(Arc::clone(&errands) as Arc<_>, &outbound, stop.clone());
        let delivery = delivery.map_err(|error| RunError::new(format!("{error:#}")))?;
        Ok(Self {
            http,
            config,
            errands,
            closing: CancellationToken::new(),
            delivery: tokio::sync::Mutex::new(Some(tokio::spawn(delivery.run()))),
            stop: stop.clone(),
            _stop: stop.drop_guard(),
        })
    }
}

/// How the delivery calls this agent: wherever it is, with its token.
fn outbound(config: &HttpConfig) -> OutboundConfig {
    let mut outbound = OutboundConfig {
        allow_private: true,
        timeout: config.answer_within,
        ..OutboundConfig::default()
    };
    let host = Url::parse(&config.url).ok().and_then(|url| {
        let host = url.host_str()?.to_owned();
        Some(format!("{host}:{}", url.port_or_known_default()?))
    });
    if let (Some(host), Some(token)) = (host, &config.token) {
        let host_config = HostConfig {
            allow_private: true,
            credentials: Credentials::Bearer(Secret::Text(token.clone())),
            ..HostConfig::default()
        };
        outbound.hosts.insert(host, host_config);
    }
    outbound
}

#[async_trait]
impl Backend for A2aBackend {
    async fn skills(&self) -> Result<Option<Vec<v1::Skill>>, RunError> {
        let card = card::find(&self.http, &self.config.url, self.config.token.as_deref()).await;
        let skills = card::skills(&card.map_err(|no_card| RunError::new(no_card.reason()))?);
        Ok((!skills.is_empty()).then_some(skills))
    }

    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        let shown = task.task();
        let mut errand = self.errands.begin(&self.config.url, shown, newest_request(shown));
        let mut rate = ProgressRate::default();
        let stopped = || RunError::interrupted("the runner was stopped while the agent worked");
        loop {
            let step = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(RunError::new("the task was canceled")),
                () = self.closing.cancelled() => return Err(stopped()),
                step = errand.next() => step,
                message = rate.due() => {
                    // A task that has ended is seen as cancelled.
                    let _ = task.working(message).await;
                    continue;
                }
            };
            let Some((status, message)) = step else {
                return Err(stopped());
            };
            match status {
                TaskStatus::Completed => {
                    let artifacts =
                        stream_large(task, errand.take_artifacts(), self.config.max_output).await?;
                    return Ok(TaskResult::Completed { artifacts, message });
                }
                TaskStatus::Failed | TaskStatus::Rejected | TaskStatus::Canceled => {
                    let said = message.as_ref().map(text_of).filter(|text| !text.is_empty());
                    return Err(RunError::new(said.unwrap_or_else(|| match status {
                        TaskStatus::Rejected => "the agent rejected the task".to_owned(),
                        TaskStatus::Canceled => "the agent canceled the task".to_owned(),
                        _ => "the agent failed and does not say why".to_owned(),
                    })));
                }
                TaskStatus::InputRequired => {
                    let question = message.unwrap_or_else(|| text_message("The agent asks for more."));
                    let answer = task.ask(question).await;
                    errand.answer(answer.map_err(|error| RunError::new(error.to_string()))?);
                }
                TaskStatus::Unspecified | TaskStatus::Submitted | TaskStatus::Working => {
                    if let Some(message) = message {
                        rate.put(message);
                    }
                }
            }
        }
    }

    async fn stop(&self) {
        self.closing.cancel();
        // An agent that does not answer is not waited for.
        let _ = tokio::time::timeout(LAST_WORDS, self.errands.drained()).await;
        self.stop.cancel();
        if let Some(delivery) = self.delivery.lock().await.take() {
            // The delivery bounds its own end.
            let _ = delivery.await;
        }
    }
}
