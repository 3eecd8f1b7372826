//! Whether a request comes from the peer it speaks of: its signature, its time, and that it is not a copy.
//!
//! PURE. The one rule: a signed request counts once. What was counted is remembered for as long as its time would let
//! it count again, in two halves that take turns, so that it takes bounded memory; and each source has a share of it, so
//! that none fills it for the others. A start of the relay forgets all of it, so nothing signed before counts.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use agentanycast_identity::{
    PeerId,
    proof::{MAX_SKEW, Statement, is_recent},
};
use agentanycast_proto::v1::RegistryProof;
use sha2::{Digest as _, Sha256};

use crate::{
    federation::merge::{Nanos, SECOND, nanos},
    registry::Source,
};

/// Requests that are remembered in each half: 64 addresses with their shares, as many as it takes to fill the registry.
const MOST: usize = 1 << 21;

/// How long a half is the newer one: a request that is a minute early counts for two minutes.
const TURN: Duration = MAX_SKEW.saturating_mul(2);

/// Signed requests in a [`TURN`] for each entry that a source may have, besides its heartbeats.
const PER_ENTRY: usize = 20;

/// A signature as it came with a request.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
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
        "signed at {signed_ms} ms since 1970, and it is {now_ms} ms here; they may be 60 s apart: set the clock"
    )]
    Late {
        /// By the signer's clock.
        signed_ms: u64,
        /// By ours.
        now_ms: u64,
    },
    /// Before this relay knew what has been here.
    #[error(
        "signed at {signed_ms} ms since 1970, before this relay was started at {started_ms} ms; sign anew"
    )]
    Former {
        /// By the signer's clock.
        signed_ms: u64,
        /// By ours.
        started_ms: u64,
    },
    /// It has been here before.
    #[error("this signed request has been here before; sign every request anew")]
    Again,
    /// Too many to remember, of all or of this source.
    #[error("{whose} within two minutes: {most} at most; try again in two minutes")]
    Busy {
        /// Whose there are too many.
        whose: &'static str,
        /// The limit.
        most: usize,
    },
}

/// A signature that holds and is recent; it proves something once it has been counted.
#[derive(Debug)]
pub struct Checked {
    proof: RegistryProof,
    fingerprint: u128,
}

/// Whether a signature holds, is recent, and was made since the relay was started.
///
/// # Errors
/// See [`BadProof`].
pub fn check(now: Nanos, started: Nanos, signature: Signature<'_>) -> Result<Checked, BadProof> {
    let Signature {
        peer,
        statement,
        bytes,
    } = signature;
    let [now_ms, started_ms] = [now, started].map(|time| time / (SECOND / 1000));
    if !is_recent(statement.time_ms, now_ms) {
        return Err(BadProof::Late {
            signed_ms: statement.time_ms,
            now_ms,
        });
    }
    if statement.time_ms < started_ms {
        return Err(BadProof::Former {
            signed_ms: statement.time_ms,
            started_ms,
        });
    }
    let id: PeerId = peer.parse().map_err(|error| {
        let shown = peer.chars().take(80).collect();
        BadProof::Peer(shown, format!("{error}"))
    })?;
    statement.check(id, bytes)?;
    Ok(Checked {
        proof: RegistryProof {
            method: statement.method.to_owned(),
            request: statement.request.to_vec(),
            signature: bytes.to_vec(),
            time_ms: statement.time_ms,
        },
        fingerprint: fingerprint(peer, &statement),
    })
}

/// What has been counted.
#[derive(Debug)]
pub struct Seen {
    /// Most in a half, and most of one source.
    most: usize,
    share: usize,
    newer: HashSet<u128>,
    older: HashSet<u128>,
    /// How many of the newer half each source has.
    sources: HashMap<Source, usize>,
    /// When the halves took turns last.
    turned: Nanos,
}

impl Seen {
    /// Of sources that may have so many entries each, which are renewed three times in a `ttl`.
    pub fn new(entries: usize, ttl: Duration) -> Self {
        let renewals = (TURN * 3).as_millis().div_ceil(ttl.as_millis().max(1));
        let renewals = usize::try_from(renewals).unwrap_or(usize::MAX);
        Self::bounded(MOST, entries.saturating_mul(renewals.saturating_add(PER_ENTRY)))
    }

