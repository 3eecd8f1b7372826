//! The dispatcher against a model that knows only what it was told and what it handed out.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::{
    super::offer::{CREDIT_BYTES, GIVE_BACK_PAUSE},
    *,
};
use crate::types::LISTENER_CREDIT;

const NOW: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Event {
    Offer {
        task: u8,
        as_what: OfferKind,
    },
    Withdraw {
        task: u8,
    },
    Attach,
    Detach {
        which: usize,
    },
    Credit {
        which: usize,
        count: usize,
    },
    Decline {
        which: usize,
        task: u8,
    },
    /// The agent ends, with `unread` of the tasks it was sent not read.
    End {
        which: usize,
    },
    /// The agent's library claims a task.
    Keep {
        which: usize,
        task: u8,
    },
    /// The agent that had claimed a task gives it back.
    GiveBack {
        which: usize,
        task: u8,
    },
    Tick,
}

fn offered() -> impl Strategy<Value = OfferKind> {
    prop_oneof![3 => Just(OfferKind::New), 1 => (0_u32..4).prop_map(|ends| OfferKind::Again { ends }),
        1 => Just(OfferKind::InProgress), 1 => Just(OfferKind::Ended)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0_u8..60, offered()).prop_map(|(task, as_what)| Event::Offer { task, as_what }),
        3 => (0_u8..60).prop_map(|task| Event::Withdraw { task }),
        2 => Just(Event::Attach),
        1 => any::<usize>().prop_map(|which| Event::Detach { which }),
        2 => (any::<usize>(), 1_usize..8).prop_map(|(which, count)| Event::Credit { which, count }),
        4 => (any::<usize>(), 0_u8..60).prop_map(|(which, task)| Event::Decline { which, task }),
        1 => any::<usize>().prop_map(|which| Event::End { which }),
        4 => (any::<usize>(), 0_u8..60).prop_map(|(which, task)| Event::Keep { which, task }),
        2 => (any::<usize>(), 0_u8..60).prop_map(|(which, task)| Event::GiveBack { which, task }),
        1 => Just(Event::Tick),
    ]
}

#[derive(Debug)]
struct OfferModel {
    /// When it was offered, for the last time.
    at: usize,
    has_ended: bool,
    /// Somebody has been given it, as it stands now.
    was_sent: bool,
    held: BTreeSet<ListenerId>,
    /// Nobody has been given the task yet.
    unseen: bool,
    /// Whose alone it is.
    owner: Option<ListenerId>,
    /// Whoever was given the task, before too, and has not declined it, still listens.
    untaken: bool,
    declined: bool,
    /// How many agents ended with it; None: not counted.
    ends: Option<u32>,
    /// Claimed by the library of its only holder.
    kept: bool,
    /// Its lane when it was offered for the last time.
    at_lane: usize,
}

impl OfferModel {
    /// The lane: 0 ended, 1 uncounted, 2 counted once, 3 alone.
    fn lane(&self) -> usize {
        match self.ends {
            _ if self.has_ended => 0,
            None | Some(0) => 1,
            Some(1) => 2,
            Some(_) => 3,
        }
    }
}

#[derive(Debug)]
struct ListenerModel {
    attached: usize,
    credit: usize,
    /// When the last task of each lane that it was given had been offered.
    last: [usize; 4],
    /// What it was given and has not read.
    unread: std::collections::VecDeque<String>,
}

#[derive(Default)]
struct DispatcherModel {
    clock: usize,
    next_listener: ListenerId,
    offers: BTreeMap<String, OfferModel>,
    readers: BTreeMap<ListenerId, ListenerModel>,
    told: BTreeSet<(ListenerId, String, usize)>,
}

impl DispatcherModel {
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

    fn offer(&mut self, task: &str, as_what: OfferKind) {
        let at = self.tick();
        let unseen = as_what == OfferKind::New && self.offers.get(task).is_none_or(|known| known.has_ended);
        self.offers.insert(
            task.to_owned(),
            OfferModel {
                at,
                has_ended: as_what == OfferKind::Ended,
                was_sent: false,
                held: BTreeSet::new(),
                unseen,
                owner: None,
                untaken: unseen,
                declined: false,
                ends: match as_what {
                    OfferKind::New => Some(0),
                    OfferKind::Again { ends } => Some(ends),
                    OfferKind::InProgress | OfferKind::Ended => None,
                },
                kept: false,
                at_lane: 0,
            },
        );
        if let Some(standing) = self.offers.get_mut(task) {
            standing.at_lane = standing.lane();
        }
    }

