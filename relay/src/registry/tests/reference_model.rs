//! Random lives of a registry, compared after each step with a list that is searched from end to end.

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Clone, Debug)]
enum ModelStep {
    Register {
        peer: u8,
        skills: Vec<(u8, Vec<(u8, u8)>)>,
        proof: bool,
        source: u8,
    },
    Unregister {
        peer: u8,
        skills: Vec<u8>,
        proof: bool,
    },
    Heartbeat {
        peer: u8,
        proof: bool,
    },
    /// A registration of that peer at the other relay, with its version.
    FromRelay {
        peer: u8,
        version: u8,
        over: bool,
    },
    Wait(u8),
    Expire,
    Ask {
        skill: u8,
        tags: Vec<(u8, u8)>,
        limit: u8,
        federated: bool,
    },
}

#[derive(Clone, Debug)]
struct ModelEntry {
    skills: BTreeMap<u8, BTreeMap<u8, u8>>,
    verified: bool,
    expires: Nanos,
    version: u8,
    federated: bool,
    over: bool,
}

/// Longer than a peer's entry lives, so that nothing but the model's rules is at work.
const TTL: Nanos = 30 * SECOND;

fn step() -> impl Strategy<Value = ModelStep> {
    // So few that no source is crowded.
    let peer = 0_u8..4;
    let tags = || vec((0_u8..2, 0_u8..2), 0..3);
    prop_oneof![
        4 => (peer.clone(), vec((0_u8..3, tags()), 1..3), any::<bool>(), 0_u8..2)
            .prop_map(|(peer, skills, proof, source)| ModelStep::Register { peer, skills, proof, source }),
        2 => (peer.clone(), vec(0_u8..3, 0..2), any::<bool>()).prop_map(|(peer, skills, proof)| ModelStep::Unregister { peer, skills, proof }),
        3 => (peer.clone(), any::<bool>()).prop_map(|(peer, proof)| ModelStep::Heartbeat { peer, proof }),
        2 => (peer, 1_u8..20, prop::bool::weighted(0.3)).prop_map(|(peer, version, over)| ModelStep::FromRelay { peer, version, over }),
        2 => (1_u8..25).prop_map(ModelStep::Wait),
        1 => Just(ModelStep::Expire),
        4 => (0_u8..3, tags(), 0_u8..5, any::<bool>())
            .prop_map(|(skill, tags, limit, federated)| ModelStep::Ask { skill, tags, limit, federated }),
    ]
}

#[derive(Debug, Default)]
struct ModelRegistry(BTreeMap<(u8, bool), ModelEntry>);

impl ModelRegistry {
    fn live(&self, peer: u8, federated: bool, now: Nanos) -> Option<&ModelEntry> {
        self.0
            .get(&(peer, federated))
            .filter(|entry| !entry.over && entry.expires > now)
    }

    fn denied(&self, peer: u8, proof: bool, now: Nanos) -> bool {
        !proof && self.live(peer, false, now).is_some_and(|entry| entry.verified)
    }

    fn matching(&self, skill: u8, tags: &BTreeMap<u8, u8>, now: Nanos, federated: bool) -> Vec<(u8, bool)> {
        let has = |entry: &ModelEntry| {
            entry
                .skills
                .get(&skill)
                .is_some_and(|has| tags.iter().all(|(tag, value)| has.get(tag) == Some(value)))
        };
        let of = |wanted: bool| {
            let keys = self.0.keys().copied().filter(move |key| key.1 == wanted);
            keys.filter(|key| self.live(key.0, key.1, now).is_some_and(has))
                .collect::<Vec<_>>()
        };
        let mut found = of(false);
        if federated || found.is_empty() {
            found.extend(of(true));
        }
        // Each peer once, by the entry that says more.
        let rank = |key: &(u8, bool)| (key.0, !self.0[key].verified, key.1);
        found.sort_by_key(rank);
        found.dedup_by_key(|key| key.0);
        found
    }
}

