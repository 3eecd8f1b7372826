//! One rule after the other.

use super::*;
use crate::{
    dispatch::dispatcher::offer::{DRAIN_AFTER, GIVE_BACK_PAUSE, MAX_ENDED_OFFERS},
    types::LISTENER_CREDIT,
};

const SECOND: Duration = Duration::from_secs(1);

/// A time of the tests.
fn at(seconds: u64) -> Duration {
    SECOND * u32::try_from(seconds).unwrap()
}

/// A listener on this connection.
fn attach(feed: &mut DeliverOne, id: ListenerId, connection: u64, now: Duration) -> Vec<ListenerDelivery> {
    feed.attach(id, Some(connection), true, now)
}

/// A dispatcher with listeners 1 to `count`, each on a connection of its own, of the same number. Their
/// agents were seen to act.
fn with_listeners(count: u64) -> DeliverOne {
    let mut feed = with_new_listeners(None, count);
    for id in 1..=count {
        trust(&mut feed, id);
    }
    assert_eq!(feed.end_turn(at(0)), []);
    feed
}

/// Its agent was seen to act.
fn trust(feed: &mut DeliverOne, id: ListenerId) {
    feed.assignments.note_act(None, &[id]);
}

/// The same with listeners whose agents have not acted.
fn with_new_listeners(claim_within: Option<Duration>, count: u64) -> DeliverOne {
    let mut feed = new_dispatcher(claim_within);
    for id in 1..=count {
        assert_eq!(attach(&mut feed, id, id, at(0)), []);
    }
    feed
}

fn offer(feed: &mut DeliverOne, task: &str, as_what: OfferKind) -> Vec<ListenerDelivery> {
    feed.offer(task, as_what, 1, at(0))
}

fn delivery(listener: ListenerId, task: &str, exclusive: bool) -> ListenerDelivery {
    ListenerDelivery {
        listener,
        task: task.to_owned(),
        exclusive,
    }
}

fn first(listener: ListenerId, task: &str) -> ListenerDelivery {
    delivery(listener, task, true)
}

fn again(listener: ListenerId, task: &str) -> ListenerDelivery {
    delivery(listener, task, false)
}

/// The agent that listens as `id` reports on the task.
fn report(feed: &mut DeliverOne, id: ListenerId, task: &str) {
    feed.withdraw(task);
    feed.on_claimed(task, id);
}

#[test]
fn tasks_are_spread_and_each_goes_to_one() {
    let mut feed = with_listeners(2);
    let mut counts = BTreeMap::new();
    for task in 0..20 {
        let handed = offer(&mut feed, &task.to_string(), OfferKind::New);
        assert!(handed.len() == 1 && handed[0].exclusive, "{handed:?}");
        *counts.entry(handed[0].listener).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([(1, 10), (2, 10)]));
}

/// Those that were claimed count as well.
#[test]
fn the_least_busy_listener_is_the_one_with_the_fewest_tasks_in_hand() {
    let mut feed = with_listeners(2);
    for (task, id) in [("a", 1), ("b", 2), ("c", 1)] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(id, task)]);
        report(&mut feed, id, task);
    }
    assert_eq!(offer(&mut feed, "d", OfferKind::New), [first(2, "d")]);
    for ended in ["a", "c"] {
        feed.on_task_ended(ended);
    }
    assert_eq!(offer(&mut feed, "e", OfferKind::New), [first(1, "e")]);
}

#[test]
fn a_task_stays_with_a_listener_that_has_read_it_however_long_it_is_silent() {
    let mut feed = with_listeners(2);
    offer(&mut feed, "a", OfferKind::New);
    assert_eq!(feed.credit(1, 1, at(1)), []);
    for seconds in 2..4000 {
        assert_eq!(feed.tick(at(seconds), GRACE), []);
    }
    assert_eq!(feed.detach(1, at(4000)), [again(2, "a")]);
}

#[test]
fn what_a_listener_does_not_take_goes_to_another_after_the_timeout() {
    let mut feed = with_listeners(2);
    assert_eq!(offer(&mut feed, "a", OfferKind::New), [first(1, "a")]);
    assert_eq!(feed.tick(at(29), GRACE), []);
    assert_eq!(feed.tick(at(30), GRACE), [again(2, "a")]);
    // It was sent it: it is not sent it again while the second one lives.
    assert_eq!(feed.tick(at(100), GRACE), []);
    assert_eq!(feed.credit(1, 1, at(100)), []);
    assert_eq!(feed.detach(2, at(101)), [again(1, "a")]);
}

