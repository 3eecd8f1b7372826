//! Outbox and receiver over a model of a bad network in simulated time: streams break and leave a
//! part of what was on them on the road, acknowledgements come late, in any order or never, and
//! both sides crash back to what was durable. Whatever was pushed is applied exactly once and in
//! order, unless it expired.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};

use super::{DELAYS, Duration, EnvelopeKind, Outbox, OutboxEntry, WINDOW, WINDOW_BYTES};
use crate::delivery::{dedup::AppliedSequences, outbox::OutboxAction};

#[derive(Clone, Debug)]
enum Event {
    Push {
        kind: EnvelopeKind,
        bytes: usize,
        lives: Option<u64>,
    },
    Time(u64),
    Connect,
    Disconnect {
        survive: usize,
    },
    Opened,
    Break {
        survive: usize,
    },
    Arrive {
        road: usize,
    },
    Commit,
    Acknowledge {
        which: usize,
    },
    LoseAck {
        which: usize,
    },
    StrangeAck,
    CrashSender,
    CrashReceiver,
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![3 => Just(EnvelopeKind::Durable), 2 => Just(EnvelopeKind::SendTask), 1 => Just(EnvelopeKind::Ephemeral)];
    let bytes = prop_oneof![6 => 1_usize..5_000, 1 => 1_000_000..6_000_000_usize];
    let lives = prop_oneof![5 => Just(None), 1 => (1_u64..20_000).prop_map(Some)];
    prop_oneof![
        8 => (kind, bytes, lives).prop_map(|(kind, bytes, lives)| Event::Push { kind, bytes, lives }),
        6 => (1_u64..6_000).prop_map(Event::Time),
        4 => Just(Event::Connect),
        1 => (0_usize..6).prop_map(|survive| Event::Disconnect { survive }),
        5 => Just(Event::Opened),
        2 => (0_usize..6).prop_map(|survive| Event::Break { survive }),
        16 => (0_usize..8).prop_map(|road| Event::Arrive { road }),
        4 => Just(Event::Commit),
        8 => (0_usize..8).prop_map(|which| Event::Acknowledge { which }),
        2 => (0_usize..8).prop_map(|which| Event::LoseAck { which }),
        1 => Just(Event::StrangeAck),
        1 => Just(Event::CrashSender),
        1 => Just(Event::CrashReceiver),
    ]
}

#[derive(Default)]
struct ReceiverModel {
    applied: AppliedSequences,
    log: Vec<u64>,
    durable: (Vec<(u64, u64)>, usize),
    /// Acknowledged once durable.
    answers: Vec<String>,
}

impl ReceiverModel {
    fn take(&mut self, epoch: u64, entry: &OutboxEntry) {
        if !self.applied.contains(epoch, entry.sequence) {
            self.applied.insert(epoch, entry.sequence);
            self.log.push(entry.sequence);
        }
        self.answers.push(entry.id.clone());
    }

    fn commit(&mut self) -> Vec<String> {
        self.durable = (self.applied.epochs().collect(), self.log.len());
        std::mem::take(&mut self.answers)
    }

    fn crash(&mut self) {
        self.applied = AppliedSequences::restore(self.durable.0.iter().copied());
        self.log.truncate(self.durable.1);
        self.answers.clear();
    }
}

struct OutboxModel {
    now: Duration,
    outbox: Outbox,
    connected: bool,
    opening: bool,
    /// True when the last road is the open stream; the others are what broken ones left behind.
    open: bool,
    in_transit: Vec<Vec<OutboxEntry>>,
    acks: Vec<String>,
    receiver: ReceiverModel,
    /// What the sender finds on its disk; removals reach it late.
    kept: BTreeMap<u64, OutboxEntry>,
    removing: Vec<u64>,
    pushed: BTreeMap<u64, OutboxEntry>,
    expired: BTreeSet<u64>,
    in_flight: BTreeMap<u64, (usize, usize)>,
}

impl OutboxModel {
    fn new() -> Self {
        Self {
            now: Duration::ZERO,
            outbox: Outbox::new(7, DELAYS.to_vec()),
            connected: false,
            opening: false,
            open: false,
            in_transit: Vec::new(),
            acks: Vec::new(),
            receiver: ReceiverModel::default(),
            kept: BTreeMap::new(),
            removing: Vec::new(),
            pushed: BTreeMap::new(),
            expired: BTreeSet::new(),
            in_flight: BTreeMap::new(),
        }
    }

