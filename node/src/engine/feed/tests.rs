//! The feed against a model that knows only what it was told and what it handed out.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::*;

const NOW: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Event {
    Offer { task: u8, as_what: Offered },
    Withdraw { task: u8 },
    Attach,
    Detach { which: usize },
    Credit { which: usize, count: usize },
    Decline { which: usize, task: u8 },
}

fn offered() -> impl Strategy<Value = Offered> {
    prop_oneof![3 => Just(Offered::New), 1 => Just(Offered::Again), 1 => Just(Offered::News)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0_u8..60, offered()).prop_map(|(task, as_what)| Event::Offer { task, as_what }),
        3 => (0_u8..60).prop_map(|task| Event::Withdraw { task }),
        2 => Just(Event::Attach),
        1 => any::<usize>().prop_map(|which| Event::Detach { which }),
        2 => (any::<usize>(), 1_usize..8).prop_map(|(which, count)| Event::Credit { which, count }),
        4 => (any::<usize>(), 0_u8..60).prop_map(|(which, task)| Event::Decline { which, task }),
    ]
}

#[derive(Debug)]
struct Standing {
    /// When it was offered, for the last time.
    at: usize,
    news: bool,
    /// Somebody has been given it, as it stands now.
    told: bool,
    held: BTreeSet<ListenerId>,
    /// Nobody has been given the task yet.
    unseen: bool,
    /// Whose alone it is.
    owner: Option<ListenerId>,
    /// Whoever was given the task, before too, and has not declined it, still listens.
    untaken: bool,
    declined: bool,
}

#[derive(Debug)]
struct Reader {
    attached: usize,
    credit: usize,
    /// When the last task it was given had been offered.
    last: usize,
}

#[derive(Default)]
struct Model {
    clock: usize,
    next_listener: ListenerId,
    offers: BTreeMap<String, Standing>,
    readers: BTreeMap<ListenerId, Reader>,
    told: BTreeSet<(ListenerId, String, usize)>,
}

impl Model {
    fn tick(&mut self) -> usize {
        self.clock += 1;
        self.clock
    }

    fn pick(&self, which: usize) -> Option<ListenerId> {
        self.readers
            .keys()
            .nth(which % self.readers.len().max(1))
            .copied()
    }

    fn offer(&mut self, task: &str, as_what: Offered) {
        let at = self.tick();
        let unseen = as_what == Offered::New && self.offers.get(task).is_none_or(|known| known.news);
        self.offers.insert(
            task.to_owned(),
            Standing {
                at,
                news: as_what == Offered::News,
                told: false,
                held: BTreeSet::new(),
                unseen,
                owner: None,
                untaken: unseen,
                declined: false,
            },
        );
    }

    /// Orphans are offered again in the order in which they stood, and what was declined may be.
    fn detach(&mut self, id: ListenerId, feed: &mut Feed) -> Vec<Delivery> {
        self.readers.remove(&id);
        let mut orphans = BTreeSet::new();
        for (task, standing) in &mut self.offers {
            if standing.held.remove(&id) {
                standing.untaken = false;
                if standing.held.is_empty() && !standing.news {
                    orphans.insert(task.clone());
                }
            }
        }
        let before = feed.by_task.clone();
        let deliveries = feed.detach(id, NOW);
        let renewed = feed
            .by_task
            .iter()
            .filter(|(task, number)| before.get(*task) != Some(number));
        let renewed: BTreeMap<u64, &String> = renewed.map(|(task, number)| (*number, task)).collect();
        let mut stood = 0;
        for task in renewed.into_values() {
            let standing = &self.offers[task];
            assert!(standing.at > stood, "{task} was offered again out of order");
            stood = standing.at;
            assert!(orphans.remove(task) || standing.declined && standing.held.is_empty());
            self.offer_again(task);
        }
        assert_eq!(orphans, BTreeSet::new(), "are offered to nobody");
        deliveries
    }

    fn offer_again(&mut self, task: &str) {
        let at = self.tick();
        if let Some(standing) = self.offers.get_mut(task) {
            (standing.at, standing.told, standing.unseen) = (at, false, false);
            standing.owner = None;
        }
    }

