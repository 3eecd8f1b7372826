//! Ends clients that are silent, and tasks that take too long. One task of a service.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{DeviceService, Shared, sessions::EndCause};
use crate::resilience::{DeadlineTable, HeartbeatTable};

struct Tables {
    heard: HeartbeatTable,
    deadlines: DeadlineTable<String>,
}

pub(super) struct Sweeper {
    tables: Mutex<Tables>,
    earlier: Arc<Notify>,
}

impl Sweeper {
    pub(super) fn new(silence: Duration) -> Self {
        Self {
            tables: Mutex::new(Tables {
                heard: HeartbeatTable::new(silence),
                deadlines: DeadlineTable::default(),
            }),
            earlier: Arc::default(),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client was heard.
    pub(super) fn heard(&self, client_id: &str) {
        let mut tables = self.tables();
        let first = tables.heard.last_heard(client_id).is_none();
        tables.heard.heard(client_id, Instant::now());
        if first {
            self.earlier.notify_one();
        }
    }

    /// A client has left.
    pub(super) fn forget(&self, client_id: &str) {
        self.tables().heard.remove(client_id);
    }

    /// A task may take this long.
    pub(super) fn limit(&self, session_id: &str, within: Duration) {
        self.tables()
            .deadlines
            .set(session_id.to_owned(), Instant::now() + within);
        self.earlier.notify_one();
    }

    /// A task has ended.
    pub(super) fn ended(&self, session_id: &str) {
        self.tables().deadlines.remove(&session_id.to_owned());
    }
}

/// Sweeps while the service is there.
pub(super) fn spawn(service: &DeviceService) {
    let shared = Arc::downgrade(&service.0);
    let earlier = Arc::clone(&service.0.sweeper.earlier);
    tokio::spawn(
        service
            .0
            .stop
            .clone()
            .run_until_cancelled_owned(sweep(shared, earlier)),
    );
}

async fn sweep(shared: Weak<Shared>, earlier: Arc<Notify>) {
    /// How long it sleeps at most, so that it ends with its service.
    const LONGEST: Duration = Duration::from_secs(30);
    loop {
        let until = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            sweep_once(&shared)
        };
        let latest = Instant::now() + LONGEST;
        let until = until.map_or(latest, |until| until.min(latest));
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = earlier.notified() => {}
        }
    }
}

/// Ends what has to end now; gives when to look again.
fn sweep_once(shared: &Shared) -> Option<Instant> {
    let now = Instant::now();
    let mut tables = shared.sweeper.tables();
    for client_id in tables.heard.take_gone(now) {
        let Some(entry) = shared.registry.get(&client_id) else {
            continue;
        };
        if entry.commands.is_empty() {
            tracing::info!(client_id, "a client of AIP is silent and loses its connection");
            entry.gone.cancel();
        } else {
            // Devices of upstream say nothing while they execute; the time-out of the command counts.
            tables.heard.heard(&client_id, now);
        }
    }
    while let Some(session_id) = tables.deadlines.take_passed(now) {
        shared.sessions.end(&session_id, EndCause::TimedOut);
    }
    let next = [tables.heard.next_gone(), tables.deadlines.next()];
    next.into_iter().flatten().min()
}
