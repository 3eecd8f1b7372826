//! The laws of merging, on the registry itself: whatever order records come in, and however often, it ends the same; what
//! is over stays over; and bounds that are not reached change nothing.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::clock::MAX_FUTURE;

const PEERS: u8 = 4;
const ORIGINS: u8 = 3;

/// A record of another relay, from a few peers, origins, versions and times of signing, so that many meet.
#[derive(Clone, Debug)]
struct GeneratedRecord {
    peer: u8,
    origin: u8,
    /// In steps of 40 s, so that the later ones are ahead of what is believed.
    version: u8,
    /// 0: without proof.
    proven_ms: u64,
    over: bool,
    skill: u8,
}

fn generated_record() -> impl Strategy<Value = GeneratedRecord> {
    (0..PEERS, 0..ORIGINS, 0..5_u8, 0..3_u64, any::<bool>(), 0..2_u8).prop_map(
        |(peer, origin, version, proven_ms, over, skill)| GeneratedRecord {
            peer,
            origin,
            version,
            proven_ms,
            over,
            skill,
        },
    )
}

fn records() -> impl Strategy<Value = Vec<GeneratedRecord>> {
    vec(generated_record(), 0..30)
}

impl GeneratedRecord {
    fn incoming(&self) -> RemoteRecord {
        let method = if self.over { UNREGISTER } else { REGISTER };
        let proof = RegistryProof {
            method: method.into(),
            time_ms: self.proven_ms,
            ..RegistryProof::default()
        };
        RemoteRecord {
            agent: agent(&self.peer.to_string(), &[skill(&self.skill.to_string(), &[])]),
            origin: format!("o{}", self.origin),
            version: START + u64::from(self.version) * 40 * SECOND,
            registered: START,
            // Of each record by what it says, since every relay tells what is left of it.
            life: (20 + u64::from(self.version)) * SECOND,
            over: self.over,
            proven_ms: self.proven_ms,
            proofs: if self.proven_ms > 0 {
                vec![proof]
            } else {
                Vec::new()
            },
            ..RemoteRecord::default()
        }
    }
}

/// What a relay is told, as if its proofs held: they are dummies here.
fn with_dummy_proofs(
    told: agentanycast_proto::v1::FederatedRegistration,
    now: Nanos,
    ttl: Duration,
) -> RemoteRecord {
    let proofs = told.proofs.clone();
    let over = told.tombstone;
    let incoming = RemoteRecord::from_registration(told, now, ttl, RecordSender::default());
    RemoteRecord {
        proven_ms: proofs.last().map_or(0, |proof| proof.time_ms),
        proofs,
        over,
        ..incoming
    }
}

fn registry_with<'a>(records: impl IntoIterator<Item = &'a GeneratedRecord>) -> SkillRegistry {
    let mut registry = registry(RegistryLimits::default());
    for record in records {
        registry.merge(START, record.incoming()).unwrap();
    }
    registry
}

/// Takes in everything that another one tells.
fn merge_all(to: &mut SkillRegistry, from: &SkillRegistry, now: Nanos) {
    let reader = ChangesReader {
        relay: "",
        everything: true,
    };
    let ttl = to.limits().ttl;
    for told in from.changes(now, 0, usize::MAX, reader).records {
        let _ = to.merge(now, with_dummy_proofs(told, now, ttl));
    }
}

fn merged(one: &SkillRegistry, other: &SkillRegistry) -> SkillRegistry {
    let mut both = registry(RegistryLimits::default());
    merge_all(&mut both, one, START);
    merge_all(&mut both, other, START);
    both
}

/// What it knows, without the order in which it has learned it.
fn known(registry: &SkillRegistry) -> BTreeMap<(String, String), (Stamp, Nanos, Option<SkillRegistration>)> {
    let records = registry.table.changes(0);
    records
        .map(|record| {
            let live = record.live.as_ref().map(|live| live.encoded.decode());
            let key = (record.peer.to_string(), record.origin.to_string());
            (key, (record.stamp, record.expires, live))
        })
        .collect()
}

proptest! {
    #[test]
    fn merging_is_commutative_associative_and_idempotent(a in records(), b in records(), c in records()) {
        let [a, b, c] = [a, b, c].map(|records| registry_with(&records));
        prop_assert_eq!(known(&merged(&a, &b)), known(&merged(&b, &a)));
        prop_assert_eq!(known(&merged(&merged(&a, &b), &c)), known(&merged(&a, &merged(&b, &c))));
        prop_assert_eq!(known(&merged(&a, &a)), known(&a));
    }

    #[test]
    fn any_order_and_any_repetition_ends_the_same(records in records(), picks in vec(any::<prop::sample::Index>(), 0..60)) {
        let once = registry_with(&records);
        let again = picks.iter().filter(|_| !records.is_empty()).map(|pick| pick.get(&records));
        let shuffled = registry_with(again.chain(records.iter().rev()));
        prop_assert_eq!(known(&shuffled), known(&once));
        // And its own clock is not carried away, whatever versions came.
        prop_assert!(shuffled.last_version() <= START + MAX_FUTURE);
    }

    #[test]
    fn strangers_without_proof_change_nothing_in_the_end(
        records in records(), strange in vec((any::<prop::sample::Index>(), generated_record()), 0..20),
    ) {
        let mut registry = registry(RegistryLimits::default());
        for (place, record) in records.iter().enumerate() {
            let now = strange.iter().filter(|(at, _)| at.index(records.len()) == place);
            for (_, said) in now {
                let stranger = RemoteRecord {
                    proven_ms: 0,
                    proofs: Vec::new(),
                    source: from(9).source,
                    ..said.incoming()
                };
                let _ = registry.merge(START, stranger);
            }
            registry.merge(START, record.incoming()).unwrap();
        }
        let mut known = known(&registry);
        known.retain(|(peer, origin), _| {
            records.iter().any(|said| said.peer.to_string() == *peer && format!("o{}", said.origin) == *origin)
        });
        prop_assert_eq!(known, self::known(&registry_with(&records)));
    }

    #[test]
    fn bounds_that_are_not_reached_change_nothing(records in records()) {
        let bytes = 2048;
        let tight = RegistryLimits {
            federated: usize::from(PEERS * ORIGINS),
            per_origin: usize::from(PEERS),
            origin_bytes: usize::from(PEERS) * bytes,
            federated_bytes: usize::from(PEERS * ORIGINS) * bytes,
            ..RegistryLimits::default()
        };
        let mut bounded = registry(tight);
        for record in &records {
            bounded.merge(START, record.incoming()).unwrap();
        }
        prop_assert_eq!(known(&bounded), known(&registry_with(&records)));
    }
}

