//! Streamed artifacts: the pure ends of `delivery::artifact` between a pump for each sender and an
//! append-only file for each artifact received. The pump does what `engine::artifacts` does, without its
//! tasks and channels.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use agentanycast_proto::v1::{
    AckPayload, StreamChunk, StreamEnd, StreamEndReason, StreamStart, a2a_envelope::Payload,
};
use bytes::Bytes;
use prost::Message as _;

use super::{
    agent::StepCall,
    daemon::{CallAnswer, CallValue},
    history::CallFate,
    network::StreamUse,
    pending_call::PendingCall,
    rng::SimRng,
    simulator::Simulator,
};
use crate::{StreamRoute, trace_context::TraceContext, wire::envelope};
use crate::{
    delivery::artifact::{AckEffect, ReceiveWindow, SendWindow, StreamFrame, StreamVerdict},
    task::StreamOutcome,
};

/// Without any acknowledgement for this long the stream is opened anew.
const SILENCE: Duration = Duration::from_secs(15);

/// How long the end of a broken-off artifact is tried to be delivered.
const LAST_WORDS: Duration = Duration::from_mins(1);

type ArtifactKey = (String, String);

struct SimSender {
    number: u64,
    agent: usize,
    life: u64,
    key: ArtifactKey,
    to: usize,
    state: SendWindow,
    left: VecDeque<Bytes>,
    pushed: Vec<u8>,
    reason: Option<StreamEndReason>,
    /// Its agent went away at this time.
    broken: Option<Duration>,
    /// None: no stream; false: opening.
    open: Option<bool>,
    heard_at: Duration,
    finished: bool,
}

#[derive(Default)]
struct SimFile {
    chunks: Vec<Bytes>,
    last: bool,
    end: Option<StreamEndReason>,
}

#[derive(Default)]
pub(super) struct ArtifactStreams {
    senders: Vec<SimSender>,
    receivers: BTreeMap<ArtifactKey, (usize, ReceiveWindow)>,
    files: BTreeMap<ArtifactKey, SimFile>,
}

impl ArtifactStreams {
    /// The process dies; a power cut takes the end of what was not synced with it.
    pub(super) fn crash(&mut self, power_cut: bool, dice: &mut SimRng) {
        self.senders.clear();
        self.receivers.clear();
        for file in self
            .files
            .values_mut()
            .filter(|file| power_cut && file.end.is_none())
        {
            let left = dice.below(file.chunks.len() + 1);
            file.last &= left == file.chunks.len();
            file.chunks.truncate(left);
        }
    }

    pub(super) fn forget(&mut self, task: &str) {
        self.files.retain(|(id, _), _| id != task);
    }

    pub(super) fn content(&self, task: &str, artifact: &str) -> Option<(Vec<u8>, Option<StreamEndReason>)> {
        let file = self.files.get(&(task.to_owned(), artifact.to_owned()))?;
        Some((file.chunks.concat(), file.end))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.senders.is_empty()
    }
}

impl Simulator {
    /// The node took the artifact's opening: its content comes.
    pub(super) fn begin_stream(
        &mut self,
        at: usize,
        stepping: &StepCall,
        chunks: usize,
        route: &StreamRoute,
    ) {
        let key = (stepping.task.clone(), format!("stream-{}", stepping.message()));
        self.note(|| format!("node {at}: {chunks} chunks of {key:?} go by {route:?}"));
        let left: VecDeque<Bytes> = (0..chunks)
            .map(|at| format!("{at}-{};", "y".repeat(at % 7)).into())
            .collect();
        let number = self.number();
        let content: Vec<u8> = left.iter().flatten().copied().collect();
        if let Some(story) = self.history.tasks.get_mut(&key.0) {
            story.streams.push((key.1.clone(), content.clone(), None));
        }
        if let StreamRoute::Peer(_) = route {
            let start = StreamStart {
                task_id: key.0.clone(),
                artifact_id: key.1.clone(),
                ..StreamStart::default()
            };
            let to = self.history.tasks.get(&key.0).map_or(0, |story| story.origin);
            let heard_at = self.time;
            self.nodes[at].streams.senders.push(SimSender {
                number,
                agent: stepping.agent,
                life: stepping.life,
                key,
                to,
                state: SendWindow::start(start, format!("start-{number}")),
                left,
                pushed: Vec::new(),
                reason: None,
                broken: None,
                open: None,
                heard_at,
                finished: false,
            });
            return;
        }
        // Into the node's own files, at one go.
        let bytes = content.len() as u64;
        let file = SimFile {
            last: true,
            end: Some(StreamEndReason::Complete),
            chunks: left.into(),
        };
        self.nodes[at].streams.files.insert(key.clone(), file);
        self.keep_end_of_stream(at, &key, stepping.agent, stepping.life, bytes);
    }

