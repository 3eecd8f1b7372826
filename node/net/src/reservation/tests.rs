//! The places against their own rule, and against a model that knows only which relays would say yes.

use proptest::prelude::*;

use super::*;

const MIDDLE: f64 = 0.5;

fn peer(n: u8) -> PeerId {
    let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    bytes.extend_from_slice(&[n; 32]);
    PeerId::from_bytes(&bytes).unwrap()
}

fn circuit(n: u8) -> Multiaddr {
    format!("/ip4/192.0.2.{n}/tcp/1/p2p/{}/p2p-circuit", peer(n))
        .parse()
        .unwrap()
}

/// Asks whoever is due; the listeners, by relay.
fn ask(places: &mut Reservations, now: Instant) -> Vec<(PeerId, ListenerId)> {
    let due = places.due(now);
    due.into_iter()
        .map(|relay| {
            let listener = ListenerId::next();
            places.asked(relay, listener, circuit(1));
            (relay, listener)
        })
        .collect()
}

fn states(places: &Reservations, now: Instant) -> Vec<ReservationState> {
    let mut all = places.snapshot(now, SystemTime::UNIX_EPOCH);
    all.sort_by_key(|relay| relay.relay);
    all.into_iter().map(|relay| relay.state).collect()
}

#[test]
fn a_bootstrap_peer_that_was_not_reached_is_shown_until_it_is() {
    use ReservationState::{Asking, Away};
    let now = Instant::now();
    let mut places = Reservations::default();
    places.offered(peer(1));
    places.not_reached(DialTarget::Peer(peer(2)), "another peer is there".to_owned());
    ask(&mut places, now);
    assert_eq!(states(&places, now), [Asking, Away]);
    assert!(places.due(now).is_empty(), "it is not asked");
    let shown = |places: &Reservations, at: usize| {
        places.snapshot(now, SystemTime::UNIX_EPOCH)[at]
            .last_error
            .clone()
    };
    assert_eq!(shown(&places, 1).as_deref(), Some("another peer is there"));
    // One that was there before, too.
    places.disconnected(peer(1), now, MIDDLE);
    places.not_reached(DialTarget::Peer(peer(1)), "refused".to_owned());
    assert_eq!(shown(&places, 0).as_deref(), Some("refused"));
    places.offered(peer(1));
    places.withdrawn(peer(2));
    assert_eq!(places.snapshot(now, SystemTime::UNIX_EPOCH).len(), 1);
    assert_ne!(shown(&places, 0).as_deref(), Some("refused"));
    // One of whom only the place is known.
    let target = DialTarget::Address("/ip4/192.0.2.1/tcp/1".to_owned());
    places.not_reached(target.clone(), "refused".to_owned());
    let nameless = places.snapshot(now, SystemTime::UNIX_EPOCH).pop().unwrap();
    assert_eq!((nameless.relay, nameless.state), (None, Away));
    assert_eq!(nameless.address.as_deref(), Some("/ip4/192.0.2.1/tcp/1"));
    assert!(places.reached(&target) && !places.reached(&target));
    assert_eq!(places.snapshot(now, SystemTime::UNIX_EPOCH).len(), 1);
}

#[test]
fn two_are_kept_and_a_spare_one_takes_over() {
    use ReservationState::{Asking, Held, Spare, Waiting};
    let now = Instant::now();
    let mut places = Reservations::default();
    for n in 1..=3 {
        places.offered(peer(n));
    }
    let asked = ask(&mut places, now);
    assert_eq!(states(&places, now), [Asking, Asking, Spare]);
    assert_eq!(places.next_at(now), None);
    for (relay, _) in &asked {
        assert!(places.accepted(*relay, now, SystemTime::UNIX_EPOCH));
        assert!(!places.accepted(*relay, now, SystemTime::now()), "a renewal");
    }
    assert_eq!(places.circuits().count(), 2);
    places.closed(
        asked[0].1,
        ReservationLoss::Broken,
        "restarted".to_owned(),
        now,
        MIDDLE,
    );
    assert_eq!(ask(&mut places, now)[0].0, peer(3));
    assert_eq!(states(&places, now), [Waiting, Held, Asking]);
    // When the first comes back, there is no room for it.
    assert_eq!(places.next_at(now), None);
    assert_eq!(
        states(&places, now + Duration::from_hours(1)),
        [Spare, Held, Asking]
    );
}

#[test]
fn a_lost_place_is_asked_for_again_soon_and_a_denied_one_late() {
    let mut now = Instant::now();
    let mut places = Reservations::default();
    places.offered(peer(1));
    let mut waits = Vec::new();
    for loss in [
        ReservationLoss::Broken,
        ReservationLoss::Broken,
        ReservationLoss::Denied,
        ReservationLoss::Denied,
        ReservationLoss::Broken,
    ] {
        let listener = ask(&mut places, now)[0].1;
        places.closed(listener, loss, "no".to_owned(), now, MIDDLE);
        let next = places.next_at(now).unwrap();
        waits.push((next - now).as_secs());
        now = next;
    }
    assert_eq!(waits, [1, 2, 30, 60, 120]);
    let listener = ask(&mut places, now)[0].1;
    places.accepted(peer(1), now, SystemTime::now());
    now += STABLE_AFTER;
    places.closed(listener, ReservationLoss::Broken, "no".to_owned(), now, MIDDLE);
    assert_eq!(places.next_at(now), Some(now + FIRST_DELAY));
}