    fn unix(&self) -> u64 {
        self.now.as_millis() as u64
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Push { kind, bytes, lives } => self.push(kind, bytes, lives),
            Event::Time(ms) => self.pass(ms),
            Event::Connect => self.connected = true,
            Event::Disconnect { survive } => {
                self.connected = false;
                self.lose_stream(survive);
            }
            Event::Opened if self.connected && self.opening => {
                self.opening = false;
                self.open = true;
                self.in_transit.push(Vec::new());
                self.in_flight.clear();
                self.outbox.on_stream_open();
            }
            Event::Break { survive } => self.lose_stream(survive),
            Event::Arrive { road } => self.arrive(road),
            Event::Commit => {
                let answers = self.receiver.commit();
                self.acks.extend(answers);
                self.removing
                    .drain(..)
                    .for_each(|sequence| drop(self.kept.remove(&sequence)));
            }
            Event::Acknowledge { which } if !self.acks.is_empty() => {
                let id = self.acks.remove(which % self.acks.len());
                let entry = self.outbox.on_ack(&id);
                self.forget(entry);
            }
            Event::LoseAck { which } if !self.acks.is_empty() => {
                drop(self.acks.remove(which % self.acks.len()));
            }
            Event::Opened | Event::Acknowledge { .. } | Event::LoseAck { .. } => {}
            Event::StrangeAck => prop_assert_eq!(self.outbox.on_ack("nobody sent this"), None),
            Event::CrashSender => self.crash_sender(),
            Event::CrashReceiver => {
                self.in_transit.clear();
                self.open = false;
                self.lose_stream(0);
                self.acks.clear();
                self.receiver.crash();
            }
        }
        self.poll()
    }

    fn push(&mut self, kind: EnvelopeKind, bytes: usize, lives: Option<u64>) {
        let sequence = self.outbox.next_sequence();
        let expires_at = lives.map(|lives| self.unix() + lives);
        let entry = OutboxEntry {
            expires_at,
            ..super::entry(sequence, kind, bytes)
        };
        self.pushed.insert(sequence, entry.clone());
        if kind != EnvelopeKind::Ephemeral {
            self.kept.insert(sequence, entry.clone());
        }
        self.outbox.push(entry);
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let unix = self.unix();
        for (entry, _) in self.outbox.expire(self.now, unix, Duration::ZERO) {
            assert!(entry.expires_at.is_some_and(|at| at <= unix));
            self.expired.insert(entry.sequence);
            self.forget(Some(entry));
        }
    }

    fn lose_stream(&mut self, survive: usize) {
        if self.open
            && let Some(road) = self.in_transit.last_mut()
        {
            road.truncate(survive);
        }
        self.in_transit.retain(|road| !road.is_empty());
        (self.open, self.opening) = (false, false);
        self.in_flight.clear();
        for entry in self.outbox.on_stream_closed() {
            assert_eq!(entry.kind, EnvelopeKind::Ephemeral);
        }
    }

    fn arrive(&mut self, road: usize) {
        let roads = self.in_transit.len().max(1);
        let Some(road) = self
            .in_transit
            .get_mut(road % roads)
            .filter(|road| !road.is_empty())
        else {
            return;
        };
        let entry = road.remove(0);
        self.receiver.take(self.outbox.epoch(), &entry);
    }

    fn forget(&mut self, entry: Option<OutboxEntry>) {
        if let Some(entry) = entry {
            self.in_flight.remove(&entry.sequence);
            self.removing.push(entry.sequence);
        }
    }

    fn crash_sender(&mut self) {
        self.lose_stream(0);
        self.removing.clear();
        self.acks.clear();
        let kept: Vec<OutboxEntry> = self.kept.values().cloned().collect();
        self.outbox = Outbox::restore(
            self.outbox.epoch(),
            self.outbox.next_sequence(),
            kept,
            DELAYS.to_vec(),
        );
    }

    fn poll(&mut self) -> Result<(), TestCaseError> {
        for action in self.outbox.poll(self.now, self.connected) {
            match action {
                OutboxAction::OpenStream => {
                    prop_assert!(!self.open && !self.opening, "a second stream");
                    self.opening = true;
                }
                OutboxAction::Send(sequence) => {
                    prop_assert!(self.open, "sent without a stream");
                    let entry = self.pushed[&sequence].clone();
                    let (times, _) = self.in_flight.get(&sequence).copied().unwrap_or_default();
                    // Whose retries are used up holds no place in the window.
                    let counts = times < DELAYS.len() || entry.kind == EnvelopeKind::Ephemeral;
                    self.in_flight
                        .insert(sequence, (times + 1, if counts { entry.bytes } else { 0 }));
                    self.in_transit.last_mut().unwrap().push(entry);
                }
                OutboxAction::GiveUp(entry) => {
                    prop_assert_eq!(entry.kind, EnvelopeKind::Ephemeral);
                    self.in_flight.remove(&entry.sequence);
                }
            }
        }
        let waiting: Vec<usize> = self
            .in_flight
            .values()
            .map(|(_, bytes)| *bytes)
            .filter(|bytes| *bytes > 0)
            .collect();
        prop_assert!(waiting.len() <= WINDOW);
        let bytes: usize = waiting.iter().sum();
        prop_assert!(
            bytes <= WINDOW_BYTES || waiting.len() == 1,
            "{bytes} bytes in flight"
        );
        Ok(())
    }

    /// The network is well again; simulated time passes until nothing waits.
    fn heal(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..20_000 {
            if self.outbox.is_empty() {
                return Ok(());
            }
            let roads: usize = self.in_transit.iter().map(Vec::len).sum();
            self.happen(&Event::Connect)?;
            self.happen(&Event::Opened)?;
            for at in 0..roads {
                self.happen(&Event::Arrive { road: at })?;
            }
            self.happen(&Event::Commit)?;
            while !self.acks.is_empty() {
                self.happen(&Event::Acknowledge { which: 0 })?;
            }
            self.happen(&Event::Time(100))?;
        }
        Err(TestCaseError::fail(format!(
            "{} entries never left",
            self.outbox.len()
        )))
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let log = &self.receiver.log;
        prop_assert!(
            log.is_sorted_by(|a, b| a < b),
            "applied out of order or twice: {log:?}"
        );
        let applied: BTreeSet<u64> = log.iter().copied().collect();
        for (sequence, entry) in &self.pushed {
            let owed = entry.kind != EnvelopeKind::Ephemeral && !self.expired.contains(sequence);
            prop_assert!(!owed || applied.contains(sequence), "{entry:?} was lost");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn all_that_was_pushed_is_applied_once_and_in_order(events in vec(event(), 0..250)) {
        let mut world = OutboxModel::new();
        for event in &events {
            world.happen(event)?;
        }
        world.heal()?;
        world.check()?;
    }
}
