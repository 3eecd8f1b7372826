//! Tasks that are sent by URL: the engine keeps them, gateways carry them. Their port on the engine; nothing is
//! decided here.

use std::{collections::BTreeMap, fmt, sync::Arc};

use agentanycast_core::{
    Engine, EngineError, ExternalUpdate, forwarded_labels,
    wire::{self, timestamp},
};
use agentanycast_core::{
    sealed::{self, MessagePurpose, SealedChannel},
    task::{Status, Task},
};
use agentanycast_gateway::{
    DeliveryEvent, DeliveryReport, ExternalTask, ExternalTasks, GatewayError, TRACE_LABELS, TaskSeal,
    UnsealedAnswer, composition::OutsideCalls, external_routes::ExternalRoutes,
    settings::outbound::OutboundConfig,
};
use agentanycast_identity::Keypair;
use agentanycast_proto::v1::{Artifact, ExternalStep, Message, Part, SealedContent, SealedKind};
use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::in_process::report_error;

/// Begins to carry tasks, until `stop`, and who else may carry some. With calls outside turned off or left out it only waits
/// for that.
///
/// # Errors
/// When a certificate or key of the configuration cannot be used.
pub(crate) fn start(
    engine: &Engine,
    key: Keypair,
    outside: OutsideCalls,
    config: &OutboundConfig,
    stop: CancellationToken,
) -> anyhow::Result<(JoinHandle<()>, Option<ExternalRoutes>)> {
    let carry = match outside {
        OutsideCalls::BuiltIn { carry, .. } if config.enabled => carry,
        _ => return Ok((tokio::spawn(stop.cancelled_owned()), None)),
    };
    let routes = ExternalRoutes::new(Arc::new(ExternalPort {
        engine: engine.clone(),
        key,
    }));
    let carrying = carry(&routes, config, stop.clone())?;
    let handing_on = routes.clone().run(stop);
    let run = async move {
        tokio::join!(carrying, handing_on);
    };
    Ok((tokio::spawn(run), Some(routes)))
}

struct ExternalPort {
    engine: Engine,
    key: Keypair,
}

impl ExternalPort {
    fn seal(&self, task: &Task) -> Option<Arc<dyn TaskSeal>> {
        let sealed = task.sealed.as_ref()?;
        let mut labels = forwarded_labels(&task.metadata);
        // Those of the trace change on the way.
        labels.retain(|name, _| !TRACE_LABELS.contains(&name.as_str()));
        Some(Arc::new(TaskSealer {
            channel: SealedChannel::new(&self.key, sealed.peer, &sealed.task),
            engine: self.engine.clone(),
            labels,
        }))
    }
}

/// The boxes of one task.
struct TaskSealer {
    channel: SealedChannel,
    engine: Engine,
    labels: BTreeMap<String, String>,
}

impl fmt::Debug for TaskSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskSealer").field(&self.channel).finish()
    }
}

impl TaskSealer {
    fn unseal_parts(
        &self,
        parts: &[Part],
        kind: SealedKind,
        id: &str,
    ) -> Result<Option<SealedContent>, String> {
        let opened = match sealed::sealed_part(parts) {
            Ok(None) => return Ok(None),
            Ok(Some(part)) => self.channel.open(part, &[kind], id),
            Err(refused) => Err(refused),
        };
        opened.map(Some).map_err(|refused| refused.to_string())
    }
}

impl TaskSeal for TaskSealer {
    fn seal(&self, message: &Message, first: bool) -> Result<Message, String> {
        let saying = if first {
            MessagePurpose::Task(&self.labels)
        } else {
            MessagePurpose::FollowUp
        };
        let (now, nonce) = (self.engine.now().unix, rand::random());
        let sealed = self.channel.message(now, nonce, saying, message.clone());
        sealed.map_err(|error| error.to_string())
    }

    fn open(&self, message: &Message) -> Result<Option<UnsealedAnswer>, String> {
        let opened = self.unseal_parts(&message.parts, SealedKind::Answer, &message.message_id)?;
        Ok(opened.map(|content| UnsealedAnswer {
            status: content.status(),
            results: content.artifact_ids,
            message: Message {
                parts: content.parts,
                ..message.clone()
            },
        }))
    }

    fn open_artifact(&self, artifact: &Artifact) -> Result<Artifact, String> {
        let opened = self.unseal_parts(&artifact.parts, SealedKind::Artifact, &artifact.artifact_id)?;
        let content = opened.ok_or("it is not sealed")?;
        Ok(Artifact {
            artifact_id: content.id,
            name: content.name,
            parts: content.parts,
            size_bytes: content.size_bytes,
        })
    }
}

#[async_trait]
impl ExternalTasks for ExternalPort {
    async fn next(&self) -> String {
        self.engine.external_queue().next().await
    }

    async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError> {
        let task = match self.engine.task(id.to_owned()).await {
            Err(EngineError::NotFound(_)) => return Ok(None),
            task => task.map_err(report_error)?,
        };
        let seal = self.seal(&task);
        let Some(outside) = task.external.clone() else {
            return Ok(None);
        };
        Ok(Some(ExternalTask {
            url: outside.url,
            allow_private: outside.allow_private,
            task: wire::task(&task, self.engine.me()),
            checkpoint: outside.checkpoint,
            growing: outside
                .grown
                .into_iter()
                .filter_map(|(id, is_whole)| (!is_whole).then_some(id))
                .collect(),
            settled: outside.settled,
            seal,
        }))
    }

    async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError> {
        let now = self.engine.now().unix;
        let changes = report.changes.into_iter();
        let changes =
            changes.filter_map(|(status, message)| Some((Status::from_wire(status.into())?, message)));
        let said = ExternalUpdate {
            checkpoint: report.checkpoint,
            artifacts: report.artifacts,
            growing: report.growing,
            changes: changes.collect(),
            settled: report.settled,
            steps: report.events.into_iter().map(|event| step(now, event)).collect(),
        };
        let id = id.to_owned();
        let kept = self.engine.apply_external_update(id, said).await;
        kept.map(drop).map_err(report_error)
    }
}

fn step(now: u64, event: DeliveryEvent) -> ExternalStep {
    let again = event
        .retry_in
        .map(|wait| now.saturating_add(wait.as_millis() as u64));
    ExternalStep {
        at: Some(timestamp(now)),
        last_at: Some(timestamp(now)),
        count: 1,
        action: event.action.into(),
        url: event.url,
        binding: event.binding,
        detail: event.detail,
        failure: event.failure.into(),
        next_at: again.map(timestamp),
    }
}
