//! The network: connections that come and go, streams that deliver in order until they break, notices and
//! reports that come late. What was on a broken stream may still arrive, later than what went on its
//! successor.

use std::collections::VecDeque;

use bytes::Bytes;

use super::rng::SimRng;

/// Frames that a courier takes before it gives its stream up.
const COURIER_FRAMES: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamUse {
    /// Everything that a queue sends, and acknowledgements.
    Envelopes,
    /// One artifact.
    Artifact,
    /// One envelope of a deployed peer.
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipePhase {
    Opening,
    Open,
    Dead,
}

pub(super) struct Pipe {
    pub(super) from: usize,
    pub(super) to: usize,
    number: u64,
    pub(super) carries: StreamUse,
    phase: PipePhase,
    frames: VecDeque<Bytes>,
}

/// What a node learns of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkNotice {
    Connected,
    Renewed,
    Disconnected,
}

/// What became of a stream that a node opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamReport {
    pub(super) to: usize,
    pub(super) number: u64,
    pub(super) carries: StreamUse,
    pub(super) opened: bool,
}

#[derive(Default)]
struct HostInbox {
    notices: VecDeque<(usize, LinkNotice)>,
    reports: VecDeque<StreamReport>,
}

pub(super) struct SimNetwork {
    pipes: Vec<Pipe>,
    links: Vec<(usize, usize)>,
    inboxes: Vec<HostInbox>,
}

impl SimNetwork {
    pub(super) fn new(hosts: usize) -> Self {
        Self {
            pipes: Vec::new(),
            links: Vec::new(),
            inboxes: (0..hosts).map(|_| HostInbox::default()).collect(),
        }
    }

    pub(super) fn is_linked(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn link(&mut self, a: usize, b: usize, dice: &mut SimRng) {
        if a == b || self.is_linked(a, b) {
            return;
        }
        self.links.push((a.min(b), a.max(b)));
        for (at, peer) in [(a, b), (b, a)] {
            let notices = &mut self.inboxes[at].notices;
            let old = notices.iter().rposition(|(other, _)| *other == peer);
            match old {
                // The new connection is there before the old one is known to be gone.
                Some(old) if notices[old].1 == LinkNotice::Disconnected && dice.chance(50) => {
                    notices[old].1 = LinkNotice::Renewed;
                }
                _ => notices.push_back((peer, LinkNotice::Connected)),
            }
        }
    }

    /// A second connection to a peer is there: one of the two hears of it.
    pub(super) fn renew(&mut self, at: usize, peer: usize) {
        if self.is_linked(at, peer) {
            self.inboxes[at].notices.push_back((peer, LinkNotice::Renewed));
        }
    }

    pub(super) fn unlink(&mut self, a: usize, b: usize, dice: &mut SimRng) {
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
            self.inboxes[at]
                .notices
                .push_back((peer, LinkNotice::Disconnected));
        }
    }

    /// A host is gone: what was on the road to it is lost, what it had sent may still arrive.
    pub(super) fn cut_off(&mut self, host: usize, dice: &mut SimRng) {
        for peer in 0..self.inboxes.len() {
            self.unlink(host, peer, dice);
        }
        self.pipes.retain(|pipe| pipe.to != host);
        self.inboxes[host] = HostInbox::default();
    }

    pub(super) fn open(&mut self, from: usize, to: usize, number: u64, carries: StreamUse) {
        if !self.is_linked(from, to) {
            return self.report(from, to, number, carries, false);
        }
        self.pipes
            .retain(|pipe| pipe.phase != PipePhase::Dead || !pipe.frames.is_empty());
        self.pipes.push(Pipe {
            from,
            to,
            number,
            carries,
            phase: PipePhase::Opening,
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
                carries: StreamUse::One,
                phase: PipePhase::Dead,
                frames: VecDeque::from([frame]),
            });
        }
    }

    fn report(&mut self, from: usize, to: usize, number: u64, carries: StreamUse, opened: bool) {
        self.inboxes[from].reports.push_back(StreamReport {
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
        carries: StreamUse,
        frame: Bytes,
    ) -> bool {
        let pipe = self.pipes.iter_mut().rfind(|pipe| {
            (pipe.from, pipe.to, pipe.carries) == (from, to, carries)
                && pipe.number == number
                && pipe.phase != PipePhase::Dead
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
    pub(super) fn close(&mut self, from: usize, to: usize, number: u64, carries: StreamUse) {
        let pipe = self.pipes.iter_mut().find(|pipe| {
            (pipe.from, pipe.to, pipe.number, pipe.carries) == (from, to, number, carries)
                && pipe.phase != PipePhase::Dead
        });
        if let Some(pipe) = pipe {
            if pipe.phase == PipePhase::Opening {
                pipe.frames.clear();
            }
            pipe.phase = PipePhase::Dead;
            self.report(from, to, number, carries, false);
        }
    }

    /// Lets an opening stream open, or fail.
    pub(super) fn finish_opening(&mut self, fails: bool) -> bool {
        let Some(pipe) = self
            .pipes
            .iter_mut()
            .find(|pipe| pipe.phase == PipePhase::Opening)
        else {
            return false;
        };
        pipe.phase = if fails { PipePhase::Dead } else { PipePhase::Open };
        if fails {
            pipe.frames.clear();
        }
        let (from, to, number, carries) = (pipe.from, pipe.to, pipe.number, pipe.carries);
        self.report(from, to, number, carries, !fails);
        true
    }

    pub(super) fn break_one(&mut self, dice: &mut SimRng) {
        let which = dice.below(self.pipes.len());
        if which < self.pipes.len() {
            self.break_pipe(which, dice);
        }
    }

    fn break_pipe(&mut self, which: usize, dice: &mut SimRng) {
        let left = dice.below(6);
        let pipe = &mut self.pipes[which];
        if pipe.carries == StreamUse::One {
            if left < 3 {
                pipe.frames.clear();
            }
            return;
        }
        if pipe.phase == PipePhase::Dead {
            return;
        }
        pipe.frames
            .truncate(if pipe.phase == PipePhase::Open { left } else { 0 });
        pipe.phase = PipePhase::Dead;
        let (from, to, number, carries) = (pipe.from, pipe.to, pipe.number, pipe.carries);
        self.report(from, to, number, carries, false);
    }

    /// The next frame of one of the streams, for a host that takes it: from, to, frame.
    pub(super) fn arrive(
        &mut self,
        dice: &mut SimRng,
        takes: impl Fn(usize) -> bool,
    ) -> Option<(usize, usize, Bytes)> {
        let count = self.pipes.len();
        let first = dice.below(count);
        for step in 0..count {
            let pipe = &mut self.pipes[(first + step) % count];
            if pipe.phase != PipePhase::Opening
                && !pipe.frames.is_empty()
                && takes(pipe.to)
                && let Some(frame) = pipe.frames.pop_front()
            {
                return Some((pipe.from, pipe.to, frame));
            }
        }
        None
    }

    pub(super) fn next_notice(&mut self, at: usize) -> Option<(usize, LinkNotice)> {
        self.inboxes[at].notices.pop_front()
    }

    pub(super) fn next_report(&mut self, at: usize) -> Option<StreamReport> {
        self.inboxes[at].reports.pop_front()
    }
}