/// What lies on its stream is not sent once more.
#[test]
fn a_listener_has_what_it_has_not_read_yet() {
    let mut feed = with_listeners(2);
    offer(&mut feed, "a", OfferKind::New);
    feed.tick(at(30), GRACE);
    assert_eq!(feed.detach(2, at(31)), []);
    assert!(feed.is_held("a"));
    // More came meanwhile: it is.
    assert_eq!(attach(&mut feed, 3, 3, at(31)), []);
    assert_eq!(feed.tick(at(61), GRACE), [again(3, "a")]);
    assert_eq!(offer(&mut feed, "a", OfferKind::New), [again(3, "a")]);
    assert_eq!(feed.detach(3, at(62)), [], "the first one reads nothing");
    assert_eq!(feed.credit(1, 1, at(63)), [again(1, "a")]);
}

/// Where every listener has no room or was sent it, it waits for the next that has.
#[test]
fn a_task_whose_holder_is_stuck_goes_to_the_first_that_can_be_given_it() {
    let mut feed = with_listeners(1);
    for task in ["a", "b"] {
        offer(&mut feed, task, OfferKind::New);
    }
    assert_eq!(feed.tick(at(40), GRACE), []);
    assert_eq!(attach(&mut feed, 2, 2, at(41)), [again(2, "a")]);
    trust(&mut feed, 2);
    assert_eq!(feed.end_turn(at(41)), [again(2, "b")]);
    assert_eq!(attach(&mut feed, 3, 3, at(42)), []);
    trust(&mut feed, 3);
    assert_eq!(feed.tick(at(70), GRACE), []);
    assert_eq!(feed.tick(at(71), GRACE), [again(3, "a"), again(3, "b")]);
}

#[test]
fn only_listeners_that_claim_are_to_claim_in_time() {
    let mut feed = with_new_listeners(Some(CLAIM_WITHIN), 2);
    trust(&mut feed, 1);
    trust(&mut feed, 2);
    for (task, id) in [("a", 1), ("b", 2), ("c", 1)] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(id, task)]);
    }
    feed.credit(1, 2, at(5));
    feed.credit(2, 1, at(5));
    assert_eq!(feed.tick(at(60), GRACE), []);
    report(&mut feed, 1, "a");
    assert_eq!(feed.tick(at(61), GRACE), [again(2, "c")]);
    feed.credit(2, 1, at(62));
    assert_eq!(
        feed.tick(at(100), GRACE),
        [],
        "the second one has never claimed a task"
    );
    report(&mut feed, 2, "b");
    assert_eq!(feed.tick(at(101), GRACE), [], "the first one had it");
    assert_eq!(attach(&mut feed, 3, 3, at(102)), [again(3, "c")]);
}

/// The claim of the library is one.
#[test]
fn a_claimed_task_is_not_taken_away() {
    let mut feed = with_new_listeners(Some(CLAIM_WITHIN), 2);
    trust(&mut feed, 1);
    trust(&mut feed, 2);
    offer(&mut feed, "a", OfferKind::New);
    feed.credit(1, 1, at(1));
    assert!(!feed.reserve_for(2, "a"), "it was never sent it");
    assert!(feed.reserve_for(1, "a"));
    feed.on_claimed("a", 1);
    assert_eq!(feed.tick(at(1000), GRACE), []);
    // The agent ends before it has said anything.
    assert_eq!(feed.agent_ended(1, 0), ["a"]);
    assert_eq!(feed.detach(1, at(1001)), [again(2, "a")]);
    // One that only stops listening goes on with it.
    assert!(feed.reserve_for(2, "a"));
    assert_eq!(feed.detach(2, at(1002)), []);
    assert!(!feed.is_on_offer("a"));
}

/// It was read late, by an agent that begins with it at once.
#[test]
fn a_task_that_was_taken_away_is_its_claimers() {
    let mut feed = with_listeners(2);
    offer(&mut feed, "a", OfferKind::New);
    feed.tick(at(30), GRACE);
    assert_eq!(offer(&mut feed, "a", OfferKind::New), [again(2, "a")]);
    feed.credit(1, 1, at(31));
    report(&mut feed, 1, "a");
    // It has not seen what came since.
    assert_eq!(feed.end_turn(at(31)), [again(1, "a")]);
    report(&mut feed, 1, "a");
    assert_eq!(offer(&mut feed, "a", OfferKind::InProgress), [again(1, "a")]);
    // Both are told of its end: the second one may have begun.
    assert_eq!(
        offer(&mut feed, "a", OfferKind::Ended),
        [again(1, "a"), again(2, "a")]
    );
}