    /// Orphans are offered again in the order in which they stood, and what was declined may be.
    fn detach(&mut self, id: ListenerId, feed: &mut DeliverAll) -> Vec<ListenerDelivery> {
        self.readers.remove(&id);
        let mut orphans = BTreeSet::new();
        // What the library of an agent that is still there has claimed is the agent's.
        self.offers
            .retain(|_, standing| !(standing.kept && standing.held.contains(&id)));
        for (task, standing) in &mut self.offers {
            if standing.held.remove(&id) {
                standing.untaken = false;
                if standing.held.is_empty() && !standing.has_ended {
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
        // In the order of their lanes, and within each as they stood.
        let mut stood = [(0, 0); 4];
        for task in renewed.into_values() {
            let standing = &self.offers[task];
            let place = (standing.at_lane, standing.at);
            let before = std::mem::replace(&mut stood[standing.lane()], place);
            assert!(place > before, "{task} was offered again out of order");
            assert!(orphans.remove(task) || standing.declined && standing.held.is_empty());
            self.offer_again(task);
        }
        assert_eq!(orphans, BTreeSet::new(), "are offered to nobody");
        deliveries
    }

    fn offer_again(&mut self, task: &str) {
        let at = self.tick();
        if let Some(standing) = self.offers.get_mut(task) {
            (standing.at, standing.was_sent, standing.unseen) = (at, false, false);
            (standing.owner, standing.kept) = (None, false);
            standing.at_lane = standing.lane();
        }
    }

    /// Its client cannot take what it was given.
    fn decline(&mut self, id: ListenerId, task: &str, feed: &mut DeliverAll) -> Vec<ListenerDelivery> {
        let Some(standing) = self
            .offers
            .get_mut(task)
            .filter(|standing| !standing.has_ended && !standing.kept)
        else {
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
            DeclineOutcome::Undeliverable => {
                assert!(standing.untaken && standing.held.is_empty() && everybody_knows);
                self.offers.remove(task);
                feed.withdraw(task);
                Vec::new()
            }
            DeclineOutcome::StillOffered => {
                let is_over = standing.untaken && standing.held.is_empty() && everybody_knows;
                assert!(!is_over, "nobody who listens can take {task}");
                Vec::new()
            }
            DeclineOutcome::Reoffer => {
                assert!(standing.held.is_empty() && !everybody_knows);
                self.offer_again(task);
                feed.offer_again(task)
            }
            DeclineOutcome::NotOffered => panic!("{task} is on offer"),
        }
    }

    fn happen(&mut self, event: &Event, feed: &mut DeliverAll) -> Vec<ListenerDelivery> {
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
                    ListenerModel {
                        attached,
                        credit: LISTENER_CREDIT,
                        last: [0; 4],
                        unread: std::collections::VecDeque::new(),
                    },
                );
                feed.attach(self.next_listener, true, NOW)
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
                    reader.credit = (reader.credit + count).min(LISTENER_CREDIT);
                    reader.unread.drain(..count.min(reader.unread.len()));
                }
                feed.credit(id, count)
            }
            Event::End { which } => {
                let Some(id) = self.pick(which) else {
                    return Vec::new();
                };
                self.end(id, feed);
                self.detach(id, feed)
            }
            Event::Keep { which, task } => {
                if let Some(id) = self.pick(which) {
                    self.keep(id, &task.to_string(), feed);
                }
                Vec::new()
            }
            Event::GiveBack { which, task } => match self.pick(which) {
                Some(id) => {
                    let task = task.to_string();
                    self.offer(&task, OfferKind::Again { ends: 0 });
                    // It is owed to the others.
                    let at = self.offers[&task].at;
                    self.told.insert((id, task.clone(), at));
                    feed.give_back(&task, &[id], OfferKind::Again { ends: 0 }, 1, NOW)
                }
                None => Vec::new(),
            },
            Event::Tick => feed.tick(NOW, NOW),
            Event::Decline { which, task } => match self.pick(which) {
                Some(id) => self.decline(id, &task.to_string(), feed),
                None => Vec::new(),
            },
        }
    }

    /// What the agent had read and nobody has reported on counts its end, and nothing else does.
    fn end(&mut self, id: ListenerId, feed: &mut DeliverAll) {
        let unread = self.readers[&id].unread.clone();
        let mut counted = BTreeSet::new();
        for (task, standing) in &mut self.offers {
            if let Some(ends) = &mut standing.ends
                && standing.held.contains(&id)
                && (standing.kept || !unread.contains(task))
            {
                *ends += 1;
                standing.kept = false;
                counted.insert(task.clone());
            }
        }
        let ended: Vec<String> = feed.agent_ended(id, 0);
        assert_eq!(ended.len(), counted.len(), "each counts once");
        assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), counted);
    }

    fn keep(&mut self, id: ListenerId, task: &str, feed: &mut DeliverAll) {
        let standing = self.offers.get_mut(task);
        let has_it = standing.filter(|standing| standing.ends.is_some() && standing.held.contains(&id));
        assert_eq!(feed.reserve_for(id, task), has_it.is_some());
        if let Some(standing) = has_it {
            standing.held = BTreeSet::from([id]);
            (standing.kept, standing.declined, standing.untaken) = (true, false, false);
            standing.owner = None;
        }
    }

    /// Whether a listener has a task alone, so that it gets no other.
    fn has_alone(&self, id: ListenerId) -> bool {
        self.offers
            .values()
            .any(|standing| standing.at_lane == 3 && standing.held.contains(&id))
    }

    fn holds_any(&self, id: ListenerId) -> bool {
        self.offers
            .values()
            .any(|standing| !standing.has_ended && standing.held.contains(&id))
    }

    fn was_told(&self, id: ListenerId, task: &str, standing: &OfferModel) -> bool {
        self.told.contains(&(id, task.to_owned(), standing.at))
    }

    fn deliver(&mut self, deliveries: Vec<ListenerDelivery>) -> Result<(), TestCaseError> {
        let alone = self.readers.len() == 1;
        for ListenerDelivery {
            listener: id,
            task,
            exclusive,
        } in deliveries
        {
            let (has_alone, holds_any) = (self.has_alone(id), self.holds_any(id));
            let reader = self.readers.get_mut(&id);
            prop_assert!(reader.is_some(), "{task} went to {id}, who does not listen");
            let standing = self.offers.get_mut(&task);
            prop_assert!(standing.is_some(), "{task} was not on offer");
            if let (Some(reader), Some(standing)) = (reader, standing) {
                prop_assert!(reader.credit > 0, "{id} has no room");
                reader.credit -= 1;
                let lane = standing.at_lane;
                prop_assert!(
                    !has_alone || lane == 0,
                    "{task} came to {id}, which has one alone"
                );
                if lane == 3 {
                    let is_free = !holds_any && reader.unread.is_empty();
                    prop_assert!(is_free, "{task} came alone to {id}, which has others");
                    prop_assert!(standing.held.is_empty(), "{task} came alone to two");
                } else {
                    prop_assert!(
                        standing.at > reader.last[lane],
                        "{task} came to {id} out of order"
                    );
                    reader.last[lane] = standing.at;
                }
                prop_assert!(!standing.kept, "{task} came to {id}, and another has claimed it");
                reader.unread.push_back(task.clone());
                standing.was_sent = true;
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

    fn check(&self, feed: &DeliverAll) -> Result<(), TestCaseError> {
        prop_assert_eq!(feed.idle_since().is_none(), !self.readers.is_empty());
        for (task, standing) in &self.offers {
            let may_get_it = |(id, reader): (&ListenerId, &ListenerModel)| {
                let is_free = !self.holds_any(*id) && reader.unread.is_empty();
                reader.credit > 0
                    && match standing.at_lane {
                        0 => true,
                        3 => is_free && !self.was_told(*id, task, standing),
                        _ => !self.has_alone(*id) && !self.was_told(*id, task, standing),
                    }
            };
            let is_owed = match standing.at_lane {
                3 => standing.held.is_empty(),
                _ => !standing.was_sent,
            };
            let somebody = self.readers.iter().any(may_get_it);
            prop_assert!(!is_owed || !somebody, "{task} waits although somebody has room");
        }
        Ok(())
    }

    /// With room for everybody, whoever listened before a task was offered has it.
    fn check_all_told(&self) -> Result<(), TestCaseError> {
        let shared = |standing: &OfferModel| standing.at_lane < 3 && !standing.kept;
        for (task, standing) in self.offers.iter().filter(|(_, standing)| shared(standing)) {
            for (id, _) in self
                .readers
                .iter()
                .filter(|(id, reader)| reader.attached < standing.at && !self.has_alone(**id))
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
        let mut feed = DeliverAll::new(NOW);
        let mut model = DispatcherModel::default();
        for event in &events {
            let deliveries = model.happen(event, &mut feed);
            model.deliver(deliveries)?;
            if feed.is_due() {
                model.deliver(feed.dispatch())?;
            }
            model.check(&feed)?;
        }
        for _ in 0..=events.len().div_ceil(LISTENER_CREDIT) {
            for which in 0..model.readers.len() {
                let deliveries = model.happen(&Event::Credit { which, count: LISTENER_CREDIT }, &mut feed);
                model.deliver(deliveries)?;
            }
        }
        model.check_all_told()?;
        prop_assert!(model.readers.is_empty() || feed.ended_count == 0, "news that everybody knows is kept");
    }
}

fn decline(feed: &mut DeliverAll, listener: ListenerId, task: &str) -> DeclineOutcome {
    feed.decline(listener, task, "too large", NOW)
}

/// What came while no program listened is told in the order in which it came.
#[test]
fn ended_tasks_keep_their_place_among_the_others() {
    let mut feed = DeliverAll::new(NOW);
    feed.offer("once", OfferKind::Again { ends: 1 }, 1);
    feed.offer("a", OfferKind::New, 1);
    feed.offer("b", OfferKind::Ended, 1);
    feed.offer("c", OfferKind::InProgress, 1);
    let told: Vec<String> = feed
        .attach(1, true, NOW)
        .into_iter()
        .map(|told| told.task)
        .collect();
    assert_eq!(told, ["a", "b", "c", "once"]);
}

#[test]
fn a_task_that_nobody_can_take_is_known_as_such() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.offer("a", OfferKind::New, 1);
    assert_eq!(decline(&mut feed, 1, "unknown"), DeclineOutcome::NotOffered);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::Undeliverable);
    feed.attach(2, true, NOW);
    feed.offer("b", OfferKind::New, 1);
    assert_eq!(
        decline(&mut feed, 1, "b"),
        DeclineOutcome::StillOffered,
        "the second one has it"
    );
    assert_eq!(decline(&mut feed, 2, "b"), DeclineOutcome::Undeliverable);
    // One that has no room yet may take it.
    fill(&mut feed);
    feed.credit(1, LISTENER_CREDIT);
    assert_eq!(feed.offer("c", OfferKind::New, 1), [shared(1, "c")]);
    assert_eq!(decline(&mut feed, 1, "c"), DeclineOutcome::StillOffered);
    assert!(
        feed.detach(2, NOW).contains(&shared(1, "c")),
        "only the first is left"
    );
    assert_eq!(decline(&mut feed, 1, "c"), DeclineOutcome::Undeliverable);
}

#[test]
fn who_gave_a_task_back_gets_it_again_after_the_pause() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    for others in [false, true] {
        if others {
            feed.attach(2, true, NOW);
        }
        feed.offer("a", OfferKind::New, 1);
        feed.withdraw("a");
        let handed = feed.give_back("a", &[1], OfferKind::Again { ends: 0 }, 1, NOW);
        let to_other = others.then(|| shared(2, "a"));
        assert_eq!(handed, Vec::from_iter(to_other));
        assert_eq!(feed.tick(NOW + GIVE_BACK_PAUSE / 2, NOW), []);
        let handed = feed.tick(NOW + GIVE_BACK_PAUSE, NOW);
        let again = (!others).then(|| shared(1, "a"));
        assert_eq!(handed, Vec::from_iter(again));
        feed.withdraw("a");
    }
}

