//! Which of several agents gets a task, and who after it if that one does not take it.
//!
//! PURE: chance comes in as a generator. The rules: whoever is left out (see [`PeerHealth`]) comes after everyone who is
//! not; of the others whoever is known to be there comes first, then who has proven who it is, since that costs nothing
//! but a key; and this node itself only when there is nobody else.

use std::time::Duration;

use agentanycast_identity::PeerId;
use rand::{RngExt as _, seq::SliceRandom as _};

use super::peer_health::PeerHealth;
use crate::config::RoutingStrategy;

/// Candidates of one task: after the third it waits in the queue of that one.
pub(super) const MAX_CANDIDATES: usize = 3;
/// What a peer is believed to need to acknowledge a task before it has taken one, where it is weighed with its load: a
/// round trip across an ocean. So a new agent gets work at once, and not all of it.
const UNKNOWN_LATENCY: f64 = 0.1;
/// Of so many tasks for the fastest, one finds out how fast another is by now: with many agents there is always one of
/// whom that is not known.
const EXPLORE_ONE_IN: u32 = 10;

/// What choosing goes by.
pub(super) struct CandidateSelector<'a> {
    pub(super) strategy: RoutingStrategy,
    pub(super) me: PeerId,
    pub(super) now: Duration,
    /// How many tasks for this skill have been routed before.
    pub(super) round: usize,
    pub(super) peer_health: &'a mut PeerHealth,
}

