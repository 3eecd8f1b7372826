//! The dialer against its own rule: every kept target that is not connected has an attempt running or
//! scheduled, whatever order the events come in.

use proptest::prelude::*;

use super::*;

const MIDDLE: f64 = 0.5;

fn peer(n: u8) -> PeerId {
    let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    bytes.extend_from_slice(&[n; 32]);
    PeerId::from_bytes(&bytes).unwrap()
}

#[test]
fn waits_double_up_to_the_last() {
    let mut now = Instant::now();
    let mut dialer = Dialer::new(8);
    assert!(dialer.want(peer(1), false, now));
    let mut waits = Vec::new();
    for failures in 1..=12 {
        assert_eq!(dialer.due(now, 9), [DialTarget::Peer(peer(1))]);
        assert_eq!(dialer.failed(&DialTarget::Peer(peer(1)), now, MIDDLE), failures);
        let next = dialer.next_at().unwrap();
        waits.push((next - now).as_secs());
        now = next;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    dialer.new_address(peer(1), now);
    assert_eq!(dialer.next_at(), Some(now), "a new address is tried at once");
}

#[test]
fn it_can_be_told_how_it_stands_with_a_peer() {
    let now = Instant::now();
    let mut dialer = Dialer::new(8);
    assert_eq!(dialer.status(peer(1), now), TargetStatus::default());
    assert!(dialer.want(peer(1), false, now));
    let target = DialTarget::Peer(peer(1));
    dialer.due(now, 9);
    assert_eq!(dialer.status(peer(1), now).next, None, "an attempt is running");
    dialer.failed(&target, now, MIDDLE);
    dialer.set_error(&target, "ä".repeat(MAX_ERROR));
    let standing = dialer.status(peer(1), now);
    assert_eq!((standing.failures, standing.next), (1, Some(FIRST_DELAY)));
    assert_eq!(standing.last_error.len(), MAX_ERROR);
    dialer.connected(peer(1), now);
    assert_eq!(dialer.status(peer(1), now), TargetStatus::default());
}

#[test]
fn a_new_network_is_tried_at_once_and_a_dial_under_way_is_no_failure() {
    let mut now = Instant::now();
    let mut dialer = Dialer::new(8);
    let relay = DialTarget::Address("/dns/relay.example/tcp/4001".to_owned());
    dialer.pin(relay.clone(), now);
    assert!(dialer.want(peer(1), false, now));
    for _ in 0..6 {
        now += 2 * LAST_DELAY;
        for target in dialer.due(now, 9) {
            dialer.failed(&target, now, MIDDLE);
        }
    }
    assert!(dialer.next_at().unwrap() > now + FIRST_DELAY);
    dialer.retry_now(now);
    assert_eq!(dialer.due(now, 9).len(), 2);
    let failures = dialer.failures(&relay);
    dialer.postponed(&relay, now);
    assert_eq!(dialer.next_at(), Some(now + FIRST_DELAY));
    assert_eq!(dialer.failures(&relay), failures);
    dialer.led_to(&relay, peer(2), now);
    assert!(dialer.is_pinned_peer(peer(2)) && !dialer.is_pinned_peer(peer(1)));
}

#[test]
fn jitter_stays_within_a_fifth() {
    let now = Instant::now();
    for (jitter, wait) in [(0.0, 800), (1.0, 1200), (f64::MAX, 1200)] {
        let mut dialer = Dialer::new(8);
        assert!(dialer.want(peer(1), false, now));
        dialer.due(now, 1);
        dialer.failed(&DialTarget::Peer(peer(1)), now, jitter);
        assert_eq!((dialer.next_at().unwrap() - now).as_millis(), wait);
    }
}

#[test]
fn only_a_welcome_or_a_stable_connection_resets_the_waits() {
    let mut now = Instant::now();
    let mut dialer = Dialer::new(8);
    let target = DialTarget::Address("/dns/relay.example/tcp/4001".to_owned());
    dialer.pin(target.clone(), now);
    for (introduced, stood, wait) in [
        (false, 1, 1),
        (false, 1, 2),
        (false, 1, 4),
        (true, 0, 1),
        (false, 1, 2),
        (false, 60, 1),
        (true, 1, 1),
    ] {
        assert_eq!(dialer.due(now, 9), std::slice::from_ref(&target));
        // Of another connection, or before there is one: nothing to do with this target.
        dialer.introduced(peer(3));
        dialer.led_to(&target, peer(3), now);
        assert_eq!(dialer.next_at(), None);
        if introduced {
            dialer.introduced(peer(3));
        }
        now += Duration::from_secs(stood);
        dialer.disconnected(peer(3), now, MIDDLE);
        assert_eq!(dialer.next_at(), Some(now + Duration::from_secs(wait)));
        now += Duration::from_secs(wait);
    }
}

#[test]
fn a_full_list_refuses_and_pins_outlive_unwant() {
    let now = Instant::now();
    let mut dialer = Dialer::new(1);
    dialer.pin(DialTarget::Peer(peer(1)), now);
    assert!(dialer.want(peer(1), true, now));
    assert!(!dialer.want(peer(2), false, now));
    dialer.unwant(peer(1));
    assert!(dialer.is_kept(peer(1)));
    assert!(dialer.want(peer(2), false, now));
    dialer.unwant(peer(2));
    assert!(!dialer.is_kept(peer(2)));
    assert_eq!(
        dialer.next_at(),
        None,
        "the pinned one is connected, the other is gone"
    );
}

#[derive(Clone, Debug)]
enum DialerStep {
    Want(u8, bool),
    Unwant(u8),
    Pin(u8),
    Fail(u8, f64),
    Connect(u8),
    Disconnect(u8),
    Introduce(u8),
    NewAddress(u8),
    Dial(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = DialerStep> {
    let n = 0..5u8;
    prop_oneof![
        (n.clone(), any::<bool>()).prop_map(|(n, up)| DialerStep::Want(n, up)),
        n.clone().prop_map(DialerStep::Unwant),
        n.clone().prop_map(DialerStep::Pin),
        (n.clone(), 0.0..1.0f64).prop_map(|(n, jitter)| DialerStep::Fail(n, jitter)),
        n.clone().prop_map(DialerStep::Connect),
        n.clone().prop_map(DialerStep::Disconnect),
        n.clone().prop_map(DialerStep::Introduce),
        n.prop_map(DialerStep::NewAddress),
        (0..4usize).prop_map(DialerStep::Dial),
        (0..400u64).prop_map(DialerStep::Pass),
    ]
}

proptest! {
    #[test]
    fn nobody_kept_is_forgotten(steps in prop::collection::vec(step(), 0..60)) {
        let mut now = Instant::now();
        let mut dialer = Dialer::new(3);
        for step in steps {
            match step {
                DialerStep::Want(n, up) => { let _ = dialer.want(peer(n), up, now); }
                DialerStep::Unwant(n) => dialer.unwant(peer(n)),
                DialerStep::Pin(n) => dialer.pin(DialTarget::Peer(peer(n)), now),
                DialerStep::Fail(n, jitter) => { dialer.failed(&DialTarget::Peer(peer(n)), now, jitter); }
                DialerStep::Connect(n) => dialer.connected(peer(n), now),
                DialerStep::Disconnect(n) => dialer.disconnected(peer(n), now, MIDDLE),
                DialerStep::Introduce(n) => dialer.introduced(peer(n)),
                DialerStep::NewAddress(n) => dialer.new_address(peer(n), now),
                DialerStep::Dial(max) => {
                    let due = dialer.due(now, max);
                    prop_assert!(due.len() <= max);
                }
                DialerStep::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            let waiting = dialer.targets.iter().filter_map(|(target, state)| match state.phase {
                DialPhase::Waiting { until } => Some((until, target.clone())),
                _ => None,
            });
            prop_assert_eq!(waiting.collect::<BTreeSet<_>>(), dialer.schedule.clone());
            prop_assert!(dialer.targets.values().all(|state| state.pinned || state.wanted));
            let mut delays = dialer.targets.values().map(|state| state.delays);
            prop_assert!(delays.all(|mut delays| delays.next_wait() <= LAST_DELAY));
            let wanted = dialer.targets.values().filter(|state| state.wanted).count();
            prop_assert!(wanted == dialer.wanted && wanted <= 3);
            let latest = now + LAST_DELAY.mul_f64(1.0 + JITTER);
            prop_assert!(dialer.schedule.iter().all(|(at, _)| *at <= latest));
        }
    }
}
