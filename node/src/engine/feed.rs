//! Handing tasks to the agents that listen.
//!
//! Pure. Every open listener gets every new task, once; a task that nobody listened for, or whose
//! every listener went away before an agent acted on it, is offered again. What is handed over for the
//! first time while one listens is that one's alone ([`Delivery::exclusive`]). A listener is sent no
//! more than it has room for ([`CREDIT`], [`CREDIT_BYTES`]), so that a slow agent costs no memory.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

/// Tasks a listener is sent ahead of what it has read.
pub(super) const CREDIT: usize = 64;

/// Bytes of tasks that a listener is sent ahead of what it has read, unless a single one has more.
pub(super) const CREDIT_BYTES: usize = 4 << 20;

/// Most ended tasks that wait for a listener to be told of their end.
const MAX_NEWS: usize = 10_000;

/// An open SubscribeIncomingTasks stream.
pub(crate) type ListenerId = u64;

#[derive(Debug)]
struct Offer {
    task: String,
    /// Bytes that the task takes in memory.
    weight: usize,
    holders: Vec<ListenerId>,
    /// Listeners that came while others had it, and were not sent it.
    passed_over: Vec<ListenerId>,
    /// True for a task that has ended: told once, then forgotten.
    news: bool,
    /// A listener was sent it, whether that still listens or not.
    told: bool,
    /// No listener has ever been sent the task, in this run of the node or before.
    unseen: bool,
    /// No listener has ever been sent the task but those whose clients cannot take it, in this run of the node or before.
    untaken: bool,
    /// A listener's client cannot take it.
    declined: Option<Declined>,
}

#[derive(Clone, Debug)]
struct Declined {
    reason: String,
    /// Since when nobody has it who may be able to; None: somebody has.
    since: Option<Duration>,
}

#[derive(Debug)]
struct Listener {
    cursor: u64,
    attached_at: u64,
    credit: usize,
    /// What it was sent and has not read, oldest first.
    unread: VecDeque<usize>,
    unread_bytes: usize,
}

impl Listener {
    fn has_room(&self) -> bool {
        self.credit > 0 && self.unread_bytes < CREDIT_BYTES
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Feed {
    next: u64,
    offers: BTreeMap<u64, Offer>,
    by_task: HashMap<String, u64>,
    news: usize,
    listeners: BTreeMap<ListenerId, Listener>,
    idle_since: Option<Duration>,
}

/// A task to be sent to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) listener: ListenerId,
    pub(super) task: String,
    /// Nobody else was ever sent it, nor is as long as this one listens and no agent acts on it.
    pub(super) exclusive: bool,
}

/// What is known of a task that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// It has just come.
    New,
    /// An agent may have seen it: it goes on, or was there before this run of the node.
    Again,
    /// It has ended.
    News,
}

/// What a listener's client that cannot take a task leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decline {
    /// It is not on offer any more, or has ended.
    Over,
    /// Somebody else has it, or may come to have it.
    Stays,
    /// Nobody has it, and somebody came while others had it: to be offered again.
    Again,
    /// Nobody who listens can take it, and nobody else was ever sent it.
    Ends,
}

