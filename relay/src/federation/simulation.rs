//! Several relays in one thread, with time, network and failures of the test's making: agents register, stay,
//! move and leave while relays are cut off from each other, stop, lose their tables, and have wall clocks
//! that are up to ten minutes wrong and are set while they run. Some agents sign, by clocks that are set
//! ahead and back. In the end all tables must say the same, and say what is true.
//!
//! `AGENTANYCAST_SCHEDULES` is the number of schedules (200), `AGENTANYCAST_FIRST_SCHEDULE` the first one (0).

mod agent;
mod relay;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast_proto::v1::FederatedRegistration;

use self::{
    agent::{AGENT_SKEW, SimulatedAgent},
    relay::SimulatedRelay,
};
use super::sync_cursor::PageOutcome;
use crate::{
    clock::{Nanos, SECOND, nanos},
    registry::{
        ChangesPage, ChangesReader, HEARTBEAT, Query, REGISTER, RecordSender, RegistryLimits, RemoteRecord,
        UNREGISTER,
    },
};

/// How long a schedule makes trouble, in steps of [`STEP`].
const TROUBLE: u64 = 1200;
/// And how long everything is well after it: longer than a copy lives and is remembered without being
/// renewed, which is 4 TTL, and long enough for a table to go once along the line.
const CALM: u64 = 900;
const STEP: Nanos = SECOND / 5;
const TTL: Duration = Duration::from_secs(30);
const START: Nanos = 1_800_000_000 * SECOND;

struct SimulationRng(u64);

impl SimulationRng {
    /// A stream of a seed, of its own (Steele, Lea and Flood's `SplitMix64`, one step of it).
    fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = seed.wrapping_add(stream).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn one_in(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }
}

struct RelaySimulation {
    random: SimulationRng,
    /// Of keys and clocks of agents.
    signing: SimulationRng,
    /// Of clocks of relays that are set while they run.
    clocks: SimulationRng,
    time: Nanos,
    relays: Vec<SimulatedRelay>,
    links: Vec<(usize, usize)>,
    /// Links that are down.
    cut: Vec<bool>,
    agents: Vec<SimulatedAgent>,
    shape: &'static str,
}

impl RelaySimulation {
    fn new(seed: u64) -> Self {
        let mut random = SimulationRng::new(seed, 0);
        let mut signing = SimulationRng::new(seed, 1 << 40);
        let count = 3 + random.below(3) as usize;
        let agents = if random.one_in(4) { 40 } else { 8 };
        let mut relays: Vec<SimulatedRelay> = (0..count).map(SimulatedRelay::new).collect();
        for relay in &mut relays {
            relay.skew = random.below(1201) as i64 - 600;
        }
        let line = (1..count).map(|place| (place - 1, place));
        let (shape, links): (_, Vec<_>) = match random.below(3) {
            0 => ("line", line.collect()),
            1 => ("ring", line.chain([(0, count - 1)]).collect()),
            _ => ("star", (1..count).map(|place| (0, place)).collect()),
        };
        let agents: Vec<SimulatedAgent> = (0..agents)
            .map(|n| SimulatedAgent::new(&mut signing, n))
            .collect();
        Self {
            random,
            signing,
            clocks: SimulationRng::new(seed, 1 << 41),
            time: START,
            relays,
            cut: vec![false; links.len()],
            links,
            agents,
            shape,
        }
    }

    fn run(&mut self) {
        for _ in 0..TROUBLE {
            self.trouble();
            self.step();
        }
        for relay in 0..self.relays.len() {
            self.start(relay);
        }
        self.cut.fill(false);
        for _ in 0..CALM {
            self.step();
        }
    }

    /// Something happens now and then.
    fn trouble(&mut self) {
        if self.random.one_in(15) {
            let link = self.random.below(self.links.len() as u64) as usize;
            self.cut[link] = !self.cut[link];
        }
        if self.random.one_in(60) {
            let relay = self.random.below(self.relays.len() as u64) as usize;
            if self.relays[relay].up {
                self.relays[relay].up = false;
            } else {
                self.start(relay);
            }
        }
        if self.clocks.one_in(100) {
            let relay = self.clocks.below(self.relays.len() as u64) as usize;
            self.relays[relay].skew = self.clocks.below(1201) as i64 - 600;
        }
        if self.random.one_in(8) {
            let agent = self.random.below(self.agents.len() as u64) as usize;
            let home = self.random.below(self.relays.len() as u64) as usize;
            if self.signing.one_in(3) {
                self.agents[agent].ahead = self.signing.below(AGENT_SKEW) * SECOND;
                // A start of the agent forgets what it signed.
                self.agents[agent].after_ms = 0;
            }
            match self.random.below(3) {
                0 => self.leave(agent),
                _ => self.register(agent, home),
            }
        }
    }

    /// Starts a relay that was stopped, maybe with another clock.
    fn start(&mut self, place: usize) {
        let skew = self.random.below(1201) as i64 - 600;
        if !self.relays[place].up {
            self.relays[place].start(self.time, skew);
        }
    }

    /// An agent moves to a relay, or changes its skills there.
    fn register(&mut self, agent: usize, home: usize) {
        if self.agents[agent].home != Some(home) {
            self.leave(agent);
        }
        let skill = self.random.below(4);
        let relay = &mut self.relays[home];
        if !relay.up {
            return;
        }
        let owner = &mut self.agents[agent];
        owner.skill = skill;
        owner.ask(relay, self.time, REGISTER).unwrap();
        relay.keep(self.time, &owner.peer);
        owner.home = Some(home);
        owner.next_beat = self.time + nanos(TTL) / 3;
    }

