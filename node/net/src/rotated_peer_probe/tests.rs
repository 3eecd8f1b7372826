//! The list of meetings against its own rule, whatever order the events come in.

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn peer(n: u8) -> PeerId {
    let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    bytes.extend_from_slice(&[n; 32]);
    PeerId::from_bytes(&bytes).unwrap()
}

fn place(n: u16) -> Multiaddr {
    format!("/ip4/192.0.2.1/tcp/{}", n + 1).parse().unwrap()
}

fn id(n: usize) -> ConnectionId {
    ConnectionId::new_unchecked(n)
}

fn meeting(n: u8) -> PeerProbe {
    PeerProbe {
        peer: peer(n),
        wanted: peer(100 + n),
        address: place(n.into()),
    }
}

/// Begins as many as there is room for.
fn full(now: Instant) -> PeerProbes {
    let mut meetings = PeerProbes::new(PATIENCE);
    for n in 0..MAX_STRANGERS as u8 {
        assert!(meetings.has_room_at(&place(n.into())));
        meetings.started(id(n.into()), meeting(n));
        if n % 2 == 0 {
            meetings.connected(id(n.into()), now);
        }
    }
    assert!(
        !meetings.has_room_at(&place(99)),
        "dials and connections together"
    );
    meetings
}

#[test]
fn a_stranger_has_its_time_and_counts_until_it_is_gone() {
    let now = Instant::now();
    let mut meetings = full(now);
    assert_eq!(meetings.dials(), MAX_STRANGERS / 2);
    assert_eq!(meetings.next_at(), Some(now + PATIENCE));
    assert!(meetings.due(now).is_empty());
    assert_eq!(meetings.due(now + PATIENCE).len(), MAX_STRANGERS / 2);
    assert!(meetings.due(now + PATIENCE).is_empty(), "each is told once");
    assert_eq!(meetings.next_at(), None);
    assert!(!meetings.has_room_at(&place(99)), "they are not closed yet");
    for n in 0..MAX_STRANGERS {
        meetings.ended(id(n));
    }
    assert_eq!(meetings.dials(), 0);
    assert!(meetings.all.is_empty());
}

#[test]
fn whoever_is_the_wanted_one_stays_and_takes_no_strangers_room() {
    let now = Instant::now();
    let mut meetings = full(now);
    assert_eq!(meetings.wanted_peer(peer(0)), Some(peer(100)));
    assert_eq!(meetings.wanted_peer(peer(1)), None, "it is being dialled");
    meetings.confirm(peer(0));
    assert_eq!(meetings.wanted_peer(peer(0)), None);
    assert!(meetings.has_room_at(&place(99)));
    assert!(!meetings.has_room_at(&place(0)), "one at a place");
    let due = meetings.due(now + PATIENCE);
    assert!(due.iter().all(|(_, let_go)| *let_go != peer(0)));
    // Too late.
    meetings.confirm(peer(2));
    assert_eq!(meetings.count(|stage| stage == ProbeStage::Confirmed), 1);
}

#[test]
fn what_was_asked_for_is_an_ordinary_connection() {
    let now = Instant::now();
    let mut meetings = full(now);
    meetings.release(peer(0));
    assert!(meetings.has_room_at(&place(0)));
    meetings.release(peer(1));
    assert_eq!(meetings.dials(), MAX_STRANGERS / 2, "a dial is one until it ends");
}

proptest! {
    #[test]
    fn strangers_and_those_that_are_known_stay_within_their_bounds(
        steps in prop::collection::vec((0..120u8, 0..8u8, 0..40u64), 1..400)
    ) {
        let mut now = Instant::now();
        let mut meetings = PeerProbes::new(PATIENCE);
        let mut since: HashMap<ConnectionId, Instant> = HashMap::new();
        for (step, (n, what, seconds)) in steps.into_iter().enumerate() {
            let one = meetings.all.keys().nth(usize::from(n) % meetings.all.len().max(1)).copied();
            match (what, one) {
                (0..=2, _) if meetings.has_room_at(&place(n.into())) => meetings.started(id(step), meeting(n)),
                (3, Some(one)) => {
                    meetings.connected(one, now);
                    since.entry(one).or_insert(now);
                }
                (4, Some(one)) => meetings.ended(one),
                (5 | 6, _) => meetings.confirm(peer(n)),
                (7, _) => now += Duration::from_secs(seconds),
                _ => {}
            }
            for (connection, _) in meetings.due(now) {
                prop_assert!(since.remove(&connection).is_some_and(|at| now - at >= PATIENCE));
            }
            prop_assert!(meetings.next_at().is_none_or(|at| at > now));
            let known = meetings.count(|stage| stage == ProbeStage::Confirmed);
            prop_assert!(known <= MAX_KNOWN);
            prop_assert!(meetings.all.len() - known <= MAX_STRANGERS);
            let mut places: Vec<_> = meetings.all.values().map(|(meeting, _)| meeting.address.to_string()).collect();
            places.sort();
            places.dedup();
            prop_assert_eq!(places.len(), meetings.all.len());
        }
    }
}
