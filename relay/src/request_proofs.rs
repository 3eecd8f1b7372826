//! Whether a request comes from the peer it speaks of: its signature, its time, and that it is not a copy.
//!
//! PURE. The invariant: a signed request counts once. Each is remembered for ten minutes of passed time,
//! which is how long its own time lets it count. It takes bounded memory, and each source has a share of
//! that, so that no source fills it for the others. A start of the relay forgets all of it, so a request that
//! was signed before the start is refused.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use agentanycast_identity::{
    PeerId,
    proof::{MAX_SKEW, Statement, is_recent},
};
use agentanycast_proto::v1::RegistryProof;
use sha2::{Digest as _, Sha256};

use crate::{
    clock::{Nanos, Now, SECOND, nanos},
    clock_skew::WrongClock,
    registry::Source,
};

/// Requests that are remembered: 64 addresses with their shares, as many as it takes to fill the registry.
/// They take about 150 MB then.
const MOST: usize = 1 << 23;

/// How long each is remembered: one that is five minutes early counts for ten minutes.
const REMEMBERED: Duration = MAX_SKEW.saturating_mul(2);

/// How much longer some are remembered, since those of a minute are forgotten together.
const SLICE: Duration = Duration::from_mins(1);

/// Signed requests in [`REMEMBERED`] for each entry that a source may have, besides its heartbeats.
const PER_ENTRY: usize = 60;

/// A signature as it came with a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestSignature<'a> {
    /// The peer that the request speaks of.
    pub peer: &'a str,
    /// What it says it signed.
    pub statement: Statement<'a>,
    /// The signature.
    pub bytes: &'a [u8],
}

/// Why a signed request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadProof {
    /// The peer id is none, or has no key.
    #[error("peer_id {0:?} cannot be proven: {1}")]
    Peer(String, String),
    /// The signature does not hold.
    #[error("{0}; sign for this relay, whose id comes with every answer")]
    Wrong(#[from] agentanycast_identity::proof::ProofError),
    /// Too long ago, or in the future.
    #[error(
        "the clocks of the signer and of this relay differ by {} s; requests are taken up to {} s: {suspect}",
        signed_ms.abs_diff(*now_ms).div_ceil(1000),
        MAX_SKEW.as_secs()
    )]
    ClockSkew {
        /// By the signer's clock.
        signed_ms: u64,
        /// By ours.
        now_ms: u64,
        /// Whose clock is wrong, as far as others tell.
        suspect: WrongClock,
    },
    /// Before this relay knew what has been here.
    #[error(
        "signed at {signed_ms} ms since 1970, before this relay was started at {started_ms} ms; sign anew"
    )]
    BeforeStart {
        /// By the signer's clock.
        signed_ms: u64,
        /// By ours.
        started_ms: u64,
    },
    /// It has been here before.
    #[error("this signed request has been here before; sign every request anew")]
    Replayed,
    /// Too many to remember, of all or of this source.
    #[error("{whose} within eleven minutes: {most} at most; try again in a minute")]
    Busy {
        /// Whose there are too many.
        whose: &'static str,
        /// The limit.
        most: usize,
    },
}

/// A signature that holds and is recent; it proves something once it has been counted.
#[derive(Debug)]
pub struct CheckedRequest {
    proof: RegistryProof,
    fingerprint: u64,
}

/// Whether a signature holds, is recent, and was made since the relay was started, `running` ago.
///
/// The start is where the wall clock of now puts it: a clock that was wrong at the start and is right now
/// refuses nothing that is signed by a right clock.
///
/// # Errors
/// See [`BadProof`]. Of a time that is not taken the signature holds, and no other is known to be wrong.
pub fn check(
    now: Now,
    running: Duration,
    signature: RequestSignature<'_>,
) -> Result<CheckedRequest, BadProof> {
    let RequestSignature {
        peer,
        statement,
        bytes,
    } = signature;
    let started = now.wall.saturating_sub(nanos(running));
    let [now_ms, started_ms] = [now.wall, started].map(|time| time / (SECOND / 1000));
    let id: PeerId = peer.parse().map_err(|error| {
        let shown = peer.chars().take(80).collect();
        BadProof::Peer(shown, format!("{error}"))
    })?;
    statement.check(id, bytes)?;
    if !is_recent(statement.time_ms, now_ms) {
        return Err(BadProof::ClockSkew {
            signed_ms: statement.time_ms,
            now_ms,
            suspect: WrongClock::Unknown,
        });
    }
    if statement.time_ms < started_ms {
        return Err(BadProof::BeforeStart {
            signed_ms: statement.time_ms,
            started_ms,
        });
    }
    Ok(CheckedRequest {
        proof: RegistryProof {
            method: statement.method.to_owned(),
            request: statement.request.to_vec(),
            signature: bytes.to_vec(),
            time_ms: statement.time_ms,
        },
        fingerprint: fingerprint(peer, &statement),
    })
}