    fn keep_end_of_stream(
        &mut self,
        at: usize,
        (task, artifact): &ArtifactKey,
        agent: usize,
        life: u64,
        bytes: u64,
    ) {
        let what = PendingCall::StreamKept {
            agent,
            life,
            task: task.clone(),
        };
        let call = self.call(at, what, |core, _| {
            core.end_stream(task, artifact, StreamOutcome::Complete, bytes)
                .map(|()| CallValue::Nothing)
        });
        if let Some(story) = self.history.tasks.get_mut(task) {
            let sent = story.streams.iter_mut().find(|(known, ..)| known == artifact);
            if let Some((.., kept)) = sent {
                *kept = Some(call);
            }
        }
    }

    pub(super) fn stream_kept(
        &mut self,
        at: usize,
        agent: usize,
        life: u64,
        task: &str,
        answer: &CallAnswer,
    ) {
        self.stream_step_over(at, agent, life, task, answer.is_ok());
    }

    /// What a task whose originator does not know streams has to be completed with as well.
    pub(super) fn streamed_whole(&mut self, at: usize, task: &str) -> Vec<(String, String)> {
        let whole = self.input(at, |core, _| Ok(core.streams_to_send_whole(task)));
        let whole = whole.and_then(Result::ok).unwrap_or_default();
        let plane = &self.nodes[at].streams;
        whole
            .into_iter()
            .filter_map(|streamed| {
                let (content, _) = plane.content(task, &streamed.artifact_id)?;
                Some((streamed.artifact_id, String::from_utf8(content).ok()?))
            })
            .collect()
    }

    /// An agent is gone: what it was streaming ends with an error.
    pub(super) fn break_off_streams_of(&mut self, at: usize, agent: usize) {
        let time = self.time;
        for sender in &mut self.nodes[at].streams.senders {
            if sender.agent == agent && sender.broken.is_none() {
                sender.broken = Some(time);
            }
        }
    }

    pub(super) fn streams_act(&mut self, at: usize) {
        if !self.nodes[at].daemon.is_running() {
            return;
        }
        let count = self.nodes[at].streams.senders.len();
        if count > 0 {
            let which = self.rng.below(count);
            let frames = 1 + self.rng.below(40);
            self.pump(at, which, frames);
        }
    }

    pub(super) fn streams_act_on_all(&mut self, at: usize) {
        for which in (0..self.nodes[at].streams.senders.len()).rev() {
            self.pump(at, which, 100);
        }
    }

    fn pump(&mut self, at: usize, which: usize, frames: usize) {
        let (time, now) = (self.time, self.nodes[at].daemon.now(self.time));
        let sender = &mut self.nodes[at].streams.senders[which];
        let (number, to) = (sender.number, sender.to);
        if sender.finished {
            return self.finish_stream(at, which);
        }
        if sender
            .broken
            .is_some_and(|since| time.checked_sub(since).unwrap() > LAST_WORDS)
        {
            return self.give_stream_up(at, which);
        }
        match sender.open {
            None => {
                sender.open = Some(false);
                sender.heard_at = time;
                self.net.open(at, to, number, StreamUse::Artifact);
            }
            Some(false) => {}
            Some(true) if time.checked_sub(sender.heard_at).unwrap() > SILENCE => {
                sender.heard_at = time;
                self.net.close(at, to, number, StreamUse::Artifact);
            }
            Some(true) => {
                sender.fill();
                for _ in 0..frames {
                    let sender = &mut self.nodes[at].streams.senders[which];
                    let Some(frame) = sender.state.next_frame() else {
                        break;
                    };
                    let id = id_of(&frame);
                    let payload = sender.payload(frame);
                    let frame = envelope(id, now, payload, TraceContext::default()).encode_to_vec();
                    if !self.net.write(at, to, number, StreamUse::Artifact, frame.into()) {
                        self.net.close(at, to, number, StreamUse::Artifact);
                        break;
                    }
                }
            }
        }
    }