impl Feed {
    /// Nobody listens since `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            next: 1,
            offers: BTreeMap::new(),
            by_task: HashMap::new(),
            news: 0,
            listeners: BTreeMap::new(),
            idle_since: Some(now),
        }
    }

    /// Offers a task of `weight` bytes to every listener.
    pub(super) fn offer(&mut self, task: &str, as_what: Offered, weight: usize) -> Vec<Delivery> {
        let known = self.withdraw(task);
        let news = as_what == Offered::News;
        let number = self.next;
        self.next += 1;
        if news {
            self.news += 1;
            if self.news > MAX_NEWS {
                self.drop_oldest_news();
            }
        }
        self.offers.insert(
            number,
            Offer {
                task: task.to_owned(),
                weight,
                holders: Vec::new(),
                passed_over: Vec::new(),
                news,
                told: false,
                unseen: as_what == Offered::New && !known,
                untaken: as_what == Offered::New && !known,
                declined: None,
            },
        );
        self.by_task.insert(task.to_owned(), number);
        self.deliver()
    }

    /// An agent acted on the task, or it is gone: it is not offered any more. Whether it was, and had not ended.
    pub(super) fn withdraw(&mut self, task: &str) -> bool {
        let number = self.by_task.remove(task);
        let Some(offer) = number.and_then(|number| self.offers.remove(&number)) else {
            return false;
        };
        self.news -= usize::from(offer.news);
        !offer.news
    }

    /// Offers again what is offered, to those who have not got it and to those who have.
    pub(super) fn offer_again(&mut self, task: &str) -> Vec<Delivery> {
        let number = self.by_task.get(task);
        let Some(offer) = number.and_then(|number| self.offers.get(number)) else {
            return Vec::new();
        };
        let (weight, untaken, declined) = (offer.weight, offer.untaken, offer.declined.clone());
        self.withdraw(task);
        let number = self.next;
        let deliveries = self.offer(task, Offered::Again, weight);
        if let Some(offer) = self.offers.get_mut(&number) {
            (offer.untaken, offer.declined) = (untaken, declined);
        }
        deliveries
    }

    /// An agent begins to listen.
    pub(super) fn attach(&mut self, id: ListenerId, now: Duration) -> Vec<Delivery> {
        if self.idle_since.take().is_some() {
            // Whoever can take what was declined has the time to come from now on.
            let declined = self
                .offers
                .values_mut()
                .filter_map(|offer| offer.declined.as_mut());
            declined.for_each(|declined| declined.since = Some(now));
        }
        self.listeners.insert(
            id,
            Listener {
                cursor: 0,
                attached_at: self.next,
                credit: CREDIT,
                unread: VecDeque::new(),
                unread_bytes: 0,
            },
        );
        self.deliver()
    }

    /// An agent stopped listening: what only it held is offered again.
    pub(super) fn detach(&mut self, id: ListenerId, now: Duration) -> Vec<Delivery> {
        let Some(gone) = self.listeners.remove(&id) else {
            return Vec::new();
        };
        if self.listeners.is_empty() {
            self.idle_since = Some(now);
        }
        let mut orphans = Vec::new();
        for (&number, offer) in &mut self.offers {
            let held = offer.holders.len();
            offer.holders.retain(|holder| *holder != id);
            offer.passed_over.retain(|other| *other != id);
            let has_left = offer.holders.len() < held;
            if has_left {
                offer.untaken = false;
                if let Some(declined) = &mut offer.declined {
                    declined.since = Some(now);
                }
            }
            // It may have been the last one that others could still hope for.
            let was_awaited = offer.declined.is_some() && gone.cursor < number;
            if (has_left || was_awaited) && offer.holders.is_empty() && !offer.news {
                orphans.push(offer.task.clone());
            }
        }
        self.forget_told_news();
        orphans.iter().flat_map(|task| self.offer_again(task)).collect()
    }

    /// A listener's client cannot take the task, for this reason.
    pub(super) fn decline(&mut self, id: ListenerId, task: &str, reason: &str, now: Duration) -> Decline {
        let Some((&number, offer)) = self
            .by_task
            .get(task)
            .and_then(|number| Some((number, self.offers.get_mut(number)?)))
        else {
            return Decline::Over;
        };
        if offer.news {
            return Decline::Over;
        }
        offer.holders.retain(|holder| *holder != id);
        let is_held = !offer.holders.is_empty();
        let since = offer.declined.take().and_then(|declined| declined.since);
        offer.declined = Some(Declined {
            reason: reason.to_owned(),
            since: since.or(Some(now)).filter(|_| !is_held),
        });
        if is_held || self.listeners.values().any(|listener| listener.cursor < number) {
            return Decline::Stays;
        }
        if !offer.passed_over.is_empty() {
            return Decline::Again;
        }
        if offer.untaken {
            Decline::Ends
        } else {
            Decline::Stays
        }
    }

    /// Tasks that nobody who listens can take, for `grace` or longer, and why; who was sent them before has not come again.
    pub(super) fn untakable(&self, now: Duration, grace: Duration) -> Vec<(String, String)> {
        if self.listeners.is_empty() {
            return Vec::new();
        }
        // One that has no room yet may take what it has not come to.
        let behind = self.listeners.values().map(|listener| listener.cursor).min();
        let offers = self.offers.range(..=behind.unwrap_or(0)).map(|(_, offer)| offer);
        offers
            .filter(|offer| offer.holders.is_empty())
            .filter_map(|offer| Some((offer, offer.declined.as_ref()?)))
            .filter(|(_, declined)| {
                declined
                    .since
                    .is_some_and(|since| now.saturating_sub(since) > grace)
            })
            .map(|(offer, declined)| (offer.task.clone(), declined.reason.clone()))
            .collect()
    }

    /// A listener has read `count` tasks.
    pub(super) fn credit(&mut self, id: ListenerId, count: usize) -> Vec<Delivery> {
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.credit = (listener.credit + count).min(CREDIT);
            let read = count.min(listener.unread.len());
            listener.unread_bytes -= listener.unread.drain(..read).sum::<usize>();
        }
        self.deliver()
    }

    /// An agent acted: whoever works without listening is alive all the same.
    pub(super) fn touch(&mut self, now: Duration) {
        if self.listeners.is_empty() {
            self.idle_since = Some(now);
        }
    }

    /// Since when nobody listens.
    pub(super) fn idle_since(&self) -> Option<Duration> {
        self.idle_since
    }

    fn deliver(&mut self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let is_alone = self.listeners.len() == 1;
        for (&id, listener) in &mut self.listeners {
            for (&number, offer) in self.offers.range_mut(listener.cursor + 1..) {
                if !listener.has_room() {
                    break;
                }
                listener.cursor = number;
                if number < listener.attached_at && !offer.holders.is_empty() {
                    offer.passed_over.push(id);
                    continue; // Another listener has it and may still take it.
                }
                listener.credit -= 1;
                listener.unread.push_back(offer.weight);
                listener.unread_bytes += offer.weight;
                offer.holders.push(id);
                offer.told = true;
                let is_first = std::mem::take(&mut offer.unseen);
                deliveries.push(Delivery {
                    listener: id,
                    task: offer.task.clone(),
                    exclusive: is_alone && is_first,
                });
            }
        }
        self.forget_told_news();
        deliveries
    }

    fn forget_told_news(&mut self) {
        if self.news == 0 || self.listeners.is_empty() {
            return;
        }
        let behind = self
            .listeners
            .values()
            .map(|listener| listener.cursor)
            .min()
            .unwrap_or(0);
        let told: Vec<String> = self
            .offers
            .range(..=behind)
            .filter(|(_, offer)| offer.news && offer.told)
            .map(|(_, offer)| offer.task.clone())
            .collect();
        for task in told {
            self.withdraw(&task);
        }
    }

    fn drop_oldest_news(&mut self) {
        let oldest = self
            .offers
            .values()
            .find(|offer| offer.news)
            .map(|offer| offer.task.clone());
        if let Some(task) = oldest {
            self.withdraw(&task);
        }
    }
}

#[cfg(test)]
mod tests;