#[test]
fn what_follows_goes_to_the_listener_that_has_the_task() {
    let mut feed = with_listeners(3);
    for (task, id) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(id, task)]);
    }
    assert_eq!(
        offer(&mut feed, "b", OfferKind::New),
        [again(2, "b")],
        "unclaimed"
    );
    report(&mut feed, 2, "b");
    assert_eq!(offer(&mut feed, "b", OfferKind::InProgress), [again(2, "b")]);
    feed.credit(1, 1, at(1));
    assert_eq!(feed.tick(at(1000), GRACE), [again(1, "c")], "nobody has read it");
    // Its process is gone: whoever has the least to do goes on with it.
    feed.agent_ended(2, 0);
    report(&mut feed, 1, "a");
    feed.on_task_ended("a");
    feed.detach(2, at(1001));
    assert!(feed.is_held("b"));
    assert_eq!(offer(&mut feed, "b", OfferKind::Ended).len(), 1);
}

#[test]
fn a_listener_takes_over_what_an_earlier_one_on_its_connection_had() {
    let mut feed = with_listeners(2);
    for (task, id) in [("a", 1), ("b", 2), ("c", 1)] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(id, task)]);
        report(&mut feed, id, task);
    }
    assert_eq!(offer(&mut feed, "c", OfferKind::InProgress), [again(1, "c")]);
    feed.credit(1, 3, at(1));
    assert_eq!(feed.detach(1, at(2)), []);
    // An answer that comes meanwhile goes to one that listens.
    assert_eq!(attach(&mut feed, 3, 1, at(3)), []);
    assert_eq!(offer(&mut feed, "a", OfferKind::InProgress), [again(3, "a")]);
    // One that it had read too waits for it, and for nobody else.
    assert_eq!(feed.detach(3, at(4)), [again(2, "a")], "not read");
    assert!(feed.is_on_offer("c") && !feed.is_held("c"));
    feed.on_connection_closed(1);
    assert_eq!(feed.end_turn(at(5)), [again(2, "c")]);
}

#[test]
fn the_end_of_a_task_is_told_to_those_that_were_sent_it() {
    let mut feed = with_listeners(3);
    offer(&mut feed, "a", OfferKind::New);
    assert_eq!(offer(&mut feed, "a", OfferKind::Ended), [again(1, "a")]);
    assert_eq!(offer(&mut feed, "never seen", OfferKind::Ended), []);
    offer(&mut feed, "b", OfferKind::New);
    feed.detach(1, at(1));
    assert_eq!(offer(&mut feed, "b", OfferKind::Ended), [again(2, "b")]);
    // Its agent ended it: nobody is told.
    assert_eq!(offer(&mut feed, "c", OfferKind::New), [first(2, "c")]);
    feed.withdraw("c");
    feed.on_task_ended("c");
    assert_eq!(feed.end_turn(at(2)), []);
    assert_eq!(offer(&mut feed, "c", OfferKind::Ended), []);
    assert_eq!(feed.assignments.known_tasks(), 0);
}

/// Fills a listener.
fn fill(feed: &mut DeliverOne) {
    for task in 0..LISTENER_CREDIT {
        offer(feed, &task.to_string(), OfferKind::New);
    }
}

#[test]
fn ends_that_nobody_reads_have_a_bound() {
    let mut feed = with_listeners(1);
    fill(&mut feed);
    for task in 0..MAX_ENDED_OFFERS + 10 {
        let task = format!("ended {task}");
        feed.on_claimed(&task, 1);
        assert_eq!(offer(&mut feed, &task, OfferKind::Ended), []);
    }
    assert_eq!(feed.end_notices.len(), MAX_ENDED_OFFERS);
    let told = feed.credit(1, 1, at(1));
    assert_eq!(told, [again(1, "ended 10")], "the oldest went first");
    // One that goes on is not told as ended.
    offer(&mut feed, "ended 11", OfferKind::New);
    assert_eq!(feed.credit(1, 1, at(1)), [again(1, "ended 12")]);
}