    fn finish_stream(&mut self, at: usize, which: usize) {
        let sender = self.nodes[at].streams.senders.remove(which);
        self.note(|| format!("node {at}: {:?} is sent", sender.key));
        if sender.reason == Some(StreamEndReason::Complete) {
            self.keep_end_of_stream(
                at,
                &sender.key,
                sender.agent,
                sender.life,
                sender.pushed.len() as u64,
            );
        } else {
            self.end_here(at, &sender.key, StreamOutcome::Error);
        }
    }

    /// The artifact cannot be sent: the task says so, and its originator hears of it by the queue.
    fn give_stream_up(&mut self, at: usize, which: usize) {
        let sender = self.close_sender(at, which);
        self.break_off(at, &sender.key);
        self.stream_step_over(at, sender.agent, sender.life, &sender.key.0, false);
    }

    fn close_sender(&mut self, at: usize, which: usize) -> SimSender {
        let sender = self.nodes[at].streams.senders.remove(which);
        self.note(|| format!("node {at}: {:?} is given up", sender.key));
        self.net.close(at, sender.to, sender.number, StreamUse::Artifact);
        sender
    }

    fn end_here(&mut self, at: usize, (task, artifact): &ArtifactKey, outcome: StreamOutcome) {
        self.call(at, PendingCall::Nobody, |core, _| {
            core.end_stream(task, artifact, outcome, 0)
                .map(|()| CallValue::Nothing)
        });
    }

    fn break_off(&mut self, at: usize, (task, artifact): &ArtifactKey) {
        self.call(at, PendingCall::Nobody, |core, now| {
            core.break_off_stream(now, task, artifact, "it broke off")
                .map(|()| CallValue::Nothing)
        });
    }

    /// A stream of an artifact opened, or is gone.
    pub(super) fn artifact_stream(&mut self, at: usize, number: u64, opened: bool) {
        let senders = &mut self.nodes[at].streams.senders;
        if let Some(sender) = senders.iter_mut().find(|sender| sender.number == number) {
            if opened && sender.open == Some(false) {
                sender.open = Some(true);
                sender.state.on_stream_opened();
            } else if !opened {
                sender.open = None;
                sender.state.on_stream_closed();
            }
        }
    }

    pub(super) fn stream_ack(&mut self, at: usize, from: usize, ack: &AckPayload) {
        let time = self.time;
        let mut refused = None;
        for (which, sender) in self.nodes[at].streams.senders.iter_mut().enumerate() {
            if sender.to != from {
                continue;
            }
            match sender.state.on_ack(ack) {
                AckEffect::Ignored => continue,
                AckEffect::Progress { .. } => sender.heard_at = time,
                AckEffect::Finished => sender.finished = true,
                AckEffect::Refused(refusal) => refused = Some((which, refusal)),
            }
            break;
        }
        if let Some((which, refusal)) = refused {
            self.note(|| format!("node {at}: an artifact is refused: {refusal}"));
            self.give_stream_up(at, which);
        }
    }

    /// The task ended: its artifacts go nowhere, and what came of them is closed.
    pub(super) fn stop_streams(&mut self, at: usize, task: &str, incoming: Vec<String>) {
        let plane = &mut self.nodes[at].streams;
        let stopped: Vec<u64> = plane
            .senders
            .iter()
            .filter(|sender| sender.key.0 == task)
            .map(|sender| sender.number)
            .collect();
        let receiving: Vec<ArtifactKey> = plane
            .receivers
            .keys()
            .filter(|key| key.0 == task)
            .cloned()
            .collect();
        for number in stopped {
            let senders = &self.nodes[at].streams.senders;
            if let Some(which) = senders.iter().position(|sender| sender.number == number) {
                let sender = self.close_sender(at, which);
                self.end_here(at, &sender.key, StreamOutcome::Canceled);
                self.stream_step_over(at, sender.agent, sender.life, &sender.key.0, false);
            }
        }
        let without_receiver = incoming.into_iter().map(|artifact| (task.to_owned(), artifact));
        let stopped: BTreeSet<ArtifactKey> = receiving.into_iter().chain(without_receiver).collect();
        for key in stopped {
            self.nodes[at].streams.receivers.remove(&key);
            self.end_file(at, &key, StreamEndReason::Canceled, PendingCall::Nobody);
        }
    }

