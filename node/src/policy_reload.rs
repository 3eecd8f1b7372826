//! The rules while the daemon runs: read again on SIGHUP and when the file has changed, checked, and only then put in
//! place of the old ones. A file that is wrong changes nothing, and says so in the log and in the health of `policy`.
//! Neither does one that is gone, or from which everything is gone that kept anybody out, unless SIGHUP says that it is
//! meant: a file that is being written may look so.
//!
//! Everything else in the file takes effect at the next start.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use agentanycast_core::Engine;
use agentanycast_core::policy::{PolicyRules, audit::ReopenHandle};
use agentanycast_daemon_kit::{file_version::FileVersion, service_manager};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::{
    config::{self, Config, TrustMode},
    identity_resolver::ResolverHandle,
    load_config::{self, LoadedConfig, policy_rules},
};

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why the file is read again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReloadCause {
    /// It has changed.
    Changed,
    /// By SIGHUP.
    Asked,
}

/// Keeps the rules as the file says.
pub(crate) struct PolicyReload {
    /// As the process was started.
    args: Vec<OsString>,
    hangup: Signal,
    file: Option<PathBuf>,
    /// The file that was read, and the one at the last look.
    seen: Option<FileVersion>,
    looked_at: Option<FileVersion>,
    /// The settings that are in force.
    policy: config::PolicyConfig,
    /// Those of the audit log, as they were at the start.
    audit_settings: config::PolicyConfig,
    /// All settings but those of the policy, as they were at the start.
    other_settings: Box<Config>,
    audit: Option<ReopenHandle>,
    /// Why the rules are not what the file says.
    trouble: watch::Sender<Option<String>>,
}

impl PolicyReload {
    /// Of a process with these arguments and settings. From here on SIGHUP does nothing else.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(
        args: Vec<OsString>,
        config: &Config,
        audit: Option<ReopenHandle>,
    ) -> std::io::Result<Self> {
        let (file, _) = load_config::reload(&args);
        let seen = file.as_deref().and_then(FileVersion::of);
        Ok(Self {
            args,
            hangup: signal(SignalKind::hangup())?,
            seen,
            looked_at: seen,
            file,
            policy: config.policy.clone(),
            audit_settings: of_audit(&config.policy),
            other_settings: Box::new(without_policy(config.clone())),
            audit,
            trouble: watch::Sender::new(None),
        })
    }

    /// Why the rules are not what the file says, from now on.
    pub(crate) fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// Runs until the engine takes no more calls.
    pub(crate) async fn run(mut self, engine: Engine, ear: ResolverHandle) {
        let mut look = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                Some(()) = self.hangup.recv() => {
                    if let Some(audit) = &self.audit {
                        audit.reopen();
                    }
                    service_manager::reloading();
                    self.seen = self.file.as_deref().and_then(FileVersion::of);
                    self.read(&engine, &ear, ReloadCause::Asked).await;
                    service_manager::ready();
                }
                _ = look.tick() => {
                    let now = self.file.as_deref().and_then(FileVersion::of);
                    // The same at two looks: nobody is writing it.
                    if now != self.seen && now == self.looked_at {
                        self.seen = now;
                        self.read(&engine, &ear, ReloadCause::Changed).await;
                    }
                    self.looked_at = now;
                }
                () = engine.stopped() => return,
            }
        }
    }

    async fn read(&mut self, engine: &Engine, ear: &ResolverHandle, cause: ReloadCause) {
        let (file, loaded) = load_config::reload(&self.args);
        self.file = file;
        let trouble = match loaded {
            Ok(LoadedConfig::Run { config, .. }) => {
                let doubt = self.doubt(&config.policy, cause);
                match doubt {
                    None => self.put(engine, ear, *config).await.err(),
                    doubt => doubt,
                }
            }
            Ok(_) => return, // The process was not started to run.
            // A file that was named, and is not there: without it nothing of it can be meant.
            Err(error) if self.file.is_some() && self.seen.is_none() => Some(format!(
                "{error}; put it back, or an empty one and send SIGHUP if no rules are meant"
            )),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = &trouble {
            tracing::error!(error, "the settings cannot be used; the old rules stay");
        }
        self.trouble.send_replace(trouble);
    }

    /// Why a file that has changed is not believed to say what is meant.
    fn doubt(&self, policy: &config::PolicyConfig, cause: ReloadCause) -> Option<String> {
        if cause == ReloadCause::Asked {
            return None;
        }
        let file = self.file.as_deref()?.display();
        if self.seen.is_none() {
            return Some(format!(
                "{file} is gone; put it back, or send SIGHUP if that is meant"
            ));
        }
        let is_open = |policy: &config::PolicyConfig| policy.trust == TrustMode::Open;
        let what = if policy.acl.is_empty() && !self.policy.acl.is_empty() {
            "has no rules any more"
        } else if is_open(policy) && !is_open(&self.policy) {
            "trusts everybody now, by policy.trust"
        } else {
            return None;
        };
        Some(format!("{file} {what}; send SIGHUP if that is meant"))
    }

    async fn put(&mut self, engine: &Engine, ear: &ResolverHandle, config: Config) -> Result<(), String> {
        let policy = config.policy.clone();
        if without_policy(config) != *self.other_settings {
            tracing::warn!("settings besides [policy] have changed; they take effect at the next start");
        }
        if of_audit(&policy) != self.audit_settings {
            tracing::warn!("settings of the audit log have changed; they take effect at the next start");
        }
        let rules =
            policy_rules(&policy).map_err(|bad| format!("{}: {:?} is not allowed", bad.key, bad.value))?;
        warn_of_mistakes(&rules);
        let (count, asks) = (rules.acl.rules.len(), rules.required_proofs());
        engine.set_rules(rules).await.map_err(|error| error.to_string())?;
        ear.set_required(asks);
        tracing::info!(
            rules = count,
            trust = policy.trust.word(),
            "the policy was read again"
        );
        self.policy = policy;
        Ok(())
    }
}

/// The settings of which none is taken over while the daemon runs.
fn without_policy(config: Config) -> Config {
    Config {
        policy: config::PolicyConfig::default(),
        ..config
    }
}

/// The settings of the policy of which none is taken over while the daemon runs.
fn of_audit(policy: &config::PolicyConfig) -> config::PolicyConfig {
    config::PolicyConfig {
        audit_log_path: policy.audit_log_path.clone(),
        audit_chain: policy.audit_chain,
        audit_sync: policy.audit_sync,
        audit_required: policy.audit_required,
        ..config::PolicyConfig::default()
    }
}

/// Says so when the rules hardly mean what they say: no other node or not even this node's own agent may send anything,
/// or a pattern takes in domains of strangers.
pub(crate) fn warn_of_mistakes(rules: &PolicyRules) {
    for pattern in rules.wildcard_domains() {
        tracing::warn!(
            "the pattern {pattern:?} of the policy also stands for domains that only begin so, which anybody may have; \
             name the domain, and in a pattern of its own what is below it, with \":*\""
        );
    }
    if rules.is_closed() {
        tracing::warn!(
            "no other node may send tasks here: policy.trust keeps out whoever is not listed, and nobody is; name peers in \
             policy.trusted_peers, or with trust = \"known\" issuers of credentials in policy.trusted_issuers"
        );
    }
    if !rules.may_local_send() {
        tracing::warn!(
            "no rule lets this node's own agent send tasks; add one with source = \"local\" if it shall"
        );
    }
}
