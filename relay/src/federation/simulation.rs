//! Several relays in one thread, with time, network and failures of the test's making: agents register, stay,
//! move and leave while relays are cut off from each other, stop, lose their tables, and have clocks that are up to
//! ten minutes wrong. Some agents sign, by clocks that are set ahead and back. In the end all tables must say the same, and say what is true.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_identity::{Keypair, peer_id, proof::Statement};
use agentanycast_proto::v1::{
    HeartbeatRequest, RegisterSkillsRequest, RegistryProof, SkillInfo, UnregisterSkillsRequest,
};
use prost::Message as _;

use super::{
    merge::{Clock, Nanos, SECOND, nanos},
    record,
};
use crate::registry::{
    Agent, Caller, HEARTBEAT, Kept, Limits, Query, REGISTER, Reader, Refused, Registry, Source, UNREGISTER,
};

/// Schedules that are run.
const SCHEDULES: u64 = 200;
/// How long a schedule makes trouble, in steps of [`STEP`].
const TROUBLE: u64 = 1200;
/// And how long everything is well after it: longer than any copy lives without being renewed, and long enough for a
/// table to go once along the line.
const CALM: u64 = 600;
const STEP: Nanos = SECOND / 5;
const TTL: Duration = Duration::from_secs(30);
const AGENTS: usize = 8;
const START: Nanos = 1_800_000_000 * SECOND;

struct Random(u64);

impl Random {
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

struct Relay {
    name: String,
    registry: Registry,
    /// What its clock is off by, in seconds.
    skew: i64,
    up: bool,
    /// A table on disk that it comes back with.
    keeps: bool,
    epoch: u64,
    /// Of each neighbour: how far it was pulled, and of which epoch.
    pulled: BTreeMap<usize, (u64, u64)>,
    /// Of each neighbour: how far it was pushed.
    pushed: BTreeMap<usize, u64>,
    disk: Vec<Kept>,
}

impl Relay {
    fn now(&self, time: Nanos) -> Nanos {
        time.saturating_add_signed(self.skew * 1_000_000_000)
    }

    /// When the last of what it shows of a peer was signed.
    fn signed_last(&self, peer: &str) -> Option<u64> {
        let kept = self.registry.stored(peer)?;
        Some(kept.told.proofs.last()?.time_ms)
    }

    fn keep(&mut self, peer: &str) {
        self.disk.retain(|kept| kept.told.peer_id != peer);
        self.disk.extend(self.registry.stored(peer));
    }
}

/// How far the clock of an agent that signs may be off, in seconds: as far as relays take it.
const AGENT_SKEW: u64 = 50;

/// An agent, and where it is registered; it renews what it has.
struct Owner {
    peer: String,
    /// What it signs with, if it does.
    key: Option<Keypair>,
    /// What its clock is ahead by.
    ahead: Nanos,
    /// It has been told to sign later than this, in milliseconds.
    after_ms: u64,
    home: Option<usize>,
    skill: u64,
    next_beat: Nanos,
}

impl Owner {
    /// Its identity is the seed's, so that a schedule can be run again.
    fn new(random: &mut Random, n: usize) -> Self {
        let key = n.is_multiple_of(4).then(|| {
            let seed: [u8; 32] = std::array::from_fn(|_| random.below(256) as u8);
            Keypair::ed25519_from_bytes(seed).unwrap()
        });
        Self {
            peer: key
                .as_ref()
                .map_or_else(|| format!("agent-{n}"), |key| peer_id(key).to_string()),
            key,
            ahead: 0,
            after_ms: 0,
            home: None,
            skill: 0,
            next_beat: 0,
        }
    }

    fn said(&self) -> Agent {
        said(&self.peer, self.skill)
    }

    /// Asks a relay for something, with a signature by the agent's clock, and anew when it is told to sign later.
    fn ask(&mut self, relay: &mut Relay, time: Nanos, method: &str) -> Result<(), Refused> {
        let outcome = self.ask_once(relay, time, method);
        if let Err(Refused::Outdated { stood_ms, .. }) = outcome {
            self.after_ms = stood_ms;
            return self.ask_once(relay, time, method);
        }
        outcome
    }

    fn ask_once(&self, relay: &mut Relay, time: Nanos, method: &str) -> Result<(), Refused> {
        let now = relay.now(time);
        let time_ms = ((time + self.ahead) / 1_000_000).max(self.after_ms + 1);
        let caller = Caller {
            source: Some(Source::from(std::net::IpAddr::from([192, 0, 2, 1]))),
            proof: self.proof(method, &relay.name, time_ms),
        };
        let before = relay.signed_last(&self.peer);
        match method {
            REGISTER => relay.registry.register(now, self.said(), caller).map(|_| ())?,
            HEARTBEAT => relay.registry.heartbeat(now, &self.peer, caller).map(|_| ())?,
            _ => relay.registry.unregister(now, &self.peer, &[], caller)?,
        }
        let after = relay.signed_last(&self.peer);
        assert!(
            after >= before,
            "others have what was signed at {before:?}, not {after:?}"
        );
        Ok(())
    }

