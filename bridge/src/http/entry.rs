//! Who comes in, and with how much: callers are told apart, and each has its share of everything.
//!
//! The one rule: what one caller does takes nothing from another. Whoever has not said who it is counts by its address.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use agentanycast_door::{
    Counts, Network,
    rate::{Nanos, Rate, Rates},
};
use http::HeaderMap;

use super::refusal::Refusal;
use crate::{
    auth::{Callers, Certificate, Name},
    config::Limits,
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

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) network: Network,
    pub(super) certificate: Option<Certificate>,
}

/// Who a share belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asker {
    Caller(Name),
    /// `None` within the process.
    Network(Option<Network>),
}

/// The entry of all requests.
pub(crate) struct Entry {
    callers: Callers,
    limits: Limits,
    max_body: usize,
    /// Of requests, and of tokens that are checked; none: no limit.
    rate: Option<Rate>,
    checks: Option<Rate>,
    begun: Instant,
    shares: Mutex<Shares>,
}

struct Shares {
    rates: Rates<Asker>,
    checks: Rates<Option<Network>>,
    open: Counts<Asker>,
    /// Bytes of bodies, of each one and of all.
    bodies: Counts<Asker>,
    all_bodies: usize,
}

/// A request that may come in.
pub(crate) struct Admitted {
    pub(crate) caller: Name,
    pub(crate) place: Place,
}

impl Entry {
    pub(super) fn new(callers: Callers, limits: Limits, max_body: usize) -> Self {
        Self {
            shares: Mutex::new(Shares {
                rates: Rates::new(COUNTED),
                checks: Rates::new(COUNTED),
                open: Counts::default(),
                bodies: Counts::default(),
                all_bodies: 0,
            }),
            callers,
            rate: rate(limits.rate, limits.burst),
            checks: rate(CHECKS, CHECKS_AT_ONCE),
            limits,
            max_body,
            begun: Instant::now(),
        }
    }

