//! A client that is connected.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{TaskOutcome, device_turn::DeviceTurns};
use crate::{
    messages::{ClientMessage, ClientRole, JsonObject},
    protocol::{MOST_PENDING, Outbox, PendingReplies, Registration},
};

/// Who a client is to its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCaller {
    /// The name that the transport knows it by, such as that of its token.
    pub name: String,
    /// The only id that it may register, where its credentials are for one.
    pub client_id: Option<String>,
    /// It may be anybody.
    pub is_stranger: bool,
}

/// A client of a service, as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectedClient {
    /// Its id.
    pub client_id: String,
    /// What it is.
    pub role: ClientRole,
    /// The device that a constellation is for.
    pub target_id: Option<String>,
    /// What it said about itself when it registered, and later.
    pub metadata: JsonObject,
}

/// What a device said about itself.
pub(super) struct CachedInfo {
    pub(super) info: Option<Value>,
    pub(super) at: Instant,
    /// It was asked and did not answer: programs of upstream never do.
    pub(super) never_answers: bool,
}

/// A task that a device was given, and has not taken up yet.
pub(super) struct Dispatch {
    pub(super) session_id: String,
    pub(super) outcome: oneshot::Sender<TaskOutcome>,
}

/// A client that is connected.
pub(super) struct ClientEntry {
    /// Tells the connections of one client id apart.
    pub(super) connection: u64,
    pub(super) registration: Registration,
    pub(super) caller: Option<ClientCaller>,
    pub(super) outbox: Outbox,
    /// COMMANDs that wait for results.
    pub(super) commands: PendingReplies<ClientMessage>,
    /// DEVICE_INFO_REQUESTs that wait.
    pub(super) infos: PendingReplies<Value>,
    info: Mutex<CachedInfo>,
    dispatches: Mutex<HashMap<String, Dispatch>>,
    /// A device carries one task out at a time.
    pub(super) turns: DeviceTurns,
    /// Files go one after another.
    pub(super) files: tokio::sync::Mutex<()>,
    /// The connection ends, or has ended.
    pub(super) gone: CancellationToken,
}

impl ClientEntry {
    pub(super) fn new(
        connection: u64,
        (registration, caller): (Registration, Option<ClientCaller>),
        outbox: Outbox,
        gone: CancellationToken,
    ) -> Self {
        let info = registration.metadata.get("system_info").cloned();
        Self {
            connection,
            registration,
            caller,
            outbox,
            commands: PendingReplies::new(MOST_PENDING),
            infos: PendingReplies::new(MOST_PENDING),
            info: Mutex::new(CachedInfo {
                info,
                at: Instant::now(),
                never_answers: false,
            }),
            dispatches: Mutex::default(),
            turns: DeviceTurns::default(),
            files: tokio::sync::Mutex::default(),
            gone,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.registration.client_id
    }

    pub(super) fn is_device(&self) -> bool {
        self.registration.role == ClientRole::Device
    }

    pub(super) fn info(&self) -> MutexGuard<'_, CachedInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dispatches(&self) -> MutexGuard<'_, HashMap<String, Dispatch>> {
        self.dispatches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn summary(&self) -> ConnectedClient {
        let mut metadata = self.registration.metadata.clone();
        if let Some(info) = self.info().info.clone() {
            metadata.insert("system_info".to_owned(), info);
        }
        ConnectedClient {
            client_id: self.registration.client_id.clone(),
            role: self.registration.role,
            target_id: self.registration.target_id.clone(),
            metadata,
        }
    }

    /// The connection has ended: no request gets a reply any more.
    pub(super) fn close(&self) {
        self.gone.cancel();
        self.commands.close();
        self.infos.close();
        self.dispatches().clear();
    }
}
