//! Questions with several tags against a search from end to end, whatever else the agents say; and what a question may
//! cost.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::registry::index_keys::{MAX_KINDS, MAX_MERGED_KINDS};

/// Tags that are asked for; an agent has those whose bits are set.
static TAGS: [&str; 3] = ["a", "b", "c"];

const A_AND_B: u8 = 3;

fn of_bits(bits: u8) -> impl Iterator<Item = &'static str> {
    let tags = TAGS.iter().enumerate();
    tags.filter_map(move |(bit, tag)| (bits >> bit & 1 == 1).then_some(*tag))
}

/// Registers an agent with these tags, and with one that nobody else has.
fn register(registry: &mut SkillRegistry, now: Nanos, number: usize, (bits, own): (u8, bool)) {
    let name = format!("p{number}");
    let mut tags: Vec<(&str, &str)> = of_bits(bits).map(|tag| (tag, "1")).collect();
    if own {
        tags.push(("own", name.as_str()));
    }
    let said = agent(&name, &[skill("s", &tags)]);
    registry.register(now, said, from((number % 2) as u8)).unwrap();
}

fn long_lived() -> SkillRegistry {
    registry(RegistryLimits {
        ttl: Duration::from_hours(1),
        ..RegistryLimits::default()
    })
}

/// More kinds than are gone through: half of the agents with the one tag, half with the other.
fn with_many_kinds(first: usize) -> SkillRegistry {
    let mut registry = long_lived();
    for number in first..=first + MAX_KINDS {
        register(&mut registry, START, number, (1_u8 << (number % 2), true));
    }
    registry
}

fn tags_of(bits: u8) -> BTreeMap<String, String> {
    of_bits(bits)
        .map(|tag| (tag.to_owned(), "1".to_owned()))
        .collect()
}

fn question(tags: &BTreeMap<String, String>) -> Query<'_> {
    Query {
        skill: "s",
        tags,
        limit: 1000,
        federated: false,
    }
}

fn found(registry: &SkillRegistry, bits: u8) -> Vec<String> {
    let tags = tags_of(bits);
    let found = discovered(registry, START, &question(&tags), 7);
    let mut found: Vec<String> = found.into_iter().map(|agent| agent.peer_id).collect();
    found.sort();
    found
}

