//! The gateway `aip`: devices are agents of the node, constellations send tasks to devices and to agents of the mesh,
//! and agents of the mesh are devices of foreign services.
//!
//! Invariant: what a device or a constellation has under way ends when its connection does.

#![forbid(unsafe_code)]

mod client_keys;
mod content;
mod counters;
mod delivery;
mod device_agent;
mod device_files;
mod device_name;
mod device_table;
mod foreign;
mod front;
mod hooks;
mod mesh;
mod mesh_task;
mod metrics;
mod planner;
pub mod settings;
mod socket;
mod state;

use std::{convert::Infallible, sync::Arc};

use agentanycast_aip::{
    endpoints::{DeviceService, ServiceSettings},
    messages::MAX_MESSAGE,
};
use agentanycast_front::front::Front;
use agentanycast_gateway::{NodePort, registration::GatewayModule, running::RunningGateway};
use axum::Router;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use client_keys::ClientKeys;
use front::AipFront;
use hooks::AipHooks;
use metrics::AipMetrics;
use settings::AipSettings;
use state::AipState;

/// The gateway `aip`.
#[derive(Debug)]
pub struct AipGateway;

impl GatewayModule for AipGateway {
    const NAME: &'static str = "aip";

    type Settings = AipSettings;

    async fn start(node: NodePort, front: Front, settings: AipSettings) -> anyhow::Result<RunningGateway> {
        let foreign = foreign::prepare(&settings.devices, &node.client)?;
        let service_settings = ServiceSettings {
            command_timeout: settings.command_timeout,
            task_timeout: settings.task_timeout,
            agent_names: settings.agent_names.clone(),
            // Constellations have a connection for each device.
            max_clients: usize::try_from(settings.max_agents)
                .unwrap_or(usize::MAX)
                .saturating_mul(4),
            ..ServiceSettings::default()
        };
        let keys = Arc::new(ClientKeys::new(&settings.keys, front.rules().public_url()));
        let state = Arc::new(AipState::new(node, settings));
        let hooks = AipHooks::new(Arc::clone(&state), Arc::clone(&keys));
        let service = DeviceService::new(service_settings, Arc::new(hooks));
        state.set_service(Some(service.clone()));
        let front = front.with_messages_of(MAX_MESSAGE);
        let routes = AipFront::new(service.clone(), front.rules(), keys);
        let router = |_: CancellationToken| {
            Router::new().fallback_service(service_fn(move |request| {
                let routes = routes.clone();
                async move { Ok::<_, Infallible>(routes.answer(request).await) }
            }))
        };
        let front = front.serve("devices and constellations", router).await?;
        let stop = front.stop.clone();
        let ending = Arc::clone(&state);
        let ended = tokio::spawn(async move {
            stop.cancelled().await;
            service.stop().await;
            ending.stop().await;
        });
        let stop = front.stop.clone();
        let mut running = RunningGateway::new("devices and constellations", Self::NAME, front)
            .with_metrics(Arc::new(AipMetrics(state)))
            .with_task(ended);
        for device in foreign {
            running = running.with_task(tokio::spawn(device.run(stop.clone())));
        }
        Ok(running)
    }
}