/// What has been counted, by when in passed time.
#[derive(Debug)]
pub struct ReplayCache {
    /// Most that are remembered, and most of one source.
    most: usize,
    share: usize,
    /// The newest last.
    slices: VecDeque<ReplaySlice>,
    /// How many all slices have.
    count: usize,
}

/// What was counted within a [`SLICE`].
#[derive(Debug)]
struct ReplaySlice {
    begun: Nanos,
    fingerprints: HashSet<u64>,
    sources: HashMap<Source, usize>,
}

impl ReplayCache {
    /// Of sources that may have so many entries each, which are renewed three times in a `ttl`.
    pub fn new(entries: usize, ttl: Duration) -> Self {
        let renewals = (REMEMBERED * 3).as_millis().div_ceil(ttl.as_millis().max(1));
        let renewals = usize::try_from(renewals).unwrap_or(usize::MAX);
        let share = entries.saturating_mul(renewals.saturating_add(PER_ENTRY));
        Self::bounded(MOST, share)
    }

    fn bounded(most: usize, share: usize) -> Self {
        Self {
            most,
            share,
            slices: VecDeque::new(),
            count: 0,
        }
    }

    /// Counts a signed request from a source at a moment of passed time; its proof, to be shown to other
    /// relays.
    ///
    /// # Errors
    /// [`BadProof::Replayed`] or [`BadProof::Busy`]; then it is not counted.
    pub fn count(
        &mut self,
        passed: Nanos,
        source: Option<Source>,
        checked: CheckedRequest,
    ) -> Result<RegistryProof, BadProof> {
        let CheckedRequest { proof, fingerprint } = checked;
        self.forget(passed);
        if self
            .slices
            .iter()
            .any(|slice| slice.fingerprints.contains(&fingerprint))
        {
            return Err(BadProof::Replayed);
        }
        let busy = |whose, most| Err(BadProof::Busy { whose, most });
        if self.count >= self.most {
            return busy("signed requests to this registry", self.most);
        }
        if let Some(source) = &source {
            let of_source = self.slices.iter().filter_map(|slice| slice.sources.get(source));
            if of_source.sum::<usize>() >= self.share {
                return busy("signed requests from one address", self.share);
            }
        }
        if self
            .slices
            .back()
            .is_none_or(|slice| passed.saturating_sub(slice.begun) > nanos(SLICE))
        {
            self.slices.push_back(ReplaySlice {
                begun: passed,
                fingerprints: HashSet::new(),
                sources: HashMap::new(),
            });
        }
        if let Some(slice) = self.slices.back_mut() {
            self.count += usize::from(slice.fingerprints.insert(fingerprint));
            if let Some(source) = source {
                *slice.sources.entry(source).or_default() += 1;
            }
        }
        Ok(proof)
    }

    /// Forgets the slices whose youngest signature is old enough.
    fn forget(&mut self, passed: Nanos) {
        let kept = nanos(REMEMBERED.saturating_add(SLICE));
        while let Some(slice) = self.slices.front()
            && passed.saturating_sub(slice.begun) > kept
        {
            self.count -= slice.fingerprints.len();
            self.slices.pop_front();
        }
    }
}