    fn bounded(most: usize, share: usize) -> Self {
        Self {
            most,
            share,
            newer: HashSet::new(),
            older: HashSet::new(),
            sources: HashMap::new(),
            turned: 0,
        }
    }

    /// Counts a signed request from a source; its proof, to be shown to other relays.
    ///
    /// # Errors
    /// [`BadProof::Again`] or [`BadProof::Busy`]; then it is not counted.
    pub fn count(
        &mut self,
        now: Nanos,
        source: Option<Source>,
        checked: Checked,
    ) -> Result<RegistryProof, BadProof> {
        let Checked { proof, fingerprint } = checked;
        // A clock that was set back must not keep the halves from taking turns.
        self.turned = self.turned.min(now);
        if now - self.turned > nanos(TURN) {
            self.older = std::mem::take(&mut self.newer);
            self.sources.clear();
            self.turned = now;
        }
        if self.older.contains(&fingerprint) || self.newer.contains(&fingerprint) {
            return Err(BadProof::Again);
        }
        let busy = |whose, most| Err(BadProof::Busy { whose, most });
        if self.newer.len() >= self.most {
            return busy("signed requests to this registry", self.most);
        }
        if let Some(source) = source {
            let counted = self.sources.entry(source).or_default();
            if *counted >= self.share {
                return busy("signed requests from one address", self.share);
            }
            *counted += 1;
        }
        self.newer.insert(fingerprint);
        Ok(proof)
    }
}

