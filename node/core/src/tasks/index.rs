//! What is known of every task without reading it, in the orders in which tasks are looked for.
//!
//! Pure: it is in memory only, built when the store is read, and changed with each task that is written.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use agentanycast_identity::PeerId;

use super::records::StateRecord;
use crate::task::{GroupKey, Status};

/// Numbers of statuses on the wire are below this.
const STATUSES: usize = 8;

/// The other side of an open task, which has its share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TaskParty {
    /// The node that sent the task here.
    From(PeerId),
    /// The node that the task was sent to.
    To(PeerId),
    /// The agents beyond the network, all together.
    External,
    /// The local agent, for its own tasks.
    Local,
}

/// What is known of every task without reading it.
#[derive(Clone, Debug)]
pub(crate) struct TaskIndexEntry {
    /// Its place in the store.
    number: u64,
    is_spread: bool,
    pub(crate) status: Status,
    pub(crate) updated_at: u64,
    /// When it changed last, by the clock of what has passed.
    pub(crate) changed_clock_ms: u64,
    pub(crate) bytes: u64,
    pub(crate) is_assignee: bool,
    pub(crate) claimed: bool,
    /// How many agents ended while they had it.
    pub(crate) agent_ends: u32,
    /// The agent of this node that it is for; None: the primary one, or none here.
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) open_streams: bool,
    pub(crate) deadline: Option<u64>,
    pub(crate) peer: Option<PeerId>,
    /// Held back from the agent until its originator confirms it.
    pub(crate) held: bool,
    /// Held back from the agent until that lists the task's skill.
    pub(crate) awaits_skill: bool,
    /// May be given back; see [`crate::task::Task::returnable`].
    pub(crate) returnable: bool,
    /// Sent by skill, and not acknowledged by anybody yet.
    pub(crate) awaits_assignee: bool,
    /// Sent by skill.
    pub(crate) routed: bool,
    /// With an agent beyond this network, to whom something is left to be said.
    pub(crate) external: bool,
    /// [`context_mark`](super::records::context_mark) of the id that it has where it was sealed; None: it is not sealed.
    pub(crate) sealed: Option<u64>,
    /// By which a gateway lists it.
    group: Option<GroupKey>,
    /// [`context_mark`](super::records::context_mark) of its conversation.
    pub(crate) context: u64,
}

impl TaskIndexEntry {
    fn party(&self) -> TaskParty {
        match self.peer {
            Some(peer) if self.is_assignee => TaskParty::From(peer),
            Some(peer) => TaskParty::To(peer),
            None if self.is_assignee => TaskParty::Local,
            None => TaskParty::External,
        }
    }

    /// Its place in the store.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is more than one record there.
    pub(super) fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// Whether another node sent it here.
    pub(crate) fn is_from_peer(&self) -> bool {
        self.is_assignee && self.peer.is_some()
    }
}

/// A moment, and the task that it is of.
type ByTime = (u64, Arc<str>);

/// See the module's text.
pub(crate) struct TaskIndex {
    tasks: HashMap<Arc<str>, TaskIndexEntry>,
    /// Those that have not ended, by when they changed last.
    unended: BTreeSet<ByTime>,
    /// Of both, what gateways list.
    groups: HashMap<GroupKey, BTreeSet<ByTime>>,
    /// Those that have ended, by when they did.
    ended: BTreeSet<ByTime>,
    /// The same by the clock of what has passed: the oldest go first.
    collectable: BTreeSet<ByTime>,
    deadlines: BTreeSet<ByTime>,
    open: usize,
    by_status: [usize; STATUSES],
    /// Open tasks and their bytes, by who is on their other side.
    parties: HashMap<TaskParty, (usize, u64)>,
    /// Of them, those that are held for a peer's confirmation.
    held: HashMap<PeerId, HashSet<Arc<str>>>,
    /// Of them, those that are held back until their agents list their skills.
    awaiting_skill: BTreeSet<Arc<str>>,
    total_bytes: u64,
    /// Of these, what open tasks take: it cannot be collected.
    open_bytes: u64,
}

impl TaskIndex {
    pub(super) fn new() -> Self {
        Self {
            tasks: HashMap::new(),
            unended: BTreeSet::new(),
            groups: HashMap::new(),
            ended: BTreeSet::new(),
            collectable: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            open: 0,
            by_status: [0; STATUSES],
            parties: HashMap::new(),
            held: HashMap::new(),
            awaiting_skill: BTreeSet::new(),
            total_bytes: 0,
            open_bytes: 0,
        }
    }

