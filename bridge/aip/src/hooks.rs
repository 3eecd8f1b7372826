//! What the device service asks of the gateway: agents for devices, and tasks of clients.

use std::sync::Arc;

use agentanycast_aip::{
    endpoints::{ClientCaller, ConnectedClient, DeviceTool, ServiceHooks, ServiceTask, TaskOutcome},
    messages::ClientRole,
    protocol::{FileProgress, Registration},
};
use agentanycast_gateway::{Target, caller::CallerIdentity};
use agentanycast_proto::v1 as mesh;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    client_keys::ClientKeys,
    content::{part_json, text_of, text_part},
    counters::Outcome,
    device_agent::DeviceAgent,
    mesh::{Listener, MeshRequest},
    planner::{self, Plan},
    state::AipState,
};

/// The gateway, to its device service.
pub(super) struct AipHooks {
    state: Arc<AipState>,
    keys: Arc<ClientKeys>,
}

impl AipHooks {
    pub(super) const fn new(state: Arc<AipState>, keys: Arc<ClientKeys>) -> Self {
        Self { state, keys }
    }
}

#[async_trait]
impl ServiceHooks for AipHooks {
    async fn admit(&self, registration: &Registration, caller: Option<&ClientCaller>) -> Result<(), String> {
        let id = &registration.client_id;
        match self.keys.of_client(id) {
            // The service has compared the id of its token.
            Some(did) if caller.is_none_or(|caller| caller.client_id.is_none()) => Err(format!(
                "client_id '{id}' belongs to {did}; show a JWT signed with that key whose sub is '{id}' as the token"
            )),
            _ => Ok(()),
        }
    }

    async fn may_use(&self, target_id: &str, caller: Option<&ClientCaller>) -> bool {
        if caller.is_some_and(|caller| !caller.is_stranger) {
            return true;
        }
        let target = match self.state.device(target_id) {
            Some(device) => Some(Target::Agent {
                peer: None,
                agent: device.name.clone(),
            }),
            None => self.state.mesh.target(target_id).await,
        };
        match target {
            Some(target) => self.state.mesh.is_public(&target).await,
            None => false,
        }
    }

    async fn connected(&self, client: &ConnectedClient) -> Result<(), String> {
        match client.role {
            ClientRole::Device => self.state.connected(client).await,
            ClientRole::Constellation => Ok(()),
        }
    }

    async fn tools(&self, device_id: &str, tools: &[DeviceTool]) {
        self.state.tools(device_id, tools).await;
    }

    async fn gone(&self, client: &ConnectedClient) {
        if client.role == ClientRole::Device {
            self.state.gone(&client.client_id);
        }
    }

    async fn has_target(&self, target_id: &str) -> bool {
        self.state.mesh.target(target_id).await.is_some()
    }

    async fn target_info(&self, target_id: &str) -> Option<Value> {
        let target = self.state.mesh.target(target_id).await?;
        let card = self.state.mesh.card(&target).await?;
        Some(info(target_id, &card))
    }

    async fn file(&self, client_id: &str, progress: FileProgress) -> Result<(), String> {
        match self.state.device(client_id) {
            Some(device) => device.files.hand(progress).await,
            None => Err("files are taken of devices only".to_owned()),
        }
    }

    async fn run_task(&self, task: ServiceTask) -> TaskOutcome {
        let ended = match self.state.device(&task.target_id) {
            Some(device) => self.on_device(&device, &task).await,
            None => self.on_mesh(&task).await,
        };
        self.state.counters.ended(match &ended {
            _ if task.cancelled.is_cancelled() => Outcome::Canceled,
            Ok(_) => Outcome::Completed,
            Err(_) => Outcome::Failed,
        });
        match ended {
            Ok(value) => TaskOutcome::completed(value),
            Err(reason) => TaskOutcome::failed(reason),
        }
    }
}

impl AipHooks {
    async fn on_device(&self, device: &DeviceAgent, task: &ServiceTask) -> Result<Value, String> {
        let Some(planner) = self.state.planner.clone() else {
            return Err("no planner is set here; set planner of [gateways.aip] to an agent".to_owned());
        };
        let plan = Plan {
            request: &task.request,
            planner,
            // That it may use the device is known, and the planner is a part of that.
            caller: CallerIdentity::identified(caller_of(task)),
            session_id: &task.session_id,
            cancelled: task.cancelled.clone(),
        };
        let carried_out = async {
            let _turn = device.turn.lock().await;
            planner::carry_out(&self.state.mesh, device, plan, &TaskProgress(task)).await
        };
        tokio::select! {
            biased;
            () = task.cancelled.cancelled() => Err("it was cancelled".to_owned()),
            () = device.gone.cancelled() => Err(device.gone_reason()),
            ended = carried_out => ended,
        }
    }

    async fn on_mesh(&self, task: &ServiceTask) -> Result<Value, String> {
        let target = self.state.mesh.target(&task.target_id).await;
        let target = target.ok_or_else(|| format!("Target device '{}' is not connected", task.target_id))?;
        let request = MeshRequest {
            target,
            parts: vec![text_part(task.request.clone())],
            caller: identity_of(task),
            context: &task.session_id,
            cancelled: task.cancelled.clone(),
        };
        let result = self.state.mesh.run(request, &TaskProgress(task)).await?;
        let artifact = |artifact: &mesh::Artifact| {
            let parts: Vec<Value> = artifact.parts.iter().map(part_json).collect();
            json!({ "name": artifact.name, "parts": parts })
        };
        let artifacts: Vec<Value> = result.artifacts.iter().map(artifact).collect();
        let texts = result.artifacts.iter().map(|artifact| text_of(&artifact.parts));
        let mut texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            texts.push(result.text);
        }
        Ok(json!({ "artifacts": artifacts, "text": texts.join("\n") }))
    }
}

/// Tells a constellation how far its task is.
struct TaskProgress<'a>(&'a ServiceTask);

impl Listener for TaskProgress<'_> {
    async fn said(&self, text: String) {
        self.0.progress(vec![text]).await;
    }
}

/// Who asks, to the node's policy: the token's name, since a client may call itself what it likes.
fn caller_of(task: &ServiceTask) -> &str {
    let caller = task.owner_caller.as_ref().map(|caller| caller.name.as_str());
    caller.unwrap_or(&task.owner_id)
}

/// The same, and whether it counts as the own node: a client that its transport does not know may be anybody.
fn identity_of(task: &ServiceTask) -> CallerIdentity {
    let is_known = task
        .owner_caller
        .as_ref()
        .is_some_and(|caller| !caller.is_stranger);
    if is_known {
        CallerIdentity::identified(caller_of(task))
    } else {
        CallerIdentity::stranger(caller_of(task))
    }
}

/// An agent of the mesh as a device says what it is.
fn info(target_id: &str, card: &mesh::AgentCard) -> Value {
    let features: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    let skill = |skill: &mesh::Skill| json!({ "id": skill.id, "description": skill.description });
    let skills: Vec<Value> = card.skills.iter().map(skill).collect();
    json!({
        "device_id": target_id,
        "platform": "agentanycast",
        "os_version": card.version,
        "cpu_count": 0,
        "memory_total_gb": 0.0,
        "hostname": card.name,
        "ip_address": "",
        "supported_features": features,
        "platform_type": "agent",
        "schema_version": "1.0",
        "custom_metadata": { "name": card.name, "description": card.description, "skills": skills },
    })
}
