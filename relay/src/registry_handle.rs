//! The registry as the faces use it: behind a lock, with the time, the store, and a bell for those who tell others.
//!
//! The one rule: the lock is held for the work of one call on the table, never while anything is waited for.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast_identity::{Instance, rotation::Rotation};
use agentanycast_limits::{
    LogThrottle,
    rate::{Rate, Rates},
};
use agentanycast_proto::v1::{FederatedRegistration, RegistryProof};
use tokio::{sync::watch, time::Instant};

use crate::{
    clock::{Nanos, Now, nanos, now, since_start},
    clock_skew::{SignerClocks, WrongClock},
    metrics::Metrics,
    node_instances::InstanceTracker,
    registry::{
        ChangesPage, ChangesReader, MergeOutcome, Query, RecordSender, RegisteredAgent, RegistryCaller,
        RegistryError, RegistryLimits, RegistryStats, RemoteRecord, Search, SkillRegistry, Source,
        StoredRecord,
    },
    request_proofs::{self, BadProof, ReplayCache, RequestSignature},
    store::{Store, StoreError},
};

/// Records that are forgotten at a time, so that nobody waits long for the lock.
const EXPIRE_AT_ONCE: usize = 2000;

/// Sources whose requests are counted.
const SOURCES: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// How much of their rate may come at once.
const BURST: Duration = Duration::from_secs(10);

/// Addresses that are remembered of a relay; a name that resolves to more is cut off.
const MAX_RELAY_IPS: usize = 64;

/// A handle on the registry; clones are of the same one.
#[derive(Clone)]
pub struct Handle(Arc<HandleState>);

struct HandleState {
    relay_id: String,
    registry: RwLock<SkillRegistry>,
    limits: RegistryLimits,
    replays: Mutex<ReplayCache>,
    /// How far the clocks of those who signed something are from this one's.
    offsets: Mutex<SignerClocks>,
    /// Which runs of the agents' nodes have asked of late.
    instances: Mutex<InstanceTracker>,
    /// Requests of one source; None: no limit.
    rate: Option<Rate>,
    /// The same as a number.
    requests_per_ip: u64,
    /// Refusals at a limit, for the log.
    limited: Mutex<LogThrottle>,
    rates: Mutex<Rates<Source>>,
    seed: AtomicU64,
    store: Option<Store>,
    changed: watch::Sender<()>,
    metrics: Arc<Metrics>,
    /// Drawn at the start: cursors of another one mean nothing.
    epoch: u64,
    /// Where each relay is that we were told of.
    relays: RwLock<HashMap<String, Vec<IpAddr>>>,
}

/// Why a change was not made, or not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The registry refuses.
    #[error(transparent)]
    Refused(#[from] RegistryError),
    /// It could not be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a push came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// Records that were taken in, or were here.
    pub accepted: usize,
    /// Records that were refused.
    pub rejected: usize,
}

impl Handle {
    /// Around a registry of the relay with this id, with what the store has brought back.
    pub fn new(
        me: &str,
        registry: SkillRegistry,
        store: Option<Store>,
        rate: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        crate::clock::begin();
        let limits = registry.limits().clone();
        Self(Arc::new(HandleState {
            relay_id: me.to_owned(),
            registry: RwLock::new(registry),
            replays: Mutex::new(ReplayCache::new(limits.per_source, limits.ttl)),
            offsets: Mutex::default(),
            instances: Mutex::new(InstanceTracker::new(nanos(limits.ttl))),
            limits,
            rate: Rate::new(rate as f64, BURST),
            requests_per_ip: rate,
            limited: Mutex::default(),
            rates: Mutex::new(Rates::new(SOURCES)),
            seed: AtomicU64::new(rand::random()),
            store,
            changed: watch::Sender::new(()),
            metrics,
            epoch: rand::random_range(1..=u64::MAX),
            relays: RwLock::default(),
        }))
    }

    /// The relay's id.
    pub fn me(&self) -> &str {
        &self.0.relay_id
    }

    /// What cursors into the changes belong to.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Notes where a relay is that we were told of by this name, and that it is nowhere else any more: what it pushes
    /// does not count as a stranger's.
    pub fn relay_is_at(&self, name: &str, ips: impl IntoIterator<Item = IpAddr>) {
        let ips = ips.into_iter().map(|ip| ip.to_canonical()).take(MAX_RELAY_IPS);
        let ips: Vec<IpAddr> = ips.collect();
        let mut relays = self.0.relays.write().unwrap_or_else(PoisonError::into_inner);
        relays.insert(name.to_owned(), ips);
    }

    /// Where a relay is that we were told of by this name, as far as that is known.
    pub fn relay_at(&self, name: &str) -> Option<IpAddr> {
        let relays = self.0.relays.read().unwrap_or_else(PoisonError::into_inner);
        relays.get(name)?.first().copied()
    }

