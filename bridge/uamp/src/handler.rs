//! What all bindings use: envelopes are taken, streams opened, frames acknowledged. Bindings only carry
//! bytes.
//!
//! Invariant: an envelope that is taken is durable as a task before it is answered; the same envelope again
//! has the same answer and begins nothing.

mod actions;
mod open;
mod verify;

pub(super) use verify::{KeySources, UampSender};

use agentanycast_uamp::{
    body::EnvelopeBody,
    capability_token::CapabilityCheck,
    envelope::{Envelope, EnvelopeDraft, EnvelopeId, Intent},
    error::{UampCode, UampError},
    jws::SigningIdentity,
    replay::{ReplayMap, ReplayVerdict},
    trust::TrustAnchors,
};

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_front::path_segment;
use agentanycast_gateway::{
    Gateway, Target,
    caller::{Caller, CallerIdentity, GatewayLabels},
    tasks::GatewayTasks,
};
use agentanycast_gateways::front::FrontSettings;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    counters::UampCounters,
    now_ms,
    settings::UampSettings,
    stream_table::{MOST_STREAMS, StreamTable},
    target::{AGENT_EXT, Receivers, SKILL_EXT, SKILL_URN},
};

/// How the tasks of this gateway are labelled.
const LABELS: GatewayLabels = GatewayLabels::new("uamp");

/// The labels of a task of this gateway, besides those of every gateway.
pub(super) mod label {
    /// The envelope that began it.
    pub(crate) const ID: &str = "uamp.id";
    /// Who sent that.
    pub(crate) const FROM: &str = "uamp.from";
    /// What for.
    pub(crate) const INTENT: &str = "uamp.intent";
    /// The window of the stream.
    pub(crate) const WINDOW: &str = "uamp.window";
    /// Which of the receivers it is of, as `I/N URI`.
    pub(crate) const RECEIVER: &str = "uamp.receiver";
}

/// Locks by which the same envelope is taken once, though it comes twice at a time.
const LOCKS: usize = 1024;

/// What an envelope may have beyond its body, in bytes: names, hashes, a token and base64.
const ENVELOPE_BESIDES: usize = 64 << 10;

/// An envelope that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Its id.
    pub(super) id: EnvelopeId,
    /// The stream that answers it; `None`: it is not answered.
    pub(super) stream_id: Option<String>,
}

impl Accepted {
    /// Where the stream is.
    pub(super) fn location(&self) -> Option<String> {
        let id = self.stream_id.as_deref()?;
        Some(format!("/v1/stream/{}", path_segment::encode(id)))
    }
}

/// An envelope that was not taken.
#[derive(Clone, Debug)]
pub(super) struct Rejected {
    /// Why.
    pub(super) error: UampError,
    /// Its id, if it has one.
    pub(super) id: Option<EnvelopeId>,
    /// Who sent it, if it says so.
    pub(super) from: Option<String>,
}

impl From<UampError> for Rejected {
    fn from(error: UampError) -> Self {
        Self {
            error,
            id: None,
            from: None,
        }
    }
}

/// The handler.
pub(super) struct UampHandler {
    pub(super) identity: SigningIdentity,
    pub(super) settings: UampSettings,
    pub(super) counters: UampCounters,
    pub(super) streams: StreamTable,
    /// Largest body, in bytes.
    pub(super) max_body: usize,
    /// Who may call, and how much.
    pub(super) front: FrontSettings,
    tasks: GatewayTasks,
    receivers: Receivers,
    keys: KeySources,
    replay: Mutex<ReplayMap>,
    locks: Vec<tokio::sync::Mutex<()>>,
    started: Instant,
    pub(super) stop: CancellationToken,
}

impl UampHandler {
    pub(super) fn new(
        identity: SigningIdentity,
        node: Arc<dyn Gateway>,
        settings: UampSettings,
        keys: KeySources,
        (front, max_body): (FrontSettings, usize),
    ) -> Self {
        let most_replays = usize::try_from(settings.max_replays).unwrap_or(usize::MAX);
        Self {
            receivers: Receivers::new(identity.did(), settings.aliases.clone()),
            replay: Mutex::new(ReplayMap::new(most_replays, settings.skew_ms())),
            tasks: GatewayTasks::new(node, MOST_STREAMS),
            locks: (0..LOCKS).map(|_| tokio::sync::Mutex::new(())).collect(),
            streams: StreamTable::default(),
            counters: UampCounters::default(),
            started: Instant::now(),
            stop: CancellationToken::new(),
            identity,
            settings,
            keys,
            max_body,
            front,
        }
    }

