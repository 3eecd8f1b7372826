//! Telling other relays and asking them: one task for each, so that none waits for another.
//!
//! What changes here is pushed, gathered for a quarter of a second; what changed there is pulled at the start and then
//! every interval. Both go by a cursor that moves with an answer only ([`SyncCursor`]), so nothing is left out, whatever
//! fails. The one rule: a relay that fails costs the others nothing, and one that fails one way goes on the other way.

use std::{
    error::Error as _,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentanycast_daemon_kit::error_chain::in_one_line;
use agentanycast_identity::proof::RELAY_KEY;
use agentanycast_proto::{
    bounded_decode::{self, DecodeBound},
    decoded_size::MessageKind,
    v1::{
        PushRegistrationsRequest, SyncRegistrationsRequest, SyncRegistrationsResponse,
        federation_service_client::FederationServiceClient,
    },
};
use prost::Message as _;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Status,
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};

use super::{
    health::SyncHealth,
    sync_cursor::{PAGE, PageOutcome, SyncCursor},
};
use crate::{
    clock::{Nanos, now},
    metrics::seconds,
    registry::{ChangesReader, RecordSender, nanos_of, timestamp},
    registry_handle::Handle,
};

/// How long a call may take (the contract's figure).
const DEADLINE: Duration = Duration::from_secs(5);

/// How long changes are gathered before they are pushed: four pushes a second at most, well within the second that the
/// contract gives.
const PUSH_DEBOUNCE: Duration = Duration::from_millis(250);

/// Pages in one go; then others have their turn.
const MAX_PAGES: usize = 200;

/// Characters of a failure that are shown.
const MAX_REASON_CHARS: usize = 400;

/// The call that pulls.
const SYNC: &str = "/agentanycast.v1.FederationService/SyncRegistrations";

/// Largest page that is read: 8 MiB, and decoded 64 MiB.
const PAGE_BOUND: DecodeBound = DecodeBound {
    kind: MessageKind::Synced,
    elements: 1 << 19,
    bytes: 8 << 20,
};

/// What is known of one relay, for those who want to see it.
#[derive(Clone, Debug, Default)]
pub struct FederationPeer {
    /// `HOST:PORT`, as it was given.
    pub address: String,
    /// Its id, once it has told it.
    pub relay: String,
    /// How pulling from it does.
    pub pulls: SyncHealth,
    /// How pushing to it does.
    pub pushes: SyncHealth,
    /// Records that it has given us, and that we have given it, since the start.
    pub pulled: u64,
    /// See `pulled`.
    pub pushed: u64,
    /// When it answered last, by the wall clock.
    pub last_answer: Option<Nanos>,
}

impl FederationPeer {
    /// How it does: the worse of both ways.
    pub fn health(&self) -> &SyncHealth {
        if self.pushes.is_failing() && !self.pulls.is_failing() {
            &self.pushes
        } else {
            &self.pulls
        }
    }

    fn health_of(&mut self, way: SyncDirection) -> &mut SyncHealth {
        match way {
            SyncDirection::Pull => &mut self.pulls,
            SyncDirection::Push => &mut self.pushes,
        }
    }
}

/// Which way records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncDirection {
    Pull,
    Push,
}

/// All other relays that we were told of, by their places; clones see the same ones. None: it was this relay itself.
#[derive(Clone, Debug, Default)]
pub struct FederationPeers(Arc<Mutex<Vec<Option<FederationPeer>>>>);

impl FederationPeers {
    /// How they are now.
    pub fn all(&self) -> Vec<FederationPeer> {
        self.lock().iter().flatten().cloned().collect()
    }

    /// That one is none.
    fn leave_out(&self, place: usize) {
        if let Some(peer) = self.lock().get_mut(place) {
            *peer = None;
        }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut FederationPeer)) {
        if let Some(Some(peer)) = self.lock().get_mut(place) {
            change(peer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<FederationPeer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to sync with each of these addresses, `HOST:PORT`.
pub fn start(
    handle: &Handle,
    addresses: &[String],
    interval: Duration,
    stop: &CancellationToken,
) -> (FederationPeers, Vec<JoinHandle<()>>) {
    let peers = addresses.iter().map(|address| {
        Some(FederationPeer {
            address: address.clone(),
            ..FederationPeer::default()
        })
    });
    let peers = FederationPeers(Arc::new(Mutex::new(peers.collect())));
    let tasks = addresses.iter().enumerate().filter_map(|(place, address)| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).ok()?;
        let endpoint = endpoint.connect_timeout(DEADLINE).tcp_nodelay(true);
        let channel = endpoint.connect_lazy();
        let client =
            FederationServiceClient::new(channel.clone()).max_encoding_message_size(PAGE_BOUND.bytes);
        let link = FederationLink {
            handle: handle.clone(),
            peers: peers.clone(),
            place,
            address: address.clone(),
            channel,
            client,
            interval,
            relay: "".into(),
            progress: SyncCursor::default(),
        };
        let stop = stop.clone();
        Some(tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = link.run() => {}
            }
        }))
    });
    let tasks = tasks.collect();
    (peers, tasks)
}