/// Who came while somebody had a task was not sent it, but can take it.
#[test]
fn who_came_later_is_asked_too() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.offer("a", OfferKind::New, 1);
    assert_eq!(feed.attach(2, true, NOW), []);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::Reoffer);
    assert_eq!(feed.offer_again("a"), [shared(1, "a"), shared(2, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::StillOffered);
    assert_eq!(decline(&mut feed, 2, "a"), DeclineOutcome::Undeliverable);
}

/// One that has no room for so long has not said that it cannot take the task.
#[test]
fn a_task_waits_for_who_has_not_come_to_it() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.attach(2, true, NOW);
    fill(&mut feed);
    feed.credit(1, LISTENER_CREDIT);
    assert_eq!(feed.offer("a", OfferKind::New, 1), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::StillOffered);
    assert_eq!(feed.undeliverable(NOW * 1000, NOW), []);
    assert_eq!(feed.credit(2, 1), [shared(2, "a")]);
    assert_eq!(decline(&mut feed, 2, "a"), DeclineOutcome::Undeliverable);
}

/// Who had a task and has lost its connection has time to come again.
#[test]
fn a_task_that_somebody_had_waits_for_that_one() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.attach(2, true, NOW);
    feed.offer("a", OfferKind::New, 1);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::StillOffered);
    assert_eq!(feed.detach(2, NOW * 10), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::StillOffered);
    assert_eq!(feed.undeliverable(NOW * 13, NOW * 3), []);
    let over = [("a".to_owned(), "too large".to_owned())];
    assert_eq!(feed.undeliverable(NOW * 14, NOW * 3), over);
    assert_eq!(feed.attach(3, true, NOW * 14), [shared(3, "a")]);
    assert_eq!(feed.undeliverable(NOW * 14, NOW * 3), [], "it can");
    // While no program listens, nobody's time is over.
    assert_eq!(feed.detach(3, NOW * 20), [shared(1, "a")]);
    decline(&mut feed, 1, "a");
    feed.detach(1, NOW * 20);
    assert_eq!(feed.undeliverable(NOW * 99, NOW * 3), []);
    assert_eq!(feed.attach(4, true, NOW * 99), [shared(4, "a")]);
    assert_eq!(decline(&mut feed, 4, "a"), DeclineOutcome::StillOffered);
    assert_eq!(feed.undeliverable(NOW * 102, NOW * 3), []);
    assert_eq!(feed.undeliverable(NOW * 103, NOW * 3), over);
}

