//! Waiting tasks and idle clients by kind. PURE. Used by the fleet.
//!
//! Invariant: a kind that has neither members nor waiting tasks is not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use agentanycast_proto::v1::Skill;

use super::{ClientId, TaskNumber, Time};
use crate::capability::{Kind, Requirements};

/// A client that has the kind and takes proposals.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// In the order of registration.
    pub(super) number: u64,
    /// What its capability takes.
    pub(super) takes: Arc<Requirements>,
}

#[derive(Debug, Default)]
struct Lane {
    /// By the order in which they came.
    waiting: BTreeMap<u64, TaskNumber>,
    /// By when they were given something last.
    idle: BTreeSet<(u64, ClientId)>,
    members: BTreeMap<ClientId, Member>,
    /// Since when there are no members.
    empty_since: Time,
}

/// The kinds.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    kinds: BTreeMap<Kind, Lane>,
    /// Kinds that have waiting tasks and idle clients: only these are looked at.
    open: BTreeSet<Kind>,
    /// The one that a task was taken of last.
    last: Option<Kind>,
    /// With members.
    served: usize,
}

impl Lanes {
    /// Different kinds that clients have.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Whether a client has this kind.
    pub(super) fn has_member(&self, kind: &Kind) -> bool {
        self.kinds.get(kind).is_some_and(|lane| !lane.members.is_empty())
    }

    /// Since when no client has it.
    pub(super) fn empty_since(&self, kind: &Kind) -> Time {
        self.kinds.get(kind).map_or(Time::ZERO, |lane| lane.empty_since)
    }

    /// The clients that have it.
    pub(super) fn members(&self, kind: &Kind) -> impl Iterator<Item = (&ClientId, &Member)> {
        self.kinds.get(kind).into_iter().flat_map(|lane| &lane.members)
    }

    /// The skills of all kinds, each as its first client says it.
    pub(super) fn skills(&self) -> Vec<Skill> {
        let skill = |(kind, lane): (&Kind, &Lane)| {
            let first = lane.members.values().min_by_key(|member| member.number)?;
            Some(first.takes.skill(kind))
        };
        let mut skills: Vec<Skill> = self.kinds.iter().filter_map(skill).collect();
        skills.sort_by(|one, other| one.id.cmp(&other.id));
        skills
    }

    /// True if the skills are other ones with it.
    pub(super) fn add_member(&mut self, kind: &Kind, id: &ClientId, member: Member) -> bool {
        let lane = self.kinds.entry(kind.clone()).or_default();
        let was_empty = lane.members.is_empty();
        self.served += usize::from(was_empty);
        lane.members.insert(id.clone(), member);
        was_empty
    }

    /// True if it was the last one.
    pub(super) fn remove_member(&mut self, kind: &Kind, id: &ClientId, now: Time) -> bool {
        let Some(lane) = self.kinds.get_mut(kind) else {
            return false;
        };
        let is_last = lane.members.remove(id).is_some() && lane.members.is_empty();
        if is_last {
            lane.empty_since = now;
            self.served -= 1;
        }
        self.settle(kind);
        is_last
    }

    pub(super) fn add_idle(&mut self, id: &ClientId, given: u64, kinds: &[(Kind, Arc<Requirements>)]) {
        for (kind, _) in kinds {
            if let Some(lane) = self.kinds.get_mut(kind) {
                lane.idle.insert((given, id.clone()));
            }
            self.settle(kind);
        }
    }

    pub(super) fn remove_idle(&mut self, id: &ClientId, given: u64, kinds: &[(Kind, Arc<Requirements>)]) {
        for (kind, _) in kinds {
            if let Some(lane) = self.kinds.get_mut(kind) {
                lane.idle.remove(&(given, id.clone()));
            }
            self.settle(kind);
        }
    }

    pub(super) fn add_waiting(&mut self, kind: &Kind, order: u64, number: TaskNumber) {
        self.kinds
            .entry(kind.clone())
            .or_default()
            .waiting
            .insert(order, number);
        self.settle(kind);
    }

    pub(super) fn remove_waiting(&mut self, kind: &Kind, order: u64) {
        if let Some(lane) = self.kinds.get_mut(kind) {
            lane.waiting.remove(&order);
        }
        self.settle(kind);
    }

    /// The waiting tasks of a kind, in their order.
    pub(super) fn waiting(&self, kind: &Kind) -> Vec<TaskNumber> {
        let lane = self.kinds.get(kind);
        lane.map(|lane| lane.waiting.values().copied().collect())
            .unwrap_or_default()
    }

    fn settle(&mut self, kind: &Kind) {
        let Some(lane) = self.kinds.get(kind) else { return };
        if lane.waiting.is_empty() || lane.idle.is_empty() {
            self.open.remove(kind);
        } else {
            self.open.insert(kind.clone());
        }
        if lane.waiting.is_empty() && lane.members.is_empty() {
            self.kinds.remove(kind);
        }
    }

    /// The first waiting task that an idle client fits, of the next kind in turn, and the client that was given nothing for
    /// the longest time.
    pub(super) fn next_match(
        &mut self,
        fits: impl Fn(TaskNumber, &ClientId, &Member) -> bool,
    ) -> Option<(TaskNumber, ClientId)> {
        let after = match &self.last {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let until = self.last.iter().flat_map(|last| self.open.range(..=last));
        let found = self.open.range::<Kind, _>(after).chain(until).find_map(|kind| {
            let lane = self.kinds.get(kind)?;
            lane.waiting.values().find_map(|number| {
                let client = lane.idle.iter().find(|(_, id)| {
                    lane.members
                        .get(id)
                        .is_some_and(|member| fits(*number, id, member))
                });
                client.map(|(_, id)| (kind.clone(), *number, id.clone()))
            })
        });
        let (kind, number, client) = found?;
        self.last = Some(kind);
        Some((number, client))
    }
}