impl CandidateSelector<'_> {
    /// The candidates of a task, in the order in which they get it. Of `there` it is sure that they are, as it is of those
    /// who have taken tasks; `proven` are who they say.
    pub(super) fn candidates(
        &mut self,
        agents: &[PeerId],
        [there, proven]: [&[PeerId]; 2],
        rng: &mut impl rand::Rng,
    ) -> Vec<PeerId> {
        let mut others: Vec<PeerId> = agents.iter().copied().filter(|peer| *peer != self.me).collect();
        others.sort_unstable();
        others.dedup();
        if others.is_empty() {
            return agents.iter().copied().take(1).collect();
        }
        let (mut open, mut resting): (Vec<PeerId>, Vec<PeerId>) = others
            .into_iter()
            .partition(|peer| self.peer_health.is_eligible(self.now, *peer));
        // Anybody can say that somebody has a skill.
        let degree = |peer: &PeerId| {
            if there.contains(peer) || self.peer_health.stats(*peer).latency.is_some() {
                0
            } else if proven.contains(peer) {
                1
            } else {
                2
            }
        };
        open.sort_by_cached_key(degree);
        let groups = open.chunk_by(|one, other| degree(one) == degree(other));
        let mut groups: Vec<Vec<PeerId>> = groups.map(<[PeerId]>::to_vec).collect();
        for group in &mut groups {
            self.order(group, rng);
        }
        let mut open = groups.concat();
        resting.shuffle(rng);
        resting.sort_by_key(|peer| self.peer_health.stats(*peer).failures);
        open.extend(resting);
        open.truncate(MAX_CANDIDATES);
        if let Some(first) = open.first() {
            self.peer_health.on_chosen(self.now, *first);
        }
        open
    }

    fn order(&self, peers: &mut Vec<PeerId>, rng: &mut impl rand::Rng) {
        match self.strategy {
            RoutingStrategy::Random => peers.shuffle(rng),
            RoutingStrategy::RoundRobin if !peers.is_empty() => {
                let first = self.round % peers.len();
                peers.rotate_left(first);
            }
            RoutingStrategy::RoundRobin => {}
            RoutingStrategy::LeastLatency => self.fastest_first(peers, rng),
            RoutingStrategy::LeastLoaded => *peers = self.two_choices(std::mem::take(peers), rng),
        }
    }

    /// Choosing the best of all would send every node's tasks to the same one (Mitzenmacher, "The power of two choices
    /// in randomized load balancing", 2001).
    fn two_choices(&self, mut left: Vec<PeerId>, rng: &mut impl rand::Rng) -> Vec<PeerId> {
        let mut chosen = Vec::with_capacity(MAX_CANDIDATES);
        while chosen.len() < MAX_CANDIDATES && !left.is_empty() {
            let one = rng.random_range(0..left.len());
            let other = rng.random_range(0..left.len());
            let better = if self.load(left[other]) < self.load(left[one]) {
                other
            } else {
                one
            };
            chosen.push(left.swap_remove(better));
        }
        chosen
    }

    /// Whoever was fastest when it was last heard of goes first, but now and then whoever was longest not tried.
    fn fastest_first(&self, peers: &mut [PeerId], rng: &mut impl rand::Rng) {
        peers.shuffle(rng);
        peers.sort_by(|a, b| self.latency(*a).total_cmp(&self.latency(*b)));
        if !rng.random_ratio(1, EXPLORE_ONE_IN) {
            return;
        }
        let untried = (0..peers.len()).filter(|at| self.peer_health.needs_trial(self.now, peers[*at]));
        if let Some(at) = untried.min_by_key(|at| self.peer_health.stats(peers[*at]).trial_until) {
            peers[..=at].rotate_right(1);
        }
    }

    /// What a peer needed last, in seconds; more than any other where it is not known.
    fn latency(&self, peer: PeerId) -> f64 {
        self.peer_health.stats(peer).latency.unwrap_or(f64::INFINITY)
    }

    fn load(&self, peer: PeerId) -> f64 {
        let standing = self.peer_health.stats(peer);
        let latency = standing
            .fresh_latency(self.now)
            .unwrap_or(UNKNOWN_LATENCY)
            .max(0.001);
        f64::from(standing.in_flight + 1) * latency * f64::from(standing.failures + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use agentanycast_core::RouteOutcome;
    use proptest::prelude::*;
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;
    use crate::anycast::peer_health::LATENCY_TTL;

    const ALL: [RoutingStrategy; 4] = [
        RoutingStrategy::Random,
        RoutingStrategy::RoundRobin,
        RoutingStrategy::LeastLatency,
        RoutingStrategy::LeastLoaded,
    ];

    fn peer(number: u8) -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat()).unwrap()
    }

    fn me() -> PeerId {
        peer(0)
    }

    fn choose(
        strategy: RoutingStrategy,
        board: &mut PeerHealth,
        round: usize,
        agents: &[PeerId],
        seed: u64,
    ) -> Vec<PeerId> {
        let mut choosing = CandidateSelector {
            strategy,
            me: me(),
            now: Duration::from_secs(1),
            round,
            peer_health: board,
        };
        choosing.candidates(agents, [agents, &[]], &mut StdRng::seed_from_u64(seed))
    }

    proptest! {
        /// Any strategy: three at most, each once, nobody made up, this node only alone, who is left out last.
        #[test]
        fn candidates_are_sound(
            agents in prop::collection::vec(0..12_u8, 0..10),
            resting in prop::collection::vec(0..12_u8, 0..6),
            round in 0..100_usize,
            seed in any::<u64>(),
        ) {
            for strategy in ALL {
                let mut board = PeerHealth::new();
                for failed in &resting {
                    board.record(Duration::from_secs(1), RouteOutcome::TimedOut(peer(*failed)));
                }
                let asked: Vec<PeerId> = agents.iter().map(|number| peer(*number)).collect();
                let chosen = choose(strategy, &mut board, round, &asked, seed);
                let mut others: Vec<PeerId> = asked.iter().copied().filter(|peer| *peer != me()).collect();
                others.sort_unstable();
                others.dedup();
                if others.is_empty() {
                    prop_assert_eq!(chosen, if asked.is_empty() { vec![] } else { vec![me()] });
                    continue;
                }
                prop_assert_eq!(chosen.len(), others.len().min(MAX_CANDIDATES));
                let mut unique = chosen.clone();
                unique.sort_unstable();
                unique.dedup();
                prop_assert_eq!(unique.len(), chosen.len());
                prop_assert!(chosen.iter().all(|peer| others.contains(peer)));
                let is_resting = |id: &PeerId| resting.iter().any(|number| peer(*number) == *id);
                let open = others.iter().filter(|peer| !is_resting(peer)).count();
                for (place, id) in chosen.iter().enumerate() {
                    prop_assert_eq!(is_resting(id), place >= open, "{} at {}", id, place);
                }
            }
        }
    }

    #[test]
    fn made_up_agents_come_last() {
        let agents: Vec<PeerId> = (1..=60).map(peer).collect();
        let proven: Vec<PeerId> = (20..=50).map(peer).collect();
        for strategy in ALL {
            let mut board = PeerHealth::new();
            board.record(
                Duration::ZERO,
                RouteOutcome::Accepted {
                    peer: peer(7),
                    after: Some(Duration::from_millis(5)),
                },
            );
            for seed in 0..20 {
                let mut choosing = CandidateSelector {
                    strategy,
                    me: me(),
                    now: Duration::from_secs(1),
                    round: seed as usize,
                    peer_health: &mut board,
                };
                let chosen =
                    choosing.candidates(&agents, [&[peer(30)], &proven], &mut StdRng::seed_from_u64(seed));
                assert!(
                    chosen[..2].contains(&peer(7)) && chosen[..2].contains(&peer(30)),
                    "{strategy:?}"
                );
                assert!(proven.contains(&chosen[2]), "{strategy:?}");
            }
        }
    }

    #[test]
    fn each_in_its_turn() {
        let agents = [peer(3), peer(1), peer(2)];
        let mut board = PeerHealth::new();
        let firsts: Vec<PeerId> = (0..6)
            .map(|round| choose(RoutingStrategy::RoundRobin, &mut board, round, &agents, 7)[0])
            .collect();
        assert_eq!(firsts, [peer(1), peer(2), peer(3), peer(1), peer(2), peer(3)]);
    }

    #[test]
    fn the_fastest_first_and_the_unknown_now_and_then() {
        let mut board = PeerHealth::new();
        for (number, ms) in [(1, 30), (2, 10), (3, 20)] {
            let after = Some(Duration::from_millis(ms));
            board.record(
                Duration::ZERO,
                RouteOutcome::Accepted {
                    peer: peer(number),
                    after,
                },
            );
        }
        let agents = [peer(1), peer(2), peer(3)];
        for seed in 0..100 {
            let chosen = choose(RoutingStrategy::LeastLatency, &mut board, 0, &agents, seed);
            assert_eq!(chosen, [peer(2), peer(3), peer(1)]);
        }
        // One task finds out how fast a new one is; meanwhile the others have theirs.
        let with_new = [peer(1), peer(2), peer(3), peer(4)];
        let firsts: Vec<PeerId> = (0..1000)
            .map(|seed| choose(RoutingStrategy::LeastLatency, &mut board, 0, &with_new, seed)[0])
            .collect();
        assert_eq!(firsts.iter().filter(|first| **first == peer(4)).count(), 1);
        assert_eq!(firsts.iter().filter(|first| **first == peer(2)).count(), 999);
    }

    /// A steady flow of tasks, one each `gap`, for agents that take `needs` to acknowledge one.
    struct TaskFlow {
        agents: Vec<PeerId>,
        gap: Duration,
        peer_health: PeerHealth,
        rng: StdRng,
        now: Duration,
        /// Acknowledgements on their way.
        coming: Vec<(Duration, PeerId, Duration)>,
    }

    impl TaskFlow {
        fn new(agents: u8, gap: u64, seed: u64) -> Self {
            Self {
                agents: (1..=agents).map(peer).collect(),
                gap: Duration::from_millis(gap),
                peer_health: PeerHealth::new(),
                rng: StdRng::seed_from_u64(seed),
                now: Duration::ZERO,
                coming: Vec::new(),
            }
        }

        /// So many tasks; how many each agent is given. `speeds` in milliseconds.
        fn run(&mut self, tasks: u32, speeds: &[u64]) -> HashMap<PeerId, u32> {
            let mut given = HashMap::new();
            for _ in 0..tasks {
                let (now, board) = (self.now, &mut self.peer_health);
                self.coming.retain(|(at, peer, after)| {
                    let is_there = *at <= now;
                    if is_there {
                        let after = Some(*after);
                        board.record(now, RouteOutcome::Accepted { peer: *peer, after });
                    }
                    !is_there
                });
                let mut choosing = CandidateSelector {
                    strategy: RoutingStrategy::LeastLatency,
                    me: me(),
                    now,
                    round: 0,
                    peer_health: board,
                };
                let first = choosing.candidates(&self.agents, [&self.agents, &[]], &mut self.rng)[0];
                let place = self.agents.iter().position(|agent| *agent == first).unwrap();
                let needs = Duration::from_millis(speeds[place]);
                self.coming.push((now + needs, first, needs));
                *given.entry(first).or_default() += 1;
                self.now += self.gap;
            }
            given
        }

        /// How many of `given` went to one of the fastest.
        fn to_the_fastest(&self, given: &HashMap<PeerId, u32>, speeds: &[u64]) -> u32 {
            let fastest = speeds.iter().min().unwrap();
            let agents = self
                .agents
                .iter()
                .zip(speeds)
                .filter(|(_, speed)| *speed == fastest);
            agents.filter_map(|(agent, _)| given.get(agent)).sum()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Peers of any speed, which changes at any time: the fastest gets all tasks but those that find out how the others
        /// are by now, and these are found out, so nobody is forgotten for having been slow once.
        #[test]
        fn the_slow_are_tried_again(
            speeds in prop::collection::vec(prop::collection::vec(1..3000_u64, 4), 2..5),
            gap in 50..1000_u64,
            seed in any::<u64>(),
        ) {
            let mut flow = TaskFlow::new(4, gap, seed);
            // Until what was true before is believed no more: what was measured last, and what that had to be mixed with.
            let settles = 400 + (2 * LATENCY_TTL.as_millis() as u64 / gap) as u32;
            for speeds in speeds {
                let given = flow.run(settles, &speeds);
                prop_assert_eq!(given.len(), 4, "everybody is tried: {:?}", given);
                let given = flow.run(600, &speeds);
                let best = flow.to_the_fastest(&given, &speeds);
                prop_assert!(best >= 480, "{} of 600 for the fastest", best);
            }
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// The same with so many that there is always somebody who was not heard of for long.
        #[test]
        fn the_fastest_of_many_gets_the_most(
            speeds in prop::collection::vec(1..3000_u64, 100),
            gap in 50..3000_u64,
            seed in any::<u64>(),
        ) {
            let mut flow = TaskFlow::new(100, gap, seed);
            let given = flow.run(2000, &speeds);
            prop_assert_eq!(given.len(), 100, "everybody is tried");
            let given = flow.run(500, &speeds);
            let best = flow.to_the_fastest(&given, &speeds);
            prop_assert!(best >= 400, "{} of 500 for the fastest", best);
        }
    }

    #[test]
    fn work_goes_to_whoever_has_less() {
        // Ten tasks are with the first, none with the others: of two at random it is chosen only against itself.
        let mut board = PeerHealth::new();
        for _ in 0..10 {
            board.record(Duration::ZERO, RouteOutcome::Assigned(peer(1)));
        }
        let agents = [peer(1), peer(2), peer(3)];
        let mut firsts: HashMap<PeerId, u32> = HashMap::new();
        for seed in 0..900 {
            *firsts
                .entry(choose(RoutingStrategy::LeastLoaded, &mut board, 0, &agents, seed)[0])
                .or_default() += 1;
        }
        // One in nine, four in nine, four in nine.
        assert!((50..150).contains(&firsts[&peer(1)]), "{firsts:?}");
        assert!(firsts[&peer(2)] > 300 && firsts[&peer(3)] > 300, "{firsts:?}");
    }
}