/// Of what is signed and not of the signature: a signer can make several signatures of one request.
fn fingerprint(peer: &str, statement: &Statement<'_>) -> u128 {
    let mut hash = Sha256::new();
    hash.update((peer.len() as u64).to_be_bytes());
    hash.update(peer);
    hash.update((statement.method.len() as u64).to_be_bytes());
    hash.update(statement.method);
    hash.update(statement.time_ms.to_be_bytes());
    hash.update(Sha256::digest(statement.request));
    let hash = hash.finalize();
    hash.iter()
        .take(16)
        .fold(0, |number, byte| (number << 8) | u128::from(*byte))
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

        fn count(&self, seen: &mut Seen, now: Nanos, time_ms: u64) -> Result<RegistryProof, BadProof> {
            let statement = Statement {
                method: "/m",
                request: b"r",
                relay: "relay",
                time_ms,
            };
            let bytes = statement.sign(&self.0).unwrap();
            let signature = Signature {
                peer: &self.1,
                statement,
                bytes: &bytes,
            };
            seen.count(now, None, check(now, NOW - 3600 * SECOND, signature)?)
        }
    }

    #[test]
    fn a_signed_request_counts_once_within_a_minute() {
        let (mut seen, signer) = (Seen::new(1024, TTL), Signer::new());
        let proof = signer.count(&mut seen, NOW, NOW_MS).unwrap();
        assert_eq!((proof.method.as_str(), proof.time_ms), ("/m", NOW_MS));
        for seconds in 0..60 {
            assert_eq!(
                signer.count(&mut seen, NOW + seconds * SECOND, NOW_MS),
                Err(BadProof::Again)
            );
        }
        assert!(matches!(
            signer.count(&mut seen, NOW + 61 * SECOND, NOW_MS),
            Err(BadProof::Late { .. })
        ));
        assert!(signer.count(&mut seen, NOW, NOW_MS + 1).is_ok());
        assert!(Signer::new().count(&mut seen, NOW, NOW_MS).is_ok());
        assert!(matches!(
            signer.count(&mut seen, NOW, NOW_MS + 60_001),
            Err(BadProof::Late { .. })
        ));
    }

    #[test]
    fn an_early_one_is_remembered_until_it_is_too_late() {
        let (mut seen, signer) = (Seen::new(1024, TTL), Signer::new());
        // The halves have just been about to take turns.
        signer
            .count(&mut seen, NOW - 119 * SECOND, NOW_MS - 119_000)
            .unwrap();
        assert!(signer.count(&mut seen, NOW, NOW_MS + 60_000).is_ok());
        for seconds in 1..=120 {
            let again = signer.count(&mut seen, NOW + seconds * SECOND, NOW_MS + 60_000);
            assert_eq!(again, Err(BadProof::Again), "after {seconds} s");
        }
    }

    #[test]
    fn what_was_signed_before_the_start_is_signed_anew() {
        let signer = Signer::new();
        let check_at = |time_ms: u64| {
            let statement = Statement {
                method: "/m",
                request: b"r",
                relay: "relay",
                time_ms,
            };
            let bytes = statement.sign(&signer.0).unwrap();
            let signature = Signature {
                peer: &signer.1,
                statement,
                bytes: &bytes,
            };
            check(NOW + SECOND, NOW, signature).map(|_| ())
        };
        let former = BadProof::Former {
            signed_ms: NOW_MS - 1,
            started_ms: NOW_MS,
        };
        assert_eq!(check_at(NOW_MS - 1), Err(former));
        assert_eq!(check_at(NOW_MS), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_the_halves() {
        let mut seen = Seen::bounded(2, 2);
        let mut count = |now: Nanos, fingerprint| {
            let proof = RegistryProof::default();
            seen.count(now, None, Checked { proof, fingerprint })
        };
        count(NOW, 1).unwrap();
        count(NOW, 2).unwrap();
        let back = NOW - 3600 * SECOND;
        assert!(matches!(count(back, 3), Err(BadProof::Busy { .. })));
        assert_eq!(count(back + 120 * SECOND, 1), Err(BadProof::Again));
        count(back + 121 * SECOND, 3).unwrap();
    }

    #[test]
    fn a_short_life_has_room_for_its_heartbeats() {
        for (ttl, share) in [(1, 380), (30, 32), (3600, 21)] {
            assert_eq!(Seen::new(1, Duration::from_secs(ttl)).share, share, "{ttl} s");
        }
    }

    proptest! {
        /// Against a list of all that was counted, with the half that each is in. A source that has its share is refused
        /// by itself; what anybody has counted stays so for as long as it would count again.
        #[test]
        fn each_source_has_its_share(steps in vec((0..3_u8, 0..30_u128, 0..40_u64), 0..150)) {
            const MOST: usize = 12;
            const SHARE: usize = 5;
            let mut seen = Seen::bounded(MOST, SHARE);
            let (mut now, mut turned) = (NOW, 0);
            let mut model: Vec<(u128, u8, bool)> = Vec::new();
            for (who, fingerprint, wait) in steps {
                now += wait * SECOND;
                if now - turned > 120 * SECOND {
                    model.retain(|(.., is_new)| *is_new);
                    for one in &mut model {
                        one.2 = false;
                    }
                    turned = now;
                }
                let source = Some(IpAddr::from([192, 0, 2, who]).into());
                let checked = Checked { proof: RegistryProof::default(), fingerprint };
                let outcome = seen.count(now, source, checked);
                let newer = model.iter().filter(|(.., is_new)| *is_new);
                if model.iter().any(|(other, ..)| *other == fingerprint) {
                    prop_assert_eq!(outcome, Err(BadProof::Again));
                } else if newer.clone().count() == MOST {
                    let refused = outcome.unwrap_err().to_string();
                    prop_assert!(refused.contains("this registry within two minutes: 12"), "{}", refused);
                } else if newer.filter(|(_, other, _)| *other == who).count() == SHARE {
                    let refused = outcome.unwrap_err().to_string();
                    prop_assert!(refused.contains("one address within two minutes: 5"), "{}", refused);
                } else {
                    prop_assert!(outcome.is_ok());
                    model.push((fingerprint, who, true));
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
        let signature = Signature {
            peer: "agent-1",
            statement,
            bytes: &[0; 64],
        };
        assert!(matches!(check(NOW, 0, signature), Err(BadProof::Peer(..))));
        let signature = Signature {
            peer: &Signer::new().1,
            ..signature
        };
        assert!(matches!(check(NOW, 0, signature), Err(BadProof::Wrong(_))));
    }
}