#[test]
fn a_listener_is_sent_no_more_than_it_has_room_for() {
    let mut feed = with_listeners(1);
    fill(&mut feed);
    assert_eq!(offer(&mut feed, "a", OfferKind::New), []);
    assert_eq!(offer(&mut feed, "b", OfferKind::Again { ends: 1 }), []);
    assert_eq!(offer(&mut feed, "c", OfferKind::New), []);
    assert_eq!(feed.credit(1, 1, at(1)), [first(1, "a")]);
    assert_eq!(attach(&mut feed, 2, 2, at(1)), [first(2, "c")]);
    trust(&mut feed, 2);
    assert_eq!(feed.end_turn(at(1)), [again(2, "b")]);
    let large = feed.offer("large", OfferKind::New, 2 * CREDIT_BYTES, at(1));
    assert_eq!(large, [first(2, "large")]);
    assert_eq!(offer(&mut feed, "d", OfferKind::New), [], "neither has room");
}

#[test]
fn what_a_client_cannot_take_goes_to_the_next() {
    let mut feed = with_listeners(2);
    let decline = |feed: &mut DeliverOne, id, task: &str| feed.decline(id, task, "too large", at(1));
    offer(&mut feed, "a", OfferKind::New);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::Reoffer);
    assert_eq!(feed.offer_again("a", at(1)), [again(2, "a")]);
    assert_eq!(decline(&mut feed, 2, "a"), DeclineOutcome::Undeliverable);
    feed.withdraw("a");
    feed.on_task_ended("a");
    assert_eq!(decline(&mut feed, 2, "a"), DeclineOutcome::NotOffered);
    // One that has no room yet may take it; others are not kept waiting.
    fill(&mut feed);
    fill(&mut feed);
    feed.credit(1, 3, at(2));
    assert_eq!(offer(&mut feed, "b", OfferKind::New), [first(1, "b")]);
    assert_eq!(decline(&mut feed, 1, "b"), DeclineOutcome::StillOffered);
    assert_eq!(offer(&mut feed, "c", OfferKind::New), [first(1, "c")]);
    assert_eq!(feed.credit(1, 1, at(2)), []);
    assert_eq!(feed.undeliverable(at(3), GRACE), []);
    assert_eq!(feed.credit(2, 2, at(3)).last(), Some(&again(2, "b")));
    assert_eq!(decline(&mut feed, 2, "b"), DeclineOutcome::Undeliverable);
}

/// Who had it may have lost its connection for a moment.
#[test]
fn a_declined_task_waits_for_one_that_had_it() {
    let mut feed = with_listeners(2);
    offer(&mut feed, "a", OfferKind::New);
    feed.detach(1, at(1));
    assert_eq!(
        feed.decline(2, "a", "too large", at(2)),
        DeclineOutcome::StillOffered
    );
    assert_eq!(feed.undeliverable(at(2) + GRACE, GRACE), []);
    let over = [("a".to_owned(), "too large".to_owned())];
    assert_eq!(feed.undeliverable(at(3) + GRACE, GRACE), over);
    assert_eq!(attach(&mut feed, 3, 3, at(4) + GRACE), [again(3, "a")]);
    assert_eq!(feed.undeliverable(at(999) + GRACE, GRACE), []);
}

fn names(deliveries: &[ListenerDelivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.task.as_str()).collect()
}

/// One of five tasks ends each agent that has it. The others count twice and no more, and are all done.
#[test]
fn only_the_task_that_ends_its_agents_goes_on_counting() {
    let mut feed = new_dispatcher(None);
    for task in ["a", "b", "poison", "c", "d"] {
        offer(&mut feed, task, OfferKind::New);
    }
    let mut ends = BTreeMap::new();
    let mut listener = 0;
    let mut end = |feed: &mut DeliverOne, listener| {
        for task in feed.agent_ended(listener, LISTENER_CREDIT) {
            *ends.entry(task).or_insert(0) += 1;
        }
        feed.detach(listener, at(0));
    };
    for _ in 0..2 {
        listener += 1;
        let mut handed = attach(&mut feed, listener, listener, at(0));
        trust(&mut feed, listener);
        handed.extend(feed.end_turn(at(0)));
        assert_eq!(handed.len(), 5, "all at once");
        end(&mut feed, listener);
    }
    for _ in 0..3 {
        listener += 1;
        let mut handed = attach(&mut feed, listener, listener, at(0));
        loop {
            assert_eq!(handed.len(), 1, "alone");
            feed.credit(listener, 1, at(0));
            if handed[0].task == "poison" {
                break;
            }
            assert_eq!(feed.end_turn(at(0)), [], "while nobody has reported on it");
            feed.withdraw(&handed[0].task);
            handed = feed.end_turn(at(0));
        }
        end(&mut feed, listener);
    }
    assert_eq!(ends.remove("poison"), Some(5));
    assert!(ends.values().all(|ends| *ends == 2), "{ends:?}");
    assert_eq!(names(&attach(&mut feed, 99, 99, at(0))), ["poison"]);
}

