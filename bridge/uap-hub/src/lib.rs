//! The gateway, started: the agent of the node, the hub behind its front, and the hubs of others that the node joins.

#![forbid(unsafe_code)]

pub mod capability;
mod fleet;
mod hub;
mod join;
mod metrics;
pub mod payloads;
mod results;
pub mod settings;

use std::{convert::Infallible, sync::Arc, time::Duration};

use agentanycast_front::front::Front;
use agentanycast_gateway::{
    NodePort,
    agents::{AgentPort, AgentTask},
    registration::GatewayModule,
    running::RunningGateway,
};
use agentanycast_proto::v1::{AgentCard, AgentProgram};
use axum::Router;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::service_fn;

use crate::{
    capability::Kind,
    hub::{Hub, service::HubRoutes, session},
    metrics::HubMetrics,
    settings::UapHubSettings,
};

/// Tasks that the hub has at a time, waiting or in sessions; further ones wait at the node, unclaimed.
const MOST_TASKS: usize = 10_000;

/// How long changes of the skills are gathered before the card is another one.
const GATHER: Duration = Duration::from_millis(100);

/// How long is waited until a card that the node did not take is set again.
const AGAIN: Duration = Duration::from_secs(1);

/// The gateway `uap-hub`.
#[derive(Debug)]
pub struct UapHubGateway;

impl GatewayModule for UapHubGateway {
    const NAME: &'static str = "uap-hub";

    type Settings = UapHubSettings;

    async fn start(node: NodePort, front: Front, settings: UapHubSettings) -> anyhow::Result<RunningGateway> {
        let hub = Hub::new(settings.sessions_per_client.get().get());
        let joins = join::prepare(&settings.join, &node.client)?;
        let program = AgentProgram {
            kind: Self::NAME.to_owned(),
            command: "execution agents of the Universal Agent Protocol v1".to_owned(),
            pid: 0,
        };
        let card = card(&settings.agent.0, &hub);
        // Its clients have not connected again yet.
        let name = &settings.agent.0;
        let agent = node.agents.attach_again(name, card, Some(program)).await?;
        let rules = front.rules();
        let routed = Arc::clone(&hub);
        let router = |stop: CancellationToken| {
            let routes = HubRoutes::new(routed, rules, stop);
            Router::new().fallback_service(service_fn(move |request| {
                let routes = routes.clone();
                async move { Ok::<_, Infallible>(routes.answer(request).await) }
            }))
        };
        let front = front
            .with_small_messages()
            .serve("execution agents", router)
            .await?;
        let stop = front.stop.clone();
        let timed = tokio::spawn(Arc::clone(&hub).watch_times(stop.clone()));
        let name = settings.agent.0.clone();
        let carded = tokio::spawn(keep_card(
            name,
            Arc::clone(&hub),
            Arc::clone(&agent),
            stop.clone(),
        ));
        let tasks = tokio::spawn(take_tasks(Arc::clone(&hub), agent, settings, stop.clone()));
        let mut running = RunningGateway::new("hub of execution agents", Self::NAME, front)
            .with_metrics(Arc::new(HubMetrics(hub)))
            .with_task(timed)
            .with_task(carded)
            .with_task(tasks);
        for join in joins {
            running = running.with_task(tokio::spawn(join.run(stop.clone())));
        }
        Ok(running)
    }
}

/// The card of the agent that all clients together are.
fn card(name: &str, hub: &Hub) -> AgentCard {
    AgentCard {
        name: name.to_owned(),
        description:
            "Execution agents for tests and translations, behind a hub of the Universal Agent Protocol v1"
                .to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        skills: hub.skills(),
        ..AgentCard::default()
    }
}

/// Keeps the skills of the card those of the clients.
async fn keep_card(name: String, hub: Arc<Hub>, agent: Arc<dyn AgentPort>, stop: CancellationToken) {
    let mut changes = hub.skill_changes();
    let kept = async {
        while changes.changed().await.is_ok() {
            tokio::time::sleep(GATHER).await;
            changes.mark_unchanged();
            while let Err(error) = agent.set_card(card(&name, &hub)).await {
                tracing::warn!(%error, "the card of the hub's agent could not be set; it is tried again");
                tokio::time::sleep(AGAIN).await;
                changes.mark_unchanged();
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = kept => {}
    }
}

/// Takes the agent's tasks until `stop`, and waits for those that it has taken.
async fn take_tasks(
    hub: Arc<Hub>,
    agent: Arc<dyn AgentPort>,
    settings: UapHubSettings,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(MOST_TASKS));
    let retry = settings.retry;
    let open = TaskTracker::new();
    let retries_of = move |kind: &Kind| {
        let of_kind = retry.iter().find(|retries| retries.kind == *kind);
        of_kind.map_or(0, |retries| retries.times)
    };
    let retries_of = Arc::new(retries_of);
    let taken = async {
        for task in unfinished(&*agent).await {
            let (hub, retries_of, stop) = (Arc::clone(&hub), Arc::clone(&retries_of), stop.clone());
            open.spawn(async move { session::take_up(hub, task, &*retries_of, stop).await });
        }
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let Some(task) = agent.next().await else { return };
            let (hub, retries_of, stop) = (Arc::clone(&hub), Arc::clone(&retries_of), stop.clone());
            open.spawn(async move {
                let _place = place;
                session::carry_out(hub, task, &*retries_of, stop).await;
            });
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = taken => {}
    }
    agent.detach();
    open.close();
    open.wait().await;
}

/// The tasks that an earlier process of this hub had under way.
async fn unfinished(agent: &dyn AgentPort) -> Vec<Box<dyn AgentTask>> {
    let ids = match agent.unfinished().await {
        Ok(ids) => ids,
        Err(error) => {
            tracing::warn!(%error, "the tasks that were under way could not be listed; they end after agent_grace");
            return Vec::new();
        }
    };
    let mut tasks = Vec::new();
    for id in ids {
        match agent.resume(&id).await {
            Ok(task) => tasks.extend(task),
            Err(error) => {
                tracing::debug!(task = id, %error, "a task that was under way could not be taken up");
            }
        }
    }
    tasks
}
