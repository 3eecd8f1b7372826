//! The network: connections that come and go, streams that deliver in order until they break, notices and
//! reports that come late. What was on a broken stream may still arrive, later than what went on its
//! successor.

use std::collections::VecDeque;

use bytes::Bytes;

use super::dice::Dice;

/// Frames that a courier takes before it gives its stream up.
const COURIER_FRAMES: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Everything that a queue sends, and acknowledgements.
    Envelopes,
    /// One artifact.
    Artifact,
    /// One envelope of a deployed peer.
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Dead,
}

pub(super) struct Pipe {
    pub(super) from: usize,
    pub(super) to: usize,
    number: u64,
    pub(super) carries: Carries,
    phase: Phase,
    frames: VecDeque<Bytes>,
}

/// What a node learns of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Connected,
    Renewed,
    Disconnected,
}

/// What became of a stream that a node opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) to: usize,
    pub(super) number: u64,
    pub(super) carries: Carries,
    pub(super) opened: bool,
}

#[derive(Default)]
struct Desk {
    notices: VecDeque<(usize, Notice)>,
    reports: VecDeque<Report>,
}

pub(super) struct Network {
    pipes: Vec<Pipe>,
    links: Vec<(usize, usize)>,
    desks: Vec<Desk>,
}

impl Network {
    pub(super) fn new(hosts: usize) -> Self {
        Self {
            pipes: Vec::new(),
            links: Vec::new(),
            desks: (0..hosts).map(|_| Desk::default()).collect(),
        }
    }

