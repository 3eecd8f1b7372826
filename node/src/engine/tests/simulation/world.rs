//! The network and the machines: pipes that deliver in order until they break, a connection that
//! comes and goes, notices and reports that come late, a disk that is written now and then.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::people::{People, Reply};
use crate::engine::{
    tests::harness::{Node, Released, limits},
    turn::{Effect, Now},
};

/// Steps that healing may take; each is [`HEALING_STEP`] of simulated time.
const HEALING_STEPS: usize = 4000;
const HEALING_STEP: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// Broken; what is left on it may still arrive.
    Dead,
}

struct Pipe {
    from: usize,
    stream: u64,
    state: State,
    frames: VecDeque<Bytes>,
}

enum Report {
    Opened(u64),
    Closed(u64),
}

#[derive(Default)]
struct Desk {
    /// True: connected; false: disconnected. In the order in which it happened.
    notices: VecDeque<bool>,
    reports: VecDeque<Report>,
}

pub(super) struct World {
    pub(super) random: StdRng,
    pub(super) now: Now,
    pub(super) nodes: [Node<Reply>; 2],
    pub(super) people: [People; 2],
    desks: [Desk; 2],
    pipes: Vec<Pipe>,
    linked: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now = Now {
            mono: Duration::ZERO,
            unix: 1_767_225_600_000,
        };
        let node = |number: u8| {
            Node::new(
                number,
                &limits(),
                now,
                seed.wrapping_mul(31).wrapping_add(number.into()),
            )
        };
        let mut random = StdRng::seed_from_u64(seed);
        let people = [0, 1].map(|_| People::new(&mut random));
        let nodes = [node(1), node(2)];
        Self {
            random,
            now,
            nodes,
            people,
            desks: Default::default(),
            pipes: Vec::new(),
            linked: false,
        }
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound.max(1))
    }

    /// One thing happens, chosen by the seed.
    pub(super) fn happen(&mut self) {
        let at = self.below(2);
        match self.below(1000) {
            0..250 => self.deliver_one(),
            250..330 => self.report(at),
            330..400 => self.notice(at),
            400..560 => self.write(at),
            560..660 => self.client_acts(at),
            660..780 => self.agent_acts(at),
            780..880 => self.pass_some_time(),
            880..930 => self.open_one(),
            930..940 => self.break_one(),
            940..948 => self.disconnect(),
            948..980 => self.connect(),
            980..990 => self.agent_comes_or_goes(at),
            _ => self.crash(at),
        }
    }

    /// Ends a node's turn.
    pub(super) fn turn(&mut self, at: usize, reply: Option<Reply>) {
        self.nodes[at].finish_turn(self.now, reply);
    }

    fn pass_some_time(&mut self) {
        let ms = if self.chance(10) {
            500 + self.below(4000)
        } else {
            self.below(60)
        };
        self.pass(Duration::from_millis(ms as u64));
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.unix += time.as_millis() as u64;
        for at in 0..2 {
            self.nodes[at].core.tick(self.now).unwrap();
            self.turn(at, None);
        }
    }

    /// The writer of a node writes a few batches and passes the barrier.
    fn write(&mut self, at: usize) {
        let most = 1 + self.below(self.nodes[at].waiting_batches());
        self.commit(at, most);
    }

    fn commit(&mut self, at: usize, most: usize) {
        for Released { effects, reply } in self.nodes[at].commit(most).unwrap() {
            if let Some(reply) = reply {
                self.hear(at, reply);
            }
            for effect in effects {
                self.let_out(at, effect);
            }
        }
    }

    fn let_out(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::OpenStream { stream, .. } if self.linked => {
                self.pipes.push(Pipe {
                    from: at,
                    stream,
                    state: State::Opening,
                    frames: VecDeque::new(),
                });
            }
            Effect::OpenStream { stream, .. } => self.desks[at].reports.push_back(Report::Closed(stream)),
            Effect::Send { stream, frame, .. } => self.put(at, Some(stream), frame),
            Effect::Ack { frame, .. } => self.put(at, None, frame),
            Effect::Changed(change) => self.people[at].see(&change),
            Effect::Incoming { listener, task, .. } => self.receive(at, listener, &task),
            _ => {}
        }
    }

    /// Onto that stream, or onto the newest one.
    fn put(&mut self, at: usize, stream: Option<u64>, frame: Bytes) {
        let Some(newest) = self.pipes.iter_mut().rfind(|pipe| pipe.from == at) else {
            return;
        };
        if newest.state != State::Dead && stream.is_none_or(|stream| stream == newest.stream) {
            newest.frames.push_back(frame);
        }
    }

    fn deliver_one(&mut self) {
        let which = self.below(self.pipes.len());
        self.deliver(which);
    }

    fn deliver(&mut self, which: usize) {
        let Some(pipe) = self
            .pipes
            .get_mut(which)
            .filter(|pipe| pipe.state != State::Opening)
        else {
            return;
        };
        let (from, frame) = (pipe.from, pipe.frames.pop_front());
        if let Some(frame) = frame {
            let (to, sender) = (1 - from, self.nodes[from].me);
            self.nodes[to].core.on_frame(self.now, sender, &frame).unwrap();
            self.turn(to, None);
        }
    }

    fn open_one(&mut self) {
        let fails = self.chance(10);
        let Some(pipe) = self.pipes.iter_mut().find(|pipe| pipe.state == State::Opening) else {
            return;
        };
        if fails {
            pipe.frames.clear();
        }
        pipe.state = if fails { State::Dead } else { State::Open };
        let report = if fails {
            Report::Closed(pipe.stream)
        } else {
            Report::Opened(pipe.stream)
        };
        self.desks[pipe.from].reports.push_back(report);
    }

    fn break_one(&mut self) {
        let which = self.below(self.pipes.len());
        self.break_pipe(which);
    }

    /// A part of what is on it may still arrive, later than what goes on the next one.
    fn break_pipe(&mut self, which: usize) {
        let left = self.random.random_range(0..6);
        let Some(pipe) = self.pipes.get_mut(which).filter(|pipe| pipe.state != State::Dead) else {
            return;
        };
        pipe.frames
            .truncate(if pipe.state == State::Open { left } else { 0 });
        pipe.state = State::Dead;
        self.desks[pipe.from]
            .reports
            .push_back(Report::Closed(pipe.stream));
    }

    fn connect(&mut self) {
        if !self.linked {
            self.linked = true;
            self.pipes.retain(|pipe| !pipe.frames.is_empty());
            self.desks
                .iter_mut()
                .for_each(|desk| desk.notices.push_back(true));
        }
    }

    fn disconnect(&mut self) {
        if self.linked {
            self.linked = false;
            for which in 0..self.pipes.len() {
                self.break_pipe(which);
            }
            self.desks
                .iter_mut()
                .for_each(|desk| desk.notices.push_back(false));
        }
    }

    fn notice(&mut self, at: usize) {
        let other = self.nodes[1 - at].me;
        match self.desks[at].notices.pop_front() {
            Some(true) => self.nodes[at].core.on_connected(self.now, other).unwrap(),
            Some(false) => self.nodes[at].core.on_disconnected(other),
            None => return,
        }
        self.turn(at, None);
    }

    fn report(&mut self, at: usize) {
        let other = self.nodes[1 - at].me;
        match self.desks[at].reports.pop_front() {
            Some(Report::Opened(stream)) => self.nodes[at].core.on_stream_opened(other, stream),
            Some(Report::Closed(stream)) => self.nodes[at].core.on_stream_closed(other, stream),
            None => return,
        }
        self.turn(at, None);
    }

    /// The machine goes down between a turn and its barrier, or right behind a barrier that nobody
    /// heard of.
    fn crash(&mut self, at: usize) {
        self.disconnect();
        self.desks[at] = Desk::default();
        // What was on the road to it is gone; what it had sent may still arrive.
        self.pipes.retain(|pipe| pipe.from == at);
        let (written, barrier) = (self.below(self.nodes[at].waiting_batches() + 1), self.chance(50));
        self.nodes[at].crash(self.now, written, barrier);
        self.people[at].lose_their_node();
        self.turn(at, None);
    }

    /// Nothing breaks any more; time passes until everything has ended.
    pub(super) fn heal(&mut self) {
        for _ in 0..HEALING_STEPS {
            if self.is_done() {
                return;
            }
            self.connect();
            for at in 0..2 {
                while !self.desks[at].notices.is_empty() {
                    self.notice(at);
                }
                while !self.desks[at].reports.is_empty() {
                    self.report(at);
                }
                self.agent_comes(at);
                self.client_acts(at);
                self.agent_acts(at);
            }
            for pipe in self.pipes.iter_mut().filter(|pipe| pipe.state == State::Opening) {
                pipe.state = State::Open;
                self.desks[pipe.from]
                    .reports
                    .push_back(Report::Opened(pipe.stream));
            }
            for which in 0..self.pipes.len() {
                while self.pipes.get(which).is_some_and(|pipe| !pipe.frames.is_empty()) {
                    self.deliver(which);
                }
            }
            for at in 0..2 {
                self.commit(at, usize::MAX);
            }
            self.pass(HEALING_STEP);
        }
        panic!("it never came to rest: {}", self.what_is_open());
    }

    fn is_done(&self) -> bool {
        let nodes = self.nodes.iter();
        self.people.iter().all(People::have_sent_all)
            && nodes
                .clone()
                .all(|node| node.core.open_tasks() == 0 && node.core.queued() == 0)
            && nodes.clone().all(|node| node.waiting_batches() == 0)
    }
}