/// The way to one relay.
struct FederationLink {
    handle: Handle,
    peers: FederationPeers,
    place: usize,
    address: String,
    channel: Channel,
    client: FederationServiceClient<Channel>,
    interval: Duration,
    /// Its id; empty until it has told it.
    relay: Arc<str>,
    progress: SyncCursor,
}

impl FederationLink {
    async fn run(mut self) {
        let mut bell = self.handle.subscribe_changes();
        // Its id is needed to push, and comes with the first answer.
        let mut pull_at = Instant::now();
        let mut push_at = pull_at;
        let mut changed = true;
        loop {
            let (way, outcome) = tokio::select! {
                biased;
                rung = bell.changed(), if !changed => {
                    if rung.is_err() {
                        return;
                    }
                    changed = true;
                    push_at = push_at.max(Instant::now() + PUSH_DEBOUNCE);
                    continue;
                }
                () = sleep_until(pull_at) => {
                    pull_at = Instant::now() + self.interval.mul_f64(rand::random_range(0.8..1.2));
                    (SyncDirection::Pull, self.pull().await)
                }
                () = sleep_until(push_at), if changed && !self.relay.is_empty() => {
                    changed = false;
                    bell.mark_unchanged();
                    let outcome = self.push().await;
                    push_at = Instant::now() + PUSH_DEBOUNCE;
                    (SyncDirection::Push, outcome)
                }
            };
            match outcome {
                Ok(()) if *self.relay == *self.handle.me() => {
                    tracing::warn!(address = %self.address, "this federation peer has the key of this relay: it is this relay itself, or another one with a copy of its key, which needs its own; it is left out");
                    self.peers.leave_out(self.place);
                    return;
                }
                Ok(()) => {}
                Err(status) => {
                    changed = true;
                    let until = Instant::now() + self.note_failure(way, &status);
                    if way == SyncDirection::Pull || !is_one_way_failure(&status) {
                        pull_at = until;
                    }
                    if way == SyncDirection::Push || !is_one_way_failure(&status) {
                        push_at = until;
                    }
                }
            }
        }
    }

    /// Asks for everything that has changed there.
    async fn pull(&mut self) -> Result<(), Status> {
        let begun = Instant::now();
        self.locate().await;
        for _ in 0..MAX_PAGES {
            let asked = self.progress.next_request();
            let request = SyncRegistrationsRequest {
                relay_id: self.handle.me().to_owned(),
                since: (asked.since > 0).then(|| timestamp(asked.since)),
                limit: asked.most as i32,
                epoch: asked.epoch,
                everything: asked.everything,
            };
            let call = bounded_decode::unary::<_, SyncRegistrationsResponse>(
                self.channel.clone(),
                SYNC,
                Request::new(request),
                PAGE_BOUND,
            );
            let page = match with_deadline(call).await {
                Ok(answer) => answer,
                Err(status) if status.code() == Code::OutOfRange => {
                    // It answers, and older relays do not bound their pages by bytes: fewer records may fit.
                    self.note_relay_id(status.metadata());
                    if self.progress.shrink_page() {
                        continue;
                    }
                    return Err(unreadable(&status));
                }
                Err(status) => return Err(status),
            };
            self.note_relay_id(page.metadata());
            self.note_success(SyncDirection::Pull);
            let page = page.into_inner();
            let count = page.registrations.len();
            let cursor = page.sync_timestamp.map(nanos_of);
            let answer = self.progress.on_page(page.epoch, count, cursor, page.more);
            if answer == PageOutcome::Stale {
                continue;
            }
            let at = self.handle.relay_at(&self.address);
            let by = RecordSender {
                via: Some(&self.relay),
                // Where it is not known any more, it has just answered from somewhere.
                source: Some(at.unwrap_or(Ipv4Addr::UNSPECIFIED.into()).into()),
                is_trusted: true,
            };
            self.handle.merge(page.registrations, by);
            self.peers.change(self.place, |peer| peer.pulled += count as u64);
            if answer == PageOutcome::Last {
                break;
            }
        }
        self.handle.metrics().sync.observe(seconds(begun.elapsed()));
        Ok(())
    }