/// A task that has ended meanwhile is told as such.
#[test]
fn news_is_not_declined() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.attach(2, true, NOW);
    fill(&mut feed);
    feed.credit(1, LISTENER_CREDIT);
    assert_eq!(feed.offer("a", OfferKind::Ended, 1), [shared(1, "a")]);
    assert_eq!(decline(&mut feed, 1, "a"), DeclineOutcome::NotOffered);
    assert_eq!(feed.credit(2, 1), [shared(2, "a")]);
}

/// Takes all the room of those who listen.
fn fill(feed: &mut DeliverAll) {
    for task in 0..LISTENER_CREDIT {
        feed.offer(&task.to_string(), OfferKind::New, 1);
    }
}

fn shared(listener: ListenerId, task: &str) -> ListenerDelivery {
    ListenerDelivery {
        listener,
        task: task.to_owned(),
        exclusive: false,
    }
}

fn alone(listener: ListenerId, task: &str) -> ListenerDelivery {
    ListenerDelivery {
        exclusive: true,
        ..shared(listener, task)
    }
}

/// An agent may die of a task: that one is not begun unclaimed twice.
#[test]
fn a_task_is_exclusive_once() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    assert_eq!(feed.offer("a", OfferKind::New, 1), [alone(1, "a")]);
    assert_eq!(
        feed.offer("before", OfferKind::Again { ends: 0 }, 1),
        [shared(1, "before")]
    );
    feed.detach(1, NOW);
    assert_eq!(feed.attach(2, true, NOW), [shared(2, "a"), shared(2, "before")]);
    feed.attach(3, true, NOW);
    assert_eq!(
        feed.offer("b", OfferKind::New, 1),
        [shared(2, "b"), shared(3, "b")]
    );
    feed.detach(2, NOW);
    assert_eq!(feed.offer("c", OfferKind::New, 1), [alone(3, "c")]);
    assert_eq!(feed.offer("c", OfferKind::New, 1), [shared(3, "c")]);
}