    /// A request that somebody has to stand for.
    pub(super) async fn admit(
        self: &Arc<Self>,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Admitted, Refusal> {
        let network = peer.map(|peer| peer.network);
        let certificate = peer.and_then(|peer| peer.certificate.as_ref());
        let check = || {
            let now = self.now();
            let mut shares = self.shares();
            self.checks
                .is_none_or(|rate| shares.checks.take(now, network, rate, 1))
        };
        let caller = match self.callers.name(headers, certificate, check).await {
            Ok(caller) => caller,
            Err(refused) => {
                self.count(&mut self.shares(), &Asker::Network(network))?;
                return Err(refused.into());
            }
        };
        let asker = if caller.is_anonymous() {
            Asker::Network(network)
        } else {
            Asker::Caller(caller.clone())
        };
        let place = self.place(asker)?;
        Ok(Admitted { caller, place })
    }

    /// A request that anybody may make.
    pub(super) fn admit_anybody(self: &Arc<Self>, peer: Option<&Peer>) -> Result<Place, Refusal> {
        self.place(Asker::Network(peer.map(|peer| peer.network)))
    }

    fn place(self: &Arc<Self>, asker: Asker) -> Result<Place, Refusal> {
        let most = usize::try_from(self.limits.at_once).unwrap_or(usize::MAX);
        let mut shares = self.shares();
        self.count(&mut shares, &asker)?;
        if !shares.open.enter(asker.clone(), most) {
            return Err(Refusal::too_many(most));
        }
        drop(shares);
        Ok(Place(Arc::new(Held {
            entry: Arc::clone(self),
            asker,
            body: AtomicUsize::new(0),
        })))
    }

    /// Counts a request.
    fn count(&self, shares: &mut Shares, asker: &Asker) -> Result<(), Refusal> {
        let Some(rate) = self.rate else { return Ok(()) };
        let taken = shares.rates.try_take(self.now(), asker.clone(), rate, 1);
        taken.map_err(|wait| Refusal::too_often(self.limits.rate, wait))
    }

    fn now(&self) -> Nanos {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a request that is being answered; when all clones are dropped it is free. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Place(Arc<Held>);

struct Held {
    entry: Arc<Entry>,
    asker: Asker,
    /// Bytes of the body that count.
    body: AtomicUsize,
}

impl Place {
    /// Counts the bytes of a body that has this length so far. False if there are too many.
    pub(super) fn grow(&self, length: usize) -> bool {
        let held = &self.0;
        let wanted = length.saturating_sub(SMALL_BODY);
        let more = wanted.saturating_sub(held.body.load(Relaxed));
        if more == 0 {
            return true;
        }
        let largest = held.entry.max_body;
        let mut shares = held.entry.shares();
        let fits = shares.all_bodies + more <= largest * LARGE_BODIES_OF_ALL
            && shares
                .bodies
                .add(held.asker.clone(), more, largest * LARGE_BODIES);
        if fits {
            shares.all_bodies += more;
            held.body.fetch_add(more, Relaxed);
        }
        fits
    }

    /// The body is not in memory any more.
    pub(super) fn forget_body(&self) {
        let held = &self.0;
        let bytes = held.body.swap(0, Relaxed);
        if bytes > 0 {
            let mut shares = held.entry.shares();
            shares.bodies.remove(&held.asker, bytes);
            shares.all_bodies -= bytes;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let bytes = self.body.load(Relaxed);
        let mut shares = self.entry.shares();
        shares.open.leave(&self.asker);
        if bytes > 0 {
            shares.bodies.remove(&self.asker, bytes);
            shares.all_bodies -= bytes;
        }
    }
}

/// So many a second, and so many at once; 0 a second is no limit.
fn rate(per_second: u64, at_once: u64) -> Option<Rate> {
    let burst = Duration::from_secs(at_once).checked_div(u32::try_from(per_second).ok()?)?;
    Rate::new(per_second as f64, burst)
}

/// How long to wait, in whole seconds.
pub(super) fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::a2a::error::Reason;

    fn entry(limits: Limits) -> Arc<Entry> {
        Arc::new(Entry::new(Callers::default(), limits, 1 << 20))
    }

    fn peer(ip: &str) -> Peer {
        Peer {
            network: ip.parse::<IpAddr>().unwrap().into(),
            certificate: None,
        }
    }

    #[test]
    fn places_come_back_and_each_address_has_its_own() {
        let entry = entry(Limits {
            at_once: 2,
            rate: 0,
            ..Limits::default()
        });
        let (one, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let held: Vec<Place> = (0..2)
            .map(|_| entry.admit_anybody(Some(&one)).ok().unwrap())
            .collect();
        let refusal = entry.admit_anybody(Some(&one)).err().unwrap();
        assert_eq!(refusal.error.reason(), Reason::ResourceExhausted);
        assert!(entry.admit_anybody(Some(&other)).is_ok());
        drop(held);
        assert!(entry.admit_anybody(Some(&one)).is_ok());
        assert!(entry.shares().open.is_empty());
    }

    #[test]
    fn a_burst_then_a_wait() {
        let entry = entry(Limits {
            rate: 1,
            burst: 3,
            ..Limits::default()
        });
        let one = peer("192.0.2.1");
        let refused: Vec<bool> = (0..5).map(|_| entry.admit_anybody(Some(&one)).is_err()).collect();
        assert_eq!(refused, [false, false, false, true, true]);
    }

    #[test]
    fn bodies_have_a_bound_for_each_and_for_all() {
        let entry = entry(Limits {
            rate: 0,
            ..Limits::default()
        });
        let small = SMALL_BODY;
        let large = (1 << 20) + small;
        let of = |ip: &str| entry.admit_anybody(Some(&peer(ip))).ok().unwrap();
        let mut held = Vec::new();
        for caller in 0..4 {
            let ip = format!("192.0.2.{caller}");
            for _ in 0..LARGE_BODIES {
                let place = of(&ip);
                assert!(place.grow(large / 2) && place.grow(large));
                held.push(place);
            }
            assert!(of(&ip).grow(small) && !of(&ip).grow(small + 1));
        }
        assert!(!of("192.0.2.9").grow(small + 1), "that is what all have");
        held[0].forget_body();
        assert!(of("192.0.2.9").grow(small + 1));
        held.clear();
        let shares = entry.shares();
        assert!(shares.bodies.is_empty() && shares.open.is_empty() && shares.all_bodies == 0);
    }
}