    pub(super) fn stream_accepted(&mut self, at: usize, peer: usize, start: &StreamStart, envelope: String) {
        let key = (start.task_id.clone(), start.artifact_id.clone());
        self.receive(at, peer, &key);
        let plane = &mut self.nodes[at].streams;
        let Some((_, incoming)) = plane.receivers.get_mut(&key) else {
            return;
        };
        let verdict = incoming.on_start(&envelope, start.encoded_len());
        let next = incoming.next_sequence();
        plane.files.entry(key).or_default();
        match verdict {
            StreamVerdict::Reject(reject) => {
                self.answer_piece(at, peer, envelope, Some(&reject.to_string()), None);
            }
            _ => self.answer_piece(at, peer, envelope, None, Some(next)),
        }
    }

    /// Begins to receive an artifact, or goes on where its file ends.
    fn receive(&mut self, at: usize, peer: usize, key: &ArtifactKey) {
        let plane = &mut self.nodes[at].streams;
        let resumed = match plane.files.get(key) {
            None => ReceiveWindow::new(u64::MAX),
            Some(file) => {
                let bytes = file.chunks.iter().map(|chunk| chunk.len() as u64).sum();
                let next = file.chunks.len() as u32;
                ReceiveWindow::resume(u64::MAX, next, bytes, file.last, file.end.is_some())
            }
        };
        plane.receivers.entry(key.clone()).or_insert((peer, resumed)).0 = peer;
    }

    pub(super) fn stream_piece(&mut self, at: usize, peer: usize, envelope: String, payload: Payload) {
        match payload {
            Payload::StreamChunk(chunk) => self.stream_chunk(at, peer, &envelope, chunk),
            Payload::StreamEnd(end) => {
                let key = (end.task_id.clone(), end.artifact_id.clone());
                self.receive(at, peer, &key);
                let plane = &mut self.nodes[at].streams;
                let Some((_, incoming)) = plane.receivers.get_mut(&key) else {
                    return;
                };
                if end.reason() != StreamEndReason::Complete && !plane.files.contains_key(&key) {
                    incoming.on_start("", 0);
                }
                if let StreamVerdict::Reject(reject) = incoming.on_end() {
                    self.answer_piece(at, peer, envelope, Some(&reject.to_string()), None);
                } else {
                    let then = PendingCall::EndKept {
                        key: key.clone(),
                        peer,
                        envelope,
                    };
                    self.end_file(at, &key, end.reason(), then);
                }
            }
            _ => {}
        }
    }

    fn stream_chunk(&mut self, at: usize, peer: usize, envelope: &str, chunk: StreamChunk) {
        let key = (chunk.task_id, chunk.artifact_id);
        let plane = &mut self.nodes[at].streams;
        let (Some((_, incoming)), Some(file)) = (plane.receivers.get_mut(&key), plane.files.get_mut(&key))
        else {
            return; // START comes first on every stream; its sender starts again.
        };
        match incoming.on_chunk(envelope, chunk.sequence, chunk.data.len(), chunk.is_last) {
            StreamVerdict::Accept => {
                file.chunks.push(chunk.data);
                file.last = chunk.is_last;
                incoming.on_written(file.chunks.len() as u32);
            }
            StreamVerdict::Duplicate => {}
            StreamVerdict::Reject(reject) => {
                return self.answer_piece(at, peer, envelope.to_owned(), Some(&reject.to_string()), None);
            }
        }
        if let Some(ack) = incoming.ack_due() {
            self.answer_piece(at, peer, ack.envelope_id, None, Some(ack.next_sequence));
        }
    }

    /// Silence: what is written is acknowledged, due or not.
    pub(super) fn flush_acks(&mut self, at: usize) {
        let plane = &mut self.nodes[at].streams;
        let due: Vec<_> = plane
            .receivers
            .values_mut()
            .filter_map(|(peer, incoming)| Some((*peer, incoming.flush()?)))
            .collect();
        for (peer, ack) in due {
            self.answer_piece(at, peer, ack.envelope_id, None, Some(ack.next_sequence));
        }
    }

    /// The end becomes durable: first in the file, then in the task; then it is acknowledged.
    fn end_file(&mut self, at: usize, key: &ArtifactKey, reason: StreamEndReason, then: PendingCall) {
        let file = self.nodes[at].streams.files.entry(key.clone()).or_default();
        let reason = *file.end.get_or_insert(reason);
        let bytes = file.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let ended = match reason {
            StreamEndReason::Complete => StreamOutcome::Complete,
            StreamEndReason::Canceled => StreamOutcome::Canceled,
            _ => StreamOutcome::Error,
        };
        self.call(at, then, |core, _| {
            core.end_stream(&key.0, &key.1, ended, bytes)
                .map(|()| CallValue::Nothing)
        });
    }

