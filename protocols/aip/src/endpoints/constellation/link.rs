//! The connection of a constellation to one device's service.

mod assignment;
mod incoming;

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

use super::{AgentProfile, AssignError, ConstellationEvent, ConstellationSettings, DeviceEntry, DeviceState};
use crate::{
    endpoints::error::{ClientError, register},
    messages::{
        ClientMessage, ClientMessageType, ClientRole, JsonObject, MessageStatus, ServerMessage,
        ServerMessageType, timestamp_now,
    },
    protocol::{AipProtocol, Connection, MOST_PENDING, Outbox, PendingReplies, Registration},
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
    /// Why the last connection was not made or ended.
    failure: Mutex<Option<String>>,
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
            failure: Mutex::default(),
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

    pub(super) fn not_connected(&self) -> AssignError {
        AssignError::NotConnected {
            device_id: self.device.device_id.clone(),
            reason: locked(&self.failure).clone(),
        }
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
            schedule.lost(tokio::time::Instant::now());
            *locked(&self.failure) = ended.as_ref().err().map(ToString::to_string);
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
        schedule.connected(tokio::time::Instant::now());
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

    pub(super) async fn device_info(&self) -> Result<Value, AssignError> {
        let live = locked(&self.live).clone();
        let live = live.ok_or_else(|| self.not_connected())?;
        self.ask(&live).await
    }

    async fn ask(&self, live: &Live) -> Result<Value, AssignError> {
        let id = || self.device.device_id.clone();
        let request_id = format!("device_info_{}_{}", self.device.device_id, uuid::Uuid::new_v4());
        let waiting = live.infos.open(&request_id);
        let mut waiting = waiting.map_err(|_| self.not_connected())?;
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