    fn leave(&mut self, agent: usize) {
        let owner = &mut self.agents[agent];
        let Some(home) = owner.home.take() else { return };
        let relay = &mut self.relays[home];
        if relay.up {
            owner.ask(relay, self.time, UNREGISTER).unwrap();
            relay.keep(self.time, &owner.peer);
        }
    }

    /// Agents renew, relays forget what has expired, and tell each other.
    fn step(&mut self) {
        self.time += STEP;
        for agent in 0..self.agents.len() {
            self.beat(agent);
        }
        for relay in self.relays.iter_mut().filter(|relay| relay.up) {
            relay.registry.expire(relay.now(self.time), usize::MAX);
        }
        for link in 0..self.links.len() {
            let (one, other) = self.links[link];
            if self.cut[link] || !self.relays[one].up || !self.relays[other].up {
                continue;
            }
            for (from, to) in [(one, other), (other, one)] {
                self.push(from, to);
                if self.random.one_in(50) {
                    self.pull(to, from);
                }
            }
        }
    }

    fn beat(&mut self, agent: usize) {
        let owner = &mut self.agents[agent];
        let Some(home) = owner.home.filter(|_| owner.next_beat <= self.time) else {
            return;
        };
        owner.next_beat = self.time + nanos(TTL) / 3;
        let relay = &mut self.relays[home];
        if !relay.up {
            return;
        }
        if owner.ask(relay, self.time, HEARTBEAT).is_err() {
            // As an agent does that is told so.
            owner.ask(relay, self.time, REGISTER).unwrap();
        }
        relay.keep(self.time, &owner.peer);
    }

    fn push(&mut self, from: usize, to: usize) {
        // Some are lost on the way, with the answer or before it.
        let lost = self.random.below(10);
        if lost == 0 {
            return;
        }
        let since = self.relays[from].progress(to).pushed;
        let page = self.page(from, to, since, false);
        self.take(from, to, page.records);
        if lost != 1 {
            self.relays[from].progress(to).pushed = page.cursor;
        }
    }

    /// Page after page, until one is lost.
    fn pull(&mut self, to: usize, from: usize) {
        while !self.random.one_in(10) {
            let epoch = self.relays[from].epoch;
            let question = self.relays[to].progress(from).next_request().in_epoch(epoch);
            let page = self.page(from, to, question.since, question.everything);
            let count = page.records.len();
            let progress = self.relays[to].progress(from);
            let answer = progress.on_page(epoch, count, Some(page.cursor), page.more);
            if answer != PageOutcome::Stale {
                self.take(from, to, page.records);
            }
            if answer == PageOutcome::Last {
                break;
            }
        }
    }

    fn page(&mut self, from: usize, to: usize, since: u64, everything: bool) -> ChangesPage {
        let most = 1 + self.random.below(20) as usize;
        let reader = ChangesReader {
            relay: &self.relays[to].name,
            everything,
        };
        let relay = &self.relays[from];
        relay.registry.changes(relay.now(self.time), since, most, reader)
    }

    fn take(&mut self, from: usize, to: usize, records: Vec<FederatedRegistration>) {
        let via: Arc<str> = self.relays[from].name.as_str().into();
        let relay = &mut self.relays[to];
        let now = relay.now(self.time);
        let by = RecordSender {
            via: Some(&via),
            is_trusted: true,
            ..RecordSender::default()
        };
        for told in records {
            let incoming = RemoteRecord::from_registration(told, now.wall, TTL, by);
            let _ = relay.registry.merge(now, incoming);
        }
    }

    /// Who has which skill where, as one relay sees it.
    fn seen_by(&self, relay: &SimulatedRelay) -> BTreeMap<(String, String), u64> {
        let now = relay.now(self.time);
        let none = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for told in relay
            .registry
            .changes(
                now,
                0,
                usize::MAX,
                ChangesReader {
                    relay: "",
                    everything: true,
                },
            )
            .records
        {
            if !told.tombstone {
                let skill = told.skills[0].skill_id.parse().unwrap();
                seen.insert((told.peer_id.clone(), told.origin_relay_id), skill);
                let query = Query {
                    skill: &told.skills[0].skill_id,
                    tags: &none,
                    limit: 0,
                    federated: true,
                };
                assert!(
                    !relay.registry.discover(now, &query, 1).is_empty(),
                    "{} is not found",
                    told.peer_id
                );
            }
        }
        seen
    }

    fn check(&self, seed: u64) {
        let at_home = self.agents.iter().filter_map(|owner| {
            let home = self.relays[owner.home?].name.clone();
            Some(((owner.peer.clone(), home), owner.skill))
        });
        let truth: BTreeMap<_, _> = at_home.collect();
        for relay in &self.relays {
            let seen = self.seen_by(relay);
            assert_eq!(
                seen,
                truth,
                "{} in schedule {seed}, a {} of {}",
                relay.name,
                self.shape,
                self.relays.len()
            );
        }
    }
}

fn limits() -> RegistryLimits {
    RegistryLimits {
        ttl: TTL,
        ..RegistryLimits::default()
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_happens_the_tables_end_equal_and_true() {
    let first = number("AGENTANYCAST_FIRST_SCHEDULE", 0);
    let count = number("AGENTANYCAST_SCHEDULES", 200);
    let next = AtomicU64::new(first);
    let wrong = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let ends_well = catch_unwind(AssertUnwindSafe(|| {
                        let mut world = RelaySimulation::new(seed);
                        world.run();
                        world.check(seed);
                    }));
                    wrong.fetch_add(u64::from(ends_well.is_err()), Relaxed);
                }
            });
        }
    });
    let wrong = wrong.into_inner();
    assert_eq!(wrong, 0, "of {count} schedules {wrong} ended wrong, see above");
}
