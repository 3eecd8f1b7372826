//! The clients that are connected, by id. Devices and constellations share the ids.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::entry::ClientEntry;
use crate::protocol::RegistrationRefusal;

pub(super) struct Registry {
    most: usize,
    clients: Mutex<BTreeMap<String, Arc<ClientEntry>>>,
}

impl Registry {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            clients: Mutex::default(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ClientEntry>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client.
    ///
    /// # Errors
    /// When its id is taken, or there are too many.
    pub(super) fn add(&self, entry: &Arc<ClientEntry>) -> Result<(), RegistrationRefusal> {
        let mut clients = self.clients();
        if clients.contains_key(entry.id()) {
            return Err(RegistrationRefusal::Duplicate {
                client_id: entry.id().to_owned(),
            });
        }
        if clients.len() >= self.most {
            let text = format!("{} clients are connected already; try again later", self.most);
            return Err(RegistrationRefusal::NotAdmitted(text));
        }
        clients.insert(entry.id().to_owned(), Arc::clone(entry));
        Ok(())
    }

    pub(super) fn contains(&self, client_id: &str) -> bool {
        self.clients().contains_key(client_id)
    }

    pub(super) fn get(&self, client_id: &str) -> Option<Arc<ClientEntry>> {
        self.clients().get(client_id).cloned()
    }

    /// A device that is connected and does not leave.
    pub(super) fn device(&self, device_id: &str) -> Option<Arc<ClientEntry>> {
        self.get(device_id)
            .filter(|entry| entry.is_device() && !entry.gone.is_cancelled())
    }

    /// Removes a client, unless its id is another connection's by now.
    pub(super) fn remove(&self, entry: &ClientEntry) {
        let mut clients = self.clients();
        if clients
            .get(entry.id())
            .is_some_and(|found| found.connection == entry.connection)
        {
            clients.remove(entry.id());
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<ClientEntry>> {
        self.clients().values().cloned().collect()
    }
}