#[test]
fn a_task_offered_to_nobody_waits_for_the_first_listener() {
    let mut feed = DeliverAll::new(NOW);
    assert_eq!(feed.offer("t", OfferKind::New, 1), []);
    assert_eq!(feed.idle_since(), Some(NOW));
    assert_eq!(feed.attach(1, true, NOW), [alone(1, "t")]);
    assert_eq!(
        feed.attach(2, true, NOW),
        [],
        "the first listener may still take it"
    );
    assert_eq!(feed.detach(1, NOW), [shared(2, "t")]);
}

#[test]
fn a_slow_listener_gets_no_more_than_its_credit() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    let given = (0..LISTENER_CREDIT + 5)
        .flat_map(|task| feed.offer(&task.to_string(), OfferKind::New, 1))
        .count();
    assert_eq!(given, LISTENER_CREDIT);
    assert_eq!(feed.credit(1, 2).len(), 2);
    assert_eq!(feed.credit(1, LISTENER_CREDIT * 10).len(), 3);
}

#[test]
fn news_is_told_once_and_forgotten() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    assert_eq!(feed.offer("t", OfferKind::Ended, 1).len(), 1);
    assert_eq!((feed.ended_count, feed.offers.len()), (0, 0));
    assert_eq!(feed.detach(1, NOW), []);
    assert_eq!(feed.attach(2, true, NOW), []);
}

