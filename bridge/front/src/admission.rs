//! Who comes in, and with how much: callers are told apart, and each has its share of everything.
//!
//! The one rule: what one caller does takes nothing from another. Whoever has not said who it is counts by its address.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_gateways::front::{CallerLimits, is_url_of_this_host};
use agentanycast_limits::{
    ByteQuota, Concurrency, Network,
    rate::{Nanos, Rate, Rates},
};
use http::{HeaderMap, HeaderName, header};

use super::refusal::Refusal;
use crate::{
    auth::{AuthError, Authenticator, FrontCaller},
    client_connection::ClientConnection,
    host::RequestHost,
};

/// Signatures of tokens that are checked for one address: a second, and at once. A good one is checked once a minute.
const CHECKS: u64 = 100;
const CHECKS_AT_ONCE: u64 = 1000;

/// Callers whose requests are counted.
const COUNTED: NonZeroUsize = NonZeroUsize::new(65_536).expect("not zero");

/// Of a body, the bytes that everybody may send; what is more counts.
const SMALL_BODY: usize = 64 << 10;

/// What the bodies of one caller may take at a time, in bodies of the largest size, and those of all.
const LARGE_BODIES: usize = 4;
const LARGE_BODIES_OF_ALL: usize = 16;

/// The same in messages of WebSockets, where they may be larger than bodies.
const LARGE_MESSAGES: usize = 2;
const LARGE_MESSAGES_OF_ALL: usize = 8;

/// Of an answer, or of an event of one, the bytes that everybody may leave unread; what is more counts.
const SMALL_ANSWER: usize = 64 << 10;

/// What may wait in memory for one reader, in bytes, and for all: a task with its results has 128 MiB at most, a third
/// more in base64.
const UNREAD: usize = 192 << 20;
const UNREAD_OF_ALL: usize = 768 << 20;

/// What proxies add to requests that they pass on.
const FORWARDED: [HeaderName; 8] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("cf-connecting-ip"),
    HeaderName::from_static("true-client-ip"),
];

/// Who a share belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum QuotaKey {
    Caller(FrontCaller),
    /// `None` within the process.
    Network(Option<Network>),
}

/// The entry of all requests.
pub struct RequestAdmission {
    callers: Authenticator,
    limits: CallerLimits,
    /// Clients connect to a proxy, which passes on what comes from elsewhere.
    is_behind_proxy: bool,
    /// What the bodies of one caller may take at a time.
    max_body_bytes: usize,
    /// Of requests, and of tokens that are checked; none: no limit.
    rate: Option<Rate>,
    checks: Option<Rate>,
    begun: Instant,
    quotas: Mutex<CallerQuotas>,
}

struct CallerQuotas {
    rates: Rates<QuotaKey>,
    checks: Rates<Option<Network>>,
    open: Concurrency<QuotaKey>,
    /// Of requests that are being read.
    bodies: ByteQuota<QuotaKey>,
    /// Of answers that were not taken yet.
    unread: ByteQuota<QuotaKey>,
}

/// A request that may come in.
pub struct AdmittedRequest {
    /// Who sends it.
    pub caller: FrontCaller,
    /// Its place until it is answered.
    pub permit: RequestPermit,
}

impl RequestAdmission {
    /// Of these callers, each with so much, and bodies of at most so many bytes.
    pub fn new(callers: Authenticator, limits: CallerLimits, max_body: usize) -> Self {
        let max_body_bytes = max_body * LARGE_BODIES;
        Self {
            max_body_bytes,
            quotas: Mutex::new(CallerQuotas {
                rates: Rates::new(COUNTED),
                checks: Rates::new(COUNTED),
                open: Concurrency::default(),
                bodies: ByteQuota::new(max_body_bytes, max_body * LARGE_BODIES_OF_ALL),
                unread: ByteQuota::new(UNREAD, UNREAD_OF_ALL),
            }),
            callers,
            rate: rate(limits.rate, limits.burst),
            checks: rate(CHECKS, CHECKS_AT_ONCE),
            limits,
            is_behind_proxy: false,
            begun: Instant::now(),
        }
    }

