//! What all parts of the gateway share: the devices that are agents, the way into the mesh, and the counters.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentanycast_aip::endpoints::{ConnectedClient, DeviceService, DeviceTool};
use agentanycast_gateway::{NodePort, Target, agents::Agents};
use agentanycast_proto::v1::AgentProgram;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    counters::Counters,
    device_agent::{DeviceAgent, NewDeviceAgent, card},
    device_name::agent_name,
    device_table::DeviceTable,
    mesh::MeshTasks,
    mesh_task,
    settings::AipSettings,
};

/// What all parts of the gateway share.
pub(super) struct AipState {
    pub(super) settings: AipSettings,
    agents: Arc<dyn Agents>,
    pub(super) mesh: Arc<MeshTasks>,
    pub(super) planner: Option<Target>,
    pub(super) counters: Arc<Counters>,
    devices: Mutex<DeviceTable<Arc<DeviceAgent>>>,
    /// The service, whose hooks have this state.
    service: Mutex<Option<DeviceService>>,
    stop: CancellationToken,
    open: TaskTracker,
}

impl AipState {
    pub(super) fn new(node: NodePort, settings: AipSettings) -> Self {
        let aliases = settings
            .aliases
            .iter()
            .map(|alias| (alias.name.clone(), Target::parse(&alias.target)));
        let most = usize::try_from(settings.max_agents).unwrap_or(usize::MAX);
        Self {
            mesh: Arc::new(MeshTasks::new(node.client, aliases)),
            agents: node.agents,
            planner: settings.planner_target(),
            counters: Arc::default(),
            devices: Mutex::new(DeviceTable::new(most)),
            service: Mutex::default(),
            stop: CancellationToken::new(),
            open: TaskTracker::new(),
            settings,
        }
    }

    fn devices(&self) -> MutexGuard<'_, DeviceTable<Arc<DeviceAgent>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service, until it has ended.
    pub(super) fn service(&self) -> Option<DeviceService> {
        self.service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_service(&self, service: Option<DeviceService>) {
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = service;
    }

    /// A connected device.
    pub(super) fn device(&self, client_id: &str) -> Option<Arc<DeviceAgent>> {
        self.devices().get(client_id)
    }

    /// Makes a device that has connected an agent of the node.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) async fn connected(&self, client: &ConnectedClient) -> Result<(), String> {
        let name = agent_name(&client.client_id);
        let service = self.service().ok_or("the service is shutting down")?;
        let forgotten = self.devices().enter(&client.client_id, &name)?;
        if let Some(forgotten) = forgotten {
            self.forget(&forgotten).await;
        }
        // What is dropped on the way has no place any more.
        let mut place = DevicePlace {
            state: self,
            client_id: Some(&client.client_id),
        };
        let plans = self.planner.is_some();
        let program = AgentProgram {
            kind: "aip".to_owned(),
            command: format!("device {} of the Agent Interaction Protocol", client.client_id),
            pid: 0,
        };
        // One that connects again keeps its tools as skills until it has told them.
        let card = card(client, &[], plans);
        let attached = self.agents.attach_again(&name, card, Some(program));
        let port = attached.await.map_err(|error| error.to_string())?;
        let device = Arc::new(DeviceAgent::new(NewDeviceAgent {
            client: client.clone(),
            name,
            port,
            service,
            counters: Arc::clone(&self.counters),
            default_agent: self.settings.agent_names.first().cloned(),
            plans,
            task_timeout: self.settings.task_timeout,
        }));
        if self.settings.agent_names.is_empty() {
            // It is not asked for any.
            device.set_tools(&[]);
        }
        place.client_id = None;
        self.devices().attached(&client.client_id, Arc::clone(&device));
        let tasks = mesh_task::take_tasks(
            device,
            Arc::clone(&self.mesh),
            self.planner.clone(),
            self.stop.clone(),
        );
        self.open.spawn(tasks);
        Ok(())
    }

    /// A device has these tools.
    pub(super) async fn tools(&self, client_id: &str, tools: &[DeviceTool]) {
        let Some(device) = self.device(client_id) else {
            return;
        };
        device.set_tools(tools);
        if let Err(error) = device.port.set_card(device.card()).await {
            tracing::warn!(client_id, %error, "the card of a device's agent could not be set: its tools are no skills");
        }
    }

    /// A device is gone: its agent takes no more tasks, and is forgotten unless it comes back.
    pub(super) fn gone(self: &Arc<Self>, client_id: &str) {
        let Some((device, departure)) = self.devices().leave(client_id) else {
            return;
        };
        device.gone.cancel();
        device.port.detach();
        let (state, name) = (Arc::clone(self), device.name.clone());
        self.open.spawn(async move {
            tokio::select! {
                () = state.stop.cancelled() => return,
                () = tokio::time::sleep(state.settings.device_grace) => {}
            }
            if state.devices().forget(departure) {
                state.forget(&name).await;
            }
        });
    }

    async fn forget(&self, name: &str) {
        if let Err(error) = self.agents.forget(name).await {
            tracing::warn!(agent = name, %error, "the agent of a device that is gone stays registered");
        }
    }

    /// Ends all tasks. The clients are signed off before.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.open.close();
        self.open.wait().await;
        self.set_service(None);
    }
}

/// A place of a device that is being attached.
struct DevicePlace<'a> {
    state: &'a AipState,
    client_id: Option<&'a str>,
}

impl Drop for DevicePlace<'_> {
    fn drop(&mut self) {
        if let Some(client_id) = self.client_id {
            self.state.devices().give_up(client_id);
        }
    }
}