/// The one that heard it left, and whoever was behind; who came after it is not owed it.
#[test]
fn news_whose_hearer_left_is_forgotten() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.attach(2, true, NOW);
    fill(&mut feed);
    feed.credit(1, LISTENER_CREDIT);
    assert_eq!(feed.offer("t", OfferKind::Ended, 1), [shared(1, "t")]);
    assert_eq!(feed.attach(3, true, NOW), []);
    assert_eq!(feed.detach(1, NOW), []);
    assert_eq!(feed.ended_count, 1, "the second has not come to it");
    assert_eq!(feed.detach(2, NOW).len(), LISTENER_CREDIT);
    assert_eq!(feed.ended_count, 0);
}

#[test]
fn news_that_nobody_hears_has_a_bound() {
    let mut feed = DeliverAll::new(NOW);
    for task in 0..MAX_ENDED_OFFERS + 10 {
        feed.offer(&task.to_string(), OfferKind::Ended, 1);
    }
    assert_eq!(
        (feed.ended_count, feed.offers.len(), feed.by_task.len()),
        (MAX_ENDED_OFFERS, MAX_ENDED_OFFERS, MAX_ENDED_OFFERS)
    );
    assert!(!feed.by_task.contains_key("0"), "the oldest went first");
}

#[test]
fn acting_without_listening_is_a_sign_of_life() {
    let mut feed = DeliverAll::new(NOW);
    feed.note_activity(NOW * 5);
    assert_eq!(feed.idle_since(), Some(NOW * 5));
    feed.attach(1, true, NOW);
    feed.note_activity(NOW * 6);
    assert_eq!(feed.idle_since(), None);
    feed.detach(1, NOW * 7);
    assert_eq!(feed.idle_since(), Some(NOW * 7));
}

/// Of large tasks a listener is sent fewer ahead; of the largest one at a time.
#[test]
fn large_tasks_wait_until_there_is_room() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    let mut sent = 0;
    for task in 0..10 {
        sent += feed
            .offer(&task.to_string(), OfferKind::New, CREDIT_BYTES / 2)
            .len();
    }
    assert_eq!(sent, 2);
    assert_eq!(feed.credit(1, 1).len(), 1);
    assert_eq!(feed.credit(1, 2).len(), 2);
    feed.offer("huge", OfferKind::New, 3 * CREDIT_BYTES);
    for _ in 0..6 {
        feed.credit(1, 1);
    }
    let last = feed.credit(1, 1);
    assert_eq!(
        last,
        [],
        "one that is over the bound by itself was sent, and nothing behind it is"
    );
    assert_eq!(feed.offer("next", OfferKind::New, 1), []);
    assert_eq!(feed.credit(1, 2).len(), 1);
}

