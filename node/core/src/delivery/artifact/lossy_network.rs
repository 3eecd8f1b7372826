//! Both ends joined by a hostile network: streams cut with everything in flight, ACKs lost, the receiver
//! killed with only its written chunks left, readers that come, stall and go. Whatever the order of
//! events, the receiver's file ends with the exact bytes, once and in order, and the window holds.

use std::collections::VecDeque;

use agentanycast_proto::v1::{AckPayload, StreamEndReason, StreamStart};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum StreamStep {
    Push(u8),
    Send(u8),
    Deliver(u8),
    Write(u8),
    Ack,
    Flush,
    DeliverAcks(u8),
    LoseAcks,
    Cut { acks_too: bool },
    Open,
    CrashReceiver,
    Readers(Option<u16>),
}

fn step() -> impl Strategy<Value = StreamStep> {
    prop_oneof![
        4 => (1..70u8).prop_map(StreamStep::Push),
        4 => (1..70u8).prop_map(StreamStep::Send),
        4 => (1..70u8).prop_map(StreamStep::Deliver),
        4 => (1..70u8).prop_map(StreamStep::Write),
        4 => Just(StreamStep::Ack),
        1 => Just(StreamStep::Flush),
        4 => (1..9u8).prop_map(StreamStep::DeliverAcks),
        1 => Just(StreamStep::LoseAcks),
        1 => any::<bool>().prop_map(|acks_too| StreamStep::Cut { acks_too }),
        3 => Just(StreamStep::Open),
        1 => Just(StreamStep::CrashReceiver),
        1 => proptest::option::of(any::<u16>()).prop_map(StreamStep::Readers),
    ]
}

struct StreamModel {
    chunks: Vec<Bytes>,
    outgoing: SendWindow,
    incoming: ReceiveWindow,
    open: bool,
    wire: VecDeque<StreamFrame>,
    acks: VecDeque<AckPayload>,
    unwritten: VecDeque<Bytes>,
    file: Vec<Bytes>,
    end_durable: bool,
    finished: bool,
    /// Chunks below it are no longer with the sender.
    acknowledged: u32,
}

impl StreamModel {
    fn new(sizes: &[usize]) -> Self {
        let chunks = sizes
            .iter()
            .enumerate()
            .map(|(n, size)| Bytes::from(vec![n as u8; *size]))
            .collect();
        Self {
            chunks,
            outgoing: SendWindow::start(StreamStart::default(), "start".into()),
            incoming: ReceiveWindow::new(u64::MAX),
            open: false,
            wire: VecDeque::new(),
            acks: VecDeque::new(),
            unwritten: VecDeque::new(),
            file: Vec::new(),
            end_durable: false,
            finished: false,
            acknowledged: 0,
        }
    }

    fn apply(&mut self, step: StreamStep) {
        match step {
            StreamStep::Push(count) => (0..count).for_each(|_| self.push()),
            StreamStep::Send(count) if self.open => {
                self.wire
                    .extend((0..count).map_while(|_| self.outgoing.next_frame()));
            }
            StreamStep::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            StreamStep::Write(count) => (0..count).for_each(|_| self.write()),
            StreamStep::Ack => {
                let ack = self.incoming.ack_due();
                self.send_ack(ack);
            }
            StreamStep::Flush => {
                let ack = self.incoming.flush();
                self.send_ack(ack);
            }
            StreamStep::DeliverAcks(count) => (0..count).for_each(|_| self.deliver_ack()),
            StreamStep::LoseAcks => self.acks.clear(),
            StreamStep::Cut { acks_too } => self.cut(acks_too),
            StreamStep::Open if !self.open => {
                self.open = true;
                self.outgoing.on_stream_opened();
            }
            StreamStep::CrashReceiver => self.crash_receiver(),
            StreamStep::Readers(at) => self.incoming.set_allowance(at.map(u64::from)),
            StreamStep::Send(_) | StreamStep::Open => {}
        }
        assert!(
            self.outgoing.next_sequence() - self.acknowledged <= WINDOW,
            "the window was exceeded"
        );
        assert!(
            self.acknowledged as usize <= self.file.len(),
            "the sender forgot what was not written"
        );
    }

    fn push(&mut self) {
        let next = self.outgoing.next_sequence() as usize;
        if next < self.chunks.len() {
            let is_last = next + 1 == self.chunks.len();
            let pushed = self
                .outgoing
                .push_chunk(format!("c{next}"), self.chunks[next].clone(), is_last);
            assert!(matches!(pushed, Ok(_) | Err(PushError::NoRoom)), "{pushed:?}");
        } else {
            let _already = self.outgoing.end("end".into(), StreamEndReason::Complete, "");
        }
    }