#[test]
fn the_end_of_an_old_listener_ends_no_new_place() {
    let now = Instant::now();
    let mut places = Reservations::default();
    places.offered(peer(1));
    let old = ask(&mut places, now)[0].1;
    places.accepted(peer(1), now, SystemTime::now());
    places.disconnected(peer(1), now, MIDDLE);
    assert_eq!(places.next_at(now), None, "nobody to ask");
    places.offered(peer(1));
    let later = places.next_at(now).unwrap();
    let new = ask(&mut places, later)[0].1;
    places.closed(
        old,
        ReservationLoss::Broken,
        "late news".to_owned(),
        later,
        MIDDLE,
    );
    assert_eq!(places.relay_of(new), Some(peer(1)));
    assert!(places.accepted(peer(1), later, SystemTime::now()));
}

#[test]
fn who_is_public_asks_nobody_and_keeps_what_it_has() {
    let now = Instant::now();
    let mut places = Reservations::default();
    places.offered(peer(1));
    ask(&mut places, now);
    places.accepted(peer(1), now, SystemTime::now());
    places.set_wanted(false);
    places.offered(peer(2));
    assert!(places.due(now).is_empty() && places.next_at(now).is_none());
    assert_eq!(places.circuits().count(), 1);
    places.set_wanted(true);
    assert_eq!(places.due(now), [peer(2)]);
}

#[derive(Clone, Debug)]
enum ReservationStep {
    Offer(u8),
    Withdraw(u8),
    Disconnect(u8),
    /// The relay answers yes or no, if it is being asked.
    Answer(u8, bool),
    /// A place ends.
    Lose(u8),
    Want(bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = ReservationStep> {
    let relay = 0..5u8;
    prop_oneof![
        3 => relay.clone().prop_map(ReservationStep::Offer),
        1 => relay.clone().prop_map(ReservationStep::Withdraw),
        1 => relay.clone().prop_map(ReservationStep::Disconnect),
        4 => (relay.clone(), any::<bool>()).prop_map(|(relay, yes)| ReservationStep::Answer(relay, yes)),
        2 => relay.prop_map(ReservationStep::Lose),
        1 => any::<bool>().prop_map(ReservationStep::Want),
        3 => (0..400u64).prop_map(ReservationStep::Pass),
    ]
}

/// What the model knows of a relay.
#[derive(Clone, Default)]
struct RelayModel {
    offering: bool,
    asked: Option<ListenerId>,
    held: Option<ListenerId>,
    not_before: Option<Instant>,
}

proptest! {
    #[test]
    fn at_most_two_and_never_idle_while_somebody_could_be_asked(
        steps in prop::collection::vec((step(), 0.0..1.0f64), 1..120)
    ) {
        let mut now = Instant::now();
        let mut places = Reservations::default();
        let mut model = vec![RelayModel::default(); 5];
        let mut wanted = true;
        for (step, jitter) in steps {
            let earliest = now + FIRST_DELAY.mul_f64(1.0 - JITTER);
            match step {
                ReservationStep::Offer(n) => {
                    places.offered(peer(n));
                    model[n as usize].offering = true;
                }
                ReservationStep::Withdraw(n) => {
                    places.withdrawn(peer(n));
                    model[n as usize].offering = false;
                }
                ReservationStep::Disconnect(n) => {
                    places.disconnected(peer(n), now, jitter);
                    let known = &mut model[n as usize];
                    if known.asked.take().or(known.held.take()).is_some() {
                        known.not_before = Some(earliest);
                    }
                    known.offering = false;
                }
                ReservationStep::Answer(n, yes) => {
                    let known = &mut model[n as usize];
                    if let Some(listener) = known.asked.take() {
                        if yes {
                            prop_assert!(places.accepted(peer(n), now, SystemTime::now()));
                            known.held = Some(listener);
                        } else {
                            places.closed(listener, ReservationLoss::Denied, "full".to_owned(), now, jitter);
                            known.not_before = Some(now + DENIED_DELAY.mul_f64(1.0 - JITTER));
                        }
                    }
                }
                ReservationStep::Lose(n) => {
                    let known = &mut model[n as usize];
                    if let Some(listener) = known.held.take() {
                        places.closed(listener, ReservationLoss::Broken, "gone".to_owned(), now, jitter);
                        known.not_before = Some(earliest);
                    }
                }
                ReservationStep::Want(yes) => {
                    places.set_wanted(yes);
                    wanted = yes;
                }
                ReservationStep::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            for (relay, listener) in ask(&mut places, now) {
                let known = model.iter_mut().enumerate().find(|(n, _)| peer(*n as u8) == relay).unwrap().1;
                prop_assert!(wanted && known.offering && known.asked.is_none() && known.held.is_none());
                prop_assert!(known.not_before.is_none_or(|at| at <= now), "asked before its time");
                known.asked = Some(listener);
            }
            let taken = model.iter().filter(|known| known.asked.or(known.held).is_some()).count();
            prop_assert!(taken <= MAX_RESERVATIONS);
            prop_assert_eq!(places.circuits().count(), model.iter().filter(|known| known.held.is_some()).count());
            if wanted && taken < MAX_RESERVATIONS {
                let longest = now + LAST_DELAY.mul_f64(1.0 + JITTER);
                for (n, known) in model.iter().enumerate() {
                    if known.offering && known.asked.or(known.held).is_none() {
                        let next = places.next_at(now);
                        prop_assert!(next.is_some_and(|at| at > now && at <= longest), "{n} is never asked");
                    }
                }
            }
        }
    }
}
