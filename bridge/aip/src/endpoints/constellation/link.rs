//! The connection of a constellation to one device's service.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{
    sync::{broadcast, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    AgentProfile, AssignError, ConstellationEvent, ConstellationSettings, DeviceEntry, DeviceState,
    TaskReply, TaskRequest,
};
use crate::{
    endpoints::error::{ClientError, register},
    messages::{
        ClientMessage, ClientMessageType, ClientRole, JsonObject, MessageStatus, ServerMessage,
        ServerMessageType, timestamp_now,
    },
    protocol::{
        AipProtocol, AnyMessage, Connection, MOST_PENDING, Outbox, PendingReplies, ProtocolError, Received,
        Registration,
    },
    resilience::ReconnectSchedule,
    transport::Connector,
};

/// A connection that stands.
#[derive(Clone)]
struct Live {
    outbox: Outbox,
    /// Tasks by session.
    tasks: PendingReplies<ServerMessage>,
    /// Questions about the device by request.
    infos: PendingReplies<ServerMessage>,
    /// The session whose TASK the service has not accepted yet: an ERROR without a session is about it.
    unaccepted: Arc<Mutex<Option<String>>>,
}

pub(super) struct DeviceLink {
    device: DeviceEntry,
    connector: Arc<dyn Connector>,
    protocol: Arc<AipProtocol>,
    settings: ConstellationSettings,
    events: broadcast::Sender<ConstellationEvent>,
    profile: Mutex<AgentProfile>,
    state: watch::Sender<DeviceState>,
    live: Mutex<Option<Live>>,
    /// A device has one task at a time; the others wait in their order.
    turn: tokio::sync::Mutex<()>,
    stop: CancellationToken,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceLink {
    /// Keeps a connection to the device's service until [`Self::stop`].
    pub(super) fn start(
        device: DeviceEntry,
        connector: Arc<dyn Connector>,
        protocol: Arc<AipProtocol>,
        settings: ConstellationSettings,
        events: broadcast::Sender<ConstellationEvent>,
    ) -> Arc<Self> {
        let profile = AgentProfile {
            device_id: device.device_id.clone(),
            server_url: connector.address(),
            os: device.os.clone(),
            capabilities: device.capabilities.clone(),
            metadata: device.metadata.clone(),
            status: DeviceState::Disconnected,
            last_heartbeat: None,
            connection_attempts: 0,
            max_retries: settings.reconnect.tries,
            current_task_id: None,
        };
        let stop = CancellationToken::new();
        let link = Arc::new(Self {
            device,
            connector,
            protocol,
            settings,
            events,
            profile: Mutex::new(profile),
            state: watch::Sender::new(DeviceState::Disconnected),
            live: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            stop: stop.clone(),
        });
        let kept = Arc::clone(&link);
        tokio::spawn(async move {
            if stop.run_until_cancelled(kept.keep_connected()).await.is_none() {
                kept.lost();
            }
        });
        link
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) fn profile(&self) -> AgentProfile {
        locked(&self.profile).clone()
    }

    pub(super) async fn wait_connected(&self) -> bool {
        let mut state = self.state.subscribe();
        let reached = state
            .wait_for(|state| state.is_connected() || *state == DeviceState::Failed)
            .await;
        reached.is_ok_and(|state| state.is_connected())
    }

    fn set_state(&self, state: DeviceState) {
        locked(&self.profile).status = state;
        self.state.send_replace(state);
    }

    fn client_id(&self) -> String {
        format!("{}@{}", self.settings.task_name, self.device.device_id)
    }

    async fn keep_connected(&self) {
        let mut schedule = ReconnectSchedule::new(self.settings.reconnect);
        loop {
            let ended = self.one_connection(&mut schedule).await;
            self.lost();
            let Some(wait) = schedule.next_wait(rand::random()) else {
                break;
            };
            locked(&self.profile).connection_attempts = schedule.failed();
            if let Err(error) = ended {
                tracing::info!(device_id = self.device.device_id, %error, ?wait, "a constellation connects again");
            }
            tokio::time::sleep(wait).await;
        }
        tracing::warn!(
            device_id = self.device.device_id,
            "a constellation gives a device up"
        );
        self.set_state(DeviceState::Failed);
    }

    /// The connection is lost: its tasks and questions get no replies.
    fn lost(&self) {
        let live = locked(&self.live).take();
        if let Some(live) = live {
            live.tasks.close();
            live.infos.close();
            let _ = self
                .events
                .send(ConstellationEvent::Lost(self.device.device_id.clone()));
        }
        locked(&self.profile).current_task_id = None;
        self.set_state(DeviceState::Disconnected);
    }

    fn registration(&self) -> Registration {
        let mut metadata = JsonObject::new();
        let capabilities = ["task_distribution", "session_management", "device_coordination"];
        metadata.insert("type".to_owned(), "constellation_client".into());
        metadata.insert("task_name".to_owned(), self.settings.task_name.clone().into());
        metadata.insert(
            "targeted_device_id".to_owned(),
            self.device.device_id.clone().into(),
        );
        metadata.insert("capabilities".to_owned(), capabilities.to_vec().into());
        metadata.insert("version".to_owned(), "2.0".into());
        Registration {
            client_id: self.client_id(),
            role: ClientRole::Constellation,
            target_id: Some(self.device.device_id.clone()),
            metadata,
        }
    }

    async fn one_connection(&self, schedule: &mut ReconnectSchedule) -> Result<(), ClientError> {
        self.set_state(DeviceState::Connecting);
        let transport = self.connector.connect().await?;
        self.set_state(DeviceState::Registering);
        let mut connection = Connection::new(Arc::clone(&self.protocol), transport);
        register(&mut connection, &self.registration()).await?;
        schedule.reset();
        let live = Live {
            outbox: connection.outbox().clone(),
            tasks: PendingReplies::new(MOST_PENDING),
            infos: PendingReplies::new(MOST_PENDING),
            unaccepted: Arc::default(),
        };
        *locked(&self.live) = Some(live.clone());
        locked(&self.profile).connection_attempts = 0;
        self.heard();
        self.set_state(DeviceState::Idle);
        let _ = self
            .events
            .send(ConstellationEvent::Connected(self.device.device_id.clone()));
        tokio::select! {
            ended = self.receive(&mut connection, &live) => ended,
            () = self.beat(&live.outbox) => Ok(()),
            never = self.learn(&live) => match never {},
        }
    }

    fn heard(&self) {
        locked(&self.profile).last_heartbeat = Some(timestamp_now());
    }

    fn message(&self, kind: ClientMessageType, status: MessageStatus) -> ClientMessage {
        ClientMessage {
            client_type: ClientRole::Constellation,
            client_id: Some(self.client_id()),
            target_id: Some(self.device.device_id.clone()),
            timestamp: Some(timestamp_now()),
            ..ClientMessage::new(kind, status)
        }
    }

    async fn beat(&self, outbox: &Outbox) {
        let mut ticks = interval(self.settings.heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let message = self.message(ClientMessageType::Heartbeat, MessageStatus::Ok);
            if outbox.send(message).await.is_err() {
                return;
            }
        }
    }

    /// Asks what the device is, for its profile. It never ends by itself.
    async fn learn(&self, live: &Live) -> Infallible {
        match self.ask(live).await {
            Ok(info) => {
                let mut profile = locked(&self.profile);
                let features = info.get("supported_features").and_then(Value::as_array);
                for feature in features.into_iter().flatten().filter_map(Value::as_str) {
                    if !profile.capabilities.iter().any(|known| known == feature) {
                        profile.capabilities.push(feature.to_owned());
                    }
                }
                if let (true, Some(os)) = (
                    profile.os.is_empty(),
                    info.get("platform").and_then(Value::as_str),
                ) {
                    os.clone_into(&mut profile.os);
                }
                profile.metadata.insert("system_info".to_owned(), info);
            }
            Err(error) => tracing::debug!(%error, "a device's service does not say what the device is"),
        }
        std::future::pending().await
    }

    async fn receive(&self, connection: &mut Connection, live: &Live) -> Result<(), ClientError> {
        let peer = &self.device.device_id;
        while let Some(frame) = connection.next().await {
            self.heard();
            match frame {
                Ok(Received::Message(message)) => {
                    self.protocol.handle_message(peer, &message, &live.outbox).await;
                    if let AnyMessage::Server(message) = message {
                        self.server_message(message, live);
                    }
                }
                Ok(Received::Custom(message)) => {
                    self.protocol.handle(peer, &message, &live.outbox).await;
                }
                Ok(Received::Transfer(_) | Received::Binary(..)) => {
                    tracing::debug!(peer, "a constellation does not take files");
                }
                Err(error @ ProtocolError::Transport(_)) => return Err(error.into()),
                Err(error) => tracing::warn!(peer, %error, "a frame of a service is not understood"),
            }
        }
        Ok(())
    }

    fn server_message(&self, message: ServerMessage, live: &Live) {
        match message.kind {
            ServerMessageType::Heartbeat => {
                let mut unaccepted = locked(&live.unaccepted);
                if unaccepted.is_some() && *unaccepted == message.session_id {
                    *unaccepted = None;
                }
            }
            ServerMessageType::TaskEnd => {
                if let Some(session_id) = message.session_id.clone() {
                    live.tasks.resolve(&session_id, message);
                }
            }
            ServerMessageType::Task => {
                let _ = self.events.send(ConstellationEvent::Progress {
                    device_id: self.device.device_id.clone(),
                    session_id: message.session_id.unwrap_or_default(),
                    messages: message.messages.unwrap_or_default(),
                });
            }
            ServerMessageType::DeviceInfoResponse => {
                if let Some(id) = message.response_id.clone() {
                    live.infos.resolve(&id, message);
                }
            }
            ServerMessageType::Error => self.error(message, live),
            ServerMessageType::Command | ServerMessageType::DeviceInfoRequest => {}
        }
    }

    /// An ERROR belongs to the question or the task that it names, else to the TASK that is not accepted yet.
    fn error(&self, message: ServerMessage, live: &Live) {
        tracing::info!(
            device_id = self.device.device_id,
            error = message.error,
            "a service reports an error"
        );
        let session = message
            .session_id
            .clone()
            .or_else(|| locked(&live.unaccepted).take());
        match (message.response_id.clone(), session) {
            (Some(id), None) => drop(live.infos.resolve(&id, message)),
            (_, Some(session_id)) => drop(live.tasks.resolve(&session_id, message)),
            (None, None) => {}
        }
    }

    pub(super) async fn assign(&self, task: TaskRequest) -> Result<TaskReply, AssignError> {
        let id = || self.device.device_id.clone();
        let _turn = self.turn.lock().await;
        let live = locked(&self.live).clone();
        let live = live.ok_or_else(|| AssignError::NotConnected(id()))?;
        let session_id = format!("{}@{}", self.settings.task_name, task.task_id);
        // One task at a time: there is room.
        let waiting = live.tasks.open(&session_id);
        let mut waiting = waiting.map_err(|_| AssignError::NotConnected(id()))?;
        let message = ClientMessage {
            request: Some(task.request),
            task_name: Some(self.settings.task_name.clone()),
            session_id: Some(session_id.clone()),
            ..self.message(ClientMessageType::Task, MessageStatus::Continue)
        };
        *locked(&live.unaccepted) = Some(session_id.clone());
        let mut busy = BusyGuard::new(self, &live, task.task_id, session_id);
        live.outbox.send(message).await.map_err(|error| match error {
            ProtocolError::Transport(_) => AssignError::DeviceLost(id()),
            error => AssignError::Send(error),
        })?;
        let ended = timeout(task.timeout, waiting.wait()).await;
        let ended = ended.map_err(|_| AssignError::TimedOut {
            device_id: id(),
            within: task.timeout,
        })?;
        busy.ended = true;
        let message = ended.ok_or_else(|| AssignError::DeviceLost(id()))?;
        if message.kind == ServerMessageType::Error {
            return Err(AssignError::Refused {
                device_id: id(),
                reason: message.error.unwrap_or_default(),
            });
        }
        Ok(TaskReply {
            completed: message.status == MessageStatus::Completed,
            result: message.result,
            error: message.error,
        })
    }

    pub(super) async fn device_info(&self) -> Result<Value, AssignError> {
        let live = locked(&self.live).clone();
        let live = live.ok_or_else(|| AssignError::NotConnected(self.device.device_id.clone()))?;
        self.ask(&live).await
    }

    async fn ask(&self, live: &Live) -> Result<Value, AssignError> {
        let id = || self.device.device_id.clone();
        let request_id = format!("device_info_{}_{}", self.device.device_id, uuid::Uuid::new_v4());
        let waiting = live.infos.open(&request_id);
        let mut waiting = waiting.map_err(|_| AssignError::NotConnected(id()))?;
        let message = ClientMessage {
            request_id: Some(request_id),
            ..self.message(ClientMessageType::DeviceInfoRequest, MessageStatus::Ok)
        };
        live.outbox.send(message).await?;
        let within = self.settings.info_wait;
        let answered = timeout(within, waiting.wait()).await;
        let answered = answered.map_err(|_| AssignError::TimedOut {
            device_id: id(),
            within,
        })?;
        let message = answered.ok_or_else(|| AssignError::DeviceLost(id()))?;
        if message.kind == ServerMessageType::Error {
            return Err(AssignError::Refused {
                device_id: id(),
                reason: message.error.unwrap_or_default(),
            });
        }
        Ok(message.result.unwrap_or_default())
    }
}

/// A device is busy until this is dropped. If the task has not ended by then, the service is told that it need not go
/// on.
struct BusyGuard<'a> {
    link: &'a DeviceLink,
    live: &'a Live,
    session_id: String,
    ended: bool,
}

impl<'a> BusyGuard<'a> {
    fn new(link: &'a DeviceLink, live: &'a Live, task_id: String, session_id: String) -> Self {
        locked(&link.profile).current_task_id = Some(task_id);
        link.set_state(DeviceState::Busy);
        Self {
            link,
            live,
            session_id,
            ended: false,
        }
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        *locked(&self.live.unaccepted) = None;
        // A connection that was lost meanwhile has its state already.
        let stands = locked(&self.link.live).is_some();
        locked(&self.link.profile).current_task_id = None;
        if !stands {
            return;
        }
        self.link.set_state(DeviceState::Idle);
        let runtime = tokio::runtime::Handle::try_current();
        if let (false, Ok(runtime)) = (self.ended, runtime) {
            let message = ClientMessage {
                session_id: Some(std::mem::take(&mut self.session_id)),
                ..self
                    .link
                    .message(ClientMessageType::TaskEnd, MessageStatus::Failed)
            };
            let outbox = self.live.outbox.clone();
            runtime.spawn(async move { outbox.send(message).await });
        }
    }
}