/// The answer, and in how many pieces it came.
fn in_pieces(registry: &SkillRegistry, query: Query<'_>, piece: usize) -> (Vec<SkillRegistration>, usize) {
    let mut search = Search::new(query, 7);
    search.piece = piece;
    let mut pieces = 1;
    loop {
        if let Some(found) = registry.search(START, &mut search) {
            return (DiscoverBySkillResponse::decode(&*found).unwrap().agents, pieces);
        }
        pieces += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_has_all_tags_is_found(
        agents in vec((0..8_u8, any::<bool>()), 0..60),
        many_kinds in any::<bool>(),
    ) {
        let first = agents.len();
        let mut registry = if many_kinds { with_many_kinds(first) } else { long_lived() };
        for (number, said) in agents.iter().enumerate() {
            register(&mut registry, START, number, *said);
        }
        let others = if many_kinds { first..first + MAX_KINDS + 1 } else { 0..0 };
        let of_others = others.map(|number| (number, 1_u8 << (number % 2)));
        let all: Vec<(usize, u8)> = agents.iter().map(|said| said.0).enumerate().chain(of_others).collect();
        for asked in 0..8_u8 {
            let matching = all.iter().filter(|(_, bits)| bits & asked == asked);
            let mut expected: Vec<String> = matching.map(|(number, _)| format!("p{number}")).collect();
            expected.sort();
            prop_assert_eq!(found(&registry, asked), expected, "tags {:03b}", asked);
        }
        // And nothing is left of kinds that are gone.
        for (number, _) in all {
            registry.unregister(START, &format!("p{number}"), &[], from(1)).unwrap();
        }
        prop_assert!((0..8).all(|asked| found(&registry, asked).is_empty()));
        prop_assert_eq!(registry.stats().skills, 0);
    }
}

/// What happens between two pieces of a search.
#[derive(Clone, Debug)]
enum ConcurrentChange {
    Renews(usize),
    Leaves(usize),
    Says(usize, u8),
    Passes,
}

fn concurrent_change() -> impl Strategy<Value = ConcurrentChange> {
    let number = 0..30_usize;
    prop_oneof![
        4 => number.clone().prop_map(ConcurrentChange::Renews),
        1 => number.clone().prop_map(ConcurrentChange::Leaves),
        3 => (number, 0..8_u8).prop_map(|(number, bits)| ConcurrentChange::Says(number, bits)),
        2 => Just(ConcurrentChange::Passes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nobody_is_missed_between_two_pieces(
        agents in vec(0..8_u8, 30),
        changes in vec(concurrent_change(), 0..200),
        at_once in 1..12_usize,
        seed in any::<u64>(),
    ) {
        let mut registry = with_many_kinds(agents.len());
        let mut has: BTreeMap<usize, u8> = agents.into_iter().enumerate().collect();
        for (number, bits) in &has {
            register(&mut registry, START, *number, (*bits, false));
        }
        let mut now = START;
        let tags = tags_of(A_AND_B);
        let mut search = Search::new(question(&tags), seed);
        search.piece = 20;
        let mut changes = changes.into_iter();
        let answer = loop {
            if let Some(answer) = registry.search(now, &mut search) {
                break answer;
            }
            for change in changes.by_ref().take(at_once) {
                match change {
                    ConcurrentChange::Renews(number) => {
                        let renewed = registry.heartbeat(now, &format!("p{number}"), from(1));
                        prop_assert_eq!(renewed.is_ok(), has.contains_key(&number));
                    }
                    ConcurrentChange::Leaves(number) => {
                        registry.unregister(now, &format!("p{number}"), &[], from(1)).unwrap();
                        has.remove(&number);
                    }
                    ConcurrentChange::Says(number, bits) => {
                        register(&mut registry, now, number, (bits, false));
                        has.insert(number, bits);
                    }
                    ConcurrentChange::Passes => now += SECOND,
                }
            }
        };
        let found = DiscoverBySkillResponse::decode(&*answer).unwrap().agents;
        let peers: BTreeSet<String> = found.iter().map(|agent| agent.peer_id.clone()).collect();
        prop_assert_eq!(peers.len(), found.len(), "each once");
        let matching = has.into_iter().filter(|(_, bits)| bits & A_AND_B == A_AND_B);
        let expected: BTreeSet<String> = matching.map(|(number, _)| format!("p{number}")).collect();
        prop_assert_eq!(peers, expected);
    }
}

#[test]
fn tags_that_nobody_has_together_are_answered_at_once() {
    let mut registry = long_lived();
    for number in 0..1000 {
        register(&mut registry, START, number, (1_u8 << (number % 2), false));
        register(
            &mut registry,
            START,
            1000 + number,
            (4 | 1_u8 << (number % 2), false),
        );
    }
    for asked in [A_AND_B, 7] {
        let tags = tags_of(asked);
        let (found, pieces) = in_pieces(&registry, question(&tags), 1);
        assert_eq!((found.len(), pieces), (0, 1));
    }
    // And so are those who have them.
    let tags = tags_of(5);
    let (found, pieces) = in_pieces(&registry, question(&tags), 1);
    assert_eq!((found.len(), pieces), (500, 1));
}

#[test]
fn what_is_in_the_way_is_looked_at_in_pieces() {
    let registry = with_many_kinds(0);
    let tags = tags_of(A_AND_B);
    let (found, pieces) = in_pieces(&registry, question(&tags), 32);
    // Half of all, and two tags of each; the last piece finds that nobody is left.
    assert_eq!((found.len(), pieces), (0, MAX_KINDS / 32 + 1));
    // A peer that is at many relays is in its own way.
    let mut registry = long_lived();
    for n in 0..100 {
        registry
            .merge(START, told("p", &format!("relay-{n}"), START))
            .unwrap();
    }
    let none = BTreeMap::new();
    for federated in [false, true] {
        let query = Query {
            federated,
            ..question(&none)
        };
        let (found, pieces) = in_pieces(&registry, query, 20);
        assert_eq!((found.len(), pieces), (1, 5));
    }
}

#[test]
fn more_tags_than_an_agent_may_have_find_nobody() {
    let mut registry = long_lived();
    register(&mut registry, START, 1, (7, true));
    let tags: BTreeMap<String, String> = (0..33).map(|n| (n.to_string(), String::new())).collect();
    assert_eq!(
        registry.search(START, &mut Search::new(question(&tags), 1)),
        Some(Vec::new())
    );
}

#[test]
fn agents_of_several_kinds_are_as_likely_to_be_found() {
    let mut registry = long_lived();
    // One of a kind, and the others of another one; so few that no source is crowded.
    for number in 0..8 {
        let bits = if number == 0 { 7 } else { A_AND_B };
        register(&mut registry, START, number, (bits, false));
    }
    let tags = tags_of(A_AND_B);
    let query = Query {
        limit: 1,
        ..question(&tags)
    };
    let firsts = (0..300).flat_map(|seed| discovered(&registry, START, &query, seed));
    let firsts: BTreeSet<String> = firsts.map(|agent| agent.peer_id).collect();
    assert_eq!(firsts.len(), 8);
}

#[test]
fn too_many_kinds_to_put_in_order_are_searched() {
    let mut registry = long_lived();
    for number in 0..2 * MAX_MERGED_KINDS {
        register(&mut registry, START, number, (A_AND_B, true));
    }
    assert_eq!(found(&registry, A_AND_B).len(), 2 * MAX_MERGED_KINDS);
}
