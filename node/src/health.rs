//! How the daemon is doing besides its work: whether the rules are those of the file, whether decisions can
//! be written down, whether a store was lost, whether others can find all that the agent's card says, whether
//! another daemon runs with the key, whether the agents of the settings are served, whether figures are
//! shown. Told by gRPC health, `/health`, and `anycast status`.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use agentanycast_core::policy::audit;
use agentanycast_net::duplicate_key::DuplicateKeyReports;
use agentanycast_store::disk;
use tokio::sync::watch;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{agent_programs::AgentPrograms, anycast::UndiscoverableParts};

/// Names under which gRPC health tells how policy and audit log are doing, besides that of NodeService.
const POLICY: &str = "policy";
const AUDIT: &str = "audit";

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Health {
    /// Why the rules are not what the file says.
    pub(crate) policy: watch::Receiver<Option<String>>,
    /// How the audit log is doing, if there is one.
    pub(crate) audit: Option<watch::Receiver<audit::AuditState>>,
    /// Where the store is.
    pub(crate) store: PathBuf,
    /// What of the local agent's card others cannot find.
    pub(crate) card: watch::Receiver<UndiscoverableParts>,
    /// Whether another daemon runs with the key.
    pub(crate) other_daemons: DuplicateKeyReports,
    /// What serves the agents.
    pub(crate) programs: AgentPrograms,
    /// Why figures are not shown, where they were to be.
    pub(crate) metrics: Arc<OnceLock<String>>,
}

impl Health {
    /// What does not work as it should, a line each; tasks go on.
    pub(crate) fn problems(&self) -> Vec<String> {
        let rules = self.policy.borrow().clone();
        let rules = rules.map(|why| format!("the settings cannot be used, and the old rules stay: {why}"));
        let audit = self
            .audit
            .as_ref()
            .and_then(|audit| audit.borrow().any_problem().map(str::to_owned));
        let lost = disk::moved_aside(&self.store).into_iter().map(|place| {
            format!(
                "a damaged store was moved to {}, and what was in it is not known here; take out of it what can be saved, \
                 then remove it",
                place.display()
            )
        });
        let unfindable = self.card.borrow().sentences();
        rules
            .into_iter()
            .chain(audit)
            .chain(lost)
            .chain(unfindable)
            .chain(self.other_daemons.problem())
            .chain(self.programs.problems())
            .chain(self.metrics.get().cloned())
            .collect()
    }

    /// Tells it, until nobody knows any more.
    pub(crate) async fn tell(&mut self, health: &HealthReporter) {
        let status = |is_well| {
            if is_well {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            }
        };
        let policy = async {
            loop {
                let is_well = self.policy.borrow_and_update().is_none();
                health.set_service_status(POLICY, status(is_well)).await;
                if self.policy.changed().await.is_err() {
                    return;
                }
            }
        };
        let audit = async {
            let Some(audit) = &mut self.audit else { return };
            loop {
                let is_well = audit.borrow_and_update().any_problem().is_none();
                health.set_service_status(AUDIT, status(is_well)).await;
                let changed = audit
                    .wait_for(|state| state.any_problem().is_none() != is_well)
                    .await;
                if changed.is_err() {
                    return;
                }
            }
        };
        tokio::join!(policy, audit);
    }
}