    /// Largest envelope, in bytes: base64url takes four bytes for three.
    pub(super) fn max_envelope(&self) -> usize {
        self.max_body / 3 * 4 + ENVELOPE_BESIDES
    }

    fn node(&self) -> &Arc<dyn Gateway> {
        self.tasks.node()
    }

    /// The keys of senders that are not did:key.
    pub(super) fn anchors(&self) -> Arc<TrustAnchors> {
        self.keys.anchors.as_ref().map(HotReload::get).unwrap_or_default()
    }

    /// The caller whose tasks are those of one stream: a list of its own, as those of one agent are
    /// elsewhere. Conversations are the caller's over all its streams.
    fn stream_caller(caller: &CallerIdentity, stream_id: &str) -> Caller {
        let stream = Target::Url(format!("uamp-stream:{stream_id}"));
        Caller::with_target(LABELS, caller.clone(), &stream)
    }

    /// The caller that sends an envelope for tasks of this stream. What the node remembers of an envelope counts
    /// by its sender, so that another caller does not begin anything with it, also after a restart.
    fn sending_caller(caller: &CallerIdentity, stream_id: &str, from: &str) -> Caller {
        Self::stream_caller(caller, stream_id).with_keys_of(format!("uamp-sender:{from}"))
    }

    /// Takes an envelope that a caller of this name sends.
    ///
    /// # Errors
    /// Why not, by the first rule that is broken.
    pub(super) async fn accept(&self, sender: &UampSender, raw: &[u8]) -> Result<Accepted, Rejected> {
        let accepted = self.take(sender, raw).await;
        match &accepted {
            Ok(_) => {}
            Err(rejected) => self.counters.refused(rejected.error.code()),
        }
        accepted
    }

    async fn take(&self, sender: &UampSender, raw: &[u8]) -> Result<Accepted, Rejected> {
        let envelope = Envelope::read(raw, self.max_envelope())?;
        let taken = self.take_envelope(sender, &envelope, raw).await;
        taken.map_err(|error| Rejected {
            error,
            id: Some(envelope.id()),
            from: Some(envelope.from().to_owned()),
        })
    }

    async fn take_envelope(
        &self,
        sender: &UampSender,
        envelope: &Envelope,
        raw: &[u8],
    ) -> Result<Accepted, UampError> {
        let (caller, now) = (&sender.caller, now_ms());
        // First, since it costs least: a DID document is not fetched for an old envelope.
        envelope.check_time(now, self.settings.skew_ms())?;
        let signature = self.verify(sender, envelope, now).await?;
        self.check_capability(envelope, now)?;
        let most = usize::try_from(self.settings.max_receivers).unwrap_or(usize::MAX);
        if envelope.to().len() > most {
            let text = format!(
                "has {} receivers, the limit is {most}; send several envelopes",
                envelope.to().len()
            );
            return Err(UampError::field("to", text));
        }
        let _one = self.lock_of(envelope).lock().await;
        let verdict = self.replay.lock().unwrap_or_else(PoisonError::into_inner).check(
            &caller.share(),
            (envelope.from(), envelope.id()),
            envelope.hash(),
            now,
        );
        match verdict {
            ReplayVerdict::New => {}
            ReplayVerdict::Same => {
                self.counters.repeated();
                return Ok(self.accepted_before(caller, envelope));
            }
            ReplayVerdict::OtherCaller => {
                let text = "was sent by another caller; the stream is for that one alone";
                return Err(UampError::field("id", text));
            }
            ReplayVerdict::Other => {
                return Err(UampError::field(
                    "id",
                    "was used for another envelope; give each envelope an id of its own",
                ));
            }
            ReplayVerdict::Full => {
                let text = "too many envelopes came lately to remember them all; try again later";
                return Err(UampError::coded(UampCode::BackendBusy, text));
            }
        }
        let acted = self.act(caller, envelope, raw, signature).await;
        match &acted {
            Ok(_) => self.counters.accepted(envelope.intent()),
            Err(_) => self
                .replay
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .forget(envelope.from(), envelope.id()),
        }
        acted
    }