    /// Which clients reach by this URL; empty: it is not said. Unless the URL is of this host, a proxy is before the front, so that
    /// a connection over loopback says nothing of who calls.
    #[must_use]
    pub fn with_public_url(mut self, url: &str) -> Self {
        self.is_behind_proxy = !url.is_empty() && !is_url_of_this_host(url);
        self
    }

    /// Whether a request comes from a program of this host.
    fn is_local(&self, headers: &HeaderMap, peer: Option<&ClientConnection>) -> bool {
        !self.is_behind_proxy
            && peer.is_some_and(ClientConnection::is_loopback)
            && !FORWARDED.iter().any(|name| headers.contains_key(name))
            && RequestHost::names_this_host(headers)
    }

    /// Callers send messages of this size, in bytes. It has to be said before there are requests.
    pub fn expect_messages(&self, max_message: usize) {
        let each = self.max_body_bytes.max(max_message * LARGE_MESSAGES);
        let all = (self.max_body_bytes / LARGE_BODIES * LARGE_BODIES_OF_ALL)
            .max(max_message * LARGE_MESSAGES_OF_ALL);
        self.shares().bodies = ByteQuota::new(each, all);
    }

    /// A request that somebody has to stand for.
    pub async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
        peer: Option<&ClientConnection>,
    ) -> Result<AdmittedRequest, Refusal> {
        let network = peer.map(|peer| peer.network);
        let certificate = peer.and_then(|peer| peer.certificate.as_ref());
        let check = || {
            let now = self.now();
            let mut shares = self.shares();
            self.checks
                .is_none_or(|rate| shares.checks.take(now, network, rate, 1))
        };
        let is_local = self.is_local(headers, peer);
        let authenticated = self.callers.authenticate(headers, certificate, is_local, check);
        let caller = match authenticated.await {
            Ok(caller) => caller,
            Err(refused) => {
                self.count(&mut self.shares(), &QuotaKey::Network(network))?;
                return Err(refused.into());
            }
        };
        let asker = if caller.is_anonymous() {
            QuotaKey::Network(network)
        } else {
            QuotaKey::Caller(caller.clone())
        };
        let place = self.permit(asker)?;
        let codings = headers.get_all(header::CONTENT_ENCODING).into_iter();
        let mut codings = codings.map(|coding| coding.to_str().unwrap_or("?").trim());
        if let Some(coding) = codings.find(|coding| !matches!(*coding, "" | "identity")) {
            return Err(Refusal::unsupported_encoding(coding));
        }
        Ok(AdmittedRequest {
            caller,
            permit: place,
        })
    }

    /// A request whose token the gateway checks itself: `prove` gives the caller's name, or why the token is not good.
    /// Such a check counts as that of any other token.
    ///
    /// # Errors
    /// Why it does not come in.
    pub fn admit_proven(
        self: &Arc<Self>,
        peer: Option<&ClientConnection>,
        prove: impl FnOnce() -> Result<String, String>,
    ) -> Result<AdmittedRequest, Refusal> {
        let network = peer.map(|peer| peer.network);
        let may_check = |rate| self.shares().checks.take(self.now(), network, rate, 1);
        let proven = if self.checks.is_none_or(may_check) {
            prove()
                .map_err(AuthError::BadToken)
                .and_then(|name| FrontCaller::of_proof(&name))
        } else {
            Err(AuthError::RateLimited)
        };
        match proven {
            Ok(caller) => Ok(AdmittedRequest {
                permit: self.permit(QuotaKey::Caller(caller.clone()))?,
                caller,
            }),
            Err(refused) => {
                self.count(&mut self.shares(), &QuotaKey::Network(network))?;
                Err(refused.into())
            }
        }
    }

    /// A request that anybody may make, and who makes it: what it shows that is not good says nothing.
    ///
    /// # Errors
    /// When its sender has too much.
    pub async fn admit_any(
        self: &Arc<Self>,
        headers: &HeaderMap,
        peer: Option<&ClientConnection>,
    ) -> Result<AdmittedRequest, Refusal> {
        let shows_something = headers.contains_key(header::AUTHORIZATION)
            || peer.is_some_and(|peer| peer.certificate.is_some());
        if shows_something && let Ok(admitted) = self.admit(headers, peer).await {
            return Ok(admitted);
        }
        Ok(AdmittedRequest {
            caller: FrontCaller::anonymous(self.is_local(headers, peer)),
            permit: self.admit_anonymous(peer)?,
        })
    }

    /// A request that anybody may make.
    pub fn admit_anonymous(
        self: &Arc<Self>,
        peer: Option<&ClientConnection>,
    ) -> Result<RequestPermit, Refusal> {
        self.permit(QuotaKey::Network(peer.map(|peer| peer.network)))
    }

    fn permit(self: &Arc<Self>, asker: QuotaKey) -> Result<RequestPermit, Refusal> {
        let most = usize::try_from(self.limits.at_once).unwrap_or(usize::MAX);
        let mut shares = self.shares();
        self.count(&mut shares, &asker)?;
        if !shares.open.enter(asker.clone(), most) {
            return Err(Refusal::too_many_open(most));
        }
        drop(shares);
        Ok(RequestPermit(Arc::new(PermitState {
            admission: Arc::clone(self),
            key: asker,
            is_open: AtomicBool::new(true),
            body: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
        })))
    }

    /// Counts a request.
    fn count(&self, shares: &mut CallerQuotas, asker: &QuotaKey) -> Result<(), Refusal> {
        let Some(rate) = self.rate else { return Ok(()) };
        let taken = shares.rates.try_take(self.now(), asker.clone(), rate, 1);
        taken.map_err(|wait| Refusal::rate_limited(self.limits.rate, wait))
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn shares(&self) -> MutexGuard<'_, CallerQuotas> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a request that is being answered; when all clones are dropped it is free. Cheap to clone.
#[derive(Clone)]
pub struct RequestPermit(Arc<PermitState>);

struct PermitState {
    admission: Arc<RequestAdmission>,
    key: QuotaKey,
    /// It counts among what its caller has open.
    is_open: AtomicBool,
    /// Bytes of the body that count.
    body: AtomicUsize,
    /// Bytes of the answer that count.
    unread: AtomicUsize,
}

impl RequestPermit {
    /// Counts the bytes of a body that has this length so far. False if there are too many.
    pub fn charge_body(&self, length: usize) -> bool {
        let held = &self.0;
        let wanted = length.saturating_sub(SMALL_BODY);
        let more = wanted.saturating_sub(held.body.load(Relaxed));
        if more == 0 {
            return true;
        }
        let fits = held.admission.shares().bodies.take(held.key.clone(), more);
        if fits {
            held.body.fetch_add(more, Relaxed);
        }
        fits
    }

    /// The longest body that a caller may have, if it has no other.
    pub fn max_body(&self) -> usize {
        self.0.admission.max_body_bytes + SMALL_BODY
    }

    /// It does not count among what its caller has open any more: for a socket that stays open while nothing is asked, of
    /// which something else bounds the number. Its bytes count as before.
    pub fn leave_place(&self) {
        let held = &self.0;
        if held.is_open.swap(false, Relaxed) {
            held.admission.shares().open.leave(&held.key);
        }
    }

    /// The body is not in memory any more.
    pub fn release_body(&self) {
        let held = &self.0;
        let bytes = held.body.swap(0, Relaxed);
        if bytes > 0 {
            held.admission.shares().bodies.give_back(&held.key, bytes);
        }
    }

    /// Counts what of the answer waits for its reader: so many bytes now. False if there are too many; then those
    /// of before count.
    pub fn charge_unread(&self, unread: usize) -> bool {
        let held = &self.0;
        let wanted = unread.saturating_sub(SMALL_ANSWER);
        let known = held.unread.load(Relaxed);
        if wanted > known {
            let more = wanted - known;
            if !held.admission.shares().unread.take(held.key.clone(), more) {
                return false;
            }
        } else if wanted < known {
            held.admission
                .shares()
                .unread
                .give_back(&held.key, known - wanted);
        }
        held.unread.store(wanted, Relaxed);
        true
    }
}

impl Drop for PermitState {
    fn drop(&mut self) {
        let (body, unread) = (self.body.load(Relaxed), self.unread.load(Relaxed));
        let is_open = *self.is_open.get_mut();
        let mut shares = self.admission.shares();
        if is_open {
            shares.open.leave(&self.key);
        }
        if body > 0 {
            shares.bodies.give_back(&self.key, body);
        }
        if unread > 0 {
            shares.unread.give_back(&self.key, unread);
        }
    }
}

/// So many a second, and so many at once; 0 a second is no limit.
fn rate(per_second: u64, at_once: u64) -> Option<Rate> {
    let burst = Duration::from_secs(at_once).checked_div(u32::try_from(per_second).ok()?)?;
    Rate::new(per_second as f64, burst)
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Weak};

    use super::*;
    use crate::{json_body, refusal::RefusalKind};

    fn entry(limits: CallerLimits) -> Arc<RequestAdmission> {
        Arc::new(RequestAdmission::new(Authenticator::default(), limits, 1 << 20))
    }

    fn peer(ip: &str) -> ClientConnection {
        ClientConnection {
            network: ip.parse::<IpAddr>().unwrap().into(),
            certificate: None,
            local_addr: None,
            slot: Weak::new(),
        }
    }

    #[test]
    fn places_come_back_and_each_address_has_its_own() {
        let entry = entry(CallerLimits {
            at_once: 2,
            rate: 0,
            ..CallerLimits::default()
        });
        let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let held: Vec<RequestPermit> = (0..2)
            .map(|_| entry.admit_anonymous(Some(&one)).ok().unwrap())
            .collect();
        let refusal = entry.admit_anonymous(Some(&one)).err().unwrap();
        assert_eq!(refusal.kind(), RefusalKind::Exhausted);
        assert!(entry.admit_anonymous(Some(&other)).is_ok());
        // A socket that stays open leaves its place to others, once.
        held[0].leave_place();
        held[0].leave_place();
        let next = entry.admit_anonymous(Some(&one));
        assert!(next.is_ok() && entry.admit_anonymous(Some(&one)).is_err());
        drop((held, next));
        assert!(entry.admit_anonymous(Some(&one)).is_ok());
        assert!(entry.shares().open.is_empty());
    }

    #[tokio::test]
    async fn who_is_anonymous_is_a_stranger_unless_it_is_a_program_of_this_host() {
        let connection = |client: &str, here: Option<&str>| ClientConnection {
            local_addr: here.map(|here| here.parse().unwrap()),
            ..peer(client)
        };
        let plain = HeaderMap::new();
        let is_stranger = async |url: &str, headers: &HeaderMap, connection: Option<ClientConnection>| {
            let admission = RequestAdmission::new(Authenticator::default(), CallerLimits::default(), 1 << 20);
            let admission = Arc::new(admission.with_public_url(url));
            let admitted = admission.admit(headers, connection.as_ref()).await.ok().unwrap();
            let any = admission
                .admit_any(headers, connection.as_ref())
                .await
                .ok()
                .unwrap();
            assert_eq!(any.caller, admitted.caller);
            admitted.caller.is_stranger()
        };
        for (client, here, expected) in [
            ("127.0.0.1", Some("127.0.0.1:80"), false),
            ("127.0.0.2", Some("127.0.0.9:80"), false),
            ("::1", Some("[::1]:80"), false),
            ("::ffff:127.0.0.1", Some("[::ffff:127.0.0.1]:80"), false),
            ("127.0.0.1", None, true),
            ("192.0.2.1", Some("127.0.0.1:80"), true),
            ("127.0.0.1", Some("192.0.2.1:80"), true),
            ("192.0.2.1", Some("192.0.2.1:80"), true),
        ] {
            let connected = connection(client, here);
            assert_eq!(
                is_stranger("", &plain, Some(connected)).await,
                expected,
                "{client} {here:?}"
            );
        }
        assert!(is_stranger("", &plain, None).await);
        let here = || Some(connection("127.0.0.1", Some("127.0.0.1:80")));
        for (url, expected) in [
            ("https://agents.example.org", true),
            ("no url", true),
            ("http://127.0.0.1:80", false),
            ("http://localhost:80", false),
            ("http://[::1]", false),
            ("http://127.0.0.1.example.org", true),
        ] {
            assert_eq!(is_stranger(url, &plain, here()).await, expected, "{url}");
        }
        for name in FORWARDED {
            let headers = HeaderMap::from_iter([(name.clone(), "192.0.2.7".parse().unwrap())]);
            assert!(is_stranger("", &headers, here()).await, "{name}");
        }
        // A page may have its own name lead to this host.
        for (host, expected) in [
            ("127.0.0.1:80", false),
            ("localhost:8090", false),
            ("[::1]:8090", false),
            ("workstation:8090", false),
            ("agents.corp.internal", true),
            ("evil.example:80", true),
            ("localhost.evil.example", true),
            ("127.0.0.1.evil.example", true),
            ("a b", true),
            ("", true),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            assert_eq!(is_stranger("", &headers, here()).await, expected, "{host}");
        }
    }

    #[test]
    fn a_burst_then_a_wait() {
        let entry = entry(CallerLimits {
            rate: 1,
            burst: 3,
            ..CallerLimits::default()
        });
        let one = peer("192.0.2.1");
        let refused: Vec<bool> = (0..5)
            .map(|_| entry.admit_anonymous(Some(&one)).is_err())
            .collect();
        assert_eq!(refused, [false, false, false, true, true]);
    }

    #[test]
    fn bodies_have_a_bound_for_each_and_for_all() {
        let entry = entry(CallerLimits {
            rate: 0,
            ..CallerLimits::default()
        });
        let small = SMALL_BODY;
        let large = (1 << 20) + small;
        let of = |ip: &str| entry.admit_anonymous(Some(&peer(ip))).ok().unwrap();
        let mut held = Vec::new();
        for caller in 0..4 {
            let ip = format!("192.0.2.{caller}");
            for _ in 0..LARGE_BODIES {
                let place = of(&ip);
                assert!(place.charge_body(large / 2) && place.charge_body(large));
                held.push(place);
            }
            assert!(of(&ip).charge_body(small) && !of(&ip).charge_body(small + 1));
        }
        assert!(!of("192.0.2.9").charge_body(small + 1), "that is what all have");
        held[0].release_body();
        assert!(of("192.0.2.9").charge_body(small + 1));
        held.clear();
        let shares = entry.shares();
        assert!(shares.bodies.is_empty() && shares.open.is_empty());
    }

    #[test]
    fn bodies_count_for_what_they_unfold_to() {
        let entry = entry(CallerLimits::default());
        let of = |ip: &str| entry.admit_anonymous(Some(&peer(ip))).ok().unwrap();
        // Below what everybody may send, and a megabyte when it is read.
        let zeros = format!("[{}0]", "0,".repeat(10_000));
        let mut held = Vec::new();
        let refused = loop {
            let place = of("192.0.2.1");
            match json_body::parse(zeros.as_bytes(), Some(&place)) {
                Ok(_) => held.push(place),
                Err(error) => break error,
            }
            assert!(held.len() <= LARGE_BODIES + 1);
        };
        assert_eq!(refused.kind(), RefusalKind::Exhausted);
        assert!(json_body::parse(b"[1, 2]", Some(&of("192.0.2.1"))).is_ok());
        assert!(json_body::parse(zeros.as_bytes(), Some(&of("192.0.2.2"))).is_ok());
        held.clear();
        assert!(json_body::parse(zeros.as_bytes(), Some(&of("192.0.2.1"))).is_ok());
    }

    #[test]
    fn a_body_that_never_fits_is_not_to_be_sent_again() {
        let entry = entry(CallerLimits::default());
        let place = entry.admit_anonymous(Some(&peer("192.0.2.1"))).ok().unwrap();
        let zeros = format!("[{}0]", "0,".repeat(50_000));
        let refused = json_body::parse(zeros.as_bytes(), Some(&place)).unwrap_err();
        assert_eq!(refused.kind(), RefusalKind::Invalid);
        assert!(refused.to_string().contains("4259840"), "{refused}");
    }

    #[test]
    fn what_nobody_reads_has_a_bound() {
        let entry = entry(CallerLimits::default());
        let of = |ip: &str| entry.admit_anonymous(Some(&peer(ip))).ok().unwrap();
        let (one, other, third) = (of("192.0.2.1"), of("192.0.2.1"), of("192.0.2.2"));
        assert!(one.charge_unread(UNREAD) && !other.charge_unread(UNREAD / 2));
        assert!(other.charge_unread(SMALL_ANSWER) && third.charge_unread(UNREAD));
        assert!(one.charge_unread(UNREAD / 2), "half of it was taken");
        assert!(other.charge_unread(UNREAD / 2));
        drop((one, other, third));
        assert!(entry.shares().unread.is_empty());
    }
}
