//! Tasks that are sent by URL: the engine keeps them, the bridge carries them. Its port on the engine; nothing is
//! decided here.

use std::{collections::BTreeMap, fmt, sync::Arc};

use agentanycast_bridge::{
    a2a::outbound::Outbound,
    gateway::{Answer, Deed, Errand, Errands, ErrorKind, GatewayError, Report, Seal, TRACE_LABELS},
};
use agentanycast_gateways::bridge::outbound::Outbound as Config;
use agentanycast_identity::Keypair;
use agentanycast_proto::v1::{Artifact, Message, OutsideStep, Part, SealedContent, SealedKind};
use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{Engine, EngineError, Said, originate::travelling, timestamp, wire},
    sealed::{self, Ends, Saying},
    task::{Status, Task},
};

/// Begins to carry tasks, until `stop`. With the bridge turned off it only waits for that.
///
/// # Errors
/// When a certificate or key of the configuration cannot be used.
pub(crate) fn start(
    engine: &Engine,
    key: Keypair,
    config: &Config,
    stop: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    if !config.enabled {
        return Ok(tokio::spawn(stop.cancelled_owned()));
    }
    let outbound = Outbound::new(
        Arc::new(Port {
            engine: engine.clone(),
            key,
        }),
        config,
        stop,
    )?;
    Ok(tokio::spawn(outbound.run()))
}

struct Port {
    engine: Engine,
    key: Keypair,
}

impl Port {
    fn seal(&self, task: &Task) -> Option<Arc<dyn Seal>> {
        let sealed = task.sealed.as_ref()?;
        let mut labels = travelling(&task.metadata);
        // Those of the trace change on the way.
        labels.retain(|name, _| !TRACE_LABELS.contains(&name.as_str()));
        Some(Arc::new(Boxes {
            ends: Ends::new(&self.key, sealed.peer, &sealed.task),
            engine: self.engine.clone(),
            labels,
        }))
    }
}

/// The boxes of one task.
struct Boxes {
    ends: Ends,
    engine: Engine,
    labels: BTreeMap<String, String>,
}

impl fmt::Debug for Boxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Boxes").field(&self.ends).finish()
    }
}

impl Boxes {
    fn take(&self, parts: &[Part], kind: SealedKind, id: &str) -> Result<Option<SealedContent>, String> {
        let opened = match sealed::boxed(parts) {
            Ok(None) => return Ok(None),
            Ok(Some(part)) => self.ends.open(part, &[kind], id),
            Err(refused) => Err(refused),
        };
        opened.map(Some).map_err(|refused| refused.to_string())
    }
}

impl Seal for Boxes {
    fn seal(&self, message: &Message, first: bool) -> Result<Message, String> {
        let saying = if first {
            Saying::Task(&self.labels)
        } else {
            Saying::Further
        };
        let (now, nonce) = (self.engine.now().unix, rand::random());
        let sealed = self.ends.message(now, nonce, saying, message.clone());
        sealed.map_err(|error| error.to_string())
    }

    fn open(&self, message: &Message) -> Result<Option<Answer>, String> {
        let opened = self.take(&message.parts, SealedKind::Answer, &message.message_id)?;
        Ok(opened.map(|content| Answer {
            status: content.status(),
            results: content.artifact_ids,
            message: Message {
                parts: content.parts,
                ..message.clone()
            },
        }))
    }

    fn open_artifact(&self, artifact: &Artifact) -> Result<Artifact, String> {
        let opened = self.take(&artifact.parts, SealedKind::Artifact, &artifact.artifact_id)?;
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
impl Errands for Port {
    async fn next(&self) -> String {
        self.engine.outside().next().await
    }

    async fn errand(&self, id: &str) -> Result<Option<Errand>, GatewayError> {
        let task = match self.engine.task(id.to_owned()).await {
            Err(EngineError::NotFound(_)) => return Ok(None),
            task => task.map_err(|error| refused(&error))?,
        };
        let seal = self.seal(&task);
        let Some(outside) = task.outside.clone() else {
            return Ok(None);
        };
        Ok(Some(Errand {
            url: outside.url,
            allow_private: outside.allow_private,
            task: wire::task(&task, self.engine.me()),
            place: outside.place,
            settled: outside.settled,
            seal,
        }))
    }

    async fn report(&self, id: &str, report: Report) -> Result<(), GatewayError> {
        let now = self.engine.now().unix;
        let changes = report.changes.into_iter();
        let changes =
            changes.filter_map(|(status, message)| Some((Status::from_wire(status.into())?, message)));
        let said = Said {
            place: report.place,
            artifacts: report.artifacts,
            changes: changes.collect(),
            settled: report.settled,
            steps: report.deeds.into_iter().map(|deed| step(now, deed)).collect(),
        };
        let id = id.to_owned();
        let kept = self
            .engine
            .call(move |core, now| core.say_from_outside(now, &id, said))
            .await;
        kept.map(drop).map_err(|error| refused(&error))
    }
}

fn step(now: u64, deed: Deed) -> OutsideStep {
    let again = deed
        .again_in
        .map(|wait| now.saturating_add(wait.as_millis() as u64));
    OutsideStep {
        at: Some(timestamp(now)),
        last_at: Some(timestamp(now)),
        count: 1,
        deed: deed.what.into(),
        url: deed.url,
        binding: deed.binding,
        detail: deed.detail,
        failure: deed.failure.into(),
        next_at: again.map(timestamp),
    }
}

fn refused(error: &EngineError) -> GatewayError {
    let kind = match error {
        EngineError::Invalid(_) => ErrorKind::Invalid,
        EngineError::NotFound(_) => ErrorKind::TaskNotFound,
        EngineError::Precondition(_) => ErrorKind::Conflict,
        EngineError::Denied(_) => ErrorKind::Denied,
        EngineError::Exhausted(_) => ErrorKind::Busy,
        EngineError::Unavailable(_) | EngineError::Store(_) => ErrorKind::Unavailable,
    };
    GatewayError::new(kind, error.to_string())
}