#[test]
fn a_listener_that_has_a_task_alone_gets_no_other() {
    let mut feed = new_dispatcher(None);
    for (task, ends) in [("thrice", 3), ("once", 1), ("new", 0)] {
        let as_what = if ends == 0 {
            OfferKind::New
        } else {
            OfferKind::Again { ends }
        };
        offer(&mut feed, task, as_what);
    }
    let mut handed = attach(&mut feed, 1, 1, at(0));
    trust(&mut feed, 1);
    handed.extend(feed.end_turn(at(0)));
    assert_eq!(names(&handed), ["new", "once"]);
    feed.credit(1, 2, at(0));
    for task in ["new", "once"] {
        report(&mut feed, 1, task);
    }
    assert_eq!(names(&feed.end_turn(at(0))), ["thrice"]);
    // What follows on its other tasks comes all the same.
    assert_eq!(offer(&mut feed, "new", OfferKind::InProgress), [again(1, "new")]);
    assert_eq!(offer(&mut feed, "once", OfferKind::Ended), [again(1, "once")]);
    assert_eq!(offer(&mut feed, "later", OfferKind::New), []);
    report(&mut feed, 1, "thrice");
    assert_eq!(feed.end_turn(at(0)), [first(1, "later")]);
}

/// A busy agent is given nothing more until it can have the task alone, or the grace time is over.
#[test]
fn a_task_that_is_handed_out_alone_gets_its_turn() {
    for reports in [true, false] {
        let mut feed = with_listeners(1);
        offer(&mut feed, "busy", OfferKind::New);
        offer(&mut feed, "alone", OfferKind::Again { ends: 2 });
        feed.credit(1, 1, at(1));
        assert_eq!(feed.tick(at(1), GRACE), []);
        assert_eq!(names(&offer(&mut feed, "more", OfferKind::New)), ["more"]);
        feed.credit(1, 1, at(2));
        assert_eq!(feed.tick(DRAIN_AFTER * 2, GRACE), []);
        assert_eq!(offer(&mut feed, "still more", OfferKind::New), []);
        if reports {
            feed.withdraw("busy");
            assert_eq!(feed.end_turn(at(30)), []);
            feed.withdraw("more");
            assert_eq!(names(&feed.end_turn(at(30))), ["alone"]);
        } else {
            assert_eq!(names(&feed.tick(GRACE * 2, GRACE)), ["alone"]);
        }
    }
}

#[test]
fn a_thousand_listeners_get_the_same_number_of_tasks() {
    const LISTENERS: u64 = 1000;
    let mut feed = with_listeners(LISTENERS);
    let mut counts = BTreeMap::new();
    for task in 0..20 * LISTENERS {
        let task = task.to_string();
        let handed = offer(&mut feed, &task, OfferKind::New);
        assert_eq!(handed.len(), 1);
        *counts.entry(handed[0].listener).or_insert(0) += 1;
        feed.credit(handed[0].listener, 1, at(1));
        report(&mut feed, handed[0].listener, &task);
        feed.end_turn(at(1));
    }
    assert_eq!(counts.len() as u64, LISTENERS);
    assert!(counts.values().all(|count| *count == 20));
    for task in 0..20 * LISTENERS {
        feed.on_task_ended(&task.to_string());
    }
    feed.end_turn(at(1));
    assert_eq!(feed.assignments.known_tasks(), 0);
    assert!(
        feed.assignments
            .listeners()
            .all(|(_, listener)| listener.in_hand == 0)
    );
}

