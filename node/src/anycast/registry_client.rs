//! One registry, asked over gRPC: what is said to it is signed by this node's key, for the relay that it is.
//!
//! A registry of ours names itself in every answer, and only then it can be signed for; one that does not is a deployed
//! one, which takes what is not signed. The rule: no call takes longer than [`CALL_TIMEOUT`].

use std::{
    error::Error as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use agentanycast_daemon_kit::error_chain::in_one_line;
use agentanycast_identity::{
    Keypair, PeerId,
    proof::{
        AFTER_KEY, CLOCK_KEY, LIFE_KEY, MAX_SKEW, RELAY_KEY, SIGNATURE_KEY, SUSPECT_KEY, SUSPECT_RELAY,
        SUSPECT_SIGNER, Statement, TIME_KEY,
    },
};
use agentanycast_net::duplicate_key::DuplicateKeyReports;
use agentanycast_proto::{
    bounded_decode::{self, DecodeBound},
    decoded_size::MessageKind,
    v1::{
        DiscoverBySkillRequest, DiscoverBySkillResponse, HeartbeatRequest, RegisterSkillsRequest,
        RegisterSkillsResponse, SkillRegistration, UnregisterSkillsRequest,
        registry_service_client::RegistryServiceClient,
    },
};
use prost::Message;
use tonic::{
    Code, Request, Response, Status,
    metadata::{MetadataMap, MetadataValue},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use super::{
    fan_in::AnswerSource,
    merge::AgentMatch,
    registration_state::{RegistryAnswer, RegistryRequest},
    registry_capacity::{KnownCapacity, RegistryCapacity},
    request_signing::SigningTimes,
};

/// How long a registry may take for an answer, connecting included.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Largest answer that is read: 8 MiB, as 1000 agents of 8 KiB, and decoded 64 MiB.
const ANSWER_BOUND: DecodeBound = DecodeBound {
    kind: MessageKind::Discovered,
    elements: 1 << 19,
    bytes: 8 << 20,
};
/// Largest other answer, in bytes: a time.
const MAX_RECEIPT: usize = 4 << 10;
/// The call that searches.
const DISCOVER: &str = "/agentanycast.v1.RegistryService/DiscoverBySkill";
/// How long a registration is believed to hold when the registry does not say: the time that relays have by default.
const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// A registration that is said to hold for longer than a day is renewed as one of a day.
const MAX_TTL: Duration = Duration::from_hours(24);

/// Longest reason of a registry that failed, in bytes: there may be many of them in one line.
const MAX_FAILURE_TEXT: usize = 256;

const SERVICE: &str = "/agentanycast.v1.RegistryService/";

/// See the module's text.
pub(super) struct RegistryClient {
    /// As configured.
    address: String,
    channel: Channel,
    client: RegistryServiceClient<Channel>,
    /// It did not answer the last time.
    is_late: AtomicBool,
    /// It answered once: it is no guess any more.
    has_answered: AtomicBool,
    key: Keypair,
    me: PeerId,
    other_daemons: DuplicateKeyReports,
    /// Its peer id, once it has said so.
    relay: Mutex<Option<String>>,
    /// When requests to it are signed.
    signing_times: Mutex<SigningTimes>,
    capacity: Mutex<KnownCapacity>,
}

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRegistry {
    /// Its address is none.
    #[error("{0:?} is no address of a registry; use HOST:PORT, or http(s)://HOST:PORT")]
    Address(String),
    /// Its certificate could not be checked.
    #[error(
        "the registry {address} cannot be asked over TLS: {cause}; install the certificates of authorities on this \
         host (ca-certificates), or name a file of them in SSL_CERT_FILE"
    )]
    Tls {
        /// As configured.
        address: String,
        /// What is missing.
        cause: String,
    },
}

/// The URL of a registry's address; without what `https` needs, see [`with_tls`].
pub(crate) fn endpoint(address: &str) -> Result<Endpoint, InvalidRegistry> {
    let invalid = || InvalidRegistry::Address(address.to_owned());
    let url = match address.split_once("://") {
        Some(("http" | "https", _)) => address.to_owned(),
        Some(_) => return Err(invalid()),
        None => format!("http://{address}"),
    };
    let uri: tonic::codegen::http::Uri = url.parse().map_err(|_| invalid())?;
    // What stands before an @ would be sent to nobody; the mistake of whoever expects it to be a password.
    if uri
        .authority()
        .is_none_or(|authority| authority.as_str().contains('@'))
        || uri.host().is_none_or(str::is_empty)
        || uri.port_u16().is_none_or(|port| port == 0)
        || uri.path() != "/"
    {
        return Err(invalid());
    }
    let endpoint = Endpoint::from_shared(url).map_err(|_| invalid())?;
    Ok(endpoint
        .connect_timeout(CALL_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true))
}