fn run(steps: Vec<ModelStep>) -> Result<(), TestCaseError> {
    let mut registry = registry(RegistryLimits::default());
    let mut model = ModelRegistry::default();
    let mut now = START;
    for step in steps {
        now += 1;
        match step {
            ModelStep::Register {
                peer,
                skills,
                proof,
                source,
            } => {
                let skills: BTreeMap<u8, BTreeMap<u8, u8>> = skills
                    .into_iter()
                    .map(|(skill, tags)| (skill, tags.into_iter().collect()))
                    .collect();
                let said: Vec<_> = skills.iter().map(|(id, tags)| info(*id, tags)).collect();
                let caller = if proof { signed(now) } else { from(source) };
                let outcome = registry.register(now, agent(&peer.to_string(), &said), caller);
                if model.denied(peer, proof, now) {
                    prop_assert!(matches!(outcome, Err(RegistryError::Denied(_))));
                    continue;
                }
                prop_assert_eq!(outcome, Ok(now + TTL));
                let entry = ModelEntry {
                    skills,
                    verified: proof,
                    expires: now + TTL,
                    version: 0,
                    federated: false,
                    over: false,
                };
                model.0.insert((peer, false), entry);
            }
            ModelStep::Unregister { peer, skills, proof } => {
                let named: Vec<_> = skills.iter().map(ToString::to_string).collect();
                let caller = if proof { signed(now) } else { from(1) };
                let outcome = registry.unregister(now, &peer.to_string(), &named, caller);
                if model.denied(peer, proof, now) {
                    prop_assert!(matches!(outcome, Err(RegistryError::Denied(_))));
                    continue;
                }
                // A registration that was changed too often.
                if outcome.is_err() {
                    continue;
                }
                if model.live(peer, false, now).is_some()
                    && let Some(entry) = model.0.get_mut(&(peer, false))
                {
                    entry
                        .skills
                        .retain(|id, _| !skills.is_empty() && !skills.contains(id));
                    entry.over = entry.skills.is_empty();
                }
            }
            ModelStep::Heartbeat { peer, proof } => {
                let caller = if proof { signed(now) } else { from(1) };
                let outcome = registry.heartbeat(now, &peer.to_string(), caller);
                let known = model.live(peer, false, now).is_some();
                match (known, model.denied(peer, proof, now)) {
                    (_, true) => prop_assert!(matches!(outcome, Err(RegistryError::Denied(_)))),
                    (false, _) => prop_assert!(matches!(outcome, Err(RegistryError::NotFound(_)))),
                    (true, false) => {
                        prop_assert_eq!(outcome, Ok(now + TTL));
                        if let Some(entry) = model.0.get_mut(&(peer, false)) {
                            entry.expires = now + TTL;
                        }
                    }
                }
            }
            ModelStep::FromRelay { peer, version, over } => {
                told(&mut registry, &mut model, now, (peer, version, over))?;
            }
            ModelStep::Wait(seconds) => now += u64::from(seconds) * SECOND,
            ModelStep::Expire => {
                registry.expire(now, usize::MAX);
            }
            ModelStep::Ask {
                skill,
                tags,
                limit,
                federated,
            } => {
                let tags: BTreeMap<u8, u8> = tags.into_iter().collect();
                check_answer(&registry, &model, now, (skill, &tags, limit, federated))?;
            }
        }
        check_figures(&mut registry, &model, now)?;
    }
    Ok(())
}

fn info(id: u8, tags: &BTreeMap<u8, u8>) -> SkillInfo {
    SkillInfo {
        skill_id: id.to_string(),
        description: String::new(),
        tags: tags
            .iter()
            .map(|(tag, value)| (tag.to_string(), value.to_string()))
            .collect(),
        agent: String::new(),
    }
}