/// Where there is no other listener, after the pause.
#[test]
fn what_a_listener_gave_back_goes_to_another_one_or_waits() {
    let mut feed = with_listeners(2);
    assert_eq!(offer(&mut feed, "a", OfferKind::New), [first(1, "a")]);
    report(&mut feed, 1, "a");
    let kind = OfferKind::Again { ends: 0 };
    assert_eq!(feed.give_back("a", &[1], kind, 1, at(0)), [again(2, "a")]);
    report(&mut feed, 2, "a");
    feed.detach(1, at(0));
    assert_eq!(feed.give_back("a", &[2], kind, 1, at(1)), []);
    assert!(feed.is_on_offer("a") && !feed.is_held("a"));
    assert_eq!(feed.tick(GIVE_BACK_PAUSE, GRACE), []);
    assert_eq!(feed.tick(GIVE_BACK_PAUSE + at(1), GRACE), [again(2, "a")]);
    // The end of its agent counts for what it has, not for what it gave back.
    assert_eq!(offer(&mut feed, "b", OfferKind::New), [first(2, "b")]);
    feed.credit(2, 8, at(20));
    report(&mut feed, 2, "b");
    feed.give_back("b", &[2], kind, 1, at(20));
    assert_eq!(feed.agent_ended(2, 0), ["a"]);
    // One that comes later may have it at once.
    feed.detach(2, at(20));
    let handed = attach(&mut feed, 3, 3, at(20));
    assert!(handed.contains(&again(3, "b")), "{handed:?}");
}

/// Two programs hang; their transports take what comes.
#[test]
fn a_listener_that_does_not_act_while_others_do_has_one_task() {
    let mut feed = with_new_listeners(None, 3);
    for (task, id) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(id, task)]);
        feed.credit(id, 1, at(0));
    }
    for task in 0..20 {
        assert_eq!(offer(&mut feed, &task.to_string(), OfferKind::New), []);
    }
    report(&mut feed, 3, "c");
    let handed = feed.end_turn(at(0));
    assert_eq!(handed.len(), 20);
    assert!(handed.iter().all(|handed| handed.listener == 3), "{handed:?}");
    offer(&mut feed, "d", OfferKind::New);
    feed.tick_trials(at(10));
    assert_eq!(feed.end_turn(at(10)), []);
    let moved = feed.detach(3, at(10));
    let left = feed.end_turn(at(10));
    assert_eq!(moved.len() + left.len(), 21, "the two are all that there is");
}

/// Programs may work for long before they say anything.
#[test]
fn listeners_that_all_say_nothing_share_the_tasks_within_a_second() {
    let mut feed = with_new_listeners(None, 2);
    trust(&mut feed, 1);
    for task in 0..20 {
        let handed = offer(&mut feed, &task.to_string(), OfferKind::New);
        assert_eq!(handed.len(), usize::from(task < 3), "{handed:?}");
    }
    let mut total = 3;
    for step in 1..=10 {
        feed.tick_trials(SECOND * step / 10);
        total += feed.end_turn(SECOND * step / 10).len();
        assert_eq!(total, (3 + 2 * step as usize).min(20));
    }
    for id in [1, 2] {
        assert_eq!(feed.assignments.listener(id).unwrap().in_hand, 10);
    }
}

#[test]
fn a_listener_that_is_alone_has_what_it_has_room_for() {
    let mut feed = with_new_listeners(None, 1);
    for task in ["a", "b"] {
        assert_eq!(offer(&mut feed, task, OfferKind::New), [first(1, task)]);
    }
    assert_eq!(feed.detach(1, at(0)), []);
    assert_eq!(names(&attach(&mut feed, 2, 2, at(0))), ["a"], "others may come");
    feed.tick_trials(SECOND / 20);
    assert_eq!(feed.end_turn(SECOND / 20), []);
    feed.tick_trials(SECOND / 10);
    assert_eq!(names(&feed.end_turn(SECOND / 10)), ["b"]);
}

/// Two programs hang, and their transports take nothing: what they have goes to the one that works.
#[test]
fn what_stuck_listeners_have_goes_to_the_one_that_acts() {
    let mut feed = new_dispatcher(None);
    for task in 0..10 {
        offer(&mut feed, &task.to_string(), OfferKind::New);
    }
    let mut handed = Vec::new();
    for id in 1..=3 {
        handed.extend(attach(&mut feed, id, id, at(0)));
        handed.extend(feed.end_turn(at(0)));
    }
    let mut done = 0;
    for step in 0..400 {
        let now = SECOND * step / 10;
        while let Some(place) = handed.iter().position(|handed| handed.listener == 3) {
            let ListenerDelivery { task, .. } = handed.swap_remove(place);
            handed.extend(feed.credit(3, 1, now));
            feed.on_end_reported(&task);
            feed.withdraw(&task);
            feed.on_task_ended(&task);
            handed.extend(feed.end_turn(now));
            done += 1;
        }
        feed.tick_trials(now);
        handed.extend(feed.end_turn(now));
        handed.extend(feed.tick(now, GRACE));
        handed.extend(feed.end_turn(now));
    }
    assert_eq!(done, 10, "{handed:?}");
}