/// Has an `https` registry's certificate checked against the authorities of this host. Reads files.
fn with_tls(address: &str, endpoint: Endpoint) -> Result<Endpoint, InvalidRegistry> {
    if endpoint.uri().scheme_str() != Some("https") {
        return Ok(endpoint);
    }
    // Who takes the connection and says nothing is left, as who does not take it.
    let tls = ClientTlsConfig::new().with_native_roots().timeout(CALL_TIMEOUT);
    endpoint.tls_config(tls).map_err(|error| InvalidRegistry::Tls {
        address: address.to_owned(),
        cause: error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string),
    })
}

impl RegistryClient {
    /// `times` are no other registry's: two of them may be the same relay, by two names.
    pub(super) fn new(
        address: &str,
        key: Keypair,
        times: SigningTimes,
        other_daemons: DuplicateKeyReports,
    ) -> Result<Self, InvalidRegistry> {
        let channel = with_tls(address, endpoint(address)?)?.connect_lazy();
        let client = RegistryServiceClient::new(channel.clone()).max_decoding_message_size(MAX_RECEIPT);
        Ok(Self {
            address: address.to_owned(),
            channel,
            client,
            is_late: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            me: agentanycast_identity::peer_id(&key),
            key,
            other_daemons,
            relay: Mutex::new(None),
            signing_times: Mutex::new(times),
            capacity: Mutex::default(),
        })
    }

    /// As configured.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether it has ever answered.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Its peer id, if it has said so.
    pub(super) fn relay(&self) -> Option<String> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it takes of this node.
    pub(super) fn capacity(&self) -> RegistryCapacity {
        let capacity = self.capacity.lock().unwrap_or_else(PoisonError::into_inner);
        capacity.at(Instant::now())
    }

    /// Says something of the local agent.
    pub(super) async fn send(&self, say: &RegistryRequest) -> (RegistryAnswer, Option<Status>) {
        if self.relay().is_none() && *say != RegistryRequest::Renew {
            // It names itself in its answer, whatever that is.
            let _ = self.renew().await;
        }
        let mut answered = self.send_once(say).await;
        if let Err(status) = &answered
            && self.should_sign_again(status)
        {
            answered = self.send_once(say).await;
        }
        match answered {
            Ok(holds) => (RegistryAnswer::Done(holds), None),
            Err(status) => (answer_of(&status), Some(status)),
        }
    }

    /// Agents with a skill and these tags, at most `limit`; the freshest first.
    pub(super) async fn discover(
        &self,
        skill: &str,
        tags: impl IntoIterator<Item = (String, String)>,
        limit: usize,
    ) -> Result<Vec<AgentMatch>, Status> {
        let request = DiscoverBySkillRequest {
            skill_id: skill.to_owned(),
            tags: tags.into_iter().collect(),
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
            federated: true,
        };
        let call = bounded_decode::unary::<_, DiscoverBySkillResponse>(
            self.channel.clone(),
            DISCOVER,
            Request::new(request),
            ANSWER_BOUND,
        );
        let (answer, _) = self.with_timeout(call).await?;
        let relay = self.relay();
        let agents = answer.agents.into_iter().take(limit);
        Ok(agents
            .filter_map(|said: SkillRegistration| AgentMatch::from_registration(said, relay.as_deref()))
            .collect())
    }

    async fn send_once(&self, say: &RegistryRequest) -> Result<Duration, Status> {
        match say {
            RegistryRequest::Register(request) => self.register(request).await,
            RegistryRequest::Renew => self.renew().await,
            RegistryRequest::Unregister => self.unregister().await,
        }
    }