/// Of what is signed and not of the signature: a signer can make several signatures of one request. Two that
/// are alike by chance, of the four million of a full registry, are one in 10^12.
fn fingerprint(peer: &str, statement: &Statement<'_>) -> u64 {
    let mut hash = Sha256::new();
    hash.update((peer.len() as u64).to_be_bytes());
    hash.update(peer);
    hash.update((statement.method.len() as u64).to_be_bytes());
    hash.update(statement.method);
    hash.update(statement.time_ms.to_be_bytes());
    hash.update(Sha256::digest(statement.request));
    let hash = hash.finalize();
    hash.iter()
        .take(8)
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use agentanycast_identity::{Keypair, peer_id};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const NOW: Nanos = 1_800_000_000 * SECOND;
    const NOW_MS: u64 = NOW / 1_000_000;
    const TTL: Duration = Duration::from_secs(30);

    struct Signer(Keypair, String);

    impl Signer {
        fn new() -> Self {
            let key = Keypair::generate_ed25519();
            let id = peer_id(&key).to_string();
            Self(key, id)
        }

        /// Asks with a signature of that time, an hour after the start.
        fn count(
            &self,
            seen: &mut ReplayCache,
            now: impl Into<Now>,
            time_ms: u64,
        ) -> Result<RegistryProof, BadProof> {
            let now = now.into();
            let checked = self.check(now, Duration::from_hours(1), time_ms)?;
            seen.count(now.passed, None, checked)
        }

        fn check(&self, now: Now, running: Duration, time_ms: u64) -> Result<CheckedRequest, BadProof> {
            let statement = Statement {
                method: "/m",
                request: b"r",
                relay: "relay",
                time_ms,
            };
            let bytes = statement.sign(&self.0).unwrap();
            let signature = RequestSignature {
                peer: &self.1,
                statement,
                bytes: &bytes,
            };
            check(now, running, signature)
        }
    }

    #[test]
    fn a_signed_request_counts_once_within_five_minutes() {
        let (mut seen, signer) = (ReplayCache::new(1024, TTL), Signer::new());
        let proof = signer.count(&mut seen, NOW, NOW_MS).unwrap();
        assert_eq!((proof.method.as_str(), proof.time_ms), ("/m", NOW_MS));
        for seconds in (0..=300).step_by(30) {
            let again = signer.count(&mut seen, NOW + seconds * SECOND, NOW_MS);
            assert_eq!(again, Err(BadProof::Replayed));
        }
        let late = signer.count(&mut seen, NOW + 301 * SECOND, NOW_MS).unwrap_err();
        assert!(late.to_string().contains("differ by 301 s"), "{late}");
        assert!(signer.count(&mut seen, NOW, NOW_MS + 1).is_ok());
        assert!(signer.count(&mut seen, NOW, NOW_MS - 94_000).is_ok());
        assert!(Signer::new().count(&mut seen, NOW, NOW_MS).is_ok());
        assert!(matches!(
            signer.count(&mut seen, NOW, NOW_MS + 300_001),
            Err(BadProof::ClockSkew { .. })
        ));
    }

    #[test]
    fn each_is_remembered_for_ten_minutes_of_passed_time() {
        let (mut seen, signer) = (ReplayCache::new(1024, TTL), Signer::new());
        assert!(signer.count(&mut seen, NOW, NOW_MS + 300_000).is_ok());
        for seconds in (1..=600).step_by(7) {
            let time = NOW + seconds * SECOND;
            // Others come in between.
            assert!(signer.count(&mut seen, time, time / 1_000_000 - 200).is_ok());
            let again = signer.count(&mut seen, time, NOW_MS + 300_000);
            assert_eq!(again, Err(BadProof::Replayed), "after {seconds} s");
            // As long as the clock is where it was.
            let back = Now {
                passed: time,
                wall: NOW,
            };
            assert_eq!(
                signer.count(&mut seen, back, NOW_MS + 300_000),
                Err(BadProof::Replayed)
            );
        }
        let later = Now {
            passed: NOW + 1262 * SECOND,
            wall: NOW,
        };
        assert!(signer.count(&mut seen, later, NOW_MS + 300_000).is_ok());
        assert_eq!(seen.count, 1, "the others are forgotten");
    }

    #[test]
    fn what_was_signed_before_the_start_is_signed_anew() {
        let signer = Signer::new();
        let check_at =
            |now: Now, time_ms: u64| signer.check(now, Duration::from_secs(1), time_ms).map(|_| ());
        let now = Now::from(NOW + SECOND);
        let former = BadProof::BeforeStart {
            signed_ms: NOW_MS - 1,
            started_ms: NOW_MS,
        };
        assert_eq!(check_at(now, NOW_MS - 1), Err(former));
        assert_eq!(check_at(now, NOW_MS), Ok(()));
        // The clock was an hour ahead at the start, and is right now.
        let right = Now {
            passed: NOW,
            wall: NOW - 3600 * SECOND,
        };
        assert_eq!(check_at(right, NOW_MS - 3_600_000), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_keeps_nothing_for_longer() {
        let mut seen = ReplayCache::bounded(2, 2);
        let mut count = |passed: Nanos, fingerprint| {
            let proof = RegistryProof::default();
            seen.count(passed, None, CheckedRequest { proof, fingerprint })
        };
        count(NOW, 1).unwrap();
        count(NOW, 2).unwrap();
        assert!(matches!(count(NOW + 600 * SECOND, 3), Err(BadProof::Busy { .. })));
        assert_eq!(count(NOW + 600 * SECOND, 1), Err(BadProof::Replayed));
        count(NOW + 661 * SECOND, 3).unwrap();
    }

    #[test]
    fn a_short_life_has_room_for_its_heartbeats() {
        for (ttl, share) in [(1, 1860), (30, 120), (3600, 61)] {
            assert_eq!(
                ReplayCache::new(1, Duration::from_secs(ttl)).share,
                share,
                "{ttl} s"
            );
        }
    }

    proptest! {
        /// Against a list of all that was counted. A source that has its share is refused by itself. What was
        /// counted is remembered for ten minutes at least, and for twelve at most.
        #[test]
        fn each_source_has_its_share(steps in vec((0..3_u8, 0..30_u64, 0..120_u64), 0..150)) {
            const MOST: usize = 12;
            const SHARE: usize = 5;
            let mut seen = ReplayCache::bounded(MOST, SHARE);
            let mut now = NOW;
            let mut model: Vec<(u64, u8, Nanos)> = Vec::new();
            for (who, fingerprint, wait) in steps {
                now += wait * SECOND;
                model.retain(|(.., at)| now - at <= 720 * SECOND);
                let source = Some(IpAddr::from([192, 0, 2, who]).into());
                let checked = CheckedRequest { proof: RegistryProof::default(), fingerprint };
                let outcome = seen.count(now, source, checked);
                let sure = |(.., at): &&(u64, u8, Nanos)| now - at <= 600 * SECOND;
                let of_source = |(_, other, _): &&(u64, u8, Nanos)| *other == who;
                let known = |(other, ..): &&(u64, u8, Nanos)| *other == fingerprint;
                let text = outcome.as_ref().map_or_else(ToString::to_string, |_| String::new());
                if model.iter().filter(sure).any(|one| known(&one)) {
                    prop_assert_eq!(outcome, Err(BadProof::Replayed));
                } else if model.iter().filter(sure).count() >= MOST {
                    prop_assert!(outcome.is_err());
                } else if model.iter().filter(sure).filter(of_source).count() >= SHARE {
                    prop_assert!(outcome.is_err());
                } else if outcome.is_ok() {
                    model.push((fingerprint, who, now));
                } else if text.contains("this registry within") {
                    prop_assert!(model.len() >= MOST, "{}", text);
                } else if text.contains("one address within") {
                    prop_assert!(model.iter().filter(of_source).count() >= SHARE, "{}", text);
                } else {
                    prop_assert!(model.iter().any(|one| known(&one)), "{}", text);
                }
            }
        }
    }

    #[test]
    fn a_made_up_peer_id_proves_nothing() {
        let statement = Statement {
            method: "/m",
            request: b"r",
            relay: "relay",
            time_ms: NOW_MS,
        };
        let signature = RequestSignature {
            peer: "agent-1",
            statement,
            bytes: &[0; 64],
        };
        assert!(matches!(
            check(NOW.into(), Duration::ZERO, signature),
            Err(BadProof::Peer(..))
        ));
        let signature = RequestSignature {
            peer: &Signer::new().1,
            ..signature
        };
        assert!(matches!(
            check(NOW.into(), Duration::ZERO, signature),
            Err(BadProof::Wrong(_))
        ));
    }
}