/// What a listener is handed now, by name.
fn names(deliveries: &[ListenerDelivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.task.as_str()).collect()
}

/// One of five tasks ends each agent that has it. The others count twice and no more, and are all done.
#[test]
fn only_the_task_that_ends_its_agents_goes_on_counting() {
    let mut feed = DeliverAll::new(NOW);
    for task in ["a", "b", "poison", "c", "d"] {
        feed.offer(task, OfferKind::New, 1);
    }
    let mut ends = BTreeMap::new();
    let mut listener = 0;
    let mut count = |feed: &mut DeliverAll, listener| {
        for task in feed.agent_ended(listener, LISTENER_CREDIT) {
            *ends.entry(task).or_insert(0) += 1;
        }
        feed.detach(listener, NOW);
    };
    for _ in 0..2 {
        listener += 1;
        assert_eq!(feed.attach(listener, true, NOW).len(), 5, "all at once");
        count(&mut feed, listener);
    }
    for _ in 0..3 {
        listener += 1;
        let mut handed = feed.attach(listener, true, NOW);
        loop {
            assert_eq!(handed.len(), 1, "alone");
            feed.credit(listener, 1);
            if handed[0].task == "poison" {
                break;
            }
            assert_eq!(feed.dispatch(), [], "while nobody has reported on it");
            feed.withdraw(&handed[0].task);
            assert!(feed.is_due());
            handed = feed.dispatch();
        }
        count(&mut feed, listener);
    }
    assert_eq!(ends.remove("poison"), Some(5));
    assert!(ends.values().all(|ends| *ends == 2), "{ends:?}");
    assert_eq!(names(&feed.attach(99, true, NOW)), ["poison"]);
}

#[test]
fn counted_tasks_go_behind_uncounted_ones() {
    let mut feed = DeliverAll::new(NOW);
    feed.offer("thrice", OfferKind::Again { ends: 3 }, 1);
    feed.offer("once", OfferKind::Again { ends: 1 }, 1);
    feed.offer("new", OfferKind::New, 1);
    feed.offer("further", OfferKind::InProgress, 1);
    assert_eq!(names(&feed.attach(1, true, NOW)), ["new", "further", "once"]);
    feed.credit(1, 3);
    for task in ["new", "further", "once"] {
        feed.withdraw(task);
    }
    assert_eq!(names(&feed.dispatch()), ["thrice"]);
    // News goes to that listener all the same, and nothing else does.
    assert_eq!(names(&feed.offer("over", OfferKind::Ended, 1)), ["over"]);
    assert_eq!(feed.offer("later", OfferKind::New, 1), []);
    feed.withdraw("thrice");
    assert_eq!(names(&feed.dispatch()), ["later"]);
}

/// What was not read was not with the agent.
#[test]
fn what_an_agent_has_not_read_does_not_count_its_end() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    for task in ["read", "read too", "unread"] {
        feed.offer(task, OfferKind::New, 1);
    }
    feed.credit(1, 1);
    assert_eq!(feed.agent_ended(1, 1), ["read", "read too"]);
}

/// What the agent's library has claimed is kept from others while that agent is there, and no longer.
#[test]
fn what_a_library_has_claimed_is_handed_out_again_when_its_agent_ends() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, true, NOW);
    feed.offer("a", OfferKind::New, 1);
    assert!(!feed.reserve_for(2, "a"));
    assert!(feed.reserve_for(1, "a"));
    assert_eq!(feed.attach(2, true, NOW), []);
    assert_eq!(feed.agent_ended(1, 0), ["a"]);
    assert_eq!(feed.detach(1, NOW), [shared(2, "a")]);
    assert!(feed.reserve_for(2, "a"));
    // An agent that only stops listening goes on with it.
    assert_eq!(feed.detach(2, NOW), []);
    assert!(!feed.is_on_offer("a"));
}

