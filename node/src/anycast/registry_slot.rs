//! One registry that this node asks. Used by the search, and by the task that keeps the local agent registered.
//!
//! A registry that the settings name stays where it is. One that is only looked for beside a bootstrap relay
//! moves to where the relay says. Invariant: of the same slot, one client at a time is handed out as the current one.

use std::sync::{Arc, Mutex, PoisonError};

use agentanycast_identity::Keypair;
use agentanycast_net::{self as net, RelayAnswers, ReservationState, duplicate_key::DuplicateKeyReports};
use tokio::sync::watch;

use super::{
    InvalidRegistry,
    registry_client::RegistryClient,
    registry_location::{BootstrapRegistry, RegistryLocation},
    request_signing::SigningTimes,
};

/// Where a registry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrySource {
    /// The settings name it: `HOST:PORT` or a URL.
    Named(String),
    /// It may be beside this bootstrap peer.
    Beside(BootstrapRegistry),
}

/// What each client of the slot is made with.
pub(super) struct ClientParts {
    pub(super) key: Keypair,
    pub(super) other_daemons: DuplicateKeyReports,
    /// The slot's place among all registries, and how many there are.
    pub(super) place: (usize, usize),
}

/// See the module's text.
pub(super) struct RegistrySlot {
    source: RegistrySource,
    parts: ClientParts,
    client: watch::Sender<Arc<RegistryClient>>,
    /// What the relay said last.
    told: Mutex<Option<RegistryLocation>>,
}

impl ClientParts {
    fn client(&self, address: &str) -> Result<RegistryClient, InvalidRegistry> {
        let times = SigningTimes::new(self.place.0, self.place.1);
        RegistryClient::new(address, self.key.clone(), times, self.other_daemons.clone())
    }
}

impl RegistrySlot {
    /// # Errors
    /// When the address that the settings name is not that of a registry.
    pub(super) fn new(source: RegistrySource, parts: ClientParts) -> Result<Self, InvalidRegistry> {
        let client = match &source {
            RegistrySource::Named(address) => parts.client(address)?,
            RegistrySource::Beside(bootstrap) => parts.client(&bootstrap.guess())?,
        };
        Ok(Self {
            source,
            parts,
            client: watch::Sender::new(Arc::new(client)),
            told: Mutex::new(None),
        })
    }

    /// The client of where the registry is now.
    pub(super) fn client(&self) -> Arc<RegistryClient> {
        Arc::clone(&self.client.borrow())
    }

    /// The same, and whenever it changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<RegistryClient>> {
        self.client.subscribe()
    }

    /// Whether its place was looked for, not named.
    pub(super) fn is_beside_bootstrap(&self) -> bool {
        matches!(self.source, RegistrySource::Beside(_))
    }

    /// Whether it is only supposed to be there: the settings do not name it, its relay has not said anything,
    /// and it never answered.
    pub(super) fn is_guess(&self) -> bool {
        self.is_beside_bootstrap() && self.told().is_none() && !self.client.borrow().has_answered()
    }

    /// Whether it is beside a relay at which this node has a place, or may have one.
    pub(super) fn is_beside_relay(&self, net: &net::Handle) -> bool {
        let RegistrySource::Beside(bootstrap) = &self.source else {
            return false;
        };
        net.relays().iter().any(|relay| {
            let is_there = relay.state != ReservationState::Away;
            is_there && relay.relay.is_some() && (bootstrap.relay.is_none() || bootstrap.relay == relay.relay)
        })
    }

    /// Why it cannot be asked, as its relay says.
    pub(super) fn unreachable(&self) -> Option<String> {
        match self.told()? {
            RegistryLocation::At(_) => None,
            RegistryLocation::Unreachable(reason) => Some(reason),
        }
    }

    /// Relays have said where their registries are.
    pub(super) fn on_answers(&self, answers: &RelayAnswers) {
        let RegistrySource::Beside(bootstrap) = &self.source else {
            return;
        };
        let Some(told) = bootstrap.told(answers) else {
            return;
        };
        if self.told().as_ref() == Some(&told) {
            return;
        }
        match &told {
            RegistryLocation::At(address) if address != self.client.borrow().address() => {
                match self.parts.client(address) {
                    Ok(client) => {
                        tracing::info!(registry = address, "a relay says where its registry is");
                        self.set_told(told);
                        self.client.send_replace(Arc::new(client));
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(registry = address, %error, "a relay's registry cannot be asked");
                    }
                }
            }
            RegistryLocation::At(_) => {}
            RegistryLocation::Unreachable(reason) => {
                let registry = self.client().address().to_owned();
                tracing::warn!(registry, reason, "a relay's registry cannot be asked");
            }
        }
        self.set_told(told);
    }

    fn told(&self) -> Option<RegistryLocation> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_told(&self, told: RegistryLocation) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }
}