    /// Its client cannot take what it was given.
    fn decline(&mut self, id: ListenerId, task: &str, feed: &mut Feed) -> Vec<Delivery> {
        let Some(standing) = self.offers.get_mut(task).filter(|standing| !standing.news) else {
            return Vec::new();
        };
        if !standing.held.remove(&id) {
            return Vec::new();
        }
        (standing.declined, standing.owner) = (true, None);
        let at = standing.at;
        let everybody_knows = self
            .readers
            .keys()
            .all(|reader| self.told.contains(&(*reader, task.to_owned(), at)));
        match feed.decline(id, task, "too large", NOW) {
            Decline::Ends => {
                assert!(standing.untaken && standing.held.is_empty() && everybody_knows);
                self.offers.remove(task);
                feed.withdraw(task);
                Vec::new()
            }
            Decline::Stays => {
                let is_over = standing.untaken && standing.held.is_empty() && everybody_knows;
                assert!(!is_over, "nobody who listens can take {task}");
                Vec::new()
            }
            Decline::Again => {
                assert!(standing.held.is_empty() && !everybody_knows);
                self.offer_again(task);
                feed.offer_again(task)
            }
            Decline::Over => panic!("{task} is on offer"),
        }
    }

    fn happen(&mut self, event: &Event, feed: &mut Feed) -> Vec<Delivery> {
        match *event {
            Event::Offer { task, as_what } => {
                self.offer(&task.to_string(), as_what);
                feed.offer(&task.to_string(), as_what, 1)
            }
            Event::Withdraw { task } => {
                self.offers.remove(&task.to_string());
                feed.withdraw(&task.to_string());
                Vec::new()
            }
            Event::Attach => {
                self.next_listener += 1;
                let attached = self.tick();
                self.readers.insert(
                    self.next_listener,
                    Reader {
                        attached,
                        credit: CREDIT,
                        last: 0,
                    },
                );
                feed.attach(self.next_listener, NOW)
            }
            Event::Detach { which } => {
                let Some(id) = self.pick(which) else {
                    return feed.detach(99_999, NOW);
                };
                self.detach(id, feed)
            }
            Event::Credit { which, count } => {
                let Some(id) = self.pick(which) else {
                    return Vec::new();
                };
                if let Some(reader) = self.readers.get_mut(&id) {
                    reader.credit = (reader.credit + count).min(CREDIT);
                }
                feed.credit(id, count)
            }
            Event::Decline { which, task } => match self.pick(which) {
                Some(id) => self.decline(id, &task.to_string(), feed),
                None => Vec::new(),
            },
        }
    }

    fn deliver(&mut self, deliveries: Vec<Delivery>) -> Result<(), TestCaseError> {
        let alone = self.readers.len() == 1;
        for Delivery {
            listener: id,
            task,
            exclusive,
        } in deliveries
        {
            let reader = self.readers.get_mut(&id);
            prop_assert!(reader.is_some(), "{task} went to {id}, who does not listen");
            let standing = self.offers.get_mut(&task);
            prop_assert!(standing.is_some(), "{task} was not on offer");
            if let (Some(reader), Some(standing)) = (reader, standing) {
                prop_assert!(reader.credit > 0, "{id} has no room");
                reader.credit -= 1;
                prop_assert!(standing.at > reader.last, "{task} came to {id} out of order");
                reader.last = standing.at;
                standing.told = true;
                prop_assert_eq!(standing.owner, None, "{} of one alone went to another", task);
                prop_assert_eq!(exclusive, alone && standing.unseen, "{} to {}", task, id);
                standing.unseen = false;
                standing.owner = exclusive.then_some(id);
                standing.held.insert(id);
                prop_assert!(
                    self.told.insert((id, task.clone(), standing.at)),
                    "{task} came to {id} twice"
                );
            }
        }
        Ok(())
    }

    fn check(&self, feed: &Feed) -> Result<(), TestCaseError> {
        prop_assert_eq!(feed.idle_since().is_none(), !self.readers.is_empty());
        let room = self.readers.values().any(|reader| reader.credit > 0);
        for (task, standing) in &self.offers {
            prop_assert!(!room || standing.told, "{task} waits although somebody has room");
        }
        Ok(())
    }