    /// Tells it everything that has changed here.
    async fn push(&mut self) -> Result<(), Status> {
        loop {
            let reader = ChangesReader {
                relay: &self.relay,
                everything: false,
            };
            let page = self.handle.changes(self.progress.pushed, PAGE, reader);
            if !page.records.is_empty() {
                let begun = Instant::now();
                let count = page.records.len();
                let request = PushRegistrationsRequest {
                    relay_id: self.handle.me().to_owned(),
                    registrations: page.records,
                };
                let bytes = request.encoded_len();
                let answer = with_deadline(self.client.push_registrations(request)).await;
                let answer = answer.map_err(|status| push_failed(&status, count, bytes))?;
                self.note_relay_id(answer.metadata());
                self.handle.metrics().push.observe(seconds(begun.elapsed()));
                self.peers.change(self.place, |peer| peer.pushed += count as u64);
                let rejected = answer.get_ref().rejected;
                if rejected > 0 {
                    tracing::debug!(address = %self.address, rejected, "a relay refused records of ours");
                }
            }
            self.progress.pushed = page.cursor;
            self.note_success(SyncDirection::Push);
            if !page.more {
                return Ok(());
            }
        }
    }

    /// Looks where it is now: what it pushes comes from there. A name that is not answered for changes nothing.
    async fn locate(&self) {
        if let Ok(Ok(found)) = timeout(DEADLINE, tokio::net::lookup_host(&self.address)).await {
            self.handle
                .relay_is_at(&self.address, found.map(|address| address.ip()));
        }
    }

    /// Notes who has answered.
    fn note_relay_id(&mut self, metadata: &MetadataMap) {
        let id = metadata.get(RELAY_KEY).and_then(|id| id.to_str().ok());
        // A deployed relay does not tell its id; its address then stands for it.
        let id = id.unwrap_or(&self.address);
        if id != &*self.relay {
            self.relay = id.into();
            self.progress.pushed = 0;
        }
        let relay = self.relay.to_string();
        self.peers.change(self.place, |peer| {
            peer.relay = relay;
            peer.last_answer = Some(now().wall);
        });
    }

    /// Notes that one way works.
    fn note_success(&self, way: SyncDirection) {
        self.peers.change(self.place, |peer| {
            let failed = peer.health().is_failing();
            peer.health_of(way).answered();
            if failed && !peer.health().is_failing() {
                tracing::info!(address = %peer.address, "a federation peer does well again");
            }
        });
    }

    /// Notes that one way fails; how long to wait.
    fn note_failure(&self, way: SyncDirection, status: &Status) -> Duration {
        self.handle.metrics().sync_errors.inc();
        let reason = match status.code() {
            Code::Unimplemented => "it does not take part in federation".to_owned(),
            // The call did not get there, whatever it is called.
            code if code == Code::Unavailable || status.source().is_some() => format!(
                "it cannot be reached: {}; look whether a relay's registry is there, and what is between",
                one_line(&in_one_line(status.message(), status, MAX_REASON_CHARS))
            ),
            code => format!("{code:?}: {}", one_line(status.message())),
        };
        let mut wait = DEADLINE;
        self.peers.change(self.place, |peer| {
            if !peer.health_of(way).is_failing() {
                tracing::warn!(address = %peer.address, ?way, reason, "a federation peer fails; it is asked again for ever");
            }
            let health = peer.health_of(way);
            let now = now();
            health.failed(now, reason, rand::random());
            let until = health.backoff_until.unwrap_or(0);
            wait = Duration::from_nanos(until.saturating_sub(now.passed));
        });
        wait
    }
}

/// Whether a failure is of one way only: the relay answers, and does not like what is asked or told, or is not understood.
fn is_one_way_failure(failure: &Status) -> bool {
    matches!(
        failure.code(),
        Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument | Code::Internal
    )
}

/// What another relay says of a failure: on one line, not endless.
fn one_line(said: &str) -> String {
    said.chars()
        .take(MAX_REASON_CHARS)
        .flat_map(char::escape_debug)
        .collect()
}

/// A failure to read a page of a single record, with what is read at most.
fn unreadable(status: &Status) -> Status {
    let DecodeBound { bytes, elements, .. } = PAGE_BOUND;
    Status::out_of_range(format!(
        "its pages are not read, also when one record is asked for: {bytes} bytes and {elements} parts at most; update \
         that relay; what changes here is still told to it ({})",
        status.message()
    ))
}

/// A failure to push a page, with its size where the other relay does not take it.
fn push_failed(status: &Status, count: usize, bytes: usize) -> Status {
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument => Status::new(
            status.code(),
            format!(
                "it does not take a push of {bytes} bytes, with {count} of our records; raise its limits or update it ({})",
                status.message()
            ),
        ),
        _ => status.clone(),
    }
}

async fn with_deadline<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    timeout(DEADLINE, call)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer within 5 s")))
}