    /// Whether a relay that we were told of is at this address.
    pub fn knows_relay_at(&self, ip: IpAddr) -> bool {
        let relays = self.0.relays.read().unwrap_or_else(PoisonError::into_inner);
        relays.values().any(|ips| ips.contains(&ip.to_canonical()))
    }

    /// The bounds.
    pub fn limits(&self) -> &RegistryLimits {
        &self.0.limits
    }

    /// The figures.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Whether `source` may make one more request, or one that costs as much as several.
    pub fn may_ask(&self, source: Source, cost: u64) -> bool {
        let Some(rate) = self.0.rate else {
            return true;
        };
        let mut rates = self.0.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let may = rates.take(now().passed, source, rate, cost);
        drop(rates);
        if !may {
            self.at_limit("requests_per_ip", Some(source));
        }
        may
    }

    /// Requests a second that one address may make.
    pub fn requests_per_ip(&self) -> u64 {
        self.0.requests_per_ip
    }

    /// Counts that something was refused at a limit that whoever runs this relay has set.
    fn at_limit(&self, setting: &'static str, source: Option<Source>) {
        Metrics::refused(&self.0.metrics.limited, setting);
        let mut limited = self.0.limited.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unsaid) = limited.allow(Instant::now()) {
            let source = source.map(|source| source.to_string()).unwrap_or_default();
            tracing::warn!(
                limit = setting,
                source,
                unsaid,
                "the registry refused a request at a limit"
            );
        }
    }

    /// The same of what an operation came to.
    fn limited<T>(
        &self,
        source: Option<Source>,
        outcome: Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        if let Some(setting) = outcome.as_ref().err().and_then(RegistryError::setting) {
            self.at_limit(setting, source);
        }
        outcome
    }

    /// Checks and counts the signature of a request from `source`.
    ///
    /// # Errors
    /// See [`BadProof`].
    pub fn prove(
        &self,
        source: Option<Source>,
        signature: RequestSignature<'_>,
    ) -> Result<RegistryProof, BadProof> {
        let now = now();
        let signed_ms = signature.statement.time_ms;
        // The costly part is done before the locks are taken.
        match request_proofs::check(now, since_start(now), signature) {
            Ok(checked) => {
                let mut seen = self.0.replays.lock().unwrap_or_else(PoisonError::into_inner);
                let proof = seen.count(now.passed, source, checked)?;
                drop(seen);
                self.note_clock(now, source, signed_ms);
                Ok(proof)
            }
            Err(BadProof::ClockSkew {
                signed_ms, now_ms, ..
            }) => Err(BadProof::ClockSkew {
                signed_ms,
                now_ms,
                suspect: self.note_clock(now, source, signed_ms),
            }),
            Err(bad) => Err(bad),
        }
    }

    /// Notes by which clock a source has signed; whose clock is wrong, as far as all sources tell.
    fn note_clock(&self, now: Now, source: Option<Source>, signed_ms: u64) -> WrongClock {
        let Some(source) = source else {
            return WrongClock::Unknown;
        };
        let mut offsets = self.0.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.note(now, source, signed_ms)
    }

    /// How far this relay's wall clock is wrong, in seconds, where most of those say so who signed something;
    /// less than zero where it is behind.
    pub fn clock_error(&self) -> Option<i64> {
        let mut offsets = self.0.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        offsets.own_error(now())
    }

    /// See [`SkillRegistry::register`]; returns once it is written down, where there is a store.
    ///
    /// # Errors
    /// When it is refused; when it cannot be written down, it may come back or not after a restart.
    pub async fn register(
        &self,
        agent: RegisteredAgent,
        caller: RegistryCaller,
    ) -> Result<Nanos, HandleError> {
        let peer = agent.peer.clone();
        let source = caller.source;
        let outcome = self.write().register(now(), agent, caller);
        let expires = self.limited(source, outcome)?;
        self.changed(&peer).await?;
        Ok(expires)
    }

    /// A run of `peer` has asked, and has proven that it is the peer: the other run that asks too.
    pub fn note_instance(&self, peer: &str, run: Instance) -> Option<Instance> {
        let mut instances = self.0.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let double = instances.note_request(now().passed, peer, run)?;
        drop(instances);
        if double.is_new {
            tracing::warn!(
                peer, instances = ?[double.other, run],
                "several daemons run with the key of this agent's node: its tasks go to any of them; both are told"
            );
        }
        Some(double.other)
    }

    /// See [`SkillRegistry::unregister`]; returns once it is written down, where there is a store.
    ///
    /// # Errors
    /// As [`Handle::register`].
    pub async fn unregister(
        &self,
        peer: &str,
        skills: &[String],
        caller: RegistryCaller,
    ) -> Result<(), HandleError> {
        let source = caller.source;
        let outcome = self.write().unregister(now(), peer, skills, caller);
        self.limited(source, outcome)?;
        Ok(self.changed(peer).await?)
    }

    /// See [`SkillRegistry::supersede`]; returns once it is written down, where there is a store.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn supersede(&self, by: &Rotation) -> Result<(), HandleError> {
        self.write().supersede(now(), by)?;
        Ok(self.changed(&by.old().to_string()).await?)
    }

    /// See [`SkillRegistry::heartbeat`]. It is written down a little later: a crash may cost an entry a third of its
    /// life.
    ///
    /// # Errors
    /// When it is refused.
    pub fn heartbeat(&self, peer: &str, caller: RegistryCaller) -> Result<Nanos, RegistryError> {
        let expires = self.write().heartbeat(now(), peer, caller)?;
        if let Some(store) = &self.0.store {
            store.mark(peer);
        }
        self.0.changed.send_replace(());
        Ok(expires)
    }

    /// See [`SkillRegistry::places_of`].
    pub fn places_of(&self, peer: &str) -> usize {
        self.read().places_of(peer)
    }

    /// Begins to search, and looks at nothing yet.
    pub fn search<'a>(&self, query: Query<'a>) -> Search<'a> {
        Search::new(query, self.0.seed.fetch_add(1, Relaxed))
    }

    /// See [`SkillRegistry::search`].
    pub fn continue_search(&self, search: &mut Search<'_>) -> Option<Vec<u8>> {
        self.read().search(now(), search)
    }

    /// Takes in what another relay says.
    pub fn merge(&self, told: Vec<FederatedRegistration>, by: RecordSender<'_>) -> PushOutcome {
        let mut taken = PushOutcome::default();
        let mut is_new = false;
        for told in told {
            // Signatures are checked before the lock is taken.
            let incoming = RemoteRecord::from_registration(told, now().wall, self.0.limits.ttl, by);
            let peer = incoming.agent.peer.clone();
            let outcome = self.write().merge(now(), incoming);
            match outcome {
                Ok(merged) => {
                    taken.accepted += 1;
                    is_new |= merged != MergeOutcome::Unchanged;
                    if merged == MergeOutcome::Corrected
                        && let Some(store) = &self.0.store
                    {
                        store.mark(&peer);
                    }
                }
                Err(refused) => {
                    taken.rejected += 1;
                    self.0.metrics.records_refused.inc();
                    if let Some(setting) = refused.setting() {
                        self.at_limit(setting, by.source);
                    }
                    tracing::debug!(relay = by.via.map_or("", |relay| relay), %refused, "a record of another relay was refused");
                }
            }
        }
        if is_new {
            self.0.changed.send_replace(());
        }
        taken
    }

    /// See [`SkillRegistry::changes`].
    pub fn changes(&self, since: u64, most: usize, reader: ChangesReader<'_>) -> ChangesPage {
        self.read().changes(now(), since, most, reader)
    }

    /// Tells of every change, several at once as one.
    pub fn subscribe_changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// The figures of the table.
    pub fn stats(&self) -> RegistryStats {
        self.read().stats()
    }

    /// Forgets what has expired.
    pub fn expire(&self) {
        loop {
            let (count, before, figures, forgotten) = {
                let mut registry = self.write();
                let before = registry.evicted();
                let count = registry.expire(now(), EXPIRE_AT_ONCE);
                (count, before, registry.stats(), registry.take_forgotten())
            };
            if let Some(store) = &self.0.store {
                for peer in forgotten {
                    store.mark(&peer);
                }
            }
            self.0.metrics.table(&figures, before + count as u64);
            if count < EXPIRE_AT_ONCE {
                break;
            }
        }
    }

    /// A record of this relay for the store.
    pub fn stored(&self, peer: &str) -> Option<StoredRecord> {
        self.read().stored(now(), peer)
    }

    /// All peers that have a record of this relay, for the store.
    pub fn own_peers(&self) -> Vec<String> {
        self.read().own_peers()
    }

    /// The last version that was given, for the store.
    pub fn last_version(&self) -> Nanos {
        self.read().last_version()
    }

    /// The store, where there is one.
    pub fn store(&self) -> Option<&Store> {
        self.0.store.as_ref()
    }

    async fn changed(&self, peer: &str) -> Result<(), StoreError> {
        self.0.changed.send_replace(());
        match &self.0.store {
            Some(store) => {
                let batch = store.mark(peer);
                store.written(batch).await
            }
            None => Ok(()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, SkillRegistry> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SkillRegistry> {
        self.0.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