/// What happens to three relays: agents at the first, which the others hear of from each other too. Every other agent
/// signs what it asks.
#[derive(Clone, Debug)]
enum MergeStep {
    Register { peer: u8, skill: u8 },
    Renew { peer: u8 },
    Withdraw { peer: u8 },
    Tell { from: u8, to: u8 },
    Wait(u64),
}

fn step() -> impl Strategy<Value = MergeStep> {
    let peer = 0..PEERS;
    prop_oneof![
        3 => (peer.clone(), 0..2_u8).prop_map(|(peer, skill)| MergeStep::Register { peer, skill }),
        2 => peer.clone().prop_map(|peer| MergeStep::Renew { peer }),
        3 => peer.prop_map(|peer| MergeStep::Withdraw { peer }),
        8 => (0..3_u8, 0..3_u8).prop_map(|(from, to)| MergeStep::Tell { from, to }),
        2 => (1..40_u64).prop_map(MergeStep::Wait),
    ]
}

fn by(peer: u8, method: &str, now: Nanos) -> RegistryCaller {
    let proof = peer.is_multiple_of(2).then(|| RegistryProof {
        method: method.into(),
        time_ms: now / 1_000_000,
        ..RegistryProof::default()
    });
    RegistryCaller { proof, ..from(1) }
}

fn lists(registry: &SkillRegistry, now: Nanos, peer: &str) -> bool {
    let found = (0..2_u8).flat_map(|id| ask(registry, now, &id.to_string(), &[], 0, true));
    found.into_iter().any(|agent| agent.peer_id == peer)
}

proptest! {
    #[test]
    fn what_is_over_stays_over_and_all_end_the_same(steps in vec(step(), 0..80)) {
        let mut relays = ["relay-a", "relay-b", "relay-c"].map(|me| SkillRegistry::new(me, RegistryLimits::default(), HybridClock::default()));
        let mut now = START;
        // Of each relay: whose end it has heard of, and nothing since.
        let mut gone: [std::collections::BTreeSet<String>; 3] = Default::default();
        for step in steps {
            now += 1_000_000;
            match step {
                MergeStep::Register { peer, skill: id } => {
                    let name = peer.to_string();
                    let said = agent(&name, &[skill(&id.to_string(), &[])]);
                    relays[0].register(now, said, by(peer, REGISTER, now)).unwrap();
                    for gone in &mut gone {
                        gone.remove(&name);
                    }
                }
                MergeStep::Renew { peer } => {
                    let _ = relays[0].heartbeat(now, &peer.to_string(), by(peer, HEARTBEAT, now));
                }
                MergeStep::Withdraw { peer } => {
                    relays[0].unregister(now, &peer.to_string(), &[], by(peer, UNREGISTER, now)).unwrap();
                    gone[0].insert(peer.to_string());
                }
                MergeStep::Tell { from, to } if from != to => {
                    let (from, to) = (usize::from(from), usize::from(to));
                    let heard_of = relays[from].table.changes(0).filter(|record| record.stamp.over);
                    let heard_of: Vec<String> = heard_of.map(|record| record.peer.to_string()).collect();
                    let mut hearer = std::mem::replace(&mut relays[to], registry(RegistryLimits::default()));
                    merge_all(&mut hearer, &relays[from], now);
                    relays[to] = hearer;
                    let since = heard_of.into_iter().filter(|peer| gone[from].contains(peer));
                    let since: Vec<String> = since.collect();
                    gone[to].extend(since);
                }
                MergeStep::Tell { .. } => {}
                MergeStep::Wait(seconds) => now += seconds * SECOND,
            }
            for (place, relay) in relays.iter_mut().enumerate() {
                relay.expire(now, usize::MAX);
                for peer in &gone[place] {
                    prop_assert!(!lists(relay, now, peer), "{} has {} again", relay.me, peer);
                }
            }
        }
        // Everybody hears everything; what nobody renews is gone in the end.
        for _ in 0..2 {
            for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
                let mut hearer = std::mem::replace(&mut relays[to], registry(RegistryLimits::default()));
                merge_all(&mut hearer, &relays[from], now);
                relays[to] = hearer;
            }
        }
        for peer in 0..PEERS {
            let peer = peer.to_string();
            let at_home = lists(&relays[0], now, &peer);
            for relay in &relays[1..] {
                prop_assert_eq!(lists(relay, now, &peer), at_home, "{} at {}", peer, relay.me);
            }
        }
        for relay in &mut relays {
            relay.expire(now + 60 * SECOND, usize::MAX);
            let figures = relay.stats();
            prop_assert_eq!((figures.local, figures.federated), (0, 0));
        }
    }
}