    /// Number of tasks that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Number of tasks with this other side that have not ended, and their bytes on disk.
    pub(crate) fn open_with(&self, party: TaskParty) -> (usize, u64) {
        self.parties.get(&party).copied().unwrap_or_default()
    }

    /// Number of tasks that are held for this peer's confirmation.
    pub(crate) fn held_for(&self, peer: PeerId) -> usize {
        self.held.get(&peer).map_or(0, HashSet::len)
    }

    /// Tasks that are held back until their agents list their skills, sorted.
    pub(crate) fn awaiting_skill(&self) -> Vec<Arc<str>> {
        self.awaiting_skill.iter().cloned().collect()
    }

    /// Tasks that are held since before `before`, by the clock of what has passed, in no order.
    pub(crate) fn held_since(&self, before: u64) -> Vec<String> {
        let held = self.held.values().flatten();
        let is_old = |id: &&Arc<str>| {
            self.tasks
                .get(&***id)
                .is_some_and(|known| known.changed_clock_ms < before)
        };
        held.filter(is_old).map(ToString::to_string).collect()
    }

    /// Bytes of all messages and results of open tasks, on disk.
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// What is known without reading it.
    pub(crate) fn get(&self, id: &str) -> Option<&TaskIndexEntry> {
        self.tasks.get(id)
    }

