//! The audit log as the engine's shell has it: what is handed to it, what has to wait for it, and whether the door has to
//! be shut since it cannot be written. The rule: where there is no log, none of this costs anything.

use tokio::sync::watch;

use crate::policy::audit::{Audit, AuditState, log_line::AuditEntry};

/// See the module's text.
#[derive(Default)]
pub(super) struct AuditGate {
    log: Option<Audit>,
    /// No new task is taken while the log cannot be written.
    required: bool,
    state: Option<watch::Receiver<AuditState>>,
}

impl AuditGate {
    pub(super) fn new(log: Option<Audit>, required: bool) -> Self {
        Self {
            state: log.as_ref().map(Audit::state),
            log,
            required,
        }
    }

    pub(super) fn is_there(&self) -> bool {
        self.log.is_some()
    }

    /// Waits until the log is doing otherwise. None: nobody tells any more.
    pub(super) async fn changed(&mut self) -> Option<()> {
        self.state.as_mut()?.changed().await.ok()
    }

    pub(super) fn submit(&mut self, entry: AuditEntry) {
        if let Some(log) = &mut self.log {
            log.submit(entry);
        }
    }

    /// Lines that have to be on the disk before the effects of a turn that ends now are let out.
    pub(super) fn required_line(&self) -> u64 {
        self.log.as_ref().map_or(0, Audit::awaited)
    }

    /// Whether they are, or cannot be.
    pub(super) fn is_durable(&self, awaited: u64) -> bool {
        awaited == 0 || self.log.as_ref().is_none_or(|log| log.passed(awaited))
    }

    /// Whether the door has to be shut; None: it is not this log's to say.
    pub(super) fn blocks_admission(&self) -> Option<bool> {
        let log = self.log.as_ref().filter(|_| self.required)?;
        Some(log.problem().is_some())
    }
}
