//! The service that devices and constellations connect to.
//!
//! Invariants: a client's id and role are those of its registration until its connection ends; a reply counts only
//! from the connection that was asked; a session belongs to the client that created it, and ends with that client or
//! with the device that executes it.

mod commands;
mod connection_task;
mod device_info;
mod device_tool;
mod device_turn;
mod dispatch;
mod entry;
mod hooks;
mod incoming;
mod registry;
mod sessions;
mod settings;
mod sweeper;
mod task_outcome;
mod tasks;

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use commands::{CommandBatch, CommandError};
pub use device_tool::DeviceTool;
pub use dispatch::{DispatchError, DispatchedTask};
pub use entry::{ClientCaller, ConnectedClient};
pub use hooks::ServiceHooks;
pub use sessions::TaskReport;
pub use settings::ServiceSettings;
pub use task_outcome::TaskOutcome;
pub use tasks::ServiceTask;

use crate::{
    messages::ClientRole,
    protocol::{AipProtocol, ProtocolError, Side, file_frames, payload_frames},
    transport::{Transport, TransportError},
};
use entry::ClientEntry;
use registry::Registry;
use sessions::Sessions;
use sweeper::Sweeper;

struct Shared {
    protocol: Arc<AipProtocol>,
    settings: ServiceSettings,
    hooks: Arc<dyn ServiceHooks>,
    registry: Registry,
    sessions: Sessions,
    sweeper: Sweeper,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// A service of devices and constellations. Clones are the same service.
#[derive(Clone)]
pub struct DeviceService(Arc<Shared>);

impl DeviceService {
    /// A service without clients, whose tasks `hooks` carries out. It has to be made within a runtime of Tokio.
    pub fn new(settings: ServiceSettings, hooks: Arc<dyn ServiceHooks>) -> Self {
        Self::with_protocol(AipProtocol::new(Side::Service), settings, hooks)
    }

    /// The same with middleware, handlers and limits.
    pub fn with_protocol(
        protocol: AipProtocol,
        settings: ServiceSettings,
        hooks: Arc<dyn ServiceHooks>,
    ) -> Self {
        let sweeper = Sweeper::new(settings.silence);
        let service = Self(Arc::new(Shared {
            protocol: Arc::new(protocol),
            registry: Registry::new(settings.max_clients),
            sessions: Sessions::default(),
            settings,
            hooks,
            sweeper,
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        }));
        sweeper::spawn(&service);
        service
    }

    /// Serves one connection until it ends. If the future is dropped, the connection is closed.
    pub async fn serve(&self, transport: Transport) {
        self.serve_caller(transport, None).await;
    }

    /// The same for a client that its transport knows: its tasks have the caller's name.
    pub async fn serve_caller(&self, transport: Transport, caller: Option<ClientCaller>) {
        let stop = self.0.stop.child_token();
        let _stop = stop.clone().drop_guard();
        let served = connection_task::serve(self.clone(), transport, caller, stop);
        // Apart, so that a client that was registered is signed off in any case.
        let _ = self.0.tracker.spawn(served).await;
    }

    /// Ends all connections, and waits until every task has ended and every client is signed off.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    /// The clients that are connected, in the order of their ids.
    pub fn clients(&self) -> Vec<ConnectedClient> {
        self.0
            .registry
            .all()
            .iter()
            .map(|entry| entry.summary())
            .collect()
    }

    /// The ids of the clients that are connected, in their order.
    pub fn client_ids(&self) -> Vec<String> {
        let clients = self.0.registry.all();
        clients.iter().map(|entry| entry.id().to_owned()).collect()
    }

    /// How many clients of a role are connected.
    pub fn count(&self, role: ClientRole) -> usize {
        let clients = self.0.registry.all();
        clients
            .iter()
            .filter(|entry| entry.registration.role == role)
            .count()
    }

    /// A client that is connected.
    pub fn client(&self, client_id: &str) -> Option<ConnectedClient> {
        self.0.registry.get(client_id).map(|entry| entry.summary())
    }

    /// Whether a client that its transport knows so may use a target and see what it is, as the hooks say.
    pub async fn may_use(&self, target_id: &str, caller: &ClientCaller) -> bool {
        self.0.hooks.may_use(target_id, Some(caller)).await
    }

    /// What became of the last task of this name; `None`: no task had it, or 1000 others came after it.
    pub fn task_result(&self, task_name: &str) -> Option<TaskReport> {
        self.0.sessions.report(task_name)
    }

    /// Sends a payload to a client.
    ///
    /// # Errors
    /// When the client is not connected.
    pub async fn send_payload(
        &self,
        client_id: &str,
        bytes: bytes::Bytes,
        filename: Option<&str>,
        mime_type: Option<&str>,
    ) -> Result<(), ProtocolError> {
        let entry = self.entry(client_id)?;
        entry
            .outbox
            .send_frames(payload_frames(bytes, filename, mime_type))
            .await
    }

    /// Sends a file to a client, in chunks. Files for one client go one after another.
    ///
    /// # Errors
    /// When the client is not connected, or leaves.
    pub async fn send_file(
        &self,
        client_id: &str,
        filename: &str,
        mime_type: Option<&str>,
        bytes: bytes::Bytes,
    ) -> Result<(), ProtocolError> {
        let entry = self.entry(client_id)?;
        let _turn = entry.files.lock().await;
        for frames in file_frames(filename, mime_type, bytes) {
            entry.outbox.send_frames(frames).await?;
        }
        Ok(())
    }

    fn entry(&self, client_id: &str) -> Result<Arc<ClientEntry>, ProtocolError> {
        self.0
            .registry
            .get(client_id)
            .ok_or(ProtocolError::Transport(TransportError::Closed))
    }
}
