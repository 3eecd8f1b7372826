//! One task as `deliver = "one"` sees it: which listener has it, which listeners were sent it, and what is on offer of it. PURE.

use std::time::Duration;

use super::{
    super::{
        lane::Lane,
        offer::{DeclinedOffer, OfferKind},
    },
    waiting::QueuePlace,
};
use crate::transaction::ListenerId;

/// A task that is on offer, or that a listener has which lives, or that such a listener was sent.
#[derive(Debug)]
pub(super) struct TaskAssignment {
    pub(crate) task: String,
    /// Bytes that the task takes in memory.
    pub(crate) weight: usize,
    /// How often it was offered.
    pub(crate) version: u64,
    /// What is on offer; None: an agent has reported on it, and nothing has come since.
    pub(crate) offer: Option<OpenOffer>,
    /// The listener that has it.
    pub(crate) holder: Option<ListenerId>,
    /// The connection of its last holder, which listens no more: the next listener of that connection takes it over.
    pub(crate) departed_from: Option<u64>,
    /// The listeners that were sent it or claimed it, and still listen.
    pub(crate) sent_to: Vec<Recipient>,
    /// The place of its next delivery among the follow-ups of its holder, which has no room for it yet.
    pub(crate) follow_up: Option<u64>,
}

/// A listener that was sent a task.
#[derive(Debug)]
pub(super) struct Recipient {
    pub(crate) listener: ListenerId,
    /// Deliveries of the task that it has not read.
    pub(crate) unread: usize,
    /// The version of the task that it was sent last.
    pub(crate) version: u64,
    /// The number of the last delivery of the task among those to its streams; 0: none.
    pub(crate) number: u64,
    /// The place of its first delivery among all that are sent for this agent; 0: none.
    pub(crate) place: u64,
}

/// What is on offer of a task.
#[derive(Debug)]
pub(super) struct OpenOffer {
    pub(crate) lane: Lane,
    /// How many agents ended while they had it; None: ends are not counted, since an agent has reported on it.
    pub(crate) ends: Option<u32>,
    /// No listener has ever been sent the task, in this run of the node or before.
    pub(crate) never_sent: bool,
    /// No listener has ever been sent the task but those whose clients cannot take it, in this run of the node or before.
    pub(crate) never_acceptable: bool,
    /// Listeners whose clients cannot take it.
    pub(crate) declined_by: Vec<ListenerId>,
    /// The last such answer.
    pub(crate) declined: Option<DeclinedOffer>,
    /// The library of its holder's agent has claimed it, and the agent has said nothing yet.
    pub(crate) reserved: bool,
    /// Its holder has reported on the task before: it stays with that one.
    pub(crate) own: bool,
    /// When its holder had read all that it was sent of it.
    pub(crate) read_at: Option<Duration>,
    /// When it is taken away from its holder.
    pub(crate) deadline: Option<Duration>,
    /// Handed out alone: since when it waits for a listener.
    pub(crate) waits_since: Option<Duration>,
    /// Where it waits for a listener.
    pub(crate) place: Option<QueuePlace>,
}

/// What a task counts for its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldTask {
    pub(crate) listener: ListenerId,
    /// Its agent has not reported on it.
    pub(crate) is_unreported: bool,
    /// It is handed out alone.
    pub(crate) is_exclusive: bool,
}

impl TaskAssignment {
    pub(super) fn new(task: &str) -> Self {
        Self {
            task: task.to_owned(),
            weight: 0,
            version: 0,
            offer: None,
            holder: None,
            departed_from: None,
            sent_to: Vec::new(),
            follow_up: None,
        }
    }

    pub(super) fn held(&self) -> Option<HeldTask> {
        let unreported = self.offer.as_ref().filter(|offer| !offer.own);
        Some(HeldTask {
            listener: self.holder?,
            is_unreported: unreported.is_some(),
            is_exclusive: unreported.is_some_and(|offer| offer.lane == Lane::Exclusive),
        })
    }

    pub(super) fn was_sent_to(&self, id: ListenerId) -> bool {
        self.sent_to.iter().any(|sent| sent.listener == id)
    }

    /// Deliveries of the task that the listener has not read.
    pub(super) fn unread_by(&self, id: ListenerId) -> usize {
        let sent = self.sent_to.iter().find(|sent| sent.listener == id);
        sent.map_or(0, |sent| sent.unread)
    }

    /// The listeners that have the task on their streams as it is now, and have not read it.
    pub(super) fn on_streams(&self) -> impl Iterator<Item = ListenerId> + Clone {
        let unread = self.sent_to.iter().filter(|sent| sent.unread > 0);
        let current = unread.filter(|sent| sent.version == self.version);
        current.map(|sent| sent.listener)
    }

    /// The delivery of this number is sent to this listener.
    pub(super) fn count_sent(&mut self, id: ListenerId, number: u64) {
        let version = self.version;
        if let Some(sent) = self.recipient(id) {
            sent.unread += 1;
            (sent.version, sent.number) = (version, number);
        }
    }

    pub(super) fn recipient(&mut self, id: ListenerId) -> Option<&mut Recipient> {
        self.sent_to.iter_mut().find(|sent| sent.listener == id)
    }

    /// Whether nothing has to be known of it: it is not on offer, and no listener has it or was sent it.
    pub(super) fn is_forgettable(&self) -> bool {
        let is_known = self.offer.is_some() || self.holder.is_some() || self.departed_from.is_some();
        !is_known && self.sent_to.is_empty()
    }
}

impl OpenOffer {
    /// `own`: the listener that has the task has reported on it.
    pub(super) fn new(as_what: OfferKind, own: bool) -> Self {
        Self {
            lane: Lane::new(false, as_what.ends()),
            ends: as_what.ends(),
            never_sent: as_what == OfferKind::New,
            never_acceptable: as_what == OfferKind::New,
            declined_by: Vec::new(),
            declined: None,
            reserved: false,
            own,
            read_at: None,
            deadline: None,
            waits_since: None,
            place: None,
        }
    }

    /// More has come of a task that is on offer.
    pub(super) fn renew(&mut self, as_what: OfferKind) {
        self.ends = as_what.ends();
        self.lane = Lane::new(false, self.ends);
        self.never_sent &= as_what == OfferKind::New;
        self.never_acceptable &= as_what == OfferKind::New;
        self.own |= std::mem::take(&mut self.reserved);
    }

    /// Whether it is taken away from a listener that does not take it off its stream, or does not claim it.
    pub(super) fn is_movable(&self) -> bool {
        !self.own && !self.reserved
    }
}