    /// All tasks with what is known without reading them, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &TaskIndexEntry)> {
        self.tasks.iter().map(|(id, known)| (&**id, known))
    }

    /// Those that have not ended, with what is known without reading them; the oldest change first.
    pub(crate) fn unended(&self) -> impl Iterator<Item = (&str, &TaskIndexEntry)> {
        let known = |(_, id): &'_ ByTime| self.tasks.get_key_value(&**id);
        self.unended
            .iter()
            .filter_map(known)
            .map(|(id, known)| (&**id, known))
    }

    /// When tasks, of this group or all, changed last, and their ids; newest first, beginning before `before`.
    pub(crate) fn newest(
        &self,
        group: Option<&GroupKey>,
        before: Option<&(u64, String)>,
    ) -> impl Iterator<Item = (u64, &str)> {
        let sets = match group {
            Some(group) => [self.groups.get(group), None],
            None => [Some(&self.unended), Some(&self.ended)],
        };
        let newest = sets.map(|set| {
            let range = set.map(|set| match before {
                Some((at, id)) => set.range(..(*at, Arc::from(id.as_str()))),
                None => set.range(..),
            });
            range.into_iter().flat_map(Iterator::rev)
        });
        let [unended, ended] = newest;
        merged(unended, ended).map(|(at, id)| (*at, &**id))
    }

    /// Open tasks whose deadline has passed.
    pub(crate) fn overdue(&self, now: u64) -> Vec<String> {
        let passed = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        passed.map(|(_, id)| id.to_string()).collect()
    }

    /// Forgets the deadline of a task that cannot be read and hence not be ended.
    pub(super) fn drop_deadline(&mut self, id: &str) {
        if let Some(known) = self.tasks.get(id).cloned() {
            self.set(
                id,
                TaskIndexEntry {
                    deadline: None,
                    ..known
                },
            );
        }
    }

    /// True when some task has a deadline.
    pub(crate) fn has_deadlines(&self) -> bool {
        !self.deadlines.is_empty()
    }

    /// Number of tasks in each status, by its number on the wire.
    pub(crate) fn by_status(&self) -> &[usize; STATUSES] {
        &self.by_status
    }

    /// The oldest terminal task, if it ended before `before`, by the clock of what has passed, or more than
    /// `most` tasks are there.
    pub(super) fn collectable(&self, before: u64, most: usize, most_bytes: u64) -> Option<String> {
        let over = self.ended.len() > most || self.total_bytes > most_bytes;
        let (at, id) = self.collectable.first()?;
        (over || *at < before).then(|| id.to_string())
    }

    /// The status that was known before.
    pub(super) fn set(&mut self, id: &str, new: TaskIndexEntry) -> Option<Status> {
        let (kept, before) = self.unlink(id).unzip();
        let id = kept.unwrap_or_else(|| Arc::from(id));
        if let Some(group) = new.group {
            let of_group = self.groups.entry(group).or_default();
            of_group.insert((new.updated_at, Arc::clone(&id)));
        }
        self.total_bytes += new.bytes;
        if let Some(count) = self.by_status.get_mut(new.status.to_wire() as usize) {
            *count += 1;
        }
        if new.status.is_terminal() {
            self.ended.insert((new.updated_at, Arc::clone(&id)));
            self.collectable.insert((new.changed_clock_ms, Arc::clone(&id)));
        } else {
            self.unended.insert((new.updated_at, Arc::clone(&id)));
            self.open += 1;
            self.open_bytes += new.bytes;
            let (tasks, bytes) = self.parties.entry(new.party()).or_default();
            *tasks += 1;
            *bytes += new.bytes;
            if let Some(peer) = new.peer.filter(|_| new.is_assignee && new.held) {
                self.held.entry(peer).or_default().insert(Arc::clone(&id));
            }
            if new.awaits_skill {
                self.awaiting_skill.insert(Arc::clone(&id));
            }
            if let Some(deadline) = new.deadline {
                self.deadlines.insert((deadline, Arc::clone(&id)));
            }
        }
        self.tasks.insert(id, new);
        before
    }

    /// Takes a task out of the index; its id, to be used again, and its status. None: it is not there.
    pub(super) fn unlink(&mut self, id: &str) -> Option<(Arc<str>, Status)> {
        let (id, old) = self.tasks.remove_entry(id)?;
        let mut by_time = (old.updated_at, id);
        if let Some(group) = old.group
            && let Some(of_group) = self.groups.get_mut(&group)
        {
            of_group.remove(&by_time);
            if of_group.is_empty() {
                self.groups.remove(&group);
            }
        }
        self.total_bytes -= old.bytes;
        if let Some(count) = self.by_status.get_mut(old.status.to_wire() as usize) {
            *count -= 1;
        }
        if old.status.is_terminal() {
            self.ended.remove(&by_time);
            by_time.0 = old.changed_clock_ms;
            self.collectable.remove(&by_time);
        } else {
            self.unended.remove(&by_time);
            self.open -= 1;
            self.open_bytes -= old.bytes;
            let party = old.party();
            if let Some((tasks, bytes)) = self.parties.get_mut(&party) {
                *tasks -= 1;
                *bytes -= old.bytes;
                if *tasks == 0 {
                    self.parties.remove(&party);
                }
            }
            if let Some(peer) = old.peer.filter(|_| old.is_assignee && old.held)
                && let Some(held) = self.held.get_mut(&peer)
            {
                held.remove(&by_time.1);
                if held.is_empty() {
                    self.held.remove(&peer);
                }
            }
            if old.awaits_skill {
                self.awaiting_skill.remove(&by_time.1);
            }
            if let Some(deadline) = old.deadline {
                by_time.0 = deadline;
                self.deadlines.remove(&by_time);
            }
        }
        Some((by_time.1, old.status))
    }
}

impl TaskIndexEntry {
    /// What a task's state in the store says. `number`: its place there. `is_spread`: it is more than one record.
    pub(super) fn from_state(state: &StateRecord, status: Status, number: u64, is_spread: bool) -> Self {
        Self {
            number,
            is_spread,
            status,
            updated_at: state.updated_at,
            changed_clock_ms: if state.changed_clock_ms == 0 {
                state.updated_at
            } else {
                state.changed_clock_ms
            },
            bytes: state.bytes,
            is_assignee: state.is_assignee,
            claimed: state.claimed,
            agent_ends: state.agent_ends,
            agent: state.agent().filter(|_| state.is_assignee),
            open_streams: state.open_streams,
            deadline: state.deadline,
            peer: state.peer(),
            held: state.held,
            awaits_skill: state.awaits_skill,
            returnable: state.returnable,
            awaits_assignee: state.awaits_assignee(),
            routed: state.is_routed(),
            external: state.has_external_work(),
            sealed: state.sealed_mark(),
            group: state.group(),
            context: state.context,
        }
    }
}

/// Two runs from the newest to the oldest, as one.
fn merged<'a>(
    left: impl Iterator<Item = &'a ByTime>,
    right: impl Iterator<Item = &'a ByTime>,
) -> impl Iterator<Item = &'a ByTime> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(one), Some(other)) if other > one => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}
