//! Tasks that are sent by URL: the engine keeps them, the bridge carries them. Its port on the engine; nothing is
//! decided here.

use std::sync::Arc;

use agentanycast_bridge::{
    a2a::outbound::Outbound,
    config::outbound::Outbound as Config,
    gateway::{Errand, Errands, ErrorKind, GatewayError, Report},
};
use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{Engine, EngineError, Said, wire},
    task::Status,
};

/// Begins to carry tasks, until `stop`. With the bridge turned off it only waits for that.
///
/// # Errors
/// When a certificate or key of the configuration cannot be used.
pub(crate) fn start(
    engine: &Engine,
    config: &Config,
    stop: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    if !config.enabled {
        return Ok(tokio::spawn(stop.cancelled_owned()));
    }
    let outbound = Outbound::new(Arc::new(Port(engine.clone())), config, stop)?;
    Ok(tokio::spawn(outbound.run()))
}

struct Port(Engine);

#[async_trait]
impl Errands for Port {
    async fn next(&self) -> String {
        self.0.outside().next().await
    }

    async fn errand(&self, id: &str) -> Result<Option<Errand>, GatewayError> {
        let task = match self.0.task(id.to_owned()).await {
            Err(EngineError::NotFound(_)) => return Ok(None),
            task => task.map_err(|error| refused(&error))?,
        };
        let Some(outside) = task.outside.clone() else {
            return Ok(None);
        };
        Ok(Some(Errand {
            url: outside.url,
            task: wire::task(&task, self.0.me()),
            place: outside.place,
            settled: outside.settled,
        }))
    }

    async fn report(&self, id: &str, report: Report) -> Result<(), GatewayError> {
        let changes = report.changes.into_iter();
        let changes =
            changes.filter_map(|(status, message)| Some((Status::from_wire(status.into())?, message)));
        let said = Said {
            place: report.place,
            artifacts: report.artifacts,
            changes: changes.collect(),
            settled: report.settled,
        };
        let id = id.to_owned();
        let kept = self
            .0
            .call(move |core, now| core.say_from_outside(now, &id, said))
            .await;
        kept.map(drop).map_err(|error| refused(&error))
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