    fn deliver(&mut self) {
        match self.wire.pop_front() {
            None => {}
            Some(StreamFrame::Start { id }) => {
                assert!(!matches!(
                    self.incoming.on_start(&id, 1),
                    StreamVerdict::Reject(_)
                ));
            }
            Some(StreamFrame::Chunk {
                id,
                sequence,
                data,
                is_last,
            }) => match self.incoming.on_chunk(&id, sequence as i32, data.len(), is_last) {
                StreamVerdict::Accept => self.unwritten.push_back(data),
                StreamVerdict::Duplicate => {}
                StreamVerdict::Reject(reject) => panic!("an honest sender was rejected: {reject}"),
            },
            Some(StreamFrame::End { id, .. }) => {
                match self.incoming.on_end() {
                    StreamVerdict::Accept => {
                        while !self.unwritten.is_empty() {
                            self.write();
                        }
                        self.end_durable = true;
                    }
                    StreamVerdict::Duplicate => assert!(self.end_durable),
                    StreamVerdict::Reject(reject) => panic!("an honest sender was rejected: {reject}"),
                }
                self.acks.push_back(ack(&id, self.incoming.next_sequence()));
            }
        }
    }

    fn write(&mut self) {
        if let Some(data) = self.unwritten.pop_front() {
            self.file.push(data);
            self.incoming.on_written(self.file.len() as u32);
        }
    }

    fn send_ack(&mut self, due: Option<Ack>) {
        if let Some(due) = due {
            assert!(
                due.next_sequence as usize <= self.file.len(),
                "acknowledged before it was written"
            );
            self.acks.push_back(ack(&due.envelope_id, due.next_sequence));
        }
    }

    fn deliver_ack(&mut self) {
        let Some(ack) = self.acks.pop_front() else { return };
        match self.outgoing.on_ack(&ack) {
            AckEffect::Refused(refusal) => panic!("an honest receiver was refused: {refusal}"),
            AckEffect::Finished => {
                self.finished = true;
                self.acknowledged = self.outgoing.next_sequence();
            }
            AckEffect::Progress { acknowledged } => self.acknowledged = acknowledged,
            AckEffect::Ignored => {}
        }
    }

    fn cut(&mut self, acks_too: bool) {
        self.open = false;
        self.outgoing.on_stream_closed();
        self.wire.clear();
        if acks_too {
            self.acks.clear();
        }
    }

    fn crash_receiver(&mut self) {
        self.cut(true);
        self.unwritten.clear();
        let bytes = self.file.iter().map(|chunk| chunk.len() as u64).sum();
        let next = self.file.len() as u32;
        let last = self.file.len() == self.chunks.len();
        // Before any chunk there may be no file, and then START is new.
        self.incoming = if next == 0 && !self.end_durable {
            ReceiveWindow::new(u64::MAX)
        } else {
            ReceiveWindow::resume(u64::MAX, next, bytes, last, self.end_durable)
        };
    }

    /// A network that works from now on, and a sender that reconnects when nothing moves.
    fn settle(&mut self) {
        self.incoming.set_allowance(None);
        for _ in 0..4 * self.chunks.len() + 16 {
            if self.finished {
                return;
            }
            self.apply(StreamStep::Open);
            let before = self.outgoing.next_sequence();
            let acks = self.acks.len();
            for step in [
                StreamStep::Push(70),
                StreamStep::Send(70),
                StreamStep::Deliver(140),
                StreamStep::Write(70),
                StreamStep::Ack,
            ] {
                self.apply(step);
            }
            let stuck = before == self.outgoing.next_sequence() && acks == self.acks.len();
            self.apply(StreamStep::DeliverAcks(u8::MAX));
            if stuck && !self.finished {
                self.apply(StreamStep::Cut { acks_too: false });
            }
        }
        panic!("the artifact never finished");
    }
}

fn ack(id: &str, next: u32) -> AckPayload {
    AckPayload {
        acknowledged_envelope_id: id.into(),
        next_sequence: Some(next as i32),
        ..AckPayload::default()
    }
}

proptest! {
    #[test]
    fn every_byte_arrives_once_in_order(
        sizes in proptest::collection::vec(0..600usize, 1..300),
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut world = StreamModel::new(&sizes);
        for step in steps {
            world.apply(step);
        }
        world.settle();
        prop_assert!(world.end_durable);
        prop_assert_eq!(&world.file, &world.chunks);
    }
}