    /// Takes note of a refusal of a signature's time; whether to sign anew at once.
    fn should_sign_again(&self, status: &Status) -> bool {
        let mut times = self.signing_times.lock().unwrap_or_else(PoisonError::into_inner);
        if status.code() == Code::Unauthenticated {
            times.forget();
            return false;
        }
        let after = status.metadata().get(AFTER_KEY);
        let after_ms = after.and_then(|after| after.to_str().ok()?.parse().ok());
        after_ms.is_some_and(|after_ms| times.advance_past(SystemTime::now(), after_ms))
    }

    async fn register(&self, request: &RegisterSkillsRequest) -> Result<Duration, Status> {
        let request = RegisterSkillsRequest {
            instance: self.other_daemons.own_instance(),
            ..request.clone()
        };
        let skills = request.skills.len();
        let signed = self.signed("RegisterSkills", request);
        let mut client = self.client.clone();
        let answered = self.with_timeout(client.register_skills(signed)).await;
        self.note_capacity(skills, &answered);
        let (answer, life) = answered?;
        let life = life.unwrap_or_else(|| ttl(answer.expires_at));
        self.note_other_daemon(&answer.other_instance, life);
        Ok(life)
    }

    /// Takes note of what the registry says that it takes, and of a refusal of so many skills.
    fn note_capacity<T>(&self, skills: usize, answered: &Result<(RegisterSkillsResponse, T), Status>) {
        let mut capacity = self.capacity.lock().unwrap_or_else(PoisonError::into_inner);
        match answered {
            Ok((answer, _)) => capacity.note_answer(answer),
            Err(status) if status.code() == Code::ResourceExhausted => {
                capacity.note_exhausted(Instant::now(), skills);
            }
            Err(_) => {}
        }
    }

    async fn renew(&self) -> Result<Duration, Status> {
        let request = HeartbeatRequest {
            peer_id: self.me.to_string(),
            instance: self.other_daemons.own_instance(),
        };
        let signed = self.signed("Heartbeat", request);
        let mut client = self.client.clone();
        let (answer, life) = self.with_timeout(client.heartbeat(signed)).await?;
        let life = life.unwrap_or_else(|| ttl(answer.expires_at));
        self.note_other_daemon(&answer.other_instance, life);
        Ok(life)
    }

    /// Whether it knows another run of this node; it says so with each renewal.
    fn note_other_daemon(&self, other: &[u8], life: Duration) {
        let others = (!other.is_empty()).then_some(other);
        self.other_daemons.report(&self.address, others, life);
    }

    async fn unregister(&self) -> Result<Duration, Status> {
        let request = UnregisterSkillsRequest {
            peer_id: self.me.to_string(),
            skill_ids: Vec::new(),
        };
        let signed = self.signed("UnregisterSkills", request);
        let mut client = self.client.clone();
        self.with_timeout(client.unregister_skills(signed)).await?;
        Ok(Duration::ZERO)
    }

    /// Waits for an answer; with how long a registration holds, where the registry says so.
    async fn with_timeout<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<(T, Option<Duration>), Status> {
        let late =
            || Status::deadline_exceeded(format!("it did not answer within {} s", CALL_TIMEOUT.as_secs()));
        let answered = tokio::time::timeout(CALL_TIMEOUT, call).await;
        let is_late = match &answered {
            Ok(Err(status)) => matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded),
            answered => answered.is_err(),
        };
        self.is_late.store(is_late, Ordering::Relaxed);
        match answered {
            Err(_) => Err(late()),
            Ok(Ok(response)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                self.note_relay(response.metadata());
                let life = registration_life(response.metadata());
                Ok((response.into_inner(), life))
            }
            Ok(Err(status)) => {
                self.note_relay(status.metadata());
                Err(status)
            }
        }
    }

    fn note_relay(&self, metadata: &MetadataMap) {
        let named = metadata
            .get(RELAY_KEY)
            .and_then(|id| id.to_str().ok())
            .filter(|id| id.parse::<PeerId>().is_ok());
        if let Some(named) = named {
            let mut relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
            if relay.as_deref() != Some(named) {
                *relay = Some(named.to_owned());
            }
        }
    }

    fn signed<M: Message>(&self, method: &str, message: M) -> Request<M> {
        let encoded = message.encode_to_vec();
        let mut request = Request::new(message);
        let Some(relay) = self.relay() else { return request };
        let time_ms = {
            let mut times = self.signing_times.lock().unwrap_or_else(PoisonError::into_inner);
            times.next(SystemTime::now())
        };
        let statement = Statement {
            method: &format!("{SERVICE}{method}"),
            request: &encoded,
            relay: &relay,
            time_ms,
        };
        match statement.sign(&self.key) {
            Ok(signature) => {
                let metadata = request.metadata_mut();
                metadata.insert_bin(SIGNATURE_KEY, MetadataValue::from_bytes(&signature));
                metadata.insert(TIME_KEY, MetadataValue::from(time_ms));
            }
            Err(error) => tracing::warn!(%error, "registry requests cannot be signed"),
        }
        request
    }
}