    /// Whether an envelope may have been taken before this process began: it is taken until its `ts` is older
    /// than the skew, and its `ts` was at most so far ahead when it was taken first.
    fn may_be_of_before_start(&self) -> bool {
        self.started.elapsed() <= self.settings.skew.saturating_mul(2)
    }

    fn check_capability(&self, envelope: &Envelope, now_ms: i64) -> Result<(), UampError> {
        let Some(token) = envelope.cap_token() else {
            if self.settings.require_cap_token {
                let text = "cap_token is missing; this gateway takes envelopes with a capability token only";
                return Err(UampError::coded(UampCode::Unauthorized, text));
            }
            return Ok(());
        };
        let audiences: Vec<&str> = std::iter::once(self.identity.did())
            .chain(envelope.to().iter().map(String::as_str))
            .collect();
        // A token for a skill is for that skill alone: each receiver has to be it.
        let chosen = envelope.extension(SKILL_EXT);
        let mut skills = envelope
            .to()
            .iter()
            .map(|to| to.strip_prefix(SKILL_URN).or(chosen));
        let first = skills.next().flatten();
        let skill = first.filter(|first| skills.all(|skill| skill == Some(*first)));
        let check = CapabilityCheck {
            holder: envelope.from(),
            audiences: &audiences,
            receiver: self.identity.did(),
            intent: envelope.intent(),
            skill,
            now_ms,
            skew_ms: self.settings.skew_ms(),
        };
        check.check(token, &self.anchors())
    }

    fn lock_of(&self, envelope: &Envelope) -> &tokio::sync::Mutex<()> {
        let mut hash = DefaultHasher::new();
        (envelope.from(), envelope.id()).hash(&mut hash);
        &self.locks[usize::try_from(hash.finish() % LOCKS as u64).unwrap_or(0)]
    }

    /// What an envelope was answered that was taken before.
    fn accepted_before(&self, caller: &CallerIdentity, envelope: &Envelope) -> Accepted {
        let answered = envelope
            .reply_to()
            .and_then(|id| self.streams.by_envelope(caller, id))
            .filter(|stream| stream.has_answer(envelope.id()))
            .map(|stream| stream.id.clone());
        let stream_id = envelope.intent().opens_stream().then(|| {
            answered.unwrap_or_else(|| self.stream_of(envelope.from(), envelope.id(), envelope.stream_id()))
        });
        Accepted {
            id: envelope.id(),
            stream_id,
        }
    }

    /// The stream of an envelope: the one that it names, else one that is made of its sender and id, so that
    /// it can be found again after a restart.
    fn stream_of(&self, from: &str, id: EnvelopeId, named: Option<&str>) -> String {
        if let Some(named) = named {
            return named.to_owned();
        }
        let mut hash = Sha256::new();
        for text in [self.identity.did(), from, &id.to_string()] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        let digest: [u8; 32] = hash.finalize().into();
        format!("str-{}", agentanycast_uamp::canonical::hex(&digest[..16]))
    }

    /// Signs an envelope of the gateway's own.
    pub(super) fn signed(&self, draft: &EnvelopeDraft) -> Map<String, Value> {
        draft
            .sign(&self.identity, self.settings.emit_sig.0)
            .unwrap_or_default()
    }

    /// The envelope that tells of an error.
    pub(super) fn error_envelope(&self, rejected: &Rejected) -> Value {
        let to = rejected
            .from
            .clone()
            .unwrap_or_else(|| "urn:uamp:unknown".to_owned());
        let body = EnvelopeBody::json(&Value::Object(rejected.error.payload()));
        let mut draft = EnvelopeDraft::new(Intent::Error, vec![to], body, now_ms());
        draft.reply_to = rejected.id;
        Value::Object(self.signed(&draft))
    }

    /// The extensions of an envelope that choose an agent, for the labels of a task.
    fn chosen(envelope: &Envelope) -> impl Iterator<Item = (String, String)> + '_ {
        [SKILL_EXT, AGENT_EXT]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), envelope.extension(name)?.to_owned())))
    }
}