    /// With room for everybody, whoever listened before a task was offered has it.
    fn check_all_told(&self) -> Result<(), TestCaseError> {
        for (task, standing) in &self.offers {
            for (id, _) in self
                .readers
                .iter()
                .filter(|(_, reader)| reader.attached < standing.at)
            {
                prop_assert!(
                    self.told.contains(&(*id, task.clone(), standing.at)),
                    "{id} never got {task}"
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn it_hands_out_what_the_model_allows_and_owes(events in vec(event(), 0..400)) {
        let mut feed = Feed::new(NOW);
        let mut model = Model::default();
        for event in &events {
            let deliveries = model.happen(event, &mut feed);
            model.deliver(deliveries)?;
            model.check(&feed)?;
        }
        for _ in 0..=events.len().div_ceil(CREDIT) {
            for which in 0..model.readers.len() {
                let deliveries = model.happen(&Event::Credit { which, count: CREDIT }, &mut feed);
                model.deliver(deliveries)?;
            }
        }
        model.check_all_told()?;
        prop_assert!(model.readers.is_empty() || feed.news == 0, "news that everybody knows is kept");
    }
}

fn decline(feed: &mut Feed, listener: ListenerId, task: &str) -> Decline {
    feed.decline(listener, task, "too large", NOW)
}

#[test]
fn a_task_that_nobody_can_take_is_known_as_such() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.offer("a", Offered::New, 1);
    assert_eq!(decline(&mut feed, 1, "unknown"), Decline::Over);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Ends);
    feed.attach(2, NOW);
    feed.offer("b", Offered::New, 1);
    assert_eq!(
        decline(&mut feed, 1, "b"),
        Decline::Stays,
        "the second one has it"
    );
    assert_eq!(decline(&mut feed, 2, "b"), Decline::Ends);
    // One that has no room yet may take it.
    fill(&mut feed);
    feed.credit(1, CREDIT);
    assert_eq!(feed.offer("c", Offered::New, 1), [shared(1, "c")]);
    assert_eq!(decline(&mut feed, 1, "c"), Decline::Stays);
    assert!(
        feed.detach(2, NOW).contains(&shared(1, "c")),
        "only the first is left"
    );
    assert_eq!(decline(&mut feed, 1, "c"), Decline::Ends);
}

/// Who came while somebody had a task was not sent it, but can take it.
#[test]
fn who_came_later_is_asked_too() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.offer("a", Offered::New, 1);
    assert_eq!(feed.attach(2, NOW), []);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Again);
    assert_eq!(feed.offer_again("a"), [shared(1, "a"), shared(2, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Stays);
    assert_eq!(decline(&mut feed, 2, "a"), Decline::Ends);
}

/// One that has no room for so long has not said that it cannot take the task.
#[test]
fn a_task_waits_for_who_has_not_come_to_it() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.attach(2, NOW);
    fill(&mut feed);
    feed.credit(1, CREDIT);
    assert_eq!(feed.offer("a", Offered::New, 1), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Stays);
    assert_eq!(feed.untakable(NOW * 1000, NOW), []);
    assert_eq!(feed.credit(2, 1), [shared(2, "a")]);
    assert_eq!(decline(&mut feed, 2, "a"), Decline::Ends);
}

/// Who had a task and has lost its connection has time to come again.
#[test]
fn a_task_that_somebody_had_waits_for_that_one() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.attach(2, NOW);
    feed.offer("a", Offered::New, 1);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Stays);
    assert_eq!(feed.detach(2, NOW * 10), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Stays);
    assert_eq!(feed.untakable(NOW * 13, NOW * 3), []);
    let over = [("a".to_owned(), "too large".to_owned())];
    assert_eq!(feed.untakable(NOW * 14, NOW * 3), over);
    assert_eq!(feed.attach(3, NOW * 14), [shared(3, "a")]);
    assert_eq!(feed.untakable(NOW * 14, NOW * 3), [], "it can");
    // While nobody listens, nobody's time is over.
    assert_eq!(feed.detach(3, NOW * 20), [shared(1, "a")]);
    decline(&mut feed, 1, "a");
    feed.detach(1, NOW * 20);
    assert_eq!(feed.untakable(NOW * 99, NOW * 3), []);
    assert_eq!(feed.attach(4, NOW * 99), [shared(4, "a")]);
    assert_eq!(decline(&mut feed, 4, "a"), Decline::Stays);
    assert_eq!(feed.untakable(NOW * 102, NOW * 3), []);
    assert_eq!(feed.untakable(NOW * 103, NOW * 3), over);
}

/// A task that has ended meanwhile is told as such.
#[test]
fn news_is_not_declined() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.attach(2, NOW);
    fill(&mut feed);
    feed.credit(1, CREDIT);
    assert_eq!(feed.offer("a", Offered::News, 1), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), Decline::Over);
    assert_eq!(feed.credit(2, 1), [shared(2, "a")]);
}

/// Takes all the room of those who listen.
fn fill(feed: &mut Feed) {
    for task in 0..CREDIT {
        feed.offer(&task.to_string(), Offered::New, 1);
    }
}

fn shared(listener: ListenerId, task: &str) -> Delivery {
    Delivery {
        listener,
        task: task.to_owned(),
        exclusive: false,
    }
}

fn alone(listener: ListenerId, task: &str) -> Delivery {
    Delivery {
        exclusive: true,
        ..shared(listener, task)
    }
}