impl AnswerSource for &RegistryClient {
    fn name(&self) -> &str {
        &self.address
    }

    fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }
}

/// Why a call failed, in one line, with what to do where the library's words do not say it.
pub(super) fn failure_text(status: &Status) -> String {
    let said = in_one_line(status.message(), status, MAX_FAILURE_TEXT);
    let is_there = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let remedy = if is_there(&["InvalidContentType"]) {
        "; it does not speak TLS there: name it with http://"
    } else if status.code() != Code::ResourceExhausted
        && is_there(&[
            "broken pipe",
            "connection reset",
            "h2 protocol error",
            "http2 error",
        ])
    {
        "; is it a registry's port? A relay's is 50052 unless --registry-listen says otherwise, and https:// where it is behind TLS"
    } else {
        ""
    };
    format!("{said}{remedy}")
}

/// What a refusal means for what was said.
fn answer_of(status: &Status) -> RegistryAnswer {
    match status.code() {
        Code::NotFound => RegistryAnswer::Unknown,
        // It took effect, and only a restart of the registry forgets it.
        Code::DataLoss => RegistryAnswer::Done(DEFAULT_TTL),
        // Another version of what is said may be taken.
        Code::InvalidArgument | Code::PermissionDenied | Code::Unimplemented => RegistryAnswer::Refused,
        // UNAUTHENTICATED too: it may be a clock, or a relay whose id has changed, which its answer has told.
        _ => RegistryAnswer::Failed,
    }
}

/// Why the local agent is not registered, in one line: whose clock is wrong, where that is why, else what the
/// registry says.
pub(super) fn refusal_text(registry: &str, status: &Status, now: SystemTime) -> String {
    let metadata = status.metadata();
    let number = |key| metadata.get(key)?.to_str().ok()?.parse::<u64>().ok();
    let Some(relay_ms) = number(CLOCK_KEY) else {
        return format!("{:?}: {}", status.code(), failure_text(status));
    };
    let here = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let here_ms = u64::try_from(here.as_millis()).unwrap_or(u64::MAX);
    let apart = here_ms.abs_diff(relay_ms).div_ceil(1000);
    if apart <= MAX_SKEW.as_secs() {
        return format!(
            "{registry} refused the time that a request was signed with, which was not this clock's; the next one is signed anew"
        );
    }
    let suspect = metadata
        .get(SUSPECT_KEY)
        .and_then(|suspect| suspect.to_str().ok());
    let advice = match suspect {
        Some(SUSPECT_SIGNER) => {
            "the registry says that most of those who sign agree with its clock: set this one"
        }
        Some(SUSPECT_RELAY) => {
            "the registry says that most of those who sign agree with this clock: have the operator of the registry set its \
             clock"
        }
        _ => "set the clock that is wrong",
    };
    format!(
        "this clock and {registry}'s differ by {apart} s, and {} s at most are taken: {advice}",
        MAX_SKEW.as_secs()
    )
}

/// How long a registration holds, as a registry of ours says it without regard to any clock.
fn registration_life(metadata: &MetadataMap) -> Option<Duration> {
    let millis = metadata.get(LIFE_KEY)?.to_str().ok()?.parse().ok()?;
    let life = Duration::from_millis(millis);
    (!life.is_zero()).then(|| life.min(MAX_TTL))
}

/// How long a registration holds at a registry that only says until when. Its clock may be wrong: an expiry
/// that has passed, or is far off, is taken for the usual time.
fn ttl(expires_at: Option<prost_types::Timestamp>) -> Duration {
    let expires_at = expires_at.and_then(|at| SystemTime::try_from(at).ok());
    let left = expires_at.and_then(|at| at.duration_since(SystemTime::now()).ok());
    left.filter(|left| *left <= MAX_TTL).unwrap_or(DEFAULT_TTL)
}

#[cfg(test)]
mod tests;
