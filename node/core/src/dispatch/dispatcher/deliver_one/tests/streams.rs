//! Several streams of one connection.

use super::*;
use crate::types::LISTENER_CREDIT;

/// A time of the tests.
fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The streams that are handed something, with its task.
fn handed(deliveries: &[ListenerDelivery]) -> Vec<(ListenerId, &str)> {
    let handed = deliveries.iter();
    handed.map(|one| (one.listener, one.task.as_str())).collect()
}

fn offer(feed: &mut DeliverOne, task: &str, as_what: OfferKind) -> Vec<ListenerDelivery> {
    feed.offer(task, as_what, 1, at(0))
}

fn with_streams(streams: &[(ListenerId, u64)]) -> DeliverOne {
    let mut feed = new_dispatcher(None);
    for (id, connection) in streams {
        feed.attach(*id, Some(*connection), true, at(0));
        feed.credit(*id, 1, at(0));
    }
    feed
}

#[test]
fn each_stream_of_a_connection_gets_each_of_its_tasks_and_connections_share() {
    let mut feed = with_streams(&[(1, 7), (2, 7), (3, 8)]);
    assert_eq!(feed.stream_count(), 3);
    let first = offer(&mut feed, "a", OfferKind::New);
    assert_eq!(handed(&first), [(1, "a"), (2, "a")]);
    assert!(first.iter().all(|one| !one.exclusive), "two streams have it");
    let second = offer(&mut feed, "b", OfferKind::New);
    assert_eq!(handed(&second), [(3, "b")]);
    assert!(second[0].exclusive);
    // What follows, and the end, goes to all of the connection that has it.
    feed.withdraw("a");
    feed.on_claimed("a", 7);
    assert_eq!(
        handed(&offer(&mut feed, "a", OfferKind::InProgress)),
        [(1, "a"), (2, "a")]
    );
    assert_eq!(
        handed(&offer(&mut feed, "a", OfferKind::Ended)),
        [(1, "a"), (2, "a")]
    );
}

#[test]
fn streams_that_did_not_ask_for_ends_are_told_of_none() {
    let mut feed = new_dispatcher(None);
    for (id, connection, wants_ends) in [(1, 7, false), (2, 7, true), (3, 8, false)] {
        feed.attach(id, Some(connection), wants_ends, at(0));
        feed.credit(id, 1, at(0));
    }
    offer(&mut feed, "a", OfferKind::New);
    assert_eq!(handed(&offer(&mut feed, "b", OfferKind::New)), [(3, "b")]);
    assert_eq!(handed(&offer(&mut feed, "a", OfferKind::Ended)), [(2, "a")]);
    assert_eq!(offer(&mut feed, "b", OfferKind::Ended), []);
    assert_eq!(feed.end_notices.len(), 0);
    // Where it is not known who has it, too; the next stream that asks is told.
    for id in 1..=3 {
        feed.detach(id, at(1));
    }
    assert_eq!(feed.tell_end_to_all("c", 1, at(1)), []);
    assert_eq!(feed.attach(4, Some(9), false, at(2)), []);
    assert_eq!(handed(&feed.attach(5, Some(10), true, at(2))), [(5, "c")]);
}

#[test]
fn what_one_stream_has_read_the_connection_has_read() {
    let mut feed = with_streams(&[(1, 7), (2, 7), (3, 8)]);
    offer(&mut feed, "a", OfferKind::New);
    feed.credit(2, 1, at(1));
    assert_eq!(feed.tick(at(100), GRACE), [], "it stays");
    assert_eq!(
        feed.agent_ended(1, 0),
        Vec::<String>::new(),
        "its last stream counts"
    );
    assert_eq!(feed.detach(1, at(101)), []);
    assert_eq!(feed.agent_ended(2, 0), ["a"]);
    assert_eq!(handed(&feed.detach(2, at(101))), [(3, "a")]);
}

/// A stream that is never read, and one that is opened beside it.
#[test]
fn a_task_that_an_earlier_stream_does_not_read_goes_to_a_later_one() {
    let mut feed = new_dispatcher(None);
    assert_eq!(feed.attach(1, Some(7), true, at(0)), []);
    assert_eq!(handed(&offer(&mut feed, "a", OfferKind::New)), [(1, "a")]);
    assert_eq!(feed.attach(2, Some(7), true, at(1)), []);
    assert_eq!(handed(&feed.tick(at(30), GRACE)), [(2, "a")]);
    feed.credit(2, 1, at(31));
    assert_eq!(feed.tick(at(1000), GRACE), []);
}

#[test]
fn what_no_other_stream_was_sent_is_handed_out_again_when_a_stream_closes() {
    for has_read in [false, true] {
        let mut feed = with_streams(&[(1, 7)]);
        offer(&mut feed, "a", OfferKind::New);
        feed.credit(1, usize::from(has_read), at(1));
        feed.attach(2, Some(7), true, at(1));
        offer(&mut feed, "b", OfferKind::New);
        assert_eq!(handed(&feed.detach(1, at(2))), [(2, "a")], "it has the other one");
        feed.credit(2, 2, at(3));
        assert_eq!(feed.detach(2, at(4)), []);
        assert_eq!(handed(&feed.attach(3, Some(9), true, at(5))).len(), 1);
        feed.tick_trials(at(6));
        assert_eq!(feed.end_turn(at(6)).len(), 1);
    }
}

/// Neither loses a task while both read.
#[test]
fn a_slower_stream_is_waited_for_and_one_that_stands_still_is_not() {
    let mut feed = with_streams(&[(1, 7), (2, 7)]);
    let mut counts = BTreeMap::new();
    let mut count = |deliveries: Vec<ListenerDelivery>| {
        for one in deliveries {
            *counts.entry(one.listener).or_insert(0) += 1;
        }
    };
    for task in 0..2 * LISTENER_CREDIT {
        count(offer(&mut feed, &task.to_string(), OfferKind::New));
    }
    for round in 0..4 {
        count(feed.credit(1, LISTENER_CREDIT / 2, at(1)));
        if round < 2 {
            count(feed.credit(2, LISTENER_CREDIT / 2, at(1)));
        }
    }
    assert_eq!(counts, BTreeMap::from([(1, 128), (2, 128)]));
    // The second one stands still now.
    for task in 0..LISTENER_CREDIT {
        assert_eq!(offer(&mut feed, &format!("more {task}"), OfferKind::New), []);
    }
    assert_eq!(feed.tick(at(2), GRACE), []);
    let handed_on = feed.tick(at(5), GRACE);
    assert_eq!(handed_on.len(), LISTENER_CREDIT);
    assert!(handed_on.iter().all(|one| one.listener == 1));
    // It reads, and gets what comes.
    feed.credit(1, LISTENER_CREDIT, at(6));
    feed.credit(2, LISTENER_CREDIT, at(6));
    assert_eq!(offer(&mut feed, "last", OfferKind::New).len(), 2);
}