    pub(super) fn is_linked(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn link(&mut self, a: usize, b: usize, dice: &mut Dice) {
        if a == b || self.is_linked(a, b) {
            return;
        }
        self.links.push((a.min(b), a.max(b)));
        for (at, peer) in [(a, b), (b, a)] {
            let notices = &mut self.desks[at].notices;
            let old = notices.iter().rposition(|(other, _)| *other == peer);
            match old {
                // The new connection is there before the old one is known to be gone.
                Some(old) if notices[old].1 == Notice::Disconnected && dice.chance(50) => {
                    notices[old].1 = Notice::Renewed;
                }
                _ => notices.push_back((peer, Notice::Connected)),
            }
        }
    }

    /// A second connection to a peer is there: one of the two hears of it.
    pub(super) fn renew(&mut self, at: usize, peer: usize) {
        if self.is_linked(at, peer) {
            self.desks[at].notices.push_back((peer, Notice::Renewed));
        }
    }

    pub(super) fn unlink(&mut self, a: usize, b: usize, dice: &mut Dice) {
        if !self.is_linked(a, b) {
            return;
        }
        self.links.retain(|link| *link != (a.min(b), a.max(b)));
        for which in 0..self.pipes.len() {
            let pipe = &self.pipes[which];
            if (pipe.from, pipe.to) == (a, b) || (pipe.from, pipe.to) == (b, a) {
                self.break_pipe(which, dice);
            }
        }
        for (at, peer) in [(a, b), (b, a)] {
            self.desks[at].notices.push_back((peer, Notice::Disconnected));
        }
    }

    /// A host is gone: what was on the road to it is lost, what it had sent may still arrive.
    pub(super) fn cut_off(&mut self, host: usize, dice: &mut Dice) {
        for peer in 0..self.desks.len() {
            self.unlink(host, peer, dice);
        }
        self.pipes.retain(|pipe| pipe.to != host);
        self.desks[host] = Desk::default();
    }

    pub(super) fn open(&mut self, from: usize, to: usize, number: u64, carries: Carries) {
        if !self.is_linked(from, to) {
            return self.report(from, to, number, carries, false);
        }
        self.pipes
            .retain(|pipe| pipe.phase != Phase::Dead || !pipe.frames.is_empty());
        self.pipes.push(Pipe {
            from,
            to,
            number,
            carries,
            phase: Phase::Opening,
            frames: VecDeque::new(),
        });
    }

    /// One envelope on a stream of its own.
    pub(super) fn send_one(&mut self, from: usize, to: usize, frame: Bytes) {
        if self.is_linked(from, to) {
            self.pipes.push(Pipe {
                from,
                to,
                number: 0,
                carries: Carries::One,
                phase: Phase::Dead,
                frames: VecDeque::from([frame]),
            });
        }
    }

    fn report(&mut self, from: usize, to: usize, number: u64, carries: Carries, opened: bool) {
        self.desks[from].reports.push_back(Report {
            to,
            number,
            carries,
            opened,
        });
    }

    /// Writes on a stream. False: it is gone, or takes no more.
    pub(super) fn write(
        &mut self,
        from: usize,
        to: usize,
        number: u64,
        carries: Carries,
        frame: Bytes,
    ) -> bool {
        let pipe = self.pipes.iter_mut().rfind(|pipe| {
            (pipe.from, pipe.to, pipe.carries) == (from, to, carries)
                && pipe.number == number
                && pipe.phase != Phase::Dead
        });
        match pipe {
            Some(pipe) if pipe.frames.len() < COURIER_FRAMES => {
                pipe.frames.push_back(frame);
                true
            }
            _ => false,
        }
    }

    /// No more is written on this stream; what is on it still arrives.
    pub(super) fn close(&mut self, from: usize, to: usize, number: u64, carries: Carries) {
        let pipe = self.pipes.iter_mut().find(|pipe| {
            (pipe.from, pipe.to, pipe.number, pipe.carries) == (from, to, number, carries)
                && pipe.phase != Phase::Dead
        });
        if let Some(pipe) = pipe {
            if pipe.phase == Phase::Opening {
                pipe.frames.clear();
            }
            pipe.phase = Phase::Dead;
            self.report(from, to, number, carries, false);
        }
    }

    /// Lets an opening stream open, or fail.
    pub(super) fn finish_opening(&mut self, fails: bool) -> bool {
        let Some(pipe) = self.pipes.iter_mut().find(|pipe| pipe.phase == Phase::Opening) else {
            return false;
        };
        pipe.phase = if fails { Phase::Dead } else { Phase::Open };
        if fails {
            pipe.frames.clear();
        }
        let (from, to, number, carries) = (pipe.from, pipe.to, pipe.number, pipe.carries);
        self.report(from, to, number, carries, !fails);
        true
    }

    pub(super) fn break_one(&mut self, dice: &mut Dice) {
        let which = dice.below(self.pipes.len());
        if which < self.pipes.len() {
            self.break_pipe(which, dice);
        }
    }

    fn break_pipe(&mut self, which: usize, dice: &mut Dice) {
        let left = dice.below(6);
        let pipe = &mut self.pipes[which];
        if pipe.carries == Carries::One {
            if left < 3 {
                pipe.frames.clear();
            }
            return;
        }
        if pipe.phase == Phase::Dead {
            return;
        }
        pipe.frames
            .truncate(if pipe.phase == Phase::Open { left } else { 0 });
        pipe.phase = Phase::Dead;
        let (from, to, number, carries) = (pipe.from, pipe.to, pipe.number, pipe.carries);
        self.report(from, to, number, carries, false);
    }

    /// The next frame of one of the streams, for a host that takes it: from, to, frame.
    pub(super) fn arrive(
        &mut self,
        dice: &mut Dice,
        takes: impl Fn(usize) -> bool,
    ) -> Option<(usize, usize, Bytes)> {
        let count = self.pipes.len();
        let first = dice.below(count);
        for step in 0..count {
            let pipe = &mut self.pipes[(first + step) % count];
            if pipe.phase != Phase::Opening
                && !pipe.frames.is_empty()
                && takes(pipe.to)
                && let Some(frame) = pipe.frames.pop_front()
            {
                return Some((pipe.from, pipe.to, frame));
            }
        }
        None
    }

    pub(super) fn next_notice(&mut self, at: usize) -> Option<(usize, Notice)> {
        self.desks[at].notices.pop_front()
    }

    pub(super) fn next_report(&mut self, at: usize) -> Option<Report> {
        self.desks[at].reports.pop_front()
    }
}