/// A busy agent is given nothing more until it can have the task alone; and a task that nobody reports on
/// does not keep it waiting for ever.
#[test]
fn a_task_that_is_handed_out_alone_gets_its_turn() {
    const GRACE: Duration = Duration::from_mins(5);
    for reports in [true, false] {
        let mut feed = DeliverAll::new(NOW);
        feed.attach(1, true, NOW);
        feed.offer("busy", OfferKind::New, 1);
        feed.offer("alone", OfferKind::Again { ends: 2 }, 1);
        feed.credit(1, 1);
        assert_eq!(feed.tick(NOW, GRACE), []);
        assert_eq!(names(&feed.offer("more", OfferKind::New, 1)), ["more"]);
        feed.credit(1, 1);
        assert_eq!(feed.tick(NOW + DRAIN_AFTER * 2, GRACE), []);
        assert_eq!(feed.offer("still more", OfferKind::New, 1), []);
        if reports {
            feed.withdraw("busy");
            assert_eq!(feed.dispatch(), []);
            feed.withdraw("more");
            assert_eq!(names(&feed.dispatch()), ["alone"]);
        } else {
            assert_eq!(names(&feed.tick(NOW + GRACE * 2, GRACE)), ["alone"]);
        }
        // It was handed to a listener that reads it and says nothing of it: one more gets it.
        feed.credit(1, 1);
        feed.attach(2, true, NOW);
        feed.credit(2, LISTENER_CREDIT);
        feed.withdraw("still more");
        assert_eq!(feed.tick(NOW + GRACE * 3, GRACE), []);
        assert_eq!(names(&feed.tick(NOW + GRACE * 5, GRACE)), ["alone"]);
    }
}

/// Listeners that read nothing hold a part of what waited; a good one has all of it after two seconds, and
/// what it already had comes to it once.
#[test]
fn a_stuck_listener_costs_the_others_nothing() {
    const GRACE: Duration = Duration::from_mins(5);
    for comes_later in [false, true] {
        let mut feed = DeliverAll::new(NOW);
        for task in 0..3 * LISTENER_CREDIT {
            feed.offer(&task.to_string(), OfferKind::New, 1);
        }
        assert_eq!(feed.attach(1, true, NOW).len(), LISTENER_CREDIT);
        // It has read some: they may lie in its socket.
        feed.credit(1, 10);
        feed.attach(2, true, NOW);
        let mut had = BTreeSet::new();
        let mut reads = |feed: &mut DeliverAll, mut deliveries: Vec<ListenerDelivery>| {
            while let Some(delivery) = deliveries.pop() {
                if delivery.listener == 3 {
                    assert!(had.insert(delivery.task), "comes twice");
                    deliveries.extend(feed.credit(3, 1));
                }
            }
            had.len()
        };
        if !comes_later {
            let handed = feed.attach(3, true, NOW);
            assert!(reads(&mut feed, handed) < 2 * LISTENER_CREDIT);
        }
        for seconds in 0..=3 {
            let handed = feed.tick(NOW + Duration::from_secs(seconds), GRACE);
            reads(&mut feed, handed);
        }
        if comes_later {
            let handed = feed.attach(3, true, NOW);
            reads(&mut feed, handed);
        }
        assert_eq!(reads(&mut feed, Vec::new()), 3 * LISTENER_CREDIT);
        // One that reads on is not stuck, and gets nothing twice.
        let again = feed.credit(1, LISTENER_CREDIT);
        assert!(again.iter().all(|delivery| delivery.listener == 1));
        assert_eq!(feed.tick(NOW + GRACE, GRACE), []);
    }
}

#[test]
fn ends_go_only_to_listeners_that_ask_for_them() {
    let mut feed = DeliverAll::new(NOW);
    feed.attach(1, false, NOW);
    feed.attach(2, true, NOW);
    feed.offer("a", OfferKind::New, 1);
    assert_eq!(feed.offer("a", OfferKind::InProgress, 1).len(), 2);
    let told = feed.offer("a", OfferKind::Ended, 1);
    assert_eq!(told.iter().map(|told| told.listener).collect::<Vec<_>>(), [2]);
    assert_eq!(feed.offers.len(), 0, "nothing waits for the other one");
    feed.detach(2, NOW);
    assert_eq!(feed.offer("b", OfferKind::Ended, 1), []);
    assert_eq!(feed.attach(3, false, NOW), []);
    assert_eq!(feed.attach(4, true, NOW).len(), 1);
    assert_eq!(feed.offer("c", OfferKind::New, 1).len(), 3);
}