fn told(
    registry: &mut SkillRegistry,
    model: &mut ModelRegistry,
    now: Nanos,
    said: (u8, u8, bool),
) -> Result<(), TestCaseError> {
    let (peer, version, over) = said;
    // One version has one content.
    let skill = version % 3;
    let incoming = RemoteRecord {
        agent: agent(&peer.to_string(), &[info(skill, &BTreeMap::new())]),
        origin: "relay-b".into(),
        version: START + u64::from(version),
        registered: now,
        life: TTL,
        over,
        ..RemoteRecord::default()
    };
    let outcome = registry.merge(now, incoming);
    // What has expired is remembered for two lives more, what is over for what it said.
    let standing = model.0.get(&(peer, true)).filter(|entry| {
        let forgotten = if entry.over {
            entry.expires
        } else {
            entry.expires + 2 * TTL
        };
        forgotten > now
    });
    let newer = standing.is_none_or(|entry| (version, over) > (entry.version, entry.over));
    prop_assert_eq!(
        outcome,
        Ok(if newer {
            MergeOutcome::Added
        } else {
            MergeOutcome::Unchanged
        })
    );
    if !newer {
        return Ok(());
    }
    let skills = [(skill, BTreeMap::new())].into();
    let entry = ModelEntry {
        skills,
        verified: false,
        expires: now + TTL,
        version,
        federated: true,
        over,
    };
    model.0.insert((peer, true), entry);
    Ok(())
}

fn check_answer(
    registry: &SkillRegistry,
    model: &ModelRegistry,
    now: Nanos,
    (skill, tags, limit, federated): (u8, &BTreeMap<u8, u8>, u8, bool),
) -> Result<(), TestCaseError> {
    let texts: BTreeMap<String, String> = tags
        .iter()
        .map(|(tag, value)| (tag.to_string(), value.to_string()))
        .collect();
    let name = skill.to_string();
    let query = Query {
        skill: &name,
        tags: &texts,
        limit: i32::from(limit),
        federated,
    };
    let found = discovered(registry, now, &query, now);
    let expected = model.matching(skill, tags, now, federated);
    let limit = if limit == 0 { 100 } else { usize::from(limit) };
    prop_assert_eq!(found.len(), expected.len().min(limit));
    let mut ranks = Vec::new();
    for agent in &found {
        let from_other = !agent.origin_relay_id.is_empty();
        let key = (agent.peer_id.parse::<u8>().unwrap(), from_other);
        prop_assert!(expected.contains(&key), "{key:?} is not among {expected:?}");
        let entry = &model.0[&key];
        prop_assert_eq!(entry.federated, from_other);
        prop_assert_eq!(entry.verified, agent.verified);
        prop_assert_eq!(agent.expires_at, Some(timestamp(entry.expires)));
        prop_assert_eq!(agent.skills.len(), entry.skills.len());
        ranks.push((
            !entry.verified,
            from_other,
            u64::MAX - (entry.expires - TTL) / SECOND,
        ));
    }
    prop_assert!(ranks.is_sorted(), "{ranks:?}");
    let mut once: Vec<_> = found.iter().map(|agent| &agent.peer_id).collect();
    once.sort();
    once.dedup();
    prop_assert_eq!(once.len(), found.len());
    Ok(())
}

fn check_figures(
    registry: &mut SkillRegistry,
    model: &ModelRegistry,
    now: Nanos,
) -> Result<(), TestCaseError> {
    registry.expire(now, usize::MAX);
    let of = |federated: bool| {
        let keys = model.0.keys().filter(move |key| key.1 == federated);
        keys.filter_map(|key| model.live(key.0, key.1, now))
            .collect::<Vec<_>>()
    };
    let skills = |entries: &[&ModelEntry]| {
        entries
            .iter()
            .flat_map(|entry| entry.skills.keys())
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    let figures = registry.stats();
    prop_assert_eq!(figures.local, of(false).len());
    prop_assert_eq!(figures.federated, of(true).len());
    prop_assert_eq!(figures.skills, skills(&of(false)));
    prop_assert_eq!(figures.federated_skills, skills(&of(true)));
    Ok(())
}

proptest! {
    #[test]
    fn a_registry_is_its_model(steps in vec(step(), 0..60)) {
        run(steps)?;
    }
}