/// An agent may die of a task: that one is not begun unclaimed twice.
#[test]
fn a_task_is_exclusive_once() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    assert_eq!(feed.offer("a", Offered::New, 1), [alone(1, "a")]);
    assert_eq!(feed.offer("before", Offered::Again, 1), [shared(1, "before")]);
    feed.detach(1, NOW);
    assert_eq!(feed.attach(2, NOW), [shared(2, "a"), shared(2, "before")]);
    feed.attach(3, NOW);
    assert_eq!(feed.offer("b", Offered::New, 1), [shared(2, "b"), shared(3, "b")]);
    feed.detach(2, NOW);
    assert_eq!(feed.offer("c", Offered::New, 1), [alone(3, "c")]);
    assert_eq!(feed.offer("c", Offered::New, 1), [shared(3, "c")]);
}

#[test]
fn a_task_offered_to_nobody_waits_for_the_first_listener() {
    let mut feed = Feed::new(NOW);
    assert_eq!(feed.offer("t", Offered::New, 1), []);
    assert_eq!(feed.idle_since(), Some(NOW));
    assert_eq!(feed.attach(1, NOW), [alone(1, "t")]);
    assert_eq!(feed.attach(2, NOW), [], "the first listener may still take it");
    assert_eq!(feed.detach(1, NOW), [shared(2, "t")]);
}

#[test]
fn a_slow_listener_gets_no_more_than_its_credit() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    let given = (0..CREDIT + 5)
        .flat_map(|task| feed.offer(&task.to_string(), Offered::New, 1))
        .count();
    assert_eq!(given, CREDIT);
    assert_eq!(feed.credit(1, 2).len(), 2);
    assert_eq!(feed.credit(1, CREDIT * 10).len(), 3);
}

#[test]
fn news_is_told_once_and_forgotten() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    assert_eq!(feed.offer("t", Offered::News, 1).len(), 1);
    assert_eq!((feed.news, feed.offers.len()), (0, 0));
    assert_eq!(feed.detach(1, NOW), []);
    assert_eq!(feed.attach(2, NOW), []);
}

/// The one that heard it left, and whoever was behind; who came after it is not owed it.
#[test]
fn news_whose_hearer_left_is_forgotten() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    feed.attach(2, NOW);
    fill(&mut feed);
    feed.credit(1, CREDIT);
    assert_eq!(feed.offer("t", Offered::News, 1), [shared(1, "t")]);
    assert_eq!(feed.attach(3, NOW), []);
    assert_eq!(feed.detach(1, NOW), []);
    assert_eq!(feed.news, 1, "the second has not come to it");
    assert_eq!(feed.detach(2, NOW).len(), CREDIT);
    assert_eq!(feed.news, 0);
}

#[test]
fn news_that_nobody_hears_has_a_bound() {
    let mut feed = Feed::new(NOW);
    for task in 0..MAX_NEWS + 10 {
        feed.offer(&task.to_string(), Offered::News, 1);
    }
    assert_eq!(
        (feed.news, feed.offers.len(), feed.by_task.len()),
        (MAX_NEWS, MAX_NEWS, MAX_NEWS)
    );
    assert!(!feed.by_task.contains_key("0"), "the oldest went first");
}

#[test]
fn acting_without_listening_is_a_sign_of_life() {
    let mut feed = Feed::new(NOW);
    feed.touch(NOW * 5);
    assert_eq!(feed.idle_since(), Some(NOW * 5));
    feed.attach(1, NOW);
    feed.touch(NOW * 6);
    assert_eq!(feed.idle_since(), None);
    feed.detach(1, NOW * 7);
    assert_eq!(feed.idle_since(), Some(NOW * 7));
}

/// Of large tasks a listener is sent fewer ahead; of the largest one at a time.
#[test]
fn large_tasks_wait_until_there_is_room() {
    let mut feed = Feed::new(NOW);
    feed.attach(1, NOW);
    let mut sent = 0;
    for task in 0..10 {
        sent += feed
            .offer(&task.to_string(), Offered::New, CREDIT_BYTES / 2)
            .len();
    }
    assert_eq!(sent, 2);
    assert_eq!(feed.credit(1, 1).len(), 1);
    assert_eq!(feed.credit(1, 2).len(), 2);
    feed.offer("huge", Offered::New, 3 * CREDIT_BYTES);
    for _ in 0..6 {
        feed.credit(1, 1);
    }
    let last = feed.credit(1, 1);
    assert_eq!(
        last,
        [],
        "one that is over the bound by itself was sent, and nothing behind it is"
    );
    assert_eq!(feed.offer("next", Offered::New, 1), []);
    assert_eq!(feed.credit(1, 2).len(), 1);
}