    pub(super) fn end_kept(&mut self, at: usize, key: &ArtifactKey, peer: usize, envelope: String) {
        let plane = &mut self.nodes[at].streams;
        plane.receivers.remove(key);
        let next = plane.files.get(key).map(|file| file.chunks.len() as u32);
        if !envelope.is_empty() {
            self.answer_piece(at, peer, envelope, None, next);
        }
    }

    fn answer_piece(
        &mut self,
        at: usize,
        peer: usize,
        envelope: String,
        refused: Option<&str>,
        next: Option<u32>,
    ) {
        let peer = self.peer_of(peer);
        self.call(at, PendingCall::Nobody, |core, now| {
            let next = next.and_then(|next| i32::try_from(next).ok());
            core.ack_stream(now, peer, envelope, refused, next);
            Ok(CallValue::Nothing)
        });
    }

    /// Every artifact that is shown as complete has the very bytes that were sent.
    pub(super) fn check_streams(
        &mut self,
        at: usize,
        id: &str,
        shown: &[(String, Option<StreamOutcome>, u64)],
    ) {
        let Some(story) = self.history.tasks.get(id) else {
            return;
        };
        let mut problems = Vec::new();
        for (artifact, ended, bytes) in shown {
            let sent = story.streams.iter().find(|(known, ..)| known == artifact);
            let kept = self.nodes[at].streams.content(id, artifact);
            match (ended, sent) {
                (None, _) => problems.push(format!("{artifact} never ended")),
                (Some(StreamOutcome::Complete), None) => {
                    problems.push(format!("{artifact} was never sent whole"));
                }
                (Some(StreamOutcome::Complete), Some((_, content, _))) => {
                    let file = (at == story.target && !story.is_own()).then(|| content.clone());
                    let kept = kept.map(|(kept, _)| kept).or(file);
                    if kept.as_ref() != Some(content) || *bytes != content.len() as u64 {
                        problems.push(format!("{artifact} has other content"));
                    }
                }
                (Some(ended), Some((.., Some(call))))
                    if self.history.fate(*call) == CallFate::Done && at == story.target =>
                {
                    problems.push(format!("{artifact} was sent whole and is {ended:?}"));
                }
                _ => {}
            }
        }
        for problem in problems {
            self.history.wrong(format!("{id} at node {at}: {problem}"));
        }
    }
}

impl SimSender {
    /// Takes from the agent what there is room for.
    fn fill(&mut self) {
        while self.state.has_room() && self.broken.is_none() {
            let Some(chunk) = self.left.pop_front() else { break };
            let next = self.state.next_sequence();
            self.pushed.extend_from_slice(&chunk);
            let id = format!("chunk-{}-{next}", self.number);
            let pushed = self.state.push_chunk(id, chunk, self.left.is_empty());
            assert!(pushed.is_ok(), "{pushed:?}");
        }
        if self.reason.is_none() && (self.left.is_empty() || self.broken.is_some()) {
            let whole = self.broken.is_none();
            let reason = if whole {
                StreamEndReason::Complete
            } else {
                StreamEndReason::Error
            };
            self.reason = Some(reason);
            let ended = self.state.end(format!("end-{}", self.number), reason, "");
            assert!(ended.is_ok(), "{ended:?}");
        }
    }

    fn payload(&self, frame: StreamFrame) -> Payload {
        let (task_id, artifact_id) = self.key.clone();
        match frame {
            StreamFrame::Start { .. } => Payload::StreamStart(self.state.stream_start().clone()),
            StreamFrame::Chunk {
                sequence,
                data,
                is_last,
                ..
            } => Payload::StreamChunk(StreamChunk {
                task_id,
                artifact_id,
                sequence: sequence as i32,
                data,
                is_last,
            }),
            StreamFrame::End {
                reason,
                error_message,
                ..
            } => Payload::StreamEnd(StreamEnd {
                task_id,
                artifact_id,
                reason: reason as i32,
                error_message,
            }),
        }
    }
}

fn id_of(frame: &StreamFrame) -> String {
    match frame {
        StreamFrame::Start { id } | StreamFrame::Chunk { id, .. } | StreamFrame::End { id, .. } => id.clone(),
    }
}