    fn proof(&self, method: &str, relay: &str, time_ms: u64) -> Option<RegistryProof> {
        let key = self.key.as_ref()?;
        let peer_id = self.peer.clone();
        let request = match method {
            REGISTER => RegisterSkillsRequest {
                skills: self.said().skills,
                peer_id,
                ..RegisterSkillsRequest::default()
            }
            .encode_to_vec(),
            HEARTBEAT => HeartbeatRequest { peer_id }.encode_to_vec(),
            _ => UnregisterSkillsRequest {
                peer_id,
                skill_ids: Vec::new(),
            }
            .encode_to_vec(),
        };
        let statement = Statement {
            method,
            request: &request,
            relay,
            time_ms,
        };
        Some(RegistryProof {
            signature: statement.sign(key).unwrap(),
            method: method.to_owned(),
            time_ms,
            request,
        })
    }
}

struct World {
    random: Random,
    /// Of keys and clocks of agents.
    signing: Random,
    time: Nanos,
    relays: Vec<Relay>,
    links: Vec<(usize, usize)>,
    /// Links that are down.
    cut: Vec<bool>,
    agents: Vec<Owner>,
    shape: &'static str,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut signing = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        let count = 3 + random.below(2) as usize;
        let relay = |place: usize| Relay {
            name: format!("relay-{place}"),
            registry: Registry::new(&format!("relay-{place}"), limits(), Clock::default()),
            skew: 0,
            up: true,
            keeps: place.is_multiple_of(2),
            epoch: place as u64 + 1,
            pulled: BTreeMap::new(),
            pushed: BTreeMap::new(),
            disk: Vec::new(),
        };
        let mut relays: Vec<Relay> = (0..count).map(relay).collect();
        for relay in &mut relays {
            relay.skew = random.below(1201) as i64 - 600;
        }
        let line = (1..count).map(|place| (place - 1, place));
        let (shape, links): (_, Vec<_>) = match random.below(3) {
            0 => ("line", line.collect()),
            1 => ("ring", line.chain([(0, count - 1)]).collect()),
            _ => ("star", (1..count).map(|place| (0, place)).collect()),
        };
        let agents: Vec<Owner> = (0..AGENTS).map(|n| Owner::new(&mut signing, n)).collect();
        Self {
            random,
            signing,
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
        if self.random.one_in(8) {
            let agent = self.random.below(AGENTS as u64) as usize;
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

    /// Starts a relay that was stopped: with its table, if it keeps one, and maybe with another clock.
    fn start(&mut self, place: usize) {
        let skew = self.random.below(1201) as i64 - 600;
        let relay = &mut self.relays[place];
        if relay.up {
            return;
        }
        relay.up = true;
        relay.epoch += 100;
        relay.skew = skew;
        relay.pulled.clear();
        relay.pushed.clear();
        relay.registry = Registry::new(&relay.name, limits(), Clock::default());
        let now = relay.now(self.time);
        for kept in std::mem::take(&mut relay.disk) {
            if relay.keeps {
                let read = record::read(kept.told.clone(), now, TTL, None, None);
                let _ = relay.registry.restore(now, read, &kept);
            }
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
        relay.keep(&owner.peer);
        owner.home = Some(home);
        owner.next_beat = self.time + nanos(TTL) / 3;
    }

    fn leave(&mut self, agent: usize) {
        let owner = &mut self.agents[agent];
        let Some(home) = owner.home.take() else { return };
        let relay = &mut self.relays[home];
        if relay.up {
            owner.ask(relay, self.time, UNREGISTER).unwrap();
            relay.keep(&owner.peer);
        }
    }

    /// Agents renew, relays forget what has expired, and tell each other.
    fn step(&mut self) {
        self.time += STEP;
        for agent in 0..AGENTS {
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
        relay.keep(&owner.peer);
    }

    fn push(&mut self, from: usize, to: usize) {
        let since = self.relays[from].pushed.get(&to).copied().unwrap_or(0);
        // Some are lost on the way, with the answer or before it.
        let lost = self.random.below(10);
        if lost == 0 {
            return;
        }
        let cursor = self.deliver(from, to, since, false);
        if lost != 1 {
            self.relays[from].pushed.insert(to, cursor);
        }
    }

    fn pull(&mut self, to: usize, from: usize) {
        let epoch = self.relays[from].epoch;
        let known = self.relays[to].pulled.get(&from).copied().unwrap_or((0, 0));
        let since = if known.1 == epoch { known.0 } else { 0 };
        let cursor = self.deliver(from, to, since, since == 0);
        self.relays[to].pulled.insert(from, (cursor, epoch));
    }

    fn deliver(&mut self, from: usize, to: usize, since: u64, its_own_too: bool) -> u64 {
        let most = 1 + self.random.below(20) as usize;
        let name = self.relays[to].name.clone();
        let relay = &self.relays[from];
        let reader = Reader {
            relay: &name,
            its_own_too,
        };
        let page = relay.registry.changes(relay.now(self.time), since, most, reader);
        let via: Arc<str> = relay.name.as_str().into();
        let relay = &mut self.relays[to];
        let now = relay.now(self.time);
        for told in page.records {
            let incoming = record::read(told, now, TTL, Some(&via), None);
            let _ = relay.registry.merge(now, incoming);
        }
        page.cursor
    }

    /// Who has which skill where, as one relay sees it.
    fn seen_by(&self, relay: &Relay) -> BTreeMap<(String, String), u64> {
        let now = relay.now(self.time);
        let none = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for told in relay
            .registry
            .changes(
                now,
                0,
                usize::MAX,
                Reader {
                    relay: "",
                    its_own_too: true,
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

fn limits() -> Limits {
    Limits {
        ttl: TTL,
        ..Limits::default()
    }
}

fn said(peer: &str, skill: u64) -> Agent {
    let skill = SkillInfo {
        skill_id: skill.to_string(),
        ..SkillInfo::default()
    };
    Agent {
        peer: peer.to_owned(),
        skills: vec![skill],
        ..Agent::default()
    }
}

#[test]
fn whatever_happens_the_tables_end_equal_and_true() {
    for seed in 0..SCHEDULES {
        let mut world = World::new(seed);
        world.run();
        world.check(seed);
    }
}
