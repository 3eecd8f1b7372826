use agentanycast_identity::{Keypair, peer_id};
use proptest::prelude::*;

use super::*;

const PING: Duration = Duration::from_secs(15);

struct InstancesFixture {
    instances: PeerInstances,
    now: Instant,
    peer: PeerId,
    runs: [Instance; 3],
}

impl InstancesFixture {
    fn new() -> Self {
        let key = Keypair::generate_ed25519();
        Self {
            instances: PeerInstances::default(),
            now: Instant::now(),
            peer: peer_id(&key),
            runs: [0; 3].map(|_| Instance::new(&key).unwrap()),
        }
    }

    fn told(&mut self, connection: usize, run: usize) {
        let connection = ConnectionId::new_unchecked(connection);
        self.instances
            .introduced(self.peer, connection, self.runs[run], self.now);
    }

    fn answered(&mut self, connection: usize) -> Option<InstanceChange> {
        let connection = ConnectionId::new_unchecked(connection);
        self.instances.ping_answered(self.peer, connection, self.now)
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn at_once(&self) -> usize {
        self.instances.alive(self.peer, self.now).len()
    }
}

#[test]
fn two_daemons_are_told_once_and_again_when_one_is_gone() {
    let mut world = InstancesFixture::new();
    world.told(1, 0);
    world.wait(PING);
    assert_eq!(world.answered(1), None);
    world.told(2, 1);
    world.wait(Duration::from_millis(1));
    assert_eq!(
        world.answered(2),
        None,
        "the first may have ended since it answered"
    );
    world.wait(PING);
    assert!(matches!(world.answered(1), Some(InstanceChange::Duplicate(runs)) if runs.len() == 2));
    assert_eq!(world.answered(2), None, "told once");
    // One ends, and its host with it, so that its connection stays for a while.
    for _ in 0..2 {
        world.wait(PING);
        assert_eq!(world.answered(2), None);
    }
    world.wait(PING);
    assert_eq!(world.answered(2), Some(InstanceChange::Single));
    assert_eq!(world.at_once(), 0);
}

#[test]
fn a_daemon_that_was_started_again_is_one() {
    let mut world = InstancesFixture::new();
    world.told(1, 0);
    world.wait(PING);
    world.answered(1);
    // Killed: over QUIC its old connection stands until it is noticed.
    world.told(2, 1);
    for _ in 0..4 {
        world.wait(Duration::from_secs(5));
        assert_eq!(world.answered(2), None);
        assert_eq!(world.at_once(), 0);
    }
}

#[test]
fn a_connection_that_ends_ends_it() {
    let mut world = InstancesFixture::new();
    world.told(1, 0);
    world.told(2, 1);
    world.wait(PING);
    world.answered(1);
    assert!(world.answered(2).is_some());
    let closed = world
        .instances
        .closed(world.peer, ConnectionId::new_unchecked(1), world.now);
    assert_eq!(closed, Some(InstanceChange::Single));
}

#[derive(Clone, Debug)]
enum InstanceStep {
    Told(usize, usize),
    Answered(usize),
    Closed(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = InstanceStep> {
    prop_oneof![
        (0..4_usize, 0..3_usize).prop_map(|(connection, run)| InstanceStep::Told(connection, run)),
        (0..4_usize).prop_map(InstanceStep::Answered),
        (0..4_usize).prop_map(InstanceStep::Closed),
        (1..40_u64).prop_map(InstanceStep::Wait),
    ]
}

proptest! {
    /// Against the whole history: two runs are there at once when each answered, on a connection that stands, within 30 s
    /// and after the other was told there.
    #[test]
    fn it_says_what_the_history_says(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = InstancesFixture::new();
        // Of each connection: its run, when it was told, its answers.
        let mut history: HashMap<usize, (usize, Instant, Vec<Instant>)> = HashMap::new();
        let mut doubled = false;
        for step in steps {
            // No two things happen at the same moment.
            world.wait(Duration::from_nanos(1));
            let now = world.now;
            let change = match step {
                InstanceStep::Told(connection, run) => {
                    world.told(connection, run);
                    let known = history.entry(connection).or_insert((run, now, Vec::new()));
                    if known.0 != run {
                        *known = (run, now, Vec::new());
                    }
                    None
                }
                InstanceStep::Answered(connection) => {
                    if let Some((_, _, answers)) = history.get_mut(&connection) {
                        answers.push(now);
                    }
                    world.answered(connection)
                }
                InstanceStep::Closed(connection) => {
                    history.remove(&connection);
                    world
                        .instances
                        .closed(world.peer, ConnectionId::new_unchecked(connection), now)
                }
                InstanceStep::Wait(seconds) => {
                    world.wait(Duration::from_secs(seconds));
                    None
                }
            };
            match change {
                Some(InstanceChange::Duplicate(_)) => {
                    prop_assert!(!doubled);
                    doubled = true;
                }
                Some(InstanceChange::Single) => {
                    prop_assert!(doubled);
                    doubled = false;
                }
                None => {}
            }
            let now = world.now;
            prop_assert_eq!(world.instances.is_duplicate(world.peer), doubled);
            let of = |run: usize| history.values().filter(move |(other, _, _)| *other == run);
            let since = |run: usize| of(run).map(|(_, since, _)| *since).min();
            let alive = |run: usize, after: Option<Instant>| {
                let mut answers = of(run).flat_map(|(_, _, answers)| answers);
                after.is_some_and(|after| answers.any(|at| *at > after && now - *at <= ALIVE))
            };
            let expected = (0..3).filter(|run| {
                (0..3).any(|other| other != *run && alive(*run, since(other)) && alive(other, since(*run)))
            });
            prop_assert_eq!(world.at_once(), expected.count());
        }
    }
}
